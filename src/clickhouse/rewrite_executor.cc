#include "clickhouse/rewrite_executor.h"

#include <fmt/format.h>

#include "clickhouse/rewrite_attempt.h"
#include "clickhouse/rewrite_job.h"
#include "engine/clickhouse_codes.h"
#include "job/failure.h"

namespace partforge::clickhouse {

namespace {

constexpr int kDiskFull = 7007, kPoisonPart = 2139;
constexpr int64_t kDiskBackoffMs = 30'000, kEnvironmentBackoffMs = 30'000;
// Attempts of a part whose engine failed in passing each time, before it is no longer believed.
constexpr int64_t kPassingFailuresMax = 5;

// A store that refuses, or a full one, says nothing about the part.
bool IsOfEnvironment(const Failure& failure, bool is_transfer) {
  if (failure.code != 0) return failure.failure_class == FailureClass::kEnv;
  if (failure.failure_class == FailureClass::kEnv || IsOfSurroundings(failure.status)) return true;
  const Code code = failure.status.code();
  return is_transfer &&
         (code == Code::kInvalidArgument || code == Code::kExhausted || code == Code::kConflict);
}

Result<Settlement> PassOrGiveUp(const Lease& lease, Status status, bool is_transfer) {
  const Task& task = lease.tasks.front();
  const bool is_repeated = task.attempts >= kPassingFailuresMax &&
                           task.failure_class == FailureClassName(FailureClass::kTransient);
  if (is_transfer || !is_repeated) return std::move(status).As(Code::kUnavailable);
  status = std::move(status).As(Code::kInternal).With(fmt::format("{} attempts", task.attempts));
  Failure failure = FailureFrom(status);
  failure.failure_class = FailureClass::kInternal;
  return FailedSettlement(lease, failure);
}

}  // namespace

Result<Settlement> SettleFailure(const Lease& lease, Status status, bool is_transfer) {
  if (status.code() == Code::kCancelled || status.code() == Code::kLeaseLost) return status;
  Failure failure = FailureFrom(status);
  if (failure.code != 0 || status.code() == Code::kExhausted)
    failure.failure_class = FailureClassOf(status);
  if (status.explanation().pf_number == kDiskFull) failure.failure_class = FailureClass::kDisk;
  if (status.explanation().pf_number == kPoisonPart) failure.failure_class = FailureClass::kPoison;
  if (failure.failure_class != FailureClass::kDisk && IsOfEnvironment(failure, is_transfer)) {
    failure.failure_class = FailureClass::kEnv;
    return ReleasedSettlement(lease, &failure, kEnvironmentBackoffMs);
  }
  switch (failure.failure_class) {
    case FailureClass::kDisk:
      return ReleasedSettlement(lease, &failure, kDiskBackoffMs);
    case FailureClass::kTransient:
    case FailureClass::kDoubt:  // only throw-away tables were touched
      return PassOrGiveUp(lease, std::move(status), is_transfer);
    default:
      return FailedSettlement(lease, failure);
  }
}

RewriteExecutor::RewriteExecutor(StateReader& state, StoreOfBucket store_of_bucket,
                                 SlotEngines& engines, RewriteSettings settings)
    : state_(state),
      store_of_bucket_(std::move(store_of_bucket)),
      engines_(engines),
      settings_(std::move(settings)) {}

Result<Settlement> RewriteExecutor::Execute(const Context& ctx, const Lease& lease,
                                            TaskScope& scope) {
  PF_CHECK(lease.tasks.size() == 1, "a rewrite works on one task");
  const Task& task = lease.tasks.front();
  PF_ASSIGN(const JobView view, state_.View(ctx, task.job));
  PF_ASSIGN(RewriteJobSpec job, RewriteJobSpec::FromJson(view.job.spec));
  PF_ASSIGN(RewriteTaskSpec part, RewriteTaskSpec::FromJson(task.payload));
  PF_ASSIGN(ObjectStore* const store, store_of_bucket_(ctx, job.bucket));
  const MetricLabels labels{
      {"job_id", task.job},
      {"source_table", job.source_database + "." + job.source_table},
      {"destination_table", job.destination_database + "." + job.destination_table}};
  ctx.metrics.Add("partforge_forges_started_total", labels);
  const int64_t started_ms = MonotonicMs();

  RewriteAttempt attempt(settings_, engines_, cache_, kept_, *store, std::move(job), part, task,
                         task.source_job.empty() ? task.job : task.source_job,
                         task.source_task.empty() ? task.id : task.source_task, scope);
  Result<TaskResult> result = attempt.Run(ctx);
  const bool is_transfer = attempt.is_transfer();
  attempt.CleanUp(ctx);

  const double seconds = static_cast<double>(MonotonicMs() - started_ms) / 1000.0;
  MetricLabels timed = labels;
  timed["result"] = result.ok() ? "completed" : "failed";
  ctx.metrics.Observe("partforge_forge_duration_seconds", timed, seconds);
  if (result.ok()) ctx.metrics.Add("partforge_forges_completed_total", labels);
  if (!result.ok()) {
    MetricLabels failed = labels;
    const int number = result.status().explanation().pf_number;
    failed["code"] =
        number == 0 ? std::string(CodeName(result.status().code())) : fmt::format("PF{}", number);
    ctx.metrics.Add("partforge_forges_failed_total", failed);
    Status status = std::move(result).status().With(
        fmt::format("rewrite part {} ({})", part.part_name, task.id));
    ctx.log.Warn("rewrite failed",
                 {{"job", task.job}, {"part", task.id}, {"error", status.ToString()}});
    return SettleFailure(lease, std::move(status), is_transfer);
  }
  ctx.metrics.Add("partforge_rows_read_total", labels, static_cast<double>(result->rows_in));
  ctx.metrics.Add("partforge_rows_written_total", labels, static_cast<double>(result->rows_out));
  ctx.metrics.Add("partforge_bytes_read_total", labels, static_cast<double>(result->bytes_in));
  ctx.metrics.Add("partforge_bytes_written_total", labels, static_cast<double>(result->bytes_out));

  Settlement settlement;
  settlement.edits.push_back(TaskEdit{.id = task.id,
                                      .from = TaskState::kInProgress,
                                      .epoch = task.epoch,
                                      .to = TaskState::kFinished,
                                      .result = std::move(result).value(),
                                      .superseded_by = {},
                                      .payload = {},
                                      .backoff_ms = 0,
                                      .failure_class = {},
                                      .failure_code = 0,
                                      .error = {}});
  return settlement;
}

}  // namespace partforge::clickhouse
