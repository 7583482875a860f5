#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "base/context.h"
#include "data/batch_source.h"

namespace partforge::data {

// Rows of some sources, one after the other, each opened when its turn comes. One thread at a time.
class RowsInOrder {
 public:
  using Opener = std::function<Result<std::unique_ptr<BatchSource>>(size_t)>;
  RowsInOrder(size_t count, Opener open);
  ~RowsInOrder();

  // A batch with rows from begin() on; null at the end.
  Result<const arrow::RecordBatch*> Look(const Context& ctx);
  int64_t begin() const { return begin_; }
  void Pass(int64_t rows) { begin_ += rows; }

 private:
  const size_t count_;
  const Opener open_;
  size_t next_ = 0;
  std::unique_ptr<BatchSource> source_;
  std::shared_ptr<arrow::RecordBatch> batch_;
  int64_t begin_ = 0;
};

// Compares all rows in their order, NaN being equal to NaN; all sources must have one schema.
// Returns how many rows there are; kInternal, with `what`, the column and the rows, where the two
// differ.
Result<int64_t> CompareRows(const Context& ctx, RowsInOrder& wanted, RowsInOrder& found,
                            std::string_view what);

}  // namespace partforge::data
