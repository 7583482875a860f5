#include "app/job_records.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/units.h"
#include "clickhouse/ddl.h"
#include "clickhouse/rewrite_check.h"
#include "clickhouse/rewrite_job.h"
#include "job/each_task.h"
#include "job/failure.h"

namespace partforge::app {
namespace {

constexpr int64_t kPageEvents = 1000;
constexpr int kSomeFailed = 2149;

double Percent(int64_t part, int64_t whole) {
  return whole == 0 ? 0.0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

std::string OverallStatus(const JobView& view, int64_t total) {
  const auto count = [&](TaskState state) { return CountIn(view, state); };
  const int64_t imported = count(TaskState::kImported), superseded = count(TaskState::kSuperseded),
                importing = count(TaskState::kImporting), finished = count(TaskState::kFinished);
  if (view.state == "ABORTED" || view.state == "ABORTING") return view.state;
  if (total + superseded == 0) return "EMPTY";
  if (count(TaskState::kFailed) > 0) return "FAILED";
  const bool is_sealed = view.state == "SEALED";
  if (is_sealed && imported + superseded == total + superseded) return "IMPORTED";
  if (importing > 0) return "IMPORTING";
  if (is_sealed && finished + importing + imported == total) return "READY_FOR_IMPORT";
  if (count(TaskState::kCompacting) + count(TaskState::kCompactReady) > 0) return "COMPACTING";
  if (count(TaskState::kInProgress) > 0) return "REWRITING";
  return "READY";
}

// Why the task was handed back last: its events, newest last.
Result<std::string> LastRelease(const Context& ctx, StateReader& state, const Task& task) {
  std::string error;
  int64_t after = 0;
  while (true) {
    PF_ASSIGN(const std::vector<EventView> events,
              state.Events(ctx, task.job, task.id, after, kPageEvents));
    for (const EventView& event : events) {
      after = event.seq;
      if (event.event != "released") continue;
      const Result<JsonDoc> detail = ParseJson(event.detail);
      if (!detail.ok() || !detail->is_object()) continue;
      error = detail->value("error", std::string());
    }
    if (std::ssize(events) < kPageEvents) return error;
  }
}

}  // namespace

std::vector<TaskState> AllTaskStates() {
  return {TaskState::kReady,      TaskState::kInProgress, TaskState::kCompactReady,
          TaskState::kCompacting, TaskState::kSuperseded, TaskState::kFinished,
          TaskState::kImporting,  TaskState::kImported,   TaskState::kFailed};
}

int64_t CountIn(const JobView& view, TaskState state) {
  for (const StateCount& count : view.counts) {
    if (count.state == state) return count.tasks;
  }
  return 0;
}

Status NotConserved(const RowFlow& flow, const JobId& job) {
  return Status(Code::kCorruption, "rows of the source and of the new parts differ: " + flow.Text())
      .Explain(2137, job,
               fmt::format("nothing was published; partforge verify {} --level=rows", job));
}

Status CheckNotPaused(const JobView& view) {
  const int64_t waiting =
      CountIn(view, TaskState::kReady) + CountIn(view, TaskState::kCompactReady);
  if (!view.is_paused || waiting == 0) return {};
  return Status(Code::kRefused, fmt::format("{} parts wait, {} have failed", waiting,
                                            CountIn(view, TaskState::kFailed)))
      .Explain(
          2143, view.job.id,
          fmt::format("partforge job-status --job-id={0}   shows the error; correct the SQL in "
                      "a new job, or resume: partforge retry-failed --job-id={0} --all",
                      view.job.id));
}

Status FailedParts(int64_t count, const Status& recorded, std::string where,
                   std::string what_to_do) {
  const int number = recorded.ok() ? 0 : recorded.explanation().pf_number;
  std::string message = fmt::format("{} part{} failed", count, count == 1 ? "" : "s");
  if (!recorded.ok()) message += ", one of them: " + recorded.message();
  return Status(Code::kInternal, std::move(message))
      .Explain(number == 0 ? kSomeFailed : number, std::move(where), std::move(what_to_do));
}

Status FirstFailure(const Context& ctx, StateReader& state, const JobId& job) {
  PF_ASSIGN(const TaskPage page, state.Page(ctx, job, TaskState::kFailed, "", 1));
  if (page.tasks.empty()) return {};
  const Task& task = page.tasks.front();
  PF_ASSIGN(const auto part, clickhouse::RewriteTaskSpec::FromJson(task.payload));
  return RecordedStatus(part.error, task.failure_class);
}

JobNumbers NumbersOf(const JobView& view) {
  JobNumbers numbers;
  for (const StateCount& count : view.counts) {
    if (count.state == TaskState::kSuperseded) continue;
    numbers.total += count.tasks;
    numbers.bytes += count.bytes;
    if (!HasOutput(count.state)) continue;
    numbers.rewritten += count.tasks;
    numbers.bytes_rewritten += count.bytes;
    numbers.rows_out += count.rows;
    numbers.parts_out += count.parts;
    if (count.state == TaskState::kImported) numbers.imported += count.tasks;
  }
  numbers.status = OverallStatus(view, numbers.total);
  numbers.rewrite_percent = Percent(numbers.rewritten, numbers.total);
  numbers.import_percent = Percent(numbers.imported, numbers.total);
  return numbers;
}

std::string RowFlow::Text() const {
  std::string text = fmt::format("{} in = {} out + {} filtered", FormatCount(rows_in),
                                 FormatCount(rows_out), FormatCount(filtered));
  if (expired != 0) text += fmt::format(" + {} expired", FormatCount(expired));
  if (merged != 0) text += fmt::format(" + {} merged", FormatCount(merged));
  return text + (is_conserved ? " ✓" : " ✗ NOT CONSERVED");
}

Result<RowFlow> FlowOf(const Context& ctx, StateReader& state, const JobView& view) {
  PF_ASSIGN(const clickhouse::RewriteJobSpec job,
            clickhouse::RewriteJobSpec::FromJson(view.job.spec));
  PF_ASSIGN(const clickhouse::CreateTable destination,
            clickhouse::ParseCreateTable(job.destination_schema));
  RowFlow flow;
  int64_t written = 0, counted = 0;  // counted: by the tasks
  // Tasks move while they are read, for example from FINISHED to IMPORTING: one that was missed
  // would look like lost rows.
  PF_TRY(ForEachTask(ctx, state, view.job.id, [&](const Task& task) -> Status {
    if (!HasOutput(task.state)) return {};
    counted += task.rows_out;
    PF_ASSIGN(const std::vector<AttemptView> attempts, state.Attempts(ctx, task.job, task.id));
    for (const AttemptView& attempt : attempts) {
      if (task.winner == 0 || attempt.epoch != task.winner) continue;
      PF_ASSIGN(const clickhouse::RewriteOutput output,
                clickhouse::RewriteOutput::FromJson(attempt.result));
      flow.rows_in += output.source_rows_visible;
      flow.rows_out += output.rows_out;
      flow.bytes_in += task.size_bytes;
      flow.bytes_out += output.bytes_out;
      flow.expired += output.rows_expired;
      written += output.rows_written;
    }
    return {};
  }));
  flow.filtered = flow.rows_in - written;
  flow.merged = written - flow.expired - flow.rows_out;
  const bool may_merge = clickhouse::IsCollapsingEngine(destination.engine);
  flow.is_conserved = counted == flow.rows_out && (may_merge ? flow.merged >= 0 : flow.merged == 0);
  return flow;
}

JsonDoc StatusCounts(const JobView& view) {
  JsonDoc list = JsonDoc::array();
  for (const TaskState state : AllTaskStates()) {
    const int64_t count = CountIn(view, state);
    if (count > 0)
      list.push_back(JsonDoc{{"status", std::string(TaskStateName(state))}, {"count", count}});
  }
  return list;
}

JsonDoc TimeOrNull(int64_t unix_ms) {
  if (unix_ms == 0) return nullptr;
  return FormatTime(unix_ms);
}

Result<JsonDoc> RecordOf(const Context& ctx, StateReader& state, const JobView& view,
                         const Task& task) {
  PF_ASSIGN(const clickhouse::RewriteJobSpec job,
            clickhouse::RewriteJobSpec::FromJson(view.job.spec));
  PF_ASSIGN(const clickhouse::RewriteTaskSpec part,
            clickhouse::RewriteTaskSpec::FromJson(task.payload));
  PF_ASSIGN(const std::vector<AttemptView> attempts, state.Attempts(ctx, task.job, task.id));
  JsonDoc record{{"job_id", task.job},
                 {"job_name", view.job.name},
                 {"part_id", task.id},
                 {"status", std::string(TaskStateName(task.state))},
                 {"bucket", job.bucket},
                 {"source_key", part.source_key},
                 {"finished_key", part.finished_key},
                 {"part_name", part.part_name},
                 {"disk", part.disk},
                 {"relative_path", part.relative_path},
                 {"created_at", TimeOrNull(task.created_at_ms)},
                 {"updated_at", TimeOrNull(task.updated_at_ms)},
                 {"started_at", TimeOrNull(task.started_at_ms)},
                 {"attempts", task.attempts},
                 {"crash_count", task.crashes},
                 {"epoch", task.epoch},
                 {"source_artifact_bytes", task.size_bytes},
                 {"source_rows", part.rows},
                 {"destination_database", job.destination_database},
                 {"destination_table", job.destination_table},
                 {"destination_active_part_count", task.parts_out},
                 {"destination_active_part_rows", task.rows_out},
                 {"destination_active_part_bytes", task.bytes_out},
                 {"failure_class", task.failure_class},
                 {"failure_code", task.failure_code},
                 {"error", part.error}};
  if (!task.source_job.empty()) {
    record["source_job_id"] = task.source_job;
    record["source_part_id"] = task.source_task;
  }
  if (!task.superseded_by.empty()) record["superseded_by"] = task.superseded_by;
  if (task.generation > 0) record["compact_generation"] = task.generation;
  if (!task.commit.empty()) record["commit_id"] = task.commit;
  if (part.error.empty() && !task.failure_class.empty() && task.state != TaskState::kFailed) {
    PF_ASSIGN(record["error"], LastRelease(ctx, state, task));
  }
  for (const AttemptView& attempt : attempts) {
    if (attempt.epoch == task.epoch) {
      record["worker_id"] = attempt.owner;
      record["rewrite_stage"] = attempt.stage;
      record["progress_updated_at"] = TimeOrNull(attempt.progress_at_ms);
      record["insert_progress_percent"] = attempt.fraction * 100;
      record["read_rows"] = attempt.rows_done;
      if (attempt.state == "OPEN") record["lease_expires_at"] = TimeOrNull(attempt.lease_until_ms);
    }
    if (task.winner == 0 || attempt.epoch != task.winner) continue;
    PF_ASSIGN(const clickhouse::RewriteOutput output,
              clickhouse::RewriteOutput::FromJson(attempt.result));
    record["finished_key"] = output.finished_key;
    record["meta_key"] = output.meta_key;
    record["meta_sha256"] = output.meta_sha256;
    record["empty_output"] = output.is_empty;
    record["finished_at"] = TimeOrNull(attempt.ended_at_ms);
    record["source_parts"] = output.source_parts;
    record["tier"] = output.tier;
    record["tier_reason"] = output.tier_reason;
    record["read_rows"] = output.source_rows_visible;
    record["written_rows"] = output.rows_written;
    record["rewrite_stage_durations_ms"] = JsonDoc(output.stage_ms);
    record["destination_active_partition_counts"] = JsonDoc(output.partition_parts);
    record["partitions"] = output.partition_parts.size();
    record["insert_attempts"] = output.insert_attempts;
    record["chunks"] = output.chunks;
    record["peak_memory_bytes"] = output.peak_memory_bytes;
  }
  return record;
}

}  // namespace partforge::app
