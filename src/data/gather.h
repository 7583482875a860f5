#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/error.h"
#include "data/arrow_edge.h"

namespace arrow {
class RecordBatch;
class Schema;
}  // namespace arrow

namespace partforge::data {

// Rows of some batches in an order of their own: what Gather makes one batch of. Every row may be a
// run of its own, so runs are small and no batch is counted more than once.
class RowRuns {
 public:
  struct Run {
    uint32_t batch = 0, begin = 0, count = 0;
  };

  // The number of a batch whose rows are to be added. It has fewer than 2^32 rows.
  uint32_t AddBatch(std::shared_ptr<arrow::RecordBatch> batch);
  // Rows [begin, begin + count) of the batch of that number; joined to the last run if they go on.
  void Add(uint32_t batch, int64_t begin, int64_t count) {
    if (count == 0) return;
    const auto from = static_cast<uint32_t>(begin), rows = static_cast<uint32_t>(count);
    row_count_ += count;
    if (!runs_.empty()) {
      Run& last = runs_.back();
      if (last.batch == batch && last.begin + last.count == from) {
        last.count += rows;
        return;
      }
    }
    runs_.push_back({.batch = batch, .begin = from, .count = rows});
  }
  void Clear();

  const std::vector<std::shared_ptr<arrow::RecordBatch>>& batches() const { return batches_; }
  std::span<const Run> runs() const { return runs_; }
  int64_t row_count() const { return row_count_; }

 private:
  std::vector<std::shared_ptr<arrow::RecordBatch>> batches_;
  std::vector<Run> runs_;
  int64_t row_count_ = 0;
};

// One batch of the rows, in their order. All batches have the schema. A single run is handed on
// without a copy. kExhausted when a string column passes 2 GiB or memory ends.
Result<std::shared_ptr<arrow::RecordBatch>> Gather(const std::shared_ptr<arrow::Schema>& schema,
                                                   const RowRuns& rows, ArrowMemory& memory);

}  // namespace partforge::data
