#include "app/job_records.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace partforge::app {
namespace {

JobView ViewOf(std::string state, const std::vector<std::pair<TaskState, int64_t>>& counts) {
  JobView view;
  view.state = std::move(state);
  for (const auto& [task_state, tasks] : counts) {
    view.counts.push_back(
        {.state = task_state, .tasks = tasks, .bytes = 10 * tasks, .parts = tasks, .rows = tasks});
  }
  return view;
}

std::string StatusOf(std::string state, std::vector<std::pair<TaskState, int64_t>> counts) {
  return NumbersOf(ViewOf(std::move(state), std::move(counts))).status;
}

// clickhouse-parts §7.3: the first rule that fits.
TEST(JobStatus, IsTheFirstRuleThatFits) {
  using enum TaskState;
  EXPECT_EQ(StatusOf("OPEN", {}), "EMPTY");
  EXPECT_EQ(StatusOf("SEALED", {{kReady, 3}}), "READY");
  EXPECT_EQ(StatusOf("SEALED", {{kReady, 3}, {kInProgress, 1}}), "REWRITING");
  EXPECT_EQ(StatusOf("SEALED", {{kInProgress, 1}, {kCompactReady, 1}}), "COMPACTING");
  EXPECT_EQ(StatusOf("SEALED", {{kFinished, 2}}), "READY_FOR_IMPORT");
  EXPECT_EQ(StatusOf("SEALED", {{kFinished, 1}, {kImported, 1}}), "READY_FOR_IMPORT");
  EXPECT_EQ(StatusOf("SEALED", {{kFinished, 1}, {kImporting, 1}}), "IMPORTING");
  EXPECT_EQ(StatusOf("SEALED", {{kImported, 2}, {kSuperseded, 3}}), "IMPORTED");
  EXPECT_EQ(StatusOf("SEALED", {{kImported, 2}, {kFailed, 1}}), "FAILED");
  EXPECT_EQ(StatusOf("ABORTED", {{kImported, 2}}), "ABORTED");
}

TEST(JobStatus, SourcePartsAreThoseUploaded) {
  using enum TaskState;
  JobView view = ViewOf("SEALED", {{kFinished, 2}, {kSuperseded, 50}});
  view.tasks_expected = 51;  // one was rewritten alone
  EXPECT_EQ(NumbersOf(view).source_parts, 51);
  view = ViewOf("OPEN", {{kReady, 3}});
  view.tasks_expected = -1;
  EXPECT_EQ(NumbersOf(view).source_parts, 3);
}

TEST(JobStatus, OfAnUploadThatNeverEndedIsNotReadyForImport) {
  using enum TaskState;
  EXPECT_EQ(StatusOf("OPEN", {{kFinished, 2}}), "READY");
  EXPECT_EQ(StatusOf("OPEN", {{kImported, 2}}), "READY");
}

TEST(PausedJob, IsRefusedWhilePartsWait) {
  using enum TaskState;
  JobView view = ViewOf("SEALED", {{kReady, 2}, {kFailed, 3}});
  EXPECT_TRUE(CheckNotPaused(view).ok());
  view.is_paused = true;
  const Status paused = CheckNotPaused(view);
  EXPECT_EQ(paused.code(), Code::kRefused);
  EXPECT_EQ(paused.explanation().pf_number, 2143);
  view.counts = ViewOf("SEALED", {{kImported, 2}, {kFailed, 3}}).counts;
  EXPECT_TRUE(CheckNotPaused(view).ok());
}

TEST(JobNumbers, CountSupersededTasksNowhere) {
  using enum TaskState;
  const JobNumbers numbers =
      NumbersOf(ViewOf("SEALED", {{kReady, 1}, {kFinished, 2}, {kImported, 1}, {kSuperseded, 50}}));
  EXPECT_EQ(numbers.total, 4);
  EXPECT_EQ(numbers.rewritten, 3);
  EXPECT_EQ(numbers.imported, 1);
  EXPECT_EQ(numbers.bytes, 40);
  EXPECT_EQ(numbers.bytes_rewritten, 30);
  EXPECT_DOUBLE_EQ(numbers.rewrite_percent, 75.0);
  EXPECT_DOUBLE_EQ(numbers.import_percent, 25.0);
}

TEST(StatusCounts, AreInTheOrderOfTheStatesWithoutZeros) {
  using enum TaskState;
  const JsonDoc counts = StatusCounts(ViewOf("SEALED", {{kFailed, 1}, {kReady, 2}}));
  ASSERT_EQ(counts.size(), 2u);
  EXPECT_EQ(counts[0]["status"], "READY");
  EXPECT_EQ(counts[1]["count"], 1);
}

// clickhouse-parts §8.6: the bytes that are left, as fast as those that are done.
TEST(EtaSeconds, FollowsTheBytesDone) {
  using enum TaskState;
  JobView view = ViewOf("SEALED", {{kReady, 3}, {kFinished, 1}});
  view.work_started_at_ms = 1'000;
  view.now_ms = 11'000;
  EXPECT_EQ(EtaSeconds(view, NumbersOf(view)), 30);
  view.counts = ViewOf("SEALED", {{kReady, 4}}).counts;
  EXPECT_TRUE(EtaSeconds(view, NumbersOf(view)).is_null()) << "nothing tells how fast it is";
  view.counts = ViewOf("SEALED", {{kFinished, 4}}).counts;
  EXPECT_EQ(EtaSeconds(view, NumbersOf(view)), 0);
}

TEST(FailedParts, AreToldByTheRecordOfOneAndItsNumber) {
  const auto number = [](int recorded) {
    const Status why = Status(Code::kInternal, "the cause").Explain(recorded, "", "");
    const Status told = FailedParts(2, why, "job-1", "look");
    EXPECT_EQ(told.code(), Code::kInternal);
    EXPECT_EQ(told.message(), "2 parts failed, one of them: the cause");
    return told.explanation().pf_number;
  };
  const Status sql = Status(Code::kInternal, "the SQL").Explain(2144, "", "");
  EXPECT_EQ(FailedParts(1, sql, "job-1", "look").explanation().pf_number, 2144);
  EXPECT_EQ(number(7014), 7014);
  EXPECT_EQ(number(0), 2149);
  EXPECT_EQ(FailedParts(1, Status(), "job-1", "look").message(), "1 part failed");
}

}  // namespace
}  // namespace partforge::app
