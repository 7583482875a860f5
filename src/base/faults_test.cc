#include "base/faults.h"

#include <gtest/gtest.h>

#include "base/context.h"
#include "base/files.h"
#include "testing/test_world.h"

namespace partforge {
namespace {

std::unique_ptr<EnvironmentFaults> Made(std::string_view spec, std::string_view trace = "") {
  return EnvironmentFaults::Parse(spec, trace).value();
}

TEST(Faults, ErrorComesAtItsHitOnly) {
  const auto faults = Made("room.done:2:error");
  EXPECT_TRUE(faults->Hit("room.done").ok());
  EXPECT_TRUE(faults->Hit("room.other").ok());
  const Status status = faults->Hit("room.done");
  EXPECT_EQ(status.code(), Code::kUnavailable);
  EXPECT_EQ(status.message(), "injected fault at room.done (hit 2)");
  EXPECT_TRUE(faults->Hit("room.done").ok());
}

TEST(Faults, HitZeroIsEveryHit) {
  const auto faults = Made("a:0:error");
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(faults->Hit("a").ok());
}

TEST(Faults, SeveralRulesMayStand) {
  const auto faults = Made("a:1:error,,b:1:delay=0,b:2:error");
  EXPECT_FALSE(faults->Hit("a").ok());
  EXPECT_TRUE(faults->Hit("b").ok());
  EXPECT_FALSE(faults->Hit("b").ok());
}

TEST(Faults, KillEndsTheProcessAtThePoint) {
  EXPECT_EXIT(
      {
        (void)Made("a:2:kill")->Hit("b");
        _exit(7);
      },
      ::testing::ExitedWithCode(7), "");
  EXPECT_EXIT(
      {
        const auto faults = Made("a:2:kill");
        (void)faults->Hit("a");
        (void)faults->Hit("a");
        _exit(7);
      },
      ::testing::KilledBySignal(SIGKILL), "");
}

TEST(Faults, RefusesASpecThatDoesNotParse) {
  for (const char* spec : {"a", "a:1", "a:x:kill", "a:-1:kill", ":1:kill", "a:1:boom",
                           "a:1:delay=", "a:1:delay=x", "a:1:kill:2", "a:1:"}) {
    EXPECT_EQ(EnvironmentFaults::Parse(spec, "").status().code(), Code::kInvalidArgument) << spec;
  }
  EXPECT_TRUE(EnvironmentFaults::Parse("", "").ok());
}

TEST(Faults, TraceHasOneLineAHit) {
  const testing::TempDir dir;
  const auto faults = Made("", (dir / "trace").string());
  EXPECT_TRUE(faults->Hit("a.b").ok());
  EXPECT_TRUE(faults->Hit("c.d").ok());
  EXPECT_TRUE(faults->Hit("a.b").ok());
  EXPECT_EQ(ReadFile(dir / "trace").value(), "a.b\nc.d\na.b\n");
}

Result<int> ThroughTwoPoints(const Context& ctx) {
  PF_FAULT(ctx, "base_test.first");
  PF_FAULT(ctx, "base_test.second");
  return 1;
}

TEST(Faults, MacroReturnsTheInjectedError) {
  testing::TestWorld world;
  EXPECT_EQ(ThroughTwoPoints(world.context()).value(), 1);
  testing::FailNth second(2, "base_test.");
  world.UseFaults(second);
  EXPECT_EQ(ThroughTwoPoints(world.context()).status().code(), Code::kUnavailable);
  EXPECT_EQ(second.fired_point(), "base_test.second");
}

}  // namespace
}  // namespace partforge
