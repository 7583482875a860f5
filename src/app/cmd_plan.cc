#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "app/commands.h"
#include "app/option_groups.h"
#include "app/part_plan.h"
#include "app/wire.h"
#include "base/units.h"
#include "clickhouse/rewrite_job.h"
#include "job/each_task.h"

namespace partforge::app {
namespace {

// What workers with these settings would do with the parts of a job that are still waiting.
Status Run(const CommandInput& input) {
  PF_ASSIGN(const std::unique_ptr<SqlJobStore> state, OpenState(input, SchemaUse::kRead));
  const std::string& job_id = input.options.arguments().front();
  PF_ASSIGN(const JobView view, state->View(input.ctx, job_id));
  PF_ASSIGN(const clickhouse::RewriteJobSpec job,
            clickhouse::RewriteJobSpec::FromJson(view.job.spec));
  PF_ASSIGN(const MachineUse use, ChooseMachineUse(input));
  PF_ASSIGN(const clickhouse::RewriteSettings settings, RewriteSettingsFrom(input, use));
  PartPlan plan(use, settings, job);
  PF_TRY(ForEachTaskIn(input.ctx, *state, job_id, TaskState::kReady,
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
  input.out.Document("plan", JsonDoc{{"job_id", job_id},
                                     {"slots", use.slots},
                                     {"memory_bytes", use.memory_cap_bytes},
                                     {"rows", plan.rows()},
                                     {"bytes", plan.size_bytes()},
                                     {"tiers", plan.TierDocument()},
                                     {"parts", plan.PartsDocument()},
                                     {"notes", notes},
                                     {"warnings", warnings}});
  if (plan.part_count() == 0 && input.options.Bool("fail-if-empty"))
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
