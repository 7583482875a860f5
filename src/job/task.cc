#include "job/task.h"

#include <array>
#include <utility>

namespace partforge {
namespace {

// In the order of the enumeration; the words are the seed's (clickhouse-parts §7.3).
constexpr std::array<std::string_view, 9> kNames = {"READY",      "IN_PROGRESS", "COMPACT_READY",
                                                    "COMPACTING", "SUPERSEDED",  "FINISHED",
                                                    "IMPORTING",  "IMPORTED",    "FAILED"};

}  // namespace

bool HasOutput(TaskState state) {
  return state == TaskState::kCompactReady || state == TaskState::kCompacting ||
         state == TaskState::kFinished || state == TaskState::kImporting ||
         state == TaskState::kImported;
}

std::string_view TaskStateName(TaskState state) {
  return kNames.at(static_cast<size_t>(state));
}

std::optional<TaskState> ParseTaskState(std::string_view name) {
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return static_cast<TaskState>(i);
  }
  return std::nullopt;
}

}  // namespace partforge
