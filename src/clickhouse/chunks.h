#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace partforge::clickhouse {

struct RowRange {
  int64_t begin = 0, end = 0;  // half-open, of _part_offset
  int64_t row_count() const { return end - begin; }
  bool operator==(const RowRange&) const = default;
};

inline constexpr int64_t kChunksMax = 20;
inline constexpr int64_t kChunksMaxWhenShrinking = int64_t{20} * 8;  // §9.4, last resort

// Splits [0, rows) into chunks for INSERT SELECT, sizes differing by at most one row
// (clickhouse-parts §9 step 9). chunk_rows_min = 0 disables chunking. Never returns an empty range:
// no rows give no ranges; at most kChunksMax ranges.
std::vector<RowRange> PlanChunks(int64_t rows, int64_t chunk_rows_min);
// Splits `range` into exactly min(count, rows) ranges by the same rule.
std::vector<RowRange> SplitRange(RowRange range, int64_t count);

// The value of the setting `additional_table_filters` that restricts every read of the table to
// `range` (§9.2):
// {'db.table': '_part_offset >= 0 AND _part_offset < 10'} with the names escaped inside the
// literal.
std::string ChunkFilter(std::string_view database, std::string_view table, RowRange range);

}  // namespace partforge::clickhouse
