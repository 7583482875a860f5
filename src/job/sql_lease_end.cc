#include "job/sql_lease_end.h"

#include <array>
#include <map>

#include "job/sql_job_store_rows.h"
#include "job/sql_statements.h"

namespace partforge {
namespace {

struct Way {
  TaskState from, to;
};
constexpr std::array kWays = {Way{TaskState::kInProgress, TaskState::kReady},
                              Way{TaskState::kCompacting, TaskState::kCompactReady}};

std::set<TaskId> IdsIn(const SqlRows& rows, int column) {
  std::set<TaskId> ids;
  for (size_t i = 0; i < rows.size(); ++i) ids.insert(rows.row(i).String(column));
  return ids;
}

}  // namespace

Result<int64_t> HandBackLease(SqlSession& session, SqlJournal& journal, const JobId& job,
                              const std::set<TaskId>& ids, std::string_view token,
                              const HandBackRules& rules) {
  PF_TRY(session.Run(statements::kTasksForUpdate, {{"job", job}, {"ids", IdsOf(ids)}}));
  const bool is_any = rules.age == LeaseAge::kAny;
  PF_ASSIGN(const SqlRows ended,
            session.Run(is_any ? statements::kLoseAttempts : statements::kLoseExpiredAttempts,
                        {{"job", job}, {"ids", IdsOf(ids)}, {"token", token}}));
  if (ended.empty()) return 0;
  const std::string ended_ids = IdsOf(IdsIn(ended, 0));
  for (const Way& way : kWays) {
    PF_ASSIGN(const SqlRows moved,
              session.Run(statements::kHandBack, {{"job", job},
                                                  {"ids", ended_ids},
                                                  {"from", TaskStateName(way.from)},
                                                  {"to", TaskStateName(way.to)},
                                                  {"backoff_ms", rules.backoff_ms},
                                                  {"failure_class", rules.failure_class},
                                                  {"failure_code", rules.failure_code}}));
    if (moved.empty()) continue;
    StateCount sums;
    for (size_t i = 0; i < moved.size(); ++i) {
      const SqlRow row = moved.row(i);
      ++sums.tasks;
      sums.bytes += row.Int(1);
      sums.parts += row.Int(2);
      sums.rows += row.Int(3);
    }
    journal.MovedMany(way.from, way.to, sums);
    PF_TRY(session.Run(statements::kNoteMany, {{"job", job},
                                               {"ids", IdsOf(IdsIn(moved, 0))},
                                               {"actor", rules.actor},
                                               {"event", rules.event},
                                               {"from", TaskStateName(way.from)},
                                               {"to", TaskStateName(way.to)}}));
  }
  return std::ssize(ended);
}

Status HandBackMates(SqlSession& session, SqlJournal& journal, const JobId& job,
                     const std::set<TaskId>& taken, LeaseAge age, std::string_view actor) {
  PF_ASSIGN(const SqlRows mates,
            session.Run(statements::kLeaseMates, {{"job", job}, {"ids", IdsOf(taken)}}));
  if (mates.empty()) return {};
  std::map<std::string, std::set<TaskId>> ids_by_token;
  std::set<TaskId> all = taken;
  for (size_t i = 0; i < mates.size(); ++i) {
    ids_by_token[mates.row(i).String(0)].insert(mates.row(i).String(1));
    all.insert(mates.row(i).String(1));
  }
  // All of them in one order, before any of them is changed.
  PF_TRY(session.Run(statements::kTasksForUpdate, {{"job", job}, {"ids", IdsOf(all)}}));
  for (const auto& [token, ids] : ids_by_token) {
    PF_TRY(HandBackLease(session, journal, job, ids, token,
                         HandBackRules{.age = age, .event = "released", .actor = actor}));
  }
  return {};
}

}  // namespace partforge
