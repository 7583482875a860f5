#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>

#include "fake_target.h"
#include "job/commit.h"
#include "sim_store.h"
#include "testing/memory_job_store.h"

namespace partforge::sim {

// What must hold after every single step, whoever moved (ARCHITECTURE.md, "States, and what makes
// it exactly once").
class Laws {
 public:
  Laws(testing::MemoryJobStore& jobs, FakeTarget& target, SimStore& store, std::string lake)
      : jobs_(jobs), target_(target), store_(store), lake_(std::move(lake)) {}

  // Empty, or the law that is broken.
  std::string Check();

 private:
  struct Seen {
    TaskState state = TaskState::kReady;
    uint64_t epoch = 0;
  };
  struct SeenCommit {
    CommitState state = CommitState::kDecided;
    uint64_t epoch = 0;
    int64_t rows = 0;
    bool is_lake = false;
  };

  std::string CheckTasks();
  std::string CheckCommits();
  std::string CheckTable();
  std::string CheckLake();

  testing::MemoryJobStore& jobs_;
  FakeTarget& target_;
  SimStore& store_;
  const std::string lake_;
  std::map<std::pair<JobId, TaskId>, Seen> tasks_;
  std::map<CommitId, SeenCommit> commits_;
  size_t lake_objects_ = 0;
  std::set<CommitId> in_lake_;
};

}  // namespace partforge::sim
