#include "testing/faulty_store.h"

#include <gtest/gtest.h>

#include "base/hash.h"
#include "testing/memory_store.h"
#include "testing/test_world.h"

namespace partforge::testing {
namespace {

class FaultyStoreTest : public ::testing::Test {
 protected:
  Context ctx() { return world_.context(); }
  TestWorld world_;
  MemoryStore inner_;
  FaultyStore store_{inner_};
};

TEST_F(FaultyStoreTest, RefusedHasNoEffectAndLostReplyHasIt) {
  store_.FailAt(1, StoreFault::kRefused);
  EXPECT_EQ(store_.PutIfAbsent(ctx(), "a", AsBytes("x")).status().code(), Code::kUnavailable);
  EXPECT_FALSE(inner_.Stat(ctx(), "a").ok());
  store_.FailAt(1, StoreFault::kLostReply);
  EXPECT_EQ(store_.PutIfAbsent(ctx(), "a", AsBytes("x")).status().code(), Code::kUnknownOutcome);
  EXPECT_TRUE(inner_.Stat(ctx(), "a").ok());
  EXPECT_TRUE(store_.has_fired());
}

TEST_F(FaultyStoreTest, EveryRequestOfAWriteCanFail) {
  const int64_t before = store_.request_count();
  ASSERT_TRUE(WriteObject(ctx(), store_, "a", "bytes").ok());
  const int64_t requests = store_.request_count() - before;
  EXPECT_EQ(requests, 3);  // Create, Append, Close
  for (int64_t nth = 1; nth <= requests; ++nth) {
    store_.FailAt(nth, StoreFault::kRefused);
    EXPECT_FALSE(WriteObject(ctx(), store_, "b", "bytes").ok()) << nth;
    EXPECT_FALSE(inner_.Stat(ctx(), "b").ok()) << nth;
  }
}

TEST_F(FaultyStoreTest, FrozenListShowsWhatWas) {
  ASSERT_TRUE(WriteObject(ctx(), store_, "a", "x").ok());
  ASSERT_TRUE(store_.FreezeList(ctx()).ok());
  ASSERT_TRUE(WriteObject(ctx(), store_, "b", "x").ok());
  ASSERT_TRUE(store_.Delete(ctx(), std::vector<std::string>{"a"}).ok());
  EXPECT_EQ(store_.List(ctx(), "", std::nullopt)->objects.at(0).key, "a");
  store_.Thaw();
  EXPECT_EQ(store_.List(ctx(), "", std::nullopt)->objects.at(0).key, "b");
}

TEST_F(FaultyStoreTest, CutDeleteTakesHalf) {
  for (const std::string key : {"a", "b", "c", "d"})
    ASSERT_TRUE(WriteObject(ctx(), store_, key, "x").ok());
  store_.FailAt(1, StoreFault::kCut);
  EXPECT_FALSE(store_.Delete(ctx(), std::vector<std::string>{"a", "b", "c", "d"}).ok());
  EXPECT_EQ(ListAll(ctx(), inner_, "")->size(), 2u);
}

}  // namespace
}  // namespace partforge::testing
