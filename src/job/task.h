#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace partforge {

using JobId = std::string;
using TaskId = std::string;
using CommitId = std::string;
// In interfaces JSON travels as text; base/json.h reads our own payloads strictly.
using Json = std::string;

// Who proposes commits of a job's FINISHED tasks (state-schema §2, jobs.publish).
enum class PublishMode : uint8_t {
  kCommand,  // only a command that names the target (import-finished)
  kAsked,    // once `loader commit` was called
  kAuto,     // as soon as tasks are FINISHED
};

// `key` makes creation idempotent: the same key is the same job; with another `spec` it is
// kConflict.
struct JobSpec {
  JobId id;
  std::string kind;  // picks planner and committer: "clickhouse.rewrite", "testing.copy", …
  std::string key;   // empty = the id
  std::string name;  // for people
  PublishMode publish = PublishMode::kAuto;
  std::string target;  // canonical target key; empty while unknown
  Json spec = "{}";    // the request, canonical; fixed
};

// One vocabulary, the seed's. Lake tasks use READY, IN_PROGRESS, FINISHED, IMPORTING, IMPORTED,
// FAILED.
enum class TaskState : uint8_t {
  kReady,
  kInProgress,
  kCompactReady,
  kCompacting,
  kSuperseded,
  kFinished,
  kImporting,
  kImported,
  kFailed
};
std::string_view TaskStateName(TaskState state);  // "READY", "IN_PROGRESS", …
// The task has a finished attempt that was not superseded: COMPACT_READY to IMPORTED.
bool HasOutput(TaskState state);
std::optional<TaskState> ParseTaskState(std::string_view name);

struct TaskResult {
  Json outputs = "{}";
  int64_t rows_in = 0, rows_out = 0, bytes_in = 0, bytes_out = 0;
  std::string digest;
  // What compaction and status screens look at (typed columns of `tasks`).
  std::string group_key, partition_id;
  int64_t parts_out = 0, parts_peak = 0, partitions_out = 0;
};

// A task is a value: everything a stranger needs to do the work, fixed at planning time.
struct Task {
  TaskId id;
  JobId job;
  std::string kind;                     // picks the executor
  int64_t number = 0;                   // order of registration
  int64_t size_bytes = 0;               // claim order: largest first
  std::string source_job, source_task;  // when the work is borrowed from another job
  TaskState state = TaskState::kReady;
  uint64_t epoch = 0;    // grows with every attempt granted; attempt id = (id, epoch)
  uint64_t winner = 0;   // the attempt whose result stands; 0 = none
  CommitId commit;       // at most one commit that is not aborted; empty = none
  TaskId superseded_by;  // the task that consumed this one
  int64_t generation = 0;
  std::string group_key, partition_id;
  int64_t parts_out = 0, parts_peak = 0, partitions_out = 0, rows_out = 0, bytes_out = 0;
  int64_t attempts = 0;
  int64_t crashes = 0;  // leases of this task alone that ran out
  int64_t not_before_ms = 0, ready_at_ms = 0, finalize_at_ms = 0;
  std::string failure_class;
  int64_t failure_code = 0;
  int64_t created_at_ms = 0, updated_at_ms = 0, started_at_ms = 0;
  Json payload = "{}";
};

struct Plan {
  JobSpec job;
  std::vector<Task> tasks;  // empty = a success that commits nothing
};

// One task, or a batch taken together; epochs as granted.
struct Lease {
  std::vector<Task> tasks;
  std::string owner;
  std::string token;  // 32 hex, of this lease alone; never logged
  TaskId output;      // of a batch: the id its result will have
  // Of the first task's attempt: 42 bits, unique in the store; base of MARKER values.
  uint64_t serial = 0;
};
// Taken by ClaimBatch, to be put together.
inline bool IsBatch(const Lease& lease) {
  return !lease.tasks.empty() && lease.tasks.front().state == TaskState::kCompacting;
}
// Tasks that were claimed together (GatherRule): one of them may be to blame for a failure, and
// which is not known.
inline bool IsGathered(const Lease& lease) {
  return lease.tasks.size() > 1 && !IsBatch(lease);
}

