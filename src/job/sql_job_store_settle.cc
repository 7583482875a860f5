#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/failure_class.h"
#include "job/job_rows.h"
#include "job/sql_job_store.h"
#include "job/sql_job_store_rows.h"
#include "job/sql_journal.h"
#include "job/sql_lease_end.h"
#include "job/sql_statements.h"

// How leases end in SqlJobStore: statements of specs state-schema §4.5 and §4.6.
namespace partforge {
namespace {

// The open attempts of a task, seen while its row is locked.
struct OpenAttempts {
  bool has_ours = false;     // with the lease's token
  bool is_labelled = false;  // ours belongs to an outside writer (a load)
  bool has_twin = false;     // another one is open
};

Result<OpenAttempts> ReadOpenAttempts(SqlSession& session, const JobId& job, const TaskEdit& edit,
                                      const std::string& token) {
  PF_ASSIGN(const SqlRows rows,
            session.Run(statements::kOpenAttempts, {{"job", job}, {"task", edit.id}}));
  OpenAttempts open;
  for (size_t i = 0; i < rows.size(); ++i) {
    const SqlRow row = rows.row(i);
    if (row.Uint(0) == edit.epoch) {
      open.has_ours = row.Text(2) == token;
      open.is_labelled = !row.Text(1).empty();
    } else {
      open.has_twin = true;
    }
  }
  return open;
}

bool IsFinish(const TaskEdit& edit) {
  return edit.to == TaskState::kFinished ||
         (edit.to == TaskState::kCompactReady && edit.result.has_value());
}

// One transaction that ends a lease.
class Settling {
 public:
  Settling(const Context& ctx, SqlSession& session, const Lease& lease)
      : ctx_(ctx),
        session_(session),
        lease_(lease),
        job_(lease.tasks.at(0).job),
        journal_(session, job_, lease.owner) {}

  Status Run(const Settlement& settlement) {
    std::vector<TaskEdit> edits = settlement.edits;
    std::sort(edits.begin(), edits.end(),
              [](const TaskEdit& a, const TaskEdit& b) { return a.id < b.id; });
    PF_ASSIGN(now_ms_, StoreNow(session_));
    const auto single = std::stable_partition(edits.begin(), edits.end(), &IsGatheredInput);
    const std::vector<TaskEdit> inputs(edits.begin(), single);
    // Where both are there, all are locked in one order before any is changed.
    if (!inputs.empty() && single != edits.end())
      PF_TRY(session_.Run(statements::kTasksForUpdate, {{"job", job_}, {"ids", IdsOf(edits)}}));
    if (!inputs.empty()) PF_TRY(SupersedeAll(inputs));
    for (auto edit = single; edit != edits.end(); ++edit) PF_TRY(Apply(*edit));
    for (size_t i = 0; i < settlement.added.size(); ++i) {
      PF_TRY(Add(settlement.added[i], settlement.added_results[i]));
    }
    return journal_.Close();
  }

 private:
  static bool IsGatheredInput(const TaskEdit& edit) {
    return edit.from == TaskState::kInProgress && edit.to == TaskState::kSuperseded &&
           !edit.payload && !edit.result && edit.failure_class.empty();
  }

