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

Status CheckChosen(const std::vector<std::vector<size_t>>& chosen, size_t offered) {
  std::vector<bool> is_taken(offered);
  for (const auto& group : chosen) {
    for (const size_t index : group) {
      if (index >= offered || is_taken[index]) {
        return Status(Code::kInternal, "claim: a task was chosen that was not offered, or twice: " +
                                           std::to_string(index));
      }
      is_taken[index] = true;
    }
  }
  return {};
}

TaskEdit EditTo(const Task& task, TaskState to) {
  TaskEdit edit;
  edit.id = task.id;
  edit.from = task.state;
  edit.epoch = task.epoch;
  edit.to = to;
  return edit;
}

std::optional<TaskState> ParseTaskState(std::string_view name) {
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return static_cast<TaskState>(i);
  }
  return std::nullopt;
}

}  // namespace partforge
