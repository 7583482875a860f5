#include "clickhouse/rewrite_executor.h"

#include <fmt/format.h>

#include "clickhouse/engine_failure.h"
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

// Attempts of a part that its surroundings refused each time: half an hour with the back-off.
constexpr int64_t kRefusalsMax = 60;

// A store that refuses, or a full one, says nothing about the part.
bool IsOfEnvironment(const Failure& failure, FailedIn failed_in) {
  if (failure.code != 0) return failure.failure_class == FailureClass::kEnv;
  if (failure.failure_class == FailureClass::kEnv || IsOfSurroundings(failure.status)) return true;
  const Code code = failure.status.code();
  return failed_in == FailedIn::kTransfer &&
         (code == Code::kInvalidArgument || code == Code::kExhausted || code == Code::kConflict);
}

Result<Settlement> PassOrGiveUp(const Lease& lease, Status status, FailedIn failed_in) {
  const Task& task = lease.tasks.front();
  const bool is_repeated = task.attempts >= kPassingFailuresMax &&
                           task.failure_class == FailureClassName(FailureClass::kTransient);
  if (failed_in == FailedIn::kTransfer || !is_repeated)
    return std::move(status).As(Code::kUnavailable);
  status = std::move(status).As(Code::kInternal).With(fmt::format("{} attempts", task.attempts));
  Failure failure = ReadEngineFailure(status);
  failure.failure_class = FailureClass::kInternal;
  return FailedSettlement(lease, failure);
}

}  // namespace

