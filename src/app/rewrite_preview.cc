#include "app/rewrite_preview.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
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

constexpr int kNoParts = 2102, kPatchParts = 2107, kOpenMutations = 2108, kAbsentState = 6003;

// What the plan says beside its parts.
struct Preview {
  std::vector<std::string> notes;
  std::set<std::string> partitions;
  int64_t rewritten = 0, imported = 0;  // of an earlier run
};

Result<int64_t> IntAt(const std::vector<std::string>& row, size_t field) {
  int64_t value = 0;
  const std::string text = field < row.size() ? row[field] : std::string();
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size()) return value;
  return Status(Code::kInternal, fmt::format("read system.parts: no number: {}", text));
}

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
    PF_ASSIGN(const int64_t rows, IntAt(row, 1));
    PF_ASSIGN(const int64_t size_bytes, IntAt(row, 2));
    PF_ASSIGN(const int64_t uncompressed_bytes, IntAt(row, 3));
    Task task;
    task.id = row.at(0);
    task.size_bytes = size_bytes;
    clickhouse::RewriteTaskSpec part;
    part.part_name = row.at(0);
    part.rows = rows;
    part.size_bytes = size_bytes;
    part.uncompressed_bytes = uncompressed_bytes;
    task.payload = part.ToJson();
    PF_TRY(plan.Add(std::move(task)));
    if (row.size() > 4 && row[4] == "1") ++masked;
    if (row.size() > 5) preview.partitions.insert(row[5]);
  }
  if (masked > 0)
    preview.notes.push_back(fmt::format(
        "PF2110 {} parts carry a mask of deleted rows: those rows are not rewritten", masked));
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
  for (const std::string& warning : job.job.warnings) input.out.Line("warning " + warning);
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
                                        {"warnings", job.job.warnings}});
}

}  // namespace

Result<std::vector<std::string>> CheckSourceOnly(const CommandInput& input, Engine& server,
                                                 const clickhouse::TableName& table) {
  const Status checked = clickhouse::CheckSourceTable(input.ctx, server, table, {});
  const int number = checked.ok() ? 0 : checked.explanation().pf_number;
  const bool is_handled =
      (number == kPatchParts && input.options.Bool("apply-patches")) ||
      (number == kOpenMutations && input.options.DurationMs("wait-mutations") > 0);
  if (!checked.ok() && !is_handled) return checked;
  PF_TRY(clickhouse::ReadTableLocation(input.ctx, server, table));
  std::vector<std::string> notes;
  if (number == kPatchParts) notes.emplace_back("PF2107 patch parts are applied before the freeze");
  if (number == kOpenMutations)
    notes.emplace_back("PF2108 unfinished mutations are waited for before the freeze");
  return notes;
}

Result<Reached> ReachedBefore(const CommandInput& input, SqlJobStore& state,
                              const std::string& job_id) {
  const Result<JobView> view = state.View(input.ctx, job_id);
  if (!view.ok()) {
    if (view.status().code() == Code::kNotFound) return Reached::kNothing;
    return view.status();
  }
  return view->state == "SEALED" ? Reached::kUploaded : Reached::kJob;
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
  Reached reached = Reached::kNothing;
  const Result<std::unique_ptr<SqlJobStore>> state = OpenState(input, SchemaUse::kRead);
  if (!state.ok() && state.status().explanation().pf_number != kAbsentState) return state.status();
  if (state.ok()) {
    PF_ASSIGN(reached, ReachedBefore(input, **state, request.job_id));
  }
  clickhouse::UploadPlan job;
  if (reached == Reached::kNothing) {
    clickhouse::UploadFreezeRequest asked = request;
    PF_ASSIGN(const std::unique_ptr<ScratchEngine> local, ScratchEngine::Start(input));
    PF_ASSIGN(preview.notes, CheckSourceOnly(input, server, request.source));
    asked.is_resumed = !preview.notes.empty();  // the plan of the job refuses it no second time
    PF_ASSIGN(job, clickhouse::PlanJob(input.ctx, server, local->engine(), asked));
  } else {
    PF_ASSIGN(const JobView view, (*state)->View(input.ctx, request.job_id));
    PF_TRY(CheckSameRequest(view, request));
    job.job_id = request.job_id;
    PF_ASSIGN(job.job, clickhouse::RewriteJobSpec::FromJson(view.job.spec));
    job.schema_fingerprint = SchemaFingerprintOf(job.job);
  }
  PartPlan plan(use, settings, input.options.Int("max-crashes"), job.job);
  const clickhouse::TableName destination{job.job.destination_database, job.job.destination_table};
  const Result<std::string> existing = clickhouse::ReadCreateTable(input.ctx, server, destination);
  if (!existing.ok() && existing.status().code() != Code::kNotFound) return existing.status();
  if (reached == Reached::kNothing) {
    PF_TRY(CheckDestination(input, server, job, Probe::kLook));
    PF_TRY(AddActiveParts(input, server, request, plan, preview));
  } else {
    PF_ASSIGN(const JobView view, (*state)->View(input.ctx, request.job_id));
    PF_TRY(AddWaitingParts(input, **state, view, plan, preview));
  }
  PF_TRY(plan.Close());
  Show(input, job, plan, preview, existing.ok(), use);
  return {};
}

}  // namespace partforge::app
