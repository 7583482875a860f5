#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>

#include "clickhouse/job_rig.h"

namespace partforge::clickhouse {
namespace {

const char kSource[] =
    "CREATE TABLE shop.orders (id UInt64, amount UInt32, event_date Date) ENGINE = MergeTree "
    "PARTITION BY toYYYYMM(event_date) ORDER BY id";
const char kDestination[] =
    "CREATE TABLE shop2.orders_v2 (event_date Date, id UInt64, amount String) ENGINE = MergeTree "
    "PARTITION BY toYYYYMM(event_date) ORDER BY (event_date, id)";
const char kInsert[] =
    "INSERT INTO shop2.orders_v2 SELECT event_date, id, toString(amount) FROM shop.orders\n";
const char kOracle[] = "SELECT event_date, id, toString(amount) FROM shop.orders";

// One part of 25,003 rows in one partition of the source.
void MakeTables(JobRig& rig, const std::string& source, const std::string& destination,
                const std::string& fill) {
  rig.Run({"CREATE DATABASE shop", "CREATE DATABASE shop2", source, destination,
           "SYSTEM STOP MERGES shop.orders", "SYSTEM STOP MERGES shop2.orders_v2",
           fmt::format("INSERT INTO shop.orders {} SETTINGS max_threads=1, max_insert_threads=1, "
                       "min_insert_block_size_rows=10000000, max_block_size=10000000, "
                       "max_partitions_per_insert_block=0",
                       fill)});
}
const char kFill[] =
    "SELECT number, number * 7 % 1000, toDate('2024-01-01') + number % 30 FROM numbers(25003)";

RewriteSettings Chunked(const JobRig& rig, int64_t rows_min) {
  RewriteSettings settings = rig.Settings();
  settings.chunk_rows_min = rows_min;
  settings.is_chunk_rows_explicit = true;
  return settings;
}

TEST(RewriteJob, ASmallJobGoesFromUploadToImport) {
  JobRig rig;
  rig.Run({"CREATE DATABASE shop", "CREATE DATABASE shop2", kSource, kDestination,
           "SYSTEM STOP MERGES shop.orders", "SYSTEM STOP MERGES shop2.orders_v2",
           "INSERT INTO shop.orders VALUES (1, 10, '2024-01-05'), (2, 20, '2024-01-06')",
           "INSERT INTO shop.orders VALUES (3, 30, '2024-01-07'), (4, 40, '2024-01-08')"});
  const auto uploaded = rig.Upload(rig.UploadRequest(kDestination, kInsert));
  ASSERT_TRUE(uploaded.ok()) << uploaded.status().ToString();
  EXPECT_EQ(uploaded->parts, 2);
  EXPECT_EQ(uploaded->rows, 4);
  EXPECT_EQ(rig.Count(TaskState::kReady), 2);
  rig.Work(rig.Settings());
  ASSERT_EQ(rig.Count(TaskState::kFinished), 2);
  const auto imported = rig.Import();
  ASSERT_TRUE(imported.ok()) << imported.status().ToString();
  EXPECT_TRUE(StatusOf(*imported).ok()) << StatusOf(*imported).ToString();
  EXPECT_EQ(imported->imported, 2);
  EXPECT_EQ(imported->rows, 4);
  EXPECT_EQ(imported->rows_in_table, 4);
  EXPECT_EQ(rig.Count(TaskState::kImported), 2);
  EXPECT_EQ(rig.Ask("SELECT groupArray((id, amount)) FROM (SELECT * FROM shop2.orders_v2 ORDER BY "
                    "id)"),
            "[(1,'10'),(2,'20'),(3,'30'),(4,'40')]");
  EXPECT_EQ(rig.Ask("SELECT count() FROM system.parts WHERE active AND database = 'shop2'"), "2");
}

// check: PF-19
TEST(RewriteJob, APartAboveTwiceTheMinimumIsReadInTwoRanges) {
  JobRig rig;
  MakeTables(rig, kSource, kDestination, kFill);
  RewriteSettings settings = Chunked(rig, 10'000);
  settings.verify = VerifyMode::kContent;
  rig.RunJob(kDestination, kInsert, settings, kOracle);
  const std::vector<Task> tasks = rig.Tasks(TaskState::kImported);
  ASSERT_EQ(tasks.size(), 1u);
  const ArtifactMeta meta = rig.MetaOf(tasks[0]);
  ASSERT_EQ(meta.chunks.size(), 2u);
  EXPECT_EQ(meta.chunks[0].begin, 0);
  EXPECT_EQ(meta.chunks[0].end, 12'501);
  EXPECT_EQ(meta.chunks[1].end, 25'003);
  EXPECT_EQ(meta.written, 25'003);
}

TEST(RewriteJob, OneBlockLeavesOnePartAPartitionInTheAskedCodec) {
  JobRig rig;
  MakeTables(rig, kSource, kDestination, kFill);
  RewriteSettings settings = rig.Settings();
  settings.compression_codec = "ZSTD(5)";
  rig.RunJob(kDestination, kInsert, settings, kOracle);
  const std::vector<Task> tasks = rig.Tasks(TaskState::kImported);
  ASSERT_EQ(tasks.size(), 1u);
  EXPECT_EQ(rig.OutputOf(tasks[0]).tier, "T5");
  EXPECT_EQ(rig.OutputOf(tasks[0]).partition_parts,
            (std::map<std::string, int64_t>{{"202401", 1}}));
  EXPECT_EQ(
      rig.Ask("SELECT groupUniqArray(default_compression_codec) FROM system.parts WHERE active "
              "AND database = 'shop2'"),
      "['ZSTD(5)']");
}

TEST(RewriteJob, SeedTierMergesWhatItsBlocksLeave) {
  JobRig rig;
  MakeTables(rig, kSource, kDestination, kFill);
  RewriteSettings settings = Chunked(rig, 5'000);
  settings.tier = InsertTier::kSeed;
  rig.RunJob(kDestination, kInsert, settings, kOracle);
  const std::vector<Task> tasks = rig.Tasks(TaskState::kImported);
  ASSERT_EQ(tasks.size(), 1u);
  EXPECT_EQ(rig.OutputOf(tasks[0]).tier, "T8");
  EXPECT_EQ(rig.OutputOf(tasks[0]).chunks, 5);
}

// check: PF-22
TEST(RewriteJob, ProjectionsAndAHostileProfileDoNotChangeChunks) {
  JobRig rig({{"force_optimize_projection", "1"},
              {"optimize_use_projections", "1"},
              {"use_query_condition_cache", "1"},
              {"max_partitions_per_insert_block", "1"},
              {"insert_deduplicate", "1"},
              {"max_parts_to_move", "1"},
              {"async_insert", "1"}});
  MakeTables(rig,
             "CREATE TABLE shop.orders (id UInt64, amount UInt32, event_date Date, PROJECTION p "
             "(SELECT * ORDER BY amount), PROJECTION q (SELECT amount, count() GROUP BY amount)) "
             "ENGINE = MergeTree ORDER BY id",
             kDestination,
             "SELECT number, number * 7 % 1000, toDate('2024-01-01') + number % 90 FROM "
             "numbers(25003)");
  const std::string filter = " WHERE amount < 500";
  rig.RunJob(kDestination, std::string("INSERT INTO shop2.orders_v2 ") + kOracle + filter,
             Chunked(rig, 5'000), kOracle + filter);
}

// check: PF-23
TEST(RewriteJob, LightweightDeletedRowsStayDeleted) {
  JobRig rig;
  MakeTables(rig, kSource, kDestination, kFill);
  rig.Run({"SYSTEM START MERGES shop.orders",
           "DELETE FROM shop.orders WHERE id % 10 = 3 SETTINGS lightweight_deletes_sync = 2"});
  RewriteSettings settings = Chunked(rig, 5'000);
  settings.verify = VerifyMode::kContent;
  rig.RunJob(kDestination, kInsert, settings, kOracle);
  const std::vector<Task> tasks = rig.Tasks(TaskState::kImported);
  ASSERT_EQ(tasks.size(), 1u);
  EXPECT_EQ(rig.OutputOf(tasks[0]).source_rows, 25'003);
  EXPECT_EQ(rig.OutputOf(tasks[0]).source_rows_visible, 22'503);
  EXPECT_EQ(rig.OutputOf(tasks[0]).rows_out, 22'503);
}

// check: PF-28
TEST(RewriteJob, HundredsOfPartitionsWork) {
  JobRig rig;
  const std::string destination =
      "CREATE TABLE shop2.orders_v2 (event_date Date, id UInt64, amount String) ENGINE = MergeTree "
      "PARTITION BY id % 300 ORDER BY id";
  MakeTables(rig, kSource, destination, kFill);
  rig.RunJob(destination, kInsert, Chunked(rig, 10'000), kOracle);
  EXPECT_EQ(rig.OutputOf(rig.Tasks(TaskState::kImported).at(0)).partition_parts.size(), 300u);
}

// check: PF-29
TEST(RewriteJob, AFilterThatMatchesNothingIsImportedWithoutTheServer) {
  JobRig rig;
  MakeTables(rig, kSource, kDestination, kFill);
  const auto uploaded =
      rig.Upload(rig.UploadRequest(kDestination, std::string("INSERT INTO shop2.orders_v2 ") +
                                                     kOracle + " WHERE amount > 5000"));
  ASSERT_TRUE(uploaded.ok()) << uploaded.status().ToString();
  rig.Work(rig.Settings());
  const std::vector<Task> finished = rig.Tasks(TaskState::kFinished);
  ASSERT_EQ(finished.size(), 1u);
  EXPECT_TRUE(rig.OutputOf(finished[0]).is_empty);
  EXPECT_TRUE(rig.OutputOf(finished[0]).finished_key.empty());
  const auto objects = ListAll(rig.ctx(), rig.store(), "partforge/jobs/job-1/finished/");
  ASSERT_TRUE(objects.ok());
  EXPECT_TRUE(objects->empty());
  const std::string before = rig.Ask("SELECT max(modification_time), count() FROM system.parts");
  const auto imported = rig.Import();
  ASSERT_TRUE(imported.ok()) << imported.status().ToString();
  EXPECT_TRUE(StatusOf(*imported).ok());
  EXPECT_EQ(rig.Count(TaskState::kImported), 1);
  EXPECT_EQ(rig.faults().hits("clickhouse.attach_sent"), 0);
  EXPECT_EQ(rig.faults().hits("clickhouse.piece_placed"), 0);
  EXPECT_EQ(rig.Ask("SELECT max(modification_time), count() FROM system.parts"), before);
}

// check: PF-30
TEST(RewriteJob, AChunkWithoutRowsInTheMiddleIsNoFailure) {
  JobRig rig;
  MakeTables(rig, kSource, kDestination, kFill);
  const std::string filter = " WHERE id < 6000 OR id >= 20000";
  rig.RunJob(kDestination, std::string("INSERT INTO shop2.orders_v2 ") + kOracle + filter,
             Chunked(rig, 5'000), kOracle + filter);
  const ArtifactMeta meta = rig.MetaOf(rig.Tasks(TaskState::kImported).at(0));
  ASSERT_EQ(meta.chunks.size(), 5u);
  EXPECT_EQ(meta.chunks[2].written, 0);
  const auto attempts =
      rig.state().Attempts(rig.ctx(), rig.job_id, rig.Tasks(TaskState::kImported).at(0).id);
  ASSERT_TRUE(attempts.ok());
  EXPECT_EQ(attempts->at(0).fraction, 1.0);
}

// check: PF-31
TEST(RewriteJob, ExpiredRowsAreKeptOrLeftOutAsAsked) {
  const std::string destination =
      "CREATE TABLE shop2.orders_v2 (event_date Date, id UInt64, amount String) ENGINE = MergeTree "
      "PARTITION BY toYYYYMM(event_date) ORDER BY (event_date, id) TTL event_date + INTERVAL 1 "
      "YEAR";
  const char* fill =
      "SELECT number, number * 7 % 1000, if(number % 5 = 0, today(), toDate('2001-01-01')) FROM "
      "numbers(1000)";
  for (const TtlPolicy ttl : {TtlPolicy::kKeep, TtlPolicy::kApply}) {
    for (const InsertTier tier :
         {InsertTier::kOneBlock, InsertTier::kBlocksAndMerge, InsertTier::kSeed}) {
      SCOPED_TRACE(
          fmt::format("{} {}", ttl == TtlPolicy::kKeep ? "keep" : "apply", TierName(tier)));
      JobRig rig;
      MakeTables(rig,
                 "CREATE TABLE shop.orders (id UInt64, amount UInt32, event_date Date) ENGINE = "
                 "MergeTree ORDER BY id",
                 destination, fill);
      rig.Run({"SYSTEM STOP TTL MERGES shop2.orders_v2"});
      RewriteSettings settings = Chunked(rig, 300);
      settings.ttl = ttl;
      settings.tier = tier;
      const std::string filter =
          ttl == TtlPolicy::kKeep ? "" : " WHERE event_date > toDate('2002-01-01')";
      rig.RunJob(destination, kInsert, settings, kOracle + filter);
      const RewriteOutput output = rig.OutputOf(rig.Tasks(TaskState::kImported).at(0));
      EXPECT_EQ(output.rows_out, ttl == TtlPolicy::kKeep ? 1000 : 200);
      EXPECT_EQ(output.rows_expired, ttl == TtlPolicy::kKeep ? 0 : 800);
      const auto verified = rig.Verify(VerifyDepth::kRows);
      ASSERT_EQ(verified.size(), 1u);
      EXPECT_EQ(verified[0].verdict, ttl == TtlPolicy::kKeep ? Verdict::kOk : Verdict::kWarn);
    }
  }
}

// check: PF-32
TEST(RewriteJob, CollapsingEnginesMakeFewerRowsWithoutAFalseFailure) {
  JobRig rig;
  const std::string destination =
      "CREATE TABLE shop2.orders_v2 (id UInt64, amount UInt32) ENGINE = ReplacingMergeTree(amount) "
      "ORDER BY id";
  MakeTables(rig, kSource, destination, kFill);
  const auto uploaded = rig.Upload(rig.UploadRequest(
      destination, "INSERT INTO shop2.orders_v2 SELECT id % 10, amount FROM shop.orders"));
  ASSERT_TRUE(uploaded.ok()) << uploaded.status().ToString();
  rig.Work(rig.Settings());
  const std::vector<Task> finished = rig.Tasks(TaskState::kFinished);
  ASSERT_EQ(finished.size(), 1u);
  EXPECT_EQ(rig.OutputOf(finished[0]).rows_written, 25'003);
  EXPECT_EQ(rig.OutputOf(finished[0]).rows_out, 10);
  const auto verified = rig.Verify(VerifyDepth::kRows);
  ASSERT_EQ(verified.size(), 1u);
  EXPECT_EQ(verified[0].verdict, Verdict::kWarn) << "rows that merge cannot be compared";
  EXPECT_NE(verified[0].message.find("ReplacingMergeTree"), std::string::npos);
  const auto imported = rig.Import();
  ASSERT_TRUE(imported.ok()) << imported.status().ToString();
  EXPECT_TRUE(StatusOf(*imported).ok()) << StatusOf(*imported).ToString();
  EXPECT_EQ(
      rig.Ask("SELECT count(), sum(amount) FROM shop2.orders_v2 FINAL"),
      rig.Ask("SELECT count(), sum(m) FROM (SELECT max(amount) AS m FROM shop.orders GROUP BY "
              "id % 10)"));
}

// check: PF-18
TEST(RewriteJob, AChangedByteInASourceFileFailsTheRowAndPublishesNothing) {
  JobRig rig;
  MakeTables(rig, kSource, kDestination, kFill);
  const auto uploaded = rig.Upload(rig.UploadRequest(kDestination, kInsert));
  ASSERT_TRUE(uploaded.ok()) << uploaded.status().ToString();
  const auto objects = ListAll(rig.ctx(), rig.store(), "partforge/jobs/job-1/source/");
  ASSERT_TRUE(objects.ok());
  for (const ObjectInfo& object : *objects) {
    if (!object.key.ends_with("/data.bin") && !object.key.ends_with("/id.bin")) continue;
    std::fstream file(rig.dir() / "objects" / object.key,
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(object.size_bytes / 2);
    const int byte = file.get();
    file.seekp(object.size_bytes / 2);
    file.put(static_cast<char>(byte ^ 1));
  }
  rig.Work(rig.Settings());
  const std::vector<Task> failed = rig.Tasks(TaskState::kFailed);
  ASSERT_EQ(failed.size(), 1u);
  EXPECT_EQ(failed[0].failure_class, "data");
  EXPECT_FALSE(rig.ErrorOf(failed[0]).empty());
  const auto finished = ListAll(rig.ctx(), rig.store(), "partforge/jobs/job-1/finished/");
  ASSERT_TRUE(finished.ok());
  EXPECT_TRUE(finished->empty());
}

}  // namespace
}  // namespace partforge::clickhouse
