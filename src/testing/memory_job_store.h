#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "job/job_store.h"

namespace partforge::testing {

// A JobStore in memory with the laws of the real one (state-schema §4): every method is one
// transaction under one mutex, and a method that fails has changed nothing. Its clock is the one
// given plus what ShiftMs added.
class MemoryJobStore final : public JobStore {
 public:
  explicit MemoryJobStore(Clock& clock) : clock_(clock) {}

  void ShiftMs(int64_t ms);
  // Every task as it stands, in order of job and id; for checkers that compare two moments.
  void ForEachTask(const std::function<void(const Task&)>& look);
  void ForEachCommit(const std::function<void(const Commit&)>& look);

  Result<JobId> CreateJob(const Context& ctx, const Plan& plan) override;
  Status AddTasks(const Context& ctx, const JobId& job, std::span<const Task> tasks) override;
  Status Seal(const Context& ctx, const JobId& job, int64_t tasks) override;
  Result<std::vector<Lease>> Claim(const Context& ctx, const ClaimRequest& request) override;
  Result<std::optional<Lease>> ClaimNamed(const Context& ctx, const NamedClaim& claim) override;
  Result<std::optional<Lease>> ClaimBatch(const Context& ctx, const BatchRequest& request,
                                          const ChooseBatch& choose) override;
  Status Renew(const Context& ctx, const Lease& lease, int64_t lease_ms) override;
  Result<bool> Report(const Context& ctx, const Lease& lease, const Progress& progress) override;
  Status Settle(const Context& ctx, const Lease& lease, const Settlement& settlement) override;
  Result<int64_t> Release(const Context& ctx, const Lease& lease) override;
  Result<int64_t> Reap(const Context& ctx, const ReapRules& rules) override;
  Status Amend(const Context& ctx, const JobId& job, const Settlement& settlement) override;
  Result<int64_t> Finalize(const Context& ctx, const JobId& job) override;
  Status SetPaused(const Context& ctx, const JobId& job, bool is_paused) override;

  Result<Commit> Decide(const Context& ctx, const Commit& proposal, std::span<const Piece> pieces,
                        std::span<const LockWish> locks) override;
  Status AbortJob(const Context& ctx, const JobId& job) override;
  Result<Commit> Fence(const Context& ctx, const CommitId& commit, std::string_view owner,
                       int64_t lease_ms) override;
  Status Hold(const Context& ctx, const Commit& fenced, int64_t lease_ms) override;
  Status Advance(const Context& ctx, const Commit& fenced, CommitState to, const Json& recorded,
                 std::span<const Piece> pieces) override;
  Status Mark(const Context& ctx, const Commit& fenced, std::span<const Piece> pieces,
              PieceState to) override;
  Status Doubt(const Context& ctx, const Commit& fenced, std::string_view reason) override;
  Result<Thing> Intend(const Context& ctx, const Actor& actor, const Thing& thing) override;
  Status SetThing(const Context& ctx, const Thing& as_it_was, const Thing& now) override;
  Status Lock(const Context& ctx, const JobId& job, std::string_view holder,
              const LockWish& wish) override;
  Status Unlock(const Context& ctx, std::string_view holder) override;

  Result<std::vector<JobSpec>> OpenJobs(const Context& ctx) override;
  Result<std::vector<JobView>> ListJobs(const Context& ctx) override;
  Result<JobView> View(const Context& ctx, const JobId& job) override;
  Result<TaskPage> Page(const Context& ctx, const JobId& job, TaskState state,
                        std::string_view after, int64_t tasks_max) override;
  Result<Task> GetTask(const Context& ctx, const JobId& job, const TaskId& task) override;
  Result<std::vector<AttemptView>> Attempts(const Context& ctx, const JobId& job,
                                            const TaskId& task) override;
  Result<Commit> GetCommit(const Context& ctx, const CommitId& commit) override;
  Result<std::vector<Piece>> Pieces(const Context& ctx, const CommitId& commit) override;
  Result<std::vector<Thing>> Things(const Context& ctx, const JobId& job) override;
  Result<std::vector<EventView>> Events(const Context& ctx, const JobId& job, const TaskId& task,
                                        int64_t after_seq, int64_t events_max) override;
  Status Note(const Context& ctx, const JobId& job, std::string_view event,
              const Json& detail) override;

 private:
  using TaskKey = std::pair<JobId, TaskId>;
  struct JobRow {
    JobSpec spec;
    std::string state = "OPEN";
    bool is_paused = false;
    int64_t tasks_expected = -1, created_at_ms = 0, sealed_at_ms = 0, number = 0;
  };
  struct AttemptRow {
    AttemptView view;
    std::string token;
    uint64_t serial = 0;
    TaskResult result;
  };
  struct TaskRow {
    Task task;
    TaskId output_id;
    std::map<uint64_t, AttemptRow> attempts;  // by epoch
  };
  struct CommitRow {
    Commit commit;
    int64_t lease_until_ms = 0;
    std::map<int64_t, Piece> pieces;
  };
  struct ThingRow {
    Thing thing;
    JobId job;
    Actor actor;
  };
  struct LockRow {
    LockWish wish;
    std::string holder;
    int64_t lease_until_ms = 0;
  };
  struct State {
    std::map<JobId, JobRow> jobs;
    std::map<TaskKey, TaskRow> tasks;
    std::map<CommitId, CommitRow> commits;
    std::vector<ThingRow> things;
    std::vector<LockRow> locks;
    std::set<uint64_t> serials;
    int64_t things_made = 0;
  };

  // All of the following hold mutex_.
  template <class Body>
  auto Transact(Body body) -> decltype(body());
  int64_t NowMs() { return clock_.NowMs() + shift_ms_; }
  uint64_t DrawSerial(const Context& ctx);
  Result<JobRow*> FindJob(const JobId& job);
  Result<TaskRow*> FindTask(const JobId& job, const TaskId& task);
  Result<CommitRow*> Own(const Commit& fenced);
  Task Grant(const Context& ctx, TaskRow& row, TaskState to, const AttemptRow& attempt);
  Status AddTask(const JobRow& job, const Task& task);
  Status SettleEdit(const Lease& lease, const TaskEdit& edit);
  Status AddOutput(const Lease& lease, const Settlement& settlement, size_t index);
  Status AmendEdit(const JobId& job, const TaskEdit& edit);
  int64_t TasksOfLease(std::string_view token) const;  // with those that have ended
  Status ReapAttempt(TaskRow& row, AttemptRow& attempt, const ReapRules& rules);
  Status DecideTask(const Commit& proposal, Chosen& chosen);
  Status Bind(CommitRow& row, const Json& staged, std::span<const Piece> pieces);
  Status Publish(CommitRow& row, const Json& evidence);
  Status Abort(CommitRow& row, const Json& evidence);
  Status CleanRow(CommitRow& row);
  Status TakeLock(const JobId& job, std::string_view holder, const LockWish& wish);
  void ReleaseLocks(std::string_view holder);
  Candidates CandidatesOf(const JobId& job, const BatchRequest& request);
  JobView ViewOf(const JobRow& row);
  void Move(TaskRow& row, TaskState to, std::string_view event);
  void Record(const JobId& job, const TaskId& task, const CommitId& commit, uint64_t epoch,
              std::string_view event, std::string_view from, std::string_view to);

  Clock& clock_;
  std::mutex mutex_;
  int64_t shift_ms_ = 0;           // guarded by mutex_
  State state_;                    // guarded by mutex_
  std::vector<EventView> events_;  // guarded by mutex_
  std::string actor_;              // of the transaction; guarded by mutex_
};

}  // namespace partforge::testing
