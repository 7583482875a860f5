#pragma once

#include <string>
#include <vector>

#include "job/job_store.h"

namespace partforge::testing {

// A store's reading half, under which one task moves so that it is on no page for a while; asked by
// its id it is always there. One thread at a time.
class MovingReader final : public StateReader {
 public:
  explicit MovingReader(StateReader& store) : store_(store) {}

  // Leaves the task out of so many pages to come.
  void Hide(std::string task, int64_t pages) {
    hidden_ = std::move(task);
    pages_ = pages;
  }

  Result<TaskPage> Page(const Context& ctx, const JobId& job, TaskState state,
                        std::string_view after, int64_t tasks_max) override {
    PF_ASSIGN(TaskPage page, store_.Page(ctx, job, state, after, tasks_max));
    if (pages_-- > 0)
      std::erase_if(page.tasks, [this](const Task& task) { return task.id == hidden_; });
    return page;
  }

  Result<std::vector<JobSpec>> OpenJobs(const Context& ctx) override {
    return store_.OpenJobs(ctx);
  }
  Result<std::vector<JobView>> ListJobs(const Context& ctx) override {
    return store_.ListJobs(ctx);
  }
  Result<JobView> View(const Context& ctx, const JobId& job) override {
    return store_.View(ctx, job);
  }
  Result<Task> GetTask(const Context& ctx, const JobId& job, const TaskId& task) override {
    return store_.GetTask(ctx, job, task);
  }
  Result<std::vector<AttemptView>> Attempts(const Context& ctx, const JobId& job,
                                            const TaskId& task) override {
    return store_.Attempts(ctx, job, task);
  }
  Result<Commit> GetCommit(const Context& ctx, const CommitId& commit) override {
    return store_.GetCommit(ctx, commit);
  }
  Result<std::vector<Piece>> Pieces(const Context& ctx, const CommitId& commit) override {
    return store_.Pieces(ctx, commit);
  }
  Result<std::vector<Thing>> Things(const Context& ctx, const JobId& job) override {
    return store_.Things(ctx, job);
  }
  Result<std::vector<EventView>> Events(const Context& ctx, const JobId& job, const TaskId& task,
                                        int64_t after_seq, int64_t events_max) override {
    return store_.Events(ctx, job, task, after_seq, events_max);
  }
  Status Note(const Context& ctx, const JobId& job, std::string_view event,
              const Json& detail) override {
    return store_.Note(ctx, job, event, detail);
  }

 private:
  StateReader& store_;
  std::string hidden_;
  int64_t pages_ = 0;
};

}  // namespace partforge::testing
