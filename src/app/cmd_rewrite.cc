#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "app/commands.h"
#include "app/import_options.h"
#include "app/job_records.h"
#include "app/option_groups.h"
#include "app/progress_line.h"
#include "app/rewrite_preview.h"
#include "app/time_spent.h"
#include "app/upload_options.h"
#include "app/work_shown.h"
#include "base/ids.h"
#include "base/units.h"
#include "clickhouse/artifact.h"
#include "clickhouse/freeze_scan.h"
#include "clickhouse/import_target.h"
#include "clickhouse/local_tables.h"
#include "clickhouse/source_checks.h"
#include "clickhouse/table_freeze.h"
#include "engine/sql_text.h"

namespace partforge::app {
namespace {

// A freeze of the same name that an earlier run of this command left without a job is of another
// moment: it is undone and made again.
Status Freeze(const CommandInput& input, Engine& server, const clickhouse::TableName& table,
              const std::string& name) {
  const Result<clickhouse::FreezeEnd> frozen =
      clickhouse::FreezeTable(input.ctx, server, table, name);
  if (frozen.ok()) return {};
  if (frozen.status().explanation().pf_number != 2127 || !input.options.IsSet("job-id"))
    return frozen.status();
  PF_TRY(clickhouse::UnfreezeTable(input.ctx, server, table, name));
  PF_TRY(clickhouse::FreezeTable(input.ctx, server, table, name));
  input.ctx.log.Info("the freeze of an earlier run is made again", {{"name", name}});
  return {};
}

Status CreateDestination(const CommandInput& input, Engine& server,
                         const clickhouse::UploadPlan& plan) {
  const clickhouse::TableName table{plan.job.destination_database, plan.job.destination_table};
  const Result<std::string> existing = clickhouse::ReadCreateTable(input.ctx, server, table);
  if (existing.ok()) return {};
  if (existing.status().code() != Code::kNotFound) return existing.status();
  PF_TRY(server.Query(
      input.ctx, fmt::format("CREATE DATABASE IF NOT EXISTS {}", QuoteIdentifier(table.database)),
      {}));
  PF_TRY(server.Query(input.ctx, plan.job.destination_schema, {}));
  input.ctx.log.Info("destination table created", {{"table", table.ToString()}});
  return {};
}

// Freezes the table, makes the destination and copies the parts. `has_begun`: an earlier run has.
Status Upload(const CommandInput& input, Engine& server, SqlJobStore& state, ObjectStore& store,
              const clickhouse::UploadFreezeRequest& request, bool has_begun, PhaseClock& phases) {
  const std::string& freeze = request.freezes.front();
  PF_ASSIGN(const std::unique_ptr<ScratchEngine> local, ScratchEngine::Start(input));
  if (!has_begun) {
    PF_TRY(clickhouse::CheckSourceTable(
        input.ctx, server, request.source,
        {.applies_patches = input.options.Bool("apply-patches"),
         .wait_mutations_ms = input.options.DurationMs("wait-mutations")}));
    PF_ASSIGN(const clickhouse::UploadPlan checked,
              clickhouse::PlanJob(input.ctx, server, local->engine(), request));
    PF_TRY(CheckDestination(input, server, checked, Probe::kTry));
    phases.Begin("freeze");
    const Status frozen = Freeze(input, server, request.source, freeze);
    // Nothing knows of the freeze yet, so what was made of it goes again. An existing one that is
    // not ours stays.
    if (!frozen.ok() && frozen.explanation().pf_number != 2127) {
      Context unstopped = input.ctx;
      unstopped.stop = {};
      Ignore(unstopped, clickhouse::UnfreezeTable(unstopped, server, request.source, freeze),
             "a freeze costs disk space only");
    }
    PF_TRY(frozen);
  }
  phases.Begin("upload");
  const auto copy = [&]() -> Status {
    clickhouse::UploadFreezeRequest frozen = request;
    frozen.is_resumed = has_begun;
    PF_ASSIGN(const clickhouse::UploadPlan plan,
              clickhouse::PlanUpload(input.ctx, server, local->engine(), frozen));
    PF_TRY(CreateDestination(input, server, plan));
    ProgressLine progress(input, "uploading");
    PF_ASSIGN(const clickhouse::UploadSummary uploaded,
              clickhouse::RunUpload(input.ctx, state, store, request, plan,
                                    [&](int64_t parts, int64_t bytes) {
                                      ShowUploaded(progress, plan, parts, bytes);
                                    }));
    progress.Finish();
    input.out.Line(fmt::format("uploaded   {} parts · {} rows · {}", uploaded.parts,
                               FormatCount(uploaded.rows), FormatBytes(uploaded.size_bytes)));
    return {};
  };
  Status copied = copy();
  if (copied.ok() || copied.code() == Code::kCancelled) return copied;
  // Refused before the job's row was made: nothing will ever use the freeze.
  const Result<std::optional<JobView>> now = EarlierJob(input, state, request.job_id);
  if (now.ok() && !now->has_value()) {
    Ignore(input.ctx, clickhouse::UnfreezeTable(input.ctx, server, request.source, freeze),
           "a freeze costs disk space only");
  }
  return copied;
}

// Failed parts keep the rest from being published, but for --partial.
Status CheckFailedParts(const CommandInput& input, SqlJobStore& state, const JobView& view,
                        const JobNumbers& numbers, const RunSummary& worked) {
  const int64_t failed = CountIn(view, TaskState::kFailed);
  if (input.options.Bool("partial")) return {};
  if (Status paused = CheckNotPaused(view); !paused.ok())
    return worked.failed > 0 ? std::move(paused).As(Code::kInternal) : paused;
  if (failed == 0) return {};
  const Status why =
      numbers.rewritten == 0 ? FirstFailure(input.ctx, state, view.job.id) : Status();
  return FailedParts(failed, why, view.job.id,
                     fmt::format("nothing is published; partforge job-status --job-id={0}   shows "
                                 "why; then  partforge retry-failed --job-id={0} --all  and this "
                                 "command with --job-id={0}",
                                 view.job.id));
}

Status Run(const CommandInput& input) {
  const bool is_dry = input.options.Bool("dry-run");
  if (!is_dry) PF_TRY(ConfirmImport(input));
  PF_ASSIGN(const int64_t lease_ms, LeaseFrom(input));
  PhaseClock phases;
  phases.Begin("plan");
  const std::string job_id = input.options.String("job-id").empty()
                                 ? MakeJobId(input.ctx.random)
                                 : input.options.String("job-id");
  const std::string freeze = clickhouse::FreezeNameOfJob(job_id);
  PF_ASSIGN(clickhouse::UploadFreezeRequest request, UploadRequestFrom(input, {freeze}));
  request.job_id = job_id;
  WorkerRun run;
  PF_ASSIGN(run.use, ChooseMachineUse(input));
  PF_TRY(RewriteSettingsFrom(input, run.use));  // a mistake in them is told before the upload
  PF_ASSIGN(const std::unique_ptr<Engine> server, OpenServer(input));
  if (is_dry) return ShowRewritePlan(input, *server, request, run.use);
  PF_ASSIGN(const std::unique_ptr<SqlJobStore> state, OpenState(input, SchemaUse::kCreate));
  BucketStores stores(input);
  PF_ASSIGN(ObjectStore* const store, stores.Get(input.ctx, request.bucket));
  input.out.Note(
      fmt::format("job {}   (the same command with --job-id={} goes on after an interruption)",
                  job_id, job_id));

  PF_ASSIGN(const std::optional<JobView> earlier, EarlierJob(input, *state, job_id));
  if (earlier) PF_TRY(CheckSameRequest(*earlier, request));
  if (!earlier || earlier->state != "SEALED")
    PF_TRY(Upload(input, *server, *state, *store, request, earlier.has_value(), phases));
  PF_ASSIGN(const JobView uploaded_view, state->View(input.ctx, job_id));
  PF_ASSIGN(const clickhouse::RewriteJobSpec job,
            clickhouse::RewriteJobSpec::FromJson(uploaded_view.job.spec));

  run.options.name = ProcessName(input);
  run.options.lease_ms = lease_ms;
  run.options.poll_ms = 500;
  run.options.maintain_interval_ms = 1000;
  run.options.progress_interval_ms = 2'000;  // one table, and somebody looks at its line
  run.options.only = {job_id};
  run.options.until = RunUntil::kJobsDone;
  run.options.crashes_max = input.options.Int("max-crashes");
  phases.Begin("rewrite");
  PF_ASSIGN(const WorkDone work, RunWorkerShown(input, *state, stores, run, {job_id}));
  PF_TRY(input.ctx.CheckStop("rewriting"));
  PF_ASSIGN(const JobView worked_view, state->View(input.ctx, job_id));
  const JobNumbers numbers = NumbersOf(worked_view);
  const int64_t superseded = CountIn(worked_view, TaskState::kSuperseded);
  const std::string together =
      superseded > 0 ? fmt::format(" · {} source parts together", FormatCount(superseded)) : "";
  input.out.Line(fmt::format(
      "rewritten  {}/{} parts{} · {} rows · {} parts in the new shape   ({} here, {} failed)",
      numbers.rewritten, numbers.total, together, FormatCount(numbers.rows_out),
      FormatCount(numbers.parts_out), work.summary.done, work.summary.failed));
  PF_TRY(CheckFailedParts(input, *state, worked_view, numbers, work.summary));
  PF_ASSIGN(const RowFlow flow, FlowOf(input.ctx, *state, worked_view));
  input.out.Line("rows       " + flow.Text());
  input.out.Line("bytes      " + flow.BytesText());
  input.out.Line("tiers      " + TextOf(flow.tiers));
  if (!flow.stage_ms.empty())
    input.out.Line("stages     summed over parts: " + TextOf(PartsOfStages(flow.stage_ms)));
  if (flow.insert_retries > 0)
    input.out.Line(fmt::format("retries    {} of inserts", FormatCount(flow.insert_retries)));
  if (!flow.is_conserved) return NotConserved(flow, job_id);
  phases.Begin("import");
  PF_TRY(ImportAndShow(input, *state, *server, stores, job_id, flow,
                       {job.destination_database, job.destination_table}, "rewrite"));
  if (!input.options.Bool("keep-freeze"))
    Ignore(input.ctx, clickhouse::UnfreezeTable(input.ctx, *server, request.source, freeze),
           "a freeze costs disk space only");
  PF_ASSIGN(const JobView view, state->View(input.ctx, job_id));
  const JobNumbers done = NumbersOf(view);
  const TimeSpent spent{.took_ms = phases.took_ms(),
                        .parts = TextOf(phases.parts()),
                        .rows = flow.rows_in,
                        .bytes = flow.bytes_in,
                        .peak_memory_bytes = flow.peak_memory_bytes};
  input.out.Line(fmt::format("done       {} → {}.{} in {}", request.source.ToString(),
                             job.destination_database, job.destination_table, spent.Text()));
  input.out.Answer(job_id);
  JsonDoc document{{"job_id", job_id},
                   {"source", request.source.ToString()},
                   {"destination", job.destination_database + "." + job.destination_table},
                   {"parts_total", done.total},
                   {"imported", done.imported},
                   {"rows", done.rows_out},
                   {"clickhouse_parts", done.parts_out},
                   {"status", done.status},
                   {"seconds", static_cast<double>(spent.took_ms) / 1000.0},
                   {"phase_seconds", DocumentOf(phases.parts())}};
  flow.AppendTo(document);
  input.out.Document("rewrite", document);
  return {};
}

}  // namespace

Command RewriteCommand() {
  return {
      {.name = "rewrite",
       .purpose =
           "Rewrites a table in one foreground command: freeze, upload, local workers, import.",
       .arguments = "",
       .arguments_min = 0,
       .arguments_max = 0,
       .examples =
           {"partforge rewrite --database=shop --table=orders --destination-schema-file=new.sql \\",
            "    --insert-select-file=insert.sql --bucket=forge --s3-endpoint=file:///srv/objects",
            "partforge rewrite … --job-id=job-5f0e11aa22bb33cc   goes on after an interruption"},
       .options = Join({UploadOptions(),
                        {{.name = "apply-patches",
                          .type = OptionType::kBool,
                          .default_text = "false",
                          .help = "apply lightweight updates first"},
                         {.name = "wait-mutations",
                          .type = OptionType::kDuration,
                          .default_text = "0",
                          .help = "wait so long for unfinished mutations",
                          .group = "Limits"},
                         DryRunOption("check, print the plan of every part, write nothing"),
                         LeaseTtlOption(),
                         MaxCrashesOption(),
                         {.name = "keep-freeze",
                          .type = OptionType::kBool,
                          .default_text = "false",
                          .help = "leave the hard links of the freeze"}},
                        RewriteOptions(),
                        ImportOptions(),
                        ServerOptions(),
                        StateOptions(),
                        StoreOptions(),
                        EngineOptions()}),
       .related = {"check", "demo", "job-status"}},
      Run};
}

}  // namespace partforge::app
