#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/arrow_edge.h"
#include "data/parquet_sink.h"

namespace arrow {
class Array;
class RecordBatch;
class Schema;
}  // namespace arrow

namespace partforge::data {

// Encodes rows into one row group, held in memory as a Parquet file of its own. One thread at a
// time.
class RowGroupEncoder {
 public:
  virtual ~RowGroupEncoder() = default;
  // `sample` may be null; it decides which columns get a dictionary.
  static Result<std::unique_ptr<RowGroupEncoder>> Open(const std::shared_ptr<arrow::Schema>& schema,
                                                       const ParquetSinkOptions& options,
                                                       const arrow::RecordBatch* sample,
                                                       ArrowMemory& memory);
  virtual Status Write(const arrow::RecordBatch& batch) = 0;
  virtual int64_t row_count() const = 0;
  // Encoded bytes so far, with what is buffered for the page under way counted as it is.
  virtual int64_t bytes_estimated() const = 0;
  virtual Result<EncodedFile> Finish() = 0;
};

// Leaf arrays of a batch in the order of Parquet's leaves, without what null parents hide.
std::vector<std::shared_ptr<arrow::Array>> LeafArrays(const arrow::RecordBatch& batch,
                                                      ArrowMemory& memory);
// Whether a dictionary is worth it: at most a quarter of the values seen (64 Ki) are distinct.
bool WantsDictionary(const arrow::Array& leaf);
// NaNs among the values that are not null; none for a type that has no NaN.
std::optional<int64_t> CountNans(const arrow::Array& leaf);

}  // namespace partforge::data
