#include "data/dictionary_union.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>

#include "testing/test_world.h"

namespace partforge::data {
namespace {

TEST(DictionaryUnion, NumbersEntriesInTheirFirstOrder) {
  const uint64_t seed = partforge::testing::TestSeed();
  SCOPED_TRACE(seed);
  partforge::testing::SeededRandom random(seed);
  DictionaryUnion united({.entries_max = 100'000, .bytes_max = 1 << 20});
  std::map<std::string, uint32_t> wanted;
  std::string bytes;
  for (int i = 0; i < 20'000; ++i) {
    const std::string entry(random.Next() % 9, static_cast<char>('a' + random.Next() % 9));
    const std::string name =
        random.Next() % 4 == 0 ? fmt::format("e{}", random.Next() % 3000) : entry;
    const auto [place, is_new] = wanted.try_emplace(name, static_cast<uint32_t>(wanted.size()));
    if (is_new) bytes += name;
    ASSERT_EQ(united.Add(name), place->second);
  }
  EXPECT_EQ(united.entry_count(), static_cast<int64_t>(wanted.size()));
  EXPECT_EQ(united.TakeBytes(), bytes);
}

TEST(DictionaryUnion, LimitsConcernNewEntriesOnly) {
  DictionaryUnion few({.entries_max = 2, .bytes_max = 100});
  EXPECT_EQ(few.Add("a"), 0U);
  EXPECT_EQ(few.Add("b"), 1U);
  EXPECT_EQ(few.Add("c"), std::nullopt);
  EXPECT_EQ(few.Add("b"), 1U);
  DictionaryUnion small({.entries_max = 100, .bytes_max = 5});
  EXPECT_EQ(small.Add("abc"), 0U);
  EXPECT_EQ(small.Add("xyz"), std::nullopt);
  EXPECT_EQ(small.Add(""), 1U);
  EXPECT_EQ(small.Add("ab"), 2U);
}

}  // namespace
}  // namespace partforge::data
