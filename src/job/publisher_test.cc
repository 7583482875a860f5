#include "job/publisher.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <functional>
#include <set>
#include <thread>
#include <vector>

#include "base/files.h"
#include "job/commit_direct.h"
#include "job/worker.h"
#include "testing/copy_world.h"
#include "testing/hooked_job_store.h"

namespace partforge {
namespace {

using testing::CopyRequest;
using testing::CopyWorld;

// A committer that records what it is asked for, over the real one of copy jobs, with a way to bend
// each answer.
class BentCommitter final : public Committer {
 public:
  explicit BentCommitter(Committer& inner) : inner_(inner) {}

  Result<Prepared> Prepare(const Context& ctx, const Commit& proposal) override {
    asked.push_back("prepare");
    auto prepared = inner_.Prepare(ctx, proposal);
    if (prepared.ok()) prepared.value().locks = locks;
    return prepared;
  }
  Result<Staged> Stage(const Context& ctx, const Commit& fenced, CommitScope& scope) override {
    asked.push_back("stage");
    if (on_stage) PF_TRY(on_stage(ctx, fenced));
    return inner_.Stage(ctx, fenced, scope);
  }
  Status Take(const Context& ctx, const Commit& fenced, CommitScope& scope) override {
    asked.push_back("take");
    return inner_.Take(ctx, fenced, scope);
  }
  Result<Evidence> Inspect(const Context& ctx, const Commit& fenced, CommitScope& scope) override {
    asked.push_back("inspect");
    if (on_inspect) PF_TRY(on_inspect(ctx, fenced));
    return inner_.Inspect(ctx, fenced, scope);
  }
  Result<Json> Apply(const Context& ctx, const Commit& fenced, CommitScope& scope) override {
    asked.push_back("apply");
    if (on_apply) PF_TRY(on_apply(ctx, fenced));
    auto evidence = inner_.Apply(ctx, fenced, scope);
    if (after_apply) PF_TRY(after_apply(ctx, fenced));
    return evidence;
  }
  Status Retract(const Context& ctx, const Commit& fenced, CommitScope&) override {
    asked.push_back("retract");
    return on_retract ? on_retract(ctx, fenced) : Status();
  }
  Status Clean(const Context& ctx, const Commit& fenced, CommitScope& scope) override {
    asked.push_back("clean");
    return inner_.Clean(ctx, fenced, scope);
  }

  using Bend = std::function<Status(const Context&, const Commit&)>;
  Bend on_stage, on_inspect, on_apply, after_apply, on_retract;
  std::vector<LockWish> locks;
  std::vector<std::string> asked;

 private:
  Committer& inner_;
};

class PublisherTest : public ::testing::Test {
 protected:
  PublisherTest() { world_.kind.committer = &committer_; }

  // A job of `lines` one-line tasks, all FINISHED.
  void FinishJob(int64_t lines, PublishMode publish = PublishMode::kAuto) {
    world_.Register();
    world_.MakeJob(lines, {.lines_per_task = 1}, publish);
    WorkerOptions options;
    options.name = "worker";
    options.renewal = Renewal::kByCaller;
    options.role = WorkerRole::kTasks;
    const auto worker = Worker::Open(world_.ctx(), world_.jobs, world_.kinds, options);
    ASSERT_TRUE(worker.ok());
    for (int64_t i = 0; i < lines; ++i) ASSERT_TRUE((*worker)->Step(world_.ctx()).ok());
    ASSERT_EQ(world_.CountOf(TaskState::kFinished), lines);
  }

  Publisher MakePublisher(const std::string& name, JobStore* store = nullptr) {
    PublisherOptions options;
    options.name = name;
    options.renewal = Renewal::kByCaller;
    return Publisher(store == nullptr ? world_.jobs : *store, world_.kinds, options);
  }