Result<Settlement> SettleFailure(const Lease& lease, Status status, FailedIn failed_in) {
  if (status.code() == Code::kCancelled || status.code() == Code::kLeaseLost) return status;
  Failure failure = ReadEngineFailure(status);
  if (failure.code != 0 || status.code() == Code::kExhausted)
    failure.failure_class = FailureClassOf(status);
  if (status.explanation().pf_number == kDiskFull) failure.failure_class = FailureClass::kDisk;
  if (status.explanation().pf_number == kPoisonPart) failure.failure_class = FailureClass::kPoison;
  if (failure.failure_class != FailureClass::kDisk && IsOfEnvironment(failure, failed_in)) {
    failure.failure_class = FailureClass::kEnv;
    // A part that is refused time and again while others pass would keep its job open for ever.
    const bool is_repeated =
        lease.tasks.front().attempts >= kRefusalsMax &&
        lease.tasks.front().failure_class == FailureClassName(FailureClass::kEnv);
    if (is_repeated) return FailedSettlement(lease, failure);
    return ReleasedSettlement(lease, &failure, kEnvironmentBackoffMs);
  }
  switch (failure.failure_class) {
    case FailureClass::kDisk:
      return ReleasedSettlement(lease, &failure, kDiskBackoffMs);
    case FailureClass::kTransient:
    case FailureClass::kDoubt:  // only throw-away tables were touched
      return PassOrGiveUp(lease, std::move(status), failed_in);
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

namespace {

// How the lease of an attempt ends that has rewritten its sources, or all but the damaged ones.
Result<Settlement> SettleResult(const RewriteAttempt& attempt, TaskResult result) {
  Settlement settlement;
  const std::vector<const AttemptSource*> rewritten = attempt.Rewritten();
  if (rewritten.size() == 1) {
    settlement.edits.push_back(EditTo(rewritten.front()->task, TaskState::kFinished));
    settlement.edits.back().result = std::move(result);
    return settlement;
  }
  Task output = attempt.OutputTask(result);
  for (const AttemptSource* source : rewritten) {
    settlement.edits.push_back(EditTo(source->task, TaskState::kSuperseded));
    settlement.edits.back().superseded_by = output.id;
  }
  settlement.added.push_back(std::move(output));
  settlement.added_results.push_back(std::move(result));
  return settlement;
}

}  // namespace

Result<std::vector<AttemptSource>> RewriteExecutor::ReadSources(const Lease& lease) {
  std::vector<AttemptSource> sources;
  for (const Task& task : lease.tasks) {
    PF_ASSIGN(RewriteTaskSpec spec, RewriteTaskSpec::FromJson(task.payload));
    sources.push_back({.task = task,
                       .spec = std::move(spec),
                       .owner_job = task.source_job.empty() ? task.job : task.source_job,
                       .owner_task = task.source_task.empty() ? task.id : task.source_task});
  }
  return sources;
}

Result<Settlement> RewriteExecutor::Execute(const Context& ctx, const Lease& lease,
                                            TaskScope& scope) {
  PF_CHECK(!lease.tasks.empty(), "a rewrite works on one task at least");
  const Task& first = lease.tasks.front();
  const auto count = static_cast<double>(lease.tasks.size());
  PF_ASSIGN(const JobView view, state_.View(ctx, first.job));
  PF_ASSIGN(RewriteJobSpec job, RewriteJobSpec::FromJson(view.job.spec));
  PF_ASSIGN(std::vector<AttemptSource> sources, ReadSources(lease));
  PF_ASSIGN(ObjectStore* const store, store_of_bucket_(ctx, job.bucket));
  const MetricLabels labels{
      {"job_id", first.job},
      {"source_table", job.source_database + "." + job.source_table},
      {"destination_table", job.destination_database + "." + job.destination_table}};
  ctx.metrics.Add("partforge_forges_started_total", labels, count);
  const int64_t started_ms = MonotonicMs();

  RewriteAttempt attempt(settings_, engines_, cache_, kept_, *store, std::move(job),
                         std::move(sources), scope);
  Result<TaskResult> result = attempt.Run(ctx);
  const FailedIn failed_in = attempt.is_transfer() ? FailedIn::kTransfer : FailedIn::kWork;
  attempt.CleanUp(ctx);

  const double seconds = static_cast<double>(MonotonicMs() - started_ms) / 1000.0;
  MetricLabels timed = labels;
  timed["result"] = result.ok() ? "completed" : "failed";
  ctx.metrics.Observe("partforge_forge_duration_seconds", timed, seconds);

  const auto fail = [&](const Lease& some, Status status) {
    MetricLabels failed = labels;
    const int number = status.explanation().pf_number;
    failed["code"] =
        number == 0 ? std::string(CodeName(status.code())) : fmt::format("PF{}", number);
    ctx.metrics.Add("partforge_forges_failed_total", failed,
                    static_cast<double>(some.tasks.size()));
    ctx.log.Warn("rewrite failed", {{"job", first.job},
                                    {"part", some.tasks.front().id},
                                    {"parts", some.tasks.size()},
                                    {"error", status.ToString()}});
    return SettleFailure(some, std::move(status), failed_in);
  };
  // Each damaged source of several fails for itself, whatever becomes of the others.
  Settlement settlement;
  Lease others = lease;
  others.tasks.clear();
  for (const AttemptSource& source : attempt.sources()) {
    if (source.damage.ok()) {
      others.tasks.push_back(source.task);
      continue;
    }
    Lease alone = lease;
    alone.tasks = {source.task};
    Status why = source.damage;
    PF_ASSIGN(Settlement failed,
              fail(alone, std::move(why).With(fmt::format("rewrite part {} ({})",
                                                          source.spec.part_name, source.task.id))));
    settlement.edits.push_back(std::move(failed.edits.front()));
  }
  if (others.tasks.empty()) return settlement;
  Settlement rest;
  if (result.ok()) {
    ctx.metrics.Add("partforge_forges_completed_total", labels,
                    static_cast<double>(others.tasks.size()));
    ctx.metrics.Add("partforge_rows_read_total", labels, static_cast<double>(result->rows_in));
    ctx.metrics.Add("partforge_rows_written_total", labels, static_cast<double>(result->rows_out));
    ctx.metrics.Add("partforge_bytes_read_total", labels, static_cast<double>(result->bytes_in));
    ctx.metrics.Add("partforge_bytes_written_total", labels,
                    static_cast<double>(result->bytes_out));
    PF_ASSIGN(rest, SettleResult(attempt, std::move(result).value()));
  } else {
    const size_t more = others.tasks.size() - 1;
    std::string what =
        fmt::format("rewrite part {} ({})", attempt.Rewritten().front()->spec.part_name,
                    others.tasks.front().id);
    if (more > 0) what += fmt::format(" and {} more", more);
    PF_ASSIGN(rest, fail(others, std::move(result).status().With(what)));
  }
  for (TaskEdit& edit : rest.edits) settlement.edits.push_back(std::move(edit));
  settlement.added = std::move(rest.added);
  settlement.added_results = std::move(rest.added_results);
  return settlement;
}

}  // namespace partforge::clickhouse
