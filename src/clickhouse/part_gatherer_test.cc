#include "clickhouse/part_gatherer.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "clickhouse/tuning.h"
#include "testing/test_world.h"

namespace partforge::clickhouse {
namespace {

RewriteJobSpec PlainJob() {
  RewriteJobSpec job;
  job.source_schema = "CREATE TABLE a.s (id UInt64) ENGINE = MergeTree ORDER BY id";
  job.destination_schema = "CREATE TABLE a.d (id UInt64) ENGINE = MergeTree ORDER BY id";
  job.insert_select = "INSERT INTO a.d SELECT id FROM a.s";
  return job;
}

Task PartOf(int64_t rows, int64_t raw_bytes_per_row = 100) {
  RewriteTaskSpec spec;
  spec.rows = rows;
  spec.uncompressed_bytes = rows * raw_bytes_per_row;
  spec.size_bytes = rows * raw_bytes_per_row / 3;
  Task task;
  task.size_bytes = spec.size_bytes;
  task.payload = spec.ToJson();
  return task;
}

ClaimOffer OfferOf(const std::vector<Task>& tasks) {
  ClaimOffer offer;
  offer.tasks = tasks;
  for (const Task& task : tasks) {
    offer.ready_bytes += task.size_bytes;
  }
  return offer;
}

GatherRules RulesOf(int64_t slots) {
  return {.memory_cap_bytes = int64_t{16} << 30, .slots = slots};
}

std::vector<size_t> SizesOf(const std::vector<std::vector<size_t>>& leases) {
  std::vector<size_t> sizes;
  for (const auto& lease : leases) sizes.push_back(lease.size());
  return sizes;
}

std::vector<std::vector<size_t>> Gather(const ClaimOffer& offer, const GatherRules& rules,
                                        int64_t leases_max = 100) {
  return GatherParts(offer, PlainJob(), rules, {.leases_max = leases_max});
}

// performance R3: eight parts of 250,000 rows are one part in one slot, and two in two.
TEST(GatherParts, OneSlotTakesAllThatFitAndTwoShareThem) {
  const ClaimOffer offer = OfferOf(std::vector<Task>(8, PartOf(250'000)));
  EXPECT_EQ(SizesOf(Gather(offer, RulesOf(1))), (std::vector<size_t>{8}));
  EXPECT_EQ(SizesOf(Gather(offer, RulesOf(2))), (std::vector<size_t>{4, 4}));
  EXPECT_EQ(SizesOf(Gather(offer, RulesOf(4))), (std::vector<size_t>{2, 2, 2, 2}));
}

TEST(GatherParts, GroupsOfALargerJobAreEquallyLarge) {
  const ClaimOffer offer = OfferOf(std::vector<Task>(24, PartOf(250'000)));
  EXPECT_EQ(SizesOf(Gather(offer, RulesOf(1))), (std::vector<size_t>{8, 8, 8}));
  EXPECT_EQ(SizesOf(Gather(offer, RulesOf(2))), (std::vector<size_t>{6, 6, 6, 6}));
}

TEST(GatherParts, VerySmallJobsAreNotCutForTheSakeOfASlot) {
  const ClaimOffer offer = OfferOf(std::vector<Task>(50, PartOf(1'000)));
  EXPECT_EQ(SizesOf(Gather(offer, RulesOf(8))), (std::vector<size_t>{50}));
}

TEST(GatherParts, ThousandsOfPartsGoByTheirNumber) {
  ClaimOffer offer = OfferOf(std::vector<Task>(1'000, PartOf(100)));
  offer.ready_bytes *= 10;
  EXPECT_EQ(SizesOf(Gather(offer, RulesOf(1))), (std::vector<size_t>{1'000}));
  EXPECT_EQ(SizesOf(Gather(offer, RulesOf(4))).front(), 833u);  // 12 groups in all
}

TEST(GatherParts, AGroupFitsOneBlockInTheSlotsMemory) {
  GatherRules rules = RulesOf(1);
  rules.memory_cap_bytes = kWorkerBytes + kEngineBaseBytes + 330'000'000;    // 100 MB raw
  const ClaimOffer offer = OfferOf(std::vector<Task>(10, PartOf(250'000)));  // 25 MB each
  EXPECT_EQ(SizesOf(Gather(offer, rules)), (std::vector<size_t>{3, 4, 3}));
}

TEST(GatherParts, LargePartsAndThoseThatFailedAreAlone) {
  std::vector<Task> tasks = {PartOf(1'500'000), PartOf(1'000), PartOf(1'000), PartOf(1'000),
                             PartOf(1'000),     PartOf(1'000), PartOf(1'000), PartOf(0)};
  tasks[2].failure_class = "data";
  tasks[3].failure_class = "transient";  // passes: not its fault
  tasks[4].failure_class = "transient";
  tasks[4].attempts = 3;
  tasks[5].crashes = 1;
  EXPECT_EQ(Gather(OfferOf(tasks), RulesOf(1)),
            (std::vector<std::vector<size_t>>{{0}, {1, 3, 6}, {2}, {4}, {5}, {7}}));
}

TEST(GatherParts, AfterACrashOfTheirWorkerGroupsAreASixteenthAsLargeDownToAlone) {
  std::vector<Task> tasks(1'000, PartOf(100));
  size_t largest = tasks.size();
  for (const size_t at_most : {62, 3, 1}) {
    for (Task& task : tasks) {
      task.failure_class = "crash";
      task.failure_code = static_cast<int64_t>(largest);
    }
    largest = 0;
    for (const auto& lease : Gather(OfferOf(tasks), RulesOf(1), 1'000))
      largest = std::max(largest, lease.size());
    EXPECT_LE(largest, at_most);
    EXPECT_GT(largest, at_most / 2);
  }
}

TEST(GatherParts, OneThatCrashedKeepsItsGroupSmall) {
  std::vector<Task> tasks(100, PartOf(100));
  tasks[0].failure_class = "crash";
  tasks[0].failure_code = 80;
  tasks[50].failure_class = "crash";
  tasks[50].failure_code = 48;
  std::vector<std::vector<size_t>> with(2);
  for (const auto& lease : Gather(OfferOf(tasks), RulesOf(1))) {
    if (std::find(lease.begin(), lease.end(), size_t{0}) != lease.end()) with[0] = lease;
    if (std::find(lease.begin(), lease.end(), size_t{50}) != lease.end()) with[1] = lease;
  }
  EXPECT_EQ(with[0].size(), 5u);
  EXPECT_EQ(with[1].size(), 3u);
}

TEST(GatherParts, NoMoreLeasesThanAskedForAndNoTaskTwice) {
  testing::SeededRandom random(7);
  for (int round = 0; round < 200; ++round) {
    std::vector<Task> tasks;
    for (uint64_t i = 0; i < 1 + RandomBelow(random, 40); ++i) {
      tasks.push_back(PartOf(static_cast<int64_t>(RandomBelow(random, 900'000))));
      if (RandomBelow(random, 5) == 0) tasks.back().failure_class = "sql";
    }
    std::sort(tasks.begin(), tasks.end(),
              [](const Task& a, const Task& b) { return a.size_bytes > b.size_bytes; });
    const auto slots = static_cast<int64_t>(1 + RandomBelow(random, 4));
    const auto leases_max = static_cast<int64_t>(1 + RandomBelow(random, 6));
    const ClaimOffer offer = OfferOf(tasks);
    const auto leases = Gather(offer, RulesOf(slots), leases_max);
    EXPECT_LE(std::ssize(leases), leases_max);
    ASSERT_TRUE(CheckChosen(leases, tasks.size()).ok());
    for (const auto& lease : leases) {
      int64_t rows = 0;
      for (const size_t index : lease) {
        const auto spec = RewriteTaskSpec::FromJson(tasks[index].payload);
        rows += spec->rows;
        EXPECT_TRUE(lease.size() == 1 || tasks[index].failure_class.empty());
      }
      EXPECT_TRUE(lease.size() == 1 || rows <= kGatheredRowsMax) << rows;
    }
    EXPECT_EQ(SizesOf(Gather(offer, RulesOf(slots))).empty(), false);
    size_t all = 0;
    for (const size_t size : SizesOf(Gather(offer, RulesOf(slots)))) all += size;
    EXPECT_EQ(all, tasks.size());
  }
}

TEST(GatherRefusal, WhatDependsOnOtherRowsOrOnOrderIsNotShared) {
  const GatherRules rules = RulesOf(1);
  EXPECT_EQ(GatherRefusal(PlainJob(), rules), "");
  RewriteJobSpec job = PlainJob();
  job.is_chunk_safe = false;
  job.chunk_refusal = "1:30: GROUP BY";
  EXPECT_EQ(GatherRefusal(job, rules), "1:30: GROUP BY");
  job = PlainJob();
  job.is_order_sensitive = true;
  EXPECT_NE(GatherRefusal(job, rules).find("order of parts"), std::string::npos);
  for (const char* const call :
       {"rowNumberInAllBlocks()", "ROWNUMBERINBLOCK()", "neighbor(id, 1)",
        "`runningDifference`(id)", "`neigh\\x62or`(id, 1)", "blockNumber()"}) {
    job = PlainJob();
    job.insert_select = std::string("INSERT INTO a.d SELECT ") + call + " FROM a.s";
    EXPECT_NE(GatherRefusal(job, rules), "") << call;
    job = PlainJob();
    job.destination_schema =
        std::string("CREATE TABLE a.d (id UInt64 DEFAULT ") + call + ") ENGINE = MergeTree";
    EXPECT_NE(GatherRefusal(job, rules), "") << call;
  }
  job = PlainJob();  // a word inside a string is no call
  job.insert_select = "INSERT INTO a.d SELECT length('neighbor') FROM a.s";
  EXPECT_EQ(GatherRefusal(job, rules), "");
}

TEST(GatherRefusal, AnotherTierOrAnExplicitChunkTurnsItOff) {
  GatherRules rules = RulesOf(1);
  rules.forced = InsertTier::kOneBlock;
  EXPECT_EQ(GatherRefusal(PlainJob(), rules), "--tier=T5");
  EXPECT_LT(PartGatherer(rules).task_bytes_max(), 0);
  rules.forced = InsertTier::kManyInOne;
  EXPECT_EQ(GatherRefusal(PlainJob(), rules), "");
  rules.is_chunk_rows_explicit = true;
  EXPECT_EQ(GatherRefusal(PlainJob(), rules), "--insert-chunk-min-rows");
}

}  // namespace
}  // namespace partforge::clickhouse
