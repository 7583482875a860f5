#include "app/exit_code.h"

#include <gtest/gtest.h>

#include <csignal>

namespace partforge::app {
namespace {

Status With(Code code, int number) {
  return Status(code, "why").Explain(number, "where", "do");
}

// The table of user-experience §5.2, row by row.
TEST(ExitCode, FollowsTheOneTable) {
  EXPECT_EQ(ExitCode({}), 0);
  EXPECT_EQ(ExitCode(With(Code::kNotFound, 2130)), 1);
  EXPECT_EQ(ExitCode(With(Code::kInternal, 9001)), 1);
  EXPECT_EQ(ExitCode(With(Code::kExhausted, 2141)), 1);
  EXPECT_EQ(ExitCode(With(Code::kAlreadyExists, 0)), 1);
  EXPECT_EQ(ExitCode(With(Code::kInvalidArgument, 1003)), 2);
  EXPECT_EQ(ExitCode(With(Code::kInvalidArgument, 1999)), 2);
  EXPECT_EQ(ExitCode(With(Code::kRefused, 2107)), 3);
  EXPECT_EQ(ExitCode(With(Code::kInternal, 2149)), 4);
  EXPECT_EQ(ExitCode(With(Code::kConflict, 2135)), 5);
  EXPECT_EQ(ExitCode(With(Code::kLeaseLost, 6005)), 5);
  EXPECT_EQ(ExitCode(With(Code::kUnknownOutcome, 2138)), 6);
  EXPECT_EQ(ExitCode(With(Code::kUnavailable, 6001)), 7);
  EXPECT_EQ(ExitCode(With(Code::kCorruption, 2133)), 8);
  EXPECT_EQ(ExitCode(With(Code::kNotFound, 1016)), 9);
  EXPECT_EQ(ExitCodeOfSignal(SIGINT), 130);
  EXPECT_EQ(ExitCodeOfSignal(SIGTERM), 143);
  EXPECT_EQ(ExitCode(Status(Code::kCancelled, "stopped")), 143);
}

// A wrong argument that is no matter of usage is a failure, not a call to be fixed.
TEST(ExitCode, TakesOnlyNumbersOfUsageAsUsage) {
  EXPECT_EQ(ExitCode(With(Code::kInvalidArgument, 6008)), 1);
  EXPECT_EQ(ExitCode(Status(Code::kInvalidArgument, "no number")), 1);
}

// state-schema §1: the command that makes or upgrades the schema is named, with 2.
TEST(ExitCode, OfAStateStoreThatIsNotMadeYetIsThatOfACallToBeFixed) {
  EXPECT_EQ(ExitCode(With(Code::kInvalidArgument, 6003)), 2);
  EXPECT_EQ(ExitCode(With(Code::kInvalidArgument, 6004)), 2);
}

}  // namespace
}  // namespace partforge::app
