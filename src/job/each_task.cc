#include "job/each_task.h"

#include <fmt/format.h>

#include <array>
#include <string>
#include <unordered_set>

namespace partforge {
namespace {

constexpr int64_t kPageTasks = 1'000;
constexpr int kReadingsMax = 20;
constexpr std::array<TaskState, 9> kStates = {
    TaskState::kReady,      TaskState::kInProgress, TaskState::kCompactReady,
    TaskState::kCompacting, TaskState::kSuperseded, TaskState::kFinished,
    TaskState::kImporting,  TaskState::kImported,   TaskState::kFailed};

}  // namespace

Status ForEachTaskIn(const Context& ctx, StateReader& state, const JobId& job, TaskState wanted,
                     const std::function<Status(const Task&)>& visit) {
  TaskId after;
  while (true) {
    PF_TRY(ctx.CheckStop("reading the job's tasks"));
    PF_ASSIGN(const TaskPage page, state.Page(ctx, job, wanted, after, kPageTasks));
    for (const Task& task : page.tasks) PF_TRY(visit(task));
    if (!page.next) return {};
    after = *page.next;
  }
}

Status ForEachTask(const Context& ctx, StateReader& state, const JobId& job,
                   const std::function<Status(const Task&)>& visit) {
  std::unordered_set<TaskId> seen;
  int64_t counted = 0;
  for (int reading = 0; reading < kReadingsMax; ++reading) {
    for (const TaskState wanted : kStates) {
      PF_TRY(ForEachTaskIn(ctx, state, job, wanted, [&](const Task& task) {
        return seen.insert(task.id).second ? visit(task) : Status();
      }));
    }
    PF_ASSIGN(const JobView view, state.View(ctx, job));
    counted = 0;
    for (const StateCount& count : view.counts) counted += count.tasks;
    if (std::ssize(seen) >= counted) return {};
  }
  return Status(Code::kConflict,
                fmt::format("tasks of the job move while they are read: {} of {} seen", seen.size(),
                            counted));
}

}  // namespace partforge
