#include "job/settle.h"

#include <algorithm>

#include "job/backoff.h"

namespace partforge {
namespace {

constexpr int64_t kTriesMax = 1'000;  // a lease that is renewed for ever must not spin for ever

// Whether the attempt's end is the one the edit asked for (state-schema §4.5).
bool IsEndOf(const TaskEdit& edit, const std::string& attempt_state) {
  switch (edit.to) {
    case TaskState::kCompactReady:
      if (!edit.result.has_value()) return attempt_state == "LOST";  // a batch handed back
      return attempt_state == "FINISHED" || attempt_state == "CHOSEN";
    case TaskState::kFinished:
      return attempt_state == "FINISHED" || attempt_state == "CHOSEN";
    case TaskState::kReady:
      return attempt_state == "LOST";
    default:
      return attempt_state == "ABORTED";  // FAILED, and inputs that were superseded
  }
}

}  // namespace

Result<SettleFate> ReadSettleFate(const Context& ctx, StateReader& reader, const Lease& lease,
                                  const Settlement& settlement) {
  for (const TaskEdit& edit : settlement.edits) {
    const auto task = std::find_if(lease.tasks.begin(), lease.tasks.end(),
                                   [&](const Task& one) { return one.id == edit.id; });
    if (task == lease.tasks.end()) continue;
    PF_ASSIGN(const auto attempts, reader.Attempts(ctx, task->job, task->id));
    const auto ours = std::find_if(attempts.begin(), attempts.end(),
                                   [&](const AttemptView& one) { return one.epoch == edit.epoch; });
    if (ours == attempts.end()) return SettleFate::kLost;
    if (ours->state == "OPEN") return SettleFate::kNotHappened;
    if (!IsEndOf(edit, ours->state)) return SettleFate::kLost;
    // A settlement is all or nothing, so its first edit tells for all of them.
    return SettleFate::kHappened;
  }
  return SettleFate::kLost;
}

Status SettleUnknownOutcome(const Context& ctx, JobStore& store, const HeldLease& held,
                            const Settlement& settlement) {
  bool is_in_doubt = false;
  Status last;
  for (int64_t tries = 1; tries <= kTriesMax; ++tries) {
    last = store.Settle(ctx, held.lease(), settlement);
    if (last.ok()) return {};
    is_in_doubt = is_in_doubt || last.code() == Code::kUnknownOutcome;
    if (is_in_doubt && (last.code() == Code::kUnknownOutcome || last.code() == Code::kLeaseLost)) {
      const auto fate = ReadSettleFate(ctx, store, held.lease(), settlement);
      if (fate.ok() && *fate == SettleFate::kHappened) return {};
      if (fate.ok() && *fate == SettleFate::kLost) {
        return Status(Code::kLeaseLost, "settle: the attempt was ended by somebody else");
      }
    } else if (last.code() != Code::kUnavailable) {
      return last;
    }
    if (held.is_lost() || held.IsExpired(ctx.clock.NowMs()) || ctx.IsStopping()) return last;
    ctx.clock.SleepMs(BackoffMs(ctx.random, tries), ctx.stop);
  }
  return last;
}

}  // namespace partforge
