#include "app/part_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <numeric>
#include <tuple>

#include "base/units.h"
#include "clickhouse/ddl.h"
#include "clickhouse/insert_tier.h"
#include "clickhouse/part_gatherer.h"

namespace partforge::app {
namespace {

// What is kept among a job's warnings and begins with its code: a note.
bool IsNote(const std::string& warning) {
  return warning.starts_with("PF");
}

}  // namespace

Status PartPlan::Add(Task task) {
  PF_ASSIGN(clickhouse::RewriteTaskSpec part, clickhouse::RewriteTaskSpec::FromJson(task.payload));
  rows_ += part.rows;
  size_bytes_ += part.size_bytes;
  offer_.ready_bytes += task.size_bytes;
  offer_.tasks.push_back(std::move(task));
  specs_.push_back(std::move(part));
  return {};
}

Status PartPlan::Close() {
  PF_ASSIGN(clickhouse::Tuning tuning, clickhouse::Tune(use_.limits, use_.slots));
  if (job_.is_order_sensitive) tuning = clickhouse::OrderedTuning(tuning);
  // As a claim sees them: largest first.
  std::vector<size_t> order(offer_.tasks.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const Task &left = offer_.tasks[a], &right = offer_.tasks[b];
    return std::tie(right.size_bytes, left.created_at_ms) <
           std::tie(left.size_bytes, right.created_at_ms);
  });
  std::vector<Task> tasks;
  std::vector<clickhouse::RewriteTaskSpec> specs;
  for (const size_t index : order) {
    tasks.push_back(std::move(offer_.tasks[index]));
    specs.push_back(std::move(specs_[index]));
  }
  offer_.tasks = std::move(tasks);
  specs_ = std::move(specs);
  const clickhouse::GatherRules rules = GatherRulesFrom(settings_);
  const std::string refusal = clickhouse::GatherRefusal(job_, rules);
  for (std::vector<size_t>& lease :
       clickhouse::GatherParts(offer_, job_, rules, {.leases_max = std::ssize(offer_.tasks)})) {
    int64_t rows = 0, raw_bytes = 0;
    for (const size_t index : lease) {
      rows += specs_[index].rows;
      raw_bytes += specs_[index].uncompressed_bytes;
    }
    clickhouse::InsertPlan plan =
        clickhouse::PlanInsert({.block = {.memory_cap_bytes = use_.memory_cap_bytes,
                                          .slots = use_.slots,
                                          .rows = rows,
                                          .data_uncompressed_bytes = raw_bytes},
                                .source_parts = std::ssize(lease),
                                .tuning = tuning,
                                .forced = settings_.tier,
                                .is_chunk_safe = job_.is_chunk_safe,
                                .chunk_rows_min = settings_.chunk_rows_min,
                                .is_chunk_rows_explicit = settings_.is_chunk_rows_explicit});
    if (lease.size() == 1 && offer_.tasks.size() > 1 && !refusal.empty() && !settings_.tier)
      plan.reason += fmt::format("; alone: {}", refusal);
    const std::string tier(clickhouse::TierName(plan.state.tier));
    AddTier(tiers_, tier, plan.reason, std::ssize(lease), rows);
    inserts_.push_back({.parts = std::move(lease),
                        .tier = tier,
                        .reason = plan.reason,
                        .chunks = std::ssize(plan.ranges),
                        .block_rows = plan.state.block_rows});
  }
  return {};
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
  for (const Planned& one : inserts_) {
    for (const size_t index : one.parts) {
      table.rows.push_back(
          {offer_.tasks[index].id, FormatCount(specs_[index].rows),
           FormatBytes(specs_[index].size_bytes), one.tier, FormatCount(one.chunks),
           one.block_rows == 0 ? "engine" : FormatCount(one.block_rows), one.reason});
    }
  }
  return table;
}

JsonDoc PartPlan::PartsDocument() const {
  JsonDoc list = JsonDoc::array();
  for (const Planned& one : inserts_) {
    for (const size_t index : one.parts) {
      list.push_back(JsonDoc{{"part_id", offer_.tasks[index].id},
                             {"rows", specs_[index].rows},
                             {"bytes", specs_[index].size_bytes},
                             {"uncompressed_bytes", specs_[index].uncompressed_bytes},
                             {"tier", one.tier},
                             {"chunks", one.chunks},
                             {"block_rows", one.block_rows},
                             {"why", one.reason},
                             {"together", one.parts.size()}});
    }
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
  std::copy_if(job.warnings.begin(), job.warnings.end(), std::back_inserter(notes), IsNote);
  return notes;
}

std::vector<std::string> WarningsOnJob(const clickhouse::RewriteJobSpec& job) {
  std::vector<std::string> warnings;
  std::remove_copy_if(job.warnings.begin(), job.warnings.end(), std::back_inserter(warnings),
                      IsNote);
  return warnings;
}

}  // namespace partforge::app