  // Inputs that an output supersedes straight from IN_PROGRESS (T5b): by a few statements for all,
  // with the guards that Apply and End have for each.
  Status SupersedeAll(const std::vector<TaskEdit>& edits) {
    const auto count = std::ssize(edits);
    const std::string ids = IdsOf(edits);
    Status lost = LeaseLost("supersede with others", edits.front().id, edits.front().epoch);
    PF_ASSIGN(const SqlRows locked,
              session_.Run(statements::kTasksForUpdate, {{"job", job_}, {"ids", ids}}));
    PF_ASSIGN(const std::vector<Task> tasks, ReadTasks(locked));
    PF_ASSIGN(const SqlRows open,
              session_.Run(statements::kOpenAttemptsOf, {{"job", job_}, {"ids", ids}}));
    if (std::ssize(tasks) != count || std::ssize(open) != count) return lost;
    std::map<std::string_view, uint64_t> epochs;  // of open attempts with our token
    for (size_t i = 0; i < open.size(); ++i) {
      if (open.row(i).Text(2) == lease_.token) epochs[open.row(i).Text(0)] = open.row(i).Uint(1);
    }
    StateCount sums;
    for (const Task& task : tasks) {
      ++sums.tasks;
      sums.bytes += task.size_bytes;
      sums.parts += task.parts_out;
      sums.rows += task.rows_out;
      window_end_ms_ = std::max(window_end_ms_, task.ready_at_ms == 0 ? now_ms_ : task.ready_at_ms);
    }
    for (const TaskEdit& edit : edits) {
      const auto ours = epochs.find(edit.id);
      if (ours == epochs.end() || ours->second != edit.epoch) return lost;
      if (edit.superseded_by != edits.front().superseded_by)
        return Status(Code::kInvalidArgument, "settle: one lease makes one output of its inputs");
    }
    PF_ASSIGN(const SqlRows moved,
              session_.Run(statements::kSupersedeTasks, {{"job", job_},
                                                         {"ids", ids},
                                                         {"output", edits.front().superseded_by},
                                                         {"ready_at", now_ms_}}));
    PF_ASSIGN(const SqlRows ended,
              session_.Run(statements::kEndAttemptsOf,
                           {{"job", job_}, {"ids", ids}, {"token", lease_.token}}));
    if (moved.changed() != count || ended.changed() != count) return lost;
    journal_.MovedMany(TaskState::kInProgress, TaskState::kSuperseded, sums);
    PF_TRY(session_.Run(statements::kNoteMany, {{"job", job_},
                                                {"ids", ids},
                                                {"actor", lease_.owner},
                                                {"event", "superseded"},
                                                {"from", "IN_PROGRESS"},
                                                {"to", "SUPERSEDED"}}));
    return {};
  }

  Status Apply(const TaskEdit& edit) {
    Result<Task> locked = LockTask(session_, job_, edit.id);
    if (!locked.ok() && locked.status().code() == Code::kNotFound)
      return LeaseLost("settle", edit.id, edit.epoch);
    PF_TRY(locked);
    const Task& before = *locked;
    PF_ASSIGN(const OpenAttempts open, ReadOpenAttempts(session_, job_, edit, lease_.token));
    if (!open.has_ours) return LeaseLost("settle", edit.id, edit.epoch);
    // Another attempt of a load's task may have finished first; its result stands.
    const bool is_late = open.is_labelled && before.state == TaskState::kFinished &&
                         (edit.from == TaskState::kInProgress || edit.from == TaskState::kFinished);
    if (before.state != edit.from && !is_late) return LeaseLost("settle", edit.id, edit.epoch);
    if (IsFinish(edit)) return Finish(edit, before, is_late, open.is_labelled);
    return End(edit, before, is_late || open.has_twin);
  }

  Status Finish(const TaskEdit& edit, const Task& before, bool is_late, bool is_labelled) {
    const TaskResult result = edit.result.value_or(TaskResult{});
    Task after = before;
    if (!is_late) {
      after.state = edit.to;
      after.winner = edit.epoch;
      after.group_key = result.group_key.empty() ? before.group_key : result.group_key;
      after.partition_id = result.partition_id;
      after.parts_out = result.parts_out;
      after.parts_peak = result.parts_peak;
      after.partitions_out = result.partitions_out;
      after.rows_out = result.rows_out;
      after.bytes_out = result.bytes_out;
      after.ready_at_ms = edit.to == TaskState::kCompactReady && before.ready_at_ms == 0
                              ? now_ms_
                              : before.ready_at_ms;
      after.payload = WithError(edit.payload.value_or(before.payload), "");
    }
    PF_ASSIGN(const SqlRows rows,
              session_.Run(statements::kSettleTask, {{"job", job_},
                                                     {"task", edit.id},
                                                     {"epoch", edit.epoch},
                                                     {"token", lease_.token},
                                                     {"from", TaskStateName(before.state)},
                                                     {"to", TaskStateName(after.state)},
                                                     {"winner", after.winner},
                                                     {"group", after.group_key},
                                                     {"partition", after.partition_id},
                                                     {"parts_out", after.parts_out},
                                                     {"parts_peak", after.parts_peak},
                                                     {"partitions_out", after.partitions_out},
                                                     {"rows_out", after.rows_out},
                                                     {"bytes_out", after.bytes_out},
                                                     {"ready_at", after.ready_at_ms},
                                                     {"payload", after.payload}}));
    if (rows.changed() == 0) return LeaseLost("settle", edit.id, edit.epoch);
    PF_TRY(EndAttempt(edit, "FINISHED"));
    // Several attempts of a load's task may finish: Decide names the one that counts.
    if (!is_labelled) {
      PF_TRY(session_.Run(statements::kSettleTwins,
                          {{"job", job_}, {"task", edit.id}, {"epoch", edit.epoch}}));
    }
    return journal_.Moved(before, after, "settled");
  }

