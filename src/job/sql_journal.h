#pragma once

#include <map>
#include <string>
#include <string_view>

#include "job/sql_db.h"
#include "job/task.h"

namespace partforge {

// An event line of the history (table `events`).
struct JournalNote {
  std::string_view task = "", commit = "", event = "", from = "", to = "", detail = "{}";
  uint64_t epoch = 0;
};

// The counters' slot of an actor: several rows a counter, so that workers do not wait for each
// other (specs performance, "Status screens").
int64_t CounterSlot(std::string_view actor);

// What one transaction did to one job: events are written as they come, counters once, by Close, in
// the order of their states (specs state-schema §1, "Order of locks"). One thread at a time.
class SqlJournal {
 public:
  // `actor` is who did it; it also picks the counters' slot.
  SqlJournal(SqlSession& session, std::string_view job, std::string_view actor);

  // A task appeared in its state.
  void Added(const Task& task);
  // A task's row is gone.
  void Removed(const Task& task);
  // A task went from `before` to `after`: counts both, and notes `event`.
  Status Moved(const Task& before, const Task& after, std::string_view event,
               std::string_view detail = "{}");
  // Many tasks went from one state to another at once; the caller notes them.
  void MovedMany(TaskState from, TaskState to, const StateCount& sums);
  Status Note(const JournalNote& note);
  Status Close();

 private:
  void Count(TaskState state, int64_t sign, const StateCount& sums);

  SqlSession& session_;
  const std::string job_, actor_;
  std::map<std::string_view, StateCount> changes_;  // by the name of the state
};

}  // namespace partforge
