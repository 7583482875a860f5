#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/context.h"
#include "job/commit.h"
#include "job/failure.h"
#include "job/job_store.h"
#include "job/task.h"

namespace partforge {

enum class Stage : uint8_t { kNetwork, kEngine, kCpu };

// What an executor may use besides Context. Tasks stay sequential code; overlap comes from running
// several tasks.
class TaskScope {
 public:
  virtual ~TaskScope() = default;
  // Which of the worker's slots, from 0. Where a worker holds leases ahead of its slots, slot and
  // slot_path are the attempt's own only while it holds a permit of kEngine.
  virtual int slot() const = 0;
  virtual std::filesystem::path scratch()
      const = 0;  // private to the attempt, exists and is empty at the start
  virtual std::filesystem::path slot_path()
      const = 0;  // private to the slot for the worker's whole life
  // Waits for one of the worker's permits; RAII. kCancelled on stop.
  virtual Result<std::shared_ptr<void>> Enter(const Context& ctx, Stage stage) = 0;
  // Records progress at the worker's interval (not at each call). kLeaseLost tells the executor to
  // stop.
  virtual Status Report(const Context& ctx, const Progress& progress) = 0;
  // True once somebody asked to finalize this batch.
  virtual bool is_finalize_asked() const = 0;
  // kLeaseLost once a renewal is overdue: checked before every external effect.
  virtual Status CheckLease() const = 0;
};

class Planner {
 public:
  virtual ~Planner() = default;
  // Looks at the source once. Writes nothing.
  virtual Result<Plan> MakePlan(const Context& ctx, const JobSpec& spec) = 0;
  // Pure: what can be finished now without further work (edits for Amend).
  virtual Settlement Replan(const JobView& view, const Candidates& candidates) = 0;
  // Pure: which batch to claim; empty = none.
  virtual std::vector<TaskEdit> Choose(const Candidates& candidates) = 0;
};

class Executor {
 public:
  virtual ~Executor() = default;
  // Says how the lease ends; writes only under its attempt prefix. A failure is turned into a
  // settlement by the worker: kLeaseLost and kCancelled release; kUnavailable, kExhausted and
  // kUnknownOutcome release with a back-off; all else is FAILED. An executor that knows the class
  // of its failure answers with a settlement of its own (job/failure.h).
  virtual Result<Settlement> Execute(const Context& ctx, const Lease& lease, TaskScope& scope) = 0;
};

// What a committer may ask of the store while it holds the fence. kLeaseLost from any of it: stop,
// touch nothing more.
class CommitScope {
 public:
  virtual ~CommitScope() = default;
  virtual Result<std::vector<Piece>> Pieces(const Context& ctx) = 0;
  // SENT before, CONFIRMED after the irreversible step of a piece.
  virtual Status Mark(const Context& ctx, std::span<const Piece> pieces, PieceState to) = 0;
  virtual Result<Thing> Intend(const Context& ctx,
                               const Thing& thing) = 0;  // before any table or directory is made
  virtual Status SetThing(const Context& ctx, const Thing& as_it_was, const Thing& now) = 0;
  virtual Result<std::vector<Thing>> Things(const Context& ctx) = 0;
  virtual Status Hold(
      const Context& ctx) = 0;  // during long steps; also done by the publisher's own thread
  // COMMITTING → COMMITTING with new `staged` and tokens; only as ARCHITECTURE.md ("rebind")
  // allows.
  virtual Result<Commit> Rebind(const Context& ctx, const Json& staged,
                                std::span<const Piece> pieces) = 0;
};

struct Prepared {
  std::string protocol;
  std::string target;
  Json intent = "{}";
  std::vector<Piece> pieces;
  std::vector<LockWish> locks;
};
struct Staged {
  Json staged = "{}";
  std::vector<Piece> pieces;  // with their tokens and identities
};
enum class Evidence : uint8_t {
  kApplied,
  kNotApplied,
  kPartly
};  // cannot be told = kUnknownOutcome: in doubt

// Makes a decided choice visible exactly once. All methods but Prepare run under a fence.
class Committer {
 public:
  virtual ~Committer() = default;
  // Before Decide; no effects: checks the target, chooses the protocol.
  virtual Result<Prepared> Prepare(const Context& ctx, const Commit& proposal) = 0;
  // Reversible, invisible to readers; names made of serial or epoch. kCorruption or kRefused: the
  // commit is aborted from DECIDED.
  virtual Result<Staged> Stage(const Context& ctx, const Commit& fenced, CommitScope& scope) = 0;
  // What Stage made was not bound, maybe because somebody else has fenced the commit, and cleaned
  // up before Stage came to its end: removes it if nobody can bind it any more. Most have nothing
  // to do.
  virtual Status Forget(const Context&, const Commit&) { return {}; }
  // After every Fence of a bound commit: waits for older statements, renames what must be renamed
  // per epoch.
  virtual Status Take(const Context& ctx, const Commit& fenced, CommitScope& scope) = 0;
  // Looks at the target only, never at our memory.
  virtual Result<Evidence> Inspect(const Context& ctx, const Commit& fenced,
                                   CommitScope& scope) = 0;
  // Irreversible, idempotent, uses exactly what is bound. Returns the evidence. Called after every
  // Inspect, also when that said kApplied: then it only confirms the pieces that are not yet and
  // returns the evidence. kRefused or kCorruption: refused for good, the publisher calls Retract.
  // kConflict: the target moved on; kUnknownOutcome: ask it. Inspect and Apply follow again.
  virtual Result<Json> Apply(const Context& ctx, const Commit& fenced, CommitScope& scope) = 0;
  // Makes every late Apply impossible, or fails; then COMMITTING → ABORTED. Loads: kRefused.
  virtual Status Retract(const Context& ctx, const Commit& fenced, CommitScope& scope) = 0;
  // Removes losers, other epochs' litter, scratch; may run any number of times.
  virtual Status Clean(const Context& ctx, const Commit& fenced, CommitScope& scope) = 0;
};

// How FINISHED tasks of a job are gathered into commits.
enum class CommitGrouping : uint8_t {
  kSubset,  // all that is FINISHED once the job is sealed and nothing is left to execute (lakes)
  kTask,    // one commit a task: a bad artifact stops no other (imports)
  kJob,     // every task at once, when all are FINISHED; the commit's id is the job's (loads)
};

// Says which waiting tasks of a job one attempt does together: small ones, to save what each costs.
// The executor then gets a lease of several tasks and settles them all at once, mostly as inputs
// that one added output supersedes. Pure; used by one thread at a time.
class Gatherer {
 public:
  virtual ~Gatherer() = default;
  struct Limits {
    int64_t leases_max = 1;
    int64_t size_bytes_max = INT64_MAX;  // of all tasks of one lease
  };
  virtual int64_t task_bytes_max() const = 0;  // larger tasks are never gathered; negative: none
  // Whether tasks of a job may be gathered at all, by its spec.
  virtual bool MayGather(const Json& spec) const = 0;
  // Indexes of the offer's tasks, a lease each entry, at most limits.leases_max entries.
  virtual std::vector<std::vector<size_t>> Gather(const ClaimOffer& offer,
                                                  const Limits& limits) const = 0;
};

// One row of the table in app/wire.cc. A null committer means: this process cannot reach the
// target, so it neither proposes nor fences such commits. A null executor: it does not work on such
// tasks.
struct JobKind {
  std::string name;
  Planner* planner = nullptr;
  Executor* executor = nullptr;
  Committer* committer = nullptr;
  Executor* batch_executor = nullptr;  // of what Choose picked; null = no batches are taken here
  CommitGrouping grouping = CommitGrouping::kSubset;
  const Gatherer* gatherer = nullptr;  // null = an attempt does one task
  FailureReader read_failure = &FailureFrom;
};
class KindTable {
 public:
  Status Add(const JobKind& kind);                    // kAlreadyExists
  Result<JobKind> Find(std::string_view name) const;  // kNotFound
  std::vector<std::string> Names() const;

 private:
  std::map<std::string, JobKind, std::less<>> kinds_;
};

}  // namespace partforge
