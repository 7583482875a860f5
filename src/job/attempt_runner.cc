#include "job/attempt_runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <new>
#include <optional>

#include "job/backoff.h"
#include "job/failure.h"
#include "job/settle.h"

namespace partforge {
namespace {

// The TaskScope of one attempt. Lives inside Execute, so it may keep the call's context.
class AttemptScope final : public TaskScope {
 public:
  AttemptScope(const Context& ctx, JobStore& store, LeaseKeeper& keeper, StagePermits& permits,
               const AttemptRules& rules, const HeldLease& held)
      : ctx_(ctx), store_(store), keeper_(keeper), permits_(permits), rules_(rules), held_(held) {}

  int slot() const override { return slot_; }
  std::filesystem::path scratch() const override { return scratch_; }
  std::filesystem::path slot_path() const override { return slot_path_; }

  Status MakeFolders(const RunFolder* folder, int slot) {
    folder_ = folder;
    if (folder != nullptr) {
      const Task& first = held_.lease().tasks.front();
      PF_ASSIGN(scratch_, folder->MakeScratch(first.id, first.epoch));
    }
    return rules_.are_slots_shared ? Status() : TakeSlot(slot);
  }

  Result<std::shared_ptr<void>> Enter(const Context& ctx, Stage stage) override {
    RenewIfAlone();
    if (!rules_.are_slots_shared || stage != Stage::kEngine) return permits_.Enter(ctx, stage);
    PF_ASSIGN(StagePermits::SlotPermit own, permits_.EnterSlot(ctx));
    PF_TRY(TakeSlot(own.slot));
    return std::move(own.permit);
  }

  Status Report(const Context& ctx, const Progress& progress) override {
    RenewIfAlone();
    PF_TRY(held_.Check(ctx.clock.NowMs()));
    const int64_t now_ms = ctx.clock.NowMs();
    if (rules_.progress_interval_ms <= 0) return {};
    if (reported_at_ms_.has_value() && now_ms - *reported_at_ms_ < rules_.progress_interval_ms)
      return {};
    reported_at_ms_ = now_ms;
    const auto asked = store_.Report(ctx, held_.lease(), progress);
    if (asked.ok()) {
      is_finalize_asked_ = is_finalize_asked_ || *asked;
      return {};
    }
    if (asked.status().code() == Code::kLeaseLost) return asked.status();
    // Progress is for people: that it could not be written never fails the work.
    ctx.log.Debug("progress not recorded", {{"error", asked.status().message()}});
    return {};
  }

  bool is_finalize_asked() const override { return is_finalize_asked_; }

  Status CheckLease() const override {
    RenewIfAlone();
    return held_.Check(ctx_.clock.NowMs());
  }

 private:
  Status TakeSlot(int slot) {
    slot_ = slot;
    if (folder_ == nullptr) return {};
    PF_ASSIGN(slot_path_, folder_->MakeSlot(slot));
    return {};
  }
  void RenewIfAlone() const {
    if (rules_.renewal == Renewal::kByCaller) keeper_.RenewDue(ctx_);
  }

