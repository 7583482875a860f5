#include "app/job_records.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/failure_class.h"
#include "base/hash.h"
#include "base/units.h"
#include "clickhouse/fingerprint.h"
#include "clickhouse/rewrite_job.h"
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
  // Until the upload has ended, what was made of several parts counts beside them.
  numbers.source_parts = view.tasks_expected >= 0
                             ? view.tasks_expected
                             : numbers.total + CountIn(view, TaskState::kSuperseded);
  numbers.status = OverallStatus(view, numbers.total);
  numbers.rewrite_percent = Percent(numbers.rewritten, numbers.total);
  numbers.import_percent = Percent(numbers.imported, numbers.total);
  return numbers;
}

int64_t UpdatedAtMs(const JobView& view) {
  return std::max({view.created_at_ms, view.sealed_at_ms, view.updated_at_ms});
}

JsonDoc EtaSeconds(const JobView& view, const JobNumbers& numbers) {
  if (numbers.total > 0 && numbers.rewritten == numbers.total) return 0;
  const int64_t took_ms = view.now_ms - view.work_started_at_ms;
  if (view.work_started_at_ms == 0 || numbers.bytes_rewritten == 0 || took_ms <= 0) return nullptr;
  const double left = static_cast<double>(numbers.bytes - numbers.bytes_rewritten) /
                      static_cast<double>(numbers.bytes_rewritten);
  return static_cast<int64_t>(left * static_cast<double>(took_ms) / 1000);
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

namespace {

// What the worker wrote last about an attempt, under the names it has there.
void AddProgress(const AttemptView& attempt, int64_t now_ms, JsonDoc& record) {
  record["worker_id"] = attempt.owner;
  record["rewrite_stage"] = attempt.stage;
  record["progress_updated_at"] = TimeOrNull(attempt.progress_at_ms);
  record["insert_progress_percent"] = attempt.fraction * 100;
  record["read_rows"] = attempt.rows_done;
  // The attempt may have been opened after the time of the view was read.
  const int64_t until_ms = attempt.ended_at_ms > 0 ? attempt.ended_at_ms : now_ms;
  record["rewrite_total_elapsed_ms"] = std::max<int64_t>(0, until_ms - attempt.opened_at_ms);
  const Result<JsonDoc> detail = ParseJson(attempt.progress);
  if (detail.ok() && detail->is_object()) {
    for (const char* const field : {"written_rows", "total_rows_approx"}) {
      if (const auto it = detail->find(field); it != detail->end() && it->is_number_integer())
        record[field] = *it;
    }
    if (const auto it = detail->find("rewrite_stage_durations_ms");
        it != detail->end() && it->is_object())
      record["rewrite_stage_durations_ms"] = *it;
    // The store's clock, less what the worker measured since the stage began.
    const auto elapsed = detail->find("rewrite_stage_elapsed_ms");
    if (elapsed != detail->end() && elapsed->is_number_integer() && attempt.progress_at_ms > 0) {
      const int64_t started_ms = attempt.progress_at_ms - elapsed->get<int64_t>();
      record["rewrite_stage_started_at"] = TimeOrNull(started_ms);
      if (attempt.state == "OPEN")
        record["rewrite_stage_elapsed_ms"] = std::max<int64_t>(0, now_ms - started_ms);
    }
  }
  if (attempt.state != "OPEN") return;
  record["lease_owner"] = attempt.owner;
  record["lease_expires_at"] = TimeOrNull(attempt.lease_until_ms);
  record["lease_left_ms"] = attempt.lease_until_ms - now_ms;
}

Status AddOutput(const AttemptView& attempt, const Task& task, JsonDoc& record) {
  PF_ASSIGN(const clickhouse::RewriteOutput output,
            clickhouse::RewriteOutput::FromJson(attempt.result));
  record["artifact_kind"] = "rewrite";
  record["finished_key"] = output.finished_key;
  record["meta_key"] = output.meta_key;
  record["meta_sha256"] = output.meta_sha256;
  record["empty_output"] = output.is_empty;
  record["finished_at"] = TimeOrNull(attempt.ended_at_ms);
  record["source_parts"] = output.source_parts;
  record["source_active_part_count"] = output.source_parts;
  record["tier"] = output.tier;
  record["tier_reason"] = output.tier_reason;
  record["read_rows"] = output.source_rows_visible;
  record["read_bytes"] = task.size_bytes;
  record["written_rows"] = output.rows_written;
  record["written_bytes"] = output.bytes_out;
  record["bytes_decoded"] = output.bytes_decoded;
  record["rewrite_stage_durations_ms"] = JsonDoc(output.stage_ms);
  record["destination_active_partition_counts"] = JsonDoc(output.partition_parts);
  record["partitions"] = output.partition_parts.size();
  record["insert_attempts"] = output.insert_attempts;
  record["chunks"] = output.chunks;
  record["peak_memory_bytes"] = output.peak_memory_bytes;
  return {};
}

Status AddPublication(const Context& ctx, StateReader& state, const Task& task, JsonDoc& record) {
  if (task.state == TaskState::kFailed) record["failed_at"] = TimeOrNull(task.updated_at_ms);
  if (task.commit.empty()) return {};
  PF_ASSIGN(const Commit commit, state.GetCommit(ctx, task.commit));
  record["commit_id"] = task.commit;
  record["importing_at"] = TimeOrNull(commit.decided_at_ms);
  record["imported_at"] = TimeOrNull(commit.published_at_ms);
  return {};
}

}  // namespace

std::string SchemaFingerprintOf(const clickhouse::RewriteJobSpec& job) {
  const auto shape = clickhouse::ParseShape(job.fingerprint);
  return shape.ok() ? "sha256:" + Sha256Hex(clickhouse::FormatShape(*shape)) : std::string();
}

Result<JobFacts> FactsOf(const JobView& view) {
  JobFacts facts;
  PF_ASSIGN(facts.spec, clickhouse::RewriteJobSpec::FromJson(view.job.spec));
  facts.schema_fingerprint = SchemaFingerprintOf(facts.spec);
  return facts;
}

Result<JsonDoc> RecordOf(const Context& ctx, StateReader& state, const JobView& view,
                         const JobFacts& facts, const Task& task) {
  const clickhouse::RewriteJobSpec& job = facts.spec;
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
                 {"source_active_part_count", 1},
                 {"source_active_part_rows", part.rows},
                 {"source_active_part_bytes", part.size_bytes},
                 {"total_rows_approx", part.rows},
                 {"destination_database", job.destination_database},
                 {"destination_table", job.destination_table},
                 {"schema_fingerprint", facts.schema_fingerprint},
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
  PF_TRY(AddPublication(ctx, state, task, record));
  if (!task.superseded_by.empty()) record["superseded_by"] = task.superseded_by;
  if (task.generation > 0) record["compact_generation"] = task.generation;
  if (part.error.empty() && !task.failure_class.empty() && task.state != TaskState::kFailed) {
    if (task.failure_class == FailureClassName(FailureClass::kCrash)) {
      record["error"] =
          fmt::format("its worker vanished while it had {} parts together", task.failure_code);
    } else {
      PF_ASSIGN(record["error"], LastRelease(ctx, state, task));
    }
  }
  for (const AttemptView& attempt : attempts) {
    if (attempt.epoch == task.epoch) AddProgress(attempt, view.now_ms, record);
    if (task.winner != 0 && attempt.epoch == task.winner) PF_TRY(AddOutput(attempt, task, record));
  }
  return record;
}

}  // namespace partforge::app
