#include "clickhouse/chunks.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/sql_text.h"

namespace partforge::clickhouse {

std::vector<RowRange> SplitRange(RowRange range, int64_t count) {
  const int64_t rows = range.row_count();
  if (rows <= 0) return {};
  count = std::clamp<int64_t>(count, 1, std::min(rows, kChunksMaxWhenShrinking));
  std::vector<RowRange> ranges;
  for (int64_t i = 0; i < count; ++i) {
    // floor(rows·i/count), as rows = q·count + r so that nothing overflows
    const auto cut = [&](int64_t k) {
      return range.begin + rows / count * k + rows % count * k / count;
    };
    ranges.push_back({.begin = cut(i), .end = cut(i + 1)});
  }
  return ranges;
}

std::vector<RowRange> PlanChunks(int64_t rows, int64_t chunk_rows_min) {
  const int64_t wanted = chunk_rows_min <= 0 ? 1 : rows / chunk_rows_min;
  return SplitRange({.begin = 0, .end = rows}, std::clamp<int64_t>(wanted, 1, kChunksMax));
}

std::string ChunkFilter(std::string_view database, std::string_view table, RowRange range) {
  // The key names the table as ClickHouse prints it; the parser of the setting unquotes it once.
  const std::string name = fmt::format("{}.{}", database, table);
  const std::string filter =
      fmt::format("_part_offset >= {} AND _part_offset < {}", range.begin, range.end);
  return fmt::format("{{{}: {}}}", QuoteString(name), QuoteString(filter));
}

}  // namespace partforge::clickhouse
