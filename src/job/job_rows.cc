#include "job/job_rows.h"

#include <fmt/format.h>

#include <array>

namespace partforge {
namespace {

constexpr std::array<std::string_view, 3> kPublishNames = {"command", "asked", "auto"};
constexpr std::array kPieceStates = {PieceState::kStaged, PieceState::kSent, PieceState::kConfirmed,
                                     PieceState::kSuppressed, PieceState::kReplaced};

Result<TaskState> ReadTaskState(std::string_view name) {
  const std::optional<TaskState> state = ParseTaskState(name);
  if (state.has_value()) return *state;
  return Status(Code::kCorruption, fmt::format("state store: task in an unknown state: {}", name));
}

PublishMode ReadPublishMode(std::string_view name) {
  for (size_t i = 0; i < kPublishNames.size(); ++i) {
    if (kPublishNames[i] == name) return static_cast<PublishMode>(i);
  }
  return PublishMode::kCommand;  // the mode that does nothing by itself
}

}  // namespace

std::string_view PublishModeName(PublishMode mode) {
  return kPublishNames.at(static_cast<size_t>(mode));
}

Result<Task> ReadTask(const SqlRow& row) {
  Task task;
  task.job = row.Text(0);
  task.id = row.Text(1);
  task.kind = row.Text(2);
  task.number = row.Int(3);
  task.size_bytes = row.Int(4);
  task.source_job = row.Text(5);
  task.source_task = row.Text(6);
  PF_ASSIGN(task.state, ReadTaskState(row.Text(7)));
  task.epoch = row.Uint(8);
  task.winner = row.Uint(9);
  task.commit = row.Text(10);
  task.superseded_by = row.Text(11);
  task.generation = row.Int(12);
  task.group_key = row.Text(13);
  task.partition_id = row.Text(14);
  task.parts_out = row.Int(15);
  task.parts_peak = row.Int(16);
  task.partitions_out = row.Int(17);
  task.rows_out = row.Int(18);
  task.bytes_out = row.Int(19);
  task.attempts = row.Int(20);
  task.crashes = row.Int(21);
  task.not_before_ms = row.Int(22);
  task.ready_at_ms = row.Int(23);
  task.finalize_at_ms = row.Int(24);
  task.failure_class = row.Text(25);
  task.failure_code = row.Int(26);
  task.created_at_ms = row.Int(27);
  task.updated_at_ms = row.Int(28);
  task.started_at_ms = row.Int(29);
  task.payload = row.Text(30);
  return task;
}

Result<std::vector<Task>> ReadTasks(const SqlRows& rows) {
  std::vector<Task> tasks;
  tasks.reserve(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    PF_ASSIGN(Task task, ReadTask(rows.row(i)));
    tasks.push_back(std::move(task));
  }
  return tasks;
}

JobSpec ReadJobSpec(const SqlRow& row) {
  JobSpec job;
  job.id = row.Text(0);
  job.kind = row.Text(1);
  job.key = row.Text(2);
  job.name = row.Text(3);
  job.publish = ReadPublishMode(row.Text(5));
  job.target = row.Text(7);
  job.spec = row.Text(11);
  return job;
}

JobView ReadJobView(const SqlRow& row) {
  JobView view;
  view.job = ReadJobSpec(row);
  view.state = row.Text(4);
  view.is_paused = row.Int(6) != 0;
  view.tasks_expected = row.Int(8);
  view.created_at_ms = row.Int(9);
  view.sealed_at_ms = row.Int(10);
  return view;
}

Result<Commit> ReadCommit(const SqlRow& row) {
  Commit commit;
  commit.id = row.Text(0);
  commit.job = row.Text(1);
  commit.kind = row.Text(2);
  commit.target = row.Text(3);
  commit.protocol = row.Text(4);
  const std::optional<CommitState> state = ParseCommitState(row.Text(5));
  if (!state.has_value()) {
    return Status(Code::kCorruption,
                  fmt::format("state store: commit in an unknown state: {}", row.Text(5)));
  }
  commit.state = *state;
  commit.epoch = row.Uint(6);
  commit.serial = row.Uint(7);
  commit.is_cleaned = row.Int(8) != 0;
  commit.owner = row.Text(9);
  commit.in_doubt = row.Text(10);
  commit.intent = row.Text(11);
  commit.staged = row.Text(12);
  commit.evidence = row.Text(13);
  commit.decided_at_ms = row.Int(14);
  commit.published_at_ms = row.Int(15);
  return commit;
}

Chosen ReadChosen(const SqlRow& row) {
  Chosen chosen;
  chosen.task = row.Text(0);
  chosen.epoch = row.Uint(1);
  chosen.result.outputs = row.Text(2);
  chosen.result.rows_in = row.Int(3);
  chosen.result.rows_out = row.Int(4);
  chosen.result.bytes_in = row.Int(5);
  chosen.result.bytes_out = row.Int(6);
  chosen.result.digest = row.Text(7);
  chosen.result.group_key = row.Text(8);
  chosen.result.partition_id = row.Text(9);
  chosen.result.parts_out = row.Int(10);
  chosen.result.parts_peak = row.Int(11);
  chosen.result.partitions_out = row.Int(12);
  return chosen;
}

Result<Piece> ReadPiece(const SqlRow& row) {
  Piece piece;
  piece.number = row.Int(0);
  piece.task = row.Text(1);
  piece.epoch = row.Uint(2);
  piece.shard = row.Int(3);
  piece.partition = row.Text(4);
  piece.stage_table = row.Text(5);
  piece.stage_part = row.Text(6);
  piece.token = row.Text(7);
  piece.files_hash = row.Text(8);
  piece.rows = row.Int(9);
  piece.bytes = row.Int(10);
  piece.dev = row.Uint(11);
  piece.ino = row.Uint(12);
  for (const PieceState state : kPieceStates) {
    if (PieceStateName(state) != row.Text(13)) continue;
    piece.state = state;
    return piece;
  }
  return Status(Code::kCorruption,
                fmt::format("state store: piece in an unknown state: {}", row.Text(13)));
}

Thing ReadThing(const SqlRow& row) {
  Thing thing;
  thing.id = row.Int(0);
  thing.kind = row.Text(1);
  thing.name = row.Text(2);
  thing.uuid = row.Text(3);
  thing.state = row.Text(4);
  thing.shard = row.Int(5);
  return thing;
}

AttemptView ReadAttempt(const SqlRow& row) {
  AttemptView attempt;
  attempt.task = row.Text(0);
  attempt.epoch = row.Uint(1);
  attempt.label = row.Text(2);
  attempt.state = row.Text(3);
  attempt.owner = row.Text(4);
  attempt.lease_until_ms = row.Int(5);
  attempt.opened_at_ms = row.Int(6);
  attempt.ended_at_ms = row.Int(7);
  attempt.stage = row.Text(8);
  attempt.fraction = row.Real(9);
  attempt.rows_done = row.Int(10);
  attempt.bytes_done = row.Int(11);
  attempt.progress_at_ms = row.Int(12);
  attempt.progress = row.Text(13);
  attempt.rows_result = row.Int(14);
  attempt.bytes_result = row.Int(15);
  attempt.digest = row.Text(16);
  attempt.result = row.Text(17);
  return attempt;
}

EventView ReadEvent(const SqlRow& row) {
  EventView event;
  event.seq = row.Int(0);
  event.at_ms = row.Int(1);
  event.job = row.Text(2);
  event.task = row.Text(3);
  event.commit = row.Text(4);
  event.actor = row.Text(5);
  event.event = row.Text(6);
  event.from_state = row.Text(7);
  event.to_state = row.Text(8);
  event.epoch = row.Uint(9);
  event.detail = row.Text(10);
  return event;
}

Result<StateCount> ReadStateCount(const SqlRow& row, size_t first) {
  StateCount count;
  PF_ASSIGN(count.state, ReadTaskState(row.Text(first)));
  count.tasks = row.Int(first + 1);
  count.bytes = row.Int(first + 2);
  count.parts = row.Int(first + 3);
  count.rows = row.Int(first + 4);
  return count;
}

}  // namespace partforge
