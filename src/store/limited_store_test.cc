#include "store/limited_store.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "testing/memory_store.h"
#include "testing/sim_clock.h"
#include "testing/test_world.h"

namespace partforge {
namespace {

// A second passes only when somebody sleeps: what a transfer takes is exact.
class LimitedStoreTest : public ::testing::Test {
 protected:
  int64_t NowMs() { return ctx_.clock.NowMs(); }

  testing::SimClock clock_;
  testing::TestWorld world_;
  const Context ctx_ = [this] {
    world_.UseClock(clock_);
    return world_.context();
  }();
  RateLimit download_{1'000'000}, upload_{250'000};
};

TEST_F(LimitedStoreTest, BytesPassAtTheRateInEachDirection) {
  const auto store = LimitRates(std::make_unique<testing::MemoryStore>(), &download_, &upload_);
  const std::string bytes(3'000'000, 'x');
  const int64_t begin_ms = NowMs();
  ASSERT_TRUE(WriteObject(ctx_, *store, "a", bytes).ok());
  // What comes next waits for what went before: three million bytes take twelve seconds.
  ASSERT_TRUE(WriteObject(ctx_, *store, "b", "x").ok());
  const int64_t written_ms = NowMs();
  EXPECT_NEAR(static_cast<double>(written_ms - begin_ms), 12'000, 5);
  EXPECT_EQ(*ReadObject(ctx_, *store, "a"), bytes);
  EXPECT_EQ(*ReadObject(ctx_, *store, "b"), "x");
  EXPECT_NEAR(static_cast<double>(NowMs() - written_ms), 3'000, 5);
}

TEST_F(LimitedStoreTest, StoresShareOneLimit) {
  const auto first = LimitRates(std::make_unique<testing::MemoryStore>(), nullptr, &upload_);
  const auto second = LimitRates(std::make_unique<testing::MemoryStore>(), nullptr, &upload_);
  const int64_t begin_ms = NowMs();
  for (ObjectStore* const store : {first.get(), second.get(), first.get()}) {
    ASSERT_TRUE(WriteObject(ctx_, *store, "a", std::string(250'000, 'x')).ok());
  }
  EXPECT_NEAR(static_cast<double>(NowMs() - begin_ms), 2'000, 5);
  // Nobody asked for a lower rate of reading.
  const int64_t written_ms = NowMs();
  ASSERT_TRUE(ReadObject(ctx_, *first, "a").ok());
  EXPECT_EQ(NowMs(), written_ms);
}

TEST_F(LimitedStoreTest, IdleTimeIsNotSavedUp) {
  ASSERT_TRUE(upload_.Take(ctx_, 1).ok());
  ctx_.clock.SleepMs(3'600'000, {});
  const int64_t begin_ms = NowMs();
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(upload_.Take(ctx_, 250'000).ok());
  EXPECT_NEAR(static_cast<double>(NowMs() - begin_ms), 4'000, 5);
}

TEST_F(LimitedStoreTest, AStopEndsTheWait) {
  std::stop_source stop;
  Context stopped = ctx_;
  stopped.stop = stop.get_token();
  ASSERT_TRUE(upload_.Take(stopped, 1'000'000'000).ok());
  stop.request_stop();
  EXPECT_EQ(upload_.Take(stopped, 1).code(), Code::kCancelled);
}

}  // namespace
}  // namespace partforge
