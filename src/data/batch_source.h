#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/context.h"

namespace arrow {
class RecordBatch;
class Schema;
}  // namespace arrow

namespace partforge::data {

// Rows as Arrow batches. One thread at a time.
class BatchSource {
 public:
  virtual ~BatchSource() = default;
  virtual const std::shared_ptr<arrow::Schema>& schema() const = 0;
  // The next batch, never empty; null at the end. Rows come in the order of the file or stream.
  virtual Result<std::shared_ptr<arrow::RecordBatch>> Next(const Context& ctx) = 0;
};

// Batches that are in memory already. All have the schema.
class MemoryBatches final : public BatchSource {
 public:
  MemoryBatches(std::shared_ptr<arrow::Schema> schema,
                std::vector<std::shared_ptr<arrow::RecordBatch>> batches);
  const std::shared_ptr<arrow::Schema>& schema() const override { return schema_; }
  Result<std::shared_ptr<arrow::RecordBatch>> Next(const Context& ctx) override;

 private:
  const std::shared_ptr<arrow::Schema> schema_;
  std::vector<std::shared_ptr<arrow::RecordBatch>> batches_;
  size_t next_ = 0;
};

// One source after the other. All must have the schema of the first; at least one.
class ConcatenatedBatches final : public BatchSource {
 public:
  explicit ConcatenatedBatches(std::vector<std::unique_ptr<BatchSource>> sources);
  const std::shared_ptr<arrow::Schema>& schema() const override;
  Result<std::shared_ptr<arrow::RecordBatch>> Next(const Context& ctx) override;

 private:
  std::vector<std::unique_ptr<BatchSource>> sources_;
  size_t current_ = 0;
};

}  // namespace partforge::data
