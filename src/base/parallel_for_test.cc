#include "base/parallel_for.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <numeric>
#include <thread>
#include <vector>

#include "testing/test_world.h"

namespace partforge {
namespace {

TEST(ParallelFor, EveryIndexRunsExactlyOnce) {
  testing::TestWorld world;
  for (const int threads : {0, 1, 2, 7, 100}) {
    for (const int64_t count : {0, 1, 5, 1000}) {
      std::vector<std::atomic<int>> runs(static_cast<size_t>(count));
      const Status status =
          ParallelFor(world.context(), count, threads, [&](const Context&, int64_t index) {
            ++runs.at(static_cast<size_t>(index));
            return Status();
          });
      EXPECT_TRUE(status.ok()) << status.ToString();
      for (const auto& run : runs) EXPECT_EQ(run.load(), 1);
    }
  }
}

TEST(ParallelFor, OneThreadIsTheCallersAndInOrder) {
  testing::TestWorld world;
  std::vector<int64_t> order;
  ASSERT_TRUE(ParallelFor(world.context(), 10, 1,
                          [&, caller = std::this_thread::get_id()](const Context&, int64_t index) {
                            EXPECT_EQ(std::this_thread::get_id(), caller);
                            order.push_back(index);
                            return Status();
                          })
                  .ok());
  std::vector<int64_t> wanted(10);
  std::iota(wanted.begin(), wanted.end(), 0);
  EXPECT_EQ(order, wanted);
}

TEST(ParallelFor, NeverMoreThanTheThreadsAskedFor) {
  testing::TestWorld world;
  std::atomic<int> running = 0, running_max = 0;
  ASSERT_TRUE(ParallelFor(world.context(), 200, 3, [&](const Context&, int64_t) {
                const int now = ++running;
                int seen = running_max.load();
                while (now > seen && !running_max.compare_exchange_weak(seen, now)) {
                }
                std::this_thread::yield();
                --running;
                return Status();
              }).ok());
  EXPECT_LE(running_max.load(), 3);
}

TEST(ParallelFor, SmallestFailedIndexIsReported) {
  testing::TestWorld world;
  std::latch both(2);  // neither fails before the other has started
  const Status status = ParallelFor(world.context(), 2, 2, [&](const Context&, int64_t index) {
    both.arrive_and_wait();
    return Status(Code::kUnavailable, "index " + std::to_string(index));
  });
  EXPECT_EQ(status.message(), "index 0");
}

TEST(ParallelFor, FirstFailureStopsTheOthers) {
  testing::TestWorld world;
  std::atomic<int> started = 0;
  const Status status =
      ParallelFor(world.context(), 1000, 2, [&](const Context& ctx, int64_t index) {
        ++started;
        if (index == 0) return Status(Code::kCorruption, "bad");
        while (!ctx.IsStopping()) std::this_thread::yield();  // ends only because index 0 failed
        return ctx.CheckStop("waiting");
      });
  EXPECT_EQ(status.code(), Code::kCorruption);
  EXPECT_LE(started.load(), 2);
  EXPECT_FALSE(world.context().IsStopping());
}

// A body that gives up because another failed must not hide why.
TEST(ParallelFor, ACancelledBodyDoesNotHideTheCause) {
  testing::TestWorld world;
  std::latch first_waits(1);
  const Status status =
      ParallelFor(world.context(), 2, 2, [&](const Context& ctx, int64_t index) -> Status {
        if (index == 1) {
          first_waits.wait();
          return Status(Code::kCorruption, "the cause");
        }
        first_waits.count_down();
        while (!ctx.IsStopping()) std::this_thread::yield();
        return ctx.CheckStop("body 0");
      });
  EXPECT_EQ(status.code(), Code::kCorruption);
}

TEST(ParallelFor, StopFromOutsideIsCancelled) {
  testing::TestWorld world;
  const Status status = ParallelFor(world.context(), 1000, 2, [&](const Context&, int64_t index) {
    if (index == 3) world.RequestStop();
    return Status();
  });
  EXPECT_EQ(status.code(), Code::kCancelled);
}

}  // namespace
}  // namespace partforge
