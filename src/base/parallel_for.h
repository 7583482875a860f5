#pragma once

#include <cstdint>
#include <functional>

#include "base/context.h"

namespace partforge {

// Calls body(ctx, 0 … count-1), at most `threads` at once, each call with a context whose stop
// fires at the first failure. Returns the failure of the smallest index that failed, a cancelled
// one only when nothing else failed. threads <= 1 runs in the caller's thread.
Status ParallelFor(const Context& ctx, int64_t count, int threads,
                   const std::function<Status(const Context&, int64_t)>& body);

}  // namespace partforge
