#include "laws.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/json.h"
#include "testing/copy_kind.h"

namespace partforge::sim {
namespace {

bool MayMove(TaskState from, TaskState to) {
  switch (from) {
    case TaskState::kReady:
      return to == TaskState::kInProgress;
    case TaskState::kInProgress:
      return to == TaskState::kReady || to == TaskState::kCompactReady ||
             to == TaskState::kFinished || to == TaskState::kSuperseded || to == TaskState::kFailed;
    case TaskState::kCompactReady:
      return to == TaskState::kCompacting || to == TaskState::kFinished;
    case TaskState::kCompacting:
      return to == TaskState::kCompactReady || to == TaskState::kSuperseded ||
             to == TaskState::kFailed;
    case TaskState::kFinished:
      return to == TaskState::kImporting;
    case TaskState::kImporting:
      return to == TaskState::kImported || to == TaskState::kFinished || to == TaskState::kFailed;
    case TaskState::kSuperseded:
    case TaskState::kImported:
    case TaskState::kFailed:
      return false;
  }
  return false;
}

bool MayMove(CommitState from, CommitState to) {
  switch (from) {
    case CommitState::kDecided:
      return to == CommitState::kCommitting || to == CommitState::kAborted;
    case CommitState::kCommitting:
      return to == CommitState::kPublished || to == CommitState::kAborted;
    case CommitState::kPublished:
      return to == CommitState::kCleaned;
    case CommitState::kCleaned:
    case CommitState::kAborted:
      return false;
  }
  return false;
}

bool MayBeVisible(CommitState state) {
  return state != CommitState::kDecided && state != CommitState::kAborted;
}
bool MustBeVisible(CommitState state) {
  return state == CommitState::kPublished || state == CommitState::kCleaned;
}

}  // namespace

std::string Laws::Check() {
  if (std::string broken = CheckTasks(); !broken.empty()) return broken;
  if (std::string broken = CheckCommits(); !broken.empty()) return broken;
  if (std::string broken = CheckTable(); !broken.empty()) return broken;
  return CheckLake();
}

std::string Laws::CheckTasks() {
  std::string broken;
  jobs_.ForEachTask([&](const Task& task) {
    const auto [it, is_new] = tasks_.try_emplace({task.job, task.id}, Seen{task.state, task.epoch});
    Seen& seen = it->second;
    if (is_new) {
      const bool is_output = task.generation > 0 && (task.state == TaskState::kCompactReady ||
                                                     task.state == TaskState::kFinished);
      if (task.state != TaskState::kReady && !is_output) {
        broken = fmt::format("task {} appears as {}", task.id, TaskStateName(task.state));
      }
    } else if (task.state != seen.state && !MayMove(seen.state, task.state)) {
      broken = fmt::format("task {} moves from {} to {}", task.id, TaskStateName(seen.state),
                           TaskStateName(task.state));
    } else if (task.epoch < seen.epoch) {
      broken = fmt::format("epoch of task {} falls to {}", task.id, task.epoch);
    }
    seen = Seen{task.state, task.epoch};
  });
  return broken;
}

std::string Laws::CheckCommits() {
  std::string broken;
  jobs_.ForEachCommit([&](const Commit& commit) {
    const auto [it, is_new] = commits_.try_emplace(commit.id);
    SeenCommit& seen = it->second;
    if (is_new) {
      for (const Chosen& chosen : commit.chosen) seen.rows += chosen.result.rows_out;
      seen.is_lake = commit.target == lake_;
      if (commit.state != CommitState::kDecided)
        broken = fmt::format("commit {} appears late", commit.id);
    } else if (commit.state != seen.state && !MayMove(seen.state, commit.state)) {
      broken = fmt::format("commit {} moves from {} to {}", commit.id, CommitStateName(seen.state),
                           CommitStateName(commit.state));
    } else if (commit.epoch < seen.epoch) {
      broken = fmt::format("epoch of commit {} falls to {}", commit.id, commit.epoch);
    }
    seen.state = commit.state;
    seen.epoch = commit.epoch;
  });
  return broken;
}

std::string Laws::CheckTable() {
  if (!target_.broken().empty()) return target_.broken();
  for (const auto& [commit, rows] : target_.rows_by_commit()) {
    if (commit.empty()) continue;
    const SeenCommit& seen = commits_.at(commit);
    if (!MayBeVisible(seen.state)) {
      return fmt::format("rows of commit {} are visible, it is {}", commit,
                         CommitStateName(seen.state));
    }
    if (rows > seen.rows)
      return fmt::format("commit {} has {} rows, {} are visible", commit, seen.rows, rows);
  }
  for (const auto& [commit, seen] : commits_) {
    if (seen.is_lake || !MustBeVisible(seen.state)) continue;
    const auto rows = target_.rows_by_commit().find(commit);
    if (rows == target_.rows_by_commit().end() || rows->second != seen.rows) {
      return fmt::format("commit {} is {} and not all of its {} rows are visible", commit,
                         CommitStateName(seen.state), seen.rows);
    }
  }
  return "";
}

std::string Laws::CheckLake() {
  const std::string prefix = lake_ + "/snapshot-";
  const auto& objects = store_.objects();
  std::vector<std::string> snapshots;
  for (auto it = objects.lower_bound(prefix); it != objects.end() && it->first.starts_with(prefix);
       ++it) {
    snapshots.push_back(it->second);
  }
  if (snapshots.size() != lake_objects_) {
    lake_objects_ = snapshots.size();
    std::multiset<CommitId> commits;
    std::set<std::string> rows;
    for (const std::string& text : snapshots) {
      const auto doc = ParseJson(text);
      if (!doc.ok()) return "snapshot is not JSON";
      commits.insert(doc->at("commit").get<std::string>());
    }
    const auto last = ParseJson(snapshots.back());
    for (const auto& file : last->at("files")) {
      const auto found = objects.find(file.get<std::string>());
      if (found == objects.end())
        return fmt::format("snapshot refers to a missing file: {}", file.dump());
      for (const std::string& row : testing::SplitLines(found->second)) {
        if (!rows.insert(row).second) return fmt::format("row is in the lake twice: {}", row);
      }
    }
    in_lake_.clear();
    for (const CommitId& commit : commits) {
      if (!in_lake_.insert(commit).second)
        return fmt::format("commit is in the lake twice: {}", commit);
    }
  }
  for (const auto& [commit, seen] : commits_) {
    if (!seen.is_lake) continue;
    const bool is_there = in_lake_.contains(commit);
    if (is_there && !MayBeVisible(seen.state)) {
      return fmt::format("commit {} is in the lake, it is {}", commit, CommitStateName(seen.state));
    }
    if (!is_there && MustBeVisible(seen.state)) {
      return fmt::format("commit {} is {} and not in the lake", commit,
                         CommitStateName(seen.state));
    }
  }
  return "";
}

}  // namespace partforge::sim
