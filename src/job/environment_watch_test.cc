#include "job/environment_watch.h"

#include <gtest/gtest.h>

#include "job/failure.h"

namespace partforge {
namespace {

constexpr int64_t kPatienceMs = 600'000;

Lease OneTask() {
  Lease lease;
  lease.tasks.emplace_back();
  lease.tasks.front().id = "part-1";
  lease.tasks.front().state = TaskState::kInProgress;
  return lease;
}

Settlement Refused() {
  const Failure failure =
      FailureFrom(Status(Code::kRefused, "GET source: 403 AccessDenied").Explain(7003, "s3", "do"));
  return ReleasedSettlement(OneTask(), &failure, 30'000);
}

TEST(EnvironmentWatch, TenMinutesOfNothingButRefusalsEndTheWorkerWithTheirReason) {
  EnvironmentWatch watch(kPatienceMs);
  watch.Note(1'000, Refused());
  watch.Note(600'000, Refused());
  EXPECT_TRUE(watch.verdict().ok());
  watch.Note(601'000, Refused());
  const Status verdict = watch.verdict();
  EXPECT_EQ(verdict.code(), Code::kInternal);
  EXPECT_EQ(verdict.explanation().pf_number, 7003);
  EXPECT_NE(verdict.message().find("AccessDenied"), std::string::npos) << verdict.ToString();
}

TEST(EnvironmentWatch, AnythingThatWentFurtherStartsTheTimeAgain) {
  EnvironmentWatch watch(kPatienceMs);
  watch.Note(0, Refused());
  const Failure of_the_data = FailureFrom(Status(Code::kCorruption, "bad value"));
  watch.Note(300'000, FailedSettlement(OneTask(), of_the_data));
  watch.Note(700'000, Refused());
  EXPECT_TRUE(watch.verdict().ok());
  Settlement done;
  done.edits.emplace_back();
  done.edits.back().to = TaskState::kFinished;
  watch.Note(1'290'000, done);
  watch.Note(1'310'000, Refused());
  EXPECT_TRUE(watch.verdict().ok());
}

TEST(EnvironmentWatch, ARefusalOfOneAmongManyThatWentFurtherIsNone) {
  EnvironmentWatch watch(kPatienceMs);
  Settlement some = Refused();
  some.edits.emplace_back().to = TaskState::kSuperseded;
  for (int64_t now_ms = 0; now_ms < 3 * kPatienceMs; now_ms += 100'000) watch.Note(now_ms, some);
  EXPECT_TRUE(watch.verdict().ok());
}

TEST(EnvironmentWatch, WhatIsHandedBackWithoutAReasonSaysNothing) {
  EnvironmentWatch watch(kPatienceMs);
  watch.Note(0, Refused());
  watch.Note(500'000, ReleasedSettlement(OneTask(), nullptr, 0));
  watch.Note(600'000, Refused());
  EXPECT_FALSE(watch.verdict().ok());
}

}  // namespace
}  // namespace partforge
