#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "clickhouse/finished_job.h"
#include "clickhouse/verify_job.h"
#include "engine/sql_text.h"

// Names and types of every kind through a whole job, and the artifacts read again.
namespace partforge::clickhouse {
namespace {

struct Names {
  TableName source, destination;
};

void RunOddJob(const Names& names) {
  JobRig rig;
  rig.source = names.source;
  rig.destination = names.destination;
  const std::string from = QuoteTable(names.source.database, names.source.table);
  const std::string to = QuoteTable(names.destination.database, names.destination.table);
  const std::string columns =
      "(`the id` UInt64, `ev'nt` LowCardinality(String), `a.b` Nullable(Decimal(18, 4)), `größe` "
      "Array(Nullable(String)), m Map(LowCardinality(String), Int64), t Tuple(x Int8, `y z` "
      "String), "
      "ts DateTime64(3), j JSON, e Enum8('a' = 1, 'b\\'c' = 2), ip IPv6, u UUID, `engine` Bool)";
  for (const std::string& database : {names.source.database, names.destination.database}) {
    if (database != "default")
      rig.Run({fmt::format("CREATE DATABASE IF NOT EXISTS {}", QuoteIdentifier(database))});
  }
  const std::string destination = fmt::format(
      "CREATE TABLE {} {} ENGINE = MergeTree PARTITION BY (e, `the id` % 3) ORDER BY (`ev'nt`, "
      "`the "
      "id`) COMMENT 'it''s ENGINE = Log'",
      to, columns);
  rig.Run(
      {fmt::format("CREATE TABLE {} {} ENGINE = MergeTree ORDER BY `the id`", from, columns),
       destination, fmt::format("SYSTEM STOP MERGES {}", to),
       fmt::format("INSERT INTO {} SELECT number, concat('k', toString(number % 7)), if(number % "
                   "5 = 0, NULL, number / 3), [toString(number), NULL], map('x', number), "
                   "tuple(number % 100, 'w'), toDateTime64(number * 1000, 3), "
                   "concat('{{\"a\":', toString(number), ',\"b\":\"x\"}}'), if(number % 2 = 0, "
                   "'a', 'b\\'c'), toIPv6('::1'), toUUID('61f0c404-5cb3-11e7-907b-"
                   "a6006ad3dba0'), number % 2 FROM numbers(3000)",
                   from)});
  RewriteSettings settings = rig.Settings();
  settings.chunk_rows_min = 1000;
  settings.is_chunk_rows_explicit = true;
  settings.verify = VerifyMode::kContent;
  rig.RunJob(destination, fmt::format("INSERT INTO {} SELECT * FROM {};", to, from), settings,
             fmt::format("SELECT * FROM {}", from));
}

TEST(OddNames, QuotesSpacesDotsAndLettersOfAllKinds) {
  RunOddJob({.source = {"my db.x", "o'rders é"}, .destination = {"日本", "out \"put\" %"}});
}

TEST(OddNames, BothTablesInTheDefaultDatabase) {
  RunOddJob({.source = {"default", "orders"}, .destination = {"default", "orders_v2"}});
}

TEST(OddNames, OneDatabaseForBoth) {
  RunOddJob({.source = {"shop-1", "t"}, .destination = {"shop-1", "t2"}});
}

// Six letters of a file name each: the tables of ours beside it get names of their own.
TEST(OddNames, ANameThatIsNearlyTooLong) {
  RunOddJob(
      {.source = {"shop", "t"}, .destination = {"продажи", "очень_длинное_имя_новой_таблицы"}});
}

class VerifyTest : public ::testing::Test {
 protected:
  std::vector<VerifiedPart> Verify(VerifyDepth depth) { return job_.rig.Verify(depth); }

