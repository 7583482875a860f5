#include "data/row_compare.h"

#include <arrow/array.h>
#include <arrow/compare.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <fmt/format.h>

#include <algorithm>

namespace partforge::data {

RowsInOrder::RowsInOrder(size_t count, Opener open) : count_(count), open_(std::move(open)) {}
RowsInOrder::~RowsInOrder() = default;

Result<const arrow::RecordBatch*> RowsInOrder::Look(const Context& ctx) {
  while (batch_ == nullptr || begin_ == batch_->num_rows()) {
    if (source_ == nullptr) {
      if (next_ == count_) return nullptr;
      PF_ASSIGN(source_, open_(next_++));
    }
    begin_ = 0;
    PF_ASSIGN(batch_, source_->Next(ctx));
    if (batch_ == nullptr) source_.reset();
  }
  return batch_.get();
}

Result<int64_t> CompareRows(const Context& ctx, RowsInOrder& wanted, RowsInOrder& found,
                            std::string_view what) {
  const auto equality = arrow::EqualOptions::Defaults().nans_equal(true);
  for (int64_t row = 0;;) {
    PF_TRY(ctx.CheckStop("comparing the rows"));
    PF_ASSIGN(const arrow::RecordBatch* const a, wanted.Look(ctx));
    PF_ASSIGN(const arrow::RecordBatch* const b, found.Look(ctx));
    if (a == nullptr && b == nullptr) return row;
    if (a == nullptr || b == nullptr) {
      return Status(Code::kInternal,
                    fmt::format("{}: the inputs and the output differ in their number of rows from "
                                "row {} on",
                                what, row));
    }
    const int64_t count = std::min(a->num_rows() - wanted.begin(), b->num_rows() - found.begin());
    for (int i = 0; i < a->num_columns(); ++i) {
      if (a->column(i)->RangeEquals(*b->column(i), wanted.begin(), wanted.begin() + count,
                                    found.begin(), equality)) {
        continue;
      }
      return Status(Code::kInternal,
                    fmt::format("{}: column {} of the output differs from the inputs between rows "
                                "{} and {}",
                                what, a->schema()->field(i)->name(), row, row + count));
    }
    wanted.Pass(count);
    found.Pass(count);
    row += count;
  }
}

}  // namespace partforge::data
