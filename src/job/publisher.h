#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/context.h"
#include "job/fenced_scope.h"
#include "job/job_store.h"
#include "job/kind.h"
#include "job/lease_keeper.h"

namespace partforge {

enum class Stepped : uint8_t { kIdle, kWorked };

struct PublisherOptions {
  std::string name;  // owner of the fences; another process has another name
  int64_t lease_ms = 60'000;
  // Jobs whose FINISHED tasks this publisher may propose: a worker kAuto; `loader commit` kAsked;
  // import kCommand.
  std::vector<PublishMode> proposes = {PublishMode::kAuto};
  Renewal renewal = Renewal::kByThread;  // of the fence; kByCaller: only by CommitScope::Hold
  int64_t applies_max = 5;               // Inspect and Apply in one fence after kConflict
};

// Whether FINISHED tasks of the job can be gathered into a commit now. Pure.
bool CanGather(const JobView& view, CommitGrouping grouping);

// The only code that calls a Committer (ARCHITECTURE.md, "States, and what makes it exactly once"):
//   Prepare → Decide → Fence → Stage → bind → Take, Inspect, Apply → PUBLISHED → Clean → CLEANED
// A crash anywhere leaves a commit that any publisher takes up by its next Fence. One thread at a
// time.
class Publisher {
 public:
  Publisher(JobStore& store, const KindTable& kinds, PublisherOptions options)
      : store_(store), kinds_(kinds), options_(std::move(options)) {}

  // Carries one unfinished commit of the job as far as it goes, or proposes one and carries that.
  // Commits that failed wait (1, 2, 4 … 60 s, in this process's memory); what other publishers hold
  // is left alone. Failures of commits are logged and remembered, not returned; those of the job
  // store and of Prepare are.
  Result<Stepped> Step(const Context& ctx, const JobId& job);

  // Carries one commit as far as it goes and returns it as it stands then: CLEANED, or ABORTED and
  // clean. kConflict: another publisher holds it. kLeaseLost: one took it over. kUnknownOutcome: in
  // doubt, and noted in the store. kRefused: no committer here. Anything else: the step that
  // failed; another call goes on from there.
  Result<Commit> Carry(const Context& ctx, const CommitId& commit);

  // Decides the next commit of the job's FINISHED tasks; empty when there is nothing to decide now.
  // kConflict: a lock on the target is held, or somebody else was faster.
  Result<std::optional<CommitId>> Propose(const Context& ctx, const JobId& job);

  // The same for one FINISHED task of a kind that commits each task by itself; empty when the task
  // is not FINISHED (any more).
  Result<std::optional<CommitId>> ProposeTask(const Context& ctx, const JobId& job,
                                              const TaskId& task);

  // Takes a decision back while nothing is bound (cancel by signal, clickhouse-parts T14): DECIDED
  // → ABORTED, its tasks are FINISHED again. kRefused when it is bound already: that can only go
  // forward.
  Status Abandon(const Context& ctx, const CommitId& commit);

 private:
  struct Retry {
    int64_t tries = 0, not_before_ms = 0;
  };

  Result<std::optional<CommitId>> ProposeView(const Context& ctx, const JobView& view);
  Result<std::optional<CommitId>> ProposeChosen(const Context& ctx, const JobView& view,
                                                const JobKind& kind, std::vector<Chosen> chosen);
  Result<std::vector<Chosen>> Gather(const Context& ctx, const JobView& view,
                                     CommitGrouping grouping);
  Result<Chosen> Choose(const Context& ctx, const Task& task);
  Result<Commit> Decide(const Context& ctx, const Commit& proposal, const Prepared& prepared);
  Result<Commit> Fence(const Context& ctx, const CommitId& commit);
  Status CarryFenced(const Context& ctx, Committer& committer, FencedScope& scope);
  Status StageAndBind(const Context& ctx, Committer& committer, FencedScope& scope);
  Status ApplyUntilPublished(const Context& ctx, Committer& committer, FencedScope& scope);
  Status RetractAndAbort(const Context& ctx, Committer& committer, FencedScope& scope,
                         const Status& why);
  Status Abort(const Context& ctx, FencedScope& scope, const Status& why);
  Status Doubt(const Context& ctx, FencedScope& scope, const Status& why);
  Status CleanUp(const Context& ctx, Committer& committer, FencedScope& scope);
  bool IsWaiting(const Context& ctx, const std::string& what) const;
  void WaitAfterFailure(const Context& ctx, const std::string& what);

  JobStore& store_;
  const KindTable& kinds_;
  const PublisherOptions options_;
  std::map<std::string, Retry, std::less<>> retries_;  // by commit id, or the task of a proposal
};

}  // namespace partforge
