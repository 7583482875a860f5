#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/context.h"
#include "job/job_store.h"
#include "job/kind.h"
#include "job/lease_keeper.h"

namespace partforge {

// What a worker takes; everybody maintains and publishes.
enum class WorkerRole : uint8_t { kAll, kTasks, kBatches };

struct ClaimOptions {
  std::string worker;  // owner of the leases
  WorkerRole role = WorkerRole::kAll;
  std::vector<JobId> only;  // empty = any job
  int64_t batch_bytes_max = INT64_MAX, batch_tasks_max = 20;
  // Admission: the largest task that fits now, asked before each claim; empty = no limit.
  std::function<Result<int64_t>(const Context& ctx)> size_bytes_max;
};

// A lease in the keeper's hands, and who works on it.
struct ClaimedWork {
  std::shared_ptr<HeldLease> held;
  Executor* executor = nullptr;
  FailureReader read_failure = &FailureFrom;
};

// Takes work from the store: tasks first, batches when there is no task. One thread at a time, but
// for Learn.
class WorkClaimer {
 public:
  WorkClaimer(JobStore& store, const KindTable& kinds, LeaseKeeper& keeper, ClaimOptions options)
      : store_(store), kinds_(kinds), keeper_(keeper), options_(std::move(options)) {}

  // At most `leases_max` leases; empty when there is nothing to take. Fails when the store does.
  Result<std::vector<ClaimedWork>> Claim(const Context& ctx, int64_t leases_max);
  // Takes note of how an attempt ended: after a failure of class disk only tasks of half the size
  // are taken, until one of them succeeds.
  void Learn(const Lease& lease, const Settlement& ended);

 private:
  Result<std::vector<ClaimedWork>> ClaimTasks(const Context& ctx, int64_t leases_max);
  Result<std::optional<ClaimedWork>> ClaimBatch(const Context& ctx);
  Result<int64_t> SizeMax(const Context& ctx) const;

  JobStore& store_;
  const KindTable& kinds_;
  LeaseKeeper& keeper_;
  const ClaimOptions options_;
  std::atomic<int64_t> size_limit_bytes_ =
      INT64_MAX;  // what disk failures taught; a hint, no decision rests on it
};

// The open jobs among `only`, or all open jobs when that is empty.
Result<std::vector<JobSpec>> OpenJobsAmong(const Context& ctx, StateReader& reader,
                                           const std::vector<JobId>& only);

}  // namespace partforge
