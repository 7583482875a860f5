#include "clickhouse/tuning.h"

#include <gtest/gtest.h>

namespace partforge::clickhouse {
namespace {

constexpr int64_t kGib = int64_t{1} << 30;

struct Row {
  int64_t cpus, gib, threads, memory, rows, bytes, files;
};
// The table of clickhouse-parts §13.
constexpr Row kTable[] = {
    {2, 8, 1, 6012954214, 262144, 10485760, 128},    {2, 24, 1, 18038862643, 262144, 10485760, 128},
    {2, 128, 1, 96207267430, 262144, 10485760, 128}, {8, 8, 4, 6012954214, 73728, 10485760, 32},
    {8, 24, 4, 18038862643, 229376, 10485760, 32},   {8, 128, 4, 96207267430, 262144, 10485760, 32},
    {32, 8, 16, 6012954214, 16384, 10485760, 8},     {32, 24, 16, 18038862643, 57344, 10485760, 8},
    {32, 128, 16, 96207267430, 262144, 10485760, 8}, {96, 8, 48, 6012954214, 8192, 6291456, 2},
    {96, 24, 48, 18038862643, 16384, 10485760, 2},   {96, 128, 48, 96207267430, 98304, 10485760, 2},
};

TEST(Tune, GivesTheWorkedTable) {
  for (const Row& row : kTable) {
    SCOPED_TRACE(std::to_string(row.cpus) + " CPUs, " + std::to_string(row.gib) + " GiB");
    const Tuning t = Tune({.cpus = row.cpus, .memory_bytes = row.gib * kGib}, 1).value();
    EXPECT_EQ(t.insert_threads, row.threads);
    EXPECT_EQ(t.max_memory_usage_bytes, row.memory);
    EXPECT_EQ(t.merge_max_block_size_rows, row.rows);
    EXPECT_EQ(t.merge_max_block_size_bytes, row.bytes);
    EXPECT_EQ(FilesPerPart(row.cpus), row.files);
  }
}

TEST(Tune, SlotsShareTheMachine) {
  const Tuning t = Tune({.cpus = 32, .memory_bytes = 96 * kGib}, 4).value();
  EXPECT_EQ(t.cpus, 8);
  EXPECT_EQ(t.memory_bytes, 24 * kGib);
  EXPECT_EQ(t.merge_max_block_size_rows, 229376);
  EXPECT_EQ(Tune({.cpus = 2, .memory_bytes = kGib}, 16)->cpus, 1);
}

TEST(Tune, RefusesNothing) {
  EXPECT_FALSE(Tune({.cpus = 0, .memory_bytes = kGib}, 1).ok());
  EXPECT_FALSE(Tune({.cpus = 1, .memory_bytes = 0}, 1).ok());
  EXPECT_FALSE(Tune({.cpus = 1, .memory_bytes = kGib}, 0).ok());
}

TEST(Tune, NeverOverflows) {
  const Tuning t = Tune({.cpus = 1, .memory_bytes = INT64_MAX}, 1).value();
  EXPECT_GT(t.max_memory_usage_bytes, INT64_MAX / 2);
  EXPECT_EQ(t.merge_max_block_size_bytes, kMergeBlockBytesMax);
}

TEST(DefaultSlots, TwoGibibytesEach) {
  EXPECT_EQ(DefaultSlots({.cpus = 16, .memory_bytes = 64 * kGib}), 16);
  EXPECT_EQ(DefaultSlots({.cpus = 16, .memory_bytes = 9 * kGib}), 4);
  EXPECT_EQ(DefaultSlots({.cpus = 16, .memory_bytes = kGib}), 1);
}

TEST(EstimateBlock, WholePartWhenItFitsTheSlot) {
  // 2 million rows of 500 raw bytes: 1 GB, 3.3 GB at the peak.
  const BlockQuestion question{.memory_cap_bytes = 8 * kGib,
                               .slots = 2,
                               .rows = 2'000'000,
                               .data_uncompressed_bytes = 1'000'000'000};
  const BlockEstimate fits = EstimateBlock(question);
  EXPECT_TRUE(fits.is_whole_part);
  EXPECT_EQ(fits.slot_memory_bytes, (8 * kGib - kWorkerBytes) / 2 - kEngineBaseBytes);
  EXPECT_NEAR(static_cast<double>(fits.block_rows),
              static_cast<double>(fits.slot_memory_bytes) / (3.3 * 500), 2);

  BlockQuestion larger = question;
  larger.rows *= 4;
  larger.data_uncompressed_bytes *= 4;
  EXPECT_FALSE(EstimateBlock(larger).is_whole_part);
  EXPECT_EQ(EstimateBlock(larger).block_rows, fits.block_rows);
}

TEST(EstimateBlock, NeverBelowTheFloorAndThenNotWhole) {
  const BlockEstimate tight = EstimateBlock({.memory_cap_bytes = 512 << 20,
                                             .slots = 1,
                                             .rows = 100'000,
                                             .data_uncompressed_bytes = 100'000'000'000});
  EXPECT_EQ(tight.block_rows, kBlockRowsMin);
  EXPECT_FALSE(tight.is_whole_part);
  EXPECT_TRUE(EstimateBlock({.memory_cap_bytes = 0}).is_whole_part);
}

}  // namespace
}  // namespace partforge::clickhouse