  // Release, failure, or superseding. `only_attempt`: the task belongs to another attempt and stays
  // as it is.
  Status End(const TaskEdit& edit, const Task& before, bool only_attempt) {
    const bool is_release = edit.to == TaskState::kReady || edit.to == TaskState::kCompactReady;
    const char* const event = is_release                      ? "released"
                              : edit.to == TaskState::kFailed ? "failed"
                                                              : "superseded";
    if (only_attempt && edit.to == TaskState::kSuperseded)
      return LeaseLost("supersede", edit.id, edit.epoch);
    Task after = before;
    if (!only_attempt) {
      after.state = edit.to;
      after.superseded_by = edit.superseded_by;
      const bool starts_window = edit.to == TaskState::kSuperseded && before.ready_at_ms == 0;
      after.ready_at_ms = starts_window ? now_ms_ : before.ready_at_ms;
      window_end_ms_ = std::max(window_end_ms_, after.ready_at_ms);
      const Json payload = WithError(edit.payload.value_or(before.payload),
                                     edit.to == TaskState::kFailed ? edit.error : std::string());
      PF_ASSIGN(const SqlRows rows,
                session_.Run(statements::kSettleEnd, {{"job", job_},
                                                      {"task", edit.id},
                                                      {"epoch", edit.epoch},
                                                      {"token", lease_.token},
                                                      {"from", TaskStateName(edit.from)},
                                                      {"to", TaskStateName(edit.to)},
                                                      {"superseded_by", edit.superseded_by},
                                                      {"backoff_ms", edit.backoff_ms},
                                                      {"ready_at", starts_window ? now_ms_ : 0},
                                                      {"failure_class", edit.failure_class},
                                                      {"failure_code", edit.failure_code},
                                                      {"payload", payload}}));
      if (rows.changed() == 0) return LeaseLost("settle", edit.id, edit.epoch);
    }
    PF_TRY(EndAttempt(edit, is_release ? "LOST" : "ABORTED"));
    return journal_.Moved(before, after, event, ErrorDetail(edit.error));
  }

  Status EndAttempt(const TaskEdit& edit, std::string_view state) {
    const TaskResult result = edit.result.value_or(TaskResult{});
    if (result.rows_in != 0 || result.bytes_in != 0) {
      PF_TRY(session_.Run(statements::kSettleRead, {{"job", job_},
                                                    {"task", edit.id},
                                                    {"epoch", edit.epoch},
                                                    {"rows", result.rows_in},
                                                    {"bytes", result.bytes_in}}));
    }
    PF_ASSIGN(const SqlRows rows,
              session_.Run(statements::kSettleAttempt, {{"job", job_},
                                                        {"task", edit.id},
                                                        {"epoch", edit.epoch},
                                                        {"token", lease_.token},
                                                        {"attempt_state", state},
                                                        {"rows", result.rows_out},
                                                        {"bytes", result.bytes_out},
                                                        {"digest", result.digest},
                                                        {"result", result.outputs}}));
    return rows.changed() == 1 ? Status() : LeaseLost("settle", edit.id, edit.epoch);
  }

