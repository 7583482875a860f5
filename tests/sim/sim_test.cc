#include <gtest/gtest.h>

#include <algorithm>

#include "history.h"

namespace partforge::sim {
namespace {

// The tail of a history, which is where the law broke.
std::string Tell(HistoryOptions options) {
  options.is_traced = true;
  const HistoryOutcome outcome = RunHistory(options);
  std::string text;
  const size_t from = outcome.trace.size() > 120 ? outcome.trace.size() - 120 : 0;
  for (size_t i = from; i < outcome.trace.size(); ++i) text += outcome.trace[i] + "\n";
  return text;
}

// How many histories from `first_seed` on a mistake survives before a row is there twice;
// `histories_max` when it is not found.
uint64_t HistoriesUntilCaught(Mistake mistake, uint64_t first_seed, uint64_t histories_max) {
  for (uint64_t number = 0; number < histories_max; ++number) {
    HistoryOptions options;
    options.seed = first_seed + number;
    options.mistake = mistake;
    if (RunHistory(options).broken.find("twice") != std::string::npos) return number;
  }
  return histories_max;
}

TEST(Simulation, EveryLawHoldsInTwoHundredHistories) {
  int64_t crashes = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    HistoryOptions options;
    options.seed = seed;
    const HistoryOutcome outcome = RunHistory(options);
    ASSERT_EQ(outcome.broken, "") << "partforge_sim --seed " << seed << "\n" << Tell(options);
    crashes += outcome.crashes;
  }
  EXPECT_GT(crashes, 200) << "the histories are too peaceful to prove anything";
}

TEST(Simulation, TheSameSeedIsTheSameHistory) {
  HistoryOptions options;
  options.seed = 7;
  options.is_traced = true;
  EXPECT_EQ(RunHistory(options).trace, RunHistory(options).trace);
}

TEST(Simulation, NamesSharedBetweenEpochsAreCaught) {
  // Three must meet: of 250 histories about one has them. The first seed is near one that had.
  EXPECT_LT(HistoriesUntilCaught(Mistake::kSharedNames, 540, 1500), 1500u);
}

TEST(Simulation, CopyingWhatIsBoundIsCaught) {
  EXPECT_LT(HistoriesUntilCaught(Mistake::kCopies, 0, 200), 200u);
}

TEST(Simulation, ApplyingWithoutLookingIsCaught) {
  EXPECT_LT(HistoriesUntilCaught(Mistake::kBlindApply, 0, 200), 200u);
}

}  // namespace
}  // namespace partforge::sim
