#include "app/part_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/units.h"
#include "clickhouse/ddl.h"
#include "clickhouse/insert_tier.h"

namespace partforge::app {

PartPlan::PartPlan(const MachineUse& use, const clickhouse::RewriteSettings& settings,
                   bool is_chunk_safe, const clickhouse::Tuning& tuning)
    : use_(use), settings_(settings), is_chunk_safe_(is_chunk_safe), tuning_(tuning) {}

Result<PartPlan> PartPlan::Make(const MachineUse& use, const clickhouse::RewriteSettings& settings,
                                const clickhouse::RewriteJobSpec& job) {
  PF_ASSIGN(clickhouse::Tuning tuning, clickhouse::Tune(use.limits, use.slots));
  if (job.is_order_sensitive) tuning = clickhouse::OrderedTuning(tuning);
  return PartPlan(use, settings, job.is_chunk_safe, tuning);
}

void PartPlan::Add(const WaitingPart& part) {
  const clickhouse::InsertPlan plan =
      clickhouse::PlanInsert({.block = {.memory_cap_bytes = use_.memory_cap_bytes,
                                        .slots = use_.slots,
                                        .rows = part.rows,
                                        .data_uncompressed_bytes = part.uncompressed_bytes},
                              .tuning = tuning_,
                              .forced = settings_.tier,
                              .is_chunk_safe = is_chunk_safe_,
                              .chunk_rows_min = settings_.chunk_rows_min,
                              .is_chunk_rows_explicit = settings_.is_chunk_rows_explicit});
  const std::string tier(clickhouse::TierName(plan.state.tier));
  parts_.push_back({.part = part,
                    .tier = tier,
                    .reason = plan.reason,
                    .chunks = static_cast<int64_t>(plan.ranges.size()),
                    .block_rows = plan.state.block_rows});
  AddTier(tiers_, tier, plan.reason, part.rows);
  rows_ += part.rows;
  size_bytes_ += part.size_bytes;
}

Table PartPlan::ToTable() const {
  Table table{{{.title = "PART_ID"},
               {.title = "ROWS", .is_right_aligned = true},
               {.title = "SIZE", .is_right_aligned = true},
               {.title = "TIER"},
               {.title = "CHUNKS", .is_right_aligned = true},
               {.title = "BLOCK_ROWS", .is_right_aligned = true},
               {.title = "WHY", .is_right_aligned = false, .may_be_cut = true}},
              {}};
  for (const Planned& one : parts_) {
    table.rows.push_back({one.part.id, FormatCount(one.part.rows), FormatBytes(one.part.size_bytes),
                          one.tier, FormatCount(one.chunks),
                          one.block_rows == 0 ? "engine" : FormatCount(one.block_rows),
                          one.reason});
  }
  return table;
}

JsonDoc PartPlan::PartsDocument() const {
  JsonDoc list = JsonDoc::array();
  for (const Planned& one : parts_) {
    list.push_back(JsonDoc{{"part_id", one.part.id},
                           {"rows", one.part.rows},
                           {"bytes", one.part.size_bytes},
                           {"uncompressed_bytes", one.part.uncompressed_bytes},
                           {"tier", one.tier},
                           {"chunks", one.chunks},
                           {"block_rows", one.block_rows},
                           {"why", one.reason}});
  }
  return list;
}

JsonDoc PartPlan::TierDocument() const {
  return DocumentOf(tiers_);
}

std::vector<std::string> NotesOnJob(const clickhouse::RewriteJobSpec& job) {
  std::vector<std::string> notes;
  if (job.is_order_sensitive)
    notes.emplace_back(
        "PF2112 the destination's result depends on the order of parts: one thread reads, and the "
        "import keeps the order of the source");
  const auto source = clickhouse::ParseCreateTable(job.source_schema);
  const bool has_projection =
      source.ok() && std::any_of(source->elements.begin(), source->elements.end(),
                                 [](const clickhouse::NamedElement& element) {
                                   return element.kind == "PROJECTION";
                                 });
  if (has_projection)
    notes.emplace_back(
        "PF2109 the source has projections: they are not read; those of the destination are made");
  if (!job.is_chunk_safe) notes.push_back("PF2114 each part is run whole: " + job.chunk_refusal);
  return notes;
}

}  // namespace partforge::app
