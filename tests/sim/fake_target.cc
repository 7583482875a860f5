#include "fake_target.h"

#include <fmt/format.h>

#include <algorithm>

namespace partforge::sim {
namespace {

constexpr int64_t kPollMs = 100;

}  // namespace

Status FakeTarget::Enter(std::string_view what, const std::string& name) {
  baton_.Yield(fmt::format("{} {}", what, name));
  if (baton_.DrawFailure(what))
    return Status(Code::kUnavailable, fmt::format("simulated failure of {}", what));
  return {};
}

Result<int64_t> FakeTarget::MakeDirectory(const std::string& name, const SimPart& part) {
  PF_TRY(Enter("disk.make", name));
  if (detached_.contains(name))
    return Status(Code::kAlreadyExists, fmt::format("exists: {}", name));
  const int64_t inode = ++inodes_made_;
  parts_[inode] = part;
  detached_[name] = inode;
  return inode;
}

Status FakeTarget::Rename(const std::string& from, const std::string& to) {
  PF_TRY(Enter("disk.rename", from + " to " + to));
  const auto it = detached_.find(from);
  if (it == detached_.end()) return Status(Code::kNotFound, fmt::format("absent: {}", from));
  if (detached_.contains(to)) return Status(Code::kAlreadyExists, fmt::format("exists: {}", to));
  detached_[to] = it->second;
  detached_.erase(it);
  return {};
}

Status FakeTarget::Copy(const std::string& from, const std::string& to) {
  PF_TRY(Enter("disk.copy", from + " to " + to));
  const auto it = detached_.find(from);
  if (it == detached_.end()) return Status(Code::kNotFound, fmt::format("absent: {}", from));
  if (detached_.contains(to)) return Status(Code::kAlreadyExists, fmt::format("exists: {}", to));
  const int64_t inode = ++inodes_made_;
  parts_[inode] = parts_.at(it->second);
  detached_[to] = inode;
  return {};
}

Status FakeTarget::Remove(const std::string& name) {
  PF_TRY(Enter("disk.remove", name));
  const auto it = detached_.find(name);
  if (it == detached_.end()) return {};
  parts_.erase(it->second);
  detached_.erase(it);
  return {};
}

Result<std::optional<int64_t>> FakeTarget::FindDetached(const std::string& name) {
  PF_TRY(Enter("disk.find", name));
  const auto it = detached_.find(name);
  return it == detached_.end() ? std::optional<int64_t>() : std::optional(it->second);
}

Result<std::optional<std::string>> FakeTarget::FindByInode(int64_t inode) {
  PF_TRY(Enter("disk.list", std::to_string(inode)));
  std::vector<std::string> names;
  for (const auto& [name, any] : detached_) names.push_back(name);
  PF_TRY(Enter("disk.look_at_each", std::to_string(inode)));
  for (const std::string& name : names) {
    const auto it = detached_.find(name);
    if (it != detached_.end() && it->second == inode) return std::optional(name);
  }
  return std::optional<std::string>();
}

Result<bool> FakeTarget::IsInTable(int64_t inode) {
  PF_TRY(Enter("disk.find_in_table", std::to_string(inode)));
  const auto has = [&](const std::vector<int64_t>& list) {
    return std::find(list.begin(), list.end(), inode) != list.end();
  };
  return has(table_) || has(outdated_);
}

Status FakeTarget::Attach(const std::string& name, uint64_t epoch) {
  PF_TRY(Enter("engine.attach", name));
  const int64_t id = ++statements_made_;
  statements_[id] = Statement{.name = name, .epoch = epoch, .is_moved_aside = false};
  outcomes_[id] = Outcome::kRunning;
  // The server works while the client waits; if the client dies here, it still does.
  while (outcomes_.at(id) == Outcome::kRunning) {
    if (baton_.OneIn(2)) Run(id);
    if (outcomes_.at(id) == Outcome::kRunning) baton_.SleepMs(kPollMs);
  }
  const Outcome outcome = outcomes_.at(id);
  if (baton_.DrawLostReply("engine.attach")) {
    return Status(Code::kUnknownOutcome, fmt::format("connection lost: ATTACH PART {}", name));
  }
  switch (outcome) {
    case Outcome::kAttached:
      return {};
    case Outcome::kAbsent:
      return Status(Code::kNotFound, fmt::format("Code: 233. no part {}", name));
    case Outcome::kRefused:
      return Status(Code::kRefused, fmt::format("Code: 246. wrong part {}", name));
    default:
      return Status(Code::kUnknownOutcome, fmt::format("server restarted: ATTACH PART {}", name));
  }
}

Result<bool> FakeTarget::IsRunning(const std::string& name, uint64_t epoch_below) {
  PF_TRY(Enter("engine.processes", name));
  return std::any_of(statements_.begin(), statements_.end(), [&](const auto& entry) {
    return entry.second.name == name && entry.second.epoch < epoch_below;
  });
}

void FakeTarget::Run(int64_t id) {
  const auto it = statements_.find(id);
  if (it == statements_.end()) return;
  Statement& statement = it->second;
  const std::string aside = "attaching_" + statement.name;
  const auto end = [&](Outcome outcome) {
    outcomes_[id] = outcome;
    statements_.erase(id);
  };
  if (!statement.is_moved_aside) {
    const auto found = detached_.find(statement.name);
    if (found == detached_.end() || detached_.contains(aside)) return end(Outcome::kAbsent);
    detached_[aside] = found->second;
    detached_.erase(found);
    statement.is_moved_aside = true;
    baton_.Trace(fmt::format("  server: {} is set aside", statement.name));
    return;
  }
  const auto found = detached_.find(aside);
  if (found == detached_.end()) return end(Outcome::kAbsent);
  const int64_t inode = found->second;
  const SimPart::Refusal refusal = parts_.at(inode).refusal;
  if (refusal == SimPart::Refusal::kAlways ||
      (refusal == SimPart::Refusal::kSometimes && baton_.IsFaulty() && baton_.OneIn(2))) {
    if (!detached_.contains(statement.name)) {
      detached_[statement.name] = inode;
      detached_.erase(aside);
    }
    return end(Outcome::kRefused);
  }
  detached_.erase(found);
  baton_.Trace(fmt::format("  server: {} is in the table", statement.name));
  AddToTable(inode);
  end(Outcome::kAttached);
}

void FakeTarget::AddToTable(int64_t inode) {
  table_.push_back(inode);
  const SimPart& part = parts_.at(inode);
  for (const std::string& row : part.rows) {
    if (++visible_rows_[row] > 1) broken_ = fmt::format("row is in the table twice: {}", row);
  }
  rows_by_commit_[part.commit] += std::ssize(part.rows);
}

void FakeTarget::Merge() {
  if (table_.size() < 2) return;
  SimPart merged;
  for (int i = 0; i < 2; ++i) {
    const auto at = table_.begin() + static_cast<int64_t>(baton_.Below(table_.size()));
    const SimPart& part = parts_.at(*at);
    merged.rows.insert(merged.rows.end(), part.rows.begin(), part.rows.end());
    outdated_.push_back(*at);
    table_.erase(at);
  }
  const int64_t inode = ++inodes_made_;
  parts_[inode] = std::move(merged);
  table_.push_back(inode);
  baton_.Trace("  server: merged two parts");
}

void FakeTarget::Restart() {
  for (const auto& [id, statement] : statements_) outcomes_[id] = Outcome::kForgotten;
  statements_.clear();
  baton_.Trace("  server: restarts");
}

void FakeTarget::WorkInBackground() {
  if (!statements_.empty()) {
    auto it = statements_.begin();
    std::advance(it, static_cast<int64_t>(baton_.Below(statements_.size())));
    Run(it->first);
  }
  if (baton_.OneIn(6)) Merge();
  if (baton_.OneIn(4) && !outdated_.empty()) {
    parts_.erase(outdated_.front());
    outdated_.erase(outdated_.begin());
  }
  if (baton_.IsFaulty() && baton_.OneIn(statements_.empty() ? 40 : 6)) Restart();
}

}  // namespace partforge::sim
