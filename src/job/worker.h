#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "base/context.h"
#include "job/attempt_runner.h"
#include "job/environment_watch.h"
#include "job/job_store.h"
#include "job/kind.h"
#include "job/lease_keeper.h"
#include "job/maintainer.h"
#include "job/publisher.h"
#include "job/run_folder.h"
#include "job/slot_board.h"
#include "job/stage_permits.h"
#include "job/work_claimer.h"

namespace partforge {

// When Run ends by itself.
enum class RunUntil : uint8_t {
  kStopped,   // never: only by ctx.stop
  kOnce,      // after one work item, one commit or one maintenance pass
  kJobsDone,  // once nothing is left that anybody could do for the jobs of `only`
};

struct WorkerOptions {
  std::string name;                // owner of leases and fences; another process has another name
  std::filesystem::path work_dir;  // empty: executors get no folders
  int64_t parallel = 1;            // slots of Run
  // Leases of Run beyond its slots: while the slots' engines work, so many other tasks are fetched
  // or published. Executors must then enter kEngine for what belongs to a slot.
  int64_t ahead = 0;
  int64_t lease_ms = 60'000;
  int64_t poll_ms = 10'000;  // between looks at a store that had nothing
  int64_t maintain_interval_ms = 10'000;
  int64_t progress_interval_ms = 15'000;  // 0 = no progress is recorded
  WorkerRole role = WorkerRole::kAll;
  std::vector<JobId> only;  // empty = any job
  RunUntil until = RunUntil::kStopped;
  Renewal renewal = Renewal::kByThread;  // kByCaller: a worker of which only Step is called
  int64_t crashes_max = 3;               // leases that ran out before a task is FAILED as poison
  int64_t attempts_max = 0;              // see FailureRules
  int64_t shutdown_grace_ms = 15'000;
  int64_t environment_patience_ms = 600'000;  // see EnvironmentWatch
  int64_t batch_bytes_max = INT64_MAX, batch_tasks_max = 20;
  std::optional<StagePermits::Limits> permits;  // unset = as many of each as slots
  // Admission: the largest task that fits now, asked before each claim; empty = no limit.
  std::function<Result<int64_t>(const Context& ctx)> size_bytes_max;
  // Shown every lease that ended, once the store has been told how; by several threads at once.
  // Those that are lost are not shown.
  std::function<void(const Context& ctx, const Lease& lease, const Settlement& ended)> on_ended;
};

// Tasks by how their leases ended (a compaction counts as one), and commits.
struct RunSummary {
  int64_t done = 0, failed = 0, released = 0, lost = 0;
  int64_t commits_carried = 0;
  Status last_failure;  // of a part that failed for good; OK when none did
};

// Claims tasks, runs their executors, publishes, and does the maintenance anybody may do. A task
// that fails never ends the worker. Step may be called by one thread; Run starts its own threads
// and joins them before it returns.
class Worker {
 public:
  // Makes and locks the run folder, and removes those of dead workers. kInvalidArgument on options
  // without sense.
  static Result<std::unique_ptr<Worker>> Open(const Context& ctx, JobStore& store,
                                              const KindTable& kinds, WorkerOptions options);

  // Does the first that applies, in the caller's thread: claim and execute a task · claim and
  // execute a batch · publish · maintain, at most each maintain_interval_ms. Fails when the job
  // store does; a task's failure is no failure of Step.
  Result<Stepped> Step(const Context& ctx);

  // Works until `until` or ctx.stop: one thread a lease, one that only renews leases, one that
  // publishes and maintains. A store that does not answer is waited for; any other failure of the
  // store ends the run, and so does an environment that refuses everything for too long. After a
  // stop: claims nothing more, cancels, settles what is finished, hands
  // back the rest, and returns once the executors have returned (they must within seconds of the
  // stop); settlements are given up after shutdown_grace_ms.
  Result<RunSummary> Run(const Context& ctx);

  // Removes the run folder; call it when no executor and no engine uses it any more.
  Status Close(const Context& ctx);
  const RunFolder* run_folder() const { return folder_.get(); }  // null without a work_dir
  RunSummary summary() const;

 private:
  Worker(JobStore& store, const KindTable& kinds, WorkerOptions options,
         std::unique_ptr<RunFolder> folder);

  Status RunWork(const Context& ctx, std::stop_token last_word, const ClaimedWork& work, int slot);
  Result<Stepped> Publish(const Context& ctx);
  Result<Stepped> PublishOrMaintain(const Context& ctx);
  Result<bool> IsWorkLeft(const Context& ctx);
  // Why no waiting task is taken although nothing runs: each is larger than what may be admitted
  // now. kExhausted (PF7007), or OK.
  Status CheckAdmission(const Context& ctx);
  void WarnNothingFits(const Context& ctx, const Status& admission);
  Result<bool> IsWorkLeftOf(const Context& ctx, const JobId& job);
  Status RunOnce(const Context& ctx);
  Status RunSlots(const Context& ctx);
  Status FeedSlots(const Context& ctx, SlotBoard& board);
  void RunSlot(const Context& ctx, const std::stop_token& last_word, SlotBoard& board, int slot);
  int64_t leases_max() const { return options_.parallel + options_.ahead; }
  void PublishUntilStopped(const Context& ctx, SlotBoard& board);
  void Count(AttemptEnd end, const Lease& lease, const Settlement& ended);
  void NoteFailure(const Settlement& ended);
  Status publish_failure() const;

  JobStore& store_;
  const KindTable& kinds_;
  const WorkerOptions options_;
  const std::unique_ptr<RunFolder> folder_;
  LeaseKeeper keeper_;
  StagePermits permits_;
  AttemptRunner runner_;
  WorkClaimer claimer_;
  Publisher publisher_;
  Maintainer maintainer_;
  EnvironmentWatch environment_;
  int64_t warned_at_ms_ = -1;  // that nothing fits; by the feeding thread only
  mutable std::mutex mutex_;
  RunSummary summary_;      // guarded by mutex_
  Status publish_failure_;  // why a job cannot be published at all; guarded by mutex_
};

}  // namespace partforge
