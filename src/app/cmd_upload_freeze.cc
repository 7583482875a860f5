#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "app/commands.h"
#include "app/option_groups.h"
#include "app/progress_line.h"
#include "app/upload_options.h"
#include "app/wire.h"
#include "base/units.h"
#include "clickhouse/artifact.h"
#include "engine/sql_text.h"

namespace partforge::app {
namespace {

// The job is sealed: its source is the copy, and the hard links only hold disk space.
Status Unfreeze(const CommandInput& input, Engine& server,
                const clickhouse::UploadFreezeRequest& request) {
  for (const std::string& freeze : request.freezes) {
    PF_TRY(server.Query(
        input.ctx,
        fmt::format("ALTER TABLE {} UNFREEZE WITH NAME {}",
                    QuoteTable(request.source.database, request.source.table), QuoteString(freeze)),
        {}));
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

Status Run(const CommandInput& input) {
  PF_ASSIGN(const clickhouse::UploadFreezeRequest request,
            UploadRequestFrom(input, input.options.List("freeze")));
  PF_ASSIGN(const std::unique_ptr<Engine> server, OpenServer(input));
  PF_ASSIGN(const std::unique_ptr<ScratchEngine> local, ScratchEngine::Start(input));
  PF_ASSIGN(const clickhouse::UploadPlan plan, PlanOf(input, *server, local->engine(), request));
  if (input.options.Bool("dry-run")) {
    ShowUploadPlan(input, "upload-freeze", plan);
    return {};
  }
  PF_ASSIGN(const std::unique_ptr<SqlJobStore> state, OpenState(input, SchemaUse::kCreate));
  BucketStores stores(input);
  PF_ASSIGN(ObjectStore* const store, stores.Get(input.ctx, request.bucket));
  for (const std::string& warning : plan.job.warnings) input.ctx.log.Warn(warning);
  ProgressLine progress(input, "uploading");
  const auto total = static_cast<int64_t>(plan.parts.size());
  PF_ASSIGN(const clickhouse::UploadSummary summary,
            clickhouse::RunUpload(
                input.ctx, *state, *store, request, plan, [&](int64_t parts, int64_t bytes) {
                  progress.Show(plan.size_bytes == 0 ? 1.0
                                                     : static_cast<double>(bytes) /
                                                           static_cast<double>(plan.size_bytes),
                                fmt::format("part {}/{} · {}", parts, total, FormatBytes(bytes)));
                }));
  progress.Finish();
  if (input.options.Bool("unfreeze")) PF_TRY(Unfreeze(input, *server, request));
  if (input.out.style().is_quiet) {
    input.out.Raw(summary.job_id + "\n");
    return {};
  }
  input.out.Line(
      fmt::format("uploaded  {} parts · {} rows · {} ({} were there already)\njob       {}\nnext   "
                  "   partforge worker --once, or on any machine: partforge worker",
                  summary.parts, FormatCount(summary.rows), FormatBytes(summary.size_bytes),
                  summary.skipped, summary.job_id));
  input.out.Document("upload-freeze", JsonDoc{{"job_id", summary.job_id},
                                              {"parts", summary.parts},
                                              {"bytes", summary.size_bytes},
                                              {"skipped", summary.skipped},
                                              {"rows", summary.rows}});
  return {};
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
                         {.name = "unfreeze",
                          .type = OptionType::kBool,
                          .default_text = "false",
                          .help = "remove the freeze once all of it is uploaded"},
                         {.name = "dry-run",
                          .type = OptionType::kBool,
                          .default_text = "false",
                          .help = "print the plan, write nothing",
                          .letter = 'n'}},
                        ServerOptions(),
                        StateOptions(),
                        StoreOptions(),
                        EngineOptions()}),
       .related = {"freeze", "worker", "import-finished", "plan"}},
      Run};
}

}  // namespace partforge::app
