#include "job/work_claimer.h"

#include <algorithm>

#include "job/failure.h"

namespace partforge {
namespace {

bool HasSucceeded(const Settlement& ended) {
  return !ended.added.empty() ||
         std::any_of(ended.edits.begin(), ended.edits.end(),
                     [](const TaskEdit& edit) { return edit.result.has_value(); });
}

}  // namespace

Result<std::vector<ClaimedWork>> WorkClaimer::Claim(const Context& ctx, int64_t leases_max) {
  if (options_.role != WorkerRole::kBatches) {
    PF_ASSIGN(auto claimed, ClaimTasks(ctx, leases_max));
    if (!claimed.empty()) return claimed;
  }
  std::vector<ClaimedWork> claimed;
  if (options_.role == WorkerRole::kTasks) return claimed;
  PF_ASSIGN(auto batch, ClaimBatch(ctx));
  if (batch.has_value()) claimed.push_back(std::move(*batch));
  return claimed;
}

Result<std::vector<ClaimedWork>> WorkClaimer::ClaimTasks(const Context& ctx, int64_t leases_max) {
  ClaimRequest request;
  request.worker = options_.worker;
  request.lease_ms = keeper_.lease_ms();
  request.only = options_.only;
  request.tasks_max = leases_max;
  PF_ASSIGN(request.size_bytes_max, SizeMax(ctx));
  for (const std::string& name : kinds_.Names()) {
    PF_ASSIGN(const JobKind kind, kinds_.Find(name));
    if (kind.executor == nullptr) continue;
    request.kinds.push_back(name);
    if (kind.gatherer == nullptr || kind.gatherer->task_bytes_max() < 0) continue;
    const Gatherer::Limits limits{.leases_max = leases_max,
                                  .size_bytes_max = request.size_bytes_max};
    request.gathering[name] = GatherRule{
        .task_bytes_max = kind.gatherer->task_bytes_max(),
        .may_gather = [gatherer =
                           kind.gatherer](const Json& spec) { return gatherer->MayGather(spec); },
        .choose = [gatherer = kind.gatherer,
                   limits](const ClaimOffer& offer) { return gatherer->Gather(offer, limits); }};
  }
  std::vector<ClaimedWork> claimed;
  if (request.kinds.empty()) return claimed;
  const int64_t asked_at_ms = ctx.clock.NowMs();
  PF_ASSIGN(const auto leases, store_.Claim(ctx, request));
  if (!leases.empty()) PF_FAULT(ctx, "job.claimed");
  // Nothing so small is left: a larger one is tried again in time, or the disk may never be.
  if (leases.empty() && size_limit_bytes_ < INT64_MAX / 2)
    size_limit_bytes_ = size_limit_bytes_ * 2;
  for (const Lease& lease : leases) {
    PF_ASSIGN(const JobKind kind, kinds_.Find(lease.tasks.front().kind));
    claimed.push_back({.held = keeper_.Add(lease, asked_at_ms),
                       .executor = kind.executor,
                       .read_failure = kind.read_failure});
  }
  return claimed;
}

Result<std::optional<ClaimedWork>> WorkClaimer::ClaimBatch(const Context& ctx) {
  PF_ASSIGN(const auto jobs, OpenJobsAmong(ctx, store_, options_.only));
  PF_ASSIGN(const int64_t size_max, SizeMax(ctx));
  for (const JobSpec& job : jobs) {
    const auto kind = kinds_.Find(job.kind);
    if (!kind.ok() || kind->batch_executor == nullptr || kind->planner == nullptr) continue;
    BatchRequest request;
    request.job = job.id;
    request.worker = options_.worker;
    request.lease_ms = keeper_.lease_ms();
    request.bytes_max = std::min(options_.batch_bytes_max, size_max);
    request.tasks_max = options_.batch_tasks_max;
    Planner* planner = kind->planner;
    const int64_t asked_at_ms = ctx.clock.NowMs();
    PF_ASSIGN(const auto lease,
              store_.ClaimBatch(ctx, request, [planner](const Candidates& candidates) {
                return planner->Choose(candidates);
              }));
    if (!lease.has_value()) continue;
    PF_FAULT(ctx, "job.claimed_batch");
    return std::optional(ClaimedWork{.held = keeper_.Add(*lease, asked_at_ms),
                                     .executor = kind->batch_executor,
                                     .read_failure = kind->read_failure});
  }
  return std::optional<ClaimedWork>();
}

Result<int64_t> WorkClaimer::SizeMax(const Context& ctx) const {
  const int64_t learned = size_limit_bytes_;
  if (!options_.size_bytes_max) return learned;
  PF_ASSIGN(const int64_t admitted, options_.size_bytes_max(ctx));
  return std::min(learned, admitted);
}

void WorkClaimer::Learn(const Lease& lease, const Settlement& ended) {
  const std::string_view disk = FailureClassName(FailureClass::kDisk);
  const bool was_disk =
      std::any_of(ended.edits.begin(), ended.edits.end(),
                  [&](const TaskEdit& edit) { return edit.failure_class == disk; });
  int64_t size_bytes = 0;
  for (const Task& task : lease.tasks) size_bytes += task.size_bytes;
  if (was_disk) {
    size_limit_bytes_ = std::max<int64_t>(1, size_bytes / 2);
  } else if (HasSucceeded(ended) && size_limit_bytes_ != INT64_MAX) {
    size_limit_bytes_ = INT64_MAX;
  }
}

Result<std::vector<JobSpec>> OpenJobsAmong(const Context& ctx, StateReader& reader,
                                           const std::vector<JobId>& only) {
  PF_ASSIGN(auto jobs, reader.OpenJobs(ctx));
  if (only.empty()) return jobs;
  std::erase_if(jobs, [&](const JobSpec& job) {
    return std::find(only.begin(), only.end(), job.id) == only.end();
  });
  return jobs;
}

}  // namespace partforge
