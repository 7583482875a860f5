#include "job/worker.h"

#include <gtest/gtest.h>

#include <functional>
#include <new>
#include <set>
#include <stdexcept>

#include "job/failure.h"
#include "testing/copy_world.h"
#include "testing/faulty_store.h"
#include "testing/hooked_job_store.h"

namespace partforge {
namespace {

using testing::CopyRequest;
using testing::CopyWorld;
using testing::LambdaExecutor;

WorkerOptions StepOptions(const std::string& name) {
  WorkerOptions options;
  options.name = name;
  options.renewal = Renewal::kByCaller;
  return options;
}

std::unique_ptr<Worker> OpenWorker(CopyWorld& world, WorkerOptions options,
                                   JobStore* store = nullptr) {
  auto worker = Worker::Open(world.ctx(), store == nullptr ? world.jobs : *store, world.kinds,
                             std::move(options));
  EXPECT_TRUE(worker.ok()) << worker.status().ToString();
  return std::move(worker).value();
}

// Steps until nothing has happened for long enough that every lease and back-off is over.
void StepUntilQuiet(CopyWorld& world, Worker& worker) {
  int64_t quiet = 0;
  for (int steps = 0; steps < 2'000 && quiet < 20; ++steps) {
    const auto stepped = worker.Step(world.ctx());
    const bool has_worked = stepped.ok() && *stepped == Stepped::kWorked;
    // Maintenance counts as work, so what matters is whether any task is left to be moved.
    quiet = has_worked && world.CountOf(TaskState::kReady) > 0 ? 0 : quiet + 1;
    if (!has_worked) world.clock.Advance(10'000);
  }
}

TEST(Worker, StepsCarryAJobToItsEnd) {
  CopyWorld world;
  world.Register();
  world.MakeJob(7, {.lines_per_task = 2});
  const auto worker = OpenWorker(world, StepOptions("w"));
  StepUntilQuiet(world, *worker);
  EXPECT_EQ(world.TableLines(), world.SourceLines());
  EXPECT_EQ(world.CountOf(TaskState::kImported), 4);
  ASSERT_EQ(world.Commits().size(), 1u);  // a lake job is one commit
  EXPECT_EQ(world.Commits()[0].state, CommitState::kCleaned);
  EXPECT_EQ(worker->summary().done, 4);
}

TEST(Worker, BatchesAreCompactedAndTheRestIsFinishedByThePlanner) {
  CopyWorld world;
  world.Register();
  world.MakeJob(9, {.lines_per_task = 1, .compaction = CopyRequest::Compaction::kYes});
  WorkerOptions options = StepOptions("w");
  options.batch_tasks_max = 4;
  const auto worker = OpenWorker(world, options);
  StepUntilQuiet(world, *worker);
  EXPECT_EQ(world.TableLines(), world.SourceLines());
  EXPECT_EQ(world.CountOf(TaskState::kImported), 1);
  EXPECT_EQ(world.CountOf(TaskState::kSuperseded), 9 + 2);
}

// Whatever fails at whatever point, the table is right at the end.
TEST(Worker, AnyFaultPointMayFail) {
  std::set<std::string> points;
  for (int64_t nth = 1;; ++nth) {
    CopyWorld world;
    testing::FailNth faults(nth);
    world.world.UseFaults(faults);
    world.Register();
    world.MakeJob(5, {.lines_per_task = 2, .compaction = CopyRequest::Compaction::kYes});
    // A failure may leave a lease behind; another worker takes over, as after a crash.
    const auto first = OpenWorker(world, StepOptions("w1"));
    for (int steps = 0; steps < 30; ++steps) {
      if (!first->Step(world.ctx()).ok()) break;
      world.clock.Advance(2'000);
    }
    world.clock.Advance(120'000);
    const auto second = OpenWorker(world, StepOptions("w2"));
    StepUntilQuiet(world, *second);
    ASSERT_EQ(world.TableLines(), world.SourceLines())
        << "after a fault at " << faults.fired_point();
    ASSERT_EQ(world.CountOf(TaskState::kFailed), 0) << "after a fault at " << faults.fired_point();
    if (!faults.has_fired()) break;
    points.insert(faults.fired_point());
  }
  for (const char* point :
       {"job.claimed", "job.claimed_batch", "job.settled", "job.replanned", "publish.decided",
        "publish.fenced", "publish.staged", "publish.bound", "publish.applied", "publish.published",
        "publish.swept", "publish.cleaned"}) {
    EXPECT_TRUE(points.contains(point)) << point;
  }
}

TEST(Worker, AnyReplyOfTheJobStoreMayBeLost) {
  for (int64_t nth = 1;; ++nth) {
    CopyWorld world;
    world.Register();
    world.MakeJob(4, {.lines_per_task = 2});
    int64_t calls = 0;
    std::string lost;
    testing::HookedJobStore store(world.jobs, nullptr, [&](std::string_view call) -> Status {
      if (++calls != nth) return {};
      lost = call;
      return Status(Code::kUnknownOutcome, "the reply is lost");
    });
    const auto worker = OpenWorker(world, StepOptions("w"), &store);
    StepUntilQuiet(world, *worker);
    ASSERT_EQ(world.TableLines(), world.SourceLines()) << "after a lost reply of " << lost;
    ASSERT_EQ(world.CountOf(TaskState::kImported), 2) << "after a lost reply of " << lost;
    if (lost.empty()) break;
  }
}

TEST(Worker, AnyRequestToTheObjectStoreMayFail) {
  using testing::StoreFault;
  for (const StoreFault fault : {StoreFault::kRefused, StoreFault::kLostReply, StoreFault::kCut}) {
    for (int64_t nth = 1;; ++nth) {
      CopyWorld world;
      testing::FaultyStore store(world.store);
      testing::CopyExecutor executor(store);
      testing::CopyBatchExecutor batch_executor(store);
      testing::CopyCommitter committer(store);
      world.kind.executor = &executor;
      world.kind.batch_executor = &batch_executor;
      world.kind.committer = &committer;
      world.Register();
      world.MakeJob(4, {.lines_per_task = 2, .compaction = CopyRequest::Compaction::kYes});
      store.FailAt(nth, fault);
      const auto worker = OpenWorker(world, StepOptions("w"));
      StepUntilQuiet(world, *worker);
      ASSERT_EQ(world.TableLines(), world.SourceLines())
          << "request " << nth << ", fault " << static_cast<int>(fault);
      ASSERT_EQ(world.CountOf(TaskState::kFailed), 0) << "request " << nth;
      if (!store.has_fired()) break;
    }
  }
}

TEST(Worker, ASettlementWhoseReplyIsLostIsNotMadeTwice) {
  CopyWorld world;
  world.Register();
  world.MakeJob(2, {.lines_per_task = 2});
  int64_t settles = 0;
  testing::HookedJobStore store(world.jobs, nullptr, [&](std::string_view call) -> Status {
    if (call != "job.settle" || ++settles > 1) return {};
    return Status(Code::kUnknownOutcome, "the reply is lost");
  });
  const auto worker = OpenWorker(world, StepOptions("w"), &store);
  ASSERT_TRUE(worker->Step(world.ctx()).ok());
  EXPECT_EQ(settles, 1);
  EXPECT_EQ(worker->summary().done, 1);
}

TEST(Worker, ATaskThatFailsEndsNeitherTheWorkerNorItsJobsOtherTasks) {
  CopyWorld world;
  LambdaExecutor executor(
      [&](const Context& ctx, const Lease& lease, TaskScope& scope) -> Result<Settlement> {
        if (lease.tasks.front().id == "copy-000000") {
          return Status(Code::kCorruption, "#246 the bytes are wrong");
        }
        return world.executor.Execute(ctx, lease, scope);
      });
  world.kind.executor = &executor;
  world.Register();
  world.MakeJob(6, {.lines_per_task = 2});
  const auto worker = OpenWorker(world, StepOptions("w"));
  StepUntilQuiet(world, *worker);
  const auto failed = world.Tasks(TaskState::kFailed);
  ASSERT_EQ(failed.size(), 1u);
  EXPECT_EQ(failed[0].failure_class, "data");
  EXPECT_EQ(failed[0].failure_code, 246);
  EXPECT_NE(failed[0].payload.find("the bytes are wrong"), std::string::npos);
  EXPECT_EQ(world.CountOf(TaskState::kImported), 2);
}

TEST(Worker, AnExceptionIsTheTasksFailure) {
  CopyWorld world;
  LambdaExecutor executor([](const Context&, const Lease&, TaskScope&) -> Result<Settlement> {
    throw std::runtime_error("a library threw");
  });
  world.kind.executor = &executor;
  world.Register();
  world.MakeJob(2, {.lines_per_task = 2});
  const auto worker = OpenWorker(world, StepOptions("w"));
  ASSERT_TRUE(worker->Step(world.ctx()).ok());
  const auto failed = world.Tasks(TaskState::kFailed);
  ASSERT_EQ(failed.size(), 1u);
  EXPECT_EQ(failed[0].failure_class, "internal");
  EXPECT_NE(failed[0].payload.find("a library threw"), std::string::npos);
}

TEST(Worker, MemoryThatRanOutIsTriedAgainLater) {
  CopyWorld world;
  int64_t runs = 0;
  LambdaExecutor executor(
      [&](const Context& ctx, const Lease& lease, TaskScope& scope) -> Result<Settlement> {
        if (++runs == 1) throw std::bad_alloc();
        return world.executor.Execute(ctx, lease, scope);
      });
  world.kind.executor = &executor;
  world.Register();
  world.MakeJob(2, {.lines_per_task = 2});
  const auto worker = OpenWorker(world, StepOptions("w"));
  ASSERT_TRUE(worker->Step(world.ctx()).ok());
  ASSERT_EQ(world.CountOf(TaskState::kReady), 1);
  EXPECT_EQ(world.Tasks(TaskState::kReady)[0].failure_class, "resource");
  EXPECT_GT(world.Tasks(TaskState::kReady)[0].not_before_ms, world.clock.NowMs());
  ASSERT_TRUE(worker->Step(world.ctx()).ok());
  EXPECT_EQ(runs, 1) << "the back-off is not over";
  world.clock.Advance(2'000);
  ASSERT_TRUE(worker->Step(world.ctx()).ok());
  EXPECT_EQ(world.CountOf(TaskState::kFinished), 1);
}

TEST(Worker, ATaskIsFailedAfterSoManyAttempts) {
  CopyWorld world;
  LambdaExecutor executor([](const Context&, const Lease&, TaskScope&) -> Result<Settlement> {
    return Status(Code::kUnavailable, "nobody answers");
  });
  world.kind.executor = &executor;
  world.Register();
  world.MakeJob(2, {.lines_per_task = 2});
  WorkerOptions options = StepOptions("w");
  options.attempts_max = 3;
  const auto worker = OpenWorker(world, options);
  StepUntilQuiet(world, *worker);
  const auto failed = world.Tasks(TaskState::kFailed);
  ASSERT_EQ(failed.size(), 1u);
  EXPECT_EQ(failed[0].attempts, 3);
  EXPECT_EQ(failed[0].failure_class, "transient");
}

TEST(Worker, ThreeEqualSqlFailuresPauseTheJob) {
  CopyWorld world;
  LambdaExecutor executor([](const Context&, const Lease&, TaskScope&) -> Result<Settlement> {
    return Status(Code::kInvalidArgument, "#62 syntax error");
  });
  world.kind.executor = &executor;
  world.Register();
  world.MakeJob(6, {.lines_per_task = 1});
  const auto worker = OpenWorker(world, StepOptions("w"));
  StepUntilQuiet(world, *worker);
  EXPECT_EQ(world.CountOf(TaskState::kFailed), 3);
  EXPECT_EQ(world.CountOf(TaskState::kReady), 3);
  EXPECT_TRUE(world.jobs.View(world.ctx(), CopyWorld::kJob)->is_paused);
}

TEST(Worker, FailuresThatDifferOrComeAfterASuccessPauseNothing) {
  CopyWorld world;
  int64_t runs = 0;
  LambdaExecutor executor(
      [&](const Context& ctx, const Lease& lease, TaskScope& scope) -> Result<Settlement> {
        if (++runs == 3) return world.executor.Execute(ctx, lease, scope);
        return Status(Code::kInvalidArgument, "#62 syntax error");
      });
  world.kind.executor = &executor;
  world.Register();
  world.MakeJob(6, {.lines_per_task = 1});
  const auto worker = OpenWorker(world, StepOptions("w"));
  StepUntilQuiet(world, *worker);
  EXPECT_EQ(world.CountOf(TaskState::kFailed), 5);
  EXPECT_FALSE(world.jobs.View(world.ctx(), CopyWorld::kJob)->is_paused);
}

TEST(Worker, AResultOfALeaseThatWasTakenOverIsDropped) {
  CopyWorld world;
  LambdaExecutor executor(
      [&](const Context& ctx, const Lease& lease, TaskScope& scope) -> Result<Settlement> {
        if (lease.owner == "slow") {
          world.clock.Advance(61'000);
          ReapRules rules;
          EXPECT_EQ(*world.jobs.Reap(ctx, rules), 1);
          EXPECT_TRUE(OpenWorker(world, StepOptions("fast"))->Step(ctx).ok());
          EXPECT_EQ(scope.CheckLease().code(), Code::kLeaseLost);
        }
        return world.executor.Execute(ctx, lease, scope);
      });
  world.kind.executor = &executor;
  world.Register();
  world.MakeJob(2, {.lines_per_task = 2});
  const auto slow = OpenWorker(world, StepOptions("slow"));
  ASSERT_TRUE(slow->Step(world.ctx()).ok());
  EXPECT_EQ(slow->summary().lost, 1);
  ASSERT_EQ(world.CountOf(TaskState::kFinished), 1);
  EXPECT_EQ(world.Tasks(TaskState::kFinished)[0].winner, 2u);
}

// A worker that takes three tasks as one lease, and loses it while it works on them.
class LosesItsLease : public ::testing::Test {
 protected:
  // `meanwhile` is what others do. All three tasks count as lost.
  void StepWhile(std::function<void(const Context&, const Lease&)> meanwhile) {
    meanwhile_ = std::move(meanwhile);
    world_.kind.executor = &executor_;
    world_.kind.gatherer = &gatherer_;
    world_.Register();
    world_.MakeJob(3, {.lines_per_task = 1});
    const auto slow = OpenWorker(world_, StepOptions("slow"));
    ASSERT_TRUE(slow->Step(world_.ctx()).ok());
    EXPECT_EQ(slow->summary().lost, 3);
  }

  CopyWorld world_;
  const testing::CopyGatherer gatherer_{3};
  std::function<void(const Context&, const Lease&)> meanwhile_;
  LambdaExecutor executor_{
      [this](const Context& ctx, const Lease& lease, TaskScope& scope) -> Result<Settlement> {
        if (lease.owner == "slow") meanwhile_(ctx, lease);
        return world_.executor.Execute(ctx, lease, scope);
      }};
};

TEST_F(LosesItsLease, EveryTaskOfItCountsAsLost) {
  StepWhile([this](const Context& ctx, const Lease& lease) {
    EXPECT_EQ(lease.tasks.size(), 3u);
    world_.clock.Advance(61'000);
    EXPECT_EQ(*world_.jobs.Reap(ctx, ReapRules{}), 3);
  });
  EXPECT_EQ(world_.CountOf(TaskState::kReady), 3);
}

TEST_F(LosesItsLease, WhenOneTaskIsGoneTheOthersAreHandedBackAtOnce) {
  StepWhile([this](const Context& ctx, const Lease& lease) {
    Lease one = lease;
    one.tasks.erase(one.tasks.begin() + 1, one.tasks.end());
    EXPECT_TRUE(world_.jobs.Settle(ctx, one, ReleasedSettlement(one, nullptr, 0)).ok());
  });
  ASSERT_EQ(world_.CountOf(TaskState::kReady), 3);
  for (const Task& task : world_.Tasks(TaskState::kReady)) {
    EXPECT_EQ(task.crashes, 0);
    EXPECT_EQ(task.failure_class, "");
  }
  const auto other = OpenWorker(world_, StepOptions("other"));
  ASSERT_TRUE(other->Step(world_.ctx()).ok());
  EXPECT_EQ(world_.CountOf(TaskState::kSuperseded), 3);
}

TEST(Worker, ALeaseThatRanOutButWasNotTakenIsStillSettled) {
  CopyWorld world;
  LambdaExecutor executor([&](const Context& ctx, const Lease& lease, TaskScope& scope) {
    auto settlement = world.executor.Execute(ctx, lease, scope);
    world.clock.Advance(200'000);
    return settlement;
  });
  world.kind.executor = &executor;
  world.Register();
  world.MakeJob(2, {.lines_per_task = 2});
  ASSERT_TRUE(OpenWorker(world, StepOptions("w"))->Step(world.ctx()).ok());
  EXPECT_EQ(world.CountOf(TaskState::kFinished), 1);
}

TEST(Worker, AnUnreachableTargetIsLeftToOthers) {
  CopyWorld world;
  world.kind.committer = nullptr;
  world.Register();
  world.MakeJob(4, {.lines_per_task = 2});
  const auto worker = OpenWorker(world, StepOptions("w"));
  StepUntilQuiet(world, *worker);
  EXPECT_EQ(world.CountOf(TaskState::kFinished), 2);
  EXPECT_TRUE(world.Commits().empty());
}

TEST(Worker, RolesTakeOnlyTheirKindOfWork) {
  CopyWorld world;
  world.Register();
  world.MakeJob(4, {.lines_per_task = 1, .compaction = CopyRequest::Compaction::kYes});
  WorkerOptions options = StepOptions("batches");
  options.role = WorkerRole::kBatches;
  StepUntilQuiet(world, *OpenWorker(world, options));
  EXPECT_EQ(world.CountOf(TaskState::kReady), 4);
  options = StepOptions("tasks");
  options.role = WorkerRole::kTasks;
  StepUntilQuiet(world, *OpenWorker(world, options));
  EXPECT_EQ(world.CountOf(TaskState::kCompactReady), 4);
}

TEST(Worker, AfterADiskFailureOnlySmallerTasksAreTaken) {
  CopyWorld world;
  std::vector<int64_t> sizes;
  LambdaExecutor executor(
      [&](const Context& ctx, const Lease& lease, TaskScope& scope) -> Result<Settlement> {
        sizes.push_back(lease.tasks.front().size_bytes);
        if (sizes.size() > 1) return world.executor.Execute(ctx, lease, scope);
        Failure failure;
        failure.failure_class = FailureClass::kDisk;
        failure.status = Status(Code::kExhausted, "no space left");
        return ReleasedSettlement(lease, &failure, 1'000);
      });
  world.kind.executor = &executor;
  world.Register();
  world.MakeJob(4, {.lines_per_task = 1});
  Plan plan;
  plan.job = testing::MakeCopyJob("job-big", "testing.copy", {.source = "source", .target = "big"});
  Task big = world.Tasks(TaskState::kReady)[0];
  big.id = "big";
  big.size_bytes = 100;
  plan.tasks = {big};
  ASSERT_TRUE(world.jobs.CreateJob(world.ctx(), plan).ok());
  WorkerOptions options = StepOptions("w");
  options.role = WorkerRole::kTasks;
  const auto worker = OpenWorker(world, options);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(worker->Step(world.ctx()).ok());
  EXPECT_EQ(sizes, (std::vector<int64_t>{100, 1, 1}));
  EXPECT_EQ(world.Tasks(TaskState::kReady).front().failure_class, "disk");
}

TEST(Worker, OnlyTasksThatFitAreAdmitted) {
  CopyWorld world;
  world.Register();
  world.MakeJob(4, {.lines_per_task = 2});
  WorkerOptions options = StepOptions("w");
  int64_t room_bytes = 1;
  options.size_bytes_max = [&](const Context&) -> Result<int64_t> { return room_bytes; };
  const auto worker = OpenWorker(world, options);
  StepUntilQuiet(world, *worker);
  EXPECT_EQ(world.CountOf(TaskState::kReady), 2);
  room_bytes = 2;
  StepUntilQuiet(world, *worker);
  EXPECT_EQ(world.CountOf(TaskState::kImported), 2);
}

TEST(Worker, ARunWhoseTasksDoNotFitEndsAndSaysSo) {
  CopyWorld world;
  world.Register();
  world.MakeJob(4, {.lines_per_task = 2});
  WorkerOptions options = StepOptions("w");
  options.until = RunUntil::kJobsDone;
  options.only = {CopyWorld::kJob};
  options.renewal = Renewal::kByThread;
  options.size_bytes_max = [&](const Context&) -> Result<int64_t> { return 1; };
  const auto worker = OpenWorker(world, options);
  const auto ran = worker->Run(world.ctx());
  ASSERT_FALSE(ran.ok());
  EXPECT_EQ(ran.status().code(), Code::kExhausted);
  EXPECT_EQ(ran.status().explanation().pf_number, 7007);
  EXPECT_EQ(world.CountOf(TaskState::kReady), 2);
}

TEST(Worker, FailuresWithoutANumberPauseNothing) {
  CopyWorld world;
  LambdaExecutor executor([](const Context&, const Lease&, TaskScope&) -> Result<Settlement> {
    return Status(Code::kInvalidArgument, "HTTP status 400");
  });
  world.kind.executor = &executor;
  world.Register();
  world.MakeJob(6, {.lines_per_task = 1});
  const auto worker = OpenWorker(world, StepOptions("w"));
  StepUntilQuiet(world, *worker);
  EXPECT_FALSE(world.jobs.View(world.ctx(), CopyWorld::kJob)->is_paused);
}

TEST(Worker, AReleaseWithoutSuccessDoesNotLiftTheLimitOfADiskFailure) {
  CopyWorld world;
  std::vector<int64_t> sizes;
  LambdaExecutor executor(
      [&](const Context&, const Lease& lease, TaskScope&) -> Result<Settlement> {
        sizes.push_back(lease.tasks.front().size_bytes);
        Failure failure;
        failure.failure_class = sizes.size() == 1 ? FailureClass::kDisk : FailureClass::kEnv;
        failure.status = Status(Code::kExhausted, "no space left");
        return ReleasedSettlement(lease, &failure, sizes.size() == 1 ? 0 : 1'000'000);
      });
  world.kind.executor = &executor;
  world.Register();
  world.MakeJob(3, {.lines_per_task = 1});
  Plan plan;
  plan.job = testing::MakeCopyJob("job-big", "testing.copy", {.source = "source", .target = "big"});
  Task big = world.Tasks(TaskState::kReady)[0];
  big.id = "big";
  big.size_bytes = 100;
  plan.tasks = {big};
  ASSERT_TRUE(world.jobs.CreateJob(world.ctx(), plan).ok());
  WorkerOptions options = StepOptions("w");
  options.role = WorkerRole::kTasks;
  const auto worker = OpenWorker(world, options);
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(worker->Step(world.ctx()).ok());
  EXPECT_EQ(sizes, (std::vector<int64_t>{100, 1, 1, 1}));
}

TEST(Worker, ScratchIsTheAttemptsOwnAndTheSlotsFolderStays) {
  CopyWorld world;
  testing::TempDir folder;
  std::set<std::filesystem::path> scratches, slots;
  LambdaExecutor executor([&](const Context& ctx, const Lease& lease, TaskScope& scope) {
    EXPECT_TRUE(std::filesystem::is_empty(scope.scratch()));
    std::filesystem::create_directory(scope.scratch() / "spill");
    scratches.insert(scope.scratch());
    slots.insert(scope.slot_path());
    return world.executor.Execute(ctx, lease, scope);
  });
  world.kind.executor = &executor;
  world.Register();
  world.MakeJob(4, {.lines_per_task = 2});
  WorkerOptions options = StepOptions("w");
  options.work_dir = folder.path();
  const auto worker = OpenWorker(world, options);
  StepUntilQuiet(world, *worker);
  EXPECT_EQ(scratches.size(), 2u);
  EXPECT_EQ(slots.size(), 1u);
  for (const auto& scratch : scratches) EXPECT_FALSE(std::filesystem::exists(scratch));
  EXPECT_TRUE(std::filesystem::exists(*slots.begin()));
  ASSERT_TRUE(worker->Close(world.ctx()).ok());
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(Worker, OptionsWithoutSenseAreRefused) {
  CopyWorld world;
  WorkerOptions options;
  EXPECT_FALSE(Worker::Open(world.ctx(), world.jobs, world.kinds, options).ok());
  options.name = "w";
  options.until = RunUntil::kJobsDone;
  EXPECT_FALSE(Worker::Open(world.ctx(), world.jobs, world.kinds, options).ok());
  options.only = {"job"};
  EXPECT_TRUE(Worker::Open(world.ctx(), world.jobs, world.kinds, options).ok());
  options.parallel = 0;
  EXPECT_FALSE(Worker::Open(world.ctx(), world.jobs, world.kinds, options).ok());
}

TEST(Worker, GatheredTasksAreRunOnceAndCommittedOnce) {
  CopyWorld world;
  const testing::CopyGatherer gatherer(3);
  world.kind.gatherer = &gatherer;
  world.Register();
  world.MakeJob(8, {.lines_per_task = 1});
  const auto worker = OpenWorker(world, StepOptions("w"));
  StepUntilQuiet(world, *worker);
  EXPECT_EQ(world.TableLines(), world.SourceLines());
  EXPECT_EQ(world.CountOf(TaskState::kSuperseded), 8);
  EXPECT_EQ(world.CountOf(TaskState::kImported), 3);
  EXPECT_EQ(worker->summary().done, 8);
}

TEST(Worker, ATaskThatFailsOthersIsFoundByRunningEachAlone) {
  CopyWorld world;
  const testing::CopyGatherer gatherer(4);
  world.kind.gatherer = &gatherer;
  int64_t runs = 0;
  LambdaExecutor executor(
      [&](const Context& ctx, const Lease& lease, TaskScope& scope) -> Result<Settlement> {
        ++runs;
        for (const Task& task : lease.tasks) {
          if (task.id == "copy-000002") return Status(Code::kCorruption, "bad");
        }
        return world.executor.Execute(ctx, lease, scope);
      });
  world.kind.executor = &executor;
  world.Register();
  world.MakeJob(4, {.lines_per_task = 1});
  const auto worker = OpenWorker(world, StepOptions("w"));
  StepUntilQuiet(world, *worker);
  EXPECT_EQ(runs, 5);
  EXPECT_EQ(world.CountOf(TaskState::kFailed), 1);
  EXPECT_EQ(world.CountOf(TaskState::kSuperseded), 0);
  EXPECT_EQ(world.CountOf(TaskState::kImported) + world.CountOf(TaskState::kFinished), 3);
  EXPECT_EQ(worker->summary().failed, 1);
}

}  // namespace
}  // namespace partforge
