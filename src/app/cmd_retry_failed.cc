#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <span>

#include "app/commands.h"
#include "app/option_groups.h"
#include "app/wire.h"
#include "clickhouse/rewrite_job.h"

namespace partforge::app {
namespace {

constexpr int64_t kPageTasks = 1000;

TaskEdit EditOf(const Task& task, TaskState to) {
  TaskEdit edit;
  edit.id = task.id;
  edit.from = task.state;
  edit.epoch = task.epoch;
  edit.to = to;
  return edit;
}

// A bad artifact of several source parts has no source of its own: its row goes, and they are
// rewritten again. One transaction an output.
Status RetryInputs(const CommandInput& input, SqlJobStore& state, const JobId& job,
                   const std::vector<TaskId>& outputs, JsonDoc& list) {
  if (outputs.empty()) return {};
  std::map<TaskId, std::vector<TaskEdit>> edits;
  std::string after;
  while (true) {
    PF_ASSIGN(const TaskPage page,
              state.Page(input.ctx, job, TaskState::kSuperseded, after, kPageTasks));
    for (const Task& task : page.tasks)
      edits[task.superseded_by].push_back(EditOf(task, TaskState::kReady));
    if (!page.next) break;
    after = *page.next;
  }
  for (const TaskId& output : outputs) {
    PF_TRY(
        state.ChangeTasks(input.ctx, job, edits[output], std::span(&output, 1), OpenWork::kRefuse));
    PF_FAULT(input.ctx, "app.output_taken_back");
    for (const TaskEdit& edit : edits[output])
      list.push_back(JsonDoc{{"part_id", edit.id}, {"from", "SUPERSEDED"}, {"to", "READY"}});
  }
  return {};
}

Status Run(const CommandInput& input) {
  const std::string job = input.options.String("job-id"), part = input.options.String("part-id");
  if (part.empty() == !input.options.Bool("all")) {
    return Status(Code::kInvalidArgument, "exactly one of --all and --part-id is needed")
        .Explain(part.empty() ? 1006 : 1010, "retry-failed", "--all, or --part-id=PART");
  }
  PF_ASSIGN(const std::unique_ptr<SqlJobStore> state, OpenState(input, SchemaUse::kWrite));
  PF_TRY(state->View(input.ctx, job));
  Settlement settlement;
  std::vector<TaskId> outputs;  // that cannot be made again as they are
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
      // A failed import goes back to FINISHED unless its bytes were bad: then the part is made
      // again.
      const bool has_good_artifact = task.winner != 0 && task.failure_class != "data";
      if (!has_good_artifact && task.generation > 0) {
        outputs.push_back(task.id);
        continue;
      }
      const TaskEdit edit =
          EditOf(task, has_good_artifact ? TaskState::kFinished : TaskState::kReady);
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
  PF_TRY(RetryInputs(input, *state, job, outputs, list));
  if (!list.empty()) PF_TRY(state->SetPaused(input.ctx, job, false));
  input.out.Line(fmt::format("{} parts will be tried again", list.size()));
  input.out.Document(
      "retry-failed",
      JsonDoc{{"job_id", job}, {"forced", false}, {"retried", list.size()}, {"parts", list}});
  if (list.empty() && input.options.Bool("fail-if-empty"))
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
