#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "app/commands.h"
#include "app/option_groups.h"
#include "app/wire.h"
#include "clickhouse/rewrite_job.h"

namespace partforge::app {
namespace {

constexpr int64_t kPageTasks = 1000;

Status Run(const CommandInput& input) {
  const std::string job = input.options.String("job-id"), part = input.options.String("part-id");
  if (part.empty() == !input.options.Bool("all")) {
    return Status(Code::kInvalidArgument, "exactly one of --all and --part-id is needed")
        .Explain(part.empty() ? 1006 : 1010, "retry-failed", "--all, or --part-id=PART");
  }
  PF_ASSIGN(const std::unique_ptr<SqlJobStore> state, OpenState(input, SchemaUse::kWrite));
  PF_TRY(state->View(input.ctx, job));
  Settlement settlement;
  JsonDoc list = JsonDoc::array();
  std::string after;
  if (!part.empty()) {
    PF_ASSIGN(const Task task, state->GetTask(input.ctx, job, part));
    if (task.state != TaskState::kFailed) {
      return Status(Code::kRefused, fmt::format("it is {}", TaskStateName(task.state)))
          .Explain(2131, part,
                   "only FAILED parts are tried again; parts that are published or being published "
                   "never are");
    }
  }
  while (true) {
    PF_ASSIGN(const TaskPage page,
              state->Page(input.ctx, job, TaskState::kFailed, after, kPageTasks));
    for (const Task& task : page.tasks) {
      if (!part.empty() && task.id != part) continue;
      TaskEdit edit;
      edit.id = task.id;
      edit.from = TaskState::kFailed;
      edit.epoch = task.epoch;
      // A failed import goes back to FINISHED unless its bytes were bad: then the part is made
      // again.
      const bool has_good_artifact = task.winner != 0 && task.failure_class != "data";
      edit.to = has_good_artifact ? TaskState::kFinished : TaskState::kReady;
      settlement.edits.push_back(edit);
      list.push_back(JsonDoc{
          {"part_id", task.id}, {"from", "FAILED"}, {"to", std::string(TaskStateName(edit.to))}});
    }
    if (!page.next) break;
    after = *page.next;
  }
  const size_t count = settlement.edits.size();
  for (size_t at = 0; at < count; at += kPageTasks) {
    Settlement piece;
    piece.edits.assign(
        settlement.edits.begin() + static_cast<std::ptrdiff_t>(at),
        settlement.edits.begin() + static_cast<std::ptrdiff_t>(std::min(count, at + kPageTasks)));
    PF_TRY(state->Amend(input.ctx, job, piece));
  }
  if (count > 0) PF_TRY(state->SetPaused(input.ctx, job, false));
  input.out.Line(fmt::format("{} parts will be tried again", count));
  input.out.Document(
      "retry-failed",
      JsonDoc{{"job_id", job}, {"forced", false}, {"retried", count}, {"parts", list}});
  if (count == 0 && input.options.Bool("fail-if-empty"))
    return Status(Code::kNotFound, "no part has failed").Explain(1016, job, "partforge job-status");
  return {};
}

}  // namespace

Command RetryFailedCommand() {
  return {
      {.name = "retry-failed",
       .purpose = "Puts failed parts of a job back into the queue, and lets a paused job go on.",
       .arguments = "",
       .arguments_min = 0,
       .arguments_max = 0,
       .examples = {"partforge retry-failed --job-id=job-5f0e11aa22bb33cc --all",
                    "partforge retry-failed --job-id=job-5f0e11aa22bb33cc "
                    "--part-id=part-9b1c22dd33ee44ff"},
       .options = Join({{{.name = "job-id", .help = "job", .is_required = true},
                         {.name = "part-id", .help = "one part", .refuses_empty = true},
                         {.name = "all",
                          .type = OptionType::kBool,
                          .default_text = "false",
                          .help = "every failed part"}},
                        StateOptions()}),
       .related = {"job-status", "worker"}},
      Run};
}

}  // namespace partforge::app
