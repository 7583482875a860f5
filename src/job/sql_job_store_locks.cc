#include "job/sql_job_store_locks.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "job/job_rows.h"
#include "job/sql_job_store.h"
#include "job/sql_job_store_rows.h"
#include "job/sql_journal.h"
#include "job/sql_statements.h"

// Locks on users' tables, and things outside the store: statements of specs state-schema §4.9 and
// §4.10.
namespace partforge {
namespace {

Status CheckActor(SqlSession& session, const Actor& actor) {
  if (!actor.commit.empty()) {
    PF_ASSIGN(const SqlRows rows,
              session.Run(statements::kOwn, {{"commit", actor.commit}, {"epoch", actor.epoch}}));
    if (!rows.empty()) return {};
    return Status(Code::kLeaseLost,
                  fmt::format("announce a thing: commit is held under another epoch than {}: {}",
                              actor.epoch, actor.commit));
  }
  PF_TRY(LockTask(session, actor.job, actor.task));
  PF_ASSIGN(const SqlRows rows, session.Run(statements::kAttemptIsOpen, {{"job", actor.job},
                                                                         {"task", actor.task},
                                                                         {"epoch", actor.epoch},
                                                                         {"token", actor.token}}));
  if (rows.row(0).Int(0) == 1) return {};
  return LeaseLost("announce a thing", actor.task, actor.epoch);
}

}  // namespace

Status TakeLocks(SqlSession& session, const JobId& job, std::string_view holder,
                 std::span<const LockWish> wishes) {
  std::vector<LockWish> sorted(wishes.begin(), wishes.end());
  std::sort(sorted.begin(), sorted.end(), [](const LockWish& a, const LockWish& b) {
    return std::tie(a.target, a.scope) < std::tie(b.target, b.scope);
  });
  std::string_view mutex_held;
  for (const LockWish& wish : sorted) {
    if (session.dialect() == SqlDialect::kPostgres &&
        (mutex_held.empty() || mutex_held != wish.target)) {
      PF_TRY(session.Run(statements::kMutexPostgres, {{"target", wish.target}}));
      mutex_held = wish.target;
    }
    const std::string_view mode = wish.is_exclusive ? "exclusive" : "shared";
    PF_ASSIGN(
        const SqlRows conflicts,
        session.Run(
            statements::kLockConflicts,
            {{"target", wish.target}, {"scope", wish.scope}, {"holder", holder}, {"mode", mode}}));
    if (!conflicts.empty()) {
      const SqlRow other = conflicts.row(0);
      return Status(Code::kConflict,
                    fmt::format("lock {} {} on {}: held by {} as {} on {}", mode, wish.scope,
                                wish.target, other.Text(0), other.Text(2), other.Text(1)))
          .Explain(6007, wish.target, "run the command again when the other one has ended");
    }
    int64_t lease_until_ms = 0;
    if (wish.lease_ms > 0) {
      PF_ASSIGN(const int64_t now_ms, StoreNow(session));
      lease_until_ms = now_ms + wish.lease_ms;
    }
    PF_TRY(session.Run(statements::kLock, {{"target", wish.target},
                                           {"scope", wish.scope},
                                           {"holder", holder},
                                           {"job", job},
                                           {"mode", mode},
                                           {"lease_until", lease_until_ms}}));
  }
  return {};
}

Status SqlJobStore::Lock(const Context& ctx, const JobId& job, std::string_view holder,
                         const LockWish& wish) {
  return db_->Write(ctx, [&](SqlSession& session) {
    return TakeLocks(session, job, holder, std::span(&wish, 1));
  });
}

Status SqlJobStore::Unlock(const Context& ctx, std::string_view holder) {
  PF_TRY(db_->RunAlone(ctx, statements::kUnlock, {{"holder", holder}}));
  return {};
}

Result<Thing> SqlJobStore::Intend(const Context& ctx, const Actor& actor, const Thing& thing) {
  return WriteFor<Thing>(ctx, *db_, [&](SqlSession& session) -> Result<Thing> {
    PF_TRY(CheckActor(session, actor));
    PF_ASSIGN(const SqlRows known, session.Run(statements::kFindObject, {{"job", actor.job},
                                                                         {"shard", thing.shard},
                                                                         {"kind", thing.kind},
                                                                         {"name", thing.name}}));
    if (!known.empty()) {
      // The same actor says it again: its first answer was lost.
      const SqlRow row = known.row(0);
      const bool is_same = row.Text(4) == "INTENT" && row.Text(6) == actor.commit &&
                           row.Uint(8) == actor.epoch &&
                           (!actor.commit.empty() || row.Text(7) == actor.task);
      if (is_same) return ReadThing(row);
      return Status(Code::kAlreadyExists,
                    fmt::format("announce a thing: {} has been announced before: {}", thing.kind,
                                thing.name));
    }
    PF_ASSIGN(const SqlRows made, session.Run(statements::kIntend, {{"job", actor.job},
                                                                    {"commit", actor.commit},
                                                                    {"task", actor.task},
                                                                    {"epoch", actor.epoch},
                                                                    {"shard", thing.shard},
                                                                    {"kind", thing.kind},
                                                                    {"name", thing.name},
                                                                    {"uuid", thing.uuid}}));
    Thing intended = thing;
    intended.id = made.row(0).Int(0);
    intended.state = "INTENT";
    return intended;
  });
}

Status SqlJobStore::SetThing(const Context& ctx, const Thing& as_it_was, const Thing& now) {
  PF_ASSIGN(const SqlRows rows, db_->RunAlone(ctx, statements::kObjectState,
                                              {{"object", as_it_was.id},
                                               {"from", as_it_was.state},
                                               {"to", now.state},
                                               {"uuid", now.uuid},
                                               {"name", now.name}}));
  if (rows.changed() == 1) return {};
  return Status(Code::kConflict, fmt::format("set {} {} to {}: it is no longer {}", as_it_was.kind,
                                             as_it_was.name, now.state, as_it_was.state));
}

Result<std::vector<Thing>> SqlJobStore::Things(const Context& ctx, const JobId& job) {
  PF_ASSIGN(const SqlRows rows, db_->RunAlone(ctx, statements::kThings, {{"job", job}}));
  std::vector<Thing> things;
  for (size_t i = 0; i < rows.size(); ++i) things.push_back(ReadThing(rows.row(i)));
  return things;
}

}  // namespace partforge
