#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/context.h"
#include "job/commit.h"
#include "job/task.h"

namespace partforge {

// The only durable memory, in three windows on one store. Every method is one transaction; every
// write is a compare-and-set and answers kConflict (commits, amendments) or kLeaseLost (work) when
// it lost: then nothing of it happened. kUnavailable when the database does not answer;
// kUnknownOutcome when the connection broke at COMMIT. Statements: specs state-schema §4; the name
// stands in each comment. Safe for concurrent use.
class WorkStore {
 public:
  virtual ~WorkStore() = default;
  // create_job: same key = same job (its id is returned), another spec = kConflict. OPEN, with the
  // plan's tasks added.
  virtual Result<JobId> CreateJob(const Context& ctx, const Plan& plan) = 0;
  // add_task: may be repeated; equal source and size = already there, anything else is kCorruption
  // (a collision).
  virtual Status AddTasks(const Context& ctx, const JobId& job, std::span<const Task> tasks) = 0;
  // seal: all tasks are there. Sealing again with the same number is OK.
  virtual Status Seal(const Context& ctx, const JobId& job, int64_t tasks) = 0;
  // claim: READY → IN_PROGRESS, largest first over all jobs, epoch + 1. One lease per task, or per
  // entry that a GatherRule of its kind chose; empty = nothing to do.
  virtual Result<std::vector<Lease>> Claim(const Context& ctx, const ClaimRequest& request) = 0;
  // claim_named, claim_twin.
  virtual Result<std::optional<Lease>> ClaimNamed(const Context& ctx, const NamedClaim& claim) = 0;
  // pick_*, claim_batch: COMPACT_READY → COMPACTING, one shared token. Empty = nothing chosen.
  virtual Result<std::optional<Lease>> ClaimBatch(const Context& ctx, const BatchRequest& request,
                                                  const ChooseBatch& choose) = 0;
  virtual Status Renew(const Context& ctx, const Lease& lease, int64_t lease_ms) = 0;  // renew
  // progress; true = somebody asked to finalize. kLeaseLost when the attempt is no longer OPEN.
  virtual Result<bool> Report(const Context& ctx, const Lease& lease, const Progress& progress) = 0;
  // settle_*: finished, released, failed, or inputs superseded by an added output. All or nothing.
  virtual Status Settle(const Context& ctx, const Lease& lease, const Settlement& settlement) = 0;
  // hand_back: what is still ours of a lease that is lost as a whole goes back to where it was
  // claimed from, at once and without blame; what others have is left alone. How many tasks did.
  virtual Result<int64_t> Release(const Context& ctx, const Lease& lease) = 0;
  // expired, reap_*: leases that ran out, and poison. A lease of several tasks counts no crash for
  // any of them: they go back with the class `crash` and the number of its tasks as failure code.
  // Number of attempts reaped.
  virtual Result<int64_t> Reap(const Context& ctx, const ReapRules& rules) = 0;
  // amend: without a lease; at most 1,000 edits a call. `epoch` of an edit is the task's current
  // one.
  virtual Status Amend(const Context& ctx, const JobId& job, const Settlement& settlement) = 0;
  // finalize: COMPACT_READY → FINISHED, up to 1,000 a call; returns how many.
  virtual Result<int64_t> Finalize(const Context& ctx, const JobId& job) = 0;
  virtual Status SetPaused(const Context& ctx, const JobId& job, bool is_paused) = 0;
};

class LedgerStore {
 public:
  virtual ~LedgerStore() = default;
  // THE commit point. The same commit id again returns the first decision. kConflict when a lock is
  // held or a task is no longer FINISHED with that attempt.
  virtual Result<Commit> Decide(const Context& ctx, const Commit& proposal,
                                std::span<const Piece> pieces, std::span<const LockWish> locks) = 0;
  virtual Status AbortJob(const Context& ctx, const JobId& job) = 0;  // only while no commit exists
  // Takes over a free or stale commit: epoch + 1. kConflict while another owner's lease runs,
  // kNotFound when cleaned.
  virtual Result<Commit> Fence(const Context& ctx, const CommitId& commit, std::string_view owner,
                               int64_t lease_ms) = 0;
  // Renews the fence during a long Stage or Apply. kLeaseLost when fenced.
  virtual Status Hold(const Context& ctx, const Commit& fenced, int64_t lease_ms) = 0;
  // bind, rebind, published, cleaned, abort: only while epoch (and state) are as in `fenced`; else
  // kLeaseLost. kCommitting: `recorded` is `staged` and the pieces carry tokens. kPublished:
  // `recorded` is the evidence; every piece is CONFIRMED or REPLACED. kAborted: `recorded` is the
  // evidence; tasks go back to FINISHED, or to FAILED when it has a "failure_class" member.
  virtual Status Advance(const Context& ctx, const Commit& fenced, CommitState to,
                         const Json& recorded, std::span<const Piece> pieces) = 0;
  virtual Status Mark(const Context& ctx, const Commit& fenced, std::span<const Piece> pieces,
                      PieceState to) = 0;  // mark_sent, mark_piece
  virtual Status Doubt(const Context& ctx, const Commit& fenced, std::string_view reason) = 0;
  // Before anything is created outside the store.
  virtual Result<Thing> Intend(const Context& ctx, const Actor& actor, const Thing& thing) = 0;
  virtual Status SetThing(const Context& ctx, const Thing& as_it_was, const Thing& now) = 0;
  // A command's lock on a target; kConflict when taken. Taking it again with the same holder renews
  // it.
  virtual Status Lock(const Context& ctx, const JobId& job, std::string_view holder,
                      const LockWish& wish) = 0;
  virtual Status Unlock(const Context& ctx, std::string_view holder) = 0;
};

class StateReader {
 public:
  virtual ~StateReader() = default;
  virtual Result<std::vector<JobSpec>> OpenJobs(
      const Context& ctx) = 0;  // not ABORTED, with unfinished work or commits
  virtual Result<std::vector<JobView>> ListJobs(const Context& ctx) = 0;   // all, oldest first
  virtual Result<JobView> View(const Context& ctx, const JobId& job) = 0;  // one consistent read
  // Tasks in one state by id, greater than `after`.
  virtual Result<TaskPage> Page(const Context& ctx, const JobId& job, TaskState state,
                                std::string_view after, int64_t tasks_max) = 0;
  virtual Result<Task> GetTask(const Context& ctx, const JobId& job, const TaskId& task) = 0;
  virtual Result<std::vector<AttemptView>> Attempts(const Context& ctx, const JobId& job,
                                                    const TaskId& task) = 0;
  virtual Result<Commit> GetCommit(const Context& ctx, const CommitId& commit) = 0;
  virtual Result<std::vector<Piece>> Pieces(const Context& ctx, const CommitId& commit) = 0;
  virtual Result<std::vector<Thing>> Things(const Context& ctx, const JobId& job) = 0;
  // Events of a job (and of one task when not empty) after `after_seq`, oldest first, at most
  // `events_max`.
  virtual Result<std::vector<EventView>> Events(const Context& ctx, const JobId& job,
                                                const TaskId& task, int64_t after_seq,
                                                int64_t events_max) = 0;
  virtual Status Note(const Context& ctx, const JobId& job, std::string_view event,
                      const Json& detail) = 0;  // append-only history for people
};

class JobStore : public WorkStore, public LedgerStore, public StateReader {};

}  // namespace partforge
