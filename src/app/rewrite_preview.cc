#include "app/rewrite_preview.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "app/job_records.h"
#include "app/part_plan.h"
#include "base/units.h"
#include "clickhouse/freeze_scan.h"
#include "clickhouse/import_checks.h"
#include "clickhouse/import_target.h"
#include "clickhouse/local_tables.h"
#include "clickhouse/source_checks.h"
#include "engine/sql_text.h"
#include "job/each_task.h"

namespace partforge::app {
namespace {

constexpr int kNoParts = 2102, kAbsentState = 6003;

// What the plan says beside its parts.
struct Preview {
  std::vector<std::string> notes;
  std::set<std::string> partitions;
  int64_t rewritten = 0, imported = 0;  // of an earlier run
};

// The parts that a freeze would take now.
Status AddActiveParts(const CommandInput& input, Engine& server,
                      const clickhouse::UploadFreezeRequest& request, PartPlan& plan,
                      Preview& preview) {
  PF_ASSIGN(const QueryOutcome found,
            server.Query(input.ctx,
                         fmt::format("SELECT name, rows, bytes_on_disk, data_uncompressed_bytes, "
                                     "has_lightweight_delete, partition_id FROM system.parts WHERE "
                                     "database = {} AND table = {} AND active AND NOT "
                                     "startsWith(name, 'patch-') ORDER BY name",
                                     QuoteString(request.source.database),
                                     QuoteString(request.source.table)),
                         {}));
  int64_t masked = 0;
  for (const std::vector<std::string>& row : clickhouse::SplitTsv(found.text)) {
    if (row.size() != 6) {
      return Status(Code::kInternal,
                    fmt::format("read system.parts: {} fields instead of 6", row.size()));
    }
    PF_ASSIGN(const int64_t rows, clickhouse::ToInt(row[1]));
    PF_ASSIGN(const int64_t size_bytes, clickhouse::ToInt(row[2]));
    PF_ASSIGN(const int64_t uncompressed_bytes, clickhouse::ToInt(row[3]));
    Task task;
    task.id = row[0];
    task.size_bytes = size_bytes;
    clickhouse::RewriteTaskSpec part;
    part.part_name = row[0];
    part.rows = rows;
    part.size_bytes = size_bytes;
    part.uncompressed_bytes = uncompressed_bytes;
    task.payload = part.ToJson();
    PF_TRY(plan.Add(std::move(task)));
    if (row[4] == "1") ++masked;
    preview.partitions.insert(row[5]);
  }
  if (masked > 0) preview.notes.push_back(clickhouse::MaskedPartsNote(masked));
  if (plan.part_count() > 0) return {};
  return Status(Code::kRefused, "the table has no parts")
      .Explain(kNoParts, request.source.ToString(), "name a table that has rows");
}

// The parts of a job that an earlier run has begun.
Status AddWaitingParts(const CommandInput& input, SqlJobStore& state, const JobView& view,
                       PartPlan& plan, Preview& preview) {
  for (const TaskState one : {TaskState::kReady, TaskState::kInProgress}) {
    PF_TRY(ForEachTaskIn(input.ctx, state, view.job.id, one,
                         [&](const Task& task) { return plan.Add(task); }));
  }
  const JobNumbers numbers = NumbersOf(view);
  preview.rewritten = numbers.rewritten;
  preview.imported = numbers.imported;
  preview.notes.push_back(fmt::format(
      "an earlier run of this job is gone on with: {} of {} parts rewritten, {} imported",
      numbers.rewritten, numbers.total, numbers.imported));
  return {};
}

void Show(const CommandInput& input, const clickhouse::UploadPlan& job, const PartPlan& plan,
          const Preview& preview, bool has_destination, const MachineUse& use) {
  const std::string source = job.job.source_database + "." + job.job.source_table,
                    destination = job.job.destination_database + "." + job.job.destination_table;
  std::vector<std::string> notes = NotesOnJob(job.job);
  notes.insert(notes.end(), preview.notes.begin(), preview.notes.end());
  input.out.Line(
      fmt::format("plan    {} → {} ({})   {} parts · {} rows · {} on {} slots   nothing "
                  "is written",
                  source, destination, has_destination ? "there" : "is made", plan.part_count(),
                  FormatCount(plan.rows()), FormatBytes(plan.size_bytes()), use.slots));
  input.out.Text(RenderTable(plan.ToTable(), input.out.style()));
  if (plan.part_count() > 0) input.out.Line("tiers   " + plan.TierText());
  for (const std::string& removal : job.removals) input.out.Line("local   without " + removal);
  for (const std::string& note : notes) input.out.Line("note    " + note);
  const std::vector<std::string> warnings = WarningsOnJob(job.job);
  for (const std::string& warning : warnings) input.out.Line("warning " + warning);
  input.out.Document("rewrite", JsonDoc{{"job_id", job.job_id},
                                        {"source", source},
                                        {"destination", destination},
                                        {"destination_exists", has_destination},
                                        {"schema_fingerprint", job.schema_fingerprint},
                                        {"dry_run", true},
                                        {"slots", use.slots},
                                        {"memory_bytes", use.memory_cap_bytes},
                                        {"rows", plan.rows()},
                                        {"bytes", plan.size_bytes()},
                                        {"source_partitions", preview.partitions},
                                        {"rewritten", preview.rewritten},
                                        {"imported", preview.imported},
                                        {"tiers", plan.TierDocument()},
                                        {"parts", plan.PartsDocument()},
                                        {"chunks_allowed", job.job.is_chunk_safe},
                                        {"chunk_refusal", job.job.chunk_refusal},
                                        {"removals", job.removals},
                                        {"notes", notes},
                                        {"warnings", warnings}});
}

}  // namespace

Result<std::vector<std::string>> CheckSourceOnly(const CommandInput& input, Engine& server,
                                                 const clickhouse::TableName& table) {
  std::vector<std::string> notes;
  PF_TRY(
      clickhouse::CheckSourceTable(input.ctx, server, table,
                                   {.applies_patches = input.options.Bool("apply-patches"),
                                    .wait_mutations_ms = input.options.DurationMs("wait-mutations"),
                                    .foreseen = &notes}));
  PF_TRY(clickhouse::ReadTableLocation(input.ctx, server, table));
  return notes;
}

Result<std::optional<JobView>> EarlierJob(const CommandInput& input, SqlJobStore& state,
                                          const std::string& job_id) {
  Result<JobView> view = state.View(input.ctx, job_id);
  if (view.ok()) return std::optional<JobView>(*std::move(view));
  if (view.status().code() == Code::kNotFound) return std::optional<JobView>();
  return view.status();
}

Status CheckSameRequest(const JobView& view, const clickhouse::UploadFreezeRequest& request) {
  PF_ASSIGN(const clickhouse::RewriteJobSpec job,
            clickhouse::RewriteJobSpec::FromJson(view.job.spec));
  PF_ASSIGN(const std::string differs, clickhouse::DifferenceOf(job, request));
  if (differs.empty()) return {};
  return Status(Code::kConflict, differs)
      .Explain(6006, view.job.id, "use another --job-id, or the table, SQL and bucket of that job");
}

Status CheckDestination(const CommandInput& input, Engine& server,
                        const clickhouse::UploadPlan& plan, Probe probe) {
  const clickhouse::TableName table{plan.job.destination_database, plan.job.destination_table};
  const Result<std::string> existing = clickhouse::ReadCreateTable(input.ctx, server, table);
  if (!existing.ok()) {
    return existing.status().code() == Code::kNotFound ? Status() : existing.status();
  }
  PF_ASSIGN(const clickhouse::ImportTarget target,
            clickhouse::ReadImportTarget(input.ctx, server, table));
  if (!input.options.Bool("skip-schema-check"))
    PF_TRY(clickhouse::CheckImportSchema(input.ctx, server, plan.job, target));
  PF_TRY(probe == Probe::kTry ? clickhouse::ProbeDetached(input.ctx, target)
                              : clickhouse::CheckDetachedRights(target));
  if (!input.options.Bool("require-empty")) return {};
  PF_ASSIGN(const int64_t rows, clickhouse::CountActiveRows(input.ctx, server, table));
  if (rows == 0) return {};
  return clickhouse::NotEmpty(table, fmt::format("it has {} rows already", rows));
}

Status ShowRewritePlan(const CommandInput& input, Engine& server,
                       const clickhouse::UploadFreezeRequest& request, const MachineUse& use) {
  PF_ASSIGN(const clickhouse::RewriteSettings settings, RewriteSettingsFrom(input, use));
  Preview preview;
  std::optional<JobView> earlier;
  const Result<std::unique_ptr<SqlJobStore>> state = OpenState(input, SchemaUse::kRead);
  if (!state.ok() && state.status().explanation().pf_number != kAbsentState) return state.status();
  if (state.ok()) {
    PF_ASSIGN(earlier, EarlierJob(input, **state, request.job_id));
  }
  clickhouse::UploadPlan job;
  if (!earlier) {
    clickhouse::UploadFreezeRequest asked = request;
    PF_ASSIGN(const std::unique_ptr<ScratchEngine> local, ScratchEngine::Start(input));
    PF_ASSIGN(preview.notes, CheckSourceOnly(input, server, request.source));
    asked.is_source_checked = true;
    PF_ASSIGN(job, clickhouse::PlanJob(input.ctx, server, local->engine(), asked));
  } else {
    PF_TRY(CheckSameRequest(*earlier, request));
    job.job_id = request.job_id;
    PF_ASSIGN(job.job, clickhouse::RewriteJobSpec::FromJson(earlier->job.spec));
    job.schema_fingerprint = SchemaFingerprintOf(job.job);
  }
  PartPlan plan(use, settings, job.job);
  const clickhouse::TableName destination{job.job.destination_database, job.job.destination_table};
  const Result<std::string> existing = clickhouse::ReadCreateTable(input.ctx, server, destination);
  if (!existing.ok() && existing.status().code() != Code::kNotFound) return existing.status();
  if (!earlier) {
    PF_TRY(CheckDestination(input, server, job, Probe::kLook));
    PF_TRY(AddActiveParts(input, server, request, plan, preview));
  } else {
    PF_TRY(AddWaitingParts(input, **state, *earlier, plan, preview));
  }
  PF_TRY(plan.Close());
  Show(input, job, plan, preview, existing.ok(), use);
  return {};
}

}  // namespace partforge::app
