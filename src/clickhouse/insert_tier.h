#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "clickhouse/chunks.h"
#include "clickhouse/tuning.h"
#include "engine/retry_ladder.h"

namespace partforge::clickhouse {

// How an INSERT SELECT is cut into blocks, and whether anything merges afterwards (performance §4).
enum class InsertTier : uint8_t {
  kOneBlock,        // T5: the whole range in one block, one part per partition, no merge
  kManyInOne,       // T5b: the same for several source parts together
  kBlocksAndMerge,  // T6: blocks as large as memory allows, then one vertical merge pass
  kSeed,            // T8: the engine's own blocks, the seed's merge wait
};
std::string_view TierName(InsertTier tier);  // "T5", "T5b", "T6", "T8"
// "auto" = empty; "T5"/"one-block", "T5b"/"many-in-one", "T6"/"blocks", "T8"/"seed", any case.
// kInvalidArgument otherwise.
Result<std::optional<InsertTier>> ParseTier(std::string_view text);

struct TierQuestion {
  BlockQuestion block;  // rows and raw bytes of the part, or of all parts together; memory, slots
  int64_t source_parts = 1;
  Tuning tuning;
  std::optional<InsertTier> forced;
  bool is_chunk_safe = true;
  int64_t chunk_rows_min = 10'000'000;  // 0 = whole part
  bool is_chunk_rows_explicit = false;  // the flag was given: also a part that fits is split
};

// How the next INSERT of a part runs. Only ever shrinks.
struct InsertState {
  InsertTier tier = InsertTier::kSeed;
  int64_t block_rows = 0;  // T5, T5b, T6
  ResourceRung rung;       // T8; max_block_size 0 = the engine's default, not read yet
  bool operator==(const InsertState&) const = default;
};

struct InsertPlan {
  InsertState state;
  std::vector<RowRange> ranges;  // of _part_offset; one range = no restriction is sent
  std::string reason;            // why this tier, for people
};
// For a destination whose result depends on the order of rows (PF2112): one thread reads and one
// inserts, in every tier and on every rung, so that the blocks keep the order of the part.
Tuning OrderedTuning(Tuning tuning);

// Chooses the tier and the chunks of one part (decisions 14 and 19), or of several source parts
// together: these are never cut into chunks. Pure.
InsertPlan PlanInsert(const TierQuestion& question);

// What to try after the engine ran out of memory or threads: T5, T5b → T6 with half the block, T6
// halves down to 262,144 rows, then T8 with the seed's ladder. Empty = give up. `engine_block_rows`
// is the engine's max_block_size.
std::optional<InsertState> Shrink(const InsertState& state, const Tuning& tuning,
                                  int64_t engine_block_rows);

// What an INSERT reads of the source: all of it, or a range of its rows.
enum class InsertReads : uint8_t { kAll, kRange };

// Query settings of an INSERT in this state (clickhouse-parts §9.1, performance §3).
std::map<std::string, std::string> InsertSettings(const InsertState& state, const Tuning& tuning,
                                                  InsertReads reads);

}  // namespace partforge::clickhouse
