#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "job/kind.h"
#include "testing/copy_kind.h"
#include "testing/memory_job_store.h"
#include "testing/memory_store.h"
#include "testing/sim_clock.h"
#include "testing/test_world.h"

namespace partforge::testing {

// An executor of one function.
class LambdaExecutor final : public Executor {
 public:
  using Body = std::function<Result<Settlement>(const Context&, const Lease&, TaskScope&)>;
  explicit LambdaExecutor(Body body) : body_(std::move(body)) {}
  Result<Settlement> Execute(const Context& ctx, const Lease& lease, TaskScope& scope) override {
    return body_(ctx, lease, scope);
  }

 private:
  const Body body_;
};

// A job of copy tasks with everything it needs, in memory and on a clock that only sleeping moves.
// The kind stands in `kind` until Register() puts it into the table; change it before.
class CopyWorld {
 public:
  CopyWorld();

  Context ctx() { return world.context(); }
  void Register();

  // The source has the lines "line 0" … and the job is sealed.
  void MakeJob(int64_t lines, const CopyRequest& request = {},
               PublishMode publish = PublishMode::kAuto);
  std::vector<std::string> SourceLines() const;
  std::vector<std::string> TableLines();  // sorted
  std::vector<Task> Tasks(TaskState state);
  int64_t CountOf(TaskState state) { return std::ssize(Tasks(state)); }
  std::vector<Commit> Commits();

  static constexpr const char* kJob = "job-copy";

  TestWorld world;
  SimClock clock;
  MemoryStore store;
  MemoryJobStore jobs{clock};
  CopyPlanner planner{store};
  CopyExecutor executor{store};
  CopyBatchExecutor batch_executor{store};
  CopyCommitter committer{store};
  JobKind kind;
  KindTable kinds;

 private:
  int64_t lines_ = 0;
};

}  // namespace partforge::testing
