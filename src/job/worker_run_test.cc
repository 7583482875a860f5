// Worker::Run: threads and the real clock.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <functional>
#include <future>
#include <mutex>
#include <set>
#include <thread>

#include "job/failure.h"
#include "job/worker.h"
#include "testing/copy_world.h"
#include "testing/test_world.h"

namespace partforge {
namespace {

using testing::CopyRequest;
using testing::CopyWorld;
using testing::LambdaExecutor;

// A CopyWorld whose store and worker live on the machine's clock.
class WorkerRun : public ::testing::Test {
 protected:
  WorkerRun() : jobs_(real_clock_) { world_.world.UseClock(real_clock_); }

  void MakeJob(int64_t lines, const CopyRequest& request) {
    world_.Register();
    world_.MakeJob(lines, request);
    // The world's own store stands on a simulated clock; the job is made again in ours.
    std::vector<Task> tasks = world_.Tasks(TaskState::kReady);
    Plan plan;
    plan.job = world_.jobs.View(world_.ctx(), CopyWorld::kJob)->job;
    plan.tasks = tasks;
    ASSERT_TRUE(jobs_.CreateJob(world_.ctx(), plan).ok());
    ASSERT_TRUE(jobs_.Seal(world_.ctx(), CopyWorld::kJob, std::ssize(tasks)).ok());
  }

  WorkerOptions Options() {
    WorkerOptions options;
    options.name = "w";
    options.parallel = 4;
    options.poll_ms = 20;
    options.maintain_interval_ms = 20;
    options.lease_ms = 5'000;
    options.only = {CopyWorld::kJob};
    options.until = RunUntil::kJobsDone;
    return options;
  }

  std::unique_ptr<Worker> Open(const WorkerOptions& options) {
    auto worker = Worker::Open(world_.ctx(), jobs_, world_.kinds, options);
    EXPECT_TRUE(worker.ok()) << worker.status().ToString();
    return std::move(worker).value();
  }

  int64_t CountOf(TaskState state) {
    int64_t count = 0;
    jobs_.ForEachTask([&](const Task& task) { count += task.state == state ? 1 : 0; });
    return count;
  }