  const Context& ctx_;
  JobStore& store_;
  LeaseKeeper& keeper_;
  StagePermits& permits_;
  const AttemptRules& rules_;
  const HeldLease& held_;
  const RunFolder* folder_ = nullptr;
  int slot_ = 0;
  std::filesystem::path scratch_, slot_path_;
  std::optional<int64_t> reported_at_ms_;
  bool is_finalize_asked_ = false;
};

// Executors call foreign libraries; what those throw ends here. Types that are not std::exception
// belong to tests.
Result<Settlement> ExecuteGuarded(const Context& ctx, Executor& executor, const Lease& lease,
                                  TaskScope& scope) {
  try {
    return executor.Execute(ctx, lease, scope);
  } catch (const std::bad_alloc&) {
    return Status(Code::kExhausted, "execute task: memory allocation failed");
  } catch (const std::exception& error) {
    return Status(Code::kInternal,
                  fmt::format("execute task: unexpected exception: {}", error.what()));
  }
}

AttemptEnd EndOf(const Settlement& settlement) {
  if (HasFailed(settlement)) return AttemptEnd::kFailed;
  const bool is_released =
      std::all_of(settlement.edits.begin(), settlement.edits.end(), [](const TaskEdit& edit) {
        return edit.to == TaskState::kReady ||
               (edit.to == TaskState::kCompactReady && !edit.result.has_value());
      });
  return is_released ? AttemptEnd::kReleased : AttemptEnd::kDone;
}

}  // namespace

Result<AttemptEnd> AttemptRunner::Run(const Context& ctx, std::stop_token last_word,
                                      const ClaimedWork& work, int slot, Settlement* ended) {
  const HeldLease& held = *work.held;
  // Local work ends when the worker stops or the lease is gone, whichever comes first.
  std::stop_source work_stop;
  const auto stop = [&work_stop] { work_stop.request_stop(); };
  const std::stop_callback on_worker_stop(ctx.stop, stop);
  const std::stop_callback on_lease_end(held.stop_token(), stop);
  Context work_ctx = ctx;
  work_ctx.stop = work_stop.get_token();

  Result<Settlement> outcome = Execute(work_ctx, *work.executor, held, slot);
  if (!outcome.ok()) {
    const int64_t attempts = held.lease().tasks.front().attempts;
    outcome = SettlementFor(held.lease(), outcome.status(),
                            FailureRules{.backoff_ms = BackoffMs(ctx.random, attempts),
                                         .attempts_max = rules_.attempts_max,
                                         .is_stopping = work_ctx.IsStopping(),
                                         .read_failure = work.read_failure});
  }
  Settlement settlement = std::move(outcome).value();
  Context settle_ctx = ctx;
  settle_ctx.stop = std::move(last_word);
  const Status settled = Settle(settle_ctx, held, settlement);
  keeper_.Remove(held);
  if (ended != nullptr) *ended = settlement;
  if (!settled.ok()) {
    // A lease of several tasks is lost when one of them is. The others need not wait for its end.
    if (settled.code() == Code::kLeaseLost && held.lease().tasks.size() > 1) {
      const Result<int64_t> released = store_.Release(settle_ctx, held.lease());
      if (!released.ok()) Ignore(settle_ctx, released.status(), "the lease ends by itself");
    }
    ctx.metrics.Add("partforge_lease_lost_total",
                    {{"status", std::string(TaskStateName(held.lease().tasks.front().state))}});
    ctx.log.Info("attempt dropped", {{"task", held.lease().tasks.front().id},
                                     {"epoch", held.lease().tasks.front().epoch},
                                     {"why", settled.message()}});
    return AttemptEnd::kLost;
  }
  PF_FAULT(ctx, "job.settled");
  return EndOf(settlement);
}

Result<Settlement> AttemptRunner::Execute(const Context& ctx, Executor& executor,
                                          const HeldLease& held, int slot) {
  AttemptScope scope(ctx, store_, keeper_, permits_, rules_, held);
  PF_TRY(scope.MakeFolders(folder_, slot));
  Result<Settlement> outcome = ExecuteGuarded(ctx, executor, held.lease(), scope);
  if (!scope.scratch().empty()) {
    Ignore(ctx, RemoveTree(scope.scratch()), "scratch goes with the run folder at the latest");
  }
  return outcome;
}

Status AttemptRunner::Settle(const Context& ctx, const HeldLease& held, Settlement& settlement) {
  Status settled = SettleUnknownOutcome(ctx, store_, held, settlement);
  if (settled.ok()) return settled;
  switch (settled.code()) {
    case Code::kLeaseLost:
    case Code::kUnavailable:
    case Code::kUnknownOutcome:
    case Code::kCancelled:
      return settled;
    default:
      break;
  }
  // The store refuses the settlement itself. The task must not run again and again into the same
  // refusal.
  const Lease& lease = held.lease();
  ctx.log.Error("settlement refused",
                {{"task", lease.tasks.front().id}, {"error", settled.message()}});
  settlement = FailedSettlement(lease, FailureFrom(std::move(settled).As(Code::kInternal)));
  return SettleUnknownOutcome(ctx, store_, held, settlement);
}

}  // namespace partforge
