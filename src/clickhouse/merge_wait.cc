#include "clickhouse/merge_wait.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/clickhouse_codes.h"
#include "engine/sql_text.h"

namespace partforge::clickhouse {
namespace {

constexpr int64_t kPollMs = 1000;
// The engine looks for merges this often (merge_selecting_sleep_ms), so its first choice is seen by
// then.
constexpr int64_t kFirstChoiceMs = 2 * kMergeSelectingSleepMs;
constexpr int64_t kSourcePartsMax =
    100;  // more at once only cost memory (clickhouse-parts §10.4: vertical merges stop at 127)

Status SetMergeSettings(const Context& ctx, Engine& engine, const TableName& table,
                        const MergeWaitRequest& request) {
  const Tuning& tuning = request.tuning;
  PF_TRY(engine.Query(
      ctx,
      fmt::format("ALTER TABLE {} MODIFY SETTING merge_max_block_size = {}, "
                  "merge_max_block_size_bytes = {}, "
                  "merge_selecting_sleep_ms = {}, max_bytes_to_merge_at_max_space_in_pool = {}, "
                  "max_bytes_to_merge_at_min_space_in_pool = {}, "
                  "max_number_of_merges_with_ttl_in_pool = {}",
                  QuoteTable(table.database, table.table), tuning.merge_max_block_size_rows,
                  tuning.merge_max_block_size_bytes, kMergeSelectingSleepMs, kMergeBytesMax,
                  kMergeBytesMax, request.applies_ttl ? 2 : 0),
      {}));
  return {};
}

// One merge a partition, started by OPTIMIZE so that it begins at once; waited for like any other
// merge.
Status MergePartitions(const Context& ctx, Engine& engine, const TableName& table,
                       const PartitionMap& partitions, const MergeWaitRequest& request) {
  const int64_t started_ms = MonotonicMs();
  for (const auto& [id, stats] : partitions) {
    if (stats.parts < 2 && !request.applies_ttl) continue;
    PF_TRY(ctx.CheckStop("merging"));
    if (MonotonicMs() - started_ms >= request.runtime_ms_max) return {};
    const bool fits_one = stats.parts <= kSourcePartsMax && stats.bytes <= kMergeBytesMax;
    if (!fits_one) continue;  // left to the engine's own choice while the wait lasts
    const QueryOptions options{
        .settings = {{"optimize_throw_if_noop", "0"}, {"optimize_skip_merged_partitions", "0"}}};
    PF_TRY(engine.Query(ctx,
                        fmt::format("OPTIMIZE TABLE {} PARTITION ID {} FINAL",
                                    QuoteTable(table.database, table.table), QuoteString(id)),
                        options));
  }
  return {};
}

bool IsMerged(const PartitionMap& partitions) {
  return std::all_of(partitions.begin(), partitions.end(),
                     [](const auto& one) { return one.second.parts < 2; });
}

}  // namespace

Result<MergeWaitOutcome> WaitForMerges(const Context& ctx, Engine& engine, LocalTables& tables,
                                       const MergeWaitRequest& request) {
  const int64_t started_ms = MonotonicMs();
  const TableName table = tables.destination();
  PF_TRY(SetMergeSettings(ctx, engine, table, request));
  PF_TRY(tables.StartDestinationMerges(ctx));
  MergeWaitOutcome outcome;
  PF_ASSIGN(outcome.partitions, tables.ActiveParts(ctx, table));
  if (request.merges_whole_partitions || request.applies_ttl) {
    const Status merged = MergePartitions(ctx, engine, table, outcome.partitions, request);
    if (!merged.ok() && FailureClassOf(merged) != FailureClass::kResource) return merged;
    Ignore(ctx, merged, "unmerged parts are a valid output");
    PF_ASSIGN(outcome.partitions, tables.ActiveParts(ctx, table));
  }
  const int64_t choice_until_ms = IsMerged(outcome.partitions) ? 0 : MonotonicMs() + kFirstChoiceMs;
  const std::string count_sql =
      fmt::format("SELECT count() FROM system.merges WHERE database = {} AND table = {}",
                  QuoteString(table.database), QuoteString(table.table));
  bool has_merged = false;
  while (true) {
    PF_TRY(ctx.CheckStop("waiting for merges"));
    const Result<int64_t> running = QueryInt(ctx, engine, count_sql, {});
    if (running.ok() && *running == 0 && (has_merged || MonotonicMs() >= choice_until_ms)) break;
    if (running.ok() && *running > 0) has_merged = true;
    if (!running.ok() && FailureClassOf(running.status()) != FailureClass::kResource) {
      Ignore(ctx, running.status(), "the parts that are there are the output");
      break;
    }
    if (MonotonicMs() - started_ms >= request.runtime_ms_max) {
      outcome.is_capped = true;
      break;
    }
    ctx.clock.SleepMs(kPollMs, ctx.stop);
  }
  PF_ASSIGN(outcome.partitions, tables.ActiveParts(ctx, table));
  outcome.took_ms = MonotonicMs() - started_ms;
  return outcome;
}

}  // namespace partforge::clickhouse
