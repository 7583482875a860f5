#include "clickhouse/upload_freeze.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>

#include "base/files.h"
#include "base/ids.h"
#include "base/parallel_for.h"
#include "clickhouse/artifact.h"
#include "clickhouse/frozen_columns.h"
#include "clickhouse/job_sql.h"
#include "clickhouse/manifest.h"
#include "clickhouse/part_files.h"
#include "clickhouse/source_checks.h"
#include "clickhouse/source_upload.h"
#include "clickhouse/time_zone.h"

namespace partforge::clickhouse {
namespace {

constexpr int kPatchesOpen = 2107, kMutationsOpen = 2108;

Manifest MakeManifest(const UploadPlan& plan, const PlannedPart& part, int64_t now_ms) {
  Manifest manifest;
  manifest.job_id = plan.job_id;
  manifest.part_id = part.part_id;
  manifest.freeze = part.frozen.freeze;
  manifest.source_database = plan.job.source_database;
  manifest.source_table = plan.job.source_table;
  manifest.dest_database = plan.job.destination_database;
  manifest.dest_table = plan.job.destination_table;
  manifest.part_disk = part.frozen.disk;
  manifest.part_name = part.frozen.name.ToString();
  manifest.part_relative_path = part.frozen.relative_path;
  manifest.source_schema = plan.job.source_schema;
  manifest.destination_schema = plan.job.destination_schema;
  manifest.insert_select = plan.job.insert_select;
  manifest.bucket = plan.job.bucket;
  manifest.source_key = part.source_key;
  manifest.finished_key = part.finished_key;
  manifest.created_at_ns = now_ms * 1'000'000;
  return manifest;
}

Status CheckSourceNow(const Context& ctx, Engine& source, const UploadFreezeRequest& request) {
  Status fit = CheckSourceTable(ctx, source, request.source, {});
  if (fit.ok() || !request.is_resumed) return fit;
  const int number = fit.explanation().pf_number;
  if (number != kPatchesOpen && number != kMutationsOpen) return fit;
  ctx.log.Warn("the table has changed since the freeze; the job goes on with the frozen parts",
               {{"table", request.source.ToString()}, {"change", fit.message()}});
  return {};
}

bool IsMasked(const FrozenPart& part) {
  constexpr int64_t kBytesMax = 1 << 24;
  const Result<std::string> text = ReadFile(part.directory / "columns.txt", kBytesMax);
  if (!text.ok()) return false;  // the upload says what is wrong with it
  const auto columns = ParseColumnsTxt(*text);
  return columns.ok() && HasDeleteMask(*columns);
}

}  // namespace

Result<std::string> DifferenceOf(const RewriteJobSpec& job, const UploadFreezeRequest& request) {
  PF_ASSIGN(const std::string prefix, NormalizePrefix(request.prefix));
  const std::string source = TableName{job.source_database, job.source_table}.ToString();
  if (source != request.source.ToString()) return fmt::format("its source table is {}", source);
  if (job.destination_schema != request.destination_schema)
    return std::string("it has another --destination-schema-file");
  if (job.insert_select != request.insert_select)
    return std::string("it has another --insert-select-file");
  if (job.bucket != request.bucket || job.prefix != prefix)
    return fmt::format("its objects are in bucket {}, prefix {}", job.bucket, job.prefix);
  return std::string();
}

std::string MaskedPartsNote(int64_t parts) {
  return fmt::format("PF2110 {} parts carry a mask of deleted rows: those rows are not rewritten",
                     parts);
}

Result<UploadPlan> PlanJob(const Context& ctx, Engine& source, Engine& local,
                           const UploadFreezeRequest& request) {
  UploadPlan plan;
  plan.job_id = request.job_id.empty() ? MakeJobId(ctx.random) : request.job_id;
  if (!IsValidId(plan.job_id)) {
    return Status(Code::kRefused,
                  fmt::format(
                      "a job id has 1 to 128 letters, digits, dots, hyphens or underscores: {}",
                      plan.job_id.substr(0, 200)))
        .Explain(8006, "--job-id", "leave it out to have one drawn");
  }
  if (!request.is_source_checked) PF_TRY(CheckSourceNow(ctx, source, request));
  PF_ASSIGN(plan.job.source_schema, ReadCreateTable(ctx, source, request.source));
  PF_ASSIGN(const JobSqlVerdict verdict,
            CheckJobSql(ctx, local,
                        JobSqlRequest{.source_schema = plan.job.source_schema,
                                      .destination_schema = request.destination_schema,
                                      .insert_select = request.insert_select,
                                      .compression_codec = "ZSTD(5)",
                                      .allows_external_reads = request.allows_external_reads}));
  if (!verdict.is_chunk_safe && !request.allows_whole_parts_only) {
    return Status(Code::kRefused, verdict.chunk_refusal)
        .Explain(2114, "insert-select-file:" + verdict.chunk_refusal,
                 "--chunk-unsafe=single runs each part whole; across parts the result would still "
                 "differ");
  }
  plan.job.source_database = request.source.database;
  plan.job.source_table = request.source.table;
  plan.job.destination_database = verdict.destination.database;
  plan.job.destination_table = verdict.destination.table;
  plan.job.destination_schema = request.destination_schema;
  plan.job.insert_select = request.insert_select;
  PF_ASSIGN(plan.job.timezone, ReadTimeZone(ctx, source));
  plan.job.allows_external_reads = request.allows_external_reads;
  plan.job.freeze =
      request.freezes.size() == 1
          ? request.freezes.front()
          : fmt::format("{} and {} more", request.freezes.front(), request.freezes.size() - 1);
  plan.job.bucket = request.bucket;
  PF_ASSIGN(plan.job.prefix, NormalizePrefix(request.prefix));
  plan.job.fingerprint = verdict.fingerprint.canonical_json;
  plan.job.is_chunk_safe = verdict.is_chunk_safe;
  plan.job.chunk_refusal = verdict.chunk_refusal;
  plan.job.is_order_sensitive = verdict.is_order_sensitive;
  plan.job.warnings = verdict.warnings;
  plan.schema_fingerprint = verdict.fingerprint.id;
  plan.removals = verdict.removals;
  return plan;
}

Result<UploadPlan> PlanUpload(const Context& ctx, Engine& source, Engine& local,
                              const UploadFreezeRequest& request) {
  PF_ASSIGN(UploadPlan plan, PlanJob(ctx, source, local, request));
  PF_ASSIGN(const TableLocation location, ReadTableLocation(ctx, source, request.source));
  PF_ASSIGN(FreezeScan scan,
            ScanFreeze(ctx, location, request.source, request.freezes, request.covered));
  PF_TRY(
      CheckFrozenColumns(ctx, source, local, request.source, plan.job.source_schema, scan.parts));
  PF_ASSIGN(const JobKeys keys, JobKeys::Make(request.prefix, plan.job_id));
  plan.skipped = std::move(scan.skipped);
  plan.other_tables = std::move(scan.other_tables);
  if (request.refuses_other_tables && !plan.other_tables.empty()) {
    return Status(Code::kRefused, fmt::format("it holds parts of {} other tables, the first: {}",
                                              plan.other_tables.size(), plan.other_tables.front()))
        .Explain(2127, fmt::format("{}", fmt::join(request.freezes, ", ")),
                 "freeze under a name of its own, or leave out --freeze-name-check: parts of "
                 "other tables are not taken");
  }
  const auto masked = std::count_if(scan.parts.begin(), scan.parts.end(), IsMasked);
  if (masked > 0) plan.job.warnings.push_back(MaskedPartsNote(masked));
  for (FrozenPart& frozen : scan.parts) {
    PlannedPart part;
    const std::string name = frozen.name.ToString();
    part.part_id = MakePartId(PartIdInput{.disk = frozen.disk,
                                          .relative_path = frozen.relative_path,
                                          .part_name = name,
                                          .source_schema = plan.job.source_schema,
                                          .destination_schema = plan.job.destination_schema,
                                          .insert_select = plan.job.insert_select});
    PF_ASSIGN(part.source_key, keys.SourceKey(part.part_id));
    PF_ASSIGN(part.finished_key, keys.FinishedKey(part.part_id));
    plan.rows += frozen.rows;
    plan.size_bytes += frozen.size_bytes;
    part.frozen = std::move(frozen);
    plan.parts.push_back(std::move(part));
  }
  return plan;
}

namespace {

// The request of the job as it is kept, if an earlier run began it. Warnings are words for people,
// which another version of this program may have put otherwise: they do not make it another job.
Result<Json> SpecOf(const Context& ctx, JobStore& state, const UploadPlan& plan) {
  const Json spec = plan.job.ToJson();
  const Result<JobView> begun = state.View(ctx, plan.job_id);
  if (!begun.ok() && begun.status().code() == Code::kNotFound) return spec;
  PF_TRY(begun);
  Result<RewriteJobSpec> kept = RewriteJobSpec::FromJson(begun->job.spec);
  if (!kept.ok()) return spec;  // the store says what is wrong with it
  kept->warnings = plan.job.warnings;
  return kept->ToJson() == spec ? begun->job.spec : spec;
}

}  // namespace

Result<UploadSummary> RunUpload(
    const Context& ctx, JobStore& state, ObjectStore& store, const UploadFreezeRequest& request,
    const UploadPlan& plan, const std::function<void(int64_t parts, int64_t bytes)>& on_progress) {
  // A wrong bucket or key is told before the job exists: its id would be spent.
  PF_TRY(store.List(ctx, plan.job.prefix, std::nullopt));
  Plan job;
  job.job.id = plan.job_id;
  job.job.kind = kRewriteKind;
  job.job.key = plan.job_id;
  job.job.name = request.job_name;
  job.job.publish = PublishMode::kCommand;
  PF_ASSIGN(job.job.spec, SpecOf(ctx, state, plan));
  PF_ASSIGN(const JobId created, state.CreateJob(ctx, job));
  PF_FAULT(ctx, "clickhouse.job_created");

  UploadSummary summary;
  summary.job_id = created;
  std::mutex mutex;  // guards summary
  const auto upload_one = [&](const Context& inner, int64_t i) -> Status {
    const PlannedPart& part = plan.parts[static_cast<size_t>(i)];
    PF_ASSIGN(const SourceUploaded uploaded,
              UploadSource(inner, store, part.frozen, MakeManifest(plan, part, inner.clock.NowMs()),
                           request.files_in_parallel));
    PF_ASSIGN(const PartInfo info, ReadPart(inner, part.frozen.directory));
    RewriteTaskSpec spec;
    spec.disk = part.frozen.disk;
    spec.relative_path = part.frozen.relative_path;
    spec.part_name = part.frozen.name.ToString();
    spec.source_key = part.source_key;
    spec.finished_key = part.finished_key;
    spec.manifest_sha256 = uploaded.manifest_sha256;
    spec.checksums_sha256 = part.frozen.checksums_txt_sha256;
    spec.rows = part.frozen.rows;
    spec.size_bytes = uploaded.size_bytes;
    spec.files = static_cast<int64_t>(uploaded.manifest.files.size());
    spec.uncompressed_bytes = info.data_uncompressed_bytes;
    Task task;
    task.id = part.part_id;
    task.job = created;
    task.kind = kRewriteKind;
    task.number = i;
    task.size_bytes = uploaded.size_bytes;
    task.payload = spec.ToJson();
    PF_TRY(state.AddTasks(inner, created, std::span(&task, 1)));
    PF_FAULT(inner, "clickhouse.part_registered");
    const std::lock_guard lock(mutex);
    ++summary.parts;
    summary.size_bytes += uploaded.size_bytes;
    summary.rows += part.frozen.rows;
    if (uploaded.was_complete) ++summary.skipped;
    if (on_progress) on_progress(summary.parts, summary.size_bytes);
    return {};
  };
  PF_TRY(ParallelFor(ctx, static_cast<int64_t>(plan.parts.size()), request.parts_in_parallel,
                     upload_one));
  PF_TRY(state.Seal(ctx, created, static_cast<int64_t>(plan.parts.size())));
  PF_FAULT(ctx, "clickhouse.job_sealed");
  return summary;
}

}  // namespace partforge::clickhouse
