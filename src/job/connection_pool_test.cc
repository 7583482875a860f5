#include "job/connection_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <thread>

namespace partforge {
namespace {

using Pool = ConnectionPool<int>;

class ConnectionPoolTest : public ::testing::Test {
 protected:
  Pool::Opener opener_ = [this]() -> Result<std::unique_ptr<int>> {
    return std::make_unique<int>(++opened_);
  };
  std::atomic<int> opened_ = 0;
};

TEST_F(ConnectionPoolTest, AReturnedConnectionIsLentAgain) {
  Pool pool(2);
  { ASSERT_EQ(**pool.Borrow(opener_), 1); }
  const Result<Pool::Loan> again = pool.Borrow(opener_);
  EXPECT_EQ(**again, 1);
  EXPECT_EQ(opened_, 1);
}

TEST_F(ConnectionPoolTest, ADiscardedOneMakesRoomForANewOne) {
  Pool pool(1);
  {
    Result<Pool::Loan> loan = pool.Borrow(opener_);
    loan->Discard();
  }
  EXPECT_EQ(**pool.Borrow(opener_), 2);
}

TEST_F(ConnectionPoolTest, AFailureToOpenMakesRoomToo) {
  Pool pool(1);
  const Pool::Opener broken = []() -> Result<std::unique_ptr<int>> {
    return Status(Code::kUnavailable, "no server");
  };
  EXPECT_FALSE(pool.Borrow(broken).ok());
  EXPECT_TRUE(pool.Borrow(opener_).ok());
}

TEST_F(ConnectionPoolTest, ABorrowerWaitsForTheLastOne) {
  Pool pool(1);
  std::latch is_waiting(1);
  std::atomic<bool> is_lent = true;
  std::jthread waiter;
  {
    const Result<Pool::Loan> held = pool.Borrow(opener_);
    waiter = std::jthread([&] {
      is_waiting.count_down();
      const Result<Pool::Loan> second = pool.Borrow(opener_);
      EXPECT_FALSE(is_lent);
    });
    is_waiting.wait();
    is_lent = false;
  }
  waiter.join();
  EXPECT_EQ(opened_, 1);
}

TEST_F(ConnectionPoolTest, IdleOnesCanBeClosed) {
  Pool pool(1);
  { ASSERT_TRUE(pool.Borrow(opener_).ok()); }
  pool.CloseIdle();
  EXPECT_EQ(**pool.Borrow(opener_), 2);
}

}  // namespace
}  // namespace partforge
