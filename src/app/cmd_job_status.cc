#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <span>

#include "app/commands.h"
#include "app/job_records.h"
#include "app/option_groups.h"
#include "app/row_flow.h"
#include "app/wire.h"
#include "base/units.h"
#include "clickhouse/rewrite_job.h"
#include "job/each_task.h"

namespace partforge::app {
namespace {

std::string Text(const JsonDoc& record, const char* key) {
  const auto it = record.find(key);
  if (it == record.end() || it->is_null()) return "";
  return it->is_string() ? it->get<std::string>() : it->dump();
}

enum class Shown : uint8_t { kText, kLongText, kTime, kCount, kBytes, kDuration };
struct PartColumn {
  const char* title;
  const char* field;  // of the record
  Shown shown = Shown::kText;
};

// clickhouse-parts §8.6, but for the columns of compaction and merges.
constexpr PartColumn kPartColumns[] = {
    {"PART_ID", "part_id"},
    {"STATUS", "status"},
    {"ATTEMPTS", "attempts", Shown::kCount},
    {"WORKER", "worker_id", Shown::kLongText},
    {"READ_ROWS", "read_rows", Shown::kCount},
    {"READ_SIZE", "read_bytes", Shown::kBytes},
    {"WRITTEN_ROWS", "written_rows", Shown::kCount},
    {"WRITTEN_SIZE", "written_bytes", Shown::kBytes},
    {"SOURCE_ROWS", "source_rows", Shown::kCount},
    {"SOURCE_SIZE", "source_artifact_bytes", Shown::kBytes},
    {"DEST_ROWS", "destination_active_part_rows", Shown::kCount},
    {"INPUT_CH_PARTS", "source_active_part_count", Shown::kCount},
    {"OUTPUT_CH_PARTS", "destination_active_part_count", Shown::kCount},
    {"PARTITIONS", "partitions", Shown::kCount},
    {"TIER", "tier"},
    {"PROGRESS_AT", "progress_updated_at", Shown::kTime},
    {"UPDATED_AT", "updated_at", Shown::kTime},
    {"ERROR", "error", Shown::kLongText}};
constexpr PartColumn kDetailColumns[] = {
    {"PART_ID", "part_id"},
    {"STATUS", "status"},
    {"ATTEMPTS", "attempts", Shown::kCount},
    {"WORKER", "worker_id", Shown::kLongText},
    {"STAGE", "rewrite_stage"},
    {"STAGE_ELAPSED", "rewrite_stage_elapsed_ms", Shown::kDuration},
    {"TOTAL_ELAPSED", "rewrite_total_elapsed_ms", Shown::kDuration},
    {"STAGE_STARTED", "rewrite_stage_started_at", Shown::kTime},
    {"PROGRESS_AT", "progress_updated_at", Shown::kTime},
    {"UPDATED_AT", "updated_at", Shown::kTime},
    {"STAGE_DURATIONS", "rewrite_stage_durations_ms", Shown::kLongText},
    {"TIER", "tier"},
    {"TIER_REASON", "tier_reason", Shown::kLongText},
    {"EPOCH", "epoch", Shown::kCount},
    {"LEASE_LEFT", "lease_left_ms", Shown::kDuration},
    {"CLASS", "failure_class"},
    {"ERROR", "error", Shown::kLongText}};

std::string Cell(const JsonDoc& record, const PartColumn& column, const OutputStyle& style,
                 int64_t now_ms) {
  if (column.shown == Shown::kTime) {
    const Result<int64_t> at_ms = ParseTimeMs(Text(record, column.field));
    return at_ms.ok() ? WhenText(style, *at_ms, now_ms) : std::string();
  }
  const auto it = record.find(column.field);
  if (it == record.end() || !it->is_number_integer()) return Text(record, column.field);
  const auto value = it->get<int64_t>();
  switch (column.shown) {
    case Shown::kCount:
      return FormatCount(value);
    case Shown::kBytes:
      return FormatBytes(value);
    case Shown::kDuration:
      return value < 0 ? "-" + FormatDurationMs(-value) : FormatDurationMs(value);
    case Shown::kText:
    case Shown::kLongText:
    case Shown::kTime:
      break;
  }
  return Text(record, column.field);
}

void ShowParts(const CommandInput& input, const std::vector<JsonDoc>& records,
               std::span<const PartColumn> columns, int64_t now_ms) {
  Table table;
  for (const PartColumn& column : columns) {
    const bool is_text = column.shown == Shown::kText || column.shown == Shown::kLongText ||
                         column.shown == Shown::kTime;
    table.columns.push_back({.title = column.title,
                             .is_right_aligned = !is_text,
                             .may_be_cut = column.shown == Shown::kLongText});
  }
  for (const JsonDoc& record : records) {
    std::vector<std::string>& row = table.rows.emplace_back();
    for (const PartColumn& column : columns)
      row.push_back(Cell(record, column, input.out.style(), now_ms));
  }
  input.out.Line();
  input.out.Text(RenderTable(table, input.out.style()));
}

// What --details says of the job itself.
void ShowJob(const CommandInput& input, const JobView& view, const JobFacts& facts) {
  const clickhouse::RewriteJobSpec& job = facts.spec;
  if (!view.job.name.empty()) input.out.Line("name: " + Printable(view.job.name));
  if (!job.source_table.empty()) {
    input.out.Line(fmt::format("tables: {}.{} → {}.{}\nschema: {}", Printable(job.source_database),
                               Printable(job.source_table), Printable(job.destination_database),
                               Printable(job.destination_table), facts.schema_fingerprint));
  }
  input.out.Line(view.tasks_expected < 0
                     ? std::string("upload: not ended")
                     : fmt::format("upload: ended {}, {} parts", FormatTime(view.sealed_at_ms),
                                   FormatCount(view.tasks_expected)));
  for (const Commit& commit : view.live_commits) {
    input.out.Line(fmt::format("commit: {} {} epoch {} of {}", commit.id,
                               CommitStateName(commit.state), commit.epoch,
                               Printable(commit.owner)));
  }
}

Status Run(const CommandInput& input) {
  PF_ASSIGN(const std::unique_ptr<SqlJobStore> state, OpenState(input, SchemaUse::kRead));
  const std::string job = input.options.String("job-id");
  PF_ASSIGN(const JobView view, state->View(input.ctx, job));
  const JobNumbers numbers = NumbersOf(view);
  const bool has_flow = view.job.kind == clickhouse::kRewriteKind;
  JobFacts facts;
  if (has_flow) {
    PF_ASSIGN(facts, FactsOf(view));
  }

  JsonDoc failed = JsonDoc::array(), stages = JsonDoc::array();
  Table failed_table{{{.title = "PART_ID"},
                      {.title = "CLASS"},
                      {.title = "UPDATED_AT"},
                      {.title = "ERROR", .is_right_aligned = false, .may_be_cut = true}},
                     {}};
  PF_TRY(ForEachTaskIn(input.ctx, *state, job, TaskState::kFailed, [&](const Task& task) -> Status {
    PF_ASSIGN(const JsonDoc record, RecordOf(input.ctx, *state, view, facts, task));
    failed.push_back(JsonDoc{{"part_id", task.id},
                             {"status", "FAILED"},
                             {"updated_at", TimeOrNull(task.updated_at_ms)},
                             {"failure_class", task.failure_class},
                             {"error", record["error"]}});
    failed_table.rows.push_back({task.id, task.failure_class,
                                 WhenText(input.out.style(), task.updated_at_ms, view.now_ms),
                                 Text(record, "error")});
    return {};
  }));
  std::map<std::string, int64_t> stage_counts;
  PF_TRY(ForEachTaskIn(input.ctx, *state, job, TaskState::kInProgress,
                       [&](const Task& task) -> Status {
                         PF_ASSIGN(const std::vector<AttemptView> attempts,
                                   state->Attempts(input.ctx, job, task.id));
                         for (const AttemptView& attempt : attempts) {
                           if (attempt.epoch == task.epoch)
                             ++stage_counts[attempt.stage.empty() ? "claimed" : attempt.stage];
                         }
                         return {};
                       }));
  for (const auto& [stage, count] : stage_counts)
    stages.push_back(JsonDoc{{"stage", stage}, {"count", count}});
  JsonDoc counts = JsonDoc::object();
  for (const TaskState one : AllTaskStates())
    counts[std::string(TaskStateName(one))] = CountIn(view, one);
  JsonDoc commits = JsonDoc::array();
  for (const Commit& commit : view.live_commits) {
    commits.push_back(JsonDoc{{"commit_id", commit.id},
                              {"state", std::string(CommitStateName(commit.state))},
                              {"epoch", commit.epoch},
                              {"owner", commit.owner},
                              {"in_doubt", commit.in_doubt},
                              {"decided_at", TimeOrNull(commit.decided_at_ms)}});
  }
  RowFlow flow;
  if (has_flow) {
    PF_ASSIGN(flow, FlowOf(input.ctx, *state, view));
  }
  JsonDoc summary{{"job_id", job},
                  {"name", view.job.name},
                  {"status", numbers.status},
                  {"total", numbers.total},
                  {"counts", counts},
                  {"in_progress_stages", stages},
                  {"rewrite_completed", numbers.rewritten},
                  {"rewrite_percent", numbers.rewrite_percent},
                  {"import_completed", numbers.imported},
                  {"import_percent", numbers.import_percent},
                  {"input_clickhouse_parts", numbers.source_parts},
                  {"current_output_clickhouse_parts", numbers.parts_out},
                  {"read_rows", flow.rows_in},
                  {"read_bytes", flow.bytes_in},
                  {"written_rows", numbers.rows_out},
                  {"written_bytes", flow.bytes_out},
                  {"source_bytes", numbers.bytes},
                  {"sealed", view.tasks_expected >= 0},
                  {"sealed_at", TimeOrNull(view.sealed_at_ms)},
                  {"expected_parts", view.tasks_expected},
                  {"paused", view.is_paused},
                  {"failed_parts", failed},
                  {"live_commits", commits},
                  {"now", TimeOrNull(view.now_ms)}};

  if (has_flow) {
    summary["source"] = facts.spec.source_database + "." + facts.spec.source_table;
    summary["destination"] = facts.spec.destination_database + "." + facts.spec.destination_table;
    summary["schema_fingerprint"] = facts.schema_fingerprint;
    flow.AppendTo(summary);
  }
  const bool wants_parts = input.options.Bool("parts") || input.options.Bool("details");
  std::vector<JsonDoc> records;
  if (wants_parts) {
    for (const TaskState one : AllTaskStates()) {
      if (one == TaskState::kSuperseded && !input.options.Bool("all")) continue;
      PF_TRY(ForEachTaskIn(input.ctx, *state, job, one, [&](const Task& task) -> Status {
        PF_ASSIGN(JsonDoc record, RecordOf(input.ctx, *state, view, facts, task));
        records.push_back(std::move(record));
        return {};
      }));
    }
  }
  input.out.Line(fmt::format(
      "job_id: {}\nstatus: {}{}\nparts: {}\nrewrite_complete: {}/{} {:.1f}%\nimport_complete: "
      "{}/{} {:.1f}%\ninput_clickhouse_parts: {}\ncurrent_output_clickhouse_parts: {}\n"
      "read: {} rows {}\nwritten: {} rows {}",
      job, numbers.status, view.is_paused ? " (paused)" : "", numbers.total, numbers.rewritten,
      numbers.total, numbers.rewrite_percent, numbers.imported, numbers.total,
      numbers.import_percent, numbers.source_parts, numbers.parts_out, FormatCount(flow.rows_in),
      FormatBytes(flow.bytes_in), FormatCount(numbers.rows_out), FormatBytes(flow.bytes_out)));
  input.out.Answer(numbers.status);
  if (input.options.Bool("details")) ShowJob(input, view, facts);
  if (has_flow) input.out.Line("rows: " + flow.Text());
  if (flow.parts > 0) input.out.Line("tiers: " + TextOf(flow.tiers));
  Table states{{{.title = "STATE"}, {.title = "COUNT", .is_right_aligned = true}}, {}};
  for (const TaskState one : AllTaskStates())
    states.rows.push_back({std::string(TaskStateName(one)), FormatCount(CountIn(view, one))});
  input.out.Line();
  input.out.Text(RenderTable(states, input.out.style()));
  if (!stage_counts.empty()) {
    Table stage_table{
        {{.title = "IN_PROGRESS STAGES"}, {.title = "COUNT", .is_right_aligned = true}}, {}};
    for (const auto& [stage, count] : stage_counts)
      stage_table.rows.push_back({stage, FormatCount(count)});
    input.out.Line();
    input.out.Text(RenderTable(stage_table, input.out.style()));
  }
  if (!failed_table.rows.empty()) {
    input.out.Line("\nFAILED PARTS");
    input.out.Text(RenderTable(failed_table, input.out.style()));
  }
  for (const Commit& commit : view.live_commits) {
    if (!commit.in_doubt.empty())
      input.out.Line(fmt::format("\nIN DOUBT {}: {}", commit.id, Printable(commit.in_doubt)));
  }
  if (wants_parts) {
    ShowParts(input, records,
              input.options.Bool("details") ? std::span<const PartColumn>(kDetailColumns)
                                            : std::span<const PartColumn>(kPartColumns),
              view.now_ms);
  }
  JsonDoc document{{"summary", summary}};
  if (wants_parts) document["parts"] = records;
  input.out.Document("job-status", document);
  return {};
}

}  // namespace

Command JobStatusCommand() {
  return {{.name = "job-status",
           .purpose = "Shows how far a job is, what failed and why.",
           .arguments = "",
           .arguments_min = 0,
           .arguments_max = 0,
           .examples = {"partforge job-status --job-id=job-5f0e11aa22bb33cc",
                        "partforge job-status --job-id=job-5f0e11aa22bb33cc --parts --json"},
           .options = Join({{{.name = "job-id", .help = "job", .is_required = true},
                             {.name = "parts",
                              .type = OptionType::kBool,
                              .default_text = "false",
                              .help = "one line a part",
                              .group = "Output"},
                             DetailsOption("stages, workers, tiers and errors of each part; "
                                           "times instead of ages"),
                             {.name = "all",
                              .type = OptionType::kBool,
                              .default_text = "false",
                              .help = "superseded parts too",
                              .group = "Output"}},
                            StateOptions()}),
           .related = {"list-jobs", "events", "retry-failed"}},
          Run};
}

}  // namespace partforge::app
