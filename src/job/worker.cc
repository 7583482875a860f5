#include "job/worker.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "job/backoff.h"
#include "job/failure.h"

namespace partforge {
namespace {

StagePermits::Limits PermitsOf(const WorkerOptions& options) {
  return options.permits.value_or(StagePermits::Limits{
      .network = options.parallel, .engine = options.parallel, .cpu = options.parallel});
}

ClaimOptions ClaimOptionsOf(const WorkerOptions& options) {
  ClaimOptions claim;
  claim.worker = options.name;
  claim.role = options.role;
  claim.only = options.only;
  claim.batch_bytes_max = options.batch_bytes_max;
  claim.batch_tasks_max = options.batch_tasks_max;
  claim.size_bytes_max = options.size_bytes_max;
  return claim;
}

PublisherOptions PublisherOptionsOf(const WorkerOptions& options) {
  PublisherOptions publisher;
  publisher.name = options.name;
  publisher.lease_ms = options.lease_ms;
  publisher.renewal = options.renewal;
  return publisher;
}

MaintainOptions MaintainOptionsOf(const WorkerOptions& options) {
  MaintainOptions maintain;
  maintain.worker = options.name;
  maintain.only = options.only;
  maintain.interval_ms = options.maintain_interval_ms;
  maintain.crashes_max = options.crashes_max;
  return maintain;
}

constexpr int64_t kPageTasks = 1'000;
constexpr int64_t kWarnIntervalMs = 60'000;

// Whether waiting may help against a failure of the store.
bool MayPass(const Status& status) {
  switch (status.code()) {
    case Code::kUnavailable:
    case Code::kUnknownOutcome:
    case Code::kConflict:
    case Code::kLeaseLost:
    case Code::kExhausted:
      return true;
    default:
      return false;
  }
}

int64_t CountIn(const JobView& view, std::initializer_list<TaskState> states) {
  int64_t tasks = 0;
  for (const StateCount& count : view.counts) {
    if (std::find(states.begin(), states.end(), count.state) != states.end()) tasks += count.tasks;
  }
  return tasks;
}

}  // namespace

Result<std::unique_ptr<Worker>> Worker::Open(const Context& ctx, JobStore& store,
                                             const KindTable& kinds, WorkerOptions options) {
  if (options.name.empty()) return Status(Code::kInvalidArgument, "a worker needs a name");
  if (options.parallel < 1 || options.ahead < 0 || options.lease_ms < 1 || options.poll_ms < 1 ||
      options.maintain_interval_ms < 1) {
    return Status(Code::kInvalidArgument,
                  "parallel, lease, poll and maintain interval of a worker must be at least 1, and "
                  "the leases ahead no less than 0");
  }
  if (options.until == RunUntil::kJobsDone && options.only.empty()) {
    return Status(Code::kInvalidArgument, "a worker that ends with its jobs must name them");
  }
  std::unique_ptr<RunFolder> folder;
  if (!options.work_dir.empty()) {
    PF_ASSIGN(folder, RunFolder::Open(ctx, options.work_dir));
  }
  return std::unique_ptr<Worker>(new Worker(store, kinds, std::move(options), std::move(folder)));
}

Worker::Worker(JobStore& store, const KindTable& kinds, WorkerOptions options,
               std::unique_ptr<RunFolder> folder)
    : store_(store),
      kinds_(kinds),
      options_(std::move(options)),
      folder_(std::move(folder)),
      keeper_(store, options_.lease_ms),
      permits_(PermitsOf(options_)),
      runner_(store, keeper_, permits_, folder_.get(),
              AttemptRules{.progress_interval_ms = options_.progress_interval_ms,
                           .attempts_max = options_.attempts_max,
                           .renewal = options_.renewal,
                           .are_slots_shared = options_.ahead > 0}),
      claimer_(store, kinds, keeper_, ClaimOptionsOf(options_)),
      publisher_(store, kinds, PublisherOptionsOf(options_)),
      maintainer_(store, kinds, MaintainOptionsOf(options_)),
      environment_(options_.environment_patience_ms) {}

Result<Stepped> Worker::Step(const Context& ctx) {
  PF_ASSIGN(const auto claimed, claimer_.Claim(ctx, 1));
  if (!claimed.empty()) {
    PF_TRY(RunWork(ctx, std::stop_token(), claimed.front(), 0));
    return Stepped::kWorked;
  }
  return PublishOrMaintain(ctx);
}

Status Worker::RunWork(const Context& ctx, std::stop_token last_word, const ClaimedWork& work,
                       int slot) {
  const Lease& lease = work.held->lease();
  Settlement ended;
  PF_ASSIGN(const AttemptEnd end, runner_.Run(ctx, std::move(last_word), work, slot, &ended));
  Count(end, lease, ended);
  if (end == AttemptEnd::kLost) return {};
  if (options_.on_ended) options_.on_ended(ctx, lease, ended);
  claimer_.Learn(lease, ended);
  environment_.Note(ctx.clock.NowMs(), ended);
  if (end == AttemptEnd::kFailed) {
    NoteFailure(ended);
    Ignore(ctx, PauseAfterEqualFailures(ctx, store_, lease.tasks.front().job),
           "the next failure looks again");
  }
  return {};
}

Result<Stepped> Worker::Publish(const Context& ctx) {
  PF_ASSIGN(const auto jobs, OpenJobsAmong(ctx, store_, options_.only));
  for (const JobSpec& job : jobs) {
    const auto stepped = publisher_.Step(ctx, job.id);
    if (!stepped.ok()) {
      if (MayPass(stepped.status()) || ctx.IsStopping()) return stepped.status();
      // A job whose target refuses must not keep the others from being published.
      ctx.log.Error("job not published", {{"job", job.id}, {"error", stepped.status().ToString()}});
      const std::lock_guard lock(mutex_);
      publish_failure_ = stepped.status();
      continue;
    }
    if (*stepped == Stepped::kIdle) continue;
    const std::lock_guard lock(mutex_);
    ++summary_.commits_carried;
    return Stepped::kWorked;
  }
  return Stepped::kIdle;
}

Result<Stepped> Worker::PublishOrMaintain(const Context& ctx) {
  PF_ASSIGN(const Stepped published, Publish(ctx));
  if (published == Stepped::kWorked) return published;
  PF_ASSIGN(const bool has_maintained, maintainer_.RunWhenDue(ctx));
  return has_maintained ? Stepped::kWorked : Stepped::kIdle;
}

Result<RunSummary> Worker::Run(const Context& ctx) {
  Status ended;
  {
    // Renewals go on while the last settlements are made, so this thread has a stop of its own.
    std::jthread renewals([this, outer = Context(ctx)](const std::stop_token& stop) {
      Context own = outer;
      own.stop = stop;
      keeper_.RunUntilStopped(own);
    });
    ended = options_.until == RunUntil::kOnce ? RunOnce(ctx) : RunSlots(ctx);
  }
  PF_TRY(ended);
  return summary();
}

Status Worker::RunOnce(const Context& ctx) {
  PF_ASSIGN(const auto claimed, claimer_.Claim(ctx, 1));
  if (!claimed.empty()) return RunWork(ctx, std::stop_token(), claimed.front(), 0);
  PF_ASSIGN(const Stepped published, Publish(ctx));
  if (published == Stepped::kWorked) return {};
  return maintainer_.Run(ctx);
}

Status Worker::RunSlots(const Context& ctx) {
  SlotBoard board;
  std::stop_source run_stop;   // ends claiming and publishing, and cancels executors
  std::stop_source last_word;  // ends what may still be settled after that
  const std::stop_callback on_stop(ctx.stop, [&run_stop] { run_stop.request_stop(); });
  Context run_ctx = ctx;
  run_ctx.stop = run_stop.get_token();

  std::vector<std::jthread> slots;
  slots.reserve(static_cast<size_t>(leases_max()));
  for (int slot = 0; slot < leases_max(); ++slot) {
    slots.emplace_back([this, run_ctx, last = last_word.get_token(), &board, slot] {
      RunSlot(run_ctx, last, board, slot);
    });
  }
  std::jthread publishing([this, run_ctx, &board] { PublishUntilStopped(run_ctx, board); });

  Status fed = FeedSlots(run_ctx, board);
  run_stop.request_stop();
  board.Close();
  if (!board.WaitForLeave(leases_max(), options_.shutdown_grace_ms)) {
    ctx.log.Warn("work did not end within the grace", {{"grace_ms", options_.shutdown_grace_ms}});
  }
  last_word.request_stop();
  return fed;
}

Status Worker::FeedSlots(const Context& ctx, SlotBoard& board) {
  int64_t failures = 0;
  while (!ctx.IsStopping()) {
    const int64_t free = board.WaitForFree(ctx.stop);
    if (free == 0 || ctx.IsStopping()) break;
    PF_TRY(environment_.verdict());
    const int64_t news = board.WaitForNews(-1, 0, ctx.stop);
    auto claimed = claimer_.Claim(ctx, free);
    if (!claimed.ok()) {
      if (ctx.IsStopping()) break;
      if (!MayPass(claimed.status())) return claimed.status();
      ++failures;
      ctx.log.Warn("claim failed", {{"error", claimed.status().ToString()}, {"tries", failures}});
      ctx.clock.SleepMs(BackoffMs(ctx.random, failures), ctx.stop);
      continue;
    }
    failures = 0;
    if (!claimed->empty()) {
      for (ClaimedWork& work : *claimed) board.Give(std::move(work));
      continue;
    }
    if (options_.until == RunUntil::kJobsDone && board.IsQuiet(leases_max())) {
      PF_TRY(publish_failure());
      const auto is_left = IsWorkLeft(ctx);
      if (is_left.ok() && !*is_left) return {};
      if (!is_left.ok() && !MayPass(is_left.status())) return is_left.status();
    }
    if (board.IsQuiet(leases_max())) {
      Status admission = CheckAdmission(ctx);
      if (!admission.ok() && admission.code() == Code::kExhausted) {
        if (options_.until == RunUntil::kJobsDone) return admission;
        WarnNothingFits(ctx, admission);
      }
    }
    board.WaitForNews(news, options_.poll_ms, ctx.stop);
  }
  return {};
}

void Worker::RunSlot(const Context& ctx, const std::stop_token& last_word, SlotBoard& board,
                     int slot) {
  while (auto work = board.Take()) {
    Ignore(ctx, RunWork(ctx, last_word, *work, slot), "the lease ends by itself");
    board.Announce();
  }
  board.Leave();
}

void Worker::PublishUntilStopped(const Context& ctx, SlotBoard& board) {
  int64_t failures = 0;
  while (!ctx.IsStopping()) {
    const int64_t news = board.WaitForNews(-1, 0, ctx.stop);
    const auto stepped = PublishOrMaintain(ctx);
    if (ctx.IsStopping()) return;
    if (!stepped.ok()) {
      ++failures;
      ctx.log.Warn("publish failed", {{"error", stepped.status().ToString()}, {"tries", failures}});
      ctx.clock.SleepMs(BackoffMs(ctx.random, failures), ctx.stop);
      continue;
    }
    failures = 0;
    if (*stepped == Stepped::kWorked) {
      board.Announce();
    } else {
      board.WaitForNews(news, options_.poll_ms, ctx.stop);
    }
  }
}

Result<bool> Worker::IsWorkLeft(const Context& ctx) {
  for (const JobId& job : options_.only) {
    PF_ASSIGN(const bool is_left, IsWorkLeftOf(ctx, job));
    if (is_left) return true;
  }
  return false;
}

void Worker::WarnNothingFits(const Context& ctx, const Status& admission) {
  const int64_t now_ms = MonotonicMs();
  if (warned_at_ms_ >= 0 && now_ms - warned_at_ms_ < kWarnIntervalMs) return;
  warned_at_ms_ = now_ms;
  ctx.log.Warn("no waiting part fits", {{"error", admission.ToString()}});
}

Status Worker::CheckAdmission(const Context& ctx) {
  if (!options_.size_bytes_max) return {};
  PF_ASSIGN(const int64_t admitted_bytes, options_.size_bytes_max(ctx));
  PF_ASSIGN(const auto jobs, OpenJobsAmong(ctx, store_, options_.only));
  int64_t smallest_bytes = INT64_MAX;
  JobId where;
  for (const JobSpec& job : jobs) {
    PF_ASSIGN(const JobView view, store_.View(ctx, job.id));
    if (view.is_paused) continue;
    if (CountIn(view, {TaskState::kInProgress, TaskState::kCompacting}) > 0) return {};
    if (CountIn(view, {TaskState::kReady}) == 0) continue;
    PF_ASSIGN(const TaskPage page, store_.Page(ctx, job.id, TaskState::kReady, "", kPageTasks));
    if (page.next.has_value()) return {};  // so many are not all too large
    for (const Task& task : page.tasks) {
      if (task.size_bytes >= smallest_bytes) continue;
      smallest_bytes = task.size_bytes;
      where = job.id;
    }
  }
  if (where.empty() || smallest_bytes <= admitted_bytes) return {};
  return Status(Code::kExhausted,
                fmt::format("the smallest waiting part has {} bytes, parts of {} bytes fit",
                            smallest_bytes, admitted_bytes))
      .Explain(7007, where, "free space, or give the worker another --work-dir");
}

Result<bool> Worker::IsWorkLeftOf(const Context& ctx, const JobId& job) {
  PF_ASSIGN(const JobView view, store_.View(ctx, job));
  if (view.state == "ABORTING" || view.state == "ABORTED") return false;
  if (!view.is_paused && CountIn(view, {TaskState::kReady, TaskState::kCompactReady}) > 0)
    return true;
  if (CountIn(view, {TaskState::kInProgress, TaskState::kCompacting}) > 0) return true;
  const auto kind = kinds_.Find(view.job.kind);
  if (!kind.ok() || kind->committer == nullptr) return false;
  // What is in doubt waits for somebody who can tell, which may take for ever.
  const bool is_commit_left =
      std::any_of(view.live_commits.begin(), view.live_commits.end(),
                  [](const Commit& commit) { return commit.in_doubt.empty(); });
  if (is_commit_left) return true;
  return view.job.publish == PublishMode::kAuto && CanGather(view, kind->grouping);
}

void Worker::Count(AttemptEnd end, const Lease& lease, const Settlement& ended) {
  const std::lock_guard lock(mutex_);
  if (end == AttemptEnd::kLost) {
    summary_.lost += IsBatch(lease) ? 1 : std::ssize(lease.tasks);
    return;
  }
  if (IsBatch(lease)) {
    ++(end == AttemptEnd::kDone     ? summary_.done
       : end == AttemptEnd::kFailed ? summary_.failed
                                    : summary_.released);
    return;
  }
  for (const TaskEdit& edit : ended.edits) {
    ++(edit.to == TaskState::kFailed  ? summary_.failed
       : edit.to == TaskState::kReady ? summary_.released
                                      : summary_.done);
  }
}

void Worker::NoteFailure(const Settlement& ended) {
  const std::lock_guard lock(mutex_);
  for (const TaskEdit& edit : ended.edits) {
    if (edit.to == TaskState::kFailed)
      summary_.last_failure = RecordedStatus(edit.error, edit.failure_class);
  }
}

RunSummary Worker::summary() const {
  const std::lock_guard lock(mutex_);
  return summary_;
}

Status Worker::publish_failure() const {
  const std::lock_guard lock(mutex_);
  return publish_failure_;
}

Status Worker::Close(const Context& ctx) {
  if (folder_ == nullptr) return {};
  return folder_->Remove(ctx);
}

}  // namespace partforge
