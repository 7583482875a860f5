#pragma once

#include <functional>
#include <memory>

#include "job/job_store.h"
#include "job/sql_db.h"

namespace partforge {

// What becomes of attempts that are open while an operator changes their tasks: refused, ended
// where the lease has run out by the store's clock, or ended all the same. With an attempt its
// whole lease ends: the other tasks of it go back to where they were claimed from.
enum class OpenWork : uint8_t { kRefuse, kEndExpired, kEnd };

// The job store over one schema, the same on SQLite and PostgreSQL (specs state-schema). Every
// method is one transaction of SqlDb; nothing is kept in memory between two of them. Thread-safe.
class SqlJobStore final : public JobStore {
 public:
  // The schema must be there already (migrations.h); OpenJobStore sees to that. `actor` is who did,
  // in the history, what no lease or fence was needed for.
  explicit SqlJobStore(std::unique_ptr<SqlDb> db, std::string actor = "operator");
  ~SqlJobStore() override;

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

  // ask_finalize: the batch that makes `output` should end as soon as it can. kNotFound when no
  // batch does.
  Status AskFinalize(const Context& ctx, const JobId& job, const TaskId& output);

  // What an operator's command does to the tasks of a job in one transaction: edits as in Amend,
  // without its limit, and rows that go with their attempts (reset-job, reset-compaction,
  // delete-parts). kConflict where work is open and may not be ended, or a commit is under way;
  // kRefused where another job borrows a deleted one.
  Status ChangeTasks(const Context& ctx, const JobId& job, std::span<const TaskEdit> edits,
                     std::span<const TaskId> deleted, OpenWork open_work);

  // Adds to the counters of a job what they lack to equal a count over its tasks. Returns how many
  // states were wrong.
  Result<int64_t> RepairCounters(const Context& ctx, const JobId& job);

  // Removes all rows of a job in one transaction. kRefused while work or a commit is under way, or
  // while another job's tasks borrow from it. `delete_objects` runs inside the transaction, before
  // the rows go, so that no copy can appear meanwhile; it may run again. Returns how many tasks
  // went.
  Result<int64_t> DeleteJob(const Context& ctx, const JobId& job,
                            const std::function<Status()>& delete_objects);

  // The driver, e.g. to shift its clock in tests.
  SqlDb& db() { return *db_; }

 private:
  std::unique_ptr<SqlDb> db_;
  const std::string actor_;
};

}  // namespace partforge
