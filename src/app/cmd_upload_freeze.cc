#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "app/commands.h"
#include "app/job_records.h"
#include "app/option_groups.h"
#include "app/progress_line.h"
#include "app/row_flow.h"
#include "app/time_spent.h"
#include "app/upload_options.h"
#include "app/wire.h"
#include "base/process_metrics.h"
#include "base/units.h"
#include "clickhouse/artifact.h"
#include "clickhouse/rewrite_job.h"
#include "clickhouse/table_freeze.h"
#include "job/each_task.h"

namespace partforge::app {
namespace {

// The job is sealed: its source is the copy, and the hard links only hold disk space.
Status Unfreeze(const CommandInput& input, Engine& server,
                const clickhouse::UploadFreezeRequest& request) {
  for (const std::string& freeze : request.freezes) {
    PF_TRY(clickhouse::UnfreezeTable(input.ctx, server, request.source, freeze));
    PF_FAULT(input.ctx, "app.uploaded_freeze_removed");
  }
  return {};
}

// Whether an earlier run has begun with this job: by its row, or, when the state store was lost, by
// what it has uploaded.
Result<bool> HasBegun(const CommandInput& input, const clickhouse::UploadFreezeRequest& request) {
  const Result<std::unique_ptr<SqlJobStore>> state = OpenState(input, SchemaUse::kRead);
  if (state.ok() && (*state)->View(input.ctx, request.job_id).ok()) return true;
  BucketStores stores(input);
  PF_ASSIGN(ObjectStore* const store, stores.Get(input.ctx, request.bucket));
  PF_ASSIGN(const clickhouse::JobKeys keys,
            clickhouse::JobKeys::Make(request.prefix, request.job_id));
  PF_ASSIGN(const ListPage sources, store->List(input.ctx, keys.root() + "/source/", std::nullopt));
  return !sources.objects.empty();
}

// The table is judged as it is now; a job that has begun was judged when it was frozen.
Result<clickhouse::UploadPlan> PlanOf(const CommandInput& input, Engine& server, Engine& local,
                                      clickhouse::UploadFreezeRequest request) {
  Result<clickhouse::UploadPlan> plan = clickhouse::PlanUpload(input.ctx, server, local, request);
  const int number = plan.ok() ? 0 : plan.status().explanation().pf_number;
  if ((number != 2107 && number != 2108) || request.job_id.empty()) return plan;
  PF_ASSIGN(request.is_resumed, HasBegun(input, request));
  if (!request.is_resumed) return plan;
  return clickhouse::PlanUpload(input.ctx, server, local, request);
}

// What an earlier run of this very command has done, when it uploaded everything and only did not
// come to tell: the job is sealed, and `--unfreeze` has removed what it was made from.
Result<std::optional<clickhouse::UploadSummary>> DoneBefore(
    const CommandInput& input, const clickhouse::UploadFreezeRequest& request) {
  using Done = std::optional<clickhouse::UploadSummary>;
  if (request.job_id.empty() || !input.options.Bool("unfreeze") || input.options.Bool("dry-run"))
    return Done();
  PF_ASSIGN(const std::unique_ptr<SqlJobStore> state, OpenState(input, SchemaUse::kRead));
  PF_ASSIGN(const JobView view, state->View(input.ctx, request.job_id));
  if (view.job.kind != clickhouse::kRewriteKind || view.state != "SEALED") return Done();
  PF_ASSIGN(const clickhouse::RewriteJobSpec job,
            clickhouse::RewriteJobSpec::FromJson(view.job.spec));
  PF_ASSIGN(const std::string differs, clickhouse::DifferenceOf(job, request));
  const bool is_same_freeze = request.freezes.size() == 1 && job.freeze == request.freezes.front();
  if (!differs.empty() || !is_same_freeze) return Done();
  clickhouse::UploadSummary summary;
  summary.job_id = view.job.id;
  PF_TRY(ForEachTask(input.ctx, *state, view.job.id, [&](const Task& task) -> Status {
    if (task.generation > 0) return {};  // made of others
    PF_ASSIGN(const auto part, clickhouse::RewriteTaskSpec::FromJson(task.payload));
    summary.rows += part.rows;
    summary.size_bytes += part.size_bytes;
    ++summary.parts;
    return {};
  }));
  summary.skipped = summary.parts;
  return Done(std::move(summary));
}

// `rows_in`: of the freeze, as its parts say.
Status Tell(const CommandInput& input, const clickhouse::UploadSummary& summary, int64_t rows_in,
            const PhaseClock& clock) {
  const int64_t took_ms = clock.took_ms();
  const TimeParts phases = clock.parts();
  RowFlow flow;
  flow.rows_in = rows_in;
  flow.rows_out = summary.rows;
  flow.is_conserved = rows_in == summary.rows;
  if (!flow.is_conserved) {
    return Status(Code::kCorruption, "rows of the freeze and of the upload differ: " + flow.Text())
        .Explain(2137, summary.job_id, "no worker takes them for all; freeze and upload again");
  }
  input.out.Answer(summary.job_id);
  input.out.Line(fmt::format("uploaded  {} parts · {} rows · {} ({} were there already)",
                             summary.parts, FormatCount(summary.rows),
                             FormatBytes(summary.size_bytes), summary.skipped));
  input.out.Line(
      fmt::format("rows      {} in = {} out ✓", FormatCount(rows_in), FormatCount(summary.rows)));
  const TimeSpent spent{.took_ms = took_ms,
                        .parts = TextOf(phases),
                        .rows = summary.rows,
                        .bytes = summary.size_bytes,
                        .peak_memory_bytes = PeakMemoryBytes()};
  input.out.Line("time      " + spent.Text());
  input.out.Line(
      fmt::format("job       {}\nnext      partforge worker --once, or on any machine: "
                  "partforge worker",
                  summary.job_id));
  input.out.Document("upload-freeze", JsonDoc{{"job_id", summary.job_id},
                                              {"parts", summary.parts},
                                              {"bytes", summary.size_bytes},
                                              {"skipped", summary.skipped},
                                              {"rows", summary.rows},
                                              {"rows_in", rows_in},
                                              {"rows_conserved", true},
                                              {"peak_memory_bytes", PeakMemoryBytes()},
                                              {"seconds", static_cast<double>(took_ms) / 1000.0},
                                              {"phase_seconds", DocumentOf(phases)}});
  return {};
}

Status Run(const CommandInput& input) {
  PhaseClock clock;
  clock.Begin("plan");
  PF_ASSIGN(clickhouse::UploadFreezeRequest request,
            UploadRequestFrom(input, input.options.List("freeze")));
  request.refuses_other_tables = input.options.Bool("freeze-name-check");
  PF_ASSIGN(const std::unique_ptr<Engine> server, OpenServer(input));
  PF_ASSIGN(const std::unique_ptr<ScratchEngine> local, ScratchEngine::Start(input));
  Result<clickhouse::UploadPlan> planned = PlanOf(input, *server, local->engine(), request);
  if (!planned.ok() && planned.status().explanation().pf_number == 2102) {
    const auto done = DoneBefore(input, request);
    if (done.ok() && done->has_value()) return Tell(input, **done, (*done)->rows, clock);
  }
  PF_ASSIGN(const clickhouse::UploadPlan plan, std::move(planned));
  if (input.options.Bool("dry-run")) {
    ShowUploadPlan(input, "upload-freeze", plan);
    return {};
  }
  PF_ASSIGN(const std::unique_ptr<SqlJobStore> state, OpenState(input, SchemaUse::kCreate));
  BucketStores stores(input);
  PF_ASSIGN(ObjectStore* const store, stores.Get(input.ctx, request.bucket));
  for (const std::string& warning : plan.job.warnings) input.ctx.log.Warn(warning);
  clock.Begin("upload");
  ProgressLine progress(input, "uploading");
  PF_ASSIGN(const clickhouse::UploadSummary summary,
            clickhouse::RunUpload(
                input.ctx, *state, *store, request, plan,
                [&](int64_t parts, int64_t bytes) { ShowUploaded(progress, plan, parts, bytes); }));
  progress.Finish();
  if (input.options.Bool("unfreeze")) {
    clock.Begin("unfreeze");
    PF_TRY(Unfreeze(input, *server, request));
  }
  return Tell(input, summary, plan.rows, clock);
}

}  // namespace

Command UploadFreezeCommand() {
  return {
      {.name = "upload-freeze",
       .purpose = "Copies the frozen parts of a table to the object store and registers one piece "
                  "of work for each.",
       .arguments = "",
       .arguments_min = 0,
       .arguments_max = 0,
       .examples = {"partforge upload-freeze --database=shop --table=orders --freeze=autumn_01 \\",
                    "    --destination-schema-file=new.sql --insert-select-file=insert.sql \\",
                    "    --bucket=forge --s3-endpoint=file:///srv/objects",
                    "partforge upload-freeze … --dry-run --json"},
       .options = Join({UploadOptions(),
                        {{.name = "freeze",
                          .help = "name of the freeze",
                          .is_required = true,
                          .is_repeatable = true},
                         {.name = "freeze-name-check",
                          .type = OptionType::kBool,
                          .default_text = "false",
                          .help = "refuse a freeze that holds parts of other tables, too"},
                         {.name = "unfreeze",
                          .type = OptionType::kBool,
                          .default_text = "false",
                          .help = "remove the freeze once all of it is uploaded"},
                         DryRunOption("print the plan, write nothing")},
                        ServerOptions(),
                        StateOptions(),
                        StoreOptions(),
                        EngineOptions()}),
       .related = {"freeze", "worker", "import-finished", "plan"}},
      Run};
}

}  // namespace partforge::app
