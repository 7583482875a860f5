#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>

#include "job/sql_db.h"
#include "job/sql_journal.h"
#include "job/task.h"

// The end of a lease that is no settlement of its holder: the reaper's, an operator's, or the
// holder's own once others have a part of it.
namespace partforge {

// Which of a lease's attempts may be ended.
enum class LeaseAge : uint8_t { kAny, kExpired };

// How tasks go back to where they were claimed from.
struct HandBackRules {
  LeaseAge age = LeaseAge::kAny;
  std::string_view event = "released", actor;  // of the history
  std::string_view failure_class = "";
  int64_t failure_code = 0, backoff_ms = 0;
};

// Ends the open attempts with this token among the tasks `ids`, and sends back those tasks that
// nobody else works on. The tasks are locked in the order of their ids. Returns how many attempts
// were ended; none is no failure.
Result<int64_t> HandBackLease(SqlSession& session, SqlJournal& journal, const JobId& job,
                              const std::set<TaskId>& ids, std::string_view token,
                              const HandBackRules& rules);

// Before tasks of a job are taken from whoever works on them: locks them, and with them hands back
// the other tasks of their leases, which their holders could not settle any more. Those count no
// crash.
Status HandBackMates(SqlSession& session, SqlJournal& journal, const JobId& job,
                     const std::set<TaskId>& taken, LeaseAge age, std::string_view actor);

}  // namespace partforge
