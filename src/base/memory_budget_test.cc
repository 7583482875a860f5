#include "base/memory_budget.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace partforge {
namespace {

TEST(MemoryBudget, GrantsUpToItsLimitAndTakesBack) {
  MemoryBudget budget(100);
  {
    const MemoryGrant a = budget.TryReserve(60).value();
    EXPECT_EQ(budget.used_bytes(), 60);
    EXPECT_EQ(budget.TryReserve(41).status().code(), Code::kExhausted);
    const MemoryGrant b = budget.TryReserve(40).value();
    EXPECT_EQ(budget.used_bytes(), 100);
    EXPECT_EQ(b.size_bytes(), 40);
  }
  EXPECT_EQ(budget.used_bytes(), 0);
  EXPECT_EQ(budget.peak_bytes(), 100);
}

TEST(MemoryBudget, MovedGrantsAreGivenBackOnce) {
  MemoryBudget budget(100);
  MemoryGrant a = budget.TryReserve(30).value();
  MemoryGrant b = std::move(a);
  EXPECT_EQ(budget.used_bytes(), 30);
  MemoryGrant c = budget.TryReserve(20).value();
  c = std::move(b);
  EXPECT_EQ(budget.used_bytes(), 30);
  c.Release();
  c.Release();
  EXPECT_EQ(c.size_bytes(), 0);
  EXPECT_EQ(budget.used_bytes(), 0);
}

TEST(MemoryBudget, RefusesAtOnceWhatCanNeverFit) {
  MemoryBudget budget(100);
  EXPECT_EQ(budget.Reserve(101, {}).status().code(), Code::kExhausted);
  EXPECT_TRUE(budget.Reserve(100, {}).ok());
  EXPECT_TRUE(budget.Reserve(0, {}).ok());
}

TEST(MemoryBudget, WaitsUntilBytesAreGivenBack) {
  MemoryBudget budget(100);
  MemoryGrant held = budget.TryReserve(80).value();
  std::atomic<bool> is_granted = false;
  {
    const std::jthread waiter([&](const std::stop_token& stop) {
      const auto grant = budget.Reserve(50, stop);
      is_granted = grant.ok();
    });
    held.Release();
    // The destructor asks the waiter to stop only after the bytes are free: a stopped waiter that
    // finds them free takes them all the same.
  }
  EXPECT_TRUE(is_granted);
  EXPECT_EQ(budget.used_bytes(), 0);
}

TEST(MemoryBudget, AStoppedWaiterIsCancelled) {
  MemoryBudget budget(100);
  const MemoryGrant held = budget.TryReserve(80).value();
  std::stop_source stop;
  Code code = Code::kInternal;
  {
    const std::jthread waiter([&] { code = budget.Reserve(50, stop.get_token()).status().code(); });
    stop.request_stop();
  }
  EXPECT_EQ(code, Code::kCancelled);
  EXPECT_EQ(budget.used_bytes(), 80);
}

TEST(MemoryBudget, NeverOverdrawsUnderContention) {
  MemoryBudget budget(10);
  std::atomic<int64_t> used = 0;
  std::atomic<bool> is_overdrawn = false;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < 500; ++i) {
          const int64_t size = 1 + (i + t) % 7;
          const auto grant = budget.Reserve(size, {});
          if (used.fetch_add(size) + size > 10) is_overdrawn = true;
          used.fetch_sub(size);
        }
      });
    }
  }
  EXPECT_FALSE(is_overdrawn);
  EXPECT_EQ(budget.used_bytes(), 0);
  EXPECT_LE(budget.peak_bytes(), 10);
}

}  // namespace
}  // namespace partforge
