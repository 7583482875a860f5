#include "clickhouse/insert_tier.h"

#include <gtest/gtest.h>

namespace partforge::clickhouse {
namespace {

Tuning TuningOf(int64_t cpus, int64_t memory_gib) {
  const auto tuning = Tune(MachineLimits{.cpus = cpus, .memory_bytes = memory_gib << 30}, 1);
  return tuning.ok() ? *tuning : Tuning{};
}

TierQuestion Question(int64_t rows, int64_t bytes, int64_t memory_bytes) {
  TierQuestion question;
  question.block.memory_cap_bytes = memory_bytes;
  question.block.rows = rows;
  question.block.data_uncompressed_bytes = bytes;
  question.tuning = TuningOf(8, 24);
  return question;
}

TEST(PlanInsert, APartThatFitsMemoryIsOneBlockAndNotSplit) {
  const InsertPlan plan = PlanInsert(Question(25'000'003, 2'500'000'300, int64_t{20} << 30));
  EXPECT_EQ(plan.state.tier, InsertTier::kOneBlock);
  EXPECT_EQ(plan.state.block_rows, 25'000'003);
  EXPECT_EQ(plan.ranges, (std::vector<RowRange>{{0, 25'000'003}}));
}

TEST(PlanInsert, AnExplicitMinimumSplitsItAllTheSame) {
  TierQuestion question = Question(25'000'003, 2'500'000'300, int64_t{20} << 30);
  question.is_chunk_rows_explicit = true;
  EXPECT_EQ(PlanInsert(question).ranges,
            (std::vector<RowRange>{{0, 12'500'001}, {12'500'001, 25'000'003}}));
  question.is_chunk_safe = false;
  EXPECT_EQ(PlanInsert(question).ranges.size(), 1u);
  question.is_chunk_safe = true;
  question.chunk_rows_min = 0;
  EXPECT_EQ(PlanInsert(question).ranges.size(), 1u);
}

TEST(PlanInsert, ABiggerPartIsCutIntoChunksAndLargeBlocks) {
  const InsertPlan plan = PlanInsert(Question(43'000'001, 43'000'001'000, int64_t{4} << 30));
  EXPECT_EQ(plan.state.tier, InsertTier::kBlocksAndMerge);
  EXPECT_GE(plan.state.block_rows, kBlockRowsMin);
  EXPECT_LT(plan.state.block_rows, 43'000'001);
  EXPECT_EQ(plan.ranges.size(), 4u);
  EXPECT_FALSE(plan.reason.empty());
}

// Two blocks are in memory at once where one is written while the next is read.
TEST(PlanInsert, BlocksOfAPartThatDoesNotFitLeaveRoomForTheNextOne) {
  TierQuestion question;
  question.block = {.memory_cap_bytes = int64_t{2} << 30,
                    .slots = 1,
                    .rows = 10'000'000,
                    .data_uncompressed_bytes = 1'740'000'000};
  const InsertPlan plan = PlanInsert(question);
  ASSERT_EQ(plan.state.tier, InsertTier::kBlocksAndMerge);
  const int64_t room_bytes = (int64_t{2} << 30) - kWorkerBytes - kEngineBaseBytes;
  EXPECT_LE(plan.state.block_rows * 174 * 5, room_bytes);
  EXPECT_GE(plan.state.block_rows * 174 * 6, room_bytes);
}

TEST(PlanInsert, AnEmptyPartIsOneEmptyRange) {
  EXPECT_EQ(PlanInsert(Question(0, 0, int64_t{4} << 30)).ranges, (std::vector<RowRange>{{0, 0}}));
}

TEST(PlanInsert, TheSeedTierIsTheSeedsWay) {
  TierQuestion question = Question(25'000'003, 2'500'000'300, int64_t{20} << 30);
  question.forced = InsertTier::kSeed;
  const InsertPlan plan = PlanInsert(question);
  EXPECT_EQ(plan.ranges.size(), 2u);
  const auto settings = InsertSettings(plan.state, question.tuning, InsertReads::kRange);
  EXPECT_EQ(settings.at("max_threads"), "4");
  EXPECT_EQ(settings.at("max_insert_threads"), "4");
  EXPECT_FALSE(settings.contains("max_block_size"));
  EXPECT_FALSE(settings.contains("min_insert_block_size_rows"));
}

// With more threads equal keys of one part change places, and a ReplacingMergeTree keeps any of
// them.
TEST(OrderedTuning, OneThreadInEveryTierAndOnEveryRung) {
  TierQuestion question = Question(25'000'003, 2'500'000'300, int64_t{20} << 30);
  ASSERT_GT(question.tuning.insert_threads, 1);
  question.tuning = OrderedTuning(question.tuning);
  question.forced = InsertTier::kSeed;
  std::optional<InsertState> state = PlanInsert(question).state;
  int64_t rungs = 0;
  for (; state; state = Shrink(*state, question.tuning, 65'409), ++rungs) {
    const auto settings = InsertSettings(*state, question.tuning, InsertReads::kRange);
    EXPECT_EQ(settings.at("max_threads"), "1");
    EXPECT_EQ(settings.at("max_insert_threads"), "1");
  }
  EXPECT_GT(rungs, 1);
  state = InsertState{.tier = InsertTier::kBlocksAndMerge, .block_rows = 300'000, .rung = {}};
  state = Shrink(*state, question.tuning, 65'409);
  ASSERT_EQ(state->tier, InsertTier::kSeed);
  EXPECT_EQ(InsertSettings(*state, question.tuning, InsertReads::kRange).at("max_threads"), "1");
}

// clickhouse-parts §9.4, worked: 16/16 threads, 65,409 rows → 8/8/32,704 → 4/4/16,352 → 2/2/8,192
// → 1/1/8,192; an error of this fifth attempt ends it.
TEST(Shrink, TheSeedsLadderIsTheWorkedOne) {
  const Tuning tuning = TuningOf(32, 128);
  InsertState state{.tier = InsertTier::kSeed, .block_rows = 0, .rung = {}};
  state.rung = {.max_insert_threads = 16, .max_threads = 16, .max_block_size = 0};
  const std::pair<int64_t, int64_t> expected[] = {{8, 32'704}, {4, 16'352}, {2, 8'192}, {1, 8'192}};
  for (const auto& [threads, block] : expected) {
    const auto next = Shrink(state, tuning, 65'409);
    ASSERT_TRUE(next.has_value());
    EXPECT_EQ(next->rung.max_threads, threads);
    EXPECT_EQ(next->rung.max_insert_threads, threads);
    EXPECT_EQ(next->rung.max_block_size, block);
    state = *next;
  }
  EXPECT_FALSE(Shrink(state, tuning, 65'409).has_value());
}

TEST(Shrink, OneBlockFallsToHalvesThenToTheSeed) {
  const Tuning tuning = TuningOf(8, 24);
  std::optional<InsertState> state =
      InsertState{.tier = InsertTier::kOneBlock, .block_rows = 1'500'000, .rung = {}};
  state = Shrink(*state, tuning, 65'409);
  EXPECT_EQ(state->tier, InsertTier::kBlocksAndMerge);
  EXPECT_EQ(state->block_rows, 750'000);
  state = Shrink(*state, tuning, 65'409);
  EXPECT_EQ(state->block_rows, 375'000);
  state = Shrink(*state, tuning, 65'409);
  EXPECT_EQ(state->tier, InsertTier::kSeed);
  EXPECT_EQ(state->rung.max_threads, 4);
}

TEST(InsertSettings, RangesTurnOffWhatWouldReadOtherOffsets) {
  const Tuning tuning = TuningOf(8, 24);
  const InsertState state{.tier = InsertTier::kOneBlock, .block_rows = 30'000'000, .rung = {}};
  const auto settings = InsertSettings(state, tuning, InsertReads::kRange);
  EXPECT_EQ(settings.at("optimize_use_projections"), "0");
  EXPECT_EQ(settings.at("use_query_condition_cache"), "0");
  EXPECT_EQ(settings.at("max_partitions_per_insert_block"), "0");
  EXPECT_EQ(settings.at("max_threads"), "1");
  EXPECT_EQ(settings.at("min_insert_block_size_rows"), "30000000");
  EXPECT_EQ(settings.at("min_insert_block_size_bytes"), "0");
  EXPECT_EQ(settings.at("max_block_size"), "16777216");
  EXPECT_FALSE(
      InsertSettings(state, tuning, InsertReads::kAll).contains("use_query_condition_cache"));
}

TEST(ParseTier, KnowsBothNames) {
  EXPECT_EQ(*ParseTier("auto"), std::nullopt);
  EXPECT_EQ(*ParseTier("T5"), InsertTier::kOneBlock);
  EXPECT_EQ(*ParseTier("blocks"), InsertTier::kBlocksAndMerge);
  EXPECT_EQ(*ParseTier("Seed"), InsertTier::kSeed);
  EXPECT_EQ(ParseTier("t7").status().code(), Code::kInvalidArgument);
}

TEST(PlanInsert, SeveralPartsAreOneBlockAndNeverRanges) {
  TierQuestion question = Question(2'000'000, 348'000'000, int64_t{4} << 30);
  question.source_parts = 8;
  question.is_chunk_rows_explicit = true;
  question.chunk_rows_min = 100;
  InsertPlan plan = PlanInsert(question);
  EXPECT_EQ(TierName(plan.state.tier), "T5b");
  EXPECT_EQ(plan.state.block_rows, 2'000'000);
  EXPECT_EQ(plan.ranges, (std::vector<RowRange>{{0, 2'000'000}}));
  EXPECT_EQ(plan.reason.find("8 parts, 2000000 rows of 174 bytes fit one block"), 0u)
      << plan.reason;
  // More than was foreseen: blocks and a merge, still without ranges.
  question.block.memory_cap_bytes = int64_t{1} << 30;
  plan = PlanInsert(question);
  EXPECT_EQ(TierName(plan.state.tier), "T6");
  EXPECT_EQ(plan.ranges.size(), 1u);
}

TEST(PlanInsert, TheWishForCompanyLeavesAPartAloneAsItWouldBe) {
  TierQuestion question = Question(1'000, 100'000, int64_t{4} << 30);
  question.forced = InsertTier::kManyInOne;
  EXPECT_EQ(TierName(PlanInsert(question).state.tier), "T5");
  question.source_parts = 2;
  EXPECT_EQ(TierName(PlanInsert(question).state.tier), "T5b");
}

}  // namespace
}  // namespace partforge::clickhouse
