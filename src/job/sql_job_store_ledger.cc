#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include <nlohmann/json.hpp>

#include "base/json.h"
#include "job/job_rows.h"
#include "job/sql_job_store.h"
#include "job/sql_job_store_locks.h"
#include "job/sql_job_store_rows.h"
#include "job/sql_journal.h"
#include "job/sql_statements.h"

// The commit half of SqlJobStore: statements of specs state-schema §4.8.
namespace partforge {
namespace {

constexpr int64_t kPieceNumbers = int64_t{1} << 20;

Status Fenced(const Commit& commit) {
  return Status(Code::kLeaseLost,
                fmt::format("commit is held under another epoch or state than {} {}: {}",
                            commit.epoch, CommitStateName(commit.state), commit.id));
}

// Every transaction of a publisher begins here: the commit's row is locked at its own epoch and
// state.
Status Own(SqlSession& session, const Commit& fenced, JobId& job) {
  PF_ASSIGN(const SqlRows rows,
            session.Run(statements::kOwn, {{"commit", fenced.id}, {"epoch", fenced.epoch}}));
  if (rows.empty() || rows.row(0).Text(0) != CommitStateName(fenced.state)) return Fenced(fenced);
  job = rows.row(0).Text(1);
  return {};
}

Status InsertPiece(SqlSession& session, const CommitId& commit, const Piece& piece) {
  if (piece.number < 0 || piece.number >= kPieceNumbers) {
    return Status(Code::kInvalidArgument,
                  fmt::format("piece number is not below 2^20: {}", piece.number));
  }
  PF_TRY(session.Run(statements::kDecidePiece, {{"commit", commit},
                                                {"piece", piece.number},
                                                {"task", piece.task},
                                                {"epoch", piece.epoch},
                                                {"shard", piece.shard},
                                                {"partition", piece.partition},
                                                {"stage_table", piece.stage_table},
                                                {"stage_part", piece.stage_part},
                                                {"token", piece.token},
                                                {"rows", piece.rows},
                                                {"bytes", piece.bytes},
                                                {"files_hash", piece.files_hash}}));
  return {};
}

// The pieces with numbers from `first` to `last`.
Result<std::vector<Piece>> LoadPieces(SqlSession& session, const CommitId& commit,
                                      int64_t first = 0,
                                      int64_t last = std::numeric_limits<int64_t>::max()) {
  PF_ASSIGN(
      const SqlRows rows,
      session.Run(statements::kPieces, {{"commit", commit}, {"first", first}, {"last", last}}));
  std::vector<Piece> pieces;
  for (size_t i = 0; i < rows.size(); ++i) {
    PF_ASSIGN(Piece piece, ReadPiece(rows.row(i)));
    pieces.push_back(std::move(piece));
  }
  return pieces;
}

// Whether the job is in a state in which this decision may be taken (specs state-schema §4.8,
// Decide).
Status CheckJobForDecide(SqlSession& session, const SqlRow& job, const Commit& proposal) {
  const std::string_view state = job.Text(0);
  const std::string_view publish = job.Text(1);
  const bool is_sealed = state == "SEALED";
  if (!is_sealed && (state != "OPEN" || publish != PublishModeName(PublishMode::kAuto))) {
    return Status(Code::kConflict,
                  fmt::format("decide {}: job {} is {}", proposal.id, proposal.job, state));
  }
  if (publish != PublishModeName(PublishMode::kAsked)) return {};
  PF_ASSIGN(const SqlRows rows, session.Run(statements::kCountTasks, {{"job", proposal.job}}));
  const int64_t tasks = rows.row(0).Int(0);
  if (tasks == static_cast<int64_t>(proposal.chosen.size())) return {};
  return Status(Code::kConflict, fmt::format("decide {}: a choice for {} of the load's {} tasks",
                                             proposal.id, proposal.chosen.size(), tasks));
}

Status DecideTask(SqlSession& session, SqlJournal& journal, const Commit& proposal,
                  const Chosen& chosen) {
  PF_ASSIGN(const Task before, LockTask(session, proposal.job, chosen.task));
  const uint64_t epoch = chosen.epoch == 0 ? before.winner : chosen.epoch;
  PF_ASSIGN(const SqlRows task, session.Run(statements::kDecideTask, {{"commit", proposal.id},
                                                                      {"job", proposal.job},
                                                                      {"task", chosen.task},
                                                                      {"epoch", epoch}}));
  PF_ASSIGN(const SqlRows attempt,
            session.Run(statements::kDecideAttempt,
                        {{"job", proposal.job}, {"task", chosen.task}, {"epoch", epoch}}));
  if (task.changed() == 0 || attempt.changed() == 0) {
    return Status(Code::kConflict,
                  fmt::format("decide {}: task {} is {} and not FINISHED by attempt {}",
                              proposal.id, chosen.task, TaskStateName(before.state), epoch));
  }
  PF_TRY(session.Run(statements::kDecideLosers, {{"job", proposal.job}, {"task", chosen.task}}));
  Task after = before;
  after.state = TaskState::kImporting;
  after.commit = proposal.id;
  return journal.Moved(before, after, "decided");
}

// The names of a bind: pieces that stand STAGED get their tokens, pieces that are new (a re-cut)
// are added, and pieces given as REPLACED leave the plan.
Status BindPieces(SqlSession& session, const Commit& fenced, std::span<const Piece> pieces) {
  if (pieces.empty()) return {};
  PF_ASSIGN(const std::vector<Piece> standing, LoadPieces(session, fenced.id));
  for (const Piece& piece : pieces) {
    const auto known = std::find_if(standing.begin(), standing.end(), [&](const Piece& other) {
      return other.number == piece.number;
    });
    const bool is_new = known == standing.end();
    if (piece.state == PieceState::kReplaced && !is_new) {
      PF_TRY(session.Run(statements::kMarkPiece, {{"commit", fenced.id},
                                                  {"piece", piece.number},
                                                  {"from", PieceStateName(known->state)},
                                                  {"to", "REPLACED"},
                                                  {"epoch", fenced.epoch}}));
      continue;
    }
    if (is_new) PF_TRY(InsertPiece(session, fenced.id, piece));
    PF_ASSIGN(const SqlRows rows, session.Run(statements::kBindPiece, {{"commit", fenced.id},
                                                                       {"piece", piece.number},
                                                                       {"token", piece.token},
                                                                       {"dev", piece.dev},
                                                                       {"ino", piece.ino},
                                                                       {"epoch", fenced.epoch}}));
    if (rows.changed() == 0) {
      return Status(Code::kConflict, fmt::format("bind {}: piece is {} already: {}", fenced.id,
                                                 PieceStateName(known->state), piece.number));
    }
  }
  return {};
}

Status Bind(SqlSession& session, const Commit& fenced, const Json& staged,
            std::span<const Piece> pieces) {
  PF_ASSIGN(const SqlRows rows,
            session.Run(statements::kBind,
                        {{"commit", fenced.id}, {"epoch", fenced.epoch}, {"staged", staged}}));
  if (rows.changed() == 0) return Fenced(fenced);
  return BindPieces(session, fenced, pieces);
}

// All tasks of the commit leave IMPORTING together.
Status MoveTasks(SqlSession& session, SqlJournal& journal, const Commit& fenced,
                 std::string_view event, TaskState to) {
  PF_ASSIGN(const SqlRows rows, session.Run(statements::kSumImporting, {{"commit", fenced.id}}));
  StateCount sums;
  sums.tasks = rows.row(0).Int(0);
  sums.bytes = rows.row(0).Int(1);
  sums.parts = rows.row(0).Int(2);
  sums.rows = rows.row(0).Int(3);
  journal.MovedMany(TaskState::kImporting, to, sums);
  PF_TRY(session.Run(statements::kNoteImporting, {{"commit", fenced.id},
                                                  {"actor", fenced.owner},
                                                  {"event", event},
                                                  {"to", TaskStateName(to)}}));
  return {};
}

Status PublishIn(SqlSession& session, SqlJournal& journal, const Commit& fenced,
                 const Json& evidence) {
  PF_ASSIGN(const SqlRows rows,
            session.Run(statements::kPublished,
                        {{"commit", fenced.id}, {"epoch", fenced.epoch}, {"evidence", evidence}}));
  if (rows.changed() == 0) {
    return Status(Code::kConflict,
                  fmt::format("publish: a piece is not confirmed, or the commit is {}: {}",
                              CommitStateName(fenced.state), fenced.id));
  }
  PF_TRY(MoveTasks(session, journal, fenced, "published", TaskState::kImported));
  PF_TRY(session.Run(statements::kPublishedTasks, {{"commit", fenced.id}}));
  PF_TRY(session.Run(statements::kUnlock, {{"holder", fenced.id}}));
  return {};
}

// What the evidence of an abort says about the artifact: FAILED when it names a class.
struct AbortReason {
  std::string failure_class, error;
  int64_t failure_code = 0;
};
AbortReason ReadAbortReason(const Json& evidence) {
  AbortReason reason;
  const Result<JsonDoc> doc = ParseJson(evidence);
  if (!doc.ok() || !doc->is_object()) return reason;
  const auto failure = doc->find("failure_class");
  if (failure != doc->end() && failure->is_string())
    reason.failure_class = failure->get<std::string>();
  const auto error = doc->find("error");
  if (error != doc->end() && error->is_string()) reason.error = error->get<std::string>();
  const auto code = doc->find("failure_code");
  if (code != doc->end() && code->is_number_integer()) reason.failure_code = code->get<int64_t>();
  return reason;
}

// Keeps the reason with the tasks that fail by it, for whoever looks at them later.
Status NoteAborted(SqlSession& session, const JobId& job, const CommitId& commit,
                   const AbortReason& reason) {
  if (reason.failure_class.empty() || reason.error.empty()) return {};
  PF_ASSIGN(const SqlRows tasks, session.Run(statements::kAbortedTasks, {{"commit", commit}}));
  for (size_t i = 0; i < tasks.size(); ++i) {
    PF_TRY(session.Run(statements::kSetPayload,
                       {{"job", job},
                        {"task", tasks.row(i).String(0)},
                        {"payload", WithError(tasks.row(i).String(1), reason.error)}}));
  }
  return {};
}

Status AbortIn(SqlSession& session, SqlJournal& journal, const Commit& fenced, const JobId& job,
               const Json& evidence) {
  PF_ASSIGN(const SqlRows owner, session.Run(statements::kOneJob, {{"job", job}}));
  if (!owner.empty() && ReadJobSpec(owner.row(0)).publish == PublishMode::kAsked) {
    return Status(Code::kRefused,
                  fmt::format("abort: a load is never aborted after its decision: {}", fenced.id));
  }
  if (fenced.state != CommitState::kDecided && fenced.state != CommitState::kCommitting) {
    return Status(Code::kConflict, fmt::format("abort: the commit is {}: {}",
                                               CommitStateName(fenced.state), fenced.id));
  }
  PF_ASSIGN(const SqlRows rows,
            session.Run(statements::kAbortCommit, {{"commit", fenced.id},
                                                   {"epoch", fenced.epoch},
                                                   {"from", CommitStateName(fenced.state)},
                                                   {"evidence", evidence}}));
  if (rows.changed() == 0) return Fenced(fenced);
  const AbortReason reason = ReadAbortReason(evidence);
  const TaskState to = reason.failure_class.empty() ? TaskState::kFinished : TaskState::kFailed;
  PF_TRY(MoveTasks(session, journal, fenced, "commit_aborted", to));
  PF_TRY(session.Run(statements::kAbortAttempts, {{"commit", fenced.id}}));
  PF_TRY(NoteAborted(session, job, fenced.id, reason));
  PF_TRY(session.Run(statements::kAbortTasks, {{"commit", fenced.id},
                                               {"to", TaskStateName(to)},
                                               {"failure_class", reason.failure_class},
                                               {"failure_code", reason.failure_code}}));
  PF_TRY(session.Run(statements::kUnlock, {{"holder", fenced.id}}));
  return {};
}

Status CleanIn(SqlSession& session, const Commit& fenced) {
  PF_ASSIGN(const SqlRows rows,
            session.Run(statements::kCleaned, {{"commit", fenced.id}, {"epoch", fenced.epoch}}));
  if (rows.changed() == 1) return {};
  return Status(Code::kConflict, fmt::format("clean: something of it is left, or it is {}: {}",
                                             CommitStateName(fenced.state), fenced.id));
}

// STAGED → SENT → CONFIRMED; an engine that saw nothing new makes SUPPRESSED of it, a re-cut
// REPLACED.
bool IsAllowed(PieceState from, PieceState to) {
  switch (to) {
    case PieceState::kStaged:
      return false;
    case PieceState::kSent:
      return from == PieceState::kStaged;
    case PieceState::kConfirmed:
    case PieceState::kSuppressed:
      return from == PieceState::kStaged || from == PieceState::kSent;
    case PieceState::kReplaced:
      return from != PieceState::kConfirmed;
  }
  return false;
}

}  // namespace

Result<Commit> SqlJobStore::Decide(const Context& ctx, const Commit& proposal,
                                   std::span<const Piece> pieces, std::span<const LockWish> locks) {
  std::vector<Chosen> chosen = proposal.chosen;
  std::sort(chosen.begin(), chosen.end(),
            [](const Chosen& a, const Chosen& b) { return a.task < b.task; });
  int64_t rows_decided = 0;
  int64_t bytes_decided = 0;
  for (const Piece& piece : pieces) {
    rows_decided += piece.rows;
    bytes_decided += piece.bytes;
  }
  return WriteFor<Commit>(ctx, *db_, [&](SqlSession& session) -> Result<Commit> {
    PF_ASSIGN(const SqlRows job, session.Run(statements::kJobForUpdate, {{"job", proposal.job}}));
    if (job.empty()) return NoSuchJob(proposal.job);
    // The first decision under this id is the answer, whatever has become of it; it must not take
    // its locks again.
    Result<Commit> first = LoadCommit(session, proposal.id, WithResults::kYes);
    if (first.ok()) {
      if (first->job == proposal.job) return first;
      return Status(Code::kConflict,
                    fmt::format("decide: the id belongs to job {}: {}", first->job, proposal.id));
    }
    if (first.status().code() != Code::kNotFound) return first;
    PF_TRY(CheckJobForDecide(session, job.row(0), proposal));
    PF_ASSIGN(const SqlRows standing,
              session.Run(statements::kTargetOfJob, {{"job", proposal.job}}));
    if (!standing.empty()) PF_TRY(CheckOneTarget(standing.row(0).Text(0), proposal));
    PF_TRY(TakeLocks(session, proposal.job, proposal.id, locks));
    PF_ASSIGN(const SqlRows decided,
              session.Run(statements::kDecide, {{"commit", proposal.id},
                                                {"job", proposal.job},
                                                {"kind", proposal.kind},
                                                {"target", proposal.target},
                                                {"protocol", proposal.protocol},
                                                {"serial", DrawSerial(ctx.random)},
                                                {"pieces", pieces.size()},
                                                {"rows", rows_decided},
                                                {"bytes", bytes_decided},
                                                {"intent", proposal.intent}}));
    if (decided.changed() == 0) {
      return Status(Code::kConflict,
                    fmt::format("decide: the id belongs to another job: {}", proposal.id));
    }
    SqlJournal journal(session, proposal.job,
                       proposal.owner.empty() ? "publisher" : proposal.owner);
    PF_TRY(journal.Note({.commit = proposal.id, .event = "commit_decided", .to = "DECIDED"}));
    for (const Chosen& one : chosen) PF_TRY(DecideTask(session, journal, proposal, one));
    for (const Piece& piece : pieces) PF_TRY(InsertPiece(session, proposal.id, piece));
    PF_TRY(journal.Close());
    return LoadCommit(session, proposal.id, WithResults::kYes);
  });
}

Result<Commit> SqlJobStore::Fence(const Context& ctx, const CommitId& commit,
                                  std::string_view owner, int64_t lease_ms) {
  return WriteFor<Commit>(ctx, *db_, [&](SqlSession& session) -> Result<Commit> {
    PF_ASSIGN(const SqlRows rows,
              session.Run(statements::kFence, {{"commit", commit},
                                               {"owner", owner},
                                               {"lease_ms", lease_ms},
                                               {"serial", DrawSerial(ctx.random)}}));
    PF_ASSIGN(Commit fenced, LoadCommit(session, commit, WithResults::kYes));
    if (rows.empty()) {
      if (fenced.is_cleaned)
        return Status(Code::kNotFound, fmt::format("fence: the commit is cleaned: {}", commit));
      return Status(Code::kConflict,
                    fmt::format("fence {}: it is held by {}", commit, fenced.owner));
    }
    SqlJournal journal(session, fenced.job, owner);
    PF_TRY(journal.Note({.commit = commit,
                         .event = "fenced",
                         .to = CommitStateName(fenced.state),
                         .epoch = fenced.epoch}));
    return fenced;
  });
}

Status SqlJobStore::Hold(const Context& ctx, const Commit& fenced, int64_t lease_ms) {
  PF_ASSIGN(
      const SqlRows rows,
      db_->RunAlone(ctx, statements::kHold,
                    {{"commit", fenced.id}, {"epoch", fenced.epoch}, {"lease_ms", lease_ms}}));
  return rows.changed() == 1 ? Status() : Fenced(fenced);
}

Status SqlJobStore::Advance(const Context& ctx, const Commit& fenced, CommitState to,
                            const Json& recorded, std::span<const Piece> pieces) {
  return db_->Write(ctx, [&](SqlSession& session) -> Status {
    JobId job;
    PF_TRY(Own(session, fenced, job));
    SqlJournal journal(session, job, fenced.owner);
    switch (to) {
      case CommitState::kDecided:
        return Status(Code::kInvalidArgument,
                      fmt::format("advance: no way back to DECIDED: {}", fenced.id));
      case CommitState::kCommitting:
        PF_TRY(Bind(session, fenced, recorded, pieces));
        break;
      case CommitState::kPublished:
        PF_TRY(PublishIn(session, journal, fenced, recorded));
        break;
      case CommitState::kCleaned:
        PF_TRY(CleanIn(session, fenced));
        break;
      case CommitState::kAborted:
        PF_TRY(AbortIn(session, journal, fenced, job, recorded));
        break;
    }
    PF_TRY(journal.Note({.commit = fenced.id,
                         .event = "commit_advanced",
                         .from = CommitStateName(fenced.state),
                         .to = CommitStateName(to),
                         .epoch = fenced.epoch}));
    return journal.Close();
  });
}

Status SqlJobStore::Mark(const Context& ctx, const Commit& fenced, std::span<const Piece> pieces,
                         PieceState to) {
  return db_->Write(ctx, [&](SqlSession& session) -> Status {
    JobId job;
    PF_TRY(Own(session, fenced, job));
    if (fenced.state != CommitState::kCommitting) {
      return Status(Code::kConflict,
                    fmt::format("mark pieces {}: the commit is {}: {}", PieceStateName(to),
                                CommitStateName(fenced.state), fenced.id));
    }
    if (pieces.empty()) return {};
    // A commit may have thousands of pieces, and each is marked by itself.
    const auto [first, last] =
        std::minmax_element(pieces.begin(), pieces.end(),
                            [](const Piece& a, const Piece& b) { return a.number < b.number; });
    PF_ASSIGN(const std::vector<Piece> standing,
              LoadPieces(session, fenced.id, first->number, last->number));
    for (const Piece& piece : pieces) {
      const auto known = std::find_if(standing.begin(), standing.end(), [&](const Piece& other) {
        return other.number == piece.number;
      });
      if (known != standing.end() && known->state == to) continue;  // said before
      if (known == standing.end() || !IsAllowed(known->state, to)) {
        return Status(
            Code::kConflict,
            fmt::format("mark piece {} of {} {}: it is {}", piece.number, fenced.id,
                        PieceStateName(to),
                        known == standing.end() ? "absent" : PieceStateName(known->state)));
      }
      PF_TRY(session.Run(statements::kMarkPiece, {{"commit", fenced.id},
                                                  {"piece", piece.number},
                                                  {"from", PieceStateName(known->state)},
                                                  {"to", PieceStateName(to)},
                                                  {"epoch", fenced.epoch}}));
    }
    return {};
  });
}

Status SqlJobStore::Doubt(const Context& ctx, const Commit& fenced, std::string_view reason) {
  return db_->Write(ctx, [&](SqlSession& session) -> Status {
    JobId job;
    PF_TRY(Own(session, fenced, job));
    PF_ASSIGN(const SqlRows rows,
              session.Run(statements::kDoubt,
                          {{"commit", fenced.id}, {"epoch", fenced.epoch}, {"reason", reason}}));
    if (rows.changed() == 0) return Fenced(fenced);
    SqlJournal journal(session, job, fenced.owner);
    return journal.Note({.commit = fenced.id,
                         .event = "in_doubt",
                         .detail = ErrorDetail(reason),
                         .epoch = fenced.epoch});
  });
}

Result<std::vector<Piece>> SqlJobStore::Pieces(const Context& ctx, const CommitId& commit) {
  return ReadFor<std::vector<Piece>>(
      ctx, *db_, [&](SqlSession& session) { return LoadPieces(session, commit); });
}

}  // namespace partforge