  Stepped Step(Publisher& publisher) {
    const auto stepped = publisher.Step(world_.ctx(), CopyWorld::kJob);
    EXPECT_TRUE(stepped.ok()) << stepped.status().ToString();
    return stepped.ok() ? *stepped : Stepped::kIdle;
  }

  CopyWorld world_;
  BentCommitter committer_{world_.committer};
};

TEST_F(PublisherTest, ACommitGoesThroughItsStepsInOrder) {
  FinishJob(3);
  Publisher publisher = MakePublisher("p");
  EXPECT_EQ(Step(publisher), Stepped::kWorked);
  EXPECT_EQ(committer_.asked,
            (std::vector<std::string>{"prepare", "stage", "inspect", "apply", "clean"}));
  ASSERT_EQ(world_.Commits().size(), 1u);
  EXPECT_EQ(world_.Commits()[0].state, CommitState::kCleaned);
  EXPECT_EQ(world_.Commits()[0].evidence, R"({"version":1})");
  EXPECT_EQ(world_.TableLines(), world_.SourceLines());
  EXPECT_EQ(Step(publisher), Stepped::kIdle);
}

TEST_F(PublisherTest, ATaskACommitForKindsThatWantIt) {
  world_.kind.grouping = CommitGrouping::kTask;
  FinishJob(3);
  Publisher publisher = MakePublisher("p");
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Step(publisher), Stepped::kWorked);
  EXPECT_EQ(Step(publisher), Stepped::kIdle);
  EXPECT_EQ(world_.Commits().size(), 3u);
  EXPECT_EQ(world_.TableLines(), world_.SourceLines());
}

TEST_F(PublisherTest, ALoadIsOneCommitUnderTheJobsOwnId) {
  world_.kind.grouping = CommitGrouping::kJob;
  FinishJob(2);
  Publisher publisher = MakePublisher("p");
  Step(publisher);
  ASSERT_EQ(world_.Commits().size(), 1u);
  EXPECT_EQ(world_.Commits()[0].id, CopyWorld::kJob);
}

TEST(CanGather, WaitsForWhatTheGroupingNeeds) {
  const auto view_of = [](std::vector<StateCount> counts, const std::string& state = "SEALED") {
    JobView view;
    view.state = state;
    view.counts = std::move(counts);
    return view;
  };
  const StateCount finished{.state = TaskState::kFinished, .tasks = 1};
  const StateCount ready{.state = TaskState::kReady, .tasks = 1};
  const StateCount failed{.state = TaskState::kFailed, .tasks = 1};
  using enum CommitGrouping;
  for (const CommitGrouping grouping : {kSubset, kTask, kJob}) {
    EXPECT_FALSE(CanGather(view_of({ready}), grouping));
    EXPECT_TRUE(CanGather(view_of({finished}), grouping));
  }
  EXPECT_TRUE(CanGather(view_of({finished, ready}), kTask));
  EXPECT_FALSE(CanGather(view_of({finished, ready}), kSubset));
  EXPECT_FALSE(CanGather(view_of({finished}, "OPEN"), kSubset));
  EXPECT_TRUE(CanGather(view_of({finished, failed}), kSubset));
  EXPECT_FALSE(CanGather(view_of({finished, failed}), kJob));
}

TEST_F(PublisherTest, OnlyAskedForModesAreProposed) {
  FinishJob(1, PublishMode::kCommand);
  Publisher publisher = MakePublisher("p");
  EXPECT_EQ(Step(publisher), Stepped::kIdle);
  PublisherOptions options;
  options.name = "import";
  options.renewal = Renewal::kByCaller;
  options.proposes = {PublishMode::kCommand};
  Publisher importer(world_.jobs, world_.kinds, options);
  EXPECT_EQ(Step(importer), Stepped::kWorked);
  EXPECT_EQ(world_.CountOf(TaskState::kImported), 1);
}

TEST_F(PublisherTest, ABadArtifactIsAbortedAndTheOthersGoOn) {
  world_.kind.grouping = CommitGrouping::kTask;
  FinishJob(3);
  committer_.on_stage = [](const Context&, const Commit& fenced) -> Status {
    if (fenced.chosen.at(0).task != "copy-000001") return {};
    return Status(Code::kCorruption, "#246 the digest differs");
  };
  Publisher publisher = MakePublisher("p");
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Step(publisher), Stepped::kWorked);
  EXPECT_EQ(Step(publisher), Stepped::kIdle);
  const auto failed = world_.Tasks(TaskState::kFailed);
  ASSERT_EQ(failed.size(), 1u);
  EXPECT_EQ(failed[0].failure_class, "data");
  EXPECT_EQ(failed[0].failure_code, 246);
  EXPECT_EQ(world_.CountOf(TaskState::kImported), 2);
  EXPECT_EQ(world_.TableLines().size(), 2u);
}

