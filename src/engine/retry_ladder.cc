#include "engine/retry_ladder.h"

#include <algorithm>

namespace partforge {

std::optional<ResourceRung> NextRung(const ResourceRung& current) {
  ResourceRung next;
  next.max_insert_threads = std::max<int64_t>(1, current.max_insert_threads / 2);
  next.max_threads = std::max<int64_t>(1, current.max_threads / 2);
  next.max_block_size = current.max_block_size < kLadderBlockRowsMin
                            ? current.max_block_size
                            : std::max(kLadderBlockRowsMin, current.max_block_size / 2);
  if (next == current) return std::nullopt;
  return next;
}

int64_t LadderPauseMs(int64_t failures) {
  constexpr int64_t kPauseMsMax = 10'000;
  if (failures <= 1) return 1'000;
  if (failures > 4) return kPauseMsMax;
  return int64_t{1'000} << (failures - 1);
}

}  // namespace partforge
