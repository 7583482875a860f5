#include <fmt/format.h>

#include <map>

#include "job/job_rows.h"
#include "job/sql_job_store.h"
#include "job/sql_job_store_rows.h"
#include "job/sql_journal.h"
#include "job/sql_statements.h"

// The reading half of SqlJobStore.
namespace partforge {
namespace {

Status FillCommits(SqlSession& session, const SqlRows& rows, std::map<JobId, JobView*>& views) {
  constexpr size_t kLiveCommitsMax = 1000;  // of a job, as JobView says
  for (size_t i = 0; i < rows.size(); ++i) {
    PF_ASSIGN(Commit commit, ReadCommit(rows.row(i)));
    const auto view = views.find(commit.job);
    if (view == views.end() || view->second->live_commits.size() >= kLiveCommitsMax) continue;
    PF_ASSIGN(commit.chosen, LoadChosenIds(session, commit.id));
    view->second->live_commits.push_back(std::move(commit));
  }
  return {};
}

}  // namespace

Result<std::vector<JobSpec>> SqlJobStore::OpenJobs(const Context& ctx) {
  PF_ASSIGN(const SqlRows rows, db_->RunAlone(ctx, statements::kOpenJobs, {}));
  std::vector<JobSpec> jobs;
  for (size_t i = 0; i < rows.size(); ++i) jobs.push_back(ReadJobSpec(rows.row(i)));
  return jobs;
}

Result<std::vector<JobView>> SqlJobStore::ListJobs(const Context& ctx) {
  return ReadFor<std::vector<JobView>>(
      ctx, *db_, [&](SqlSession& session) -> Result<std::vector<JobView>> {
        PF_ASSIGN(const SqlRows rows, session.Run(statements::kJobs, {}));
        PF_ASSIGN(const int64_t now_ms, StoreNow(session));
        std::vector<JobView> views(rows.size());
        std::map<JobId, JobView*> by_id;
        for (size_t i = 0; i < rows.size(); ++i) {
          views[i] = ReadJobView(rows.row(i));
          views[i].now_ms = now_ms;
          by_id[views[i].job.id] = &views[i];
        }
        PF_ASSIGN(const SqlRows counts, session.Run(statements::kAllCounts, {}));
        for (size_t i = 0; i < counts.size(); ++i) {
          const auto view = by_id.find(counts.row(i).String(0));
          if (view == by_id.end()) continue;
          PF_ASSIGN(const StateCount count, ReadStateCount(counts.row(i), 1));
          if (count.tasks != 0) view->second->counts.push_back(count);
        }
        PF_ASSIGN(const SqlRows sums, session.Run(statements::kAllTaskSums, {}));
        for (size_t i = 0; i < sums.size(); ++i) {
          const auto view = by_id.find(sums.row(i).String(0));
          if (view == by_id.end()) continue;
          view->second->updated_at_ms = sums.row(i).Int(1);
          view->second->work_started_at_ms = sums.row(i).Int(2);
          view->second->partitions_out = sums.row(i).Int(3);
        }
        PF_ASSIGN(const SqlRows commits, session.Run(statements::kAllLiveCommits, {}));
        PF_TRY(FillCommits(session, commits, by_id));
        return views;
      });
}

Result<JobView> SqlJobStore::View(const Context& ctx, const JobId& job) {
  return ReadFor<JobView>(ctx, *db_, [&](SqlSession& session) -> Result<JobView> {
    PF_ASSIGN(const SqlRows rows, session.Run(statements::kOneJob, {{"job", job}}));
    if (rows.empty()) return NoSuchJob(job);
    JobView view = ReadJobView(rows.row(0));
    PF_ASSIGN(view.now_ms, StoreNow(session));
    PF_ASSIGN(const SqlRows counts, session.Run(statements::kCounts, {{"job", job}}));
    for (size_t i = 0; i < counts.size(); ++i) {
      PF_ASSIGN(const StateCount count, ReadStateCount(counts.row(i), 0));
      if (count.tasks != 0) view.counts.push_back(count);
    }
    PF_ASSIGN(const SqlRows commits, session.Run(statements::kLiveCommits, {{"job", job}}));
    std::map<JobId, JobView*> by_id = {{job, &view}};
    PF_TRY(FillCommits(session, commits, by_id));
    return view;
  });
}

Result<TaskPage> SqlJobStore::Page(const Context& ctx, const JobId& job, TaskState state,
                                   std::string_view after, int64_t tasks_max) {
  if (tasks_max < 1)
    return Status(Code::kInvalidArgument, fmt::format("page of tasks: not a size: {}", tasks_max));
  PF_ASSIGN(
      const SqlRows rows,
      db_->RunAlone(
          ctx, statements::kPage,
          {{"job", job}, {"state", TaskStateName(state)}, {"after", after}, {"limit", tasks_max}}));
  TaskPage page;
  PF_ASSIGN(page.tasks, ReadTasks(rows));
  if (static_cast<int64_t>(page.tasks.size()) == tasks_max) page.next = page.tasks.back().id;
  return page;
}

Result<Task> SqlJobStore::GetTask(const Context& ctx, const JobId& job, const TaskId& task) {
  PF_ASSIGN(const SqlRows rows,
            db_->RunAlone(ctx, statements::kOneTask, {{"job", job}, {"task", task}}));
  if (rows.empty()) return NoSuchTask(job, task);
  return ReadTask(rows.row(0));
}

Result<std::vector<AttemptView>> SqlJobStore::Attempts(const Context& ctx, const JobId& job,
                                                       const TaskId& task) {
  PF_ASSIGN(const SqlRows rows,
            db_->RunAlone(ctx, statements::kAttempts, {{"job", job}, {"task", task}}));
  std::vector<AttemptView> attempts;
  for (size_t i = 0; i < rows.size(); ++i) attempts.push_back(ReadAttempt(rows.row(i)));
  return attempts;
}

Result<Commit> SqlJobStore::GetCommit(const Context& ctx, const CommitId& commit) {
  return ReadFor<Commit>(ctx, *db_, [&](SqlSession& session) {
    return LoadCommit(session, commit, WithResults::kYes);
  });
}

Result<std::vector<EventView>> SqlJobStore::Events(const Context& ctx, const JobId& job,
                                                   const TaskId& task, int64_t after_seq,
                                                   int64_t events_max) {
  PF_ASSIGN(
      const SqlRows rows,
      db_->RunAlone(ctx, statements::kEvents,
                    {{"job", job}, {"task", task}, {"after", after_seq}, {"limit", events_max}}));
  std::vector<EventView> events;
  for (size_t i = 0; i < rows.size(); ++i) events.push_back(ReadEvent(rows.row(i)));
  return events;
}

Status SqlJobStore::Note(const Context& ctx, const JobId& job, std::string_view event,
                         const Json& detail) {
  return db_->Write(ctx, [&](SqlSession& session) -> Status {
    PF_ASSIGN(const SqlRows rows, session.Run(statements::kOneJob, {{"job", job}}));
    if (rows.empty()) return NoSuchJob(job);
    SqlJournal journal(session, job, "note");
    return journal.Note({.event = event, .detail = detail});
  });
}

}  // namespace partforge