  // The output of a batch: a task that is finished as it appears.
  Status Add(const Task& given, const TaskResult& result) {
    Task task = given;
    task.job = job_;
    task.epoch = std::max<uint64_t>(1, given.epoch);
    task.winner = task.epoch;
    task.parts_out = result.parts_out;
    task.rows_out = result.rows_out;
    // The window of an output is its latest input's (clickhouse-parts §7.3, T9).
    task.ready_at_ms =
        window_end_ms_ == 0 && task.state == TaskState::kCompactReady ? now_ms_ : window_end_ms_;
    Result<SqlRows> added =
        session_.Run(statements::kAddOutput,
                     {{"job", job_},
                      {"task", task.id},
                      {"kind", task.kind},
                      {"state", TaskStateName(task.state)},
                      {"size_bytes", task.size_bytes},
                      {"epoch", task.epoch},
                      {"group", result.group_key.empty() ? task.group_key : result.group_key},
                      {"partition", result.partition_id},
                      {"generation", task.generation},
                      {"parts_out", result.parts_out},
                      {"parts_peak", result.parts_peak},
                      {"partitions_out", result.partitions_out},
                      {"rows_out", result.rows_out},
                      {"bytes_out", result.bytes_out},
                      {"ready_at", task.ready_at_ms},
                      {"payload", task.payload}});
    if (!added.ok() && added.status().code() == Code::kAlreadyExists) {
      return Status(Code::kConflict,
                    fmt::format("settle a batch of job {}: its output exists: {}", job_, task.id));
    }
    PF_TRY(added);
    PF_TRY(session_.Run(statements::kAddOutputAttempt, {{"job", job_},
                                                        {"task", task.id},
                                                        {"epoch", task.epoch},
                                                        {"owner", lease_.owner},
                                                        {"serial", DrawSerial(ctx_.random)},
                                                        {"rows_in", result.rows_in},
                                                        {"bytes_in", result.bytes_in},
                                                        {"rows", result.rows_out},
                                                        {"bytes", result.bytes_out},
                                                        {"digest", result.digest},
                                                        {"result", result.outputs}}));
    journal_.Added(task);
    return journal_.Note({.task = task.id,
                          .event = "output_added",
                          .to = TaskStateName(task.state),
                          .epoch = task.epoch});
  }

