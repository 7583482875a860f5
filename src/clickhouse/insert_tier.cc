#include "clickhouse/insert_tier.h"

#include <fmt/format.h>

#include <algorithm>

namespace partforge::clickhouse {
namespace {

// Peak over raw bytes of one block among several: the next one is read while the last is sorted and
// written (10 million rows of 174 bytes: 4.3; a block that stands alone: 2.0).
constexpr double kSeveralBlocksFactor = 5;
constexpr int64_t kReadBlockRowsMax =
    16'777'216;  // larger max_block_size gains nothing (performance §1)

std::string Number(int64_t value) {
  return fmt::format("{}", value);
}

InsertState SeedState(const Tuning& tuning) {
  return InsertState{.tier = InsertTier::kSeed,
                     .block_rows = 0,
                     .rung = {.max_insert_threads = tuning.insert_threads,
                              .max_threads = tuning.insert_threads,
                              .max_block_size = 0}};
}

}  // namespace

std::string_view TierName(InsertTier tier) {
  switch (tier) {
    case InsertTier::kOneBlock:
      return "T5";
    case InsertTier::kManyInOne:
      return "T5b";
    case InsertTier::kBlocksAndMerge:
      return "T6";
    case InsertTier::kSeed:
      return "T8";
  }
  return "T8";
}

Result<std::optional<InsertTier>> ParseTier(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  using Tier = std::optional<InsertTier>;
  if (lower.empty() || lower == "auto") return Tier();
  if (lower == "t5" || lower == "one-block") return Tier(InsertTier::kOneBlock);
  if (lower == "t5b" || lower == "many-in-one") return Tier(InsertTier::kManyInOne);
  if (lower == "t6" || lower == "blocks") return Tier(InsertTier::kBlocksAndMerge);
  if (lower == "t8" || lower == "seed") return Tier(InsertTier::kSeed);
  return Status(Code::kInvalidArgument,
                fmt::format("tier is none of auto, T5, T5b, T6, T8 (seed): {}", text));
}

Tuning OrderedTuning(Tuning tuning) {
  tuning.insert_threads = 1;
  return tuning;
}

InsertPlan PlanInsert(const TierQuestion& question) {
  const BlockEstimate estimate = EstimateBlock(question.block);
  BlockQuestion several = question.block;
  several.factor = std::max(several.factor, kSeveralBlocksFactor);
  const int64_t several_rows = EstimateBlock(several).block_rows;
  const int64_t rows = question.block.rows;
  const bool is_gathered = question.source_parts > 1;
  InsertPlan plan;
  const InsertTier one_block = is_gathered ? InsertTier::kManyInOne : InsertTier::kOneBlock;
  const InsertTier natural = estimate.is_whole_part ? one_block : InsertTier::kBlocksAndMerge;
  // A part that found no company is rewritten as it would be without the wish.
  const bool is_forced =
      question.forced && (is_gathered || *question.forced != InsertTier::kManyInOne);
  const InsertTier tier = is_forced ? *question.forced : natural;
  plan.state = SeedState(question.tuning);
  if (tier != InsertTier::kSeed) {
    plan.state.tier = tier;
    plan.state.block_rows =
        tier == InsertTier::kBlocksAndMerge ? several_rows : std::max<int64_t>(rows, 1);
  }
  const bool may_split = question.is_chunk_safe && question.chunk_rows_min > 0 && !is_gathered;
  const bool wants_split = tier == InsertTier::kBlocksAndMerge || tier == InsertTier::kSeed ||
                           question.is_chunk_rows_explicit;
  plan.ranges = PlanChunks(rows, may_split && wants_split ? question.chunk_rows_min : 0);
  if (plan.ranges.empty()) plan.ranges.push_back(RowRange{0, rows});
  const std::string who = is_gathered
                              ? fmt::format("{} parts, {} rows", question.source_parts, rows)
                              : fmt::format("{} rows", rows);
  if (is_forced) {
    plan.reason = "asked for by --tier";
    if (is_gathered) plan.reason = who + " in one insert, " + plan.reason;
  } else if (tier == one_block) {
    plan.reason = fmt::format("{} of {:.0f} bytes fit one block in {} MiB", who,
                              estimate.raw_bytes_per_row, estimate.slot_memory_bytes >> 20);
  } else {
    plan.reason = fmt::format(
        "{} of {:.0f} bytes exceed {} MiB: blocks of {} rows, then a vertical merge", who,
        estimate.raw_bytes_per_row, estimate.slot_memory_bytes >> 20, several_rows);
  }
  return plan;
}

std::optional<InsertState> Shrink(const InsertState& state, const Tuning& tuning,
                                  int64_t engine_block_rows) {
  if (state.tier != InsertTier::kSeed) {
    const int64_t half = state.block_rows / 2;
    if (half < kBlockRowsMin) return SeedState(tuning);
    return InsertState{.tier = InsertTier::kBlocksAndMerge, .block_rows = half, .rung = state.rung};
  }
  ResourceRung rung = state.rung;
  if (rung.max_block_size == 0) rung.max_block_size = engine_block_rows;
  const auto next = NextRung(rung);
  if (!next) return std::nullopt;
  return InsertState{.tier = InsertTier::kSeed, .block_rows = 0, .rung = *next};
}

std::map<std::string, std::string> InsertSettings(const InsertState& state, const Tuning& tuning,
                                                  InsertReads reads) {
  std::map<std::string, std::string> settings{
      {"max_memory_usage", Number(tuning.max_memory_usage_bytes)},
      {"max_partitions_per_insert_block", "0"},
      {"insert_deduplicate", "0"},
      {"deduplicate_blocks_in_dependent_materialized_views", "0"},
      {"async_insert", "0"},
  };
  // Ranged or not: `_part_offset` may be a projection's own, and a condition cache of another range
  // would be wrong.
  settings["optimize_use_projections"] = "0";
  settings["force_optimize_projection"] = "0";
  if (reads == InsertReads::kRange) settings["use_query_condition_cache"] = "0";
  if (state.tier == InsertTier::kSeed) {
    settings["max_threads"] = Number(state.rung.max_threads);
    settings["max_insert_threads"] = Number(state.rung.max_insert_threads);
    if (state.rung.max_block_size > 0)
      settings["max_block_size"] = Number(state.rung.max_block_size);
    return settings;
  }
  settings["max_threads"] = "1";
  settings["max_insert_threads"] = "1";
  settings["min_insert_block_size_rows"] = Number(state.block_rows);
  settings["min_insert_block_size_bytes"] = "0";
  settings["max_block_size"] = Number(std::min(state.block_rows, kReadBlockRowsMax));
  settings["preferred_block_size_bytes"] = "0";
  settings["preferred_max_column_in_block_size_bytes"] = "0";
  return settings;
}

}  // namespace partforge::clickhouse
