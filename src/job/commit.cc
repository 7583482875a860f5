#include "job/commit.h"

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

std::string_view PieceStateName(PieceState state) {
  return kPieceNames.at(static_cast<size_t>(state));
}

}  // namespace partforge
