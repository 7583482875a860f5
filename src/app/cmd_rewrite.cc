#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "app/commands.h"
#include "app/import_options.h"
#include "app/job_records.h"
#include "app/option_groups.h"
#include "app/upload_options.h"
#include "app/worker_run.h"
#include "base/ids.h"
#include "base/units.h"
#include "clickhouse/source_checks.h"
#include "engine/sql_text.h"

namespace partforge::app {
namespace {

// Letters that a freeze name may hold.
std::string FreezeNameOf(std::string_view job_id) {
  std::string name = "partforge_";
  for (const char c : job_id) name += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return name;
}

// The job exists with all its parts: an earlier run of the same command got at least that far.
Result<bool> IsUploaded(const CommandInput& input, SqlJobStore& state, const std::string& job_id) {
  const Result<JobView> view = state.View(input.ctx, job_id);
  if (!view.ok()) {
    if (view.status().code() == Code::kNotFound) return false;
    return view.status();
  }
  return view->state == "SEALED";
}

Status Freeze(const CommandInput& input, Engine& server, const clickhouse::TableName& table,
              const std::string& name) {
  PF_TRY(clickhouse::CheckSourceTable(
      input.ctx, server, table,
      {.applies_patches = input.options.Bool("apply-patches"),
       .wait_mutations_ms = input.options.DurationMs("wait-mutations")}));
  const Status frozen = clickhouse::FreezeTable(input.ctx, server, table, name);
  // The freeze of an earlier run of this very job is the one to go on with.
  if (!frozen.ok() && frozen.explanation().pf_number == 2127 && input.options.IsSet("job-id"))
    return {};
  return frozen;
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

Status Unfreeze(const CommandInput& input, Engine& server, const clickhouse::TableName& table,
                const std::string& name) {
  PF_TRY(server.Query(input.ctx,
                      fmt::format("ALTER TABLE {} UNFREEZE WITH NAME {}",
                                  QuoteTable(table.database, table.table), QuoteString(name)),
                      {}));
  return {};
}

Status Run(const CommandInput& input) {
  const int64_t started_ms = MonotonicMs();
  const std::string job_id = input.options.String("job-id").empty()
                                 ? MakeJobId(input.ctx.random)
                                 : input.options.String("job-id");
  const std::string freeze = FreezeNameOf(job_id);
  PF_ASSIGN(clickhouse::UploadFreezeRequest request, UploadRequestFrom(input, {freeze}));
  request.job_id = job_id;
  PF_ASSIGN(const std::unique_ptr<Engine> server, OpenServer(input));
  PF_ASSIGN(const std::unique_ptr<SqlJobStore> state, OpenState(input, SchemaUse::kCreate));
  BucketStores stores(input);
  PF_ASSIGN(ObjectStore* const store, stores.Get(input.ctx, request.bucket));
  input.out.Note(
      fmt::format("job {}   (the same command with --job-id={} goes on after an interruption)",
                  job_id, job_id));

  PF_ASSIGN(const bool is_uploaded, IsUploaded(input, *state, job_id));
  std::string destination_database, destination_table;
  if (!is_uploaded) {
    PF_TRY(Freeze(input, *server, request.source, freeze));
    PF_ASSIGN(const std::unique_ptr<ScratchEngine> local, ScratchEngine::Start(input));
    PF_ASSIGN(const clickhouse::UploadPlan plan,
              clickhouse::PlanUpload(input.ctx, *server, local->engine(), request));
    PF_TRY(CreateDestination(input, *server, plan));
    PF_ASSIGN(const clickhouse::UploadSummary uploaded,
              clickhouse::RunUpload(input.ctx, *state, *store, request, plan, {}));
    input.out.Line(fmt::format("uploaded   {} parts · {} rows · {}", uploaded.parts,
                               FormatCount(uploaded.rows), FormatBytes(uploaded.size_bytes)));
  }
  PF_ASSIGN(const JobView uploaded_view, state->View(input.ctx, job_id));
  PF_ASSIGN(const clickhouse::RewriteJobSpec job,
            clickhouse::RewriteJobSpec::FromJson(uploaded_view.job.spec));

  WorkerRun run;
  PF_ASSIGN(run.use, ChooseMachineUse(input));
  run.options.name = ProcessName(input);
  run.options.lease_ms = input.options.DurationMs("lease-ttl");
  run.options.poll_ms = 500;
  run.options.maintain_interval_ms = 1000;
  run.options.only = {job_id};
  run.options.until = RunUntil::kJobsDone;
  run.options.crashes_max = input.options.Int("max-crashes");
  PF_ASSIGN(const RunSummary worked, RunWorker(input, *state, stores, run));
  PF_TRY(input.ctx.CheckStop("rewrite"));
  PF_ASSIGN(const JobView worked_view, state->View(input.ctx, job_id));
  const JobNumbers numbers = NumbersOf(worked_view);
  input.out.Line(fmt::format(
      "rewritten  {}/{} parts · {} rows · {} parts in the new shape   ({} here, {} failed)",
      numbers.rewritten, numbers.total, FormatCount(numbers.rows_out),
      FormatCount(numbers.parts_out), worked.done, worked.failed));
  PF_TRY(ImportAndShow(input, *state, *server, stores, job_id,
                       {job.destination_database, job.destination_table}, "rewrite"));
  if (!input.options.Bool("keep-freeze"))
    Ignore(input.ctx, Unfreeze(input, *server, request.source, freeze),
           "a freeze costs disk space only");
  PF_ASSIGN(const JobView view, state->View(input.ctx, job_id));
  const JobNumbers done = NumbersOf(view);
  const int64_t took_ms = MonotonicMs() - started_ms;
  input.out.Line(fmt::format("done       {} → {}.{} in {}", request.source.ToString(),
                             job.destination_database, job.destination_table,
                             FormatDurationMs(took_ms)));
  input.out.Document(
      "rewrite", JsonDoc{{"job_id", job_id},
                         {"source", request.source.ToString()},
                         {"destination", job.destination_database + "." + job.destination_table},
                         {"parts_total", done.total},
                         {"imported", done.imported},
                         {"rows", done.rows_out},
                         {"clickhouse_parts", done.parts_out},
                         {"status", done.status},
                         {"seconds", static_cast<double>(took_ms) / 1000.0}});
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
                         {.name = "lease-ttl",
                          .type = OptionType::kDuration,
                          .default_text = "60s",
                          .help = "how long a silent worker keeps its part",
                          .group = "Limits"},
                         {.name = "max-crashes",
                          .type = OptionType::kInt,
                          .default_text = "3",
                          .help = "kills of this command before a part is taken out of the queue",
                          .group = "Limits"},
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