  const Context& ctx_;
  SqlSession& session_;
  const Lease& lease_;
  const JobId job_;
  SqlJournal journal_;
  int64_t now_ms_ = 0;
  int64_t window_end_ms_ = 0;  // latest ready_at of the inputs superseded so far
};

std::string PoisonText(int64_t crashes) {
  return fmt::format("PF2139: its worker vanished {} times while it held the lease", crashes);
}

struct Expired {
  JobId job;
  TaskId task;
  uint64_t epoch = 0;
  std::string token;
  int64_t lease_tasks = 1;  // of its lease, also those that have ended
};

// What several tasks had in common when their worker vanished: which of them is to blame, if any,
// is not known, so none counts a crash. The class tells the next claim to take them in smaller
// company, down to alone, and the code in how large a one they were.
Result<int64_t> ReapLease(SqlSession& session, const Expired& expired, const ReapRules& rules) {
  constexpr std::string_view kReaper = "reaper";
  PF_ASSIGN(const SqlRows open, session.Run(statements::kOpenOfLease,
                                            {{"job", expired.job}, {"token", expired.token}}));
  std::set<TaskId> ids;
  for (size_t i = 0; i < open.size(); ++i) ids.insert(open.row(i).String(0));
  SqlJournal journal(session, expired.job, kReaper);
  PF_ASSIGN(const int64_t reaped,
            HandBackLease(session, journal, expired.job, ids, expired.token,
                          HandBackRules{.age = LeaseAge::kExpired,
                                        .event = "reaped",
                                        .actor = kReaper,
                                        .failure_class = FailureClassName(FailureClass::kCrash),
                                        .failure_code = expired.lease_tasks,
                                        .backoff_ms = rules.backoff_ms}));
  if (reaped > 0) {
    PF_TRY(session.Run(statements::kNoteMany, {{"job", expired.job},
                                               {"ids", IdsOf(ids)},
                                               {"actor", kReaper},
                                               {"event", "lease_expired"},
                                               {"from", ""},
                                               {"to", ""}}));
  }
  PF_TRY(journal.Close());
  return reaped;
}

// One attempt whose lease ran out. 0 when it was renewed or settled meanwhile.
Result<int64_t> ReapOne(SqlSession& session, const Expired& expired, const ReapRules& rules) {
  Result<Task> locked = LockTask(session, expired.job, expired.task);
  if (!locked.ok() && locked.status().code() == Code::kNotFound) return 0;  // its job was deleted
  PF_TRY(locked);
  const Task& before = *locked;
  PF_ASSIGN(const SqlRows reaped,
            session.Run(statements::kReapAttempt,
                        {{"job", expired.job}, {"task", expired.task}, {"epoch", expired.epoch}}));
  if (reaped.changed() == 0) return 0;
  SqlJournal journal(session, expired.job, "reaper");
  PF_TRY(journal.Note({.task = expired.task, .event = "lease_expired", .epoch = expired.epoch}));
  const bool is_rewrite = before.state == TaskState::kInProgress;
  if (!is_rewrite && before.state != TaskState::kCompacting) return 1;
  const bool is_poison = is_rewrite && before.crashes + 1 >= rules.crashes_max;
  Task after = before;
  after.state = !is_rewrite ? TaskState::kCompactReady
                : is_poison ? TaskState::kFailed
                            : TaskState::kReady;
  PF_ASSIGN(const SqlRows moved,
            session.Run(statements::kReapTask, {{"job", expired.job},
                                                {"task", expired.task},
                                                {"from", TaskStateName(before.state)},
                                                {"to", TaskStateName(after.state)},
                                                {"backoff_ms", rules.backoff_ms},
                                                {"failure_class", is_poison ? "poison" : ""}}));
  if (moved.changed() == 1) PF_TRY(journal.Moved(before, after, is_poison ? "poisoned" : "reaped"));
  if (moved.changed() == 1 && is_poison) {
    PF_TRY(session.Run(statements::kSetPayload,
                       {{"job", expired.job},
                        {"task", expired.task},
                        {"payload", WithError(before.payload, PoisonText(before.crashes + 1))}}));
  }
  PF_TRY(journal.Close());
  return 1;
}

}  // namespace

Status SqlJobStore::Settle(const Context& ctx, const Lease& lease, const Settlement& settlement) {
  if (lease.tasks.empty() || settlement.added.size() != settlement.added_results.size()) {
    return Status(Code::kInvalidArgument,
                  "settle: a lease without tasks, or outputs without results");
  }
  return db_->Write(
      ctx, [&](SqlSession& session) { return Settling(ctx, session, lease).Run(settlement); });
}

Result<int64_t> SqlJobStore::Release(const Context& ctx, const Lease& lease) {
  if (lease.tasks.empty()) return 0;
  const JobId& job = lease.tasks.front().job;
  std::set<TaskId> ids;
  for (const Task& task : lease.tasks) ids.insert(task.id);
  return WriteFor<int64_t>(ctx, *db_, [&](SqlSession& session) -> Result<int64_t> {
    SqlJournal journal(session, job, lease.owner);
    PF_ASSIGN(const int64_t released,
              HandBackLease(session, journal, job, ids, lease.token,
                            HandBackRules{.event = "released", .actor = lease.owner}));
    PF_TRY(journal.Close());
    return released;
  });
}

Result<int64_t> SqlJobStore::Reap(const Context& ctx, const ReapRules& rules) {
  constexpr int kRoundsMax = 1000;  // of 100 attempts each
  int64_t reaped = 0;
  for (int round = 0; round < kRoundsMax; ++round) {
    PF_ASSIGN(const SqlRows rows, db_->RunAlone(ctx, statements::kExpired, {}));
    int64_t reaped_now = 0;
    std::set<std::string> done;  // tokens of leases that were reaped whole
    for (size_t i = 0; i < rows.size(); ++i) {
      Expired expired;
      expired.job = rows.row(i).Text(0);
      expired.task = rows.row(i).Text(1);
      expired.epoch = rows.row(i).Uint(2);
      expired.token = rows.row(i).Text(3);
      expired.lease_tasks = rows.row(i).Int(4);
      if (expired.lease_tasks > 1 && !done.insert(expired.token).second) continue;
      PF_ASSIGN(const int64_t ended, WriteFor<int64_t>(ctx, *db_, [&](SqlSession& session) {
                  return expired.lease_tasks > 1 ? ReapLease(session, expired, rules)
                                                 : ReapOne(session, expired, rules);
                }));
      reaped_now += ended;
    }
    reaped += reaped_now;
    if (reaped_now == 0) break;
  }
  return reaped;
}

}  // namespace partforge
