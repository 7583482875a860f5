#include "job/backoff.h"

#include <algorithm>

namespace partforge {
namespace {

constexpr int64_t kFirstMs = 1'000;
constexpr int64_t kLongestMs = 10'000;

}  // namespace

int64_t BackoffMs(Random& random, int64_t tries) {
  const int64_t doublings = std::clamp<int64_t>(tries - 1, 0, 10);
  const int64_t base_ms = std::min(kLongestMs, kFirstMs << doublings);
  const auto spread_ms =
      static_cast<int64_t>(RandomBelow(random, static_cast<uint64_t>(base_ms * 2 / 5)));
  return base_ms - base_ms / 5 + spread_ms;
}

}  // namespace partforge
