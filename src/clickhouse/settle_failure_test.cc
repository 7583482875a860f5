#include <gtest/gtest.h>

#include <cerrno>

#include "base/files.h"
#include "clickhouse/engine_failure.h"
#include "clickhouse/rewrite_executor.h"
#include "clickhouse/rewrite_job.h"
#include "clickhouse/time_zone.h"

namespace partforge::clickhouse {
namespace {

Lease LeaseOf(int64_t attempts, std::string failure_class = "") {
  Lease lease;
  Task& task = lease.tasks.emplace_back();
  task.id = "part";
  task.state = TaskState::kInProgress;
  task.epoch = 1;
  task.attempts = attempts;
  task.failure_class = std::move(failure_class);
  return lease;
}

TaskEdit EditOf(const Status& status, FailedIn failed_in) {
  const auto settled = SettleFailure(LeaseOf(1), status, failed_in);
  EXPECT_TRUE(settled.ok()) << settled.status().ToString();
  return settled.ok() ? settled->edits.at(0) : TaskEdit();
}

TEST(SettleFailure, AStoreOrAMachineThatRefusesHandsThePartBack) {
  const std::vector<std::pair<Status, FailedIn>> refusals = {
      {Status(Code::kRefused, "HTTP status 403").Explain(7003, "bucket", "credentials"),
       FailedIn::kTransfer},
      {Status(Code::kInvalidArgument, "HTTP status 400"),
       FailedIn::kTransfer},  // ExpiredToken without a body
      {Status(Code::kExhausted, "HTTP status 507"), FailedIn::kTransfer},
      {Status(Code::kRefused, "open file: Permission denied"), FailedIn::kWork},
      {ErrnoStatus(EMFILE, "open /store/forge/a"), FailedIn::kTransfer},
      {ErrnoStatus(EROFS, "open run-1/a"), FailedIn::kWork},
      {Status(Code::kRefused, "Code: 516. Authentication failed"), FailedIn::kWork}};
  for (const auto& [status, failed_in] : refusals) {
    const TaskEdit edit = EditOf(status, failed_in);
    EXPECT_EQ(edit.to, TaskState::kReady) << status.message();
    EXPECT_EQ(edit.failure_class, "env") << status.message();
    EXPECT_EQ(edit.backoff_ms, 30'000) << status.message();
    EXPECT_FALSE(edit.error.empty());
  }
}

TEST(ReadEngineFailure, TheEnginesNumberIsFoundInTheMessage) {
  const Failure failure = ReadEngineFailure(
      Status(Code::kInvalidArgument, "insert chunk 3: Code: 62. DB::Exception: syntax error"));
  EXPECT_EQ(failure.code, 62);
  EXPECT_EQ(FailureClassName(failure.failure_class), "sql");
  EXPECT_EQ(ReadEngineFailure(Status(Code::kInternal, "Code: 12")).code, 0);
}

TEST(SettleFailure, AFullDiskHandsThePartBack) {
  const TaskEdit edit =
      EditOf(Status(Code::kExhausted, "no space").Explain(7007, "/scratch", "free space"),
             FailedIn::kWork);
  EXPECT_EQ(edit.to, TaskState::kReady);
  EXPECT_EQ(edit.failure_class, "disk");
}

TEST(SettleFailure, WhatThePartOrItsSqlDidFails) {
  for (const Status& status :
       {ErrnoStatus(EIO, "read 4096 bytes at 0"), ErrnoStatus(EISDIR, "open /store/forge/a"),
        ErrnoStatus(ENAMETOOLONG, "open x"),
        Status(Code::kInvalidArgument, "Code: 62. Syntax error"),
        Status(Code::kCorruption, "digest differs"), Status(Code::kInternal, "bug"),
        Status(Code::kExhausted, "ladder").Explain(2141, "part", "more memory")}) {
    EXPECT_EQ(EditOf(status, FailedIn::kWork).to, TaskState::kFailed) << status.message();
  }
}

TEST(SettleFailure, AnEngineThatFailsEachTimeIsNotBelievedForEver) {
  const Status lost(Code::kUnavailable, "engine ended");
  EXPECT_FALSE(SettleFailure(LeaseOf(1), lost, FailedIn::kWork).ok());
  EXPECT_FALSE(SettleFailure(LeaseOf(4, "transient"), lost, FailedIn::kWork).ok());
  EXPECT_FALSE(SettleFailure(LeaseOf(5, "env"), lost, FailedIn::kWork).ok());
  // An outage of the store is no fault of the part, however long it lasts.
  EXPECT_FALSE(SettleFailure(LeaseOf(50, "transient"), lost, FailedIn::kTransfer).ok());
  const auto settled = SettleFailure(LeaseOf(5, "transient"), lost, FailedIn::kWork);
  ASSERT_TRUE(settled.ok());
  EXPECT_EQ(settled->edits.at(0).to, TaskState::kFailed);
  EXPECT_EQ(settled->edits.at(0).failure_class, "internal");
}

TEST(RewriteJobSpec, TheZoneOfTheServerIsPartOfTheJob) {
  RewriteJobSpec job;
  job.timezone = "Asia/Tokyo";
  job.allows_external_reads = true;
  const auto read = RewriteJobSpec::FromJson(job.ToJson());
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_EQ(read->timezone, "Asia/Tokyo");
  EXPECT_TRUE(read->allows_external_reads);
}

// What programs before this one wrote into their jobs by laxer rules.
TEST(RewriteJobSpec, AnOlderJobIsReadByTheRulesOfNow) {
  RewriteJobSpec job;
  job.source_schema =
      "CREATE TABLE a.s (id UInt64, `_part_offset` UInt64) ENGINE = MergeTree ORDER BY id";
  job.destination_schema = "CREATE TABLE a.d (id UInt64) ENGINE = ReplacingMergeTree ORDER BY id";
  const auto read = RewriteJobSpec::FromJson(job.ToJson());
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_FALSE(read->is_chunk_safe);
  EXPECT_NE(read->chunk_refusal.find("_part_offset"), std::string::npos);
  EXPECT_TRUE(read->is_order_sensitive);
  job.source_schema = "CREATE TABLE a.s (id UInt64) ENGINE = MergeTree ORDER BY id";
  job.destination_schema = "CREATE TABLE a.d (id UInt64) ENGINE = MergeTree ORDER BY id";
  const auto plain = RewriteJobSpec::FromJson(job.ToJson());
  ASSERT_TRUE(plain.ok()) << plain.status().ToString();
  EXPECT_TRUE(plain->is_chunk_safe);
  EXPECT_FALSE(plain->is_order_sensitive);
}

TEST(TimeZone, NamesOfUtcAreOneZone) {
  EXPECT_TRUE(IsSameTimeZone("Asia/Tokyo", "Asia/Tokyo"));
  EXPECT_TRUE(IsSameTimeZone("Etc/UTC", "UTC"));
  EXPECT_FALSE(IsSameTimeZone("Europe/London", "UTC"));
  EXPECT_FALSE(IsSameTimeZone("Asia/Tokyo", "Asia/Seoul"));
}

}  // namespace
}  // namespace partforge::clickhouse
