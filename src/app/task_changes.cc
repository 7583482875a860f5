#include "app/task_changes.h"

#include <algorithm>

namespace partforge::app {
namespace {

constexpr size_t kEditsAtOnce = 1000;
constexpr int kTriesMax = 10;

// The edits of those that are still to be changed, after a conflict.
Result<std::vector<TaskEdit>> LookAgain(const Context& ctx, SqlJobStore& state, const JobId& job,
                                        std::vector<TaskEdit> edits,
                                        const std::function<Result<bool>(const Task&)>& is_chosen,
                                        ChangedTasks& changed) {
  std::vector<TaskEdit> still;
  for (TaskEdit& edit : edits) {
    const Result<Task> task = state.GetTask(ctx, job, edit.id);
    if (!task.ok() && task.status().code() == Code::kNotFound) {
      changed.left.push_back(edit.id);
      continue;
    }
    PF_TRY(task);
    if (task->state == edit.to) {
      changed.done.push_back(std::move(edit));
      continue;
    }
    PF_ASSIGN(const bool is_still_chosen, is_chosen(*task));
    if (!is_still_chosen || task->state != edit.from) {
      changed.left.push_back(edit.id);
      continue;
    }
    edit.epoch = task->epoch;
    still.push_back(std::move(edit));
  }
  return still;
}

}  // namespace

Result<ChangedTasks> ChangeInTurn(const Context& ctx, SqlJobStore& state, const JobId& job,
                                  std::span<const TaskEdit> edits, OpenWork open_work,
                                  const std::function<Result<bool>(const Task&)>& is_chosen) {
  ChangedTasks changed;
  for (size_t at = 0; at < edits.size(); at += kEditsAtOnce) {
    const auto part = edits.subspan(at, std::min(kEditsAtOnce, edits.size() - at));
    std::vector<TaskEdit> some(part.begin(), part.end());
    for (int tries = 1; !some.empty(); ++tries) {
      const Status done = state.ChangeTasks(ctx, job, some, {}, open_work);
      if (done.ok()) {
        changed.done.insert(changed.done.end(), some.begin(), some.end());
        break;
      }
      if (done.code() != Code::kConflict || tries == kTriesMax) return done;
      PF_ASSIGN(some, LookAgain(ctx, state, job, std::move(some), is_chosen, changed));
    }
  }
  return changed;
}

}  // namespace partforge::app
