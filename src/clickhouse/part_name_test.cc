#include "clickhouse/part_name.h"

#include <gtest/gtest.h>

#include "testing/test_world.h"

namespace partforge::clickhouse {
namespace {

PartName Name(std::string_view text) {
  return ParsePartName(text).value();
}

TEST(PartName, ReadsFourAndFivePieces) {
  const PartName plain = Name("202401_1_17_3");
  EXPECT_EQ(plain.partition_id, "202401");
  EXPECT_EQ(plain.min_block, 1);
  EXPECT_EQ(plain.max_block, 17);
  EXPECT_EQ(plain.level, 3u);
  EXPECT_FALSE(plain.mutation);
  EXPECT_EQ(Name("all_1_1_0_2").mutation, 2);
}

TEST(PartName, PrintsWhatItRead) {
  for (const char* text :
       {"all_1_1_0", "202401_0_4611686018427387904_0", "b4e4ca5f2a0f8d31_2_2_0_9", "-1_1_1_0",
        "patch-7f0e-202401_3_3_0_12", "20240101-5_1_2_999999999"}) {
    EXPECT_EQ(Name(text).ToString(), text);
  }
  EXPECT_TRUE(Name("patch-7f0e-202401_3_3_0_12").IsPatch());
  EXPECT_FALSE(Name("all_1_1_0").IsPatch());
}

TEST(PartName, RefusesWhatIsNoName) {
  for (const char* text :
       {"", "all", "all_1_1", "_1_1_0", "all_1_1_0_2_3", "all_2_1_0", "all_-1_1_0", "all_01_1_0",
        "all_1_1_0_", "all_1_1_x", "a/b_1_1_0", "..", "all_1_1_4294967296",
        "all_1_9223372036854775808_0", "delete_tmp_all_1_1_0", "tmp-fetch_all_1_1_0 "}) {
    EXPECT_FALSE(ParsePartName(text).ok()) << text;
  }
  EXPECT_FALSE(ParsePartName(std::string(300, 'a')).ok());
}

TEST(PartName, CoversFollowsTheServersRule) {
  EXPECT_TRUE(Covers(Name("all_1_4_1"), Name("all_2_2_0")));
  EXPECT_TRUE(Covers(Name("all_1_1_0"), Name("all_1_1_0")));
  EXPECT_TRUE(Covers(Name("all_1_1_0_5"), Name("all_1_1_0")));
  EXPECT_TRUE(Covers(Name("all_1_1_1"), Name("all_1_1_0")));
  EXPECT_FALSE(Covers(Name("all_1_4_1"), Name("all_2_2_1")));    // equal level, other range
  EXPECT_FALSE(Covers(Name("all_1_4_1"), Name("all_2_5_0")));    // sticks out
  EXPECT_FALSE(Covers(Name("all_1_4_1"), Name("all_2_2_0_7")));  // newer mutation inside
  EXPECT_FALSE(Covers(Name("201_1_4_1"), Name("202_2_2_0")));    // other partition
  EXPECT_TRUE(Covers(Name("all_1_4_999999999"), Name("all_2_2_999999999")));
}

TEST(PartName, OverlapsSeesSharedBlocks) {
  EXPECT_TRUE(Overlaps(Name("all_1_4_1"), Name("all_4_6_1")));
  EXPECT_FALSE(Overlaps(Name("all_1_4_1"), Name("all_5_6_1")));
  EXPECT_FALSE(Overlaps(Name("a_1_4_1"), Name("b_1_4_1")));
}

TEST(PartName, AnyBytesEitherFailOrPrintTheSame) {
  const uint64_t seed = testing::TestSeed();
  SCOPED_TRACE(seed);
  testing::SeededRandom random(seed);
  const std::string_view alphabet = "0123456789_-az/.\\ ";
  for (int round = 0; round < 20'000; ++round) {
    std::string text = "all_1_1_0";
    const uint64_t edits = 1 + RandomBelow(random, 4);
    for (uint64_t i = 0; i < edits; ++i) {
      const size_t at = RandomBelow(random, text.size() + 1);
      const char c = alphabet[RandomBelow(random, alphabet.size())];
      if (at < text.size() && RandomBelow(random, 2) == 0) {
        text[at] = c;
      } else {
        text.insert(at, 1, c);
      }
    }
    const auto name = ParsePartName(text);
    if (name.ok()) {
      EXPECT_EQ(name->ToString(), text);
    }
  }
}

}  // namespace
}  // namespace partforge::clickhouse
