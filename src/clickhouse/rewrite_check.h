#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/context.h"
#include "clickhouse/chunks.h"
#include "clickhouse/local_tables.h"

namespace partforge::clickhouse {

enum class VerifyMode : uint8_t { kNone, kCounts, kContent };  // --verify
Result<VerifyMode> ParseVerifyMode(std::string_view text);

struct RowCounts {
  int64_t written = 0;       // Σ written_rows of the inserts
  int64_t before_merge = 0;  // rows of the destination after the inserts
  int64_t produced = 0;      // rows of the parts that will be published
  std::string engine;        // destination engine, without Replicated
  bool is_ttl_applied = false;
};
// Conservation (clickhouse-parts §9.8, V2 and V4): a plain MergeTree holds every written row before
// and after merges; the collapsing families hold at most that many. kCorruption (PF2137) with all
// numbers otherwise. Pure.
Status CheckConservation(const RowCounts& counts, std::string_view part);
bool IsCollapsingEngine(std::string_view engine);

// V3: the ranges of a chunked insert cover every visible row of the source exactly once.
Status CheckRanges(const Context& ctx, LocalTables& tables, const std::vector<RowRange>& ranges,
                   int64_t visible_rows);

// V5: the order-free hash of the inserted columns equals that of the SELECT over the whole
// source part. The select is the user's, without the INSERT. Only for plain MergeTree.
struct ContentQuestion {
  std::string select;
  std::string current_database;
  std::vector<std::string> insert_columns;  // the INSERT's own list; empty = it has none
  int64_t memory_bytes_max = 0;
};
// kNotComparable: the SELECT gives other values each time it runs (now(), rand()); the counts
// agree.
enum class ContentAnswer : uint8_t { kEqual, kNotComparable };
Result<ContentAnswer> CheckContent(const Context& ctx, Engine& engine, LocalTables& tables,
                                   const ContentQuestion& question);

// V6: CHECK TABLE of the destination.
Status CheckTable(const Context& ctx, Engine& engine, const TableName& table);

}  // namespace partforge::clickhouse
