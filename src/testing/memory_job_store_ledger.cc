// Commits, pieces, things, locks, and the reading side.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "testing/memory_job_store.h"
#include "testing/memory_job_store_transaction.h"

namespace partforge::testing {
namespace {

constexpr std::array kAllStates = {
    TaskState::kReady,      TaskState::kInProgress, TaskState::kCompactReady,
    TaskState::kCompacting, TaskState::kSuperseded, TaskState::kFinished,
    TaskState::kImporting,  TaskState::kImported,   TaskState::kFailed};
constexpr size_t kLiveCommitsMax = 1'000;

Status Fenced(const CommitId& commit) {
  return Status(Code::kLeaseLost, fmt::format("commit is not ours any more: {}", commit));
}

Status NotNow(const Commit& commit, std::string_view doing) {
  return Status(Code::kConflict, fmt::format("{}: commit is {}: {}", doing,
                                             CommitStateName(commit.state), commit.id));
}

bool IsUnfinished(TaskState state) {
  return state != TaskState::kSuperseded && state != TaskState::kImported &&
         state != TaskState::kFailed;
}

// state-schema §4.9: exclusive against anything, and '*' against every partition; @import stands
// alone.
bool Conflicts(const LockWish& held, const LockWish& wish) {
  if (held.target != wish.target || (!held.is_exclusive && !wish.is_exclusive)) return false;
  if (held.scope == wish.scope) return true;
  if (held.scope == "@import" || wish.scope == "@import") return false;
  return held.scope == "*" || wish.scope == "*";
}

bool MayMark(PieceState from, PieceState to) {
  if (from == to) return true;
  switch (to) {
    case PieceState::kStaged:
      return false;
    case PieceState::kSent:
      return from == PieceState::kStaged;
    case PieceState::kConfirmed:
    case PieceState::kSuppressed:
      return from == PieceState::kStaged || from == PieceState::kSent;
    case PieceState::kReplaced:
      return from != PieceState::kConfirmed;
  }
  return false;
}

}  // namespace

void MemoryJobStore::ForEachCommit(const std::function<void(const Commit&)>& look) {
  const std::lock_guard lock(mutex_);
  for (const auto& [id, row] : state_.commits) look(row.commit);
}

Result<MemoryJobStore::CommitRow*> MemoryJobStore::Own(const Commit& fenced) {
  const auto it = state_.commits.find(fenced.id);
  if (it == state_.commits.end() || it->second.commit.epoch != fenced.epoch)
    return Fenced(fenced.id);
  return &it->second;
}

Result<Commit> MemoryJobStore::Decide(const Context& ctx, const Commit& proposal,
                                      std::span<const Piece> pieces,
                                      std::span<const LockWish> locks) {
  return Transact([&]() -> Result<Commit> {
    PF_ASSIGN(const JobRow* job, FindJob(proposal.job));
    const auto known = state_.commits.find(proposal.id);
    if (known != state_.commits.end()) return known->second.commit;
    const bool must_be_sealed = job->spec.publish != PublishMode::kAuto;
    if (job->state != "SEALED" && (job->state != "OPEN" || must_be_sealed)) {
      return Status(Code::kConflict, fmt::format("job is {}: {}", job->state, proposal.job));
    }
    if (job->spec.publish == PublishMode::kAsked &&
        std::ssize(proposal.chosen) != job->tasks_expected) {
      return Status(Code::kConflict,
                    fmt::format("a load commits all its {} tasks at once, {} are chosen",
                                job->tasks_expected, proposal.chosen.size()));
    }
    for (const auto& [id, standing] : state_.commits) {
      const Commit& other = standing.commit;
      if (other.job == proposal.job && other.state != CommitState::kAborted)
        PF_TRY(CheckOneTarget(other.target, proposal));
    }
    for (const LockWish& wish : locks) PF_TRY(TakeLock(proposal.job, proposal.id, wish));
    CommitRow row;
    row.commit = proposal;
    row.commit.state = CommitState::kDecided;
    row.commit.epoch = 0;
    row.commit.owner.clear();
    row.commit.serial = DrawSerial(ctx);
    row.commit.decided_at_ms = NowMs();
    std::sort(row.commit.chosen.begin(), row.commit.chosen.end(),
              [](const Chosen& a, const Chosen& b) { return a.task < b.task; });
    for (Chosen& chosen : row.commit.chosen) PF_TRY(DecideTask(proposal, chosen));
    for (const Piece& piece : pieces) {
      row.pieces[piece.number] = piece;
      row.pieces[piece.number].state = PieceState::kStaged;
    }
    Record(proposal.job, "", proposal.id, 0, "decided", "", "DECIDED");
    return (state_.commits[proposal.id] = row).commit;
  });
}

Status MemoryJobStore::DecideTask(const Commit& proposal, Chosen& chosen) {
  PF_ASSIGN(TaskRow * row, FindTask(proposal.job, chosen.task));
  if (chosen.epoch == 0) chosen.epoch = row->task.winner;
  const auto attempt = row->attempts.find(chosen.epoch);
  if (row->task.state != TaskState::kFinished || !row->task.commit.empty() ||
      attempt == row->attempts.end() || attempt->second.view.state != "FINISHED") {
    return Status(Code::kConflict, fmt::format("task cannot be chosen now: {}", chosen.task));
  }
  for (auto& [epoch, other] : row->attempts) {
    if (other.view.state != "OPEN" && other.view.state != "FINISHED") continue;
    other.view.state = "LOST";
    other.view.ended_at_ms = NowMs();
  }
  attempt->second.view.state = "CHOSEN";
  chosen.result = attempt->second.result;
  row->task.winner = chosen.epoch;
  row->task.commit = proposal.id;
  Move(*row, TaskState::kImporting, "decided");
  return {};
}

Status MemoryJobStore::AbortJob(const Context&, const JobId& job) {
  return Transact([&]() -> Status {
    PF_ASSIGN(JobRow * row, FindJob(job));
    if (row->state == "ABORTED") return {};
    for (const auto& [id, commit] : state_.commits) {
      if (commit.commit.job != job || commit.commit.state == CommitState::kAborted) continue;
      return Status(Code::kConflict,
                    fmt::format("job has a commit and can only go forward: {}", id));
    }
    for (auto& [key, task] : state_.tasks) {
      if (key.first != job) continue;
      for (auto& [epoch, attempt] : task.attempts) {
        if (attempt.view.state == "OPEN") attempt.view.state = "ABORTED";
      }
    }
    const bool is_any_left = std::any_of(
        state_.things.begin(), state_.things.end(),
        [&](const ThingRow& thing) { return thing.job == job && thing.thing.state != "GONE"; });
    row->state = is_any_left ? "ABORTING" : "ABORTED";
    return {};
  });
}

Result<Commit> MemoryJobStore::Fence(const Context& ctx, const CommitId& commit,
                                     std::string_view owner, int64_t lease_ms) {
  return Transact([&]() -> Result<Commit> {
    const auto it = state_.commits.find(commit);
    if (it == state_.commits.end() || it->second.commit.is_cleaned) {
      return Status(Code::kNotFound, fmt::format("no unfinished commit: {}", commit));
    }
    CommitRow& row = it->second;
    const bool is_free =
        row.commit.owner.empty() || row.commit.owner == owner || row.lease_until_ms < NowMs();
    if (!is_free)
      return Status(Code::kConflict,
                    fmt::format("commit is held by {}: {}", row.commit.owner, commit));
    ++row.commit.epoch;
    row.commit.owner = owner;
    row.lease_until_ms = NowMs() + lease_ms;
    if (row.commit.state == CommitState::kDecided) row.commit.serial = DrawSerial(ctx);
    Record(row.commit.job, "", commit, row.commit.epoch, "fenced", "",
           CommitStateName(row.commit.state));
    return row.commit;
  });
}

Status MemoryJobStore::Hold(const Context&, const Commit& fenced, int64_t lease_ms) {
  return Transact([&]() -> Status {
    PF_ASSIGN(CommitRow * row, Own(fenced));
    row->lease_until_ms = NowMs() + lease_ms;
    return {};
  });
}

Status MemoryJobStore::Advance(const Context&, const Commit& fenced, CommitState to,
                               const Json& recorded, std::span<const Piece> pieces) {
  return Transact([&]() -> Status {
    PF_ASSIGN(CommitRow * row, Own(fenced));
    if (row->commit.state != fenced.state) return Fenced(fenced.id);
    const std::string_view from = CommitStateName(fenced.state);
    Status moved;
    switch (to) {
      case CommitState::kDecided:
        moved = Status(Code::kInvalidArgument, "a commit does not go back to DECIDED");
        break;
      case CommitState::kCommitting:
        moved = Bind(*row, recorded, pieces);
        break;
      case CommitState::kPublished:
        moved = Publish(*row, recorded);
        break;
      case CommitState::kAborted:
        moved = Abort(*row, recorded);
        break;
      case CommitState::kCleaned:
        moved = CleanRow(*row);
        break;
    }
    PF_TRY(moved);
    Record(row->commit.job, "", fenced.id, fenced.epoch, "advanced", from, CommitStateName(to));
    return {};
  });
}

Status MemoryJobStore::Bind(CommitRow& row, const Json& staged, std::span<const Piece> pieces) {
  if (row.commit.state != CommitState::kDecided && row.commit.state != CommitState::kCommitting) {
    return NotNow(row.commit, "advance");
  }
  for (const Piece& piece : pieces) {
    const auto [known, is_new] = row.pieces.try_emplace(piece.number, piece);
    if (is_new) {
      known->second.state = PieceState::kStaged;
    } else if (piece.state == PieceState::kReplaced) {
      if (!MayMark(known->second.state, piece.state)) return NotNow(row.commit, "replace a piece");
      known->second.state = piece.state;
    } else if (known->second.state == PieceState::kStaged) {
      known->second.token = piece.token;
      known->second.dev = piece.dev;
      known->second.ino = piece.ino;
    } else {
      return Status(Code::kConflict,
                    fmt::format("bind {}: piece is {} already: {}", row.commit.id,
                                PieceStateName(known->second.state), piece.number));
    }
  }
  row.commit.state = CommitState::kCommitting;
  row.commit.staged = staged;
  row.commit.in_doubt.clear();
  return {};
}

Status MemoryJobStore::Publish(CommitRow& row, const Json& evidence) {
  if (row.commit.state != CommitState::kCommitting) return NotNow(row.commit, "advance");
  for (const auto& [number, piece] : row.pieces) {
    if (piece.state == PieceState::kConfirmed || piece.state == PieceState::kReplaced) continue;
    return Status(Code::kConflict,
                  fmt::format("piece is not confirmed: {} of {}", number, row.commit.id));
  }
  row.commit.state = CommitState::kPublished;
  row.commit.evidence = evidence;
  row.commit.in_doubt.clear();
  row.commit.published_at_ms = NowMs();
  for (auto& [key, task] : state_.tasks) {
    if (task.task.commit == row.commit.id && task.task.state == TaskState::kImporting) {
      Move(task, TaskState::kImported, "published");
    }
  }
  ReleaseLocks(row.commit.id);
  return {};
}

Status MemoryJobStore::Abort(CommitRow& row, const Json& evidence) {
  if (row.commit.state != CommitState::kDecided && row.commit.state != CommitState::kCommitting) {
    return NotNow(row.commit, "advance");
  }
  PF_ASSIGN(const JobRow* job, FindJob(row.commit.job));
  if (job->spec.publish == PublishMode::kAsked) {
    return Status(Code::kRefused,
                  fmt::format("a load is never aborted after its decision: {}", row.commit.id));
  }
  PF_ASSIGN(const JsonDoc doc, ParseJson(evidence));
  const bool is_failed = doc.contains("failure_class");
  for (auto& [key, task] : state_.tasks) {
    if (task.task.commit != row.commit.id || task.task.state != TaskState::kImporting) continue;
    for (auto& [epoch, attempt] : task.attempts) {
      if (attempt.view.state == "CHOSEN") attempt.view.state = "FINISHED";
    }
    if (is_failed) task.task.failure_class = doc.at("failure_class").get<std::string>();
    if (is_failed && doc.contains("failure_code"))
      task.task.failure_code = doc.at("failure_code").get<int64_t>();
    if (is_failed && doc.contains("error")) {
      PF_ASSIGN(JsonDoc payload, ParseJson(task.task.payload));
      payload["error"] = doc.at("error");
      task.task.payload = DumpJson(payload);
    }
    Move(task, is_failed ? TaskState::kFailed : TaskState::kFinished, "aborted");
    task.task.commit.clear();
  }
  row.commit.state = CommitState::kAborted;
  row.commit.evidence = evidence;
  row.commit.in_doubt.clear();
  ReleaseLocks(row.commit.id);
  return {};
}

Status MemoryJobStore::CleanRow(CommitRow& row) {
  if (row.commit.state != CommitState::kPublished && row.commit.state != CommitState::kAborted) {
    return NotNow(row.commit, "advance");
  }
  for (const ThingRow& thing : state_.things) {
    if (thing.actor.commit != row.commit.id || thing.thing.state == "GONE") continue;
    return Status(Code::kConflict,
                  fmt::format("commit left a {}: {}", thing.thing.kind, thing.thing.name));
  }
  if (row.commit.state == CommitState::kPublished) row.commit.state = CommitState::kCleaned;
  row.commit.is_cleaned = true;
  row.commit.owner.clear();
  row.lease_until_ms = 0;
  return {};
}

Status MemoryJobStore::Mark(const Context&, const Commit& fenced, std::span<const Piece> pieces,
                            PieceState to) {
  return Transact([&]() -> Status {
    PF_ASSIGN(CommitRow * row, Own(fenced));
    if (row->commit.state != CommitState::kCommitting) return NotNow(row->commit, "mark pieces");
    for (const Piece& piece : pieces) {
      const auto known = row->pieces.find(piece.number);
      if (known == row->pieces.end() || !MayMark(known->second.state, to)) {
        return Status(Code::kConflict, fmt::format("piece cannot be marked {}: {} of {}",
                                                   PieceStateName(to), piece.number, fenced.id));
      }
      known->second.state = to;
    }
    return {};
  });
}

Status MemoryJobStore::Doubt(const Context&, const Commit& fenced, std::string_view reason) {
  return Transact([&]() -> Status {
    PF_ASSIGN(CommitRow * row, Own(fenced));
    if (row->commit.state != CommitState::kCommitting) return Fenced(fenced.id);
    row->commit.in_doubt = reason;
    return {};
  });
}

Result<Thing> MemoryJobStore::Intend(const Context&, const Actor& actor, const Thing& thing) {
  return Transact([&]() -> Result<Thing> {
    if (!actor.commit.empty()) {
      Commit fenced;
      fenced.id = actor.commit;
      fenced.epoch = actor.epoch;
      PF_TRY(Own(fenced));
    } else {
      PF_ASSIGN(TaskRow * row, FindTask(actor.job, actor.task));
      const auto attempt = row->attempts.find(actor.epoch);
      if (attempt == row->attempts.end() || attempt->second.view.state != "OPEN" ||
          attempt->second.token != actor.token) {
        return Status(Code::kLeaseLost,
                      fmt::format("attempt is not ours any more: {}.{}", actor.task, actor.epoch));
      }
    }
    for (const ThingRow& row : state_.things) {
      if (row.job != actor.job || row.thing.shard != thing.shard || row.thing.kind != thing.kind ||
          row.thing.name != thing.name) {
        continue;
      }
      const bool is_ours = row.actor.task == actor.task && row.actor.commit == actor.commit &&
                           row.actor.epoch == actor.epoch && row.thing.state == "INTENT";
      if (is_ours) return row.thing;
      return Status(Code::kAlreadyExists,
                    fmt::format("{} was announced already: {}", thing.kind, thing.name));
    }
    ThingRow row;
    row.thing = thing;
    row.thing.id = ++state_.things_made;
    row.thing.state = "INTENT";
    row.job = actor.job;
    row.actor = actor;
    state_.things.push_back(row);
    return row.thing;
  });
}

Status MemoryJobStore::SetThing(const Context&, const Thing& as_it_was, const Thing& now) {
  return Transact([&]() -> Status {
    for (ThingRow& row : state_.things) {
      if (row.thing.id != as_it_was.id) continue;
      if (row.thing.state != as_it_was.state) break;
      row.thing.state = now.state;
      row.thing.name = now.name;
      row.thing.uuid = now.uuid;
      return {};
    }
    return Status(Code::kConflict, fmt::format("{} is not {} any more: {}", as_it_was.kind,
                                               as_it_was.state, as_it_was.name));
  });
}

Status MemoryJobStore::TakeLock(const JobId&, std::string_view holder, const LockWish& wish) {
  LockRow* ours = nullptr;
  for (LockRow& row : state_.locks) {
    const bool is_live = row.lease_until_ms == 0 || row.lease_until_ms > NowMs();
    if (row.holder == holder) {
      if (row.wish.target == wish.target && row.wish.scope == wish.scope) ours = &row;
    } else if (is_live && Conflicts(row.wish, wish)) {
      return Status(Code::kConflict,
                    fmt::format("{} of {} is locked by {}", wish.scope, wish.target, row.holder));
    }
  }
  if (ours == nullptr) ours = &state_.locks.emplace_back();
  ours->wish = wish;
  ours->holder = holder;
  ours->lease_until_ms = wish.lease_ms == 0 ? 0 : NowMs() + wish.lease_ms;
  return {};
}

void MemoryJobStore::ReleaseLocks(std::string_view holder) {
  std::erase_if(state_.locks, [&](const LockRow& row) { return row.holder == holder; });
}

Status MemoryJobStore::Lock(const Context&, const JobId& job, std::string_view holder,
                            const LockWish& wish) {
  return Transact([&]() -> Status { return TakeLock(job, holder, wish); });
}

Status MemoryJobStore::Unlock(const Context&, std::string_view holder) {
  return Transact([&]() -> Status {
    ReleaseLocks(holder);
    return {};
  });
}

JobView MemoryJobStore::ViewOf(const JobRow& row) {
  JobView view;
  view.job = row.spec;
  view.state = row.state;
  view.is_paused = row.is_paused;
  view.tasks_expected = row.tasks_expected;
  view.created_at_ms = row.created_at_ms;
  view.sealed_at_ms = row.sealed_at_ms;
  view.now_ms = NowMs();
  std::map<TaskState, StateCount> counts;
  for (const auto& [key, task] : state_.tasks) {
    if (key.first != row.spec.id) continue;
    StateCount& count = counts[task.task.state];
    count.state = task.task.state;
    ++count.tasks;
    count.bytes += task.task.size_bytes;
    if (task.task.state == TaskState::kReady || task.task.state == TaskState::kInProgress) continue;
    count.parts += task.task.parts_out;
    count.rows += task.task.rows_out;
  }
  for (const TaskState state : kAllStates) {
    if (counts.contains(state)) view.counts.push_back(counts[state]);
  }
  for (const auto& [id, commit] : state_.commits) {
    if (commit.commit.job != row.spec.id || commit.commit.is_cleaned) continue;
    Commit live = commit.commit;
    for (Chosen& chosen : live.chosen) chosen.result = {};
    view.live_commits.push_back(std::move(live));
  }
  std::stable_sort(
      view.live_commits.begin(), view.live_commits.end(),
      [](const Commit& a, const Commit& b) { return a.decided_at_ms < b.decided_at_ms; });
  if (view.live_commits.size() > kLiveCommitsMax) view.live_commits.resize(kLiveCommitsMax);
  return view;
}

Result<std::vector<JobSpec>> MemoryJobStore::OpenJobs(const Context&) {
  const std::lock_guard lock(mutex_);
  std::vector<JobSpec> open;
  for (const auto& [id, row] : state_.jobs) {
    if (row.state == "ABORTED") continue;
    const JobView view = ViewOf(row);
    const bool is_work_left =
        std::any_of(view.counts.begin(), view.counts.end(),
                    [](const StateCount& count) { return IsUnfinished(count.state); });
    if (row.state == "OPEN" || is_work_left || !view.live_commits.empty()) open.push_back(row.spec);
  }
  return open;
}

Result<std::vector<JobView>> MemoryJobStore::ListJobs(const Context&) {
  const std::lock_guard lock(mutex_);
  std::map<int64_t, JobView> by_age;
  for (const auto& [id, row] : state_.jobs) by_age[row.number] = ViewOf(row);
  std::vector<JobView> views;
  views.reserve(by_age.size());
  for (auto& [number, view] : by_age) {
    for (const auto& [key, row] : state_.tasks) {
      const Task& task = row.task;
      if (key.first != view.job.id) continue;
      view.updated_at_ms = std::max(view.updated_at_ms, task.updated_at_ms);
      if (task.started_at_ms > 0 &&
          (view.work_started_at_ms == 0 || task.started_at_ms < view.work_started_at_ms))
        view.work_started_at_ms = task.started_at_ms;
      if (task.state != TaskState::kSuperseded) view.partitions_out += task.partitions_out;
    }
    views.push_back(std::move(view));
  }
  return views;
}

Result<JobView> MemoryJobStore::View(const Context&, const JobId& job) {
  const std::lock_guard lock(mutex_);
  PF_ASSIGN(const JobRow* row, FindJob(job));
  return ViewOf(*row);
}

Result<TaskPage> MemoryJobStore::Page(const Context&, const JobId& job, TaskState state,
                                      std::string_view after, int64_t tasks_max) {
  const std::lock_guard lock(mutex_);
  TaskPage page;
  for (const auto& [key, row] : state_.tasks) {
    if (key.first != job || row.task.state != state || key.second <= after) continue;
    if (std::ssize(page.tasks) == tasks_max) {
      page.next = page.tasks.back().id;
      break;
    }
    page.tasks.push_back(row.task);
  }
  return page;
}

Result<Task> MemoryJobStore::GetTask(const Context&, const JobId& job, const TaskId& task) {
  const std::lock_guard lock(mutex_);
  PF_ASSIGN(const TaskRow* row, FindTask(job, task));
  return row->task;
}

Result<std::vector<AttemptView>> MemoryJobStore::Attempts(const Context&, const JobId& job,
                                                          const TaskId& task) {
  const std::lock_guard lock(mutex_);
  PF_ASSIGN(const TaskRow* row, FindTask(job, task));
  std::vector<AttemptView> attempts;
  for (const auto& [epoch, attempt] : row->attempts) attempts.push_back(attempt.view);
  return attempts;
}

Result<Commit> MemoryJobStore::GetCommit(const Context&, const CommitId& commit) {
  const std::lock_guard lock(mutex_);
  const auto it = state_.commits.find(commit);
  if (it == state_.commits.end())
    return Status(Code::kNotFound, fmt::format("no such commit: {}", commit));
  return it->second.commit;
}

Result<std::vector<Piece>> MemoryJobStore::Pieces(const Context&, const CommitId& commit) {
  const std::lock_guard lock(mutex_);
  const auto it = state_.commits.find(commit);
  if (it == state_.commits.end())
    return Status(Code::kNotFound, fmt::format("no such commit: {}", commit));
  std::vector<Piece> pieces;
  for (const auto& [number, piece] : it->second.pieces) pieces.push_back(piece);
  return pieces;
}

Result<std::vector<Thing>> MemoryJobStore::Things(const Context&, const JobId& job) {
  const std::lock_guard lock(mutex_);
  std::vector<Thing> things;
  for (const ThingRow& row : state_.things) {
    if (row.job == job) things.push_back(row.thing);
  }
  return things;
}

Result<std::vector<EventView>> MemoryJobStore::Events(const Context&, const JobId& job,
                                                      const TaskId& task, int64_t after_seq,
                                                      int64_t events_max) {
  const std::lock_guard lock(mutex_);
  std::vector<EventView> found;
  for (const EventView& event : events_) {
    if (event.job != job || event.seq <= after_seq || (!task.empty() && event.task != task))
      continue;
    if (std::ssize(found) == events_max) break;
    found.push_back(event);
  }
  return found;
}

Status MemoryJobStore::Note(const Context&, const JobId& job, std::string_view event,
                            const Json& detail) {
  return Transact([&]() -> Status {
    PF_TRY(FindJob(job));
    Record(job, "", "", 0, event, "", "");
    events_.back().detail = detail;
    return {};
  });
}

}  // namespace partforge::testing
