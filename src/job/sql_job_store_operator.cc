#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "job/job_rows.h"
#include "job/sql_job_store.h"
#include "job/sql_job_store_rows.h"
#include "job/sql_journal.h"
#include "job/sql_lease_end.h"
#include "job/sql_statements.h"

// What planners and operators change without a lease: statements of specs state-schema §4.7, and
// the end of a job's rows.
namespace partforge {
namespace {

constexpr size_t kEditsMax = 1000;  // of one Amend, so that no planner holds locks for long

Status EndAttempts(SqlSession& session, const JobId& job, const TaskId& task, OpenWork open_work) {
  if (open_work == OpenWork::kRefuse) return {};
  const bool is_any = open_work == OpenWork::kEnd;
  PF_TRY(session.Run(is_any ? statements::kEndAttempts : statements::kEndExpiredAttempts,
                     {{"job", job}, {"task", task}}));
  return {};
}

Status AmendTask(SqlSession& session, SqlJournal& journal, const JobId& job, const TaskEdit& edit,
                 int64_t now_ms, OpenWork open_work) {
  PF_ASSIGN(const Task before, LockTask(session, job, edit.id));
  PF_TRY(EndAttempts(session, job, edit.id, open_work));
  Task after = before;
  after.state = edit.to;
  after.superseded_by = edit.superseded_by;
  if (edit.to == TaskState::kReady) {
    after.winner = 0;  // what an earlier attempt made is no longer meant
    after.ready_at_ms = 0;
  } else if (edit.to == TaskState::kCompactReady && after.ready_at_ms == 0) {
    after.ready_at_ms = now_ms;
  }
  const bool is_failed = edit.to == TaskState::kFailed;
  const Json payload =
      WithError(edit.payload.value_or(before.payload), is_failed ? edit.error : std::string());
  PF_ASSIGN(const SqlRows rows,
            session.Run(statements::kAmend, {{"job", job},
                                             {"task", edit.id},
                                             {"from", TaskStateName(edit.from)},
                                             {"to", TaskStateName(edit.to)},
                                             {"epoch", edit.epoch},
                                             {"winner", after.winner},
                                             {"ready_at", after.ready_at_ms},
                                             {"superseded_by", edit.superseded_by},
                                             {"finalize_at", 0},
                                             {"failure_class", is_failed ? edit.failure_class : ""},
                                             {"failure_code", is_failed ? edit.failure_code : 0},
                                             {"payload", payload}}));
  if (rows.changed() == 0) {
    return Status(Code::kConflict,
                  fmt::format("amend task of job {}: it is {} at epoch {}, or taken: {}", job,
                              TaskStateName(before.state), before.epoch, edit.id));
  }
  return journal.Moved(before, after, "amended", ErrorDetail(edit.error));
}

Status DeleteTask(SqlSession& session, SqlJournal& journal, const JobId& job, const TaskId& id,
                  OpenWork open_work) {
  PF_ASSIGN(const Task task, LockTask(session, job, id));
  PF_TRY(EndAttempts(session, job, id, open_work));
  PF_ASSIGN(const SqlRows open,
            session.Run(statements::kOpenAttempts, {{"job", job}, {"task", id}}));
  // What is published keeps its row: without it the same rows could be made and published again.
  if (!open.empty() || task.state == TaskState::kImporting || task.state == TaskState::kImported) {
    return Status(Code::kConflict,
                  fmt::format("delete task of job {}: it is {}, or being worked on: {}", job,
                              TaskStateName(task.state), id));
  }
  PF_ASSIGN(const SqlRows copies,
            session.Run(statements::kIsTaskCopied, {{"job", job}, {"task", id}}));
  if (!copies.empty()) {
    return Status(Code::kRefused,
                  fmt::format("delete task of job {}: its artifact is borrowed by job {}: {}", job,
                              copies.row(0).Text(0), id));
  }
  PF_TRY(session.Run(statements::kDeleteTaskAttempts, {{"job", job}, {"task", id}}));
  PF_TRY(session.Run(statements::kDeleteTask, {{"job", job}, {"task", id}}));
  journal.Removed(task);
  return journal.Note({.task = id,
                       .event = "task_deleted",
                       .from = TaskStateName(task.state),
                       .epoch = task.epoch});
}

// Edits and deletions of one job, in the order of locks.
Status Change(SqlSession& session, const JobId& job, std::span<const TaskEdit> edits,
              std::span<const TaskId> deleted, OpenWork open_work, std::string_view actor) {
  std::vector<const TaskEdit*> sorted;
  for (const TaskEdit& edit : edits) sorted.push_back(&edit);
  std::sort(sorted.begin(), sorted.end(),
            [](const TaskEdit* a, const TaskEdit* b) { return a->id < b->id; });
  std::vector<TaskId> going(deleted.begin(), deleted.end());
  std::sort(going.begin(), going.end());
  SqlJournal journal(session, job, actor);
  PF_ASSIGN(const int64_t now_ms, StoreNow(session));
  if (open_work != OpenWork::kRefuse) {
    std::set<TaskId> taken(going.begin(), going.end());
    for (const TaskEdit* edit : sorted) taken.insert(edit->id);
    const LeaseAge age = open_work == OpenWork::kEnd ? LeaseAge::kAny : LeaseAge::kExpired;
    PF_TRY(HandBackMates(session, journal, job, taken, age, actor));
  }
  auto next = going.begin();
  for (const TaskEdit* edit : sorted) {
    for (; next != going.end() && *next <= edit->id; ++next) {
      PF_TRY(DeleteTask(session, journal, job, *next, open_work));
    }
    PF_TRY(AmendTask(session, journal, job, *edit, now_ms, open_work));
  }
  for (; next != going.end(); ++next) PF_TRY(DeleteTask(session, journal, job, *next, open_work));
  // What an output was made of must come back with its deletion, or nobody would do it again.
  for (const TaskId& output : going) {
    PF_ASSIGN(const SqlRows left,
              session.Run(statements::kSupersededLeft, {{"job", job}, {"output", output}}));
    if (!left.empty()) {
      return Status(
          Code::kConflict,
          fmt::format("delete task of job {}: others are superseded by it: {}", job, output));
    }
  }
  return journal.Close();
}

}  // namespace

Status SqlJobStore::Amend(const Context& ctx, const JobId& job, const Settlement& settlement) {
  if (settlement.edits.size() > kEditsMax || !settlement.added.empty()) {
    return Status(Code::kInvalidArgument,
                  fmt::format("amend: at most {} edits and no added task: {} and {}", kEditsMax,
                              settlement.edits.size(), settlement.added.size()));
  }
  return db_->Write(ctx, [&](SqlSession& session) {
    return Change(session, job, settlement.edits, {}, OpenWork::kRefuse, actor_);
  });
}

Status SqlJobStore::ChangeTasks(const Context& ctx, const JobId& job,
                                std::span<const TaskEdit> edits, std::span<const TaskId> deleted,
                                OpenWork open_work) {
  return db_->Write(ctx, [&](SqlSession& session) -> Status {
    PF_ASSIGN(const SqlRows locked, session.Run(statements::kJobForUpdate, {{"job", job}}));
    if (locked.empty()) return NoSuchJob(job);
    return Change(session, job, edits, deleted, open_work, actor_);
  });
}

Status SqlJobStore::AskFinalize(const Context& ctx, const JobId& job, const TaskId& output) {
  return db_->Write(ctx, [&](SqlSession& session) -> Status {
    PF_ASSIGN(const SqlRows rows,
              session.Run(statements::kAskFinalize, {{"job", job}, {"output", output}}));
    if (rows.changed() == 0) {
      return Status(Code::kNotFound,
                    fmt::format("no batch of job {} makes this output: {}", job, output));
    }
    SqlJournal journal(session, job, actor_);
    return journal.Note({.task = output, .event = "finalize_asked"});
  });
}

Result<int64_t> SqlJobStore::RepairCounters(const Context& ctx, const JobId& job) {
  return WriteFor<int64_t>(ctx, *db_, [&](SqlSession& session) -> Result<int64_t> {
    // Keeps a second repair away; what moves tasks meanwhile is added to the same counters.
    PF_ASSIGN(const SqlRows locked, session.Run(statements::kJobForUpdate, {{"job", job}}));
    if (locked.empty()) return NoSuchJob(job);
    PF_ASSIGN(const SqlRows rows, session.Run(statements::kRepairCounters, {{"job", job}}));
    return rows.changed();
  });
}

Result<int64_t> SqlJobStore::DeleteJob(const Context& ctx, const JobId& job,
                                       const std::function<Status()>& delete_objects) {
  return WriteFor<int64_t>(ctx, *db_, [&](SqlSession& session) -> Result<int64_t> {
    PF_ASSIGN(const SqlRows locked, session.Run(statements::kJobForUpdate, {{"job", job}}));
    if (locked.empty()) return NoSuchJob(job);
    PF_ASSIGN(const SqlRows copies, session.Run(statements::kIsCopied, {{"job", job}}));
    if (!copies.empty()) {
      return Status(Code::kRefused,
                    fmt::format("delete job {}: its artifacts are borrowed by job {}", job,
                                copies.row(0).Text(0)));
    }
    PF_ASSIGN(const SqlRows live, session.Run(statements::kHasLiveWork, {{"job", job}}));
    if (live.row(0).Int(0) != 0) {
      return Status(Code::kRefused,
                    fmt::format("delete job: work or a commit is under way: {}", job));
    }
    if (delete_objects) PF_TRY(delete_objects());
    for (const SqlStatement& statement :
         {statements::kDeleteEvents, statements::kDeleteCounters, statements::kDeletePieces,
          statements::kDeleteObjects, statements::kDeleteLocks, statements::kDeleteCommits,
          statements::kDeleteAttempts}) {
      PF_TRY(session.Run(statement, {{"job", job}}));
    }
    PF_ASSIGN(const SqlRows tasks, session.Run(statements::kDeleteTasks, {{"job", job}}));
    PF_TRY(session.Run(statements::kDeleteJob, {{"job", job}}));
    return tasks.changed();
  });
}

}  // namespace partforge
