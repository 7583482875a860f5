#include "job/publisher.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/ids.h"
#include "base/json.h"
#include "job/backoff.h"
#include "job/failure.h"

namespace partforge {
namespace {

constexpr int64_t kPageTasks = 1'000;
constexpr int64_t kChosenMax = 100'000;  // tasks of one commit
constexpr int64_t kRetryLongestMs = 60'000;
constexpr int kRepliesLostMax = 4;

int64_t CountIn(const JobView& view, std::initializer_list<TaskState> states) {
  int64_t count = 0;
  for (const StateCount& one : view.counts) {
    if (std::find(states.begin(), states.end(), one.state) != states.end()) count += one.tasks;
  }
  return count;
}

// Whether Stage's failure may pass by itself. Everything else aborts, which from DECIDED is always
// safe; so does a full disk, since what is half staged is cleaned from it by that.
bool MayPass(Code code) {
  return code == Code::kUnavailable || code == Code::kUnknownOutcome || code == Code::kCancelled ||
         code == Code::kLeaseLost;
}

// The evidence of T15. Without a class it is T14: the tasks are no worse than before and are
// FINISHED again.
Json AbortEvidence(const Status& why, FailureReader read_failure) {
  JsonDoc doc = JsonDoc::object();
  doc["error"] = RecordedError(why);
  if (why.code() == Code::kExhausted || IsOfSurroundings(why)) return DumpJson(doc);
  const Failure failure = read_failure(why);
  doc["failure_class"] = FailureClassName(failure.failure_class);
  doc["failure_code"] = failure.code;
  return DumpJson(doc);
}

// Aborted by T14: nothing failed for good.
bool IsTakenBack(const Commit& commit) {
  if (commit.state != CommitState::kAborted) return false;
  const Result<JsonDoc> evidence = ParseJson(commit.evidence);
  return evidence.ok() && evidence->is_object() && !evidence->contains("failure_class");
}

}  // namespace

bool CanGather(const JobView& view, CommitGrouping grouping) {
  if (CountIn(view, {TaskState::kFinished}) == 0) return false;
  const int64_t unfinished = CountIn(view, {TaskState::kReady, TaskState::kInProgress,
                                            TaskState::kCompactReady, TaskState::kCompacting});
  switch (grouping) {
    case CommitGrouping::kTask:
      return true;
    case CommitGrouping::kSubset:
      return view.state == "SEALED" && unfinished == 0;
    case CommitGrouping::kJob:
      return view.state == "SEALED" && unfinished == 0 && CountIn(view, {TaskState::kFailed}) == 0;
  }
  return false;
}

Result<Stepped> Publisher::Step(const Context& ctx, const JobId& job) {
  PF_ASSIGN(const JobView view, store_.View(ctx, job));
  for (const Commit& commit : view.live_commits) {
    const auto kind = kinds_.Find(commit.kind);
    if (!kind.ok() || kind->committer == nullptr || IsWaiting(ctx, commit.id)) continue;
    PF_TRY(ctx.CheckStop("publish"));
    const auto carried = Carry(ctx, commit.id);
    if (carried.ok()) {
      if (IsTakenBack(*carried)) WaitAfterFailure(ctx, job);
      return Stepped::kWorked;
    }
    ctx.log.Warn("commit not carried to its end",
                 {{"commit", commit.id}, {"job", job}, {"error", carried.status().ToString()}});
    WaitAfterFailure(ctx, commit.id);
  }
  if (std::find(options_.proposes.begin(), options_.proposes.end(), view.job.publish) ==
          options_.proposes.end() ||
      IsWaiting(ctx, job)) {
    return Stepped::kIdle;
  }
  const auto proposed = ProposeView(ctx, view);
  if (!proposed.ok()) {
    WaitAfterFailure(ctx, job);
    // Somebody else was faster, or holds the target: not this job's failure.
    if (proposed.status().code() == Code::kConflict) return Stepped::kIdle;
    return proposed.status();
  }
  if (!proposed->has_value()) {
    retries_.erase(job);
    return Stepped::kIdle;
  }
  const auto carried = Carry(ctx, **proposed);
  if (carried.ok() && IsTakenBack(*carried)) {
    // Its tasks are FINISHED again: the same decision would come at once.
    WaitAfterFailure(ctx, job);
    return Stepped::kWorked;
  }
  retries_.erase(job);
  if (!carried.ok()) {
    ctx.log.Warn("commit not carried to its end",
                 {{"commit", **proposed}, {"job", job}, {"error", carried.status().ToString()}});
    WaitAfterFailure(ctx, **proposed);
  }
  return Stepped::kWorked;
}

Result<std::optional<CommitId>> Publisher::Propose(const Context& ctx, const JobId& job) {
  PF_ASSIGN(const JobView view, store_.View(ctx, job));
  return ProposeView(ctx, view);
}

Result<std::optional<CommitId>> Publisher::ProposeView(const Context& ctx, const JobView& view) {
  if (view.state != "OPEN" && view.state != "SEALED") return std::optional<CommitId>();
  const auto kind = kinds_.Find(view.job.kind);
  if (!kind.ok() || kind->committer == nullptr) return std::optional<CommitId>();
  if (!CanGather(view, kind->grouping)) return std::optional<CommitId>();

  PF_ASSIGN(std::vector<Chosen> chosen, Gather(ctx, view, kind->grouping));
  return ProposeChosen(ctx, view, *kind, std::move(chosen));
}

Result<std::optional<CommitId>> Publisher::ProposeTask(const Context& ctx, const JobId& job,
                                                       const TaskId& task) {
  PF_ASSIGN(const JobView view, store_.View(ctx, job));
  PF_ASSIGN(const JobKind kind, kinds_.Find(view.job.kind));
  if (kind.committer == nullptr || kind.grouping != CommitGrouping::kTask) {
    return Status(Code::kRefused,
                  fmt::format("tasks of {} are not committed one by one", kind.name));
  }
  PF_ASSIGN(const Task found, store_.GetTask(ctx, job, task));
  if (found.state != TaskState::kFinished) return std::optional<CommitId>();
  PF_ASSIGN(Chosen one, Choose(ctx, found));
  std::vector<Chosen> chosen;
  chosen.push_back(std::move(one));
  return ProposeChosen(ctx, view, kind, std::move(chosen));
}

Result<std::optional<CommitId>> Publisher::ProposeChosen(const Context& ctx, const JobView& view,
                                                         const JobKind& kind,
                                                         std::vector<Chosen> chosen) {
  Commit proposal;
  proposal.id =
      kind.grouping == CommitGrouping::kJob ? view.job.id : "cmt-" + RandomHex(ctx.random, 8);
  proposal.job = view.job.id;
  proposal.kind = view.job.kind;
  proposal.target = view.job.target;
  proposal.chosen = std::move(chosen);
  if (proposal.chosen.empty()) return std::optional<CommitId>();
  PF_ASSIGN(const Prepared prepared, kind.committer->Prepare(ctx, proposal));
  proposal.protocol = prepared.protocol;
  if (!prepared.target.empty()) proposal.target = prepared.target;
  proposal.intent = prepared.intent;
  PF_ASSIGN(const Commit decided, Decide(ctx, proposal, prepared));
  PF_FAULT(ctx, "publish.decided");
  ctx.log.Info("commit decided", {{"commit", decided.id},
                                  {"job", decided.job},
                                  {"tasks", proposal.chosen.size()},
                                  {"pieces", prepared.pieces.size()}});
  return std::optional<CommitId>(decided.id);
}

Result<std::vector<Chosen>> Publisher::Gather(const Context& ctx, const JobView& view,
                                              CommitGrouping grouping) {
  std::vector<Chosen> chosen;
  TaskId after;
  while (true) {
    PF_ASSIGN(const TaskPage page,
              store_.Page(ctx, view.job.id, TaskState::kFinished, after, kPageTasks));
    for (const Task& task : page.tasks) {
      PF_ASSIGN(Chosen one, Choose(ctx, task));
      chosen.push_back(std::move(one));
      if (grouping == CommitGrouping::kTask) return chosen;
    }
    if (std::ssize(chosen) > kChosenMax) {
      return Status(Code::kRefused, fmt::format("a commit holds at most {} tasks", kChosenMax));
    }
    if (!page.next.has_value()) return chosen;
    after = *page.next;
  }
}

Result<Chosen> Publisher::Choose(const Context& ctx, const Task& task) {
  PF_ASSIGN(const auto attempts, store_.Attempts(ctx, task.job, task.id));
  const auto winner = std::find_if(attempts.begin(), attempts.end(), [&](const AttemptView& one) {
    return one.epoch == task.winner;
  });
  if (winner == attempts.end()) {
    return Status(Code::kCorruption,
                  fmt::format("FINISHED task {} has no attempt {}", task.id, task.winner));
  }
  Chosen chosen;
  chosen.task = task.id;
  chosen.epoch = task.winner;
  chosen.result.outputs = winner->result;
  chosen.result.rows_out = winner->rows_result;
  chosen.result.bytes_out = winner->bytes_result;
  chosen.result.digest = winner->digest;
  chosen.result.group_key = task.group_key;
  chosen.result.partition_id = task.partition_id;
  chosen.result.parts_out = task.parts_out;
  chosen.result.parts_peak = task.parts_peak;
  chosen.result.partitions_out = task.partitions_out;
  return chosen;
}

Result<Commit> Publisher::Decide(const Context& ctx, const Commit& proposal,
                                 const Prepared& prepared) {
  // The same id again returns the first decision, so a lost reply is answered by asking again.
  for (int tries = 1;; ++tries) {
    auto decided = store_.Decide(ctx, proposal, prepared.pieces, prepared.locks);
    const bool is_lost = !decided.ok() && decided.status().code() == Code::kUnknownOutcome;
    if (!is_lost || tries == kRepliesLostMax) return decided;
  }
}

Result<Commit> Publisher::Fence(const Context& ctx, const CommitId& commit) {
  // Fencing what we hold already is allowed: after a lost reply we only take one epoch more.
  for (int tries = 1;; ++tries) {
    auto fenced = store_.Fence(ctx, commit, options_.name, options_.lease_ms);
    const bool is_lost = !fenced.ok() && fenced.status().code() == Code::kUnknownOutcome;
    if (!is_lost || tries == kRepliesLostMax) return fenced;
  }
}

Result<Commit> Publisher::Carry(const Context& ctx, const CommitId& commit) {
  PF_ASSIGN(const Commit known, store_.GetCommit(ctx, commit));
  if (known.is_cleaned) return known;
  PF_ASSIGN(const JobKind kind, kinds_.Find(known.kind));
  if (kind.committer == nullptr) {
    return Status(Code::kRefused,
                  fmt::format("this process cannot reach the target of {} commits", known.kind));
  }
  auto fenced = Fence(ctx, commit);
  if (!fenced.ok() && fenced.status().code() == Code::kNotFound)
    return store_.GetCommit(ctx, commit);
  if (!fenced.ok()) return fenced.status();
  PF_FAULT(ctx, "publish.fenced");

  FencedScope scope(store_, *fenced, options_.lease_ms);
  std::stop_source work_stop;
  const std::stop_callback on_stop(ctx.stop, [&work_stop] { work_stop.request_stop(); });
  Context work_ctx = ctx;
  work_ctx.stop = work_stop.get_token();
  std::optional<FenceHolder> holder;
  if (options_.renewal == Renewal::kByThread) {
    holder.emplace(ctx, store_, *fenced, options_.lease_ms,
                   [work_stop]() mutable { work_stop.request_stop(); });
  }
  PF_TRY(CarryFenced(work_ctx, *kind.committer, scope));
  retries_.erase(commit);
  return scope.commit();
}

Status Publisher::CarryFenced(const Context& ctx, Committer& committer, FencedScope& scope) {
  if (scope.commit().state == CommitState::kDecided) {
    PF_TRY(StageAndBind(ctx, committer, scope));
  } else if (scope.commit().state == CommitState::kCommitting) {
    const Status taken = committer.Take(ctx, scope.commit(), scope);
    if (!taken.ok() && taken.code() == Code::kUnknownOutcome) return Doubt(ctx, scope, taken);
    PF_TRY(taken);
    PF_FAULT(ctx, "publish.taken");
  }
  if (scope.commit().state == CommitState::kCommitting) {
    PF_TRY(ApplyUntilPublished(ctx, committer, scope));
  }
  return CleanUp(ctx, committer, scope);
}

Status Publisher::StageAndBind(const Context& ctx, Committer& committer, FencedScope& scope) {
  const auto forget = [&] {
    Context unstopped = ctx;
    unstopped.stop = {};
    Ignore(unstopped, committer.Forget(unstopped, scope.commit()), "litter that nobody will name");
  };
  const auto staged = committer.Stage(ctx, scope.commit(), scope);
  if (!staged.ok()) {
    const Status& why = staged.status();
    if (!MayPass(why.code())) return Abort(ctx, scope, why);
    forget();
    return why;
  }
  PF_FAULT(ctx, "publish.staged");
  Status bound = scope.Advance(ctx, CommitState::kCommitting, staged->staged, staged->pieces);
  if (!bound.ok()) forget();
  PF_TRY(bound);
  PF_FAULT(ctx, "publish.bound");
  return {};
}

Status Publisher::ApplyUntilPublished(const Context& ctx, Committer& committer,
                                      FencedScope& scope) {
  Status last;
  for (int64_t tries = 0; tries < options_.applies_max; ++tries) {
    PF_TRY(ctx.CheckStop("publish"));
    const auto seen = committer.Inspect(ctx, scope.commit(), scope);
    if (!seen.ok() && seen.status().code() == Code::kUnknownOutcome)
      return Doubt(ctx, scope, seen.status());
    PF_TRY(seen);
    const auto evidence = committer.Apply(ctx, scope.commit(), scope);
    if (evidence.ok()) {
      PF_FAULT(ctx, "publish.applied");
      PF_TRY(scope.Advance(ctx, CommitState::kPublished, *evidence, {}));
      PF_FAULT(ctx, "publish.published");
      ctx.log.Info("commit published",
                   {{"commit", scope.commit().id}, {"job", scope.commit().job}});
      return {};
    }
    last = evidence.status();
    switch (last.code()) {
      case Code::kRefused:
      case Code::kCorruption: {
        Status retracted = RetractAndAbort(ctx, committer, scope, last);
        // The target changed under the retract, and the committer turned back to publishing.
        if (!retracted.ok() && retracted.code() == Code::kConflict) continue;
        return retracted;
      }
      case Code::kConflict:
      case Code::kUnknownOutcome:
        continue;
      default:
        return last;
    }
  }
  return last.code() == Code::kUnknownOutcome ? Doubt(ctx, scope, last) : last;
}

Status Publisher::RetractAndAbort(const Context& ctx, Committer& committer, FencedScope& scope,
                                  const Status& why) {
  const Status retracted = committer.Retract(ctx, scope.commit(), scope);
  if (!retracted.ok()) {
    const bool is_stuck =
        retracted.code() == Code::kRefused || retracted.code() == Code::kUnknownOutcome;
    return is_stuck ? Doubt(ctx, scope, Status(why).With(retracted.message())) : retracted;
  }
  PF_FAULT(ctx, "publish.retracted");
  return Abort(ctx, scope, why);
}

Status Publisher::Abort(const Context& ctx, FencedScope& scope, const Status& why) {
  const auto kind = kinds_.Find(scope.commit().kind);
  const Json evidence = AbortEvidence(why, kind.ok() ? kind->read_failure : &FailureFrom);
  const Status aborted = scope.Advance(ctx, CommitState::kAborted, evidence, {});
  // A load is never aborted after the decision: then what went wrong is what there is to say.
  if (!aborted.ok() && aborted.code() == Code::kRefused) return why;
  PF_TRY(aborted);
  PF_FAULT(ctx, "publish.aborted");
  ctx.log.Error("commit aborted", {{"commit", scope.commit().id}, {"error", why.ToString()}});
  return {};
}

Status Publisher::Doubt(const Context& ctx, FencedScope& scope, const Status& why) {
  ctx.log.Error("commit in doubt", {{"commit", scope.commit().id}, {"error", why.ToString()}});
  PF_TRY(store_.Doubt(ctx, scope.commit(), RecordedError(why)));
  return Status(Code::kUnknownOutcome,
                fmt::format("commit {} is in doubt: {}", scope.commit().id, why.message()));
}

Status Publisher::CleanUp(const Context& ctx, Committer& committer, FencedScope& scope) {
  PF_TRY(committer.Clean(ctx, scope.commit(), scope));
  PF_FAULT(ctx, "publish.swept");
  PF_TRY(scope.Advance(ctx, CommitState::kCleaned, "{}", {}));
  PF_FAULT(ctx, "publish.cleaned");
  return {};
}

Status Publisher::Abandon(const Context& ctx, const CommitId& commit) {
  PF_ASSIGN(const Commit fenced, Fence(ctx, commit));
  if (fenced.state != CommitState::kDecided) {
    return Status(Code::kRefused, fmt::format("commit {} is {} and can only go forward", commit,
                                              CommitStateName(fenced.state)));
  }
  FencedScope scope(store_, fenced, options_.lease_ms);
  PF_TRY(scope.Advance(ctx, CommitState::kAborted, "{}", {}));
  PF_FAULT(ctx, "publish.abandoned");
  return {};
}

bool Publisher::IsWaiting(const Context& ctx, const std::string& what) const {
  const auto it = retries_.find(what);
  return it != retries_.end() && ctx.clock.NowMs() < it->second.not_before_ms;
}

void Publisher::WaitAfterFailure(const Context& ctx, const std::string& what) {
  Retry& retry = retries_[what];
  ++retry.tries;
  // The common back-off to 10 s, then doubling on to a minute: a commit in doubt may wait for a
  // person.
  const int64_t longer = std::clamp<int64_t>(retry.tries - 5, 0, 3);
  const int64_t wait_ms = std::min(kRetryLongestMs, BackoffMs(ctx.random, retry.tries) << longer);
  retry.not_before_ms = ctx.clock.NowMs() + wait_ms;
}

}  // namespace partforge
