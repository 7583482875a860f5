#include "base/ids.h"

#include <gtest/gtest.h>

#include "testing/test_world.h"

namespace partforge {
namespace {

// The worked examples of clickhouse-parts §6.
constexpr std::string_view kSource =
    "CREATE TABLE shop.orders\n(\n    `id` UInt64,\n    `amount` UInt32,\n    `day` Date\n)\n"
    "ENGINE = MergeTree\nORDER BY id";
constexpr std::string_view kDestination =
    "CREATE TABLE shop.orders_v2 (id UInt64, amount String, day Date) ENGINE = MergeTree ORDER BY "
    "(day, id)\n";
constexpr std::string_view kInsert =
    "INSERT INTO shop.orders_v2 SELECT id, toString(amount), day FROM shop.orders\n";
constexpr std::string_view kFrozenPath = "store/1f2/1f2e3d4c-0000-4000-8000-00000000beef/all_1_1_0";

// check: PF-3
TEST(Ids, ChainDigestEqualsTheCheckVector) {
  const std::string_view values[] = {"x", "y", "z"};
  EXPECT_EQ(ChainDigest(values),
            "9e80b69248283ed05ec657f497f56d0fcc90cbe61d0691f40e689f93233936cd");
}

// check: PF-3
TEST(Ids, FullDigestsEqualTheWorkedExamples) {
  const std::string_view frozen[] = {"default", kFrozenPath,  "all_1_1_0",
                                     kSource,   kDestination, kInsert};
  EXPECT_EQ(ChainDigest(frozen),
            "d7cc35577e8617a690677ac7fc6d052a072c14f5a25427fccb45924f3bbbd7ce");
  const std::string_view backup[] = {
      "backup", "data/shop/orders/all_1_1_0", "all_1_1_0", kSource, kDestination, kInsert};
  EXPECT_EQ(ChainDigest(backup),
            "09599306ffb6de2d9bcfbf1cd94e7b04dacf970fbb732d36d5203792d7d63a75");
  const std::string_view compact[] = {"1", "part-09599306ffb6de2d", "part-d7cc35577e8617a6"};
  EXPECT_EQ(ChainDigest(compact),
            "b972f1407569617f6bb24c2c4a0dcd021086ef3f42fe1ec35fc8e6eff804d434");
}

// check: PF-3
TEST(Ids, PartIdsEqualTheWorkedExamples) {
  EXPECT_EQ(MakePartId({.disk = "default",
                        .relative_path = kFrozenPath,
                        .part_name = "all_1_1_0",
                        .source_schema = kSource,
                        .destination_schema = kDestination,
                        .insert_select = kInsert}),
            "part-d7cc35577e8617a6");
  EXPECT_EQ(MakePartId({.disk = "backup",
                        .relative_path = "data/shop/orders/all_1_1_0",
                        .part_name = "all_1_1_0",
                        .source_schema = kSource,
                        .destination_schema = kDestination,
                        .insert_select = kInsert}),
            "part-09599306ffb6de2d");
}

// check: PF-3
TEST(Ids, CompactIdsSortTheirInputs) {
  EXPECT_EQ(MakeCompactId(1, {"part-d7cc35577e8617a6", "part-09599306ffb6de2d"}),
            "compact-b972f1407569617f");
  EXPECT_EQ(MakeCompactId(2, {"part-00000000000000ff", "compact-b972f1407569617f"}),
            "compact-cb28a937abdf1296");
}

TEST(Ids, ValuesDoNotRunIntoEachOther) {
  const std::string_view one[] = {"ab", "c"};
  const std::string_view other[] = {"a", "bc"};
  EXPECT_NE(ChainDigest(one), ChainDigest(other));
}

TEST(Ids, JobIdHasSixteenHexDigitsAndDiffersEachTime) {
  testing::SeededRandom random(1);
  const std::string id = MakeJobId(random);
  EXPECT_EQ(id.size(), 20u);
  EXPECT_TRUE(id.starts_with("job-"));
  EXPECT_EQ(id.find_first_not_of("0123456789abcdef", 4), std::string::npos);
  EXPECT_TRUE(IsValidId(id));
  EXPECT_NE(MakeJobId(random), id);
}

TEST(Ids, ValidIdIsOneHarmlessKeySegment) {
  for (const std::string_view id : {"job-1", "a", "A.b_c-9", "...", "-x"})
    EXPECT_TRUE(IsValidId(id)) << id;
  for (const std::string_view id : {"", ".", "..", "a/b", "a b", "a\\b", "\u00e4", "a:b", "a%2F"}) {
    EXPECT_FALSE(IsValidId(id)) << id;
  }
  EXPECT_TRUE(IsValidId(std::string(128, 'x')));
  EXPECT_FALSE(IsValidId(std::string(129, 'x')));
  EXPECT_FALSE(IsValidId(std::string_view("a\0b", 3)));
}

}  // namespace
}  // namespace partforge
