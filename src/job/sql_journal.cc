#include "job/sql_journal.h"

#include "base/hash.h"
#include "job/sql_statements.h"

namespace partforge {
namespace {

constexpr uint64_t kCounterSlots = 16;

StateCount SumsOf(const Task& task) {
  StateCount sums;
  sums.state = task.state;
  sums.tasks = 1;
  sums.bytes = task.size_bytes;
  sums.parts = task.parts_out;
  sums.rows = task.rows_out;
  return sums;
}

}  // namespace

int64_t CounterSlot(std::string_view actor) {
  return static_cast<int64_t>(XxHash64(AsBytes(actor)) % kCounterSlots);
}

SqlJournal::SqlJournal(SqlSession& session, std::string_view job, std::string_view actor)
    : session_(session), job_(job), actor_(actor) {}

void SqlJournal::Count(TaskState state, int64_t sign, const StateCount& sums) {
  StateCount& change = changes_[TaskStateName(state)];
  change.tasks += sign * sums.tasks;
  change.bytes += sign * sums.bytes;
  // A task that has to be (re)written has no output, whatever an earlier attempt left in its
  // columns.
  if (state == TaskState::kReady || state == TaskState::kInProgress) return;
  change.parts += sign * sums.parts;
  change.rows += sign * sums.rows;
}

void SqlJournal::Added(const Task& task) {
  Count(task.state, 1, SumsOf(task));
}

void SqlJournal::Removed(const Task& task) {
  Count(task.state, -1, SumsOf(task));
}

void SqlJournal::MovedMany(TaskState from, TaskState to, const StateCount& sums) {
  Count(from, -1, sums);
  Count(to, 1, sums);
}

Status SqlJournal::Moved(const Task& before, const Task& after, std::string_view event,
                         std::string_view detail) {
  Count(before.state, -1, SumsOf(before));
  Count(after.state, 1, SumsOf(after));
  return Note({.task = after.id,
               .commit = after.commit,
               .event = event,
               .from = TaskStateName(before.state),
               .to = TaskStateName(after.state),
               .detail = detail,
               .epoch = after.epoch});
}

Status SqlJournal::Note(const JournalNote& note) {
  PF_TRY(session_.Run(statements::kNote, {{"job", job_},
                                          {"task", note.task},
                                          {"commit", note.commit},
                                          {"epoch", note.epoch},
                                          {"actor", actor_},
                                          {"event", note.event},
                                          {"from", note.from},
                                          {"to", note.to},
                                          {"detail", note.detail}}));
  return {};
}

Status SqlJournal::Close() {
  const int64_t slot = CounterSlot(actor_);
  for (const auto& [state, change] : changes_) {
    if (change.tasks == 0 && change.bytes == 0 && change.parts == 0 && change.rows == 0) continue;
    PF_TRY(session_.Run(statements::kCount, {{"job", job_},
                                             {"state", state},
                                             {"slot", slot},
                                             {"n", change.tasks},
                                             {"bytes", change.bytes},
                                             {"parts", change.parts},
                                             {"rows", change.rows}}));
  }
  changes_.clear();
  return {};
}

}  // namespace partforge
