#include "clickhouse/import_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "clickhouse/ddl.h"
#include "clickhouse/job_sql.h"
#include "clickhouse/local_tables.h"
#include "clickhouse/part_name.h"
#include "clickhouse/rewrite_job.h"
#include "engine/sql_text.h"
#include "job/each_task.h"

namespace partforge::clickhouse {
namespace {

bool IsBefore(const ArtifactTask& a, const ArtifactTask& b) {
  return std::tie(a.partition, a.min_block, a.id) < std::tie(b.partition, b.min_block, b.id);
}

Result<ArtifactTask> ArtifactTaskOf(const Task& task, const RewriteJobSpec& job) {
  ArtifactTask one{.id = task.id, .partition = {}, .min_block = 0, .winner = task.winner};
  PF_ASSIGN(const RewriteTaskSpec spec, RewriteTaskSpec::FromJson(task.payload));
  const Result<PartName> name = ParsePartName(spec.part_name);
  if (name.ok()) {
    if (!HasOneBlockCount(job)) one.partition = name->partition_id;
    one.min_block = name->min_block;
  }
  return one;
}

struct PublishedRows {
  int64_t confirmed = 0, sent = 0;  // sent: attached or not, the target knows
  int64_t elsewhere = 0;            // artifacts published into another table
  std::string other_target;         // one of those tables
};
// What this job has put into this very table.
Result<PublishedRows> CountPublished(const Context& ctx, JobStore& state,
                                     const ImportTarget& target, const std::string& job_id) {
  PublishedRows rows;
  const auto add_rows = [&](const Task& task) -> Status {
    if (task.state != TaskState::kImported && task.state != TaskState::kImporting) return {};
    if (task.commit.empty()) return {};
    PF_ASSIGN(const Commit commit, state.GetCommit(ctx, task.commit));
    if (commit.target != target.key()) {
      // A commit that is still under way is recovered, and finds the other table itself.
      if (task.state == TaskState::kImported) ++rows.elsewhere;
      rows.other_target = commit.target;
      return {};
    }
    PF_ASSIGN(const std::vector<Piece> pieces, state.Pieces(ctx, task.commit));
    for (const Piece& piece : pieces) {
      if (piece.state == PieceState::kConfirmed) rows.confirmed += piece.rows;
      if (piece.state == PieceState::kSent) rows.sent += piece.rows;
    }
    return {};
  };
  PF_TRY(ForEachTask(ctx, state, job_id, add_rows));
  return rows;
}

}  // namespace

Result<bool> KeepsEveryRow(const ImportTarget& target) {
  if (target.engine != "MergeTree") return false;
  PF_ASSIGN(const CreateTable create, ParseCreateTable(target.create_sql));
  return create.ttl.empty();
}

bool HasOneBlockCount(const RewriteJobSpec& job) {
  const Result<CreateTable> source = ParseCreateTable(job.source_schema);
  return source.ok() && !source->engine.starts_with("Replicated") &&
         !source->engine.starts_with("Shared");
}

int64_t CountOf(const JobView& view, TaskState state) {
  for (const StateCount& count : view.counts) {
    if (count.state == state) return count.tasks;
  }
  return 0;
}

Result<std::vector<ArtifactTask>> ListFinished(const Context& ctx, JobStore& state,
                                               const RewriteJobSpec& job,
                                               const ImportRequest& request) {
  std::vector<ArtifactTask> tasks;
  PF_TRY(ForEachTaskIn(ctx, state, request.job_id, TaskState::kFinished,
                       [&](const Task& task) -> Status {
                         PF_ASSIGN(ArtifactTask one, ArtifactTaskOf(task, job));
                         tasks.push_back(std::move(one));
                         return {};
                       }));
  if (!request.part_id.empty()) {
    std::erase_if(tasks, [&](const ArtifactTask& task) { return task.id != request.part_id; });
  }
  std::sort(tasks.begin(), tasks.end(), &IsBefore);
  return tasks;
}

Status CheckReady(const JobView& view, const ImportRequest& request) {
  if (view.state != "SEALED") {
    return Status(Code::kRefused, "its upload was never completed")
        .Explain(2132, request.job_id,
                 fmt::format("partforge upload-freeze … --job-id={}   resumes it", request.job_id));
  }
  if (!request.part_id.empty() || request.is_partial_allowed) return {};
  const int64_t waiting = CountOf(view, TaskState::kReady) + CountOf(view, TaskState::kInProgress) +
                          CountOf(view, TaskState::kCompactReady) +
                          CountOf(view, TaskState::kCompacting);
  const int64_t failed = CountOf(view, TaskState::kFailed);
  if (waiting == 0 && failed == 0) return {};
  return Status(Code::kRefused,
                fmt::format("{} parts are not finished, {} have failed", waiting, failed))
      .Explain(2132, request.job_id,
               fmt::format("partforge job-status --job-id={}   then workers or retry-failed; "
                           "--partial imports what is finished",
                           request.job_id));
}

Result<int64_t> CountActiveRows(const Context& ctx, Engine& engine, const TableName& table) {
  return QueryInt(
      ctx, engine,
      fmt::format("SELECT ifNull(sum(rows), 0) FROM system.parts WHERE database = {} AND "
                  "table = {} AND active",
                  QuoteString(table.database), QuoteString(table.table)),
      {});
}

Status NotEmpty(const TableName& table, std::string why) {
  return Status(Code::kRefused, std::move(why))
      .Explain(2123, table.ToString(),
               "name an empty table; when an earlier import of this job has filled it, run the "
               "import with the state store that knows it");
}

Status NotFinished(const ImportRequest& request) {
  return Status(Code::kRefused, "the part is not FINISHED")
      .Explain(2131, request.part_id,
               fmt::format("partforge job-status --job-id={} --parts", request.job_id));
}

Result<ImportTarget> CheckImport(const Context& ctx, Engine& engine, const ImportRequest& request,
                                 const JobView& view, const RewriteJobSpec& job) {
  PF_TRY(CheckReady(view, request));
  PF_ASSIGN(ImportTarget target, ReadImportTarget(ctx, engine, request.table));
  if (!request.skips_schema_check) PF_TRY(CheckImportSchema(ctx, engine, job, target));
  PF_TRY(CheckReplica(ctx, engine, target));
  return target;
}

Status CheckPublished(const Context& ctx, JobStore& state, Engine& engine,
                      const ImportTarget& target, const ImportRequest& request) {
  PF_ASSIGN(const PublishedRows published, CountPublished(ctx, state, target, request.job_id));
  if (published.elsewhere > 0) {
    return Status(Code::kRefused,
                  fmt::format("{} artifacts of this job went into another table, or into one of "
                              "this name that was dropped since: {}, this is {}",
                              published.elsewhere, published.other_target, target.key()))
        .Explain(2134, target.table.ToString(),
                 "rows are published once: name that table, or bring them into this one by a new "
                 "job (upload-freeze)");
  }
  if (!request.requires_empty) return {};
  PF_ASSIGN(const int64_t rows, CountActiveRows(ctx, engine, target.table));
  PF_ASSIGN(const bool keeps_every_row, KeepsEveryRow(target));
  const bool is_ours = rows <= published.confirmed + published.sent &&
                       (!keeps_every_row || rows >= published.confirmed);
  if (is_ours) return {};
  if (rows <= published.confirmed) {
    return Status(Code::kRefused,
                  fmt::format("it has {} rows, this job has published {}: {} are missing", rows,
                              published.confirmed, published.confirmed - rows))
        .Explain(2137, target.table.ToString(),
                 "rows were removed after the import (TRUNCATE, DELETE, DROP PARTITION); they are "
                 "published once: a new job (upload-freeze) brings them again");
  }
  return NotEmpty(target.table, fmt::format("it has {} rows, this job has published {}", rows,
                                            published.confirmed));
}

Status CheckOrder(const Context& ctx, JobStore& state, const JobView& view,
                  const RewriteJobSpec& job, const ImportRequest& request,
                  const std::vector<ArtifactTask>& chosen) {
  if (chosen.empty()) return {};
  const auto refuse = [&](const std::string& why) {
    return Status(Code::kRefused, why)
        .Explain(2112, request.table.ToString(),
                 "import the whole job when all its parts are finished; --allow-reorder publishes "
                 "in any order");
  };
  if (view.state != "SEALED") return refuse("parts of the job are not uploaded yet");
  std::set<TaskId> chosen_ids;
  for (const ArtifactTask& one : chosen) chosen_ids.insert(one.id);
  return ForEachTask(ctx, state, request.job_id, [&](const Task& task) -> Status {
    if (task.state == TaskState::kImported || task.state == TaskState::kSuperseded) return {};
    PF_ASSIGN(const ArtifactTask other, ArtifactTaskOf(task, job));
    if (chosen_ids.contains(other.id) || !IsBefore(other, chosen.back())) return {};
    return refuse(
        fmt::format("part {} comes earlier and is {}", other.id, TaskStateName(task.state)));
  });
}

Status CheckReplica(const Context& ctx, Engine& engine, const ImportTarget& target) {
  if (!target.is_replicated()) return {};
  PF_ASSIGN(
      const QueryOutcome outcome,
      engine.Query(ctx,
                   fmt::format("SELECT is_readonly, zookeeper_exception FROM "
                               "system.replicas WHERE database = {} AND table = {}",
                               QuoteString(target.table.database), QuoteString(target.table.table)),
                   {}));
  const auto rows = SplitTsv(outcome.text);
  if (!rows.empty() && rows[0].at(0) == "0" && rows[0].at(1).empty()) return {};
  return Status(Code::kUnavailable,
                rows.empty() ? std::string("the replica is not listed in system.replicas")
                             : fmt::format("the replica is read-only: {}", rows[0].at(1)))
      .Explain(7014, target.table.ToString(),
               "look at system.replicas on the server, then run the import again");
}

Status CompareTotals(const Context& ctx, JobStore& state, Engine& engine,
                     const ImportTarget& target, const ImportRequest& request,
                     ImportSummary& summary) {
  PF_ASSIGN(const bool keeps_every_row, KeepsEveryRow(target));
  const bool is_settled = summary.in_doubt.empty() && summary.conflicts.empty();
  if (!request.requires_empty || !keeps_every_row || !is_settled) return {};
  PF_ASSIGN(const PublishedRows published, CountPublished(ctx, state, target, request.job_id));
  if (published.sent > 0) return {};
  PF_ASSIGN(summary.rows_in_table,
            QueryInt(ctx, engine,
                     fmt::format("SELECT count() FROM {}",
                                 QuoteTable(request.table.database, request.table.table)),
                     {}));
  summary.rows_published = published.confirmed;
  return {};
}

}  // namespace partforge::clickhouse
