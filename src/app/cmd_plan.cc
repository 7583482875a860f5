#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>

#include "app/commands.h"
#include "app/job_records.h"
#include "app/option_groups.h"
#include "app/wire.h"
#include "base/units.h"
#include "clickhouse/insert_tier.h"
#include "clickhouse/part_gatherer.h"
#include "clickhouse/rewrite_job.h"

namespace partforge::app {
namespace {

constexpr int64_t kPageTasks = 1000;
constexpr int64_t kCrashesMax = 3;  // default of --max-crashes

// What workers with these settings would do with the parts of a job that are still waiting.
Status Run(const CommandInput& input) {
  PF_ASSIGN(const std::unique_ptr<SqlJobStore> state, OpenState(input, SchemaUse::kRead));
  const std::string& job_id = input.options.arguments().front();
  PF_ASSIGN(const JobView view, state->View(input.ctx, job_id));
  PF_ASSIGN(const clickhouse::RewriteJobSpec job,
            clickhouse::RewriteJobSpec::FromJson(view.job.spec));
  PF_ASSIGN(const MachineUse use, ChooseMachineUse(input));
  PF_ASSIGN(const clickhouse::RewriteSettings settings, RewriteSettingsFrom(input, use));
  PF_ASSIGN(const clickhouse::Tuning tuning, clickhouse::Tune(use.limits, use.slots));
  Table table{{{.title = "PART_ID"},
               {.title = "ROWS", .is_right_aligned = true},
               {.title = "SIZE", .is_right_aligned = true},
               {.title = "TIER"},
               {.title = "CHUNKS", .is_right_aligned = true},
               {.title = "BLOCK_ROWS", .is_right_aligned = true},
               {.title = "WHY", .is_right_aligned = false, .may_be_cut = true}},
              {}};
  JsonDoc parts = JsonDoc::array();
  ClaimOffer offer;
  std::vector<clickhouse::RewriteTaskSpec> specs;
  int64_t bytes = 0, rows = 0;
  std::string after;
  while (true) {
    PF_ASSIGN(TaskPage page, state->Page(input.ctx, job_id, TaskState::kReady, after, kPageTasks));
    for (Task& task : page.tasks) offer.tasks.push_back(std::move(task));
    if (!page.next) break;
    after = *page.next;
  }
  // As a claim sees them: largest first.
  std::stable_sort(offer.tasks.begin(), offer.tasks.end(), [](const Task& a, const Task& b) {
    return std::tie(b.size_bytes, a.created_at_ms) < std::tie(a.size_bytes, b.created_at_ms);
  });
  for (const Task& task : offer.tasks) {
    PF_ASSIGN(clickhouse::RewriteTaskSpec part,
              clickhouse::RewriteTaskSpec::FromJson(task.payload));
    bytes += part.size_bytes;
    rows += part.rows;
    ++offer.ready_tasks;
    offer.ready_bytes += task.size_bytes;
    specs.push_back(std::move(part));
  }
  const clickhouse::GatherRules rules = GatherRulesFrom(settings, kCrashesMax);
  const std::string refusal = clickhouse::GatherRefusal(job, rules);
  const auto leases =
      clickhouse::GatherParts(offer, job, rules, {.leases_max = std::ssize(offer.tasks)});
  for (const std::vector<size_t>& lease : leases) {
    int64_t lease_rows = 0, lease_raw_bytes = 0;
    for (const size_t index : lease) {
      lease_rows += specs[index].rows;
      lease_raw_bytes += specs[index].uncompressed_bytes;
    }
    clickhouse::InsertPlan plan =
        clickhouse::PlanInsert({.block = {.memory_cap_bytes = use.memory_cap_bytes,
                                          .slots = use.slots,
                                          .rows = lease_rows,
                                          .data_uncompressed_bytes = lease_raw_bytes},
                                .source_parts = std::ssize(lease),
                                .tuning = tuning,
                                .forced = settings.tier,
                                .is_chunk_safe = job.is_chunk_safe,
                                .chunk_rows_min = settings.chunk_rows_min,
                                .is_chunk_rows_explicit = settings.is_chunk_rows_explicit});
    if (lease.size() == 1 && offer.tasks.size() > 1 && !refusal.empty() && !settings.tier)
      plan.reason += fmt::format("; alone: {}", refusal);
    for (const size_t index : lease) {
      const Task& task = offer.tasks[index];
      const clickhouse::RewriteTaskSpec& part = specs[index];
      table.rows.push_back(
          {task.id, FormatCount(part.rows), FormatBytes(part.size_bytes),
           std::string(clickhouse::TierName(plan.state.tier)),
           FormatCount(static_cast<int64_t>(plan.ranges.size())),
           plan.state.block_rows == 0 ? "engine" : FormatCount(plan.state.block_rows),
           plan.reason});
      JsonDoc one{{"part_id", task.id},
                  {"rows", part.rows},
                  {"bytes", part.size_bytes},
                  {"uncompressed_bytes", part.uncompressed_bytes},
                  {"tier", std::string(clickhouse::TierName(plan.state.tier))},
                  {"chunks", plan.ranges.size()},
                  {"block_rows", plan.state.block_rows},
                  {"why", plan.reason},
                  {"together", lease.size()}};
      parts.push_back(std::move(one));
    }
  }
  input.out.Line(fmt::format("plan   {}   {} waiting parts · {} rows · {} on {} slots", job_id,
                             parts.size(), FormatCount(rows), FormatBytes(bytes), use.slots));
  input.out.Text(RenderTable(table, input.out.style()));
  input.out.Document("plan", JsonDoc{{"job_id", job_id},
                                     {"slots", use.slots},
                                     {"memory_bytes", use.memory_cap_bytes},
                                     {"rows", rows},
                                     {"bytes", bytes},
                                     {"parts", parts}});
  if (parts.empty() && input.options.Bool("fail-if-empty"))
    return Status(Code::kNotFound, "no part is waiting")
        .Explain(1016, job_id, "partforge job-status shows what became of them");
  return {};
}

}  // namespace

Command PlanCommand() {
  return {{.name = "plan",
           .purpose = "Shows how workers would rewrite the waiting parts of a job: tier, chunks "
                      "and why; writes nothing.",
           .arguments = "JOB",
           .arguments_min = 1,
           .arguments_max = 1,
           .examples = {"partforge plan job-5f0e11aa22bb33cc",
                        "partforge plan job-5f0e11aa22bb33cc --parallel=8 --memory=32GiB"},
           .options =
               Join({RewriteOptions(),
                     StateOptions(),
                     {{.name = "s3-concurrency",
                       .type = OptionType::kInt,
                       .default_text = "8",
                       .help = "requests at once for one large object",
                       .group = "Limits"},
                      {.name = "memory",
                       .type = OptionType::kSize,
                       .help = "memory for all slots together (default: 70 % of what may be used)",
                       .group = "Limits"}}}),
           .related = {"check", "upload-freeze", "worker"}},
          Run};
}

}  // namespace partforge::app