  Finished job_{2};
};

TEST_F(VerifyTest, SoundArtifactsPassAtEveryDepth) {
  for (const VerifyDepth depth :
       {VerifyDepth::kMeta, VerifyDepth::kChecksums, VerifyDepth::kEngine, VerifyDepth::kRows}) {
    const std::vector<VerifiedPart> parts = Verify(depth);
    ASSERT_EQ(parts.size(), 2u);
    for (const VerifiedPart& part : parts) {
      EXPECT_EQ(part.verdict, Verdict::kOk) << part.message;
      EXPECT_EQ(part.rows, 100);
      EXPECT_EQ(part.parts, 2);
    }
  }
}

TEST_F(VerifyTest, ADamagedOneFailsFromTheDepthThatReadsIt) {
  const auto objects = ListAll(job_.rig.ctx(), job_.rig.store(), "partforge/jobs/job-1/finished/");
  ASSERT_TRUE(objects.ok() && !objects->empty());
  const std::filesystem::path tar = job_.rig.dir() / "objects" / objects->front().key;
  std::fstream file(tar, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(objects->front().size_bytes / 2);
  file.put('\x7f');
  file.close();
  const auto failures = [&](VerifyDepth depth) {
    int64_t count = 0;
    for (const VerifiedPart& part : Verify(depth)) count += part.verdict == Verdict::kFail ? 1 : 0;
    return count;
  };
  EXPECT_EQ(failures(VerifyDepth::kMeta), 0);
  EXPECT_EQ(failures(VerifyDepth::kChecksums), 1);
  std::filesystem::remove(tar);
  EXPECT_EQ(failures(VerifyDepth::kMeta), 1);
}

// Sources may go once their artifacts are made: then there is nothing to compare rows with.
TEST_F(VerifyTest, ASourceThatIsGoneIsAWarningAndADamagedOneIsToldAsThat) {
  const std::string sources = "partforge/jobs/job-1/source/";
  const auto objects = ListAll(job_.rig.ctx(), job_.rig.store(), sources);
  ASSERT_TRUE(objects.ok());
  std::string data;  // of the first part
  for (const ObjectInfo& object : *objects) {
    if (data.empty() && object.key.ends_with("data.bin")) data = object.key;
  }
  ASSERT_FALSE(data.empty());
  const std::filesystem::path file = job_.rig.dir() / "objects" / data;
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekp(40);
  stream.put('\x7f');
  stream.close();
  const auto count = [&](VerifyDepth depth, Verdict verdict, bool is_of_source) {
    int64_t found = 0;
    for (const VerifiedPart& part : Verify(depth)) {
      if (part.verdict == verdict && part.is_of_source == is_of_source) ++found;
    }
    return found;
  };
  EXPECT_EQ(count(VerifyDepth::kRows, Verdict::kFail, true), 1);
  EXPECT_EQ(count(VerifyDepth::kEngine, Verdict::kOk, false), 2) << "which reads no source";
  std::filesystem::remove(file);
  EXPECT_EQ(count(VerifyDepth::kRows, Verdict::kWarn, false), 1);
  EXPECT_EQ(count(VerifyDepth::kRows, Verdict::kOk, false), 1);
  std::filesystem::remove_all(job_.rig.dir() / "objects" / sources);
  for (const VerifiedPart& part : Verify(VerifyDepth::kRows)) {
    EXPECT_EQ(part.verdict, Verdict::kWarn);
    EXPECT_EQ(part.message.find("rows not compared with the source: it is not in the store"), 0u)
        << part.message;
    EXPECT_EQ(part.rows, 100) << "the artifact itself was read and counted";
  }
}

// The bytes are right, and the SELECT works only in an attempt, whose queries have a name
// (log_comment).
TEST(Verify, WhatTheEngineRefusesIsNoDamage) {
  JobRig rig;
  rig.Run({"CREATE DATABASE shop", "CREATE DATABASE shop2", kSource, kDestination,
           "INSERT INTO shop.orders SELECT number, number, toDate('2024-01-15') FROM numbers(10)"});
  rig.MustUpload(kDestination,
                 "INSERT INTO shop2.orders_v2 SELECT event_date, id, "
                 "toString(length(arrayWithConstant(toUInt64(if(startsWith(getSetting('log_comment'"
                 "), 'partforge-'), 1, 10000000000)) + id * 0, 'x'))) FROM shop.orders");
  rig.Work(rig.Settings());
  for (const Task& task : rig.Tasks(TaskState::kFailed)) ADD_FAILURE() << rig.ErrorOf(task);
  ASSERT_EQ(rig.Count(TaskState::kFinished), 1);
  EXPECT_EQ(rig.Verify(VerifyDepth::kEngine).at(0).verdict, Verdict::kOk);
  VerifyRequest request = rig.MakeVerify(VerifyDepth::kRows);
  int64_t told = 0;
  request.on_part = [&told](const VerifiedPart&) { ++told; };
  const auto verified = VerifyJob(rig.ctx(), rig.state(), request);
  ASSERT_FALSE(verified.ok());
  EXPECT_EQ(verified.status().code(), Code::kInvalidArgument) << verified.status().ToString();
  EXPECT_EQ(verified.status().explanation().pf_number, 7014);
  EXPECT_EQ(told, 0);
}

}  // namespace
}  // namespace partforge::clickhouse
