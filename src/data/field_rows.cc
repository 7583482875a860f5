#include "data/field_rows.h"

#include <arrow/array.h>
#include <arrow/array/concatenate.h>
#include <fmt/format.h>

#include <algorithm>

namespace partforge::data {

int64_t FieldRows::PlaceOf(int64_t row) {
  const auto at = static_cast<uint64_t>(row);
  while (run_ + 1 < rows_.size() && rows_[run_].end <= at) {
    rows_before_run_ += static_cast<int64_t>(rows_[run_].size());
    ++run_;
  }
  return rows_before_run_ + static_cast<int64_t>(at - rows_[run_].begin);
}

Result<std::shared_ptr<arrow::Array>> FieldRows::Take(int64_t begin, int64_t count,
                                                      ArrowMemory& memory) {
  arrow::ArrayVector pieces;
  int64_t place = PlaceOf(begin);
  while (count > 0) {
    if (array_ == nullptr || place >= array_begin_ + array_->length()) {
      array_begin_ += array_ == nullptr ? 0 : array_->length();
      PF_ASSIGN(array_, next_());
      if (array_ == nullptr) {
        return Status(Code::kCorruption, fmt::format("pages end {} rows too early", count));
      }
      continue;
    }
    const int64_t from = place - array_begin_;
    const int64_t taken = std::min(count, array_->length() - from);
    pieces.push_back(array_->Slice(from, taken));
    place += taken;
    count -= taken;
  }
  if (pieces.size() == 1) return pieces[0];
  PF_ARROW_ASSIGN(auto joined, arrow::Concatenate(pieces, memory.pool()));
  return joined;
}

}  // namespace partforge::data
