#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "job/task.h"

namespace partforge {

// OPEN is a job whose tasks have no commit yet; a row exists from DECIDED on.
enum class CommitState : uint8_t { kDecided, kCommitting, kPublished, kCleaned, kAborted };
std::string_view CommitStateName(CommitState state);  // "DECIDED", …
std::optional<CommitState> ParseCommitState(std::string_view name);

struct Chosen {
  TaskId task;
  uint64_t epoch = 0;
  TaskResult result;
};

struct Commit {
  CommitId id;
  JobId job;
  std::string kind, target,
      protocol;  // protocol: TOKEN | MARKER | SWAP | REPLACE | ICEBERG | PAIMON | COPY
  CommitState state = CommitState::kDecided;
  uint64_t epoch = 0;  // grows with every Fence
  uint64_t serial =
      0;  // 42 bits, unique; new with every Fence while DECIDED: what staged names are made of
  bool is_cleaned = false;  // cleaned_at is set; an ABORTED commit stays ABORTED when cleaned
  std::string owner;
  std::string in_doubt;  // why COMMITTING cannot go on
  std::vector<Chosen> chosen;
  Json intent = "{}";  // from Prepare, fixed by Decide
  Json staged = "{}";  // from Stage, fixed by the bind; a rebind replaces it
  Json evidence = "{}";
  int64_t decided_at_ms = 0, published_at_ms = 0;
};

// Whether a decision may join one of its job that stands: all of them go into one target, else what
// the job publishes would be complete in none. kConflict (PF2134) naming both.
Status CheckOneTarget(std::string_view standing_target, const Commit& proposal);

enum class PieceState : uint8_t { kStaged, kSent, kConfirmed, kSuppressed, kReplaced };
std::string_view PieceStateName(PieceState state);  // "STAGED", …

struct Piece {
  int64_t number = 0;  // < 2^20, unique in its commit
  TaskId task;
  uint64_t epoch = 0;  // the chosen attempt
  int64_t shard = 0;
  std::string partition, stage_table, stage_part, token, files_hash;
  int64_t rows = 0, bytes = 0;
  uint64_t dev = 0, ino = 0;
  PieceState state = PieceState::kStaged;
};

// scope: "*", a partition id, or "@import". lease 0 = until the commit ends.
struct LockWish {
  std::string target, scope;
  bool is_exclusive = true;
  int64_t lease_ms = 0;
};

// An object outside the store: intent first. state: INTENT | LIVE | DROPPING | GONE.
struct Thing {
  int64_t id = 0;
  std::string kind, name, uuid, state;
  int64_t shard = 0;
};

// Who announces a thing: an attempt (task, epoch, token) or a fenced commit (commit, epoch).
struct Actor {
  JobId job;
  TaskId task;
  CommitId commit;
  uint64_t epoch = 0;
  std::string token;
};

struct JobView {
  JobSpec job;
  std::string state;  // OPEN | SEALED | ABORTING | ABORTED
  bool is_paused = false;
  int64_t tasks_expected = -1;  // -1 until sealed
  int64_t created_at_ms = 0, sealed_at_ms = 0;
  std::vector<StateCount>
      counts;  // from the counters; its size does not grow with the number of tasks
  std::vector<Commit>
      live_commits;  // not cleaned yet, oldest first, at most 1000; `chosen` without results
  int64_t now_ms = 0;
  // Of all tasks, filled by ListJobs only: the last change (0 = no task), the earliest claim that
  // is remembered (0 = none), and Σ partitions of the outputs, those of superseded tasks left out.
  int64_t updated_at_ms = 0, work_started_at_ms = 0, partitions_out = 0;
};

}  // namespace partforge
