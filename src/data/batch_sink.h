#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/context.h"
#include "data/column_metrics.h"
#include "store/object_store.h"

namespace arrow {
class RecordBatch;
class Schema;
}  // namespace arrow

namespace partforge::data {

class ParquetAssembler;

// A file that is complete and durable.
struct WrittenFile {
  std::string key;  // of the object; set by RollingSink
  int64_t size_bytes = 0;
  int64_t row_count = 0;
  FileMetrics metrics;
  std::vector<int64_t> split_offsets;  // where row groups, stripes or blocks begin; may be empty
};

// Rows that are Parquet-encoded already: a row group of another file, or a run of them joined.
// Immutable.
class EncodedRows {
 public:
  virtual ~EncodedRows() = default;
  virtual int64_t row_count() const = 0;
  virtual int64_t bytes_estimated() const = 0;
  // Writes one row group.
  virtual Status WriteTo(const Context& ctx, ParquetAssembler& file) const = 0;
};

// One file being written. One thread at a time; nothing is visible before Close. Dropping a sink
// that was not closed leaves no object.
class BatchSink {
 public:
  virtual ~BatchSink() = default;
  virtual const std::shared_ptr<arrow::Schema>& schema() const = 0;
  virtual Status Write(const Context& ctx, const arrow::RecordBatch& batch) = 0;
  // After what was written so far. kRefused for formats without row groups that can be copied.
  virtual Status AppendEncoded(const Context& ctx, const EncodedRows& rows) = 0;
  virtual int64_t row_count() const = 0;
  // Bytes of the file if it were closed now, about: what decides when to roll.
  virtual int64_t bytes_estimated() const = 0;
  // False when the file cannot take more, whatever its size (row groups are numbered by 16 bits).
  virtual bool has_room() const { return true; }
  // Writes the footer and makes the object visible and durable.
  virtual Result<WrittenFile> Close(const Context& ctx) = 0;
};

struct RollingLimits {
  int64_t size_bytes = int64_t{512} << 20;  // a file is closed at the first batch beyond
  int64_t rows = INT64_MAX;                 // exact: batches are cut
};

// Writes a stream into as many files as the limits want, each made by the factory under a name of
// its own when the first row for it comes. One thread at a time.
class RollingSink {
 public:
  struct Opened {
    std::string key;
    std::unique_ptr<BatchSink> sink;
  };
  using Factory = std::function<Result<Opened>(const Context&, int64_t file_number)>;

  RollingSink(ObjectStore& store, Factory factory, RollingLimits limits)
      : store_(store), factory_(std::move(factory)), limits_(limits) {}

  Status Write(const Context& ctx, const arrow::RecordBatch& batch);
  Status AppendEncoded(const Context& ctx, const EncodedRows& rows);
  // Makes a file although no row may come.
  Status Begin(const Context& ctx);
  // Closes the last file. What was written, in order; no file when no row came.
  Result<std::vector<WrittenFile>> Close(const Context& ctx);
  // Ends the current file now; the next row begins another.
  Status Cut(const Context& ctx);
  // Drops the open file and deletes those that are closed. Call it when a write failed, or when
  // what was closed is not wanted.
  Status Abort(const Context& ctx);

  int64_t row_count() const { return row_count_; }

 private:
  bool IsFull() const;

  ObjectStore& store_;
  const Factory factory_;
  const RollingLimits limits_;
  std::string key_;
  std::unique_ptr<BatchSink> current_;  // null between files
  std::vector<WrittenFile> written_;
  int64_t file_number_ = 0;
  int64_t row_count_ = 0;
};

}  // namespace partforge::data
