#pragma once

#include <stop_token>
#include <string_view>

#include "base/clock.h"
#include "base/error.h"
#include "base/faults.h"
#include "base/log.h"
#include "base/memory_budget.h"
#include "base/metrics.h"
#include "base/random.h"

namespace partforge {

// The outside world: passed first, by reference, never stored past the call. A thread that needs a
// stop token of its own copies the Context and replaces `stop`.
struct Context {
  Clock& clock;
  Random& random;
  Faults& faults;
  Log& log;
  Metrics& metrics;
  MemoryBudget& memory;
  std::stop_token stop;

  bool IsStopping() const { return stop.stop_requested(); }
  // kCancelled when a stop was asked for; the message says while doing what.
  Status CheckStop(std::string_view doing) const;
};

// Logs a failure that must not stop anything, and says why it may be ignored.
void Ignore(const Context& ctx, const Status& status, std::string_view why);

}  // namespace partforge
