#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/error.h"
#include "data/arrow_edge.h"
#include "data/bitmap.h"

namespace arrow {
class Array;
}  // namespace arrow

namespace partforge::data {

// Cuts ascending row ranges out of a stream of arrays that hold the rows of some runs, back to
// back. One thread at a time.
class FieldRows {
 public:
  // `next` gives the next array, null at the end.
  using NextArray = std::function<Result<std::shared_ptr<arrow::Array>>()>;
  FieldRows(std::vector<RowRun> rows, NextArray next)
      : rows_(std::move(rows)), next_(std::move(next)) {}

  // Rows [begin, begin + count), which must lie in the runs, not before rows taken already.
  // kCorruption when the stream ends before.
  Result<std::shared_ptr<arrow::Array>> Take(int64_t begin, int64_t count, ArrowMemory& memory);

 private:
  // How many rows of the runs lie before the row.
  int64_t PlaceOf(int64_t row);

  const std::vector<RowRun> rows_;
  const NextArray next_;
  size_t run_ = 0;  // where the last PlaceOf ended
  int64_t rows_before_run_ = 0;
  std::shared_ptr<arrow::Array> array_;
  int64_t array_begin_ = 0;  // place of its first row
};

}  // namespace partforge::data
