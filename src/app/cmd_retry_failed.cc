#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <span>

#include "app/commands.h"
#include "app/option_groups.h"
#include "app/task_changes.h"
#include "app/wire.h"
#include "base/units.h"
#include "clickhouse/rewrite_job.h"
#include "job/each_task.h"

namespace partforge::app {
namespace {

constexpr int kNotRetried = 2131;
constexpr TaskState kStates[] = {
    TaskState::kFailed,   TaskState::kInProgress, TaskState::kCompactReady, TaskState::kCompacting,
    TaskState::kFinished, TaskState::kImporting,  TaskState::kImported,     TaskState::kSuperseded};

// Which parts go back into the queue (clickhouse-parts §8.7).
struct Selection {
  std::string part;                // one only; empty = all that fit
  bool takes_in_progress = false;  // whoever works on them now is fenced
  bool takes_stale = false;        // IN_PROGRESS whose worker is gone so long, and nothing else
  int64_t stale_after_ms = 0;
  bool is_forced = false;  // whatever state they are in
};

Result<Selection> SelectionFrom(const ResolvedOptions& options) {
  Selection chosen{.part = options.String("part-id"),
                   .takes_in_progress = options.Bool("include-in-progress"),
                   .takes_stale = options.Bool("stale"),
                   .stale_after_ms = options.DurationMs("stale-after"),
                   .is_forced = options.Bool("force")};
  const int ways =
      (chosen.part.empty() ? 0 : 1) + (options.Bool("all") ? 1 : 0) + (chosen.takes_stale ? 1 : 0);
  const auto usage = [](int number, std::string message, std::string what_to_do) {
    return Status(Code::kInvalidArgument, std::move(message))
        .Explain(number, "retry-failed", std::move(what_to_do));
  };
  if (ways != 1) {
    return usage(ways == 0 ? 1006 : 1010, "exactly one of --all, --part-id and --stale is needed",
                 "--all, --stale or --part-id=PART");
  }
  if (chosen.stale_after_ms <= 0)
    return usage(1005, "--stale-after is not positive", "--stale-after=5m");
  if (chosen.is_forced && (chosen.takes_in_progress || chosen.takes_stale)) {
    return usage(1010, "--force takes parts in any state already",
                 "keep one of --force, --stale and --include-in-progress");
  }
  if (chosen.takes_stale && chosen.takes_in_progress) {
    return usage(1010, "--stale takes only those in progress that stand still",
                 "keep one of --stale and --include-in-progress");
  }
  return chosen;
}

// Whether nobody works on a part in progress: at a time of the store's clock its lease had run out,
// and what its worker told last was older than asked for. A worker that renews its lease is alive,
// however long it says nothing else.
Result<bool> IsStale(const Context& ctx, SqlJobStore& state, const Selection& chosen,
                     int64_t now_ms, const Task& task) {
  PF_ASSIGN(const std::vector<AttemptView> attempts, state.Attempts(ctx, task.job, task.id));
  int64_t last_ms = task.started_at_ms;
  for (const AttemptView& attempt : attempts) {
    if (attempt.state == "OPEN" && attempt.lease_until_ms >= now_ms) return false;
    if (attempt.epoch == task.epoch)
      last_ms = std::max({last_ms, attempt.opened_at_ms, attempt.progress_at_ms});
  }
  return now_ms - last_ms > chosen.stale_after_ms;
}

// Rows of it are published, may be, or stand in another artifact: a second time would double them.
bool IsPublished(TaskState state) {
  return state == TaskState::kImporting || state == TaskState::kImported ||
         state == TaskState::kSuperseded;
}

// The states that parts are chosen from.
std::span<const TaskState> StatesOf(const Selection& chosen) {
  const std::span<const TaskState> all = kStates;  // FAILED and IN_PROGRESS are the first two
  if (chosen.is_forced) return all;
  if (chosen.takes_stale) return all.subspan(1, 1);
  return all.first(chosen.takes_in_progress ? 2 : 1);
}

Result<bool> IsChosen(const Context& ctx, SqlJobStore& state, const Selection& chosen,
                      int64_t now_ms, const Task& task) {
  if (chosen.is_forced) return true;
  if (task.state == TaskState::kFailed) return !chosen.takes_stale;
  if (task.state != TaskState::kInProgress) return false;
  if (!chosen.takes_stale) return chosen.takes_in_progress;
  return IsStale(ctx, state, chosen, now_ms, task);
}

// A failed import goes back to FINISHED unless its bytes were bad: then the part is made again.
bool IsKept(const Selection& chosen, const Task& task) {
  return task.state == TaskState::kFailed && task.winner != 0 && task.failure_class != "data" &&
         !chosen.is_forced;
}

// An artifact of several source parts has no source of its own: its row goes, and they are
// rewritten again. One transaction an output. `left` are those that moved on meanwhile.
Status RetryInputs(const CommandInput& input, SqlJobStore& state, const JobId& job,
                   const std::vector<TaskId>& outputs, bool is_dry, JsonDoc& list,
                   std::vector<TaskId>& left) {
  if (outputs.empty()) return {};
  std::map<TaskId, std::vector<TaskEdit>> edits;
  PF_TRY(ForEachTaskIn(input.ctx, state, job, TaskState::kSuperseded, [&](const Task& task) {
    edits[task.superseded_by].push_back(EditTo(task, TaskState::kReady));
    return Status();
  }));
  for (const TaskId& output : outputs) {
    if (!is_dry) {
      const Status taken = state.ChangeTasks(input.ctx, job, edits[output], std::span(&output, 1),
                                             OpenWork::kRefuse);
      if (!taken.ok() && (taken.code() == Code::kConflict || taken.code() == Code::kNotFound)) {
        left.push_back(output);
        continue;
      }
      PF_TRY(taken);
      PF_FAULT(input.ctx, "app.output_taken_back");
    }
    for (const TaskEdit& edit : edits[output])
      list.push_back(JsonDoc{{"part_id", edit.id}, {"from", "SUPERSEDED"}, {"to", "READY"}});
  }
  return {};
}

Status CheckOnePart(const Selection& chosen, const Task& task) {
  if (chosen.is_forced || task.state == TaskState::kFailed) return {};
  if (task.state == TaskState::kInProgress && chosen.takes_in_progress) return {};
  return Status(Code::kRefused, fmt::format("it is {}", TaskStateName(task.state)))
      .Explain(kNotRetried, chosen.part,
               task.state == TaskState::kInProgress
                   ? "a worker has it; --include-in-progress takes it away from that worker"
                   : "only FAILED parts are tried again; --force makes a part again that is "
                     "rewritten and not published");
}

void ShowParts(const CommandInput& input, const JsonDoc& list) {
  if (list.empty()) return;
  Table table{{{.title = "PART_ID"}, {.title = "FROM"}, {.title = "TO"}}, {}};
  for (const JsonDoc& one : list) {
    const auto part = one.at("part_id").get<std::string>();
    table.rows.push_back(
        {part, one.at("from").get<std::string>(), one.at("to").get<std::string>()});
    input.out.Answer(part);
  }
  input.out.Text(RenderTable(table, input.out.style()));
}

Status Run(const CommandInput& input) {
  const std::string job = input.options.String("job-id");
  const bool is_dry = input.options.Bool("dry-run");
  PF_ASSIGN(const Selection chosen, SelectionFrom(input.options));
  PF_ASSIGN(const std::unique_ptr<SqlJobStore> state,
            OpenState(input, is_dry ? SchemaUse::kRead : SchemaUse::kWrite));
  PF_ASSIGN(const JobView view, state->View(input.ctx, job));
  std::vector<TaskEdit> edits;
  std::vector<TaskId> outputs;  // that cannot be made again as they are
  const auto consider = [&](const Task& task) -> Status {
    PF_ASSIGN(const bool is_chosen, IsChosen(input.ctx, *state, chosen, view.now_ms, task));
    if (!is_chosen) return {};
    // What an artifact of several parts was made of goes with that artifact.
    if (task.state == TaskState::kSuperseded && chosen.part.empty()) return {};
    if (IsPublished(task.state)) {
      return Status(Code::kRefused,
                    fmt::format("it is {}: its rows would come twice", TaskStateName(task.state)))
          .Explain(kNotRetried, task.id,
                   "a part that is published or being published is never made again; name "
                   "others with --part-id");
    }
    const bool is_kept = IsKept(chosen, task);
    if (!is_kept && task.generation > 0) {
      outputs.push_back(task.id);
      return {};
    }
    edits.push_back(EditTo(task, is_kept ? TaskState::kFinished : TaskState::kReady));
    return {};
  };
  if (!chosen.part.empty()) {
    PF_ASSIGN(const Task task, state->GetTask(input.ctx, job, chosen.part));
    PF_TRY(CheckOnePart(chosen, task));
    if (task.state != TaskState::kReady) PF_TRY(consider(task));
  } else {
    for (const TaskState from : StatesOf(chosen))
      PF_TRY(ForEachTaskIn(input.ctx, *state, job, from, consider));
  }
  ChangedTasks changed;
  if (is_dry) {
    changed.done = std::move(edits);
  } else {
    const OpenWork open_work = chosen.takes_stale ? OpenWork::kEndExpired : OpenWork::kEnd;
    PF_ASSIGN(changed,
              ChangeInTurn(input.ctx, *state, job, edits, open_work, [&](const Task& task) {
                return IsChosen(input.ctx, *state, chosen, view.now_ms, task);
              }));
  }
  JsonDoc list = JsonDoc::array();
  for (const TaskEdit& edit : changed.done) {
    list.push_back(JsonDoc{{"part_id", edit.id},
                           {"from", std::string(TaskStateName(edit.from))},
                           {"to", std::string(TaskStateName(edit.to))}});
  }
  PF_TRY(RetryInputs(input, *state, job, outputs, is_dry, list, changed.left));
  if (!list.empty() && !is_dry) PF_TRY(state->SetPaused(input.ctx, job, false));
  ShowParts(input, list);
  input.out.Line(fmt::format("{} parts {} be tried again", list.size(), is_dry ? "would" : "will"));
  JsonDoc document{{"job_id", job},
                   {"forced", chosen.is_forced},
                   {"dry_run", is_dry},
                   {"retried", is_dry ? size_t{0} : list.size()},
                   {"parts", list}};
  if (!changed.left.empty()) {
    input.out.Line(fmt::format("{} parts moved on meanwhile and were left alone, the first: {}",
                               changed.left.size(), changed.left.front()));
    document["left"] = changed.left;
  }
  if (chosen.takes_stale) {
    document["stale"] = true;
    document["stale_after"] = FormatDurationMs(chosen.stale_after_ms);
  }
  input.out.Document("retry-failed", document);
  if (list.empty() && input.options.Bool("fail-if-empty"))
    return Status(Code::kNotFound, "no part is to be tried again")
        .Explain(1016, job, "partforge job-status");
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
       .options =
           Join({{{.name = "job-id", .help = "job", .is_required = true},
                  {.name = "part-id", .help = "one part", .refuses_empty = true},
                  {.name = "all",
                   .type = OptionType::kBool,
                   .default_text = "false",
                   .help = "every failed part"},
                  {.name = "stale",
                   .type = OptionType::kBool,
                   .default_text = "false",
                   .help = "parts in progress whose lease has run out; never those of a worker "
                           "that lives"},
                  {.name = "stale-after",
                   .type = OptionType::kDuration,
                   .default_text = "5m",
                   .help = "how long ago such a worker must have told of the part last",
                   .group = "Limits"},
                  {.name = "include-in-progress",
                   .type = OptionType::kBool,
                   .default_text = "false",
                   .help = "also parts that workers have now; those workers lose them"},
                  {.name = "force",
                   .type = OptionType::kBool,
                   .default_text = "false",
                   .help = "also parts that are rewritten; never published ones"},
                  DryRunOption("print what would be tried again, write nothing")},
                 StateOptions()}),
       .related = {"job-status", "worker"}},
      Run};
}

}  // namespace partforge::app
