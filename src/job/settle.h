#pragma once

#include <cstdint>

#include "base/context.h"
#include "job/job_store.h"
#include "job/lease_keeper.h"
#include "job/task.h"

namespace partforge {

enum class SettleFate : uint8_t {
  kHappened,     // the attempts ended as the settlement says
  kNotHappened,  // they are still open: settle again
  kLost,         // somebody else ended them: the result is worth nothing
};
// What became of a settlement whose reply was lost (clickhouse-parts §15 #24): reads the attempts
// back and compares. Only the owner of an attempt settles it, so an attempt that ended our way was
// ended by us.
Result<SettleFate> ReadSettleFate(const Context& ctx, StateReader& reader, const Lease& lease,
                                  const Settlement& settlement);

// Settles until it is known what happened: waits while the store does not answer, as long as the
// lease lives, and reads back after a lost reply. kLeaseLost when somebody else has taken the work
// over; kUnavailable or kUnknownOutcome when the lease ran out, or ctx.stop was asked for, before
// the store answered.
Status SettleUnknownOutcome(const Context& ctx, JobStore& store, const HeldLease& held,
                            const Settlement& settlement);

}  // namespace partforge