// READY tasks of one job and kind as a claim finds them, largest first, and how much waits there in
// all.
struct ClaimOffer {
  Json spec = "{}";  // of the job
  std::vector<Task> tasks;
  int64_t ready_bytes = 0;  // offered or not, as the job's counters say
};
// How small tasks of a kind are taken together, so that one attempt does them all at once.
struct GatherRule {
  int64_t task_bytes_max = 0;  // while a larger task waits, tasks are taken one by one
  int64_t offer_max = 1'000;   // tasks of one offer
  // Whether tasks of a job with this spec may share an attempt at all: asked before any of them is
  // read or locked. False: they are taken one by one. Empty = of every job.
  std::function<bool(const Json& spec)> may_gather = {};
  // Which are taken, a lease each entry: indexes into the offer's tasks, each at most once. Called
  // inside the claiming transaction; it may run again. A task whose last attempt has failed
  // (failure_class, crashes) should be alone, else it takes others down with it for ever.
  std::function<std::vector<std::vector<size_t>>(const ClaimOffer&)> choose;
};

// That what was chosen names offered tasks only, each once: kInternal otherwise.
Status CheckChosen(const std::vector<std::vector<size_t>>& chosen, size_t offered);

struct ClaimRequest {
  std::string worker;
  std::vector<std::string> kinds;
  int64_t lease_ms = 60'000;
  std::vector<JobId> only;             // empty = any job
  int64_t size_bytes_max = INT64_MAX;  // admission by free scratch space
  int64_t tasks_max = 1;  // a worker feeds all its slots with one claim: one Lease a task
  // By kind; tasks of other kinds have a lease each. `choose` keeps to size_bytes_max and tasks_max
  // (leases) itself, for it knows what a task becomes together with others.
  std::map<std::string, GatherRule> gathering = {};
};

struct NamedClaim {
  enum class Twin : uint8_t { kLoadAttempt, kSpeculation };
  JobId job;
  TaskId task;
  std::string label, worker;
  int64_t lease_ms = 60'000;
  Twin twin = Twin::kLoadAttempt;
  uint64_t epoch = 0;  // kSpeculation: the epoch that runs now
};

struct Progress {
  std::string stage;
  double fraction = 0;
  int64_t rows = 0, bytes = 0, blocks = 0;
  Json detail = "{}";  // attempts.progress: stage durations, merges, live numbers
};

// Applies only while `from` holds and `epoch` is an attempt still OPEN with the lease's token.
struct TaskEdit {
  TaskId id;
  TaskState from = TaskState::kInProgress;
  uint64_t epoch = 0;
  TaskState to = TaskState::kReady;
  std::optional<TaskResult> result;  // of edits that finish an attempt
  TaskId superseded_by;
  std::optional<Json> payload;  // replaces the task's payload
  int64_t backoff_ms = 0;       // not claimed earlier than so long from now
  std::string failure_class;
  int64_t failure_code = 0;
  std::string error;  // put into payload.error
};

// From the state the task is in, of the attempt it is at.
TaskEdit EditTo(const Task& task, TaskState to);

struct Settlement {
  std::vector<TaskEdit> edits;
  // Outputs of a batch; `results` has one entry each. `epoch` is that of the result: where the same
  // id may be made again after its row has gone, one that no earlier result had; 0 = 1.
  std::vector<Task> added;
  std::vector<TaskResult> added_results;
};

// Compaction: rows the store offers (a few, by index), and a pure choice among them, made inside
// the claiming transaction; it may run again.
struct Candidates {
  std::vector<Task> fragmented, batch;
  int64_t window_from_ms = 0, now_ms = 0;
};
using ChooseBatch = std::function<std::vector<TaskEdit>(const Candidates&)>;

struct BatchRequest {
  JobId job;
  std::string worker;
  TaskId output;  // empty = derived by the chooser's caller afterwards
  int64_t lease_ms = 60'000, bytes_max = INT64_MAX, tasks_max = 20;
};

struct ReapRules {
  int64_t crashes_max = 3, backoff_ms = 0;
};

struct StateCount {
  TaskState state = TaskState::kReady;
  int64_t tasks = 0, bytes = 0, parts = 0, rows = 0;
};

struct TaskPage {
  std::vector<Task> tasks;
  std::optional<TaskId> next;
};

// An attempt as the store holds it.
struct AttemptView {
  TaskId task;
  uint64_t epoch = 0;
  std::string label, state, owner;  // OPEN | FINISHED | CHOSEN | LOST | ABORTED
  int64_t lease_until_ms = 0, opened_at_ms = 0, ended_at_ms = 0;
  std::string stage;
  double fraction = 0;
  int64_t rows_done = 0, bytes_done = 0, progress_at_ms = 0;
  Json progress = "{}";
  int64_t rows_result = 0, bytes_result = 0;
  std::string digest;
  Json result = "{}";
};

struct EventView {
  int64_t seq = 0, at_ms = 0;
  std::string job, task, commit, actor, event, from_state, to_state;
  uint64_t epoch = 0;
  Json detail = "{}";
};

}  // namespace partforge
