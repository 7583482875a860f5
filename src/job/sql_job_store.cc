#include "job/sql_job_store.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/hash.h"
#include "base/ids.h"
#include "job/job_rows.h"
#include "job/sql_job_store_rows.h"
#include "job/sql_journal.h"
#include "job/sql_statements.h"

namespace partforge {
namespace {

std::string SpecHash(const JobSpec& job) {
  Sha256 hash;
  hash.Update(job.kind);
  hash.Update(std::string_view("\0", 1));
  hash.Update(job.spec);
  return hash.FinishHex();
}

// add_task changed nothing: the same task from an interrupted run, or a collision.
Status CheckSameTask(SqlSession& session, const JobId& job, const Task& task) {
  PF_ASSIGN(const SqlRows rows,
            session.Run(statements::kOneTask, {{"job", job}, {"task", task.id}}));
  if (rows.empty()) {
    return Status(Code::kConflict,
                  fmt::format("add task {}: job takes no more tasks: {}", task.id, job))
        .Explain(6006, job, "the job was sealed with another set of parts: use another --job-id");
  }
  PF_ASSIGN(const Task found, ReadTask(rows.row(0)));
  const bool is_same = found.size_bytes == task.size_bytes && found.kind == task.kind &&
                       found.source_job == task.source_job && found.source_task == task.source_task;
  if (is_same) return {};
  return Status(Code::kCorruption,
                fmt::format("add task to job {}: another task has this id: {}", job, task.id));
}

Status AddTasksIn(SqlSession& session, SqlJournal& journal, const JobId& job,
                  std::span<const Task> tasks) {
  std::vector<const Task*> by_id;
  for (const Task& task : tasks) by_id.push_back(&task);
  // In the order of locks.
  std::sort(by_id.begin(), by_id.end(), [](const Task* a, const Task* b) { return a->id < b->id; });
  int64_t added = 0;
  for (const Task* task : by_id) {
    if (task->id.empty()) return Status(Code::kInvalidArgument, "a task without an id");
    if (!task->source_job.empty()) {
      // Keeps the lender from being deleted until this row stands.
      PF_ASSIGN(const SqlRows lender,
                session.Run(statements::kJobForShare, {{"job", task->source_job}}));
      if (lender.empty()) {
        return Status(Code::kNotFound, fmt::format("add task {}: no such source job: {}", task->id,
                                                   task->source_job));
      }
    }
    PF_ASSIGN(const SqlRows rows,
              session.Run(statements::kAddTask, {{"job", job},
                                                 {"task", task->id},
                                                 {"task_no", task->number},
                                                 {"kind", task->kind},
                                                 {"size_bytes", task->size_bytes},
                                                 {"group", task->group_key},
                                                 {"partition", task->partition_id},
                                                 {"source_job", task->source_job},
                                                 {"source_task", task->source_task},
                                                 {"payload", task->payload}}));
    if (rows.changed() == 0) {
      PF_TRY(CheckSameTask(session, job, *task));
      continue;
    }
    Task ready = *task;
    ready.state = TaskState::kReady;
    journal.Added(ready);
    ++added;
  }
  if (added == 0) return {};
  return journal.Note(
      {.event = "tasks_added", .to = "READY", .detail = fmt::format(R"({{"tasks":{}}})", added)});
}

}  // namespace

SqlJobStore::SqlJobStore(std::unique_ptr<SqlDb> db, std::string actor)
    : db_(std::move(db)), actor_(std::move(actor)) {}
SqlJobStore::~SqlJobStore() = default;

Result<JobId> SqlJobStore::CreateJob(const Context& ctx, const Plan& plan) {
  const JobSpec& job = plan.job;
  const std::string hash = SpecHash(job);
  return WriteFor<JobId>(ctx, *db_, [&](SqlSession& session) -> Result<JobId> {
    const JobId id = job.id.empty() ? MakeJobId(ctx.random) : job.id;
    const std::string key = job.key.empty() ? id : job.key;
    Result<SqlRows> made =
        session.Run(statements::kCreateJob, {{"job", id},
                                             {"kind", job.kind},
                                             {"key", key},
                                             {"spec_hash", hash},
                                             {"name", job.name},
                                             {"publish", PublishModeName(job.publish)},
                                             {"target", job.target},
                                             {"mode", ""},
                                             {"open_ttl_ms", 0},
                                             {"payload", job.spec}});
    if (!made.ok() && made.status().code() == Code::kAlreadyExists) {
      return Status(Code::kConflict, fmt::format("create job: the id has another key: {}", id))
          .Explain(6006, id, "use another --job-id");
    }
    PF_TRY(made);
    if (made->changed() == 0) {
      PF_ASSIGN(const SqlRows found, session.Run(statements::kFindJob, {{"key", key}}));
      if (found.empty())
        return Status(Code::kConflict, fmt::format("create job: it vanished: {}", key));
      if (found.row(0).Text(1) == hash) return found.row(0).String(0);
      return Status(Code::kConflict,
                    fmt::format("create job: the key belongs to job {} with another request: {}",
                                found.row(0).Text(0), key))
          .Explain(6006, key,
                   "use another --job-id, or the SQL, table, bucket and prefix of that job");
    }
    SqlJournal journal(session, id, actor_);
    PF_TRY(journal.Note({.event = "job_created", .to = "OPEN"}));
    PF_TRY(AddTasksIn(session, journal, id, plan.tasks));
    PF_TRY(journal.Close());
    return id;
  });
}

Status SqlJobStore::AddTasks(const Context& ctx, const JobId& job, std::span<const Task> tasks) {
  return db_->Write(ctx, [&](SqlSession& session) -> Status {
    // Shared, so that uploaders do not wait for each other, but Seal counts no half-added tasks.
    PF_ASSIGN(const SqlRows found, session.Run(statements::kJobForShare, {{"job", job}}));
    if (found.empty()) return NoSuchJob(job);
    SqlJournal journal(session, job, actor_);
    PF_TRY(AddTasksIn(session, journal, job, tasks));
    return journal.Close();
  });
}

Status SqlJobStore::Seal(const Context& ctx, const JobId& job, int64_t tasks) {
  return db_->Write(ctx, [&](SqlSession& session) -> Status {
    PF_ASSIGN(const SqlRows locked, session.Run(statements::kJobForUpdate, {{"job", job}}));
    if (locked.empty()) return NoSuchJob(job);
    PF_ASSIGN(const SqlRows sealed,
              session.Run(statements::kSeal, {{"job", job}, {"expected", tasks}}));
    if (sealed.changed() == 1) {
      SqlJournal journal(session, job, actor_);
      return journal.Note({.event = "job_sealed",
                           .from = "OPEN",
                           .to = "SEALED",
                           .detail = fmt::format(R"({{"tasks":{}}})", tasks)});
    }
    PF_ASSIGN(const SqlRows found, session.Run(statements::kOneJob, {{"job", job}}));
    const JobView view = ReadJobView(found.row(0));
    if (view.state == "SEALED" && view.tasks_expected == tasks) return {};
    return Status(Code::kConflict,
                  view.state == "OPEN"
                      ? fmt::format("seal job {}: it does not have this many tasks: {}", job, tasks)
                      : fmt::format("seal job {} with {} tasks: it is {} with {}", job, tasks,
                                    view.state, view.tasks_expected))
        .Explain(6006, job, "use another --job-id: this one was uploaded from another freeze");
  });
}

Status SqlJobStore::SetPaused(const Context& ctx, const JobId& job, bool is_paused) {
  return db_->Write(ctx, [&](SqlSession& session) -> Status {
    PF_ASSIGN(const SqlRows rows,
              session.Run(statements::kPause, {{"job", job}, {"paused", is_paused ? 1 : 0}}));
    if (rows.changed() == 0) return NoSuchJob(job);
    SqlJournal journal(session, job, actor_);
    return journal.Note({.event = is_paused ? "job_paused" : "job_resumed"});
  });
}

Status SqlJobStore::AbortJob(const Context& ctx, const JobId& job) {
  return db_->Write(ctx, [&](SqlSession& session) -> Status {
    PF_ASSIGN(const SqlRows locked, session.Run(statements::kJobForUpdate, {{"job", job}}));
    if (locked.empty()) return NoSuchJob(job);
    const std::string before = locked.row(0).String(0);
    if (before == "ABORTED") return {};
    PF_ASSIGN(const SqlRows aborting, session.Run(statements::kAbortJob, {{"job", job}}));
    if (aborting.changed() == 0 && before != "ABORTING") {
      return Status(Code::kConflict, fmt::format("abort job: it has a commit: {}", job));
    }
    // Their writers learn of it at the next renewal; what they announced is left for the cleaner.
    PF_TRY(session.Run(statements::kAbortJobAttempts, {{"job", job}}));
    PF_ASSIGN(const SqlRows done, session.Run(statements::kAbortJobDone, {{"job", job}}));
    const std::string_view after = done.changed() == 1 ? "ABORTED" : "ABORTING";
    if (before == after) return {};
    SqlJournal journal(session, job, actor_);
    return journal.Note({.event = "job_aborted", .from = before, .to = after});
  });
}

Result<int64_t> SqlJobStore::Finalize(const Context& ctx, const JobId& job) {
  return WriteFor<int64_t>(ctx, *db_, [&](SqlSession& session) -> Result<int64_t> {
    PF_ASSIGN(const SqlRows rows, session.Run(statements::kFinalize, {{"job", job}}));
    PF_ASSIGN(const std::vector<Task> tasks, ReadTasks(rows));
    SqlJournal journal(session, job, actor_);
    for (const Task& after : tasks) {
      Task before = after;
      before.state = TaskState::kCompactReady;
      PF_TRY(journal.Moved(before, after, "finalized"));
    }
    PF_TRY(journal.Close());
    return static_cast<int64_t>(tasks.size());
  });
}

}  // namespace partforge
