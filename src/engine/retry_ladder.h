#pragma once

#include <cstdint>
#include <optional>

namespace partforge {

// The resource ladder (clickhouse-parts §9.4): what an insert that ran out of memory or threads
// tries next. Pure.
struct ResourceRung {
  int64_t max_insert_threads = 1;
  int64_t max_threads = 1;
  int64_t max_block_size =
      0;  // rows; the caller reads the engine's own value before the first step
  bool operator==(const ResourceRung&) const = default;
};

inline constexpr int64_t kLadderBlockRowsMin = 8192;

// Halves each value on its own: threads down to 1, the block down to 8192 rows; a block already
// below that is kept. Empty when nothing would change: give up with class `resource`.
std::optional<ResourceRung> NextRung(const ResourceRung& current);

// Pause before the retry after the n-th failure (from 1): 1, 2, 4, 8, then 10 s.
int64_t LadderPauseMs(int64_t failures);

}  // namespace partforge
