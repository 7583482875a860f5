#include "base/random.h"

#include <gtest/gtest.h>

#include <set>

#include "testing/test_world.h"

namespace partforge {
namespace {

TEST(Random, SystemDrawsDiffer) {
  SystemRandom random;
  std::set<uint64_t> seen;
  for (int i = 0; i < 1000; ++i) seen.insert(random.Next());
  EXPECT_EQ(seen.size(), 1000u);
}

TEST(Random, SeededDrawsRepeat) {
  testing::SeededRandom one(7);
  testing::SeededRandom other(7);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(one.Next(), other.Next());
}

TEST(RandomHex, HasTwoLowerCaseDigitsAByte) {
  testing::SeededRandom random(1);
  EXPECT_EQ(RandomHex(random, 0), "");
  for (const size_t bytes : {1, 7, 8, 9, 33}) {
    const std::string text = RandomHex(random, bytes);
    EXPECT_EQ(text.size(), 2 * bytes);
    EXPECT_EQ(text.find_first_not_of("0123456789abcdef"), std::string::npos);
  }
}

TEST(RandomHex, EveryByteIsDrawn) {
  testing::SeededRandom random(1);
  std::set<std::string> bytes;
  const std::string text = RandomHex(random, 20'000);
  for (size_t i = 0; i < text.size(); i += 2) bytes.insert(text.substr(i, 2));
  EXPECT_EQ(bytes.size(), 256u);
}

TEST(RandomBelow, StaysBelowAndReachesAll) {
  testing::SeededRandom random(1);
  EXPECT_EQ(RandomBelow(random, 0), 0u);
  EXPECT_EQ(RandomBelow(random, 1), 0u);
  std::set<uint64_t> seen;
  for (int i = 0; i < 1000; ++i) {
    const uint64_t value = RandomBelow(random, 7);
    EXPECT_LT(value, 7u);
    seen.insert(value);
  }
  EXPECT_EQ(seen.size(), 7u);
}

}  // namespace
}  // namespace partforge
