#include "job/lease_keeper.h"

#include <gtest/gtest.h>

#include "testing/copy_world.h"
#include "testing/hooked_job_store.h"

namespace partforge {
namespace {

using testing::CopyWorld;

class LeaseKeeperTest : public ::testing::Test {
 protected:
  LeaseKeeperTest() {
    world_.Register();
    world_.MakeJob(1, {.lines_per_task = 1});
    ClaimRequest request;
    request.worker = "w";
    request.kinds = {"testing.copy"};
    request.lease_ms = 60'000;
    held_ = keeper_.Add(world_.jobs.Claim(world_.ctx(), request)->at(0), world_.clock.NowMs());
  }
  Status Check() { return held_->Check(world_.clock.NowMs()); }

  CopyWorld world_;
  Status answer_;  // of the store before each call
  testing::HookedJobStore store_{world_.jobs, [this](std::string_view) { return answer_; },
                                 nullptr};
  LeaseKeeper keeper_{store_, 60'000};
  std::shared_ptr<HeldLease> held_;
};

TEST_F(LeaseKeeperTest, RenewsEachThirdOfTheLeaseAndNotBefore) {
  world_.clock.Advance(19'000);
  keeper_.RenewDue(world_.ctx());
  world_.clock.Advance(22'000);  // 41 s: overdue, had the first look renewed nothing
  EXPECT_EQ(Check().code(), Code::kLeaseLost);
  keeper_.RenewDue(world_.ctx());
  EXPECT_TRUE(Check().ok());
  for (int i = 0; i < 10; ++i) {
    world_.clock.Advance(20'000);
    keeper_.RenewDue(world_.ctx());
  }
  EXPECT_TRUE(Check().ok());
  EXPECT_EQ(*world_.jobs.Reap(world_.ctx(), ReapRules()), 0);
}

TEST_F(LeaseKeeperTest, AStoreThatIsAwayMakesTheLeaseOverdueThenEndsLocalWork) {
  answer_ = Status(Code::kUnavailable, "away");
  world_.clock.Advance(39'000);
  keeper_.RenewDue(world_.ctx());
  EXPECT_TRUE(Check().ok());
  world_.clock.Advance(1'000);
  EXPECT_EQ(Check().code(), Code::kLeaseLost);
  EXPECT_FALSE(held_->stop_token().stop_requested());
  world_.clock.Advance(20'000);
  keeper_.RenewDue(world_.ctx());
  EXPECT_TRUE(held_->stop_token().stop_requested());
  EXPECT_FALSE(held_->is_lost()) << "nobody took it over: it may still be settled";
}

TEST_F(LeaseKeeperTest, ALeaseThatWasTakenOverEndsLocalWorkAtOnce) {
  world_.clock.Advance(61'000);
  ASSERT_EQ(*world_.jobs.Reap(world_.ctx(), ReapRules()), 1);
  keeper_.RenewDue(world_.ctx());
  EXPECT_TRUE(held_->is_lost());
  EXPECT_TRUE(held_->stop_token().stop_requested());
}

TEST_F(LeaseKeeperTest, WhatWasGivenBackIsNotRenewed) {
  keeper_.Remove(*held_);
  world_.clock.Advance(30'000);
  keeper_.RenewDue(world_.ctx());
  world_.clock.Advance(31'000);
  EXPECT_EQ(*world_.jobs.Reap(world_.ctx(), ReapRules()), 1);
}

}  // namespace
}  // namespace partforge
