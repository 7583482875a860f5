#include "base/error.h"

#include <gtest/gtest.h>

namespace partforge {
namespace {

Result<int> Half(int value) {
  if (value % 2 != 0) return Status(Code::kInvalidArgument, "odd: " + std::to_string(value));
  return value / 2;
}

Result<int> Quarter(int value) {
  PF_ASSIGN(const int half, Half(value));
  return Half(half);
}

Status CheckQuarter(int value) {
  PF_TRY(Quarter(value));
  return {};
}

TEST(Status, KeepsCodeWhenContextIsAdded) {
  const Status status =
      Status(Code::kUnavailable, "no answer").With("claim").Explain(7001, "db", "start it");
  EXPECT_EQ(status.code(), Code::kUnavailable);
  EXPECT_EQ(status.message(), "claim: no answer");
  EXPECT_EQ(status.explanation().pf_number, 7001);
  EXPECT_EQ(status.ToString(), "unavailable: claim: no answer [db]");
}

TEST(Status, OkStaysOk) {
  EXPECT_TRUE(Status().With("x").Explain(1, "a", "b").As(Code::kInternal).ok());
}

TEST(Result, EarlyReturnCarriesTheFailure) {
  EXPECT_EQ(Quarter(8).value(), 2);
  EXPECT_EQ(Quarter(6).status().message(), "odd: 3");
  EXPECT_TRUE(CheckQuarter(8).ok());
  EXPECT_EQ(CheckQuarter(7).code(), Code::kInvalidArgument);
}

TEST(ResultDeathTest, ReadingTheWrongSideAborts) {
  EXPECT_DEATH({ (void)Half(3).value(); }, "odd: 3");
}

}  // namespace
}  // namespace partforge
