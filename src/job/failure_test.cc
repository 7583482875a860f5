#include "job/failure.h"

#include <gtest/gtest.h>

#include "job/backoff.h"
#include "testing/test_world.h"

namespace partforge {
namespace {

Lease LeaseOf(TaskState state, int64_t attempts = 1) {
  Lease lease;
  for (const char* id : {"a", "b"}) {
    Task& task = lease.tasks.emplace_back();
    task.id = id;
    task.state = state;
    task.epoch = 4;
    task.attempts = attempts;
  }
  return lease;
}

TaskEdit FirstEdit(const Status& status, const FailureRules& rules,
                   TaskState state = TaskState::kInProgress, int64_t attempts = 1) {
  Lease lease = LeaseOf(state, attempts);
  lease.tasks.resize(1);
  return SettlementFor(lease, status, rules).edits.at(0);
}

TEST(Failure, ANumberIsReadByWhoKnowsTheEngine) {
  const Status status(Code::kUnavailable, "insert chunk 3: Code: 210. DB::Exception: away");
  EXPECT_EQ(FailureFrom(status).code, 0);
  const FailureReader reader = [](const Status& failed) {
    Failure failure = FailureFrom(failed);
    failure.code = 210;
    return failure;
  };
  EXPECT_EQ(FirstEdit(status, {.read_failure = reader}).failure_code, 210);
  EXPECT_EQ(FirstEdit(status, {}).failure_code, 0);
}

TEST(RecordedStatus, GivesBackNumberAndCode) {
  const Status was = Status(Code::kCorruption, "size: 3 expected").Explain(2133, "part", "retry");
  const Status read = RecordedStatus(RecordedError(was), "data");
  EXPECT_EQ(read.code(), Code::kCorruption);
  EXPECT_EQ(read.explanation().pf_number, 2133);
  EXPECT_EQ(read.message(), "size: 3 expected");
  for (const char* text : {"x", "PF: x", "PFx: y", "PF12", ""}) {
    const Status plain = RecordedStatus(text, "env");
    EXPECT_EQ(plain.code(), Code::kInternal);
    EXPECT_EQ(plain.explanation().pf_number, 0) << text;
    EXPECT_EQ(plain.message(), text);
  }
}

TEST(IsOfSurroundings, IsWhatAnotherMachineWouldNotMeet) {
  const auto is_of = [](Code code, int number) {
    return IsOfSurroundings(Status(code, "x").Explain(number, "", ""));
  };
  EXPECT_TRUE(is_of(Code::kRefused, 7003));      // credentials
  EXPECT_TRUE(is_of(Code::kInternal, 7015));     // EMFILE, …
  EXPECT_TRUE(is_of(Code::kExhausted, 7007));    // a full disk
  EXPECT_FALSE(is_of(Code::kCorruption, 7018));  // EIO
  EXPECT_FALSE(is_of(Code::kNotFound, 7018));    // ENOENT
  EXPECT_TRUE(is_of(Code::kRefused, 2126));      // nothing of the job is there
  EXPECT_FALSE(is_of(Code::kCorruption, 2126));  // one object is missing
  EXPECT_FALSE(is_of(Code::kCorruption, 2133));
  EXPECT_FALSE(is_of(Code::kCorruption, 7006));
  EXPECT_FALSE(IsOfSurroundings(Status(Code::kRefused, "the server refuses the part")));
}

TEST(RecordedError, BeginsWithTheNumberAndIsBounded) {
  EXPECT_EQ(RecordedError(Status(Code::kInternal, "x")), "x");
  EXPECT_EQ(RecordedError(Status(Code::kCorruption, "x").Explain(2133, "part", "retry")),
            "PF2133: x");
  EXPECT_EQ(RecordedError(Status(Code::kInternal, std::string(9'000, 'x'))).size(), 4'096u);
}

TEST(SettlementFor, WhatMayPassIsHandedBackWithABackOff) {
  for (const Code code :
       {Code::kUnavailable, Code::kExhausted, Code::kUnknownOutcome, Code::kCancelled}) {
    const TaskEdit edit = FirstEdit(Status(code, "x"), {.backoff_ms = 3'000});
    EXPECT_EQ(edit.to, TaskState::kReady) << CodeName(code);
    EXPECT_EQ(edit.backoff_ms, 3'000) << CodeName(code);
    EXPECT_EQ(edit.error, "x") << CodeName(code);
  }
}

TEST(SettlementFor, EverythingElseFails) {
  for (const Code code : {Code::kInvalidArgument, Code::kNotFound, Code::kAlreadyExists,
                          Code::kRefused, Code::kConflict, Code::kCorruption, Code::kInternal}) {
    const TaskEdit edit = FirstEdit(Status(code, "x"), {.backoff_ms = 3'000});
    EXPECT_EQ(edit.to, TaskState::kFailed) << CodeName(code);
    EXPECT_FALSE(edit.failure_class.empty()) << CodeName(code);
  }
}

TEST(SettlementFor, AStopHandsBackAtOnceAndWithoutBlame) {
  const TaskEdit cancelled =
      FirstEdit(Status(Code::kCancelled, "stop"), {.backoff_ms = 3'000, .is_stopping = true});
  EXPECT_EQ(cancelled.to, TaskState::kReady);
  EXPECT_EQ(cancelled.backoff_ms, 0);
  EXPECT_EQ(cancelled.failure_class, "");
  // A real failure stays one, also while the worker stops.
  EXPECT_EQ(FirstEdit(Status(Code::kCorruption, "bad"), {.is_stopping = true}).to,
            TaskState::kFailed);
}

TEST(SettlementFor, ABatchGoesBackWholeToWhereItCameFrom) {
  const Settlement settlement = SettlementFor(LeaseOf(TaskState::kCompacting),
                                              Status(Code::kUnavailable, "x"), {.backoff_ms = 1});
  ASSERT_EQ(settlement.edits.size(), 2u);
  for (const TaskEdit& edit : settlement.edits) {
    EXPECT_EQ(edit.from, TaskState::kCompacting);
    EXPECT_EQ(edit.to, TaskState::kCompactReady);
    EXPECT_EQ(edit.epoch, 4u);
  }
}

TEST(SettlementFor, TheLastAttemptFails) {
  const Status away(Code::kUnavailable, "away");
  EXPECT_EQ(FirstEdit(away, {.attempts_max = 3}, TaskState::kInProgress, 2).to, TaskState::kReady);
  EXPECT_EQ(FirstEdit(away, {.attempts_max = 3}, TaskState::kInProgress, 3).to, TaskState::kFailed);
}

TEST(Backoff, GrowsToTenSecondsAndStaysWithinAFifth) {
  const uint64_t seed = testing::TestSeed();
  SCOPED_TRACE(seed);
  testing::SeededRandom random(seed);
  const int64_t expected_ms[] = {1'000, 2'000, 4'000, 8'000, 10'000, 10'000};
  for (int64_t tries = 1; tries <= 6; ++tries) {
    for (int i = 0; i < 100; ++i) {
      const int64_t ms = BackoffMs(random, tries);
      EXPECT_GE(ms, expected_ms[tries - 1] * 8 / 10);
      EXPECT_LE(ms, expected_ms[tries - 1] * 12 / 10);
    }
  }
  EXPECT_LE(BackoffMs(random, INT64_MAX), 12'000);
  EXPECT_GE(BackoffMs(random, 0), 800);
}

TEST(SettlementFor, TasksThatWereGatheredNeverFailTogether) {
  Lease lease;
  for (const char* const id : {"a", "b"}) {
    Task task;
    task.id = id;
    task.state = TaskState::kInProgress;
    task.attempts = 9;
    lease.tasks.push_back(task);
  }
  for (const Code code : {Code::kCorruption, Code::kInternal, Code::kExhausted}) {
    const Settlement ended =
        SettlementFor(lease, Status(code, "one of them"), FailureRules{.attempts_max = 3});
    ASSERT_EQ(ended.edits.size(), 2u);
    for (const TaskEdit& edit : ended.edits) {
      EXPECT_EQ(edit.to, TaskState::kReady);
      EXPECT_FALSE(edit.failure_class.empty());
    }
  }
}

}  // namespace
}  // namespace partforge
