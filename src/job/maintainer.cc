#include "job/maintainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <span>

#include "base/json.h"
#include "job/failure.h"
#include "job/work_claimer.h"

namespace partforge {
namespace {

constexpr int64_t kPageTasks = 1'000;
constexpr int64_t kEditsMax = 1'000;         // of one Amend
constexpr int64_t kCandidatesMax = 100'000;  // tasks given to one Replan
constexpr int64_t kEqualFailuresMax = 3;

// Every COMPACT_READY task of the job, and what only the store knows about the window.
Result<Candidates> ReadCandidates(const Context& ctx, JobStore& store, const JobId& job,
                                  const std::string& worker) {
  Candidates candidates;
  BatchRequest look;
  look.job = job;
  look.worker = worker;
  // The chooser takes nothing, so nothing is claimed: the store only says what it would offer.
  PF_TRY(store.ClaimBatch(ctx, look, [&candidates](const Candidates& offered) {
    candidates.window_from_ms = offered.window_from_ms;
    candidates.now_ms = offered.now_ms;
    return std::vector<TaskEdit>();
  }));
  TaskId after;
  while (std::ssize(candidates.fragmented) + std::ssize(candidates.batch) < kCandidatesMax) {
    PF_ASSIGN(TaskPage page, store.Page(ctx, job, TaskState::kCompactReady, after, kPageTasks));
    for (Task& task : page.tasks) {
      (task.parts_peak > 1 ? candidates.fragmented : candidates.batch).push_back(std::move(task));
    }
    if (!page.next.has_value()) break;
    after = *page.next;
  }
  return candidates;
}

}  // namespace

Result<bool> Maintainer::RunWhenDue(const Context& ctx) {
  if (ctx.clock.NowMs() < next_at_ms_) return false;
  PF_TRY(Run(ctx));
  return true;
}

Status Maintainer::Run(const Context& ctx) {
  const auto spread_ms =
      static_cast<int64_t>(RandomBelow(ctx.random, static_cast<uint64_t>(options_.interval_ms)));
  next_at_ms_ = ctx.clock.NowMs() + options_.interval_ms / 2 + spread_ms;
  ReapRules rules;
  rules.crashes_max = options_.crashes_max;
  PF_ASSIGN(const int64_t reaped, store_.Reap(ctx, rules));
  if (reaped > 0) {
    PF_FAULT(ctx, "job.reaped");
    ctx.metrics.Add("partforge_crash_releases_total", {}, static_cast<double>(reaped));
    ctx.log.Warn("leases of dead workers ended", {{"attempts", reaped}});
  }
  PF_ASSIGN(const auto jobs, OpenJobsAmong(ctx, store_, options_.only));
  for (const JobSpec& job : jobs) {
    const auto kind = kinds_.Find(job.kind);
    if (!kind.ok() || kind->planner == nullptr) continue;
    PF_TRY(Replan(ctx, job, *kind->planner));
  }
  return {};
}

Status Maintainer::Replan(const Context& ctx, const JobSpec& job, Planner& planner) {
  PF_ASSIGN(const JobView view, store_.View(ctx, job.id));
  const bool is_any_ready =
      std::any_of(view.counts.begin(), view.counts.end(), [](const StateCount& count) {
        return count.state == TaskState::kCompactReady && count.tasks > 0;
      });
  if (!is_any_ready) return {};
  PF_ASSIGN(const Candidates candidates, ReadCandidates(ctx, store_, job.id, options_.worker));
  const Settlement planned = planner.Replan(view, candidates);
  const std::span<const TaskEdit> edits(planned.edits);
  for (size_t from = 0; from < edits.size(); from += kEditsMax) {
    Settlement some;
    const auto piece = edits.subspan(from, std::min<size_t>(kEditsMax, edits.size() - from));
    some.edits.assign(piece.begin(), piece.end());
    const Status amended = store_.Amend(ctx, job.id, some);
    // Somebody took one of them meanwhile: the next pass sees it as it is then.
    if (!amended.ok() && amended.code() == Code::kConflict) return {};
    PF_TRY(amended);
    PF_FAULT(ctx, "job.replanned");
  }
  return {};
}

Status PauseAfterEqualFailures(const Context& ctx, JobStore& store, const JobId& job) {
  PF_ASSIGN(const JobView view, store.View(ctx, job));
  if (view.is_paused) return {};
  for (const StateCount& count : view.counts) {
    const bool is_success = count.state != TaskState::kReady &&
                            count.state != TaskState::kInProgress &&
                            count.state != TaskState::kFailed;
    if (is_success && count.tasks > 0) return {};
  }
  PF_ASSIGN(const TaskPage page, store.Page(ctx, job, TaskState::kFailed, "", kPageTasks));
  std::map<int64_t, int64_t> failures_by_code;
  for (const Task& task : page.tasks) {
    // Without a number of an engine, two failures are not known to be alike.
    if (task.failure_class != FailureClassName(FailureClass::kSql) || task.failure_code == 0)
      continue;
    if (++failures_by_code[task.failure_code] < kEqualFailuresMax) continue;
    PF_TRY(store.SetPaused(ctx, job, true));
    PF_FAULT(ctx, "job.paused");
    ctx.log.Error("job paused after equal sql failures",
                  {{"job", job}, {"code", task.failure_code}});
    JsonDoc detail = JsonDoc::object();
    detail["failure_code"] = task.failure_code;
    detail["why"] = fmt::format("{} tasks failed alike and none succeeded", kEqualFailuresMax);
    return store.Note(ctx, job, "paused", DumpJson(detail));
  }
  return {};
}

}  // namespace partforge
