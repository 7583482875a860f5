#include "job/settle.h"

#include <gtest/gtest.h>

#include "job/failure.h"
#include "testing/copy_world.h"
#include "testing/hooked_job_store.h"

namespace partforge {
namespace {

using testing::CopyWorld;

// A world with one claimed task, and the settlement that finishes it.
class SettleTest : public ::testing::Test {
 protected:
  SettleTest() {
    world_.Register();
    world_.MakeJob(1, {.lines_per_task = 1});
    lease_ = Claim("w");
    TaskEdit edit;
    edit.id = lease_.tasks.front().id;
    edit.from = TaskState::kInProgress;
    edit.epoch = lease_.tasks.front().epoch;
    edit.to = TaskState::kFinished;
    edit.result = TaskResult();
    settlement_.edits.push_back(edit);
  }

  Lease Claim(const std::string& worker) {
    ClaimRequest request;
    request.worker = worker;
    request.kinds = {"testing.copy"};
    return world_.jobs.Claim(world_.ctx(), request)->at(0);
  }
  SettleFate Fate(const Settlement& settlement) {
    const auto fate = ReadSettleFate(world_.ctx(), world_.jobs, lease_, settlement);
    EXPECT_TRUE(fate.ok());
    return *fate;
  }

  CopyWorld world_;
  Lease lease_;
  Settlement settlement_;
};

TEST_F(SettleTest, AnOpenAttemptWasNotSettled) {
  EXPECT_EQ(Fate(settlement_), SettleFate::kNotHappened);
}

TEST_F(SettleTest, AnAttemptThatEndedOurWayWasEndedByUs) {
  ASSERT_TRUE(world_.jobs.Settle(world_.ctx(), lease_, settlement_).ok());
  EXPECT_EQ(Fate(settlement_), SettleFate::kHappened);
}

TEST_F(SettleTest, AnAttemptThatWasReapedIsLost) {
  world_.clock.Advance(61'000);
  ASSERT_TRUE(world_.jobs.Reap(world_.ctx(), ReapRules()).ok());
  EXPECT_EQ(Fate(settlement_), SettleFate::kLost);
  Claim("other");
  EXPECT_EQ(Fate(settlement_), SettleFate::kLost);
}

TEST_F(SettleTest, ReleasesAndFailuresAreToldByTheirOwnEnds) {
  const Settlement release = ReleasedSettlement(lease_, nullptr, 0);
  ASSERT_TRUE(world_.jobs.Settle(world_.ctx(), lease_, release).ok());
  EXPECT_EQ(Fate(release), SettleFate::kHappened);
  EXPECT_EQ(Fate(settlement_), SettleFate::kLost);
  lease_ = Claim("w");
  const Settlement failure =
      FailedSettlement(lease_, FailureFrom(Status(Code::kCorruption, "bad")));
  ASSERT_TRUE(world_.jobs.Settle(world_.ctx(), lease_, failure).ok());
  EXPECT_EQ(Fate(failure), SettleFate::kHappened);
}

// The first statement is still on its way when we read back, and lands before we ask again.
TEST_F(SettleTest, ASettlementThatArrivesLateIsFoundBehindTheRefusal) {
  int64_t settles = 0;
  testing::HookedJobStore store(
      world_.jobs,
      [&](std::string_view call) -> Status {
        if (call != "job.settle") return {};
        if (++settles == 1) return Status(Code::kUnknownOutcome, "the connection broke");
        EXPECT_TRUE(world_.jobs.Settle(world_.ctx(), lease_, settlement_).ok());
        return {};
      },
      nullptr);
  const HeldLease held(lease_, 60'000, world_.clock.NowMs());
  EXPECT_TRUE(SettleUnknownOutcome(world_.ctx(), store, held, settlement_).ok());
  EXPECT_EQ(settles, 2);
}

TEST_F(SettleTest, AStoreThatIsAwayIsWaitedForAsLongAsTheLeaseLives) {
  int64_t settles = 0;
  testing::HookedJobStore store(
      world_.jobs,
      [&](std::string_view call) -> Status {
        settles += call == "job.settle" ? 1 : 0;
        return Status(Code::kUnavailable, "away");
      },
      nullptr);
  const HeldLease held(lease_, 60'000, world_.clock.NowMs());
  const int64_t started_ms = world_.clock.NowMs();
  EXPECT_EQ(SettleUnknownOutcome(world_.ctx(), store, held, settlement_).code(),
            Code::kUnavailable);
  EXPECT_GT(settles, 5);
  EXPECT_GE(world_.clock.NowMs() - started_ms, 60'000);
  EXPECT_LT(world_.clock.NowMs() - started_ms, 80'000);
}

}  // namespace
}  // namespace partforge
