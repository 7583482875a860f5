#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "app/commands.h"
#include "app/job_records.h"
#include "app/metrics_server.h"
#include "app/option_groups.h"
#include "app/row_flow.h"
#include "app/worker_run.h"
#include "clickhouse/rewrite_job.h"

namespace partforge::app {
namespace {

// A job that is paused ends the work without its parts: refused, or failed when it was this run
// that met the failures.
Status CheckPauses(const CommandInput& input, SqlJobStore& state, const std::vector<JobId>& jobs,
                   const RunSummary& summary) {
  if (input.ctx.IsStopping()) return {};
  for (const JobId& job : jobs) {
    PF_ASSIGN(const JobView view, state.View(input.ctx, job));
    Status paused = CheckNotPaused(view);
    if (paused.ok()) continue;
    return summary.failed > 0 ? std::move(paused).As(Code::kInternal) : paused;
  }
  return {};
}

// After --drain: what failed, as partly done, or as failed when nothing is rewritten.
Status CheckDrained(const CommandInput& input, SqlJobStore& state, const std::vector<JobId>& jobs) {
  int64_t failed = 0, rewritten = 0;
  std::string first;
  if (input.ctx.IsStopping()) return {};
  for (const JobId& job : jobs) {
    PF_ASSIGN(const JobView view, state.View(input.ctx, job));
    if (view.job.kind == clickhouse::kRewriteKind) {
      PF_ASSIGN(const RowFlow flow, FlowOf(input.ctx, state, view));
      input.out.Line(fmt::format("rows of {}: {}", job, flow.Text()));
      if (!flow.is_conserved) return NotConserved(flow, job);
    }
    const int64_t failed_here = CountIn(view, TaskState::kFailed);
    if (failed_here > 0 && first.empty()) first = job;
    failed += failed_here;
    rewritten += NumbersOf(view).rewritten;
  }
  if (failed == 0) return {};
  const Status why = rewritten == 0 ? FirstFailure(input.ctx, state, first) : Status();
  return FailedParts(failed, why, first,
                     fmt::format("partforge job-status --job-id={0}   shows why; partforge "
                                 "retry-failed --job-id={0} --all   runs them again",
                                 first));
}

void Tell(const CommandInput& input, const WorkDone& work) {
  const RunSummary& summary = work.summary;
  input.out.Line(fmt::format("worker ended: {} parts done, {} failed, {} handed back", summary.done,
                             summary.failed, summary.released));
  ShowWork(input, work);
  JsonDoc document{{"done", summary.done},
                   {"failed", summary.failed},
                   {"released", summary.released},
                   {"lost", summary.lost}};
  work.flow.AppendTo(document);
  document["seconds"] = static_cast<double>(work.took_ms) / 1000.0;
  input.out.Document("worker", document);
}

// What the work, once told of, makes of the command.
Status Judge(const CommandInput& input, SqlJobStore& state, const WorkerOptions& options,
             const WorkDone& work) {
  if (!work.unconserved.empty()) return NotConserved(work.flow, work.unconserved);
  const RunSummary& summary = work.summary;
  const bool is_idle = summary.done + summary.failed + summary.released == 0;
  if (options.until == RunUntil::kJobsDone || (options.until == RunUntil::kOnce && is_idle))
    PF_TRY(CheckPauses(input, state, options.only, summary));
  if (options.until == RunUntil::kJobsDone) PF_TRY(CheckDrained(input, state, options.only));
  if (summary.failed > 0 && options.until == RunUntil::kOnce) {
    return FailedParts(summary.failed, summary.last_failure, "worker --once",
                       "partforge job-status --job-id=JOB   shows why");
  }
  if (is_idle && input.options.Bool("fail-if-empty")) {
    return Status(Code::kNotFound, "no part was waiting")
        .Explain(1016, "worker", "partforge list-jobs");
  }
  return {};
}

// Asked to stop, a worker has ended in order, whatever it did not come to.
bool WasStopped(const CommandInput& input, const Status& status) {
  return !status.ok() && status.code() == Code::kCancelled && input.ctx.IsStopping();
}

Status Run(const CommandInput& input) {
  const std::string role = input.options.String("role");
  WorkerRun run;
  if (role == "all") {
    run.options.role = WorkerRole::kAll;
  } else if (role == "inserter") {
    run.options.role = WorkerRole::kTasks;
  } else if (role == "compactor") {
    return Status(Code::kRefused, "compaction of finished parts is not part of this version")
        .Explain(1005, "--role=compactor", "--role=all or --role=inserter");
  } else {
    return Status(Code::kInvalidArgument,
                  fmt::format("role is none of all, inserter, compactor: {}", role))
        .Explain(1005, "--role", "--role=all");
  }
  PF_ASSIGN(run.use, ChooseMachineUse(input));
  run.options.name =
      input.options.IsSet("worker-id") ? input.options.String("worker-id") : ProcessName(input);
  PF_ASSIGN(run.options.lease_ms, LeaseFrom(input));
  run.options.poll_ms = input.options.DurationMs("poll-interval");
  run.options.progress_interval_ms = input.options.DurationMs("state-progress-interval");
  run.options.crashes_max = input.options.Int("max-crashes");
  run.options.attempts_max = input.options.Int("max-attempts");
  run.options.shutdown_grace_ms = input.options.DurationMs("shutdown-grace");
  run.options.only = input.options.List("job-id");
  run.options.until = RunUntil::kStopped;
  if (input.options.Bool("drain")) run.options.until = RunUntil::kJobsDone;
  if (input.options.Bool("once") && input.options.Bool("drain")) {
    return Status(Code::kInvalidArgument, "--once ends after one part, --drain after the last")
        .Explain(1010, "worker", "keep one of --once and --drain");
  }
  if (input.options.Bool("once")) run.options.until = RunUntil::kOnce;
  if (run.options.until == RunUntil::kJobsDone) {
    if (run.options.only.empty()) {
      return Status(Code::kInvalidArgument, "--drain needs to know which jobs")
          .Explain(1006, "worker", "--drain --job-id=JOB");
    }
    run.options.poll_ms = std::min<int64_t>(run.options.poll_ms, 500);
    run.options.maintain_interval_ms = 500;
  }
  PF_TRY(RewriteSettingsFrom(input, run.use));  // a mistake in them must not make a state store
  PF_ASSIGN(const std::unique_ptr<SqlJobStore> state, OpenState(input, SchemaUse::kWrite));
  for (const std::string& job : run.options.only) {
    const Result<JobView> view = state->View(input.ctx, job);
    if (view.ok()) continue;
    // Who waits for work may also wait for its upload.
    const bool may_come = view.status().code() == Code::kNotFound;
    if (!may_come || run.options.until != RunUntil::kStopped) return view.status();
    Ignore(input.ctx, view.status(), "waiting for the job to be made");
  }
  BucketStores stores(input);
  std::unique_ptr<MetricsServer> metrics;
  if (run.options.until == RunUntil::kStopped || input.options.IsSet("metrics-addr")) {
    PF_ASSIGN(metrics, MetricsServer::Start(input));
  }
  PF_ASSIGN(const WorkDone work, RunWorker(input, *state, stores, run));
  Tell(input, work);
  Status judged = Judge(input, *state, run.options, work);
  if (WasStopped(input, judged)) return {};
  return judged;
}

// Stopped before its first part, it has done nothing, and tells that.
Status RunUntilStopped(const CommandInput& input) {
  Status status = Run(input);
  if (!WasStopped(input, status)) return status;
  Tell(input, WorkDone());
  return {};
}

}  // namespace

Command WorkerCommand() {
  return {
      {.name = "worker",
       .purpose = "Claims parts and rewrites them, until told to stop; any number of workers on "
                  "any machines.",
       .arguments = "",
       .arguments_min = 0,
       .arguments_max = 0,
       .examples = {"partforge worker --s3-endpoint=https://s3.example.org",
                    "partforge worker --once --job-id=job-5f0e11aa22bb33cc"},
       .options =
           Join({{{.name = "job-id",
                   .help = "only this job",
                   .is_repeatable = true,
                   .refuses_empty = true},
                  {.name = "once",
                   .type = OptionType::kBool,
                   .default_text = "false",
                   .help = "one part or one maintenance pass, then end"},
                  {.name = "drain",
                   .type = OptionType::kBool,
                   .default_text = "false",
                   .help = "end when nothing is left to do for the jobs named"},
                  {.name = "role", .default_text = "all", .help = "all or inserter"},
                  {.name = "worker-id",
                   .help = "name of this worker (default: host and process id)",
                   .refuses_empty = true},
                  {.name = "poll-interval",
                   .type = OptionType::kDuration,
                   .default_text = "10s",
                   .help = "between looks when there is nothing to do",
                   .group = "Limits"},
                  LeaseTtlOption(),
                  MaxCrashesOption(),
                  {.name = "max-attempts",
                   .type = OptionType::kInt,
                   .default_text = "0",
                   .help = "attempts before a part fails for good; 0 = by kind of failure",
                   .group = "Limits"},
                  {.name = "state-progress-interval",
                   .type = OptionType::kDuration,
                   .default_text = "15s",
                   .help = "between progress writes",
                   .group = "Limits"},
                  {.name = "shutdown-grace",
                   .type = OptionType::kDuration,
                   .default_text = "15s",
                   .help = "longest orderly stop",
                   .group = "Limits"},
                  {.name = "metrics-addr",
                   .default_text = ":2112",
                   .help = "address of /metrics, /livez and /readyz; none or empty = no page",
                   .group = "Where"},
                  {.name = "metrics-path",
                   .default_text = "/metrics",
                   .help = "path of the metrics page",
                   .group = "Where"}},
                 RewriteOptions(),
                 StateOptions(),
                 StoreOptions(),
                 EngineOptions()}),
       .related = {"upload-freeze", "job-status", "import-finished"},
       .is_streaming = true},
      RunUntilStopped};
}

}  // namespace partforge::app
