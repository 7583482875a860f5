#include "app/import_options.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "app/confirm.h"
#include "app/job_records.h"
#include "app/progress_line.h"
#include "app/row_flow.h"
#include "app/time_spent.h"
#include "app/worker_run.h"
#include "base/process_metrics.h"
#include "base/units.h"
#include "clickhouse/import_plan.h"

namespace partforge::app {
namespace {

JsonDoc FailuresDocument(const std::vector<clickhouse::FailedImport>& failures) {
  JsonDoc list = JsonDoc::array();
  for (const clickhouse::FailedImport& failure : failures)
    list.push_back(JsonDoc{{"part_id", failure.part_id}, {"error", failure.message}});
  return list;
}

Status NothingWaits(const std::string& job) {
  return Status(Code::kNotFound, "no finished part is waiting")
      .Explain(1016, job, fmt::format("partforge job-status --job-id={}", job));
}

}  // namespace

std::vector<OptionSpec> ImportOptions() {
  return {
      {.name = "require-empty",
       .type = OptionType::kBool,
       .default_text = "true",
       .help = "the table has no rows but those of this job"},
      {.name = "partial",
       .type = OptionType::kBool,
       .default_text = "false",
       .help = "publish what is finished although other parts are not"},
      {.name = "verify-import",
       .default_text = "checksums",
       .help = "checksums, or check-table: also CHECK TABLE before anything is visible"},
      {.name = "skip-schema-check",
       .type = OptionType::kBool,
       .default_text = "false",
       .help = "do not compare the table's schema with the job's (dangerous)"},
      {.name = "allow-reorder",
       .type = OptionType::kBool,
       .default_text = "false",
       .help = "parts of an order-sensitive engine may arrive in any order"},
      {.name = "wait",
       .type = OptionType::kDuration,
       .default_text = "17s",
       .help = "wait so long for another import into the table",
       .group = "Limits"},
      {.name = "import-lease-ttl",
       .type = OptionType::kDuration,
       .default_text = "15s",
       .help = "how long a silent import keeps its lock and its commits",
       .group = "Limits"},
      {.name = "import-concurrency",
       .type = OptionType::kInt,
       .default_text = "4",
       .help = "artifacts fetched at once",
       .group = "Limits"},
      {.name = "throttle-parts",
       .type = OptionType::kInt,
       .default_text = "150",
       .help = "pause while a partition has more active parts; 0 = never",
       .group = "Limits"},
  };
}

Status ConfirmImport(const CommandInput& input) {
  if (!input.options.Bool("skip-schema-check")) return {};
  return Confirm(input,
                 "Attach the parts although nobody compares their schema with the table's (another "
                 "sorting key or type makes later answers wrong, without a word)");
}

namespace {

Result<clickhouse::ImportRequest> RequestFrom(const CommandInput& input, BucketStores& stores,
                                              const std::string& job,
                                              const clickhouse::TableName& table) {
  clickhouse::ImportRequest request;
  request.job_id = job;
  request.table = table;
  if (input.options.Has("part-id")) request.part_id = input.options.String("part-id");
  request.owner = "import-" + ProcessName(input) + "-" + RandomHex(input.ctx.random, 4);
  request.requires_empty = input.options.Bool("require-empty");
  request.is_partial_allowed = input.options.Bool("partial");
  request.skips_schema_check = input.options.Bool("skip-schema-check");
  request.allows_reorder = input.options.Bool("allow-reorder");
  request.wait_lock_ms = input.options.DurationMs("wait");
  PF_ASSIGN(request.lease_ms, LeaseFrom(input, "import-lease-ttl"));
  request.artifacts_in_parallel =
      static_cast<int>(std::clamp<int64_t>(input.options.Int("import-concurrency"), 1, 64));
  request.settings.throttle_parts = input.options.Int("throttle-parts");
  const std::string verify = input.options.String("verify-import");
  if (verify == "none") {
    return Status(Code::kInvalidArgument,
                  "bytes that nobody compared are never imported; they are hashed while they are "
                  "fetched, which costs no further reading")
        .Explain(1005, "--verify-import", "--verify-import=checksums, or leave it out");
  }
  if (verify != "checksums" && verify != "check-table") {
    return Status(Code::kInvalidArgument,
                  fmt::format("neither checksums nor check-table: {}", verify))
        .Explain(1005, "--verify-import", "--verify-import=checksums");
  }
  request.settings.checks_table = verify == "check-table";
  request.store_of_bucket = stores.function();
  return request;
}

}  // namespace

Status ShowImportPlan(const CommandInput& input, JobStore& state, Engine& server,
                      BucketStores& stores, const std::string& job,
                      const clickhouse::TableName& table) {
  PF_ASSIGN(const clickhouse::ImportRequest request, RequestFrom(input, stores, job, table));
  PF_ASSIGN(const RowFlow flow, ConservedFlow(input.ctx, state, job));
  PF_ASSIGN(const clickhouse::ImportPlan plan,
            clickhouse::PlanImport(input.ctx, state, server, request));
  Table rows{{{.title = "PART_ID"},
              {.title = "PARTS", .is_right_aligned = true},
              {.title = "ROWS", .is_right_aligned = true},
              {.title = "SIZE", .is_right_aligned = true},
              {.title = "PARTITIONS", .is_right_aligned = false, .may_be_cut = true}},
             {}};
  JsonDoc artifacts = JsonDoc::array();
  for (const clickhouse::PlannedArtifact& one : plan.artifacts) {
    std::string partitions;
    for (const auto& [partition, parts] : one.partition_parts)
      partitions += (partitions.empty() ? "" : ", ") + partition;
    rows.rows.push_back({one.part_id, FormatCount(one.parts), FormatCount(one.rows),
                         FormatBytes(one.bytes), partitions});
    artifacts.push_back(JsonDoc{{"part_id", one.part_id},
                                {"parts", one.parts},
                                {"rows", one.rows},
                                {"bytes", one.bytes},
                                {"partition_parts", JsonDoc(one.partition_parts)}});
  }
  input.out.Line(
      fmt::format("plan      {} ({})   {} artifacts · {} parts in {} partitions · {} rows · "
                  "{}   nothing is written",
                  plan.table, plan.engine, plan.artifacts.size(), plan.parts,
                  plan.partitions.size(), FormatCount(plan.rows), FormatBytes(plan.bytes)));
  if (!plan.artifacts.empty()) input.out.Text(RenderTable(rows, input.out.style()));
  if (plan.already_imported > 0)
    input.out.Line(fmt::format("  before   {} artifacts were published by an earlier run",
                               plan.already_imported));
  if (plan.unfinished_commits > 0)
    input.out.Line(fmt::format("  first    {} commits of an earlier run are carried to their end",
                               plan.unfinished_commits));
  input.out.Line("  rows     " + flow.Text());
  input.out.Document("import-finished", JsonDoc{{"job_id", plan.job_id},
                                                {"table", plan.table},
                                                {"engine", plan.engine},
                                                {"dry_run", true},
                                                {"artifacts", artifacts},
                                                {"already_imported", plan.already_imported},
                                                {"unfinished_commits", plan.unfinished_commits},
                                                {"partitions", plan.partitions},
                                                {"parts", plan.parts},
                                                {"rows", plan.rows},
                                                {"bytes", plan.bytes}});
  if (plan.artifacts.empty() && plan.unfinished_commits == 0 && input.options.Bool("fail-if-empty"))
    return NothingWaits(job);
  return {};
}

Status ImportAndShow(const CommandInput& input, JobStore& state, Engine& server,
                     BucketStores& stores, const std::string& job, const RowFlow& flow,
                     const clickhouse::TableName& table, std::string_view command) {
  PF_ASSIGN(clickhouse::ImportRequest request, RequestFrom(input, stores, job, table));
  ProgressLine progress(input, "importing");
  request.on_progress = [&](int64_t done, int64_t total, int64_t rows, int64_t bytes) {
    progress.Show(total == 0 ? 1.0 : static_cast<double>(done) / static_cast<double>(total),
                  fmt::format("artifact {}/{} · {} rows", done, total, FormatCount(rows)),
                  {.rows = rows, .bytes = bytes});
  };
  const int64_t started_ms = MonotonicMs();
  PF_ASSIGN(const clickhouse::ImportSummary summary,
            clickhouse::RunImport(input.ctx, state, server, request));
  progress.Finish();
  const int64_t took_ms = MonotonicMs() - started_ms;
  if (summary.imported == 0 && summary.failed.empty() && summary.in_doubt.empty() &&
      summary.conflicts.empty() && input.options.Bool("fail-if-empty"))
    return NothingWaits(job);
  input.out.Line(fmt::format("imported  {}   {} artifacts · {} parts · {} rows   {}", summary.table,
                             summary.imported, summary.parts, FormatCount(summary.rows),
                             FormatDurationMs(took_ms)));
  if (summary.already_imported > 0)
    input.out.Line(fmt::format("  before   {} artifacts were published by an earlier run",
                               summary.already_imported));
  if (summary.rows_in_table >= 0)
    input.out.Line(fmt::format("  table    {} rows", FormatCount(summary.rows_in_table)));
  if (command == "import-finished") {
    input.out.Line("  rows     " + flow.Text());
    input.out.Line("  bytes    " + flow.BytesText());
    const TimeSpent spent{.took_ms = took_ms,
                          .rows = summary.rows,
                          .bytes = summary.bytes,
                          .peak_memory_bytes = PeakMemoryBytes()};
    input.out.Line("  time     " + spent.Text());
  }
  for (const auto& failure : summary.failed)
    input.out.Line(fmt::format("  FAIL     {}: {}", failure.part_id, failure.message));
  for (const auto& doubt : summary.in_doubt)
    input.out.Line(fmt::format("  DOUBT    {}: {}", doubt.part_id, doubt.message));
  if (command == "import-finished") {
    JsonDoc document{{"job_id", summary.job_id},
                     {"table", summary.table},
                     {"imported", summary.imported},
                     {"already_imported", summary.already_imported},
                     {"parts", summary.parts},
                     {"rows", summary.rows},
                     {"bytes", summary.bytes},
                     {"rows_in_table", summary.rows_in_table},
                     {"failed", FailuresDocument(summary.failed)},
                     {"in_doubt", FailuresDocument(summary.in_doubt)},
                     {"conflicts", FailuresDocument(summary.conflicts)},
                     {"seconds", static_cast<double>(took_ms) / 1000.0}};
    flow.AppendTo(document);
    document["peak_memory_bytes"] = PeakMemoryBytes();  // of this command, not of the rewrite
    input.out.Document(command, document);
  }
  return clickhouse::StatusOf(summary);
}

}  // namespace partforge::app
