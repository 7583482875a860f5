#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>

#include "app/commands.h"
#include "app/option_groups.h"
#include "app/part_plan.h"
#include "app/wire.h"
#include "base/units.h"
#include "clickhouse/rewrite_job.h"
#include "job/each_task.h"

namespace partforge::app {
namespace {

// What is planned of one job.
struct JobPlan {
  int64_t parts = 0, rows = 0, size_bytes = 0;
  JsonDoc document;
};

// What workers with these settings would do with the parts of a job that are still waiting. Prints
// it; where objects are asked for, one for each part.
Result<JobPlan> PlanOf(const CommandInput& input, StateReader& state, const JobId& job_id,
                       const MachineUse& use, const clickhouse::RewriteSettings& settings) {
  PF_ASSIGN(const JobView view, state.View(input.ctx, job_id));
  PF_ASSIGN(const clickhouse::RewriteJobSpec job,
            clickhouse::RewriteJobSpec::FromJson(view.job.spec));
  PartPlan plan(use, settings, job);
  PF_TRY(ForEachTaskIn(input.ctx, state, job_id, TaskState::kReady,
                       [&](const Task& task) { return plan.Add(task); }));
  PF_TRY(plan.Close());
  input.out.Line(fmt::format("plan   {}   {} waiting parts · {} rows · {} on {} slots", job_id,
                             plan.part_count(), FormatCount(plan.rows()),
                             FormatBytes(plan.size_bytes()), use.slots));
  input.out.Text(RenderTable(plan.ToTable(), input.out.style()));
  if (plan.part_count() > 0) input.out.Line("tiers   " + plan.TierText());
  const std::vector<std::string> notes = NotesOnJob(job), warnings = WarningsOnJob(job);
  for (const std::string& note : notes) input.out.Line("note    " + note);
  for (const std::string& warning : warnings) input.out.Line("warning " + warning);
  JsonDoc parts = plan.PartsDocument();
  JsonDoc document{
      {"job_id", job_id},    {"slots", use.slots},         {"memory_bytes", use.memory_cap_bytes},
      {"rows", plan.rows()}, {"bytes", plan.size_bytes()}, {"tiers", plan.TierDocument()}};
  if (input.out.style().is_ndjson) {
    for (const JsonDoc& part : parts) {
      JsonDoc object{{"type", "part"}, {"job_id", job_id}};
      object.update(part);
      input.out.Object(object);
    }
  } else {
    document["parts"] = std::move(parts);
  }
  document["notes"] = notes;
  document["warnings"] = warnings;
  return JobPlan{.parts = plan.part_count(),
                 .rows = plan.rows(),
                 .size_bytes = plan.size_bytes(),
                 .document = std::move(document)};
}

Status Run(const CommandInput& input) {
  const std::vector<std::string>& jobs = input.options.arguments();
  const std::set<std::string> names(jobs.begin(), jobs.end());
  if (names.size() < jobs.size()) {
    return Status(Code::kInvalidArgument, "a job is named twice")
        .Explain(1010, "plan", "name each job once");
  }
  PF_ASSIGN(const std::unique_ptr<SqlJobStore> state, OpenState(input, SchemaUse::kRead));
  PF_ASSIGN(const MachineUse use, ChooseMachineUse(input));
  PF_ASSIGN(const clickhouse::RewriteSettings settings, RewriteSettingsFrom(input, use));
  JobPlan all;
  all.document = JsonDoc::array();
  for (const std::string& job : jobs) {
    PF_ASSIGN(JobPlan one, PlanOf(input, *state, job, use, settings));
    all.parts += one.parts;
    all.rows += one.rows;
    all.size_bytes += one.size_bytes;
    all.document.push_back(std::move(one.document));
  }
  if (jobs.size() == 1) {
    input.out.Document("plan", all.document.front());
  } else {
    input.out.Line(fmt::format("sum    {} jobs   {} waiting parts · {} rows · {}", jobs.size(),
                               all.parts, FormatCount(all.rows), FormatBytes(all.size_bytes)));
    input.out.Document("plan", JsonDoc{{"slots", use.slots},
                                       {"memory_bytes", use.memory_cap_bytes},
                                       {"rows", all.rows},
                                       {"bytes", all.size_bytes},
                                       {"jobs", std::move(all.document)}});
  }
  if (all.parts == 0 && input.options.Bool("fail-if-empty"))
    return Status(Code::kNotFound, "no part is waiting")
        .Explain(1016, jobs.front(), "partforge job-status shows what became of them");
  return {};
}

}  // namespace

Command PlanCommand() {
  return {{.name = "plan",
           .purpose = "Shows how workers would rewrite the waiting parts of jobs: tier, chunks "
                      "and why; writes nothing.",
           .arguments = "JOB...",
           .arguments_min = 1,
           .arguments_max = 1000,
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
                       .group = "Limits"},
                      {.name = "stream",
                       .type = OptionType::kBool,
                       .default_text = "false",
                       .help = "with --json: one object for each part, then the sums",
                       .group = "Output"}}}),
           .related = {"check", "upload-freeze", "worker"}},
          Run};
}

}  // namespace partforge::app
