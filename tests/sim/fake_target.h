#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "baton.h"
#include "job/task.h"

namespace partforge::sim {

// What lies in one directory of a part. Followed by its inode, whatever the directory is called.
struct SimPart {
  CommitId commit;  // who staged it; for the checkers only
  std::vector<std::string> rows;
  // Whether the engine will attach it (246 when not).
  enum class Refusal : uint8_t { kNever, kSometimes, kAlways } refusal = Refusal::kNever;
};

// A small model of one MergeTree table and its server (exactly-once §2 and §6.1): directories below
// detached/ by name, directories of the table by inode, ATTACH PART in the two renames that the
// server really makes, background merges, and restarts that forget running statements. Statements
// run in the server: a client that dies does not stop them.
class FakeTarget {
 public:
  explicit FakeTarget(Baton& baton) : baton_(baton) {}

  // The file system, as a loader on the same machine sees it. Each call hands the baton back and
  // may fail.
  Result<int64_t> MakeDirectory(const std::string& name,
                                const SimPart& part);  // the inode; kAlreadyExists
  Status Rename(const std::string& from,
                const std::string& to);  // no-replace: kNotFound, kAlreadyExists
  Status Copy(const std::string& from, const std::string& to);  // as Rename, but both stay
  Status Remove(const std::string& name);                       // absent counts as removed
  Result<std::optional<int64_t>> FindDetached(const std::string& name);
  // The name below detached/ that has this inode now. The list is read first and each entry looked
  // at later, as on a real disk: what moves in between is missed.
  Result<std::optional<std::string>> FindByInode(int64_t inode);
  Result<bool> IsInTable(int64_t inode);  // a directory of the table with this inode

  // ALTER TABLE … ATTACH PART. kNotFound: 233, no such directory. kRefused: 246, renamed back.
  // kUnknownOutcome: the connection broke. The statement carries the epoch, for IsRunning.
  Status Attach(const std::string& name, uint64_t epoch);
  // Whether the server runs an ATTACH of the part by an epoch below `epoch_below`.
  Result<bool> IsRunning(const std::string& name, uint64_t epoch_below);

  // The server does a little of what it has to do; called by its own actor.
  void WorkInBackground();

  // For checkers: how often each row is in the table, and how many rows of a commit are.
  const std::map<std::string, int64_t>& visible_rows() const { return visible_rows_; }
  const std::map<CommitId, int64_t>& rows_by_commit() const { return rows_by_commit_; }
  const std::map<std::string, int64_t>& detached() const { return detached_; }
  bool IsBusy() const { return !statements_.empty(); }
  const std::string& broken() const {
    return broken_;
  }  // a law broken in the table itself; empty = none

 private:
  enum class Outcome : uint8_t { kRunning, kAttached, kAbsent, kRefused, kForgotten };
  struct Statement {
    std::string name;
    uint64_t epoch = 0;
    bool is_moved_aside = false;  // detached/X → detached/attaching_X is done
  };

  Status Enter(std::string_view what, const std::string& name);
  void Run(int64_t statement);
  void AddToTable(int64_t inode);
  void Merge();
  void Restart();

  Baton& baton_;
  std::map<int64_t, SimPart> parts_;  // by inode, wherever it lies
  std::map<std::string, int64_t> detached_;
  std::vector<int64_t> table_;     // inodes of active parts
  std::vector<int64_t> outdated_;  // merged away, not yet removed
  std::map<int64_t, Statement> statements_;
  std::map<int64_t, Outcome> outcomes_;
  int64_t inodes_made_ = 0, statements_made_ = 0;
  std::map<std::string, int64_t> visible_rows_;
  std::map<CommitId, int64_t> rows_by_commit_;
  std::string broken_;
};

}  // namespace partforge::sim
