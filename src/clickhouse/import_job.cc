#include "clickhouse/import_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>
#include <thread>

#include "base/failure_class.h"
#include "base/json.h"
#include "base/parallel_for.h"
#include "base/units.h"
#include "clickhouse/engine_failure.h"
#include "clickhouse/fingerprint.h"
#include "clickhouse/import_checks.h"
#include "clickhouse/job_sql.h"
#include "clickhouse/local_tables.h"
#include "clickhouse/source_checks.h"
#include "clickhouse/time_zone.h"
#include "engine/clickhouse_codes.h"
#include "engine/sql_text.h"
#include "job/failure.h"
#include "job/publisher.h"

namespace partforge::clickhouse {
namespace {

constexpr int64_t kLockPollMs = 1000;

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
  ImportLock(const Context& ctx, JobStore& state, const ImportRequest& request,
             const LockWish& wish)
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

// Why a commit was aborted, from its evidence.
Status AbortReason(const Commit& commit) {
  const Result<JsonDoc> evidence = ParseJson(commit.evidence);
  if (!evidence.ok() || !evidence->is_object()) return Status(Code::kInternal, commit.evidence);
  JsonReader reader(*evidence, "evidence");
  const Result<std::string> error = reader.StringOr("error", "taken back before it was placed");
  const Result<std::string> failure_class = reader.StringOr("failure_class", "");
  if (!error.ok() || !failure_class.ok()) return Status(Code::kInternal, commit.evidence);
  return RecordedStatus(*error, *failure_class);
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
  TaskEdit& edit = settlement.edits.emplace_back(EditTo(*task, TaskState::kFailed));
  edit.from = TaskState::kFinished;  // what somebody else has taken meanwhile is not ours to fail
  edit.failure_class = FailureClassName(FailureClass::kData);
  edit.error = RecordedError(why);
  Ignore(ctx, state.Amend(ctx, job, settlement), "the part stays FINISHED");
}

// What an import that failed leaves of the part.
enum class PartAfter : uint8_t { kFailed, kAsBefore };

// Refusals without a success between them, after which the next artifact would be refused, too.
constexpr int64_t kTakenBackInRowMax = 8;

// Why an artifact was taken back, and is FINISHED as before. `reason` is as it was recorded: the
// words of the system, or of the server, tell the disk from memory.
Status TakenBack(const Status& reason, const ImportTarget& target) {
  constexpr int kDiskFull = 7007;
  constexpr int64_t kNoSpaceOnServer = 243;
  const std::string& message = reason.message();
  const auto names = [&message](int error_number) {
    return message.find(std::generic_category().message(error_number)) != std::string::npos;
  };
  if (reason.explanation().pf_number == kDiskFull || names(ENOSPC) || names(EDQUOT) ||
      ClickHouseNumber(reason) == kNoSpaceOnServer) {
    return Status(Code::kExhausted, message)
        .Explain(kDiskFull, target.detached().string(),
                 "free space on the table's disk, then run the same command again");
  }
  if (IsOfSurroundings(Status(reason).As(Code::kRefused))) {
    return Status(Code::kRefused, message)
        .Explain(reason.explanation().pf_number, target.table.ToString(),
                 "nothing of the artifact is placed, and it is as before: correct this, then run "
                 "the same command again; an artifact that can never be read is made again by "
                 "retry-failed --force --part-id");
  }
  return Status(Code::kExhausted, message)
      .Explain(7017, target.table.ToString(),
               "when the server or this machine has more memory, run the same command again");
}

constexpr int kMissingObject = 2126, kBoundElsewhere = 2134, kInDoubt = 2138;

// Of a commit that is bound to a table of another uuid: whether that table can still be named.
Status BoundElsewhere(const Context& ctx, Engine& engine, const std::string& bound_target,
                      const TableName& named) {
  const std::string uuid = bound_target.substr(bound_target.rfind('/') + 1);
  PF_ASSIGN(const QueryOutcome outcome,
            engine.Query(ctx,
                         fmt::format("SELECT database, name FROM system.tables WHERE "
                                     "toString(uuid) = {}",
                                     QuoteString(uuid)),
                         {}));
  const auto rows = SplitTsv(outcome.text);
  return Status(Code::kUnknownOutcome,
                fmt::format("it is being published into another table: {}", bound_target))
      .Explain(kBoundElsewhere, named.ToString(),
               rows.empty() ? std::string("that table is gone: start a new job into an empty table "
                                          "(upload-freeze with another --job-id)")
                            : fmt::format("name that table: --database={} --table={}",
                                          rows[0].at(0), rows[0].at(1)));
}

// What became of a carried commit, for the summary; a failure that stops the whole command is
// returned.
using SettleCarried = std::function<Status(const std::string& part, const Result<Commit>& carried)>;

// Carries one commit that an earlier run left. What was bound to another table is left to an import
// that names that table; what was only decided for one is taken back.
Status Recover(const Context& ctx, JobStore& state, Engine& engine, Publisher& publisher,
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
    return settle(part, BoundElsewhere(ctx, engine, known.target, request.table));
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

// What settles a doubt: to look, to run again what may have changed since, or another table.
std::string RemedyOfDoubt(const ImportSummary& summary) {
  const FailedImport& first = summary.in_doubt.front();
  if (first.pf_number == kBoundElsewhere) return first.what_to_do;
  return fmt::format(
      "partforge job-status --job-id={} --details   then run the same command again\n"
      "what stays in doubt is settled by a new job into an empty table (upload-freeze with another "
      "--job-id)",
      summary.job_id);
}

// What helps the failed artifacts: those whose parts are FAILED are made again, for the others
// their own remedy is told.
std::string RemedyOf(const ImportSummary& summary) {
  std::string own;
  size_t remade = 0;
  for (const FailedImport& failure : summary.failed) {
    if (failure.what_to_do.empty()) {
      ++remade;
    } else if (own.empty()) {
      own = failure.what_to_do;
    }
  }
  if (remade == 0) return own;
  const bool is_all =
      remade == summary.failed.size() && summary.imported == 0 && summary.already_imported == 0;
  return fmt::format("partforge retry-failed --job-id={} --all   runs {} again{}{}", summary.job_id,
                     is_all ? "all of them" : "the failed ones",
                     own.empty() ? "" : "; for the others: ", own);
}

// ATTACH looks at no row: what the target demands must have been demanded of the job's rows.
Status CheckConstraints(const Context& ctx, Engine& engine, const CreateTable& written,
                        const CreateTable& present, const ImportTarget& target) {
  PF_ASSIGN(const std::vector<std::string> checked, FormattedConstraints(ctx, engine, written));
  PF_ASSIGN(const std::vector<std::string> demanded, FormattedConstraints(ctx, engine, present));
  for (const std::string& one : demanded) {
    if (std::find(checked.begin(), checked.end(), one) != checked.end()) continue;
    return Status(Code::kRefused,
                  fmt::format(
                      "the table has CONSTRAINT {}, which the rows were not checked against", one))
        .Explain(2121, target.table.ToString(),
                 "ALTER TABLE … DROP CONSTRAINT on the target first, or rebuild the job with the "
                 "target's constraints");
  }
  return {};
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
  PF_TRY(CheckConstraints(ctx, engine, written, present, target));
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
        .Explain(kInDoubt, summary.table, RemedyOfDoubt(summary));
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
    // Nothing is published: the command ends as the first artifact did.
    return Status(is_nothing_done ? summary.failed.front().code : Code::kInternal, message)
        .Explain(is_nothing_done ? number : 2149, summary.table, RemedyOf(summary));
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
  PF_ASSIGN(const ImportTarget target, CheckImport(ctx, engine, request, view, job));
  const bool needs_order = job.is_order_sensitive && !request.allows_reorder;
  PF_ASSIGN(const std::unique_ptr<ImportLock> lock,
            ImportLock::Take(ctx, state, request, target.key()));

  ImportSummary summary;
  summary.job_id = request.job_id;
  summary.table = request.table.ToString();
  summary.already_imported = CountOf(view, TaskState::kImported);
  PF_ASSIGN(const bool keeps_every_row, KeepsEveryRow(target));
  const auto is_nothing_told = [&summary] {
    return summary.imported == 0 && summary.failed.empty() && summary.in_doubt.empty() &&
           summary.conflicts.empty();
  };
  const auto run = [&]() -> Status {
    PF_TRY(ProbeDetached(ctx, target));
    if (request.requires_empty || summary.already_imported > 0)
      PF_TRY(CheckPublished(ctx, state, engine, target, request));
    ImportSettings settings = request.settings;
    settings.compares_totals = request.requires_empty && keeps_every_row;
    PartCommitter committer(state, request.store_of_bucket, engine, target, settings);
    KindTable kinds;
    PF_TRY(kinds.Add(JobKind{.name = std::string(kRewriteKind),
                             .planner = nullptr,
                             .executor = nullptr,
                             .committer = &committer,
                             .batch_executor = nullptr,
                             .grouping = CommitGrouping::kTask,
                             .gatherer = nullptr,
                             .read_failure = &ReadEngineFailure}));
    std::mutex mutex;  // guards summary
    const auto note = [&](const std::string& part, const Status& status, PartAfter after) {
      FailedImport failure{.part_id = part,
                           .message = status.message(),
                           .pf_number = status.explanation().pf_number,
                           .code = status.code()};
      if (after == PartAfter::kAsBefore) {
        failure.what_to_do = status.explanation().what_to_do;
        if (failure.what_to_do.empty()) failure.what_to_do = "run the same command again";
      }
      const std::lock_guard hold(mutex);
      if (status.code() == Code::kUnknownOutcome) {
        summary.in_doubt.push_back(std::move(failure));
      } else if (status.code() == Code::kConflict || status.code() == Code::kLeaseLost) {
        summary.conflicts.push_back(std::move(failure));
      } else {
        summary.failed.push_back(std::move(failure));
      }
    };
    // Artifacts that are FINISHED as before, with what was in their way.
    std::vector<std::pair<std::string, Status>> taken_back;
    int64_t taken_back_in_row = 0;
    // A full disk is in the way of the others, too; of what the store refuses only the next ones
    // tell.
    const auto take_back = [&](const std::string& part, Status why) -> Status {
      const std::lock_guard hold(mutex);
      ++taken_back_in_row;
      if (why.code() == Code::kExhausted || taken_back_in_row > kTakenBackInRowMax) return why;
      taken_back.emplace_back(part, std::move(why));
      return {};
    };
    const auto has_stopped = [&] {
      const std::lock_guard hold(mutex);
      return !taken_back.empty() || !summary.failed.empty() || !summary.in_doubt.empty() ||
             !summary.conflicts.empty();
    };
    // What a carried commit came to; a failure that stops the whole command is returned.
    const SettleCarried settle = [&](const std::string& part,
                                     const Result<Commit>& carried) -> Status {
      if (carried.ok()) {
        if (carried->state == CommitState::kAborted) {
          const Result<Task> task = state.GetTask(ctx, request.job_id, part);
          if (task.ok() && task->state == TaskState::kFinished)
            return take_back(part, TakenBack(AbortReason(*carried), target));
          // Gone: the sources of an artifact of many are made again by retry-failed.
          if (!task.ok() && task.status().code() != Code::kNotFound) return task.status();
          note(part, AbortReason(*carried), PartAfter::kFailed);
          return {};
        }
        PF_ASSIGN(const std::vector<Piece> pieces, state.Pieces(ctx, carried->id));
        const std::lock_guard hold(mutex);
        taken_back_in_row = 0;
        ++summary.imported;
        for (const Piece& piece : pieces) {
          summary.rows += piece.rows;
          summary.bytes += piece.bytes;
          ++summary.parts;
        }
        return {};
      }
      const Code code = carried.status().code();
      if (code == Code::kCancelled || code == Code::kUnavailable) return carried.status();
      note(part, carried.status(), PartAfter::kAsBefore);
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
        PF_TRY(Recover(ctx, state, engine, recoverer, request, target, commit, settle));
      }
      if (!is_new) break;
    }
    // Rows of one job in two tables would be complete in neither.
    const bool is_bound_elsewhere =
        std::any_of(summary.in_doubt.begin(), summary.in_doubt.end(),
                    [](const FailedImport& one) { return one.pf_number == kBoundElsewhere; });
    if (is_bound_elsewhere) return {};
    if (request.requires_empty && !carried_ids.empty())
      PF_TRY(CheckPublished(ctx, state, engine, target, request));
    PF_ASSIGN(const std::vector<ArtifactTask> tasks, ListFinished(ctx, state, job, request));
    if (needs_order && !has_stopped()) PF_TRY(CheckOrder(ctx, state, view, job, request, tasks));
    if (!request.part_id.empty() && tasks.empty() && summary.imported == 0)
      return NotFinished(request);
    const auto total = static_cast<int64_t>(tasks.size());
    const int64_t recovered = summary.imported;
    const int threads = needs_order ? 1 : request.artifacts_in_parallel;
    const auto import_one = [&](const Context& inner, int64_t i) -> Status {
      const TaskId& id = tasks[static_cast<size_t>(i)].id;
      if (needs_order && has_stopped()) {
        note(id,
             Status(Code::kRefused,
                    "not tried: the destination's engine depends on the order "
                    "of parts, and an earlier artifact is not published")
                 .Explain(2112, summary.table,
                          "run the same command again when the earlier artifact is published"),
             PartAfter::kAsBefore);
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
        // Another import brings the job into another table.
        if (code == Code::kConflict && proposed.status().explanation().pf_number == kBoundElsewhere)
          return Status(proposed.status()).As(Code::kRefused);
        // A store that holds nothing of the job has no other artifact either.
        const bool is_wrong_store =
            code == Code::kRefused && proposed.status().explanation().pf_number == kMissingObject;
        if (code == Code::kCancelled || code == Code::kUnavailable ||
            code == Code::kUnknownOutcome || is_wrong_store)
          return proposed.status();
        // Says nothing about the artifact, and was refused before anything was decided.
        if (IsOfSurroundings(proposed.status())) return take_back(id, proposed.status());
        const bool is_damaged = code == Code::kCorruption || code == Code::kNotFound;
        if (is_damaged) FailPart(inner, state, request.job_id, id, proposed.status());
        note(id, proposed.status(), is_damaged ? PartAfter::kFailed : PartAfter::kAsBefore);
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
        request.on_progress(summary.imported, recovered + total, summary.rows, summary.bytes);
      }
      return {};
    };
    PF_TRY(ParallelFor(ctx, total, threads, import_one));
    // When nothing at all went further, it is no matter of single artifacts.
    if (!taken_back.empty() && is_nothing_told()) return taken_back.front().second;
    for (const auto& [part, why] : taken_back) note(part, why, PartAfter::kAsBefore);
    return {};
  };
  summary.ended_early = run();
  if (summary.ended_early.ok())
    summary.ended_early = CompareTotals(ctx, state, engine, target, request, summary);
  lock->Release(ctx);
  if (is_nothing_told()) PF_TRY(summary.ended_early);
  return summary;
}

}  // namespace partforge::clickhouse