// What the system refuses says nothing about an artifact; what it cannot read does (EIO): the part
// fails with class data, so that retry-failed makes it again.
TEST_F(PublisherTest, ABadSectorFailsTheArtifactAndARefusalDoesNot) {
  world_.kind.grouping = CommitGrouping::kTask;
  FinishJob(2);
  committer_.on_stage = [](const Context&, const Commit& fenced) {
    const bool is_first = fenced.chosen.at(0).task == "copy-000000";
    return ErrnoStatus(is_first ? EIO : EACCES, "read 4096 bytes at 0");
  };
  Publisher publisher = MakePublisher("p");
  for (int i = 0; i < 4; ++i) {
    Step(publisher);
    world_.clock.Advance(120'000);
  }
  const auto failed = world_.Tasks(TaskState::kFailed);
  ASSERT_EQ(failed.size(), 1u);
  EXPECT_EQ(failed[0].id, "copy-000000");
  EXPECT_EQ(failed[0].failure_class, "data");
  EXPECT_EQ(world_.CountOf(TaskState::kFinished) + world_.CountOf(TaskState::kImporting), 1);
}

TEST_F(PublisherTest, AFullDiskTakesTheDecisionBackAndCleansIt) {
  FinishJob(1);
  int64_t stages = 0;
  committer_.on_stage = [&](const Context&, const Commit&) -> Status {
    return ++stages == 1 ? Status(Code::kExhausted, "no space left") : Status();
  };
  Publisher publisher = MakePublisher("p");
  EXPECT_EQ(Step(publisher), Stepped::kWorked);
  EXPECT_EQ(committer_.asked, (std::vector<std::string>{"prepare", "stage", "clean"}));
  EXPECT_EQ(world_.Commits()[0].state, CommitState::kAborted);
  EXPECT_TRUE(world_.Commits()[0].is_cleaned);
  EXPECT_EQ(world_.CountOf(TaskState::kFinished), 1);
  EXPECT_EQ(Step(publisher), Stepped::kIdle);  // it is not decided again at once
  world_.clock.Advance(120'000);
  EXPECT_EQ(Step(publisher), Stepped::kWorked);
  EXPECT_EQ(world_.TableLines(), world_.SourceLines());
}

TEST_F(PublisherTest, AStoreThatRefusesTakesTheDecisionBack) {
  FinishJob(1);
  int64_t stages = 0;
  committer_.on_stage = [&](const Context&, const Commit&) -> Status {
    return ++stages == 1 ? Status(Code::kRefused, "HTTP status 403").Explain(7003, "bucket", "")
                         : Status();
  };
  Publisher publisher = MakePublisher("p");
  EXPECT_EQ(Step(publisher), Stepped::kWorked);
  EXPECT_EQ(world_.Commits()[0].state, CommitState::kAborted);
  EXPECT_EQ(world_.CountOf(TaskState::kFinished), 1);
  world_.clock.Advance(120'000);
  EXPECT_EQ(Step(publisher), Stepped::kWorked);
  EXPECT_EQ(world_.TableLines(), world_.SourceLines());
}

TEST_F(PublisherTest, AStageThatMayPassIsTriedAgainUnderANewSerial) {
  FinishJob(1);
  std::set<uint64_t> serials;
  committer_.on_stage = [&](const Context&, const Commit& fenced) -> Status {
    serials.insert(fenced.serial);
    return serials.size() < 3 ? Status(Code::kUnavailable, "the store is away") : Status();
  };
  Publisher publisher = MakePublisher("p");
  for (int i = 0; i < 10; ++i) {
    Step(publisher);
    world_.clock.Advance(20'000);
  }
  EXPECT_EQ(serials.size(), 3u);
  EXPECT_EQ(world_.TableLines(), world_.SourceLines());
}

TEST_F(PublisherTest, AFailedCommitWaitsBeforeItIsTriedAgain) {
  FinishJob(1);
  int64_t stages = 0;
  committer_.on_stage = [&](const Context&, const Commit&) {
    ++stages;
    return Status(Code::kUnavailable, "the store is away");
  };
  Publisher publisher = MakePublisher("p");
  for (int i = 0; i < 5; ++i) Step(publisher);
  EXPECT_EQ(stages, 1);
}

TEST_F(PublisherTest, APublisherThatWasFencedWhileItStagedBindsNothing) {
  FinishJob(1);
  Publisher second = MakePublisher("second");
  bool is_first = true;
  committer_.on_stage = [&](const Context&, const Commit& fenced) -> Status {
    if (!is_first) return {};
    is_first = false;
    world_.clock.Advance(61'000);
    EXPECT_TRUE(second.Carry(world_.ctx(), fenced.id).ok());
    return {};
  };
  Publisher first = MakePublisher("first");
  Step(first);
  EXPECT_EQ(world_.TableLines(), world_.SourceLines());
  EXPECT_EQ(world_.Commits()[0].state, CommitState::kCleaned);
  EXPECT_EQ(std::count(committer_.asked.begin(), committer_.asked.end(), "apply"), 1);
}

TEST_F(PublisherTest, ABoundCommitIsTakenAndInspectedButNotStagedAgain) {
  FinishJob(1);
  committer_.on_apply = [](const Context&, const Commit&) {
    return Status(Code::kUnavailable, "away");
  };
  Publisher first = MakePublisher("first");
  Step(first);
  ASSERT_EQ(world_.Commits()[0].state, CommitState::kCommitting);
  committer_.on_apply = nullptr;
  committer_.asked.clear();
  world_.clock.Advance(61'000);
  Publisher second = MakePublisher("second");
  Step(second);
  EXPECT_EQ(committer_.asked, (std::vector<std::string>{"take", "inspect", "apply", "clean"}));
  EXPECT_EQ(world_.TableLines(), world_.SourceLines());
}

TEST_F(PublisherTest, AnotherPublishersFenceIsLeftAlone) {
  FinishJob(1);
  committer_.on_apply = [](const Context&, const Commit&) {
    return Status(Code::kUnavailable, "away");
  };
  Publisher first = MakePublisher("first");
  Step(first);
  Publisher second = MakePublisher("second");
  EXPECT_EQ(Step(second), Stepped::kIdle);
  EXPECT_EQ(second.Carry(world_.ctx(), world_.Commits()[0].id).status().code(), Code::kConflict);
}

TEST_F(PublisherTest, AnApplyWhoseReplyIsLostIsInspectedAndConfirmed) {
  FinishJob(1);
  int64_t applies = 0;
  committer_.after_apply = [&](const Context&, const Commit&) -> Status {
    return ++applies == 1 ? Status(Code::kUnknownOutcome, "the reply is lost") : Status();
  };
  Publisher publisher = MakePublisher("p");
  Step(publisher);
  EXPECT_EQ(committer_.asked, (std::vector<std::string>{"prepare", "stage", "inspect", "apply",
                                                        "inspect", "apply", "clean"}));
  EXPECT_EQ(world_.TableLines(), world_.SourceLines());
}

TEST_F(PublisherTest, WhatCannotBeToldIsInDoubtUntilItCan) {
  FinishJob(1);
  committer_.on_inspect = [](const Context&, const Commit&) {
    return Status(Code::kUnknownOutcome, "the table is read-only");
  };
  Publisher publisher = MakePublisher("p");
  Step(publisher);
  EXPECT_EQ(world_.Commits()[0].in_doubt, "the table is read-only");
  EXPECT_EQ(world_.CountOf(TaskState::kImporting), 1);
  EXPECT_EQ(publisher.Carry(world_.ctx(), world_.Commits()[0].id).status().code(),
            Code::kUnknownOutcome);
  committer_.on_inspect = nullptr;
  world_.clock.Advance(120'000);
  Step(publisher);
  EXPECT_EQ(world_.Commits()[0].state, CommitState::kCleaned);
  EXPECT_EQ(world_.Commits()[0].in_doubt, "");
}

TEST_F(PublisherTest, LostRacesAreRunAgainButNotForEver) {
  FinishJob(1);
  int64_t races = 0;
  committer_.on_apply = [&](const Context&, const Commit&) -> Status {
    return ++races < 4 ? Status(Code::kConflict, "somebody was faster") : Status();
  };
  Publisher publisher = MakePublisher("p");
  Step(publisher);
  EXPECT_EQ(races, 4);
  EXPECT_EQ(world_.TableLines(), world_.SourceLines());
}

TEST_F(PublisherTest, AnApplyRefusedForGoodIsRetractedAndItsTaskFailed) {
  FinishJob(1);
  committer_.on_apply = [](const Context&, const Commit&) {
    return Status(Code::kRefused, "wrong part");
  };
  Publisher publisher = MakePublisher("p");
  EXPECT_EQ(Step(publisher), Stepped::kWorked);
  EXPECT_EQ(committer_.asked,
            (std::vector<std::string>{"prepare", "stage", "inspect", "apply", "retract", "clean"}));
  EXPECT_EQ(world_.Commits()[0].state, CommitState::kAborted);
  EXPECT_TRUE(world_.Commits()[0].is_cleaned);
  EXPECT_EQ(world_.CountOf(TaskState::kFailed), 1);
  EXPECT_TRUE(world_.TableLines().empty());
}

TEST_F(PublisherTest, ARetractThatFailsLeavesTheCommitInDoubt) {
  FinishJob(1);
  committer_.on_apply = [](const Context&, const Commit&) {
    return Status(Code::kRefused, "wrong part");
  };
  committer_.on_retract = [](const Context&, const Commit&) {
    return Status(Code::kRefused, "one piece is attached already");
  };
  Publisher publisher = MakePublisher("p");
  Step(publisher);
  EXPECT_EQ(world_.Commits()[0].state, CommitState::kCommitting);
  EXPECT_NE(world_.Commits()[0].in_doubt.find("one piece is attached already"), std::string::npos);
}

TEST_F(PublisherTest, ALoadThatCannotBeStagedStaysDecided) {
  world_.kind.grouping = CommitGrouping::kJob;
  FinishJob(1, PublishMode::kAsked);
  committer_.on_stage = [](const Context&, const Commit&) {
    return Status(Code::kCorruption, "bad");
  };
  PublisherOptions options;
  options.name = "loader";
  options.renewal = Renewal::kByCaller;
  options.proposes = {PublishMode::kAsked};
  Publisher publisher(world_.jobs, world_.kinds, options);
  Step(publisher);
  EXPECT_EQ(world_.Commits()[0].state, CommitState::kDecided);
  EXPECT_EQ(publisher.Carry(world_.ctx(), world_.Commits()[0].id).status().code(),
            Code::kCorruption);
}

TEST_F(PublisherTest, ALockedTargetIsNotDecided) {
  LockWish lock;
  lock.target = "table";
  lock.scope = "*";
  committer_.locks = {lock};
  FinishJob(1);
  ASSERT_TRUE(world_.jobs.Lock(world_.ctx(), CopyWorld::kJob, "somebody", lock).ok());
  Publisher publisher = MakePublisher("p");
  EXPECT_EQ(Step(publisher), Stepped::kIdle);
  EXPECT_EQ(world_.CountOf(TaskState::kFinished), 1);
  ASSERT_TRUE(world_.jobs.Unlock(world_.ctx(), "somebody").ok());
  world_.clock.Advance(120'000);
  EXPECT_EQ(Step(publisher), Stepped::kWorked);
}

TEST_F(PublisherTest, ADecisionIsTakenBackWhileNothingIsBound) {
  FinishJob(1);
  Publisher publisher = MakePublisher("p");
  const auto proposed = publisher.Propose(world_.ctx(), CopyWorld::kJob);
  ASSERT_TRUE(proposed.ok() && proposed->has_value());
  ASSERT_TRUE(publisher.Abandon(world_.ctx(), **proposed).ok());
  EXPECT_EQ(world_.CountOf(TaskState::kFinished), 1);
  EXPECT_EQ(world_.Commits()[0].state, CommitState::kAborted);

  committer_.on_apply = [](const Context&, const Commit&) {
    return Status(Code::kUnavailable, "away");
  };
  const auto again = publisher.Propose(world_.ctx(), CopyWorld::kJob);
  ASSERT_TRUE(again.ok() && again->has_value());
  EXPECT_FALSE(publisher.Carry(world_.ctx(), **again).ok());
  EXPECT_EQ(publisher.Abandon(world_.ctx(), **again).code(), Code::kRefused);
}

// Each call of the store in turn fails before it does anything, and in another round loses its
// reply.
TEST(PublisherStore, AnyCallOfTheStoreMayFailOrLoseItsReply) {
  for (const bool is_lost : {false, true}) {
    for (int64_t nth = 1;; ++nth) {
      CopyWorld world;
      world.Register();
      world.MakeJob(2, {.lines_per_task = 1});
      WorkerOptions worker_options;
      worker_options.name = "worker";
      worker_options.renewal = Renewal::kByCaller;
      const auto worker = Worker::Open(world.ctx(), world.jobs, world.kinds, worker_options);
      for (int i = 0; i < 2; ++i) ASSERT_TRUE((*worker)->Step(world.ctx()).ok());
      int64_t calls = 0;
      std::string hit;
      const auto fail = [&](std::string_view call) -> Status {
        if (++calls != nth) return {};
        hit = call;
        return is_lost ? Status(Code::kUnknownOutcome, "lost") : Status(Code::kUnavailable, "away");
      };
      testing::HookedJobStore::Hook none;
      testing::HookedJobStore store(world.jobs, is_lost ? none : fail, is_lost ? fail : none);
      PublisherOptions options;
      options.name = "p";
      options.renewal = Renewal::kByCaller;
      Publisher publisher(store, world.kinds, options);
      for (int i = 0; i < 10; ++i) {
        const auto ignored = publisher.Step(world.ctx(), CopyWorld::kJob);
        world.clock.Advance(20'000);
      }
      ASSERT_EQ(world.TableLines(), world.SourceLines()) << "after " << hit;
      ASSERT_EQ(world.Commits().size(), 1u) << "after " << hit;
      ASSERT_TRUE(world.Commits()[0].is_cleaned) << "after " << hit;
      if (hit.empty()) break;
    }
  }
}

TEST(PublisherThreads, AFenceIsHeldWhileAStageTakesLongerThanItsLease) {
  SystemClock real_clock;
  CopyWorld world;
  BentCommitter committer(world.committer);
  world.kind.committer = &committer;
  world.Register();
  world.MakeJob(1, {.lines_per_task = 1});
  WorkerOptions worker_options;
  worker_options.name = "worker";
  worker_options.renewal = Renewal::kByCaller;
  const auto worker = Worker::Open(world.ctx(), world.jobs, world.kinds, worker_options);
  ASSERT_TRUE((*worker)->Step(world.ctx()).ok());
  world.world.UseClock(real_clock);
  testing::MemoryJobStore& jobs =
      world.jobs;  // its clock stands still: only what is asked of it counts
  std::atomic<int64_t> holds = 0;
  testing::HookedJobStore store(
      jobs,
      [&](std::string_view call) -> Status {
        holds += call == "ledger.hold" ? 1 : 0;
        return {};
      },
      nullptr);
  committer.on_stage = [&](const Context& ctx, const Commit&) -> Status {
    while (holds < 3 && !ctx.IsStopping()) ctx.clock.SleepMs(5, ctx.stop);
    return {};
  };
  PublisherOptions options;
  options.name = "p";
  options.lease_ms = 100;
  Publisher publisher(store, world.kinds, options);
  ASSERT_TRUE(publisher.Step(world.ctx(), CopyWorld::kJob).ok());
  EXPECT_GE(holds, 3);
  EXPECT_EQ(world.TableLines(), world.SourceLines());
}

TEST(PublisherThreads, ALostFenceStopsTheCommitter) {
  SystemClock real_clock;
  CopyWorld world;
  BentCommitter committer(world.committer);
  world.kind.committer = &committer;
  world.Register();
  world.MakeJob(1, {.lines_per_task = 1});
  WorkerOptions worker_options;
  worker_options.name = "worker";
  worker_options.renewal = Renewal::kByCaller;
  const auto worker = Worker::Open(world.ctx(), world.jobs, world.kinds, worker_options);
  ASSERT_TRUE((*worker)->Step(world.ctx()).ok());
  world.world.UseClock(real_clock);
  bool was_stopped = false;
  committer.on_stage = [&](const Context& ctx, const Commit& fenced) -> Status {
    world.jobs.ShiftMs(10'000);
    EXPECT_TRUE(world.jobs.Fence(ctx, fenced.id, "other", 60'000).ok());
    for (int i = 0; i < 1'000 && !ctx.IsStopping(); ++i) ctx.clock.SleepMs(5, ctx.stop);
    was_stopped = ctx.IsStopping();
    return ctx.CheckStop("stage");
  };
  PublisherOptions options;
  options.name = "p";
  options.lease_ms = 100;
  Publisher publisher(world.jobs, world.kinds, options);
  ASSERT_TRUE(publisher.Step(world.ctx(), CopyWorld::kJob).ok());
  EXPECT_TRUE(was_stopped);
  EXPECT_EQ(world.Commits()[0].state, CommitState::kDecided);
}

TEST(CommitDirect, PublishesOnceForOneIdentity) {
  CopyWorld world;
  ASSERT_TRUE(WriteObject(world.ctx(), world.store, "table/data/a.1/lines", "line 000000\n").ok());
  Commit commit;
  commit.id = "cmt-1";
  commit.serial = 7;
  commit.target = "table";
  Chosen& chosen = commit.chosen.emplace_back();
  chosen.task = "a";
  chosen.epoch = 1;
  chosen.result.outputs = R"({"file":"table/data/a.1/lines"})";
  chosen.result.digest = "1d3c1c3a4e7d4e6bd65d9b1b2d8ab3bb";
  EXPECT_EQ(CommitDirect(world.ctx(), world.committer, commit).status().code(), Code::kCorruption);
  chosen.result.digest = testing::DigestOfCopy("line 000000\n");
  const auto first = CommitDirect(world.ctx(), world.committer, commit);
  ASSERT_TRUE(first.ok()) << first.status().ToString();
  EXPECT_EQ(first->state, CommitState::kCleaned);
  EXPECT_EQ(first->evidence, R"({"version":1})");
  ASSERT_TRUE(CommitDirect(world.ctx(), world.committer, commit).ok());
  EXPECT_EQ(world.TableLines(), (std::vector<std::string>{"line 000000"}));
}

}  // namespace
}  // namespace partforge
