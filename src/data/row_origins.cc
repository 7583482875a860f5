#include "data/row_origins.h"

#include <algorithm>

namespace partforge::data {

RowOrigins::RowOrigins(const std::vector<RewriteInput>& inputs) : inputs_(inputs) {
  int64_t rows = 0;
  for (const RewriteInput& input : inputs) {
    const auto all = static_cast<uint64_t>(input.file->footer.num_rows());
    rows += static_cast<int64_t>(
        input.deleted == nullptr ? all : input.deleted->LiveRows({.begin = 0, .end = all}));
    ends_.push_back(rows);
  }
}

int64_t RowOrigins::PositionOf(size_t input, int64_t live) const {
  const RowFilter* const deleted = inputs_[input].deleted;
  if (deleted == nullptr) return live;
  // The first position with `live` live rows before it that is live itself.
  int64_t low = live, high = inputs_[input].file->footer.num_rows() - 1;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    const auto rows = static_cast<int64_t>(
        deleted->LiveRows({.begin = 0, .end = static_cast<uint64_t>(middle) + 1}));
    if (rows > live) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

std::vector<RowOrigins::Piece> RowOrigins::Find(int64_t begin, int64_t count,
                                                size_t pieces_max) const {
  std::vector<Piece> pieces;
  auto input =
      static_cast<size_t>(std::upper_bound(ends_.begin(), ends_.end(), begin) - ends_.begin());
  for (; count > 0 && input < inputs_.size(); ++input) {
    const int64_t before = input == 0 ? 0 : ends_[input - 1];
    if (ends_[input] == before) continue;
    const ParquetInput& file = *inputs_[input].file;
    const auto end = static_cast<uint64_t>(file.footer.num_rows());
    auto at = static_cast<uint64_t>(PositionOf(input, std::max<int64_t>(begin - before, 0)));
    while (count > 0 && at < end) {
      RowRun run{.begin = at, .end = end};
      if (inputs_[input].deleted != nullptr) {
        const auto live = inputs_[input].deleted->NextRun(at, end);
        if (!live) break;
        run = *live;
      }
      // The last row group that begins at or before the row; groups without rows begin there, too.
      const auto& firsts = file.first_rows;
      const auto group =
          std::upper_bound(firsts.begin(), firsts.end(), static_cast<int64_t>(run.begin)) -
          firsts.begin() - 1;
      const auto first = static_cast<uint64_t>(firsts[static_cast<size_t>(group)]);
      const GroupRef ref{.input = input, .row_group = static_cast<int>(group)};
      run.end = std::min({run.end, first + static_cast<uint64_t>(file.RowCount(ref.row_group)),
                          run.begin + static_cast<uint64_t>(count)});
      if (pieces.empty() || pieces.back().group != ref) {
        if (pieces.size() == pieces_max) return pieces;
        pieces.push_back({.group = ref, .rows = {}});
      }
      const auto rows = static_cast<int64_t>(run.size());
      pieces.back().rows.push_back({.begin = run.begin - first, .end = run.end - first});
      pieces.back().row_count += rows;
      count -= rows;
      at = run.end;
    }
  }
  return pieces;
}

}  // namespace partforge::data
