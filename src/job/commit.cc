#include "job/commit.h"

#include <fmt/format.h>

#include <array>

namespace partforge {
namespace {

constexpr std::array<std::string_view, 5> kCommitNames = {"DECIDED", "COMMITTING", "PUBLISHED",
                                                          "CLEANED", "ABORTED"};
constexpr std::array<std::string_view, 5> kPieceNames = {"STAGED", "SENT", "CONFIRMED",
                                                         "SUPPRESSED", "REPLACED"};

}  // namespace

std::string_view CommitStateName(CommitState state) {
  return kCommitNames.at(static_cast<size_t>(state));
}

std::optional<CommitState> ParseCommitState(std::string_view name) {
  for (size_t i = 0; i < kCommitNames.size(); ++i) {
    if (kCommitNames[i] == name) return static_cast<CommitState>(i);
  }
  return std::nullopt;
}

Status CheckOneTarget(std::string_view standing_target, const Commit& proposal) {
  if (standing_target == proposal.target) return {};
  return Status(Code::kConflict,
                fmt::format("decide {}: job {} goes into {}, not into {}", proposal.id,
                            proposal.job, standing_target, proposal.target))
      .Explain(2134, proposal.target,
               "a job is published into one target: name that one, or make a new job");
}

std::string_view PieceStateName(PieceState state) {
  return kPieceNames.at(static_cast<size_t>(state));
}

}  // namespace partforge