  SystemClock real_clock_;
  CopyWorld world_;
  testing::MemoryJobStore jobs_;
};

TEST_F(WorkerRun, SlotsFinishAJobTogetherAndTheRunEnds) {
  MakeJob(40, {.lines_per_task = 1});
  const auto summary = Open(Options())->Run(world_.ctx());
  ASSERT_TRUE(summary.ok()) << summary.status().ToString();
  EXPECT_EQ(summary->done, 40);
  EXPECT_EQ(CountOf(TaskState::kImported), 40);
  EXPECT_EQ(world_.TableLines(), world_.SourceLines());
}

TEST_F(WorkerRun, CompactionEndsToo) {
  MakeJob(12, {.lines_per_task = 1, .compaction = CopyRequest::Compaction::kYes});
  const auto summary = Open(Options())->Run(world_.ctx());
  ASSERT_TRUE(summary.ok()) << summary.status().ToString();
  EXPECT_EQ(CountOf(TaskState::kImported), 1);
  EXPECT_EQ(world_.TableLines(), world_.SourceLines());
}

TEST_F(WorkerRun, TwoWorkersShareAJob) {
  MakeJob(30, {.lines_per_task = 1});
  WorkerOptions second_options = Options();
  second_options.name = "w2";
  const auto first = Open(Options());
  const auto second = Open(second_options);
  const Context ctx = world_.ctx();
  auto other = std::async(std::launch::async, [&] { return second->Run(ctx); });
  const auto ours = first->Run(ctx);
  const auto theirs = other.get();
  ASSERT_TRUE(ours.ok() && theirs.ok());
  EXPECT_EQ(ours->done + theirs->done, 30);
  EXPECT_EQ(world_.TableLines(), world_.SourceLines());
}

// With a lease ahead the next task is fetched while the slot's engine is busy, and one task at a
// time has the engine.
TEST_F(WorkerRun, ALeaseAheadOverlapsWithTheEngineAndNeverSharesIt) {
  testing::TempDir folder;
  std::atomic<int> fetched = 0, in_engine = 0, in_engine_most = 0;
  std::set<std::filesystem::path> slot_paths;
  std::mutex mutex;
  LambdaExecutor executor(
      [&](const Context& ctx, const Lease& lease, TaskScope& scope) -> Result<Settlement> {
        EXPECT_FALSE(scope.scratch().empty());
        ++fetched;
        PF_ASSIGN(const std::shared_ptr<void> permit, scope.Enter(ctx, Stage::kEngine));
        in_engine_most = std::max(in_engine_most.load(), ++in_engine);
        EXPECT_EQ(scope.slot(), 0);
        {
          const std::lock_guard lock(mutex);
          slot_paths.insert(scope.slot_path());
        }
        // The first holds the engine until the second has done what needs none: for ever, if
        // nothing overlapped.
        while (fetched < 2 && !ctx.IsStopping()) ctx.clock.SleepMs(1, ctx.stop);
        --in_engine;
        return world_.executor.Execute(ctx, lease, scope);
      });
  world_.kind.executor = &executor;
  MakeJob(4, {.lines_per_task = 1});
  WorkerOptions options = Options();
  options.parallel = 1;
  options.ahead = 1;
  options.work_dir = folder.path();
  const auto summary = Open(options)->Run(world_.ctx());
  ASSERT_TRUE(summary.ok()) << summary.status().ToString();
  EXPECT_EQ(summary->done, 4);
  EXPECT_EQ(in_engine_most, 1);
  EXPECT_EQ(slot_paths.size(), 1u);
  EXPECT_EQ(world_.TableLines(), world_.SourceLines());
}

TEST_F(WorkerRun, LeasesOfLongTasksAreRenewed) {
  LambdaExecutor executor(
      [&](const Context& ctx, const Lease& lease, TaskScope& scope) -> Result<Settlement> {
        for (int i = 0; i < 10; ++i) {
          ctx.clock.SleepMs(60, ctx.stop);
          PF_TRY(scope.CheckLease());
        }
        return world_.executor.Execute(ctx, lease, scope);
      });
  world_.kind.executor = &executor;
  MakeJob(2, {.lines_per_task = 2});
  WorkerOptions options = Options();
  options.lease_ms = 300;
  const auto summary = Open(options)->Run(world_.ctx());
  ASSERT_TRUE(summary.ok());
  EXPECT_EQ(summary->done, 1);
  EXPECT_EQ(summary->lost, 0);
}

TEST_F(WorkerRun, AStopHandsBackWhatIsNotDoneAndSettlesWhatIs) {
  std::atomic<int> running = 0;
  LambdaExecutor executor(
      [&](const Context& ctx, const Lease& lease, TaskScope& scope) -> Result<Settlement> {
        const bool is_done_in_time = lease.tasks.front().id == "copy-000000";
        Result<Settlement> settlement = world_.executor.Execute(ctx, lease, scope);
        if (++running == 4) world_.world.RequestStop();
        while (!ctx.IsStopping()) ctx.clock.SleepMs(5, ctx.stop);
        if (is_done_in_time) return settlement;
        return ctx.CheckStop("copy");
      });
  world_.kind.executor = &executor;
  MakeJob(8, {.lines_per_task = 1});
  const int64_t started_ms = MonotonicMs();
  WorkerOptions options = Options();
  options.until = RunUntil::kStopped;
  const auto summary = Open(options)->Run(world_.ctx());
  EXPECT_LT(MonotonicMs() - started_ms, 5'000);
  ASSERT_TRUE(summary.ok()) << summary.status().ToString();
  EXPECT_EQ(summary->done, 1);
  EXPECT_GE(summary->released, 3);  // more when the stop met a claim on its way
  EXPECT_EQ(CountOf(TaskState::kFinished), 1);
  EXPECT_EQ(CountOf(TaskState::kReady), 7);
  EXPECT_EQ(CountOf(TaskState::kInProgress), 0);
}

TEST_F(WorkerRun, AnEnvironmentThatRefusesEverythingEndsTheRun) {
  LambdaExecutor executor([](const Context&, const Lease& lease, TaskScope&) -> Result<Settlement> {
    const Failure failure =
        FailureFrom(Status(Code::kRefused, "403 AccessDenied").Explain(7003, "s3", "rights"));
    return ReleasedSettlement(lease, &failure, 60'000);
  });
  world_.kind.executor = &executor;
  MakeJob(2, {.lines_per_task = 1});
  WorkerOptions options = Options();
  options.until = RunUntil::kStopped;
  options.environment_patience_ms = 0;
  const auto summary = Open(options)->Run(world_.ctx());
  ASSERT_FALSE(summary.ok());
  EXPECT_EQ(summary.status().code(), Code::kInternal);
  EXPECT_EQ(summary.status().explanation().pf_number, 7003);
  EXPECT_EQ(CountOf(TaskState::kReady), 2);
}

TEST_F(WorkerRun, OnceIsOneWorkItem) {
  MakeJob(3, {.lines_per_task = 1});
  WorkerOptions options = Options();
  options.until = RunUntil::kOnce;
  const auto worker = Open(options);
  ASSERT_TRUE(worker->Run(world_.ctx()).ok());
  EXPECT_EQ(CountOf(TaskState::kFinished), 1);
  ASSERT_TRUE(worker->Run(world_.ctx()).ok());
  ASSERT_TRUE(worker->Run(world_.ctx()).ok());
  EXPECT_EQ(worker->summary().done, 3);
  ASSERT_TRUE(worker->Run(world_.ctx()).ok());
  EXPECT_EQ(worker->summary().commits_carried, 1);
  EXPECT_EQ(CountOf(TaskState::kImported), 3);
}

TEST_F(WorkerRun, StagesAreSharedByTheSlots) {
  std::atomic<int> inside = 0, most = 0;
  LambdaExecutor executor(
      [&](const Context& ctx, const Lease& lease, TaskScope& scope) -> Result<Settlement> {
        {
          PF_ASSIGN(const auto permit, scope.Enter(ctx, Stage::kEngine));
          most = std::max<int>(most, ++inside);
          ctx.clock.SleepMs(2, ctx.stop);
          --inside;
        }
        return world_.executor.Execute(ctx, lease, scope);
      });
  world_.kind.executor = &executor;
  MakeJob(12, {.lines_per_task = 1});
  WorkerOptions options = Options();
  options.permits = StagePermits::Limits{.network = 4, .engine = 2, .cpu = 4};
  ASSERT_TRUE(Open(options)->Run(world_.ctx()).ok());
  EXPECT_LE(most, 2);
  EXPECT_EQ(CountOf(TaskState::kImported), 12);
}

TEST_F(WorkerRun, AJobThatCannotBePublishedEndsTheRunWithItsReason) {
  class Refusing final : public Committer {
   public:
    Result<Prepared> Prepare(const Context&, const Commit&) override {
      return Status(Code::kRefused, "the target has another schema");
    }
    Result<Staged> Stage(const Context&, const Commit&, CommitScope&) override { return Staged{}; }
    Status Take(const Context&, const Commit&, CommitScope&) override { return {}; }
    Result<Evidence> Inspect(const Context&, const Commit&, CommitScope&) override {
      return Evidence::kNotApplied;
    }
    Result<Json> Apply(const Context&, const Commit&, CommitScope&) override { return Json("{}"); }
    Status Retract(const Context&, const Commit&, CommitScope&) override { return {}; }
    Status Clean(const Context&, const Commit&, CommitScope&) override { return {}; }
  };
  Refusing committer;
  world_.kind.committer = &committer;
  MakeJob(2, {.lines_per_task = 1});
  const auto summary = Open(Options())->Run(world_.ctx());
  ASSERT_FALSE(summary.ok());
  EXPECT_EQ(summary.status().code(), Code::kRefused);
}

}  // namespace
}  // namespace partforge
