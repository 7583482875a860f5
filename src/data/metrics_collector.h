#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "data/column_metrics.h"

namespace arrow {
class RecordBatch;
class Schema;
}  // namespace arrow

namespace partforge::data {

namespace internal {
struct MetricsColumn;
}  // namespace internal

// Counts and bounds of the rows that go through, for formats whose files keep none (Avro) and for
// rows that are encoded anyway. Exact bounds, never cut. One thread at a time.
//
// A leaf below a null struct counts as null. Below lists and maps leaf values are counted, without
// bounds. Bounds are kept for booleans, signed integers, unsigned ones up to 32 bits, floats (NaN
// is none), decimals of 128 bits, dates, times, timestamps, strings and bytes. Compressed sizes
// stay unknown.
class MetricsCollector {
 public:
  explicit MetricsCollector(const arrow::Schema& schema);
  ~MetricsCollector();
  MetricsCollector(MetricsCollector&&) noexcept;
  MetricsCollector& operator=(MetricsCollector&&) noexcept;

  // kInvalidArgument when the columns are not those of the schema.
  Status Add(const arrow::RecordBatch& batch);
  // What was seen so far; leaf columns depth first, ids from field metadata "PARQUET:field_id".
  FileMetrics Metrics() const;

 private:
  std::vector<internal::MetricsColumn> columns_;
  std::vector<std::unique_ptr<ColumnMetrics>> leaves_;
  int64_t row_count_ = 0;
};

}  // namespace partforge::data
