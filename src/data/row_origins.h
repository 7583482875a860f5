#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "data/rewrite_plan.h"

namespace partforge::data {

// Which rows of the inputs the rows of rewritten files are: every way of rewriting keeps the live
// rows of the inputs in their order. Immutable; the inputs outlive it.
class RowOrigins {
 public:
  explicit RowOrigins(const std::vector<RewriteInput>& inputs);

  // Of all inputs, without those that are deleted.
  int64_t row_count() const { return ends_.empty() ? 0 : ends_.back(); }

  // Rows of one row group of an input.
  struct Piece {
    GroupRef group;
    std::vector<RowRun> rows;  // of the row group
    int64_t row_count = 0;
  };
  // Rows [begin, begin + count) of all outputs, one after the other: as many of them as lie in the
  // first `pieces_max` row groups.
  std::vector<Piece> Find(int64_t begin, int64_t count, size_t pieces_max) const;

 private:
  // The position in the input of its live row number `live`.
  int64_t PositionOf(size_t input, int64_t live) const;

  const std::vector<RewriteInput>& inputs_;
  std::vector<int64_t> ends_;  // by input: live rows of it and those before
};

}  // namespace partforge::data
