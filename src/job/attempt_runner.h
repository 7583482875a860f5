#pragma once

#include <cstdint>
#include <stop_token>

#include "base/context.h"
#include "job/job_store.h"
#include "job/kind.h"
#include "job/lease_keeper.h"
#include "job/run_folder.h"
#include "job/stage_permits.h"
#include "job/work_claimer.h"

namespace partforge {

enum class AttemptEnd : uint8_t {
  kDone,      // the executor's settlement stands
  kFailed,    // at least one task is FAILED
  kReleased,  // handed back
  kLost,      // somebody else has the work, or the store could not be told: nothing of it counts
};

struct AttemptRules {
  int64_t progress_interval_ms = 15'000;  // 0 = no progress is recorded
  int64_t attempts_max = 0;               // see FailureRules
  Renewal renewal = Renewal::kByThread;
  // Attempts run beside those that have a slot: each gets one with its permit of kEngine.
  bool are_slots_shared = false;
};

// Runs one lease from claim to settlement. Safe for concurrent use.
class AttemptRunner {
 public:
  // `folder` may be null: executors then get empty paths.
  AttemptRunner(JobStore& store, LeaseKeeper& keeper, StagePermits& permits,
                const RunFolder* folder, AttemptRules rules)
      : store_(store), keeper_(keeper), permits_(permits), folder_(folder), rules_(rules) {}

  // The lease is given back to the keeper at the end. ctx.stop cancels the executor; `last_word` is
  // what cancels the settlement that follows. An escaping exception is caught here: the task is
  // FAILED, the worker lives. The settlement is also what tells why: `ended` (may be null) receives
  // it.
  Result<AttemptEnd> Run(const Context& ctx, std::stop_token last_word, const ClaimedWork& work,
                         int slot, Settlement* ended);

 private:
  Result<Settlement> Execute(const Context& ctx, Executor& executor, const HeldLease& held,
                             int slot);
  Status Settle(const Context& ctx, const HeldLease& held, Settlement& settlement);

  JobStore& store_;
  LeaseKeeper& keeper_;
  StagePermits& permits_;
  const RunFolder* folder_;
  const AttemptRules rules_;
};

}  // namespace partforge
