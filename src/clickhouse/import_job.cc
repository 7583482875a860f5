#include "clickhouse/import_job.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>
#include <tuple>

#include "base/failure_class.h"
#include "base/json.h"
#include "base/parallel_for.h"
#include "base/units.h"
#include "clickhouse/fingerprint.h"
#include "clickhouse/job_sql.h"
#include "clickhouse/local_tables.h"
#include "clickhouse/part_name.h"
#include "clickhouse/source_checks.h"
#include "clickhouse/time_zone.h"
#include "engine/sql_text.h"
#include "job/failure.h"
#include "job/publisher.h"

namespace partforge::clickhouse {
namespace {

constexpr int64_t kPageTasks = 1000;
constexpr int64_t kLockPollMs = 1000;

int64_t CountOf(const JobView& view, TaskState state) {
  for (const StateCount& count : view.counts) {
    if (count.state == state) return count.tasks;
  }
  return 0;
}

// The @import lock for the length of the command: taken, renewed by a thread, given back.
// Correctness does not rest on it.
class ImportLock {
 public:
  static Result<std::unique_ptr<ImportLock>> Take(const Context& ctx, JobStore& state,
                                                  const ImportRequest& request,
                                                  const std::string& target) {
    const LockWish wish{
        .target = target, .scope = "@import", .is_exclusive = true, .lease_ms = request.lease_ms};
    const int64_t started_ms = MonotonicMs();
    while (true) {
      const Status locked = state.Lock(ctx, request.job_id, request.owner, wish);
      if (locked.ok()) break;
      if (locked.code() != Code::kConflict) return locked;
      if (MonotonicMs() - started_ms >= request.wait_lock_ms) {
        return Status(locked).Explain(
            2135, request.table.ToString(),
            "run the command again when the other import has ended, or use --wait=10m");
      }
      ctx.clock.SleepMs(kLockPollMs, ctx.stop);
      PF_TRY(ctx.CheckStop("waiting for another import"));
    }
    return std::unique_ptr<ImportLock>(new ImportLock(ctx, state, request, wish));
  }

  void Release(const Context& ctx) {
    thread_ = {};
    Context unstopped = ctx;
    unstopped.stop = {};
    Ignore(unstopped, state_.Unlock(unstopped, owner_), "its lease runs out by itself");
  }

