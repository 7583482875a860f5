#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "job/job_rows.h"
#include "job/sql_job_store.h"
#include "job/sql_job_store_rows.h"
#include "job/sql_journal.h"
#include "job/sql_statements.h"

// The claiming half of SqlJobStore: statements of specs state-schema §4.2 to §4.4.
namespace partforge {
namespace {

constexpr size_t kTokenBytes = 16;
constexpr size_t kTokenHeadBytes = 12;  // of claim_postgres, which adds the number of the lease
constexpr int kHeadsPerPage = 8;        // LIMIT of claim_heads
constexpr int kHeadPagesMax = 128;  // jobs whose tasks are all backed off must not hide the others
constexpr int kSerialDrawsMax = 10;

// A job worth trying: its largest READY task of one kind.
struct Head {
  JobId job;
  std::string kind;
  int64_t size_bytes = -1;
};

void AppendHeads(const SqlRows& rows, const std::string& kind, std::vector<Head>& heads) {
  for (size_t i = 0; i < rows.size(); ++i) {
    Head head;
    head.job = rows.row(i).Text(0);
    head.kind = kind;
    head.size_bytes = rows.row(i).Int(1);
    if (head.size_bytes >= 0) heads.push_back(std::move(head));
  }
}

// Heads of one page over all kinds, largest first; `is_last` when no further page can give more.
Result<std::vector<Head>> ReadHeads(const Context& ctx, SqlDb& db, const ClaimRequest& request,
                                    int page, bool& is_last) {
  std::vector<Head> heads;
  is_last = true;
  for (const std::string& kind : request.kinds) {
    if (request.only.empty()) {
      PF_ASSIGN(const SqlRows rows,
                db.RunAlone(ctx, statements::kClaimHeads,
                            {{"kind", kind}, {"offset", page * kHeadsPerPage}}));
      const bool is_full = rows.size() == kHeadsPerPage && rows.row(kHeadsPerPage - 1).Int(1) >= 0;
      is_last = is_last && !is_full;
      AppendHeads(rows, kind, heads);
      continue;
    }
    for (const JobId& job : request.only) {
      PF_ASSIGN(const SqlRows rows,
                db.RunAlone(ctx, statements::kClaimHeadOf, {{"kind", kind}, {"job", job}}));
      AppendHeads(rows, kind, heads);
    }
  }
  std::stable_sort(heads.begin(), heads.end(),
                   [](const Head& a, const Head& b) { return a.size_bytes > b.size_bytes; });
  return heads;
}

// A task taken, and the attempt opened for it.
struct Claimed {
  Task task;
  uint64_t serial = 0;
  std::string token;
};

// One lease a task, largest first as they were picked.
std::vector<Lease> MakeLeases(std::vector<Claimed> claims, const std::string& owner) {
  std::stable_sort(claims.begin(), claims.end(), [](const Claimed& a, const Claimed& b) {
    if (a.task.size_bytes != b.task.size_bytes) return a.task.size_bytes > b.task.size_bytes;
    if (a.task.created_at_ms != b.task.created_at_ms) {
      return a.task.created_at_ms < b.task.created_at_ms;
    }
    return a.task.id < b.task.id;
  });
  std::vector<Lease> leases(claims.size());
  for (size_t i = 0; i < claims.size(); ++i) {
    leases[i].owner = owner;
    leases[i].token = std::move(claims[i].token);
    leases[i].serial = claims[i].serial;
    leases[i].tasks.push_back(std::move(claims[i].task));
  }
  return leases;
}

// Returns the serial drawn for it.
Result<uint64_t> OpenAttempt(const Context& ctx, SqlSession& session, const Task& task,
                             std::string_view label, const std::string& owner,
                             const std::string& token, int64_t lease_ms) {
  const uint64_t serial = DrawSerial(ctx.random);
  PF_TRY(session.Run(statements::kOpenAttempt, {{"job", task.job},
                                                {"task", task.id},
                                                {"epoch", task.epoch},
                                                {"label", label},
                                                {"owner", owner},
                                                {"token", token},
                                                {"serial", serial},
                                                {"lease_ms", lease_ms}}));
  return serial;
}

// The whole claim in one round trip (claim_postgres).
Result<std::vector<Claimed>> ClaimInOne(const Context& ctx, SqlDb& db, const Head& head,
                                        const ClaimRequest& request) {
  for (int draws = 1;; ++draws) {
    Result<SqlRows> rows = db.RunAlone(ctx, statements::kClaimPostgres,
                                       {{"job", head.job},
                                        {"kind", head.kind},
                                        {"size_max", request.size_bytes_max},
                                        {"limit", request.tasks_max},
                                        {"owner", request.worker},
                                        {"token", RandomHex(ctx.random, kTokenHeadBytes)},
                                        {"serial", DrawSerial(ctx.random)},
                                        {"lease_ms", request.lease_ms},
                                        {"slot", CounterSlot(request.worker)}});
    const bool is_collision = !rows.ok() && rows.status().code() == Code::kAlreadyExists;
    if (is_collision && draws < kSerialDrawsMax) continue;
    PF_TRY(rows);
    std::vector<Claimed> claims;
    for (size_t i = 0; i < rows->size(); ++i) {
      const SqlRow row = rows->row(i);
      Claimed& claim = claims.emplace_back();
      PF_ASSIGN(claim.task, ReadTask(row));
      claim.serial = row.Uint(row.columns() - 2);
      claim.token = row.String(row.columns() - 1);
    }
    return claims;
  }
}

// The same, statement by statement, inside a transaction.
Result<std::vector<Claimed>> ClaimInSteps(const Context& ctx, SqlSession& session, const Head& head,
                                          const ClaimRequest& request) {
  PF_ASSIGN(const SqlRows rows,
            session.Run(statements::kClaim, {{"job", head.job},
                                             {"kind", head.kind},
                                             {"size_max", request.size_bytes_max},
                                             {"limit", request.tasks_max}}));
  PF_ASSIGN(std::vector<Task> tasks, ReadTasks(rows));
  SqlJournal journal(session, head.job, request.worker);
  std::vector<Claimed> claims;
  for (Task& after : tasks) {
    Claimed& claim = claims.emplace_back();
    claim.token = RandomHex(ctx.random, kTokenBytes);
    PF_ASSIGN(claim.serial,
              OpenAttempt(ctx, session, after, "", request.worker, claim.token, request.lease_ms));
    Task before = after;
    before.state = TaskState::kReady;
    PF_TRY(journal.Moved(before, after, "claimed"));
    claim.task = std::move(after);
  }
  PF_TRY(journal.Close());
  return claims;
}

// READY tasks that are taken together, a lease a group. Empty when the job has no task to take;
// nothing when its largest is too large to be taken with others, or the job forbids it.
Result<std::optional<std::vector<Lease>>> ClaimGathered(const Context& ctx, SqlSession& session,
                                                        const Head& head, const GatherRule& rule,
                                                        const ClaimRequest& request) {
  using Leases = std::optional<std::vector<Lease>>;
  PF_ASSIGN(
      const SqlRows largest,
      session.Run(statements::kOfferHead,
                  {{"job", head.job}, {"kind", head.kind}, {"size_max", request.size_bytes_max}}));
  if (largest.empty()) return Leases(std::vector<Lease>{});
  if (largest.row(0).Int(0) > rule.task_bytes_max) return Leases();
  PF_ASSIGN(const SqlRows job, session.Run(statements::kOfferJob, {{"job", head.job}}));
  if (job.empty()) return Leases(std::vector<Lease>{});
  ClaimOffer offer;
  offer.spec = job.row(0).String(0);
  offer.ready_bytes = job.row(0).Int(1);
  if (rule.may_gather && !rule.may_gather(offer.spec)) return Leases();
  PF_ASSIGN(const SqlRows rows,
            session.Run(statements::kOffer, {{"job", head.job},
                                             {"kind", head.kind},
                                             {"size_max", request.size_bytes_max},
                                             {"limit", rule.offer_max}}));
  PF_ASSIGN(offer.tasks, ReadTasks(rows));
  const std::vector<std::vector<size_t>> chosen = rule.choose(offer);
  PF_TRY(CheckChosen(chosen, offer.tasks.size()));
  std::vector<Task> wanted;
  StateCount sums;
  std::vector<std::vector<Task>> groups;  // a lease each
  for (const auto& indexes : chosen) {
    if (indexes.empty()) continue;
    std::vector<Task>& group = groups.emplace_back();
    for (const size_t index : indexes) {
      group.push_back(offer.tasks[index]);
      wanted.push_back(offer.tasks[index]);
      ++sums.tasks;
      sums.bytes += offer.tasks[index].size_bytes;
    }
  }
  if (wanted.empty()) return Leases(std::vector<Lease>{});
  const std::string ids = IdsOf(wanted);
  PF_ASSIGN(const SqlRows taken,
            session.Run(statements::kClaimGathered, {{"job", head.job}, {"ids", ids}}));
  if (std::ssize(taken) != sums.tasks)
    return Status(Code::kUnavailable, "claim: an offered task was taken by somebody else");
  SqlJournal journal(session, head.job, request.worker);
  journal.MovedMany(TaskState::kReady, TaskState::kInProgress, sums);
  PF_TRY(session.Run(statements::kNoteMany, {{"job", head.job},
                                             {"ids", ids},
                                             {"actor", request.worker},
                                             {"event", "claimed"},
                                             {"from", "READY"},
                                             {"to", "IN_PROGRESS"}}));
  PF_TRY(journal.Close());
  std::map<TaskId, Task, std::less<>> claimed;
  for (size_t i = 0; i < taken.size(); ++i) {
    PF_ASSIGN(Task task, ReadTask(taken.row(i)));
    const TaskId id = task.id;
    claimed[id] = std::move(task);
  }
  std::vector<Lease> leases;
  for (const std::vector<Task>& group : groups) {
    Lease& lease = leases.emplace_back();
    lease.owner = request.worker;
    lease.token = RandomHex(ctx.random, kTokenBytes);
    PF_ASSIGN(const SqlRows opened,
              session.Run(statements::kOpenGathered, {{"job", head.job},
                                                      {"ids", IdsOf(group)},
                                                      {"owner", request.worker},
                                                      {"token", lease.token},
                                                      {"serial", DrawSerial(ctx.random)},
                                                      {"lease_ms", request.lease_ms}}));
    for (size_t i = 0; i < opened.size(); ++i) {
      if (opened.row(i).Text(0) == group.front().id) lease.serial = opened.row(i).Uint(1);
    }
    for (const Task& task : group) lease.tasks.push_back(std::move(claimed[task.id]));
  }
  return Leases(std::move(leases));
}

}  // namespace

Result<std::vector<Lease>> SqlJobStore::Claim(const Context& ctx, const ClaimRequest& request) {
  if (request.tasks_max < 1) return std::vector<Lease>{};
  for (int page = 0; page < kHeadPagesMax; ++page) {
    bool is_last = true;
    PF_ASSIGN(const std::vector<Head> heads, ReadHeads(ctx, *db_, request, page, is_last));
    for (const Head& head : heads) {
      if (const auto rule = request.gathering.find(head.kind); rule != request.gathering.end()) {
        using Leases = std::optional<std::vector<Lease>>;
        PF_ASSIGN(Leases leases, WriteFor<Leases>(ctx, *db_, [&](SqlSession& session) {
                    return ClaimGathered(ctx, session, head, rule->second, request);
                  }));
        if (leases.has_value() && leases->empty()) continue;
        if (leases.has_value()) return std::move(*leases);
      }
      Result<std::vector<Claimed>> claims =
          db_->dialect() == SqlDialect::kPostgres
              ? ClaimInOne(ctx, *db_, head, request)
              : WriteFor<std::vector<Claimed>>(ctx, *db_, [&](SqlSession& session) {
                  return ClaimInSteps(ctx, session, head, request);
                });
      PF_TRY(claims);
      if (!claims->empty()) return MakeLeases(std::move(claims).value(), request.worker);
    }
    if (is_last) break;
  }
  return std::vector<Lease>{};
}

Result<std::optional<Lease>> SqlJobStore::ClaimNamed(const Context& ctx, const NamedClaim& claim) {
  using Granted = std::optional<Lease>;
  return WriteFor<Granted>(ctx, *db_, [&](SqlSession& session) -> Result<Granted> {
    const bool is_load = claim.twin == NamedClaim::Twin::kLoadAttempt;
    if (is_load) PF_TRY(session.Run(statements::kTouch, {{"job", claim.job}}));
    PF_ASSIGN(const Task before, LockTask(session, claim.job, claim.task));
    Lease lease;
    lease.owner = claim.worker;
    lease.token = RandomHex(ctx.random, kTokenBytes);
    if (is_load && !claim.label.empty()) {
      PF_ASSIGN(const SqlRows known,
                session.Run(statements::kFindLabel,
                            {{"job", claim.job}, {"task", claim.task}, {"label", claim.label}}));
      if (!known.empty()) {
        if (known.row(0).Text(1) != "OPEN") {
          return LeaseLost(fmt::format("open attempt {} again", claim.label), claim.task,
                           known.row(0).Uint(0));
        }
        lease.owner = known.row(0).Text(2);
        lease.token = known.row(0).Text(3);
        lease.serial = known.row(0).Uint(4);
        lease.tasks.push_back(before);
        lease.tasks[0].epoch = known.row(0).Uint(0);
        return Granted(std::move(lease));
      }
    }
    Result<SqlRows> rows =
        is_load ? session.Run(statements::kClaimNamed, {{"job", claim.job}, {"task", claim.task}})
                : session.Run(statements::kClaimTwin,
                              {{"job", claim.job}, {"task", claim.task}, {"epoch", claim.epoch}});
    PF_TRY(rows);
    if (rows->empty()) return Granted();
    PF_ASSIGN(const Task after, ReadTask(rows->row(0)));
    PF_ASSIGN(lease.serial, OpenAttempt(ctx, session, after, is_load ? claim.label : "",
                                        claim.worker, lease.token, claim.lease_ms));
    SqlJournal journal(session, claim.job, claim.worker);
    PF_TRY(journal.Moved(before, after, is_load ? "opened" : "twin_claimed"));
    PF_TRY(journal.Close());
    lease.tasks.push_back(after);
    return Granted(std::move(lease));
  });
}

namespace {

// The rows a chooser may choose from: a few fragmented ones, and the smallest normalized one with
// its siblings.
Result<Candidates> PickCandidates(SqlSession& session, const BatchRequest& request) {
  Candidates candidates;
  PF_ASSIGN(const SqlRows fragmented,
            session.Run(statements::kPickFragmented, {{"job", request.job}}));
  PF_ASSIGN(candidates.fragmented, ReadTasks(fragmented));
  PF_ASSIGN(const SqlRows smallest,
            session.Run(statements::kPickSmallest,
                        {{"job", request.job}, {"bytes_max", request.bytes_max}}));
  PF_ASSIGN(candidates.batch, ReadTasks(smallest));
  if (!candidates.batch.empty() && request.tasks_max > 1) {
    const Task& first = candidates.batch[0];
    PF_ASSIGN(const SqlRows siblings,
              session.Run(statements::kPickSiblings, {{"job", request.job},
                                                      {"group", first.group_key},
                                                      {"partition", first.partition_id},
                                                      {"task", first.id},
                                                      {"limit", request.tasks_max - 1}}));
    PF_ASSIGN(const std::vector<Task> more, ReadTasks(siblings));
    candidates.batch.insert(candidates.batch.end(), more.begin(), more.end());
  }
  PF_ASSIGN(const SqlRows window, session.Run(statements::kWindow, {{"job", request.job}}));
  candidates.window_from_ms = window.row(0).Int(0);
  PF_ASSIGN(candidates.now_ms, StoreNow(session));
  return candidates;
}

}  // namespace

Result<std::optional<Lease>> SqlJobStore::ClaimBatch(const Context& ctx,
                                                     const BatchRequest& request,
                                                     const ChooseBatch& choose) {
  using Granted = std::optional<Lease>;
  bool is_overtaken = false;
  Result<Granted> granted =
      WriteFor<Granted>(ctx, *db_, [&](SqlSession& session) -> Result<Granted> {
        is_overtaken = false;
        PF_ASSIGN(const SqlRows working,
                  session.Run(statements::kJobIsWorking, {{"job", request.job}}));
        if (working.row(0).Int(0) == 0) return Granted();
        PF_ASSIGN(const Candidates candidates, PickCandidates(session, request));
        std::vector<TaskEdit> chosen = choose(candidates);
        if (chosen.empty()) return Granted();
        Lease lease;
        lease.owner = request.worker;
        lease.token = RandomHex(ctx.random, kTokenBytes);
        lease.output = request.output.empty() ? chosen[0].superseded_by : request.output;
        std::sort(chosen.begin(), chosen.end(),
                  [](const TaskEdit& a, const TaskEdit& b) { return a.id < b.id; });
        SqlJournal journal(session, request.job, request.worker);
        for (const TaskEdit& edit : chosen) {
          PF_ASSIGN(const SqlRows rows,
                    session.Run(statements::kClaimBatch, {{"job", request.job},
                                                          {"task", edit.id},
                                                          {"epoch", edit.epoch},
                                                          {"output", lease.output}}));
          if (rows.empty()) {
            is_overtaken = true;  // rolls back: all of a batch or none
            return Status(Code::kConflict,
                          fmt::format("claim batch: the task was taken: {}", edit.id));
          }
          PF_ASSIGN(Task after, ReadTask(rows.row(0)));
          PF_TRY(
              OpenAttempt(ctx, session, after, "", request.worker, lease.token, request.lease_ms));
          Task before = after;
          before.state = TaskState::kCompactReady;
          PF_TRY(journal.Moved(before, after, "batch_claimed"));
          lease.tasks.push_back(std::move(after));
        }
        PF_TRY(journal.Close());
        return Granted(std::move(lease));
      });
  if (is_overtaken && !granted.ok()) return Granted();
  return granted;
}

Status SqlJobStore::Renew(const Context& ctx, const Lease& lease, int64_t lease_ms) {
  return db_->Write(ctx, [&](SqlSession& session) -> Status {
    if (lease.tasks.size() > 1) {
      PF_ASSIGN(const SqlRows rows,
                session.Run(statements::kRenewMany, {{"job", lease.tasks[0].job},
                                                     {"ids", IdsOf(lease.tasks)},
                                                     {"token", lease.token},
                                                     {"lease_ms", lease_ms}}));
      if (rows.changed() == std::ssize(lease.tasks)) return {};
      return LeaseLost("renew with others", lease.tasks[0].id, lease.tasks[0].epoch);
    }
    for (const Task& task : lease.tasks) {
      PF_ASSIGN(const SqlRows rows, session.Run(statements::kRenew, {{"job", task.job},
                                                                     {"task", task.id},
                                                                     {"epoch", task.epoch},
                                                                     {"token", lease.token},
                                                                     {"lease_ms", lease_ms}}));
      if (rows.changed() == 0) return LeaseLost("renew", task.id, task.epoch);
    }
    return {};
  });
}

Result<bool> SqlJobStore::Report(const Context& ctx, const Lease& lease, const Progress& progress) {
  return WriteFor<bool>(ctx, *db_, [&](SqlSession& session) -> Result<bool> {
    if (IsGathered(lease)) {
      PF_ASSIGN(const SqlRows rows,
                session.Run(statements::kProgressMany, {{"job", lease.tasks[0].job},
                                                        {"ids", IdsOf(lease.tasks)},
                                                        {"token", lease.token},
                                                        {"stage", progress.stage},
                                                        {"fraction", progress.fraction},
                                                        {"rows", progress.rows},
                                                        {"bytes", progress.bytes},
                                                        {"blocks", progress.blocks},
                                                        {"progress", progress.detail}}));
      if (rows.changed() == std::ssize(lease.tasks)) return false;
      return LeaseLost("report progress with others", lease.tasks[0].id, lease.tasks[0].epoch);
    }
    for (const Task& task : lease.tasks) {
      PF_ASSIGN(const SqlRows rows,
                session.Run(statements::kProgress, {{"job", task.job},
                                                    {"task", task.id},
                                                    {"epoch", task.epoch},
                                                    {"token", lease.token},
                                                    {"stage", progress.stage},
                                                    {"fraction", progress.fraction},
                                                    {"rows", progress.rows},
                                                    {"bytes", progress.bytes},
                                                    {"blocks", progress.blocks},
                                                    {"progress", progress.detail}}));
      if (rows.changed() == 0) return LeaseLost("report progress", task.id, task.epoch);
    }
    if (lease.output.empty() || lease.tasks.empty()) return false;
    PF_ASSIGN(const SqlRows asked,
              session.Run(statements::kAskedToFinalize,
                          {{"job", lease.tasks[0].job}, {"output", lease.output}}));
    return asked.row(0).Int(0) > 0;
  });
}

}  // namespace partforge
