#include "clickhouse/chunks.h"

#include <gtest/gtest.h>

namespace partforge::clickhouse {
namespace {

std::vector<int64_t> Sizes(const std::vector<RowRange>& ranges) {
  std::vector<int64_t> sizes;
  for (const RowRange& range : ranges) sizes.push_back(range.row_count());
  return sizes;
}

// The examples of clickhouse-parts §9 step 9.
TEST(PlanChunks, GivesTheWorkedExamples) {
  constexpr int64_t kMin = 10'000'000;
  EXPECT_EQ(PlanChunks(19'999'999, kMin), (std::vector<RowRange>{{0, 19'999'999}}));
  EXPECT_EQ(PlanChunks(20'000'000, kMin).size(), 2u);
  EXPECT_EQ(PlanChunks(25'000'003, kMin),
            (std::vector<RowRange>{{0, 12'500'001}, {12'500'001, 25'000'003}}));
  EXPECT_EQ(Sizes(PlanChunks(43'000'001, kMin)),
            (std::vector<int64_t>{10'750'000, 10'750'000, 10'750'000, 10'750'001}));
  EXPECT_EQ(PlanChunks(200'000'000, kMin).size(), 20u);
  EXPECT_EQ(PlanChunks(9'000'000'000, kMin).size(), 20u);
}

TEST(PlanChunks, ZeroMinimumIsOneChunk) {
  EXPECT_EQ(PlanChunks(1'000'000'000, 0), (std::vector<RowRange>{{0, 1'000'000'000}}));
}

TEST(PlanChunks, RangesAreDisjointCoverEverythingAndDifferByOneRow) {
  for (const int64_t rows : {int64_t{1}, int64_t{7}, int64_t{19}, int64_t{20}, int64_t{21},
                             int64_t{1'000'003}, INT64_MAX}) {
    for (const int64_t minimum : {int64_t{0}, int64_t{1}, int64_t{3}, int64_t{100'000}}) {
      const std::vector<RowRange> ranges = PlanChunks(rows, minimum);
      ASSERT_FALSE(ranges.empty());
      EXPECT_LE(ranges.size(), 20u);
      EXPECT_EQ(ranges.front().begin, 0);
      EXPECT_EQ(ranges.back().end, rows);
      int64_t least = INT64_MAX, most = 0;
      for (size_t i = 0; i < ranges.size(); ++i) {
        if (i > 0) {
          EXPECT_EQ(ranges[i].begin, ranges[i - 1].end);
        }
        least = std::min(least, ranges[i].row_count());
        most = std::max(most, ranges[i].row_count());
      }
      EXPECT_GT(least, 0);
      EXPECT_LE(most - least, 1);
    }
  }
}

TEST(PlanChunks, NoRowsGiveNoRange) {
  EXPECT_TRUE(PlanChunks(0, 10).empty());
}

TEST(PlanChunks, AChunkIsNeverBelowTheMinimum) {
  for (int64_t rows = 1; rows < 3000; ++rows) {
    for (const RowRange& range : PlanChunks(rows, 100)) {
      EXPECT_GE(range.row_count(), std::min<int64_t>(rows, 100));
    }
  }
}

TEST(SplitRange, CutsTheRestOfAPartFiner) {
  EXPECT_EQ(SplitRange({10, 20}, 3), (std::vector<RowRange>{{10, 13}, {13, 16}, {16, 20}}));
  EXPECT_EQ(SplitRange({0, 3}, 160).size(), 3u);
  EXPECT_EQ(SplitRange({0, 100'000}, 1000).size(), 160u);
  EXPECT_TRUE(SplitRange({5, 5}, 3).empty());
}

TEST(ChunkFilter, IsTheSettingsValueWithNamesEscaped) {
  EXPECT_EQ(ChunkFilter("shop", "orders", {0, 12}),
            "{'shop.orders': '_part_offset >= 0 AND _part_offset < 12'}");
  EXPECT_EQ(ChunkFilter("d", "o'x\\y", {1, 2}),
            R"({'d.o\'x\\y': '_part_offset >= 1 AND _part_offset < 2'})");
}

}  // namespace
}  // namespace partforge::clickhouse