 private:
  ImportLock(const Context& ctx, JobStore& state, const ImportRequest& request, LockWish wish)
      : state_(state),
        owner_(request.owner),
        thread_([&ctx, &state, job = request.job_id, owner = request.owner,
                 wish](const std::stop_token& stop) {
          Context renewing = ctx;
          renewing.stop = stop;
          while (!stop.stop_requested()) {
            renewing.clock.SleepMs(wish.lease_ms / 3, stop);
            if (!stop.stop_requested())
              Ignore(renewing, state.Lock(renewing, job, owner, wish), "it is renewed again");
          }
        }) {}
  JobStore& state_;
  const std::string owner_;
  std::jthread thread_;
};

struct ArtifactTask {
  TaskId id;
  std::string partition;
  int64_t min_block = 0;
};

bool IsBefore(const ArtifactTask& a, const ArtifactTask& b) {
  return std::tie(a.partition, a.min_block, a.id) < std::tie(b.partition, b.min_block, b.id);
}

// Tasks in one state, in no order.
Result<std::vector<ArtifactTask>> ListTasks(const Context& ctx, JobStore& state,
                                            const std::string& job_id, TaskState wanted) {
  std::vector<ArtifactTask> tasks;
  std::string after;
  while (true) {
    PF_ASSIGN(const TaskPage page, state.Page(ctx, job_id, wanted, after, kPageTasks));
    for (const Task& task : page.tasks) {
      ArtifactTask one{.id = task.id, .partition = {}, .min_block = 0};
      PF_ASSIGN(const RewriteTaskSpec spec, RewriteTaskSpec::FromJson(task.payload));
      const Result<PartName> name = ParsePartName(spec.part_name);
      if (name.ok()) {
        one.partition = name->partition_id;
        one.min_block = name->min_block;
      }
      tasks.push_back(std::move(one));
    }
    if (!page.next) return tasks;
    after = *page.next;
  }
}

// The FINISHED artifacts that are asked for, in the order of the source's blocks, so that
// order-sensitive engines see what the source had.
Result<std::vector<ArtifactTask>> ListFinished(const Context& ctx, JobStore& state,
                                               const ImportRequest& request) {
  PF_ASSIGN(std::vector<ArtifactTask> tasks,
            ListTasks(ctx, state, request.job_id, TaskState::kFinished));
  if (!request.part_id.empty()) {
    std::erase_if(tasks, [&](const ArtifactTask& task) { return task.id != request.part_id; });
  }
  std::sort(tasks.begin(), tasks.end(), &IsBefore);
  return tasks;
}

Status CheckReady(const JobView& view, const ImportRequest& request) {
  if (view.state != "SEALED" && !request.is_partial_allowed) {
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

struct PublishedRows {
  int64_t confirmed = 0, sent = 0;  // sent: attached or not, the target knows
};
// What this job has put into this very table; its commits into other tables do not count.
Result<PublishedRows> CountPublished(const Context& ctx, JobStore& state,
                                     const ImportTarget& target, const std::string& job_id) {
  PublishedRows rows;
  for (const TaskState state_of_task : {TaskState::kImported, TaskState::kImporting}) {
    std::string after;
    while (true) {
      PF_ASSIGN(const TaskPage page, state.Page(ctx, job_id, state_of_task, after, kPageTasks));
      for (const Task& task : page.tasks) {
        if (task.commit.empty()) continue;
        PF_ASSIGN(const Commit commit, state.GetCommit(ctx, task.commit));
        if (commit.target != target.key()) continue;
        PF_ASSIGN(const std::vector<Piece> pieces, state.Pieces(ctx, task.commit));
        for (const Piece& piece : pieces) {
          if (piece.state == PieceState::kConfirmed) rows.confirmed += piece.rows;
          if (piece.state == PieceState::kSent) rows.sent += piece.rows;
        }
      }
      if (!page.next) break;
      after = *page.next;
    }
  }
  return rows;
}

// Whether the table keeps every row that is put into it: no engine that folds rows, no TTL that
// drops them.
Result<bool> KeepsEveryRow(const ImportTarget& target) {
  if (target.engine != "MergeTree") return false;
  PF_ASSIGN(const CreateTable create, ParseCreateTable(target.create_sql));
  return create.ttl.empty();
}

// An import that wants an empty table accepts exactly what this job has put there before; where
// rows may vanish by merges, at most that.
Status CheckEmpty(const Context& ctx, JobStore& state, Engine& engine, const ImportTarget& target,
                  const ImportRequest& request) {
  PF_ASSIGN(
      const int64_t rows,
      QueryInt(ctx, engine,
               fmt::format("SELECT ifNull(sum(rows), 0) FROM system.parts WHERE database = {} AND "
                           "table = {} AND active",
                           QuoteString(target.table.database), QuoteString(target.table.table)),
               {}));
  PF_ASSIGN(const PublishedRows published, CountPublished(ctx, state, target, request.job_id));
  PF_ASSIGN(const bool keeps_every_row, KeepsEveryRow(target));
  const bool is_ours = rows <= published.confirmed + published.sent &&
                       (!keeps_every_row || rows >= published.confirmed);
  if (is_ours) return {};
  return Status(Code::kRefused,
                fmt::format("it has {} rows, this job has published {}", rows, published.confirmed))
      .Explain(2123, target.table.ToString(),
               "name an empty table; --require-empty=false imports beside the rows that are there");
}

// A table whose engine keeps the last of several rows must see the parts in the order of the
// source: nothing may be published before what comes earlier (PF2112).
Status CheckOrder(const Context& ctx, JobStore& state, const JobView& view,
                  const ImportRequest& request, const std::vector<ArtifactTask>& chosen) {
  if (chosen.empty()) return {};
  const auto refuse = [&](const std::string& why) {
    return Status(Code::kRefused, why)
        .Explain(2112, request.table.ToString(),
                 "import the whole job when all its parts are finished; --allow-reorder publishes "
                 "in any order");
  };
  if (view.state != "SEALED") return refuse("parts of the job are not uploaded yet");
  for (const TaskState unpublished :
       {TaskState::kReady, TaskState::kInProgress, TaskState::kCompactReady, TaskState::kCompacting,
        TaskState::kFailed, TaskState::kFinished, TaskState::kImporting}) {
    PF_ASSIGN(const std::vector<ArtifactTask> others,
              ListTasks(ctx, state, request.job_id, unpublished));
    for (const ArtifactTask& other : others) {
      const bool is_chosen =
          std::any_of(chosen.begin(), chosen.end(),
                      [&](const ArtifactTask& one) { return one.id == other.id; });
      if (is_chosen || !IsBefore(other, chosen.back())) continue;
      return refuse(
          fmt::format("part {} comes earlier and is {}", other.id, TaskStateName(unpublished)));
    }
  }
  return {};
}

// Parts cannot be attached to a replica that has lost its keeper.
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

// The message in an aborted commit's evidence.
std::string AbortReason(const Commit& commit) {
  const Result<JsonDoc> evidence = ParseJson(commit.evidence);
  if (!evidence.ok() || !evidence->is_object()) return commit.evidence;
  JsonReader reader(*evidence, "evidence");
  const Result<std::string> error = reader.StringOr("error", "taken back before it was placed");
  return error.ok() ? *error : commit.evidence;
}

// An artifact whose description is damaged or gone can never be decided: the part fails, so that
// retry-failed makes it again.
void FailPart(const Context& ctx, JobStore& state, const JobId& job, const TaskId& id,
              const Status& why) {
  const Result<Task> task = state.GetTask(ctx, job, id);
  if (!task.ok()) {
    Ignore(ctx, task.status(), "the part stays FINISHED");
    return;
  }
  Settlement settlement;
  TaskEdit& edit = settlement.edits.emplace_back();
  edit.id = id;
  edit.from = TaskState::kFinished;
  edit.epoch = task->epoch;
  edit.to = TaskState::kFailed;
  edit.failure_class = FailureClassName(FailureClass::kData);
  edit.error = RecordedError(why);
  Ignore(ctx, state.Amend(ctx, job, settlement), "the part stays FINISHED");
}

// Fills both totals of the summary, where they can be compared (clickhouse-parts §11.6, last
// paragraph).
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

// What became of a carried commit, for the summary; a failure that stops the whole command is
// returned.
using SettleCarried = std::function<Status(const std::string& part, const Result<Commit>& carried)>;

// Carries one commit that an earlier run left. What was bound to another table is left to an import
// that names that table; what was only decided for one is taken back.
Status Recover(const Context& ctx, JobStore& state, Publisher& publisher,
               const ImportRequest& request, const ImportTarget& target, const Commit& commit,
               const SettleCarried& settle) {
  PF_ASSIGN(const Commit known, state.GetCommit(ctx, commit.id));
  const std::string part = known.chosen.empty() ? commit.id : known.chosen.front().task;
  const bool is_over = known.state == CommitState::kPublished ||
                       known.state == CommitState::kCleaned || known.state == CommitState::kAborted;
  if (known.target != target.key()) {
    if (known.state == CommitState::kDecided) {
      const Status abandoned = publisher.Abandon(ctx, commit.id);
      return abandoned.ok() ? abandoned : settle(part, abandoned);
    }
    if (is_over) return {};  // only its litter is there, in the other table's folder
    return settle(
        part, Status(Code::kUnknownOutcome,
                     fmt::format("it is being published into another table: {}", known.target)));
  }
  // The fence of an importer that was killed runs out within its lease; a live one renews it.
  const int64_t started_ms = MonotonicMs();
  Result<Commit> carried = publisher.Carry(ctx, commit.id);
  while (!carried.ok() && carried.status().code() == Code::kConflict &&
         MonotonicMs() - started_ms < request.lease_ms + kLockPollMs) {
    ctx.clock.SleepMs(kLockPollMs, ctx.stop);
    PF_TRY(ctx.CheckStop("waiting for a fence"));
    carried = publisher.Carry(ctx, commit.id);
  }
  // Its outcome was told, and counted, by the run that brought it about.
  if (carried.ok() && is_over) return {};
  return settle(part, carried);
}

}  // namespace

Status CheckImportSchema(const Context& ctx, Engine& engine, const RewriteJobSpec& job,
                         const ImportTarget& target) {
  PF_TRY(CheckTimeZone(ctx, engine, job, target.table));
  PF_ASSIGN(const SchemaShape artifact, ParseShape(job.fingerprint));
  PF_ASSIGN(const Fingerprint live, FingerprintOfTable(ctx, engine, target.create_sql));
  PF_TRY(CompareShapes(artifact, live.shape, target.table.ToString()));
  PF_ASSIGN(const CreateTable written, ParseCreateTable(job.destination_schema));
  PF_ASSIGN(const CreateTable present, ParseCreateTable(target.create_sql));
  PF_ASSIGN(const std::vector<std::string> written_ttl, FormattedTtl(ctx, engine, written));
  PF_ASSIGN(const std::vector<std::string> present_ttl, FormattedTtl(ctx, engine, present));
  if (written_ttl == present_ttl) return {};
  // One entry a place that may have a TTL; blank = none there.
  const auto text = [](const std::vector<std::string>& all) {
    std::string joined;
    for (const std::string& one : all) {
      if (!one.empty()) joined += (joined.empty() ? "" : "; ") + one;
    }
    return joined.empty() ? std::string("none") : joined;
  };
  // A part without ttl.txt is safe: the target computes it in its own merges.
  if (text(written_ttl) == "none") return {};
  return Status(Code::kRefused, fmt::format("parts were written under TTL {}, the table has {}",
                                            text(written_ttl), text(present_ttl)))
      .Explain(2111, target.table.ToString(),
               "ALTER TABLE … MODIFY TTL on the target first, or rebuild the job with the target's "
               "TTL text");
}

Status StatusOf(const ImportSummary& summary) {
  if (!summary.in_doubt.empty()) {
    return Status(
               Code::kUnknownOutcome,
               fmt::format("{} artifacts are in doubt, the first: {}: {}", summary.in_doubt.size(),
                           summary.in_doubt.front().part_id, summary.in_doubt.front().message))
        .Explain(2138, summary.table,
                 fmt::format(
                     "partforge job-status --job-id={} --details   then run the same command again",
                     summary.job_id));
  }
  if (summary.rows_in_table != summary.rows_published) {
    return Status(Code::kCorruption, fmt::format("the table has {} rows, the job has published {}",
                                                 summary.rows_in_table, summary.rows_published))
        .Explain(2137, summary.table,
                 "do not use the table before the difference is explained: somebody else wrote "
                 "to it, or rows were lost");
  }
  if (!summary.ended_early.ok()) return summary.ended_early;
  if (!summary.failed.empty()) {
    const bool is_nothing_done = summary.imported == 0 && summary.already_imported == 0;
    const int first = summary.failed.front().pf_number, number = first != 0 ? first : 2148;
    const std::string message =
        fmt::format("{} artifacts failed, the first: {}: {}", summary.failed.size(),
                    summary.failed.front().part_id, summary.failed.front().message);
    return Status(Code::kInternal, message)
        .Explain(is_nothing_done ? number : 2149, summary.table,
                 fmt::format("partforge retry-failed --job-id={} --all   runs {} again",
                             summary.job_id, is_nothing_done ? "all of them" : "the failed ones"));
  }
  if (!summary.conflicts.empty()) {
    return Status(Code::kConflict,
                  fmt::format("{} artifacts are held by another process, the first: {}",
                              summary.conflicts.size(), summary.conflicts.front().message))
        .Explain(6005, summary.table, "run the same command again later");
  }
  return {};
}

Result<ImportSummary> RunImport(const Context& ctx, JobStore& state, Engine& engine,
                                const ImportRequest& request) {
  PF_ASSIGN(const JobView view, state.View(ctx, request.job_id));
  PF_ASSIGN(const RewriteJobSpec job, RewriteJobSpec::FromJson(view.job.spec));
  PF_TRY(CheckReady(view, request));
  PF_ASSIGN(const ImportTarget target, ReadImportTarget(ctx, engine, request.table));
  if (!request.skips_schema_check) PF_TRY(CheckImportSchema(ctx, engine, job, target));
  const bool needs_order = job.is_order_sensitive && !request.allows_reorder;
  PF_TRY(CheckReplica(ctx, engine, target));
  PF_TRY(ProbeDetached(ctx, target));
  PF_ASSIGN(const std::unique_ptr<ImportLock> lock,
            ImportLock::Take(ctx, state, request, target.key()));

  ImportSummary summary;
  summary.job_id = request.job_id;
  summary.table = request.table.ToString();
  summary.already_imported = CountOf(view, TaskState::kImported);
  const auto run = [&]() -> Status {
    if (request.requires_empty) PF_TRY(CheckEmpty(ctx, state, engine, target, request));
    PartCommitter committer(state, request.store_of_bucket, engine, target, request.settings);
    KindTable kinds;
    PF_TRY(kinds.Add(JobKind{.name = std::string(kRewriteKind),
                             .planner = nullptr,
                             .executor = nullptr,
                             .committer = &committer,
                             .batch_executor = nullptr,
                             .grouping = CommitGrouping::kTask}));
    std::mutex mutex;  // guards summary
    const auto note = [&](const std::string& part, const Status& status) {
      const std::lock_guard hold(mutex);
      if (status.code() == Code::kUnknownOutcome) {
        summary.in_doubt.push_back({part, status.message(), status.explanation().pf_number});
      } else if (status.code() == Code::kConflict || status.code() == Code::kLeaseLost) {
        summary.conflicts.push_back({part, status.message(), status.explanation().pf_number});
      } else {
        summary.failed.push_back({part, status.message(), status.explanation().pf_number});
      }
    };
    const auto has_stopped = [&] {
      const std::lock_guard hold(mutex);
      return !summary.failed.empty() || !summary.in_doubt.empty() || !summary.conflicts.empty();
    };
    // What a carried commit came to; a failure that stops the whole command is returned.
    const SettleCarried settle = [&](const std::string& part,
                                     const Result<Commit>& carried) -> Status {
      if (carried.ok()) {
        if (carried->state == CommitState::kAborted) {
          PF_ASSIGN(const Task task, state.GetTask(ctx, request.job_id, part));
          // Taken back, and FINISHED as before: there was no room for it, nor is there for others.
          if (task.state == TaskState::kFinished) {
            return Status(Code::kExhausted, AbortReason(*carried))
                .Explain(7007, target.detached().string(),
                         "free space on the table's disk, then run the same command again");
          }
          note(part, Status(Code::kInternal, AbortReason(*carried)));
          return {};
        }
        PF_ASSIGN(const std::vector<Piece> pieces, state.Pieces(ctx, carried->id));
        const std::lock_guard hold(mutex);
        ++summary.imported;
        for (const Piece& piece : pieces) {
          summary.rows += piece.rows;
          ++summary.parts;
        }
        return {};
      }
      const Code code = carried.status().code();
      if (code == Code::kCancelled || code == Code::kUnavailable) return carried.status();
      note(part, carried.status());
      return {};
    };
    // Recovery first: nothing new is decided before every unfinished commit of the job has been
    // carried.
    Publisher recoverer(state, kinds,
                        PublisherOptions{.name = request.owner,
                                         .lease_ms = request.lease_ms,
                                         .proposes = {PublishMode::kCommand}});
    std::set<CommitId> carried_ids;
    while (true) {
      PF_ASSIGN(const JobView now, state.View(ctx, request.job_id));
      bool is_new = false;  // a view holds the first thousand only
      for (const Commit& commit : now.live_commits) {
        if (commit.kind != kRewriteKind || !carried_ids.insert(commit.id).second) continue;
        is_new = true;
        PF_TRY(Recover(ctx, state, recoverer, request, target, commit, settle));
      }
      if (!is_new) break;
    }
    if (request.requires_empty && !carried_ids.empty())
      PF_TRY(CheckEmpty(ctx, state, engine, target, request));
    PF_ASSIGN(const std::vector<ArtifactTask> tasks, ListFinished(ctx, state, request));
    if (needs_order && !has_stopped()) PF_TRY(CheckOrder(ctx, state, view, request, tasks));
    if (!request.part_id.empty() && tasks.empty() && summary.imported == 0) {
      return Status(Code::kRefused, "the part is not FINISHED")
          .Explain(2131, request.part_id,
                   fmt::format("partforge job-status --job-id={} --parts", request.job_id));
    }
    const auto total = static_cast<int64_t>(tasks.size());
    const int threads = needs_order ? 1 : request.artifacts_in_parallel;
    const auto import_one = [&](const Context& inner, int64_t i) -> Status {
      const TaskId& id = tasks[static_cast<size_t>(i)].id;
      if (needs_order && has_stopped()) {
        note(id, Status(Code::kRefused,
                        "not tried: the destination's engine depends on the order "
                        "of parts, and an earlier artifact is not published"));
        return {};
      }
      Publisher publisher(state, kinds,
                          PublisherOptions{.name = fmt::format("{}#{}", request.owner, i),
                                           .lease_ms = request.lease_ms,
                                           .proposes = {PublishMode::kCommand}});
      const Result<std::optional<CommitId>> proposed =
          publisher.ProposeTask(inner, request.job_id, id);
      if (!proposed.ok()) {
        const Code code = proposed.status().code();
        if (code == Code::kCancelled || code == Code::kUnavailable || code == Code::kUnknownOutcome)
          return proposed.status();
        if (code == Code::kCorruption || code == Code::kNotFound)
          FailPart(inner, state, request.job_id, id, proposed.status());
        note(id, proposed.status());
        return {};
      }
      if (!proposed->has_value()) return {};
      const Result<Commit> carried = publisher.Carry(inner, **proposed);
      if (!carried.ok() && carried.status().code() == Code::kCancelled) {
        Context unstopped = inner;
        unstopped.stop = {};
        Ignore(unstopped, publisher.Abandon(unstopped, **proposed),
               "a bound commit goes on with the next run");
      }
      PF_TRY(settle(id, carried));
      if (request.on_progress) {
        const std::lock_guard hold(mutex);
        request.on_progress(summary.imported, total, summary.rows);
      }
      return {};
    };
    return ParallelFor(ctx, total, threads, import_one);
  };
  summary.ended_early = run();
  if (summary.ended_early.ok())
    summary.ended_early = CompareTotals(ctx, state, engine, target, request, summary);
  lock->Release(ctx);
  const bool is_nothing_told = summary.imported == 0 && summary.failed.empty() &&
                               summary.in_doubt.empty() && summary.conflicts.empty();
  if (is_nothing_told) PF_TRY(summary.ended_early);
  return summary;
}

}  // namespace partforge::clickhouse
