#include "testing/memory_job_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/ids.h"
#include "base/json.h"
#include "base/random.h"
#include "testing/memory_job_store_transaction.h"

namespace partforge::testing {
namespace {

constexpr int64_t kPerCallMax = 1'000;  // edits of one Amend, tasks of one Finalize
constexpr int64_t kReapedMax = 100;

bool IsOpen(const AttemptView& view) {
  return view.state == "OPEN";
}

// The payload with the error of a failed task, or without any.
Json WithError(const Json& payload, std::string_view error) {
  auto doc = ParseJson(payload);
  if (!doc.ok() || !doc->is_object()) return payload;
  if (error.empty() && !doc->contains("error")) return payload;
  doc->erase("error");
  if (!error.empty()) (*doc)["error"] = error;
  return DumpJson(*doc);
}

void KeepResult(Task& task, const TaskResult& result) {
  task.group_key = result.group_key;
  task.partition_id = result.partition_id;
  task.parts_out = result.parts_out;
  task.parts_peak = result.parts_peak;
  task.partitions_out = result.partitions_out;
  task.rows_out = result.rows_out;
  task.bytes_out = result.bytes_out;
}

Status LeaseLost(const TaskId& task, uint64_t epoch) {
  return Status(Code::kLeaseLost, fmt::format("attempt is not ours any more: {}.{}", task, epoch));
}

bool IsSameSource(const Task& a, const Task& b) {
  return a.size_bytes == b.size_bytes && a.kind == b.kind && a.source_job == b.source_job &&
         a.source_task == b.source_task;
}

}  // namespace

void MemoryJobStore::ShiftMs(int64_t ms) {
  const std::lock_guard lock(mutex_);
  shift_ms_ += ms;
}

void MemoryJobStore::ForEachTask(const std::function<void(const Task&)>& look) {
  const std::lock_guard lock(mutex_);
  for (const auto& [key, row] : state_.tasks) look(row.task);
}

Result<MemoryJobStore::JobRow*> MemoryJobStore::FindJob(const JobId& job) {
  const auto it = state_.jobs.find(job);
  if (it == state_.jobs.end()) return Status(Code::kNotFound, fmt::format("no such job: {}", job));
  return &it->second;
}

Result<MemoryJobStore::TaskRow*> MemoryJobStore::FindTask(const JobId& job, const TaskId& task) {
  const auto it = state_.tasks.find({job, task});
  if (it == state_.tasks.end()) {
    return Status(Code::kNotFound, fmt::format("no such task: {}/{}", job, task));
  }
  return &it->second;
}

void MemoryJobStore::Record(const JobId& job, const TaskId& task, const CommitId& commit,
                            uint64_t epoch, std::string_view event, std::string_view from,
                            std::string_view to) {
  EventView view;
  view.seq = std::ssize(events_) + 1;
  view.at_ms = NowMs();
  view.job = job;
  view.task = task;
  view.commit = commit;
  view.epoch = epoch;
  view.actor = actor_;
  view.event = event;
  view.from_state = from;
  view.to_state = to;
  events_.push_back(std::move(view));
}

void MemoryJobStore::Move(TaskRow& row, TaskState to, std::string_view event) {
  Record(row.task.job, row.task.id, row.task.commit, row.task.epoch, event,
         TaskStateName(row.task.state), TaskStateName(to));
  row.task.state = to;
  row.task.updated_at_ms = NowMs();
}

uint64_t MemoryJobStore::DrawSerial(const Context& ctx) {
  while (true) {
    const uint64_t serial = 1 + RandomBelow(ctx.random, (uint64_t{1} << 42) - 1);
    if (state_.serials.insert(serial).second) return serial;
  }
}

Result<JobId> MemoryJobStore::CreateJob(const Context&, const Plan& plan) {
  return Transact([&]() -> Result<JobId> {
    const std::string& key = plan.job.key.empty() ? plan.job.id : plan.job.key;
    for (const auto& [id, row] : state_.jobs) {
      if (row.spec.key != key && id != plan.job.id) continue;
      if (row.spec.key == key && row.spec.kind == plan.job.kind && row.spec.spec == plan.job.spec)
        return id;
      return Status(Code::kConflict, fmt::format("job key is taken by another request: {}", key));
    }
    JobRow row;
    row.spec = plan.job;
    row.spec.key = key;
    row.created_at_ms = NowMs();
    row.number = std::ssize(state_.jobs);
    state_.jobs[plan.job.id] = row;
    for (const Task& task : plan.tasks) PF_TRY(AddTask(row, task));
    Record(plan.job.id, "", "", 0, "created", "", "OPEN");
    return plan.job.id;
  });
}

Status MemoryJobStore::AddTasks(const Context&, const JobId& job, std::span<const Task> tasks) {
  return Transact([&]() -> Status {
    PF_ASSIGN(const JobRow* row, FindJob(job));
    for (const Task& task : tasks) PF_TRY(AddTask(*row, task));
    return {};
  });
}

Status MemoryJobStore::AddTask(const JobRow& job, const Task& task) {
  const auto found = state_.tasks.find({job.spec.id, task.id});
  if (found != state_.tasks.end()) {
    if (IsSameSource(found->second.task, task)) return {};
    return Status(Code::kCorruption,
                  fmt::format("task id stands for other work already: {}", task.id));
  }
  if (job.state != "OPEN") {
    return Status(Code::kConflict,
                  fmt::format("job takes no more tasks, it is {}: {}", job.state, job.spec.id));
  }
  TaskRow row;
  row.task.id = task.id;
  row.task.job = job.spec.id;
  row.task.kind = task.kind;
  row.task.number = task.number;
  row.task.size_bytes = task.size_bytes;
  row.task.source_job = task.source_job;
  row.task.source_task = task.source_task;
  row.task.group_key = task.group_key;
  row.task.payload = task.payload;
  row.task.created_at_ms = row.task.updated_at_ms = NowMs();
  state_.tasks[{job.spec.id, task.id}] = std::move(row);
  return {};
}

Status MemoryJobStore::Seal(const Context&, const JobId& job, int64_t tasks) {
  return Transact([&]() -> Status {
    PF_ASSIGN(JobRow * row, FindJob(job));
    if (row->state == "SEALED" && row->tasks_expected == tasks) return {};
    const auto registered =
        std::count_if(state_.tasks.begin(), state_.tasks.end(), [&](const auto& entry) {
          return entry.first.first == job && entry.second.task.generation == 0;
        });
    if (row->state != "OPEN" || registered != tasks) {
      return Status(Code::kConflict, fmt::format("seal job with {} tasks: it is {} and has {}: {}",
                                                 tasks, row->state, registered, job));
    }
    row->state = "SEALED";
    row->tasks_expected = tasks;
    row->sealed_at_ms = NowMs();
    Record(job, "", "", 0, "sealed", "OPEN", "SEALED");
    return {};
  });
}

Task MemoryJobStore::Grant(const Context& ctx, TaskRow& row, TaskState to,
                           const AttemptRow& attempt) {
  ++row.task.epoch;
  ++row.task.attempts;
  row.task.started_at_ms = NowMs();
  AttemptRow granted = attempt;
  granted.view.task = row.task.id;
  granted.view.epoch = row.task.epoch;
  granted.view.state = "OPEN";
  granted.view.opened_at_ms = NowMs();
  granted.serial = DrawSerial(ctx);
  row.attempts[row.task.epoch] = granted;
  Move(row, to, "claimed");
  return row.task;
}

Result<std::vector<Lease>> MemoryJobStore::Claim(const Context& ctx, const ClaimRequest& request) {
  return Transact([&]() -> Result<std::vector<Lease>> {
    actor_ = request.worker;
    const auto is_wanted = [&](const TaskRow& row) {
      const JobRow& job = state_.jobs.at(row.task.job);
      const auto in = [](const auto& list, const std::string& one) {
        return std::find(list.begin(), list.end(), one) != list.end();
      };
      return row.task.state == TaskState::kReady && row.task.not_before_ms <= NowMs() &&
             row.task.size_bytes <= request.size_bytes_max && in(request.kinds, row.task.kind) &&
             (job.state == "OPEN" || job.state == "SEALED") && !job.is_paused &&
             (request.only.empty() || in(request.only, row.task.job));
    };
    std::vector<TaskRow*> wanted;
    for (auto& [key, row] : state_.tasks) {
      if (is_wanted(row)) wanted.push_back(&row);
    }
    std::stable_sort(wanted.begin(), wanted.end(), [](const TaskRow* a, const TaskRow* b) {
      if (a->task.size_bytes != b->task.size_bytes) return a->task.size_bytes > b->task.size_bytes;
      return a->task.created_at_ms < b->task.created_at_ms;
    });
    if (wanted.empty() || request.tasks_max < 1) return std::vector<Lease>{};
    // One job a claim, as the real store does.
    std::erase_if(wanted, [first = wanted.front()->task.job](const TaskRow* row) {
      return row->task.job != first;
    });
    std::vector<std::vector<TaskRow*>> groups;
    const Task& largest = wanted.front()->task;
    const auto rule = request.gathering.find(largest.kind);
    const Json& spec = state_.jobs.at(largest.job).spec.spec;
    if (rule != request.gathering.end() && largest.size_bytes <= rule->second.task_bytes_max &&
        (!rule->second.may_gather || rule->second.may_gather(spec))) {
      ClaimOffer offer;
      offer.spec = spec;
      for (TaskRow* row : wanted) {
        offer.ready_bytes += row->task.size_bytes;
        if (std::ssize(offer.tasks) < rule->second.offer_max) offer.tasks.push_back(row->task);
      }
      const auto choice = rule->second.choose(offer);
      PF_TRY(CheckChosen(choice, offer.tasks.size()));
      for (const auto& chosen : choice) {
        auto& group = groups.emplace_back();
        for (const size_t index : chosen) group.push_back(wanted.at(index));
      }
    } else {
      for (TaskRow* row : wanted) {
        if (std::ssize(groups) < request.tasks_max) groups.push_back({row});
      }
    }
    std::vector<Lease> leases;
    for (const auto& group : groups) {
      Lease lease;
      lease.owner = request.worker;
      lease.token = RandomHex(ctx.random, 16);
      for (TaskRow* row : group) {
        AttemptRow attempt;
        attempt.token = lease.token;
        attempt.view.owner = request.worker;
        attempt.view.lease_until_ms = NowMs() + request.lease_ms;
        lease.tasks.push_back(Grant(ctx, *row, TaskState::kInProgress, attempt));
        if (lease.serial == 0) lease.serial = row->attempts.rbegin()->second.serial;
      }
      if (!lease.tasks.empty()) leases.push_back(std::move(lease));
    }
    return leases;
  });
}

Result<std::optional<Lease>> MemoryJobStore::ClaimNamed(const Context& ctx,
                                                        const NamedClaim& claim) {
  return Transact([&]() -> Result<std::optional<Lease>> {
    PF_ASSIGN(const JobRow* job, FindJob(claim.job));
    PF_ASSIGN(TaskRow * row, FindTask(claim.job, claim.task));
    Lease lease;
    lease.owner = claim.worker;
    for (const auto& [epoch, attempt] : row->attempts) {
      if (claim.label.empty() || attempt.view.label != claim.label) continue;
      if (!IsOpen(attempt.view)) return LeaseLost(claim.task, epoch);
      lease.token = attempt.token;
      lease.tasks.push_back(row->task);
      lease.tasks.front().epoch = epoch;
      lease.serial = attempt.serial;
      return std::optional(lease);
    }
    const TaskState state = row->task.state;
    if (claim.twin == NamedClaim::Twin::kSpeculation) {
      const auto open = std::count_if(row->attempts.begin(), row->attempts.end(),
                                      [](const auto& entry) { return IsOpen(entry.second.view); });
      if (state != TaskState::kInProgress || row->task.epoch != claim.epoch || open != 1) {
        return std::optional<Lease>();
      }
    } else {
      const bool is_open_job = job->state == "OPEN" || job->state == "SEALED";
      const bool is_takeable = state == TaskState::kReady || state == TaskState::kInProgress ||
                               state == TaskState::kFinished;
      if (!is_open_job || !is_takeable || !row->task.commit.empty()) return std::optional<Lease>();
    }
    AttemptRow attempt;
    attempt.token = lease.token = RandomHex(ctx.random, 16);
    attempt.view.owner = claim.worker;
    attempt.view.label = claim.label;
    attempt.view.lease_until_ms = NowMs() + claim.lease_ms;
    const TaskState to = state == TaskState::kReady ? TaskState::kInProgress : state;
    lease.tasks.push_back(Grant(ctx, *row, to, attempt));
    lease.serial = row->attempts.rbegin()->second.serial;
    return std::optional(lease);
  });
}

Candidates MemoryJobStore::CandidatesOf(const JobId& job, const BatchRequest& request) {
  Candidates candidates;
  candidates.now_ms = NowMs();
  std::vector<Task> normalized;
  for (const auto& [key, row] : state_.tasks) {
    if (key.first != job) continue;
    if (row.task.generation == 0) {
      candidates.window_from_ms = std::max(candidates.window_from_ms, row.task.ready_at_ms);
    }
    if (row.task.state != TaskState::kCompactReady) continue;
    if (row.task.parts_peak > 1) candidates.fragmented.push_back(row.task);
    if (row.task.parts_out == 1) normalized.push_back(row.task);
  }
  std::stable_sort(candidates.fragmented.begin(), candidates.fragmented.end(),
                   [](const Task& a, const Task& b) { return a.parts_out > b.parts_out; });
  if (candidates.fragmented.size() > 16) candidates.fragmented.resize(16);
  std::stable_sort(normalized.begin(), normalized.end(),
                   [](const Task& a, const Task& b) { return a.bytes_out < b.bytes_out; });
  const auto is_sibling = [](const Task& a, const Task& b) {
    return a.id != b.id && a.group_key == b.group_key && a.partition_id == b.partition_id;
  };
  for (const Task& task : normalized) {
    const bool has_room = std::any_of(normalized.begin(), normalized.end(), [&](const Task& other) {
      return is_sibling(task, other) && task.bytes_out + other.bytes_out <= request.bytes_max;
    });
    if (!has_room) continue;
    candidates.batch.push_back(task);
    for (const Task& other : normalized) {
      if (std::ssize(candidates.batch) < request.tasks_max && is_sibling(task, other)) {
        candidates.batch.push_back(other);
      }
    }
    break;
  }
  return candidates;
}

Result<std::optional<Lease>> MemoryJobStore::ClaimBatch(const Context& ctx,
                                                        const BatchRequest& request,
                                                        const ChooseBatch& choose) {
  return Transact([&]() -> Result<std::optional<Lease>> {
    PF_ASSIGN(const JobRow* job, FindJob(request.job));
    if ((job->state != "OPEN" && job->state != "SEALED") || job->is_paused)
      return std::optional<Lease>();
    const std::vector<TaskEdit> edits = choose(CandidatesOf(request.job, request));
    if (edits.empty()) return std::optional<Lease>();
    for (const TaskEdit& edit : edits) {
      PF_ASSIGN(const TaskRow* row, FindTask(request.job, edit.id));
      // Somebody took a member: then the whole batch is not taken.
      if (row->task.state != TaskState::kCompactReady || row->task.epoch != edit.epoch) {
        return std::optional<Lease>();
      }
    }
    actor_ = request.worker;
    Lease lease;
    lease.owner = request.worker;
    lease.token = RandomHex(ctx.random, 16);
    lease.output = request.output.empty() ? edits.front().superseded_by : request.output;
    AttemptRow attempt;
    attempt.token = lease.token;
    attempt.view.owner = request.worker;
    attempt.view.lease_until_ms = NowMs() + request.lease_ms;
    for (const TaskEdit& edit : edits) {
      PF_ASSIGN(TaskRow * row, FindTask(request.job, edit.id));
      row->output_id = lease.output;
      row->task.finalize_at_ms = 0;
      lease.tasks.push_back(Grant(ctx, *row, TaskState::kCompacting, attempt));
      if (lease.tasks.size() == 1) lease.serial = row->attempts.rbegin()->second.serial;
    }
    return std::optional(lease);
  });
}

Status MemoryJobStore::Renew(const Context&, const Lease& lease, int64_t lease_ms) {
  return Transact([&]() -> Status {
    for (const Task& task : lease.tasks) {
      PF_ASSIGN(TaskRow * row, FindTask(task.job, task.id));
      const auto attempt = row->attempts.find(task.epoch);
      if (attempt == row->attempts.end() || !IsOpen(attempt->second.view) ||
          attempt->second.token != lease.token) {
        return LeaseLost(task.id, task.epoch);
      }
      attempt->second.view.lease_until_ms = NowMs() + lease_ms;
    }
    return {};
  });
}

Result<bool> MemoryJobStore::Report(const Context&, const Lease& lease, const Progress& progress) {
  return Transact([&]() -> Result<bool> {
    bool is_asked = false;
    for (const Task& task : lease.tasks) {
      PF_ASSIGN(TaskRow * row, FindTask(task.job, task.id));
      const auto found = row->attempts.find(task.epoch);
      if (found == row->attempts.end() || !IsOpen(found->second.view) ||
          found->second.token != lease.token) {
        return LeaseLost(task.id, task.epoch);
      }
      AttemptView& view = found->second.view;
      view.stage = progress.stage;
      view.fraction = progress.fraction;
      view.rows_done = progress.rows;
      view.bytes_done = progress.bytes;
      view.progress = progress.detail;
      view.progress_at_ms = NowMs();
      is_asked =
          is_asked || (row->task.state == TaskState::kCompacting && row->task.finalize_at_ms > 0);
    }
    return is_asked;
  });
}

Status MemoryJobStore::Settle(const Context&, const Lease& lease, const Settlement& settlement) {
  return Transact([&]() -> Status {
    actor_ = lease.owner;
    if (settlement.added.size() != settlement.added_results.size()) {
      return Status(Code::kInvalidArgument, "a settlement needs one result for each task it adds");
    }
    for (const TaskEdit& edit : settlement.edits) PF_TRY(SettleEdit(lease, edit));
    for (size_t i = 0; i < settlement.added.size(); ++i) PF_TRY(AddOutput(lease, settlement, i));
    return {};
  });
}

Status MemoryJobStore::SettleEdit(const Lease& lease, const TaskEdit& edit) {
  PF_ASSIGN(TaskRow * row, FindTask(lease.tasks.front().job, edit.id));
  const auto found = row->attempts.find(edit.epoch);
  if (found == row->attempts.end() || !IsOpen(found->second.view) ||
      found->second.token != lease.token || !row->task.commit.empty()) {
    return LeaseLost(edit.id, edit.epoch);
  }
  AttemptRow& attempt = found->second;
  const bool is_labelled = !attempt.view.label.empty();
  const bool is_later_load = is_labelled && row->task.state == TaskState::kFinished;
  if (row->task.state != edit.from && !(is_later_load && edit.from == TaskState::kInProgress)) {
    return LeaseLost(edit.id, edit.epoch);
  }
  attempt.view.ended_at_ms = NowMs();
  const bool is_finish = edit.result.has_value() &&
                         (edit.to == TaskState::kFinished || edit.to == TaskState::kCompactReady);
  if (is_finish) {
    attempt.view.state = "FINISHED";
    attempt.result = *edit.result;
    attempt.view.result = edit.result->outputs;
    attempt.view.rows_result = edit.result->rows_out;
    attempt.view.bytes_result = edit.result->bytes_out;
    attempt.view.digest = edit.result->digest;
    if (is_later_load) return {};
    for (auto& [epoch, twin] : row->attempts) {
      if (epoch == edit.epoch || !IsOpen(twin.view) || is_labelled) continue;
      twin.view.state = "LOST";
      twin.view.ended_at_ms = NowMs();
    }
    row->task.winner = edit.epoch;
    KeepResult(row->task, *edit.result);
    row->task.failure_class.clear();
    row->task.failure_code = 0;
    if (edit.to == TaskState::kCompactReady) row->task.ready_at_ms = NowMs();
    row->task.payload = WithError(edit.payload.value_or(row->task.payload), "");
    Move(*row, edit.to, "finished");
    return {};
  }
  const bool is_release = edit.to == TaskState::kReady || edit.to == TaskState::kCompactReady;
  if (!is_release && edit.to != TaskState::kFailed && edit.to != TaskState::kSuperseded) {
    return Status(Code::kInvalidArgument,
                  fmt::format("an attempt cannot end as {} without a result: {}",
                              TaskStateName(edit.to), edit.id));
  }
  attempt.view.state = is_release ? "LOST" : "ABORTED";
  const bool has_twin = std::any_of(row->attempts.begin(), row->attempts.end(),
                                    [](const auto& entry) { return IsOpen(entry.second.view); });
  // The task stays with the twin that still runs, or with the result that another load attempt has
  // given.
  if ((has_twin && edit.to != TaskState::kSuperseded) || is_later_load) return {};
  row->task.superseded_by = edit.superseded_by;
  row->task.not_before_ms = NowMs() + edit.backoff_ms;
  row->output_id.clear();
  row->task.finalize_at_ms = 0;
  if (edit.to == TaskState::kSuperseded && row->task.ready_at_ms == 0)
    row->task.ready_at_ms = NowMs();
  row->task.failure_class = edit.failure_class;
  row->task.failure_code = edit.failure_code;
  const std::string_view error = edit.to == TaskState::kFailed ? std::string_view(edit.error) : "";
  row->task.payload = WithError(edit.payload.value_or(row->task.payload), error);
  Move(*row, edit.to,
       is_release                      ? "released"
       : edit.to == TaskState::kFailed ? "failed"
                                       : "superseded");
  return {};
}

Status MemoryJobStore::AddOutput(const Lease& lease, const Settlement& settlement, size_t index) {
  const Task& added = settlement.added[index];
  const JobId& job = lease.tasks.front().job;
  if (state_.tasks.contains({job, added.id})) {
    return Status(Code::kConflict, fmt::format("output of the batch exists already: {}", added.id));
  }
  TaskRow row;
  row.task = added;
  row.task.job = job;
  row.task.state = added.state == TaskState::kReady ? TaskState::kCompactReady : added.state;
  row.task.epoch = row.task.winner = std::max<uint64_t>(1, added.epoch);
  row.task.created_at_ms = row.task.updated_at_ms = NowMs();
  row.task.ready_at_ms = 0;
  for (const TaskEdit& edit : settlement.edits) {
    PF_ASSIGN(const TaskRow* input, FindTask(job, edit.id));
    row.task.ready_at_ms = std::max(row.task.ready_at_ms, input->task.ready_at_ms);
  }
  const TaskResult& result = settlement.added_results[index];
  KeepResult(row.task, result);
  AttemptRow attempt;
  attempt.result = result;
  attempt.view.task = added.id;
  attempt.view.epoch = row.task.epoch;
  attempt.view.state = "FINISHED";
  attempt.view.owner = lease.owner;
  attempt.view.opened_at_ms = attempt.view.ended_at_ms = NowMs();
  attempt.view.result = result.outputs;
  attempt.view.rows_result = result.rows_out;
  attempt.view.bytes_result = result.bytes_out;
  attempt.view.digest = result.digest;
  row.attempts[row.task.epoch] = std::move(attempt);
  Record(job, added.id, "", row.task.epoch, "added", "", TaskStateName(row.task.state));
  state_.tasks[{job, added.id}] = std::move(row);
  return {};
}

Result<int64_t> MemoryJobStore::Reap(const Context&, const ReapRules& rules) {
  return Transact([&]() -> Result<int64_t> {
    int64_t reaped = 0;
    for (auto& [key, row] : state_.tasks) {
      for (auto& [epoch, attempt] : row.attempts) {
        if (reaped >= kReapedMax) return reaped;
        if (!IsOpen(attempt.view) || attempt.view.lease_until_ms >= NowMs()) continue;
        PF_TRY(ReapAttempt(row, attempt, rules));
        ++reaped;
      }
    }
    return reaped;
  });
}

int64_t MemoryJobStore::TasksOfLease(std::string_view token) const {
  int64_t tasks = 0;
  for (const auto& [key, row] : state_.tasks) {
    tasks += std::count_if(row.attempts.begin(), row.attempts.end(),
                           [&](const auto& entry) { return entry.second.token == token; });
  }
  return tasks;
}

Result<int64_t> MemoryJobStore::Release(const Context&, const Lease& lease) {
  return Transact([&]() -> Result<int64_t> {
    actor_ = lease.owner;
    int64_t released = 0;
    for (const Task& task : lease.tasks) {
      const auto found = state_.tasks.find({task.job, task.id});
      if (found == state_.tasks.end()) continue;
      TaskRow& row = found->second;
      const auto ours = row.attempts.find(task.epoch);
      const bool is_ours = ours != row.attempts.end() && IsOpen(ours->second.view) &&
                           ours->second.token == lease.token;
      if (!is_ours) continue;
      const bool is_batch = row.task.state == TaskState::kCompacting;
      TaskEdit edit = EditTo(row.task, is_batch ? TaskState::kCompactReady : TaskState::kReady);
      edit.epoch = task.epoch;
      PF_TRY(SettleEdit(lease, edit));
      ++released;
    }
    return released;
  });
}

Status MemoryJobStore::ReapAttempt(TaskRow& row, AttemptRow& attempt, const ReapRules& rules) {
  attempt.view.state = "LOST";
  attempt.view.ended_at_ms = NowMs();
  const bool has_twin = std::any_of(row.attempts.begin(), row.attempts.end(),
                                    [](const auto& entry) { return IsOpen(entry.second.view); });
  if (has_twin) return {};
  if (row.task.state != TaskState::kInProgress && row.task.state != TaskState::kCompacting)
    return {};
  const bool is_batch = row.task.state == TaskState::kCompacting;
  const int64_t lease_tasks = TasksOfLease(attempt.token);
  row.task.not_before_ms = NowMs() + rules.backoff_ms;
  row.output_id.clear();
  row.task.finalize_at_ms = 0;
  row.task.failure_class = lease_tasks > 1 ? "crash" : "";
  row.task.failure_code = lease_tasks > 1 ? lease_tasks : 0;
  if (lease_tasks == 1) ++row.task.crashes;
  const bool is_poison = !is_batch && lease_tasks == 1 && row.task.crashes >= rules.crashes_max;
  if (is_poison) {
    row.task.failure_class = "poison";
    row.task.payload = WithError(row.task.payload, "PF2139: its worker vanished");
  }
  Move(row,
       is_poison  ? TaskState::kFailed
       : is_batch ? TaskState::kCompactReady
                  : TaskState::kReady,
       "reaped");
  return {};
}

Status MemoryJobStore::Amend(const Context&, const JobId& job, const Settlement& settlement) {
  return Transact([&]() -> Status {
    if (std::ssize(settlement.edits) > kPerCallMax) {
      return Status(Code::kInvalidArgument,
                    fmt::format("an amendment holds at most {} edits", kPerCallMax));
    }
    for (const TaskEdit& edit : settlement.edits) PF_TRY(AmendEdit(job, edit));
    return {};
  });
}

Status MemoryJobStore::AmendEdit(const JobId& job, const TaskEdit& edit) {
  PF_ASSIGN(TaskRow * row, FindTask(job, edit.id));
  const bool is_running = std::any_of(row->attempts.begin(), row->attempts.end(),
                                      [](const auto& entry) { return IsOpen(entry.second.view); });
  if (row->task.state != edit.from || row->task.epoch != edit.epoch || !row->task.commit.empty() ||
      is_running) {
    return Status(Code::kConflict, fmt::format("task has moved: {}", edit.id));
  }
  ++row->task.epoch;
  if (edit.to == TaskState::kReady) {
    row->task.winner = 0;
    row->task.ready_at_ms = 0;
  }
  if (edit.to == TaskState::kCompactReady && row->task.ready_at_ms == 0)
    row->task.ready_at_ms = NowMs();
  row->task.superseded_by = edit.superseded_by;
  row->task.finalize_at_ms = 0;
  row->task.crashes = 0;
  row->task.not_before_ms = 0;
  const bool is_failed = edit.to == TaskState::kFailed;
  row->task.failure_class = is_failed ? edit.failure_class : std::string();
  row->task.failure_code = is_failed ? edit.failure_code : 0;
  row->task.payload = WithError(edit.payload.value_or(row->task.payload),
                                is_failed ? std::string_view(edit.error) : "");
  Move(*row, edit.to, "amended");
  return {};
}

Result<int64_t> MemoryJobStore::Finalize(const Context&, const JobId& job) {
  return Transact([&]() -> Result<int64_t> {
    int64_t moved = 0;
    for (auto& [key, row] : state_.tasks) {
      if (key.first != job || row.task.state != TaskState::kCompactReady || moved == kPerCallMax)
        continue;
      Move(row, TaskState::kFinished, "finalized");
      ++moved;
    }
    return moved;
  });
}

Status MemoryJobStore::SetPaused(const Context&, const JobId& job, bool is_paused) {
  return Transact([&]() -> Status {
    PF_ASSIGN(JobRow * row, FindJob(job));
    row->is_paused = is_paused;
    return {};
  });
}

}  // namespace partforge::testing
