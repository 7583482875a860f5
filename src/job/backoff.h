#pragma once

#include <cstdint>

#include "base/random.h"

namespace partforge {

// How long to wait after the failure number `tries` (from 1) of something that did not answer: 1,
// 2, 4, 8, 10 s ± 20 % (ARCHITECTURE.md, "Errors and exit codes"). Never 0.
int64_t BackoffMs(Random& random, int64_t tries);

}  // namespace partforge
