#include <gtest/gtest.h>

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

TaskEdit EditOf(const Status& status, bool is_transfer) {
  const auto settled = SettleFailure(LeaseOf(1), status, is_transfer);
  EXPECT_TRUE(settled.ok()) << settled.status().ToString();
  return settled.ok() ? settled->edits.at(0) : TaskEdit();
}

TEST(SettleFailure, AStoreOrAMachineThatRefusesHandsThePartBack) {
  const std::vector<std::pair<Status, bool>> refusals = {
      {Status(Code::kRefused, "HTTP status 403").Explain(7003, "bucket", "credentials"), true},
      {Status(Code::kInvalidArgument, "HTTP status 400"), true},  // ExpiredToken without a body
      {Status(Code::kExhausted, "HTTP status 507"), true},
      {Status(Code::kRefused, "open file: Permission denied"), false},
      {Status(Code::kInternal, "open /etc/passwd/forge: Not a directory").Explain(7015, "", ""),
       true},
      {Status(Code::kCorruption, "read: Input/output error").Explain(7015, "", ""), true},
      {Status(Code::kRefused, "Code: 516. Authentication failed"), false}};
  for (const auto& [status, is_transfer] : refusals) {
    const TaskEdit edit = EditOf(status, is_transfer);
    EXPECT_EQ(edit.to, TaskState::kReady) << status.message();
    EXPECT_EQ(edit.failure_class, "env") << status.message();
    EXPECT_EQ(edit.backoff_ms, 30'000) << status.message();
    EXPECT_FALSE(edit.error.empty());
  }
}

TEST(SettleFailure, AFullDiskHandsThePartBack) {
  const TaskEdit edit =
      EditOf(Status(Code::kExhausted, "no space").Explain(7007, "/scratch", "free space"), false);
  EXPECT_EQ(edit.to, TaskState::kReady);
  EXPECT_EQ(edit.failure_class, "disk");
}

TEST(SettleFailure, WhatThePartOrItsSqlDidFails) {
  for (const Status& status :
       {Status(Code::kInvalidArgument, "Code: 62. Syntax error"),
        Status(Code::kCorruption, "digest differs"), Status(Code::kInternal, "bug"),
        Status(Code::kExhausted, "ladder").Explain(2141, "part", "more memory")}) {
    EXPECT_EQ(EditOf(status, false).to, TaskState::kFailed) << status.message();
  }
}

TEST(SettleFailure, AnEngineThatFailsEachTimeIsNotBelievedForEver) {
  const Status lost(Code::kUnavailable, "engine ended");
  EXPECT_FALSE(SettleFailure(LeaseOf(1), lost, false).ok());
  EXPECT_FALSE(SettleFailure(LeaseOf(4, "transient"), lost, false).ok());
  EXPECT_FALSE(SettleFailure(LeaseOf(5, "env"), lost, false).ok());
  // An outage of the store is no fault of the part, however long it lasts.
  EXPECT_FALSE(SettleFailure(LeaseOf(50, "transient"), lost, true).ok());
  const auto settled = SettleFailure(LeaseOf(5, "transient"), lost, false);
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

TEST(TimeZone, NamesOfUtcAreOneZone) {
  EXPECT_TRUE(IsSameTimeZone("Asia/Tokyo", "Asia/Tokyo"));
  EXPECT_TRUE(IsSameTimeZone("Etc/UTC", "UTC"));
  EXPECT_FALSE(IsSameTimeZone("Europe/London", "UTC"));
  EXPECT_FALSE(IsSameTimeZone("Asia/Tokyo", "Asia/Seoul"));
}

}  // namespace
}  // namespace partforge::clickhouse
