#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "app/commands.h"
#include "app/job_records.h"
#include "app/option_groups.h"
#include "app/wire.h"
#include "base/units.h"
#include "clickhouse/rewrite_job.h"

namespace partforge::app {
namespace {

constexpr int64_t kPageTasks = 1000;

using Visit = std::function<Status(const Task&)>;
Status ForEachTask(const CommandInput& input, SqlJobStore& state, const std::string& job,
                   TaskState wanted, const Visit& visit) {
  std::string after;
  while (true) {
    PF_ASSIGN(const TaskPage page, state.Page(input.ctx, job, wanted, after, kPageTasks));
    for (const Task& task : page.tasks) PF_TRY(visit(task));
    if (!page.next) return {};
    after = *page.next;
  }
}

std::string Text(const JsonDoc& record, const char* key) {
  const auto it = record.find(key);
  if (it == record.end() || it->is_null()) return "";
  return it->is_string() ? it->get<std::string>() : it->dump();
}

void ShowParts(const CommandInput& input, const std::vector<JsonDoc>& records, bool is_detailed) {
  Table table;
  if (is_detailed) {
    table.columns = {{.title = "PART_ID"},
                     {.title = "STATUS"},
                     {.title = "ATTEMPTS", .is_right_aligned = true},
                     {.title = "WORKER", .is_right_aligned = false, .may_be_cut = true},
                     {.title = "STAGE"},
                     {.title = "TIER"},
                     {.title = "PROGRESS_AT"},
                     {.title = "UPDATED_AT"},
                     {.title = "STAGE_DURATIONS", .is_right_aligned = false, .may_be_cut = true},
                     {.title = "EPOCH", .is_right_aligned = true},
                     {.title = "LEASE_UNTIL"},
                     {.title = "CLASS"},
                     {.title = "ERROR", .is_right_aligned = false, .may_be_cut = true}};
  } else {
    table.columns = {{.title = "PART_ID"},
                     {.title = "STATUS"},
                     {.title = "ATTEMPTS", .is_right_aligned = true},
                     {.title = "WORKER", .is_right_aligned = false, .may_be_cut = true},
                     {.title = "READ_ROWS", .is_right_aligned = true},
                     {.title = "WRITTEN_ROWS", .is_right_aligned = true},
                     {.title = "WRITTEN_SIZE", .is_right_aligned = true},
                     {.title = "SOURCE_ROWS", .is_right_aligned = true},
                     {.title = "SOURCE_SIZE", .is_right_aligned = true},
                     {.title = "DEST_ROWS", .is_right_aligned = true},
                     {.title = "OUTPUT_CH_PARTS", .is_right_aligned = true},
                     {.title = "PARTITIONS", .is_right_aligned = true},
                     {.title = "PROGRESS_AT"},
                     {.title = "UPDATED_AT"},
                     {.title = "ERROR", .is_right_aligned = false, .may_be_cut = true}};
  }
  for (const JsonDoc& record : records) {
    if (is_detailed) {
      table.rows.push_back(
          {Text(record, "part_id"), Text(record, "status"), Text(record, "attempts"),
           Text(record, "worker_id"), Text(record, "rewrite_stage"), Text(record, "tier"),
           Text(record, "progress_updated_at"), Text(record, "updated_at"),
           Text(record, "rewrite_stage_durations_ms"), Text(record, "epoch"),
           Text(record, "lease_expires_at"), Text(record, "failure_class"), Text(record, "error")});
    } else {
      table.rows.push_back(
          {Text(record, "part_id"), Text(record, "status"), Text(record, "attempts"),
           Text(record, "worker_id"), Text(record, "read_rows"), Text(record, "written_rows"),
           FormatBytes(record.value("destination_active_part_bytes", int64_t{0})),
           Text(record, "source_rows"),
           FormatBytes(record.value("source_artifact_bytes", int64_t{0})),
           Text(record, "destination_active_part_rows"),
           Text(record, "destination_active_part_count"), Text(record, "partitions"),
           Text(record, "progress_updated_at"), Text(record, "updated_at"), Text(record, "error")});
    }
  }
  input.out.Line();
  input.out.Text(RenderTable(table, input.out.style()));
}

Status Run(const CommandInput& input) {
  PF_ASSIGN(const std::unique_ptr<SqlJobStore> state, OpenState(input, SchemaUse::kRead));
  const std::string job = input.options.String("job-id");
  PF_ASSIGN(const JobView view, state->View(input.ctx, job));
  const JobNumbers numbers = NumbersOf(view);

  JsonDoc failed = JsonDoc::array(), stages = JsonDoc::array();
  Table failed_table{{{.title = "PART_ID"},
                      {.title = "CLASS"},
                      {.title = "UPDATED_AT"},
                      {.title = "ERROR", .is_right_aligned = false, .may_be_cut = true}},
                     {}};
  PF_TRY(ForEachTask(input, *state, job, TaskState::kFailed, [&](const Task& task) -> Status {
    PF_ASSIGN(const JsonDoc record, RecordOf(input.ctx, *state, view, task));
    failed.push_back(JsonDoc{{"part_id", task.id},
                             {"status", "FAILED"},
                             {"updated_at", TimeOrNull(task.updated_at_ms)},
                             {"failure_class", task.failure_class},
                             {"error", record["error"]}});
    failed_table.rows.push_back(
        {task.id, task.failure_class, FormatTime(task.updated_at_ms), Text(record, "error")});
    return {};
  }));
  std::map<std::string, int64_t> stage_counts;
  PF_TRY(ForEachTask(input, *state, job, TaskState::kInProgress, [&](const Task& task) -> Status {
    PF_ASSIGN(const std::vector<AttemptView> attempts, state->Attempts(input.ctx, job, task.id));
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
  const bool has_flow = view.job.kind == clickhouse::kRewriteKind;
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
                  {"input_clickhouse_parts", numbers.total},
                  {"current_output_clickhouse_parts", numbers.parts_out},
                  {"read_rows", flow.rows_in},
                  {"read_bytes", flow.bytes_in},
                  {"written_rows", numbers.rows_out},
                  {"written_bytes", flow.bytes_out},
                  {"source_bytes", numbers.bytes},
                  {"sealed", view.tasks_expected >= 0},
                  {"expected_parts", view.tasks_expected},
                  {"paused", view.is_paused},
                  {"failed_parts", failed},
                  {"live_commits", commits},
                  {"now", TimeOrNull(view.now_ms)}};

  if (has_flow) {
    summary["rows_in"] = flow.rows_in;
    summary["rows_filtered"] = flow.filtered;
    summary["rows_expired"] = flow.expired;
    summary["rows_merged"] = flow.merged;
    summary["rows_conserved"] = flow.is_conserved;
  }
  const bool wants_parts = input.options.Bool("parts") || input.options.Bool("details");
  std::vector<JsonDoc> records;
  if (wants_parts) {
    for (const TaskState one : AllTaskStates()) {
      if (one == TaskState::kSuperseded && !input.options.Bool("all")) continue;
      PF_TRY(ForEachTask(input, *state, job, one, [&](const Task& task) -> Status {
        PF_ASSIGN(JsonDoc record, RecordOf(input.ctx, *state, view, task));
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
      numbers.import_percent, numbers.total, numbers.parts_out, FormatCount(flow.rows_in),
      FormatBytes(flow.bytes_in), FormatCount(numbers.rows_out), FormatBytes(flow.bytes_out)));
  if (has_flow) input.out.Line("rows: " + flow.Text());
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
  if (wants_parts) ShowParts(input, records, input.options.Bool("details"));
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
                             {.name = "details",
                              .type = OptionType::kBool,
                              .default_text = "false",
                              .help = "stages, workers, tiers and errors of each part",
                              .group = "Output"},
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
