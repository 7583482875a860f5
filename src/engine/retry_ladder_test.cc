#include "engine/retry_ladder.h"

#include <gtest/gtest.h>

#include <vector>

namespace partforge {
namespace {

TEST(ResourceLadder, WorkedExampleOfTheSpecification) {
  std::optional<ResourceRung> rung =
      ResourceRung{.max_insert_threads = 16, .max_threads = 16, .max_block_size = 65'409};
  const std::vector<ResourceRung> expected = {
      {8, 8, 32'704}, {4, 4, 16'352}, {2, 2, 8'192}, {1, 1, 8'192}};
  for (const ResourceRung& next : expected) {
    rung = NextRung(*rung);
    ASSERT_TRUE(rung.has_value());
    EXPECT_EQ(*rung, next);
  }
  EXPECT_FALSE(NextRung(*rung).has_value()) << "an error of the fifth attempt ends it";
}

TEST(ResourceLadder, EachValueFallsOnItsOwn) {
  EXPECT_EQ(NextRung({.max_insert_threads = 1, .max_threads = 5, .max_block_size = 8192}),
            (ResourceRung{.max_insert_threads = 1, .max_threads = 2, .max_block_size = 8192}));
}

TEST(ResourceLadder, AnExplicitSmallBlockIsKept) {
  EXPECT_EQ(NextRung({.max_insert_threads = 2, .max_threads = 1, .max_block_size = 1000}),
            (ResourceRung{.max_insert_threads = 1, .max_threads = 1, .max_block_size = 1000}));
  EXPECT_FALSE(NextRung({.max_insert_threads = 1, .max_threads = 1, .max_block_size = 1000}));
}

TEST(ResourceLadder, EveryStartEndsWithinFortySteps) {
  ResourceRung rung{
      .max_insert_threads = 1 << 20, .max_threads = 3, .max_block_size = int64_t{1} << 50};
  int steps = 0;
  for (auto next = NextRung(rung); next; next = NextRung(*next)) ASSERT_LT(++steps, 40);
}

TEST(ResourceLadder, PausesAreBounded) {
  std::vector<int64_t> pauses;
  for (int64_t failures = 1; failures <= 6; ++failures) pauses.push_back(LadderPauseMs(failures));
  EXPECT_EQ(pauses, (std::vector<int64_t>{1000, 2000, 4000, 8000, 10000, 10000}));
}

}  // namespace
}  // namespace partforge
