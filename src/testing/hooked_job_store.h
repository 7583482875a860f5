#pragma once

#include <functional>
#include <string_view>
#include <utility>

#include "job/job_store.h"

namespace partforge::testing {

// A job store seen over a network that may fail. `before` is asked first with the name of the call
// ("job.claim", "ledger.fence", "read.view", …): its failure is the answer and nothing happens.
// `after` is asked once a call that writes is done: its failure is the answer although the effect
// stands, which is a lost reply.
class HookedJobStore final : public JobStore {
 public:
  using Hook = std::function<Status(std::string_view call)>;
  HookedJobStore(JobStore& inner, Hook before, Hook after)
      : inner_(inner), before_(std::move(before)), after_(std::move(after)) {}

  Result<JobId> CreateJob(const Context& ctx, const Plan& plan) override {
    return Write("job.create", [&] { return inner_.CreateJob(ctx, plan); });
  }
  Status AddTasks(const Context& ctx, const JobId& job, std::span<const Task> tasks) override {
    return Write("job.add_tasks", [&] { return inner_.AddTasks(ctx, job, tasks); });
  }
  Status Seal(const Context& ctx, const JobId& job, int64_t tasks) override {
    return Write("job.seal", [&] { return inner_.Seal(ctx, job, tasks); });
  }
  Result<std::vector<Lease>> Claim(const Context& ctx, const ClaimRequest& request) override {
    return Write("job.claim", [&] { return inner_.Claim(ctx, request); });
  }
  Result<std::optional<Lease>> ClaimNamed(const Context& ctx, const NamedClaim& claim) override {
    return Write("job.claim_named", [&] { return inner_.ClaimNamed(ctx, claim); });
  }
  Result<std::optional<Lease>> ClaimBatch(const Context& ctx, const BatchRequest& request,
                                          const ChooseBatch& choose) override {
    return Write("job.claim_batch", [&] { return inner_.ClaimBatch(ctx, request, choose); });
  }
  Status Renew(const Context& ctx, const Lease& lease, int64_t lease_ms) override {
    return Write("job.renew", [&] { return inner_.Renew(ctx, lease, lease_ms); });
  }
  Result<bool> Report(const Context& ctx, const Lease& lease, const Progress& progress) override {
    return Write("job.report", [&] { return inner_.Report(ctx, lease, progress); });
  }
  Status Settle(const Context& ctx, const Lease& lease, const Settlement& settlement) override {
    return Write("job.settle", [&] { return inner_.Settle(ctx, lease, settlement); });
  }
  Result<int64_t> Release(const Context& ctx, const Lease& lease) override {
    return Write("job.release", [&] { return inner_.Release(ctx, lease); });
  }
  Result<int64_t> Reap(const Context& ctx, const ReapRules& rules) override {
    return Write("job.reap", [&] { return inner_.Reap(ctx, rules); });
  }
  Status Amend(const Context& ctx, const JobId& job, const Settlement& settlement) override {
    return Write("job.amend", [&] { return inner_.Amend(ctx, job, settlement); });
  }
  Result<int64_t> Finalize(const Context& ctx, const JobId& job) override {
    return Write("job.finalize", [&] { return inner_.Finalize(ctx, job); });
  }
  Status SetPaused(const Context& ctx, const JobId& job, bool is_paused) override {
    return Write("job.set_paused", [&] { return inner_.SetPaused(ctx, job, is_paused); });
  }

