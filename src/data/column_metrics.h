#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "data/scalar.h"

namespace partforge::data {

// A bound of a column's values. Every value that is neither null nor NaN lies on the right side of
// it.
struct Bound {
  Scalar value;
  bool is_exact = true;  // the bound is a value of the column; only then may it answer MIN or MAX
};

// What is known about one leaf column of a file. Absent = unknown, never "none".
struct ColumnMetrics {
  int32_t field_id = -1;
  std::string path;          // dotted, as in the file's own schema
  bool is_repeated = false;  // below a list or map: counts leaf values, has no bounds
  std::optional<int64_t> compressed_bytes;
  std::optional<int64_t> value_count;  // nulls and NaNs included
  std::optional<int64_t> null_count;
  std::optional<int64_t> nan_count;  // float and double only
  std::optional<Bound> lower;
  std::optional<Bound> upper;

  // True when it is known that no value could have a bound: all are null or NaN.
  bool HasNoBoundedValue() const;
};

struct FileMetrics {
  int64_t row_count = 0;
  std::vector<ColumnMetrics> columns;  // leaf columns in schema order
};

// Adds the metrics of more rows of the same columns. Counts add, bounds widen; what one side does
// not know the result does not know. A zero bound of floats becomes -0.0 below and +0.0 above.
// kInvalidArgument when the columns differ in number or path.
Status MergeMetrics(FileMetrics& into, const FileMetrics& other);

// After rows were taken out without looking at values: bounds stay true but are no longer exact.
void MarkBoundsInexact(FileMetrics& metrics);

// Iceberg and Paimon: a float bound of zero is written as -0.0 below, +0.0 above. NaN is no bound:
// none.
std::optional<Bound> CleanLower(std::optional<Bound> bound);
std::optional<Bound> CleanUpper(std::optional<Bound> bound);

}  // namespace partforge::data
