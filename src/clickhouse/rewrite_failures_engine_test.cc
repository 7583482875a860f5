#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <string>
#include <thread>

#include "clickhouse/job_rig.h"

// What goes wrong while a part is rewritten, on a real engine.
namespace partforge::clickhouse {
namespace {

using ::testing::HasSubstr;

const char kSource[] =
    "CREATE TABLE shop.orders (id UInt64, amount UInt32) ENGINE = MergeTree ORDER BY id";
const char kDestination[] =
    "CREATE TABLE shop2.orders_v2 (id UInt64, amount String) ENGINE = MergeTree PARTITION BY id % "
    "3 "
    "ORDER BY id";
const char kInsert[] = "INSERT INTO shop2.orders_v2 SELECT id, toString(amount) FROM shop.orders";
const char kOracle[] = "SELECT id, toString(amount) FROM shop.orders";

void MakeTables(JobRig& rig, int64_t rows) {
  rig.Run({"CREATE DATABASE shop", "CREATE DATABASE shop2", kSource, kDestination,
           "SYSTEM STOP MERGES shop.orders", "SYSTEM STOP MERGES shop2.orders_v2",
           fmt::format("INSERT INTO shop.orders SELECT number, number * 7 % 1000 FROM numbers({}) "
                       "SETTINGS max_threads=1, max_insert_threads=1, "
                       "min_insert_block_size_rows=10000000, max_block_size=10000000",
                       rows)});
}

RewriteSettings Chunked(const JobRig& rig, int64_t rows_min) {
  RewriteSettings settings = rig.Settings();
  settings.chunk_rows_min = rows_min;
  settings.is_chunk_rows_explicit = true;
  return settings;
}

std::vector<std::string> LinesWith(JobRig& rig, const std::string& text) {
  std::vector<std::string> lines;
  for (const std::string& line : rig.world().log_lines()) {
    if (line.find(text) != std::string::npos) lines.push_back(line);
  }
  return lines;
}

// check: PF-24
TEST(RewriteFailure, MemoryFailuresHalveTheSettingsAndKeepFinishedChunks) {
  JobRig rig;
  MakeTables(rig, 140'000);
  // Only rows of the second chunk are dear: 16 KB each while the block is computed.
  const std::string dear =
      "SELECT id, toString(arraySum(range(toUInt64(if(id < 70000, 1, 2000)))) + amount) FROM "
      "shop.orders";
  rig.MustUpload(kDestination, "INSERT INTO shop2.orders_v2 " + dear);
  RewriteSettings settings = Chunked(rig, 70'000);
  settings.tier = InsertTier::kSeed;
  settings.limits.memory_bytes = 600'000'000;  // 420 MB for a query
  rig.Work(settings);
  const std::vector<Task> finished = rig.Tasks(TaskState::kFinished);
  for (const Task& task : rig.Tasks(TaskState::kFailed)) ADD_FAILURE() << rig.ErrorOf(task);
  ASSERT_EQ(finished.size(), 1u);
  const ArtifactMeta meta = rig.MetaOf(finished[0]);
  ASSERT_EQ(meta.chunks.size(), 2u);
  EXPECT_EQ(meta.chunks[0].attempts, 1);
  EXPECT_EQ(meta.chunks[1].attempts, 3);
  const std::vector<std::string> retries = LinesWith(rig, "insert is retried smaller");
  ASSERT_EQ(retries.size(), 2u);
  EXPECT_THAT(retries[0], HasSubstr("block_rows=32704"));
  EXPECT_THAT(retries[1], HasSubstr("block_rows=16352"));
  EXPECT_THAT(rig.world().metrics().Expose(), HasSubstr("retried=\"true\""));
  rig.ExpectImported(dear);
}

TEST(RewriteFailure, TheTierThatWasFallenFromIsToldWithItsReason) {
  JobRig rig;
  MakeTables(rig, 140'000);
  rig.MustUpload(kDestination,
                 "INSERT INTO shop2.orders_v2 SELECT id, toString(arraySum(range(toUInt64(if(id < "
                 "70000, 1, 2000)))) + amount) FROM shop.orders");
  RewriteSettings settings = rig.Settings();
  settings.tier = InsertTier::kOneBlock;
  settings.limits.memory_bytes = 600'000'000;  // 420 MB for a query
  rig.Work(settings);
  const std::vector<Task> finished = rig.Tasks(TaskState::kFinished);
  for (const Task& task : rig.Tasks(TaskState::kFailed)) ADD_FAILURE() << rig.ErrorOf(task);
  ASSERT_EQ(finished.size(), 1u);
  EXPECT_EQ(finished[0].epoch, 1u);
  const RewriteOutput output = rig.OutputOf(finished[0]);
  EXPECT_EQ(output.tier, "T8");
  EXPECT_EQ(output.tier_reason, "asked for by --tier; fell from T5 to T8 after code 241");
  EXPECT_GT(output.bytes_decoded, 0);
}

// check: PF-25
TEST(RewriteFailure, MemoryThatNeverSufficesFailsTheRowWithItsSettings) {
  JobRig rig;
  MakeTables(rig, 10);
  rig.MustUpload(kDestination,
                 "INSERT INTO shop2.orders_v2 SELECT id, toString(arraySum(range(30000000 + id)) + "
                 "amount) FROM shop.orders");
  RewriteSettings settings = rig.Settings();
  settings.limits.memory_bytes = 200'000'000;
  rig.Work(settings);
  const std::vector<Task> failed = rig.Tasks(TaskState::kFailed);
  ASSERT_EQ(failed.size(), 1u);
  EXPECT_EQ(failed[0].failure_class, "resource");
  EXPECT_EQ(failed[0].failure_code, 241);
  EXPECT_THAT(rig.ErrorOf(failed[0]), HasSubstr("PF2141: "));
  EXPECT_THAT(rig.ErrorOf(failed[0]),
              HasSubstr("6 attempts, the last with 1 threads and blocks of 8192 rows"));
}

// check: PF-26
TEST(RewriteFailure, AnEngineKilledInTheThirdOfFiveChunksGoesOnThere) {
  JobRig rig;
  MakeTables(rig, 25'003);
  const std::string slow = "SELECT id, toString(amount + sleepEachRow(0.0002)) FROM shop.orders";
  rig.MustUpload(kDestination, "INSERT INTO shop2.orders_v2 " + slow);
  std::jthread killer([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      for (const std::string& line : LinesWith(rig, "insert started")) {
        if (line.find("-c2-a1") == std::string::npos) continue;
        SystemClock().SleepMs(300, stop);
        kill(rig.slots().pid(0), SIGKILL);
        return;
      }
      SystemClock().SleepMs(20, stop);
    }
  });
  rig.Work(Chunked(rig, 5'000));
  killer = {};
  for (const Task& task : rig.Tasks(TaskState::kFailed)) ADD_FAILURE() << rig.ErrorOf(task);
  const std::vector<Task> finished = rig.Tasks(TaskState::kFinished);
  ASSERT_EQ(finished.size(), 1u);
  EXPECT_EQ(finished[0].epoch, 1u);
  const ArtifactMeta meta = rig.MetaOf(finished[0]);
  ASSERT_EQ(meta.chunks.size(), 5u);
  for (size_t i = 0; i < 5; ++i) EXPECT_EQ(meta.chunks[i].attempts, i == 2 ? 2 : 1) << i;
  rig.ExpectImported(kOracle);
}

// check: PF-27
TEST(RewriteFailure, AFailedMoveDiscardsTheAttemptWithoutRepeatingAnInsert) {
  JobRig rig;
  MakeTables(rig, 25'003);
  rig.MustUpload(kDestination, kInsert);
  // The second of three partitions of the second chunk.
  rig.faults().Set("clickhouse.partition_moved", [](int64_t hit) {
    return hit == 3 ? Status(Code::kInternal, "the move failed") : Status();
  });
  rig.Work(Chunked(rig, 10'000));
  const std::vector<Task> ready = rig.Tasks(TaskState::kReady);
  ASSERT_EQ(ready.size(), 1u);
  EXPECT_EQ(ready[0].epoch, 1u);
  EXPECT_EQ(LinesWith(rig, "insert started").size(), 2u);
  rig.faults().Clear();
  rig.ShiftStoreClockMs(600'000);
  rig.Work(Chunked(rig, 10'000));
  EXPECT_EQ(rig.Count(TaskState::kFinished), 1);
  rig.ExpectImported(kOracle);
}

TEST(RewriteFailure, WrongRowsFailTheRowWithTheirRange) {
  JobRig rig;
  MakeTables(rig, 1'000);
  rig.MustUpload(
      kDestination,
      "INSERT INTO shop2.orders_v2 SELECT id, toString(throwIf(id = 777, 'row 777')) FROM "
      "shop.orders");
  rig.Work(rig.Settings());
  const std::vector<Task> failed = rig.Tasks(TaskState::kFailed);
  ASSERT_EQ(failed.size(), 1u);
  EXPECT_EQ(failed[0].failure_class, "data");
  EXPECT_EQ(failed[0].failure_code, 395);
  EXPECT_THAT(rig.ErrorOf(failed[0]), HasSubstr("insert rows 0 to 1000"));
}

TEST(RewriteFailure, AFullDiskHandsThePartBack) {
  JobRig rig;
  MakeTables(rig, 1'000);
  rig.MustUpload(kDestination, kInsert);
  RewriteSettings settings = rig.Settings();
  settings.free_space_fraction_min = 1.0;
  rig.Work(settings);
  const std::vector<Task> ready = rig.Tasks(TaskState::kReady);
  ASSERT_EQ(ready.size(), 1u);
  EXPECT_EQ(ready[0].failure_class, "disk");
}

TEST(RewriteFailure, AStopHandsThePartBackAndTheSlotGoesOn) {
  JobRig rig;
  MakeTables(rig, 20'000);
  rig.MustUpload(
      kDestination,
      "INSERT INTO shop2.orders_v2 SELECT id, toString(amount + sleepEachRow(0.0001)) FROM "
      "shop.orders");
  std::jthread stopper([&](const std::stop_token& stop) {
    while (!stop.stop_requested() && LinesWith(rig, "insert started").empty())
      SystemClock().SleepMs(20, stop);
    SystemClock().SleepMs(300, stop);
    rig.world().RequestStop();
  });
  rig.Work(rig.Settings());
  EXPECT_EQ(rig.Count(TaskState::kReady), 1);
  EXPECT_TRUE(rig.slots().IsAlive(0));
}

}  // namespace
}  // namespace partforge::clickhouse