  Result<Commit> Decide(const Context& ctx, const Commit& proposal, std::span<const Piece> pieces,
                        std::span<const LockWish> locks) override {
    return Write("ledger.decide", [&] { return inner_.Decide(ctx, proposal, pieces, locks); });
  }
  Status AbortJob(const Context& ctx, const JobId& job) override {
    return Write("ledger.abort_job", [&] { return inner_.AbortJob(ctx, job); });
  }
  Result<Commit> Fence(const Context& ctx, const CommitId& commit, std::string_view owner,
                       int64_t lease_ms) override {
    return Write("ledger.fence", [&] { return inner_.Fence(ctx, commit, owner, lease_ms); });
  }
  Status Hold(const Context& ctx, const Commit& fenced, int64_t lease_ms) override {
    return Write("ledger.hold", [&] { return inner_.Hold(ctx, fenced, lease_ms); });
  }
  Status Advance(const Context& ctx, const Commit& fenced, CommitState to, const Json& recorded,
                 std::span<const Piece> pieces) override {
    return Write("ledger.advance",
                 [&] { return inner_.Advance(ctx, fenced, to, recorded, pieces); });
  }
  Status Mark(const Context& ctx, const Commit& fenced, std::span<const Piece> pieces,
              PieceState to) override {
    return Write("ledger.mark", [&] { return inner_.Mark(ctx, fenced, pieces, to); });
  }
  Status Doubt(const Context& ctx, const Commit& fenced, std::string_view reason) override {
    return Write("ledger.doubt", [&] { return inner_.Doubt(ctx, fenced, reason); });
  }
  Result<Thing> Intend(const Context& ctx, const Actor& actor, const Thing& thing) override {
    return Write("ledger.intend", [&] { return inner_.Intend(ctx, actor, thing); });
  }
  Status SetThing(const Context& ctx, const Thing& as_it_was, const Thing& now) override {
    return Write("ledger.set_thing", [&] { return inner_.SetThing(ctx, as_it_was, now); });
  }
  Status Lock(const Context& ctx, const JobId& job, std::string_view holder,
              const LockWish& wish) override {
    return Write("ledger.lock", [&] { return inner_.Lock(ctx, job, holder, wish); });
  }
  Status Unlock(const Context& ctx, std::string_view holder) override {
    return Write("ledger.unlock", [&] { return inner_.Unlock(ctx, holder); });
  }

  Result<std::vector<JobSpec>> OpenJobs(const Context& ctx) override {
    return Read("read.open_jobs", [&] { return inner_.OpenJobs(ctx); });
  }
  Result<std::vector<JobView>> ListJobs(const Context& ctx) override {
    return Read("read.list_jobs", [&] { return inner_.ListJobs(ctx); });
  }
  Result<JobView> View(const Context& ctx, const JobId& job) override {
    return Read("read.view", [&] { return inner_.View(ctx, job); });
  }
  Result<TaskPage> Page(const Context& ctx, const JobId& job, TaskState state,
                        std::string_view after, int64_t tasks_max) override {
    return Read("read.page", [&] { return inner_.Page(ctx, job, state, after, tasks_max); });
  }
  Result<Task> GetTask(const Context& ctx, const JobId& job, const TaskId& task) override {
    return Read("read.task", [&] { return inner_.GetTask(ctx, job, task); });
  }
  Result<std::vector<AttemptView>> Attempts(const Context& ctx, const JobId& job,
                                            const TaskId& task) override {
    return Read("read.attempts", [&] { return inner_.Attempts(ctx, job, task); });
  }
  Result<Commit> GetCommit(const Context& ctx, const CommitId& commit) override {
    return Read("read.commit", [&] { return inner_.GetCommit(ctx, commit); });
  }
  Result<std::vector<Piece>> Pieces(const Context& ctx, const CommitId& commit) override {
    return Read("read.pieces", [&] { return inner_.Pieces(ctx, commit); });
  }
  Result<std::vector<Thing>> Things(const Context& ctx, const JobId& job) override {
    return Read("read.things", [&] { return inner_.Things(ctx, job); });
  }
  Result<std::vector<EventView>> Events(const Context& ctx, const JobId& job, const TaskId& task,
                                        int64_t after_seq, int64_t events_max) override {
    return Read("read.events",
                [&] { return inner_.Events(ctx, job, task, after_seq, events_max); });
  }
  Status Note(const Context& ctx, const JobId& job, std::string_view event,
              const Json& detail) override {
    return Write("read.note", [&] { return inner_.Note(ctx, job, event, detail); });
  }

 private:
  template <class Body>
  auto Read(std::string_view call, Body body) -> decltype(body()) {
    if (before_) PF_TRY(before_(call));
    return body();
  }
  template <class Body>
  auto Write(std::string_view call, Body body) -> decltype(body()) {
    auto outcome = Read(call, body);
    if (after_) PF_TRY(after_(call));
    return outcome;
  }

  JobStore& inner_;
  const Hook before_, after_;
};

}  // namespace partforge::testing
