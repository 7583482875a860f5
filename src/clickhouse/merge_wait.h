#pragma once

#include <cstdint>

#include "base/context.h"
#include "clickhouse/local_tables.h"
#include "clickhouse/tuning.h"

namespace partforge::clickhouse {

struct MergeWaitRequest {
  Tuning tuning;
  int64_t runtime_ms_max = 300'000;  // reaching it is no error: what is there is the output
  // T6: one vertical pass to one part a partition; else wait for the engine's own choice.
  bool merges_whole_partitions = false;
  // Also a partition of one part is merged, so that its expired rows go (--ttl=apply).
  bool applies_ttl = false;
};
struct MergeWaitOutcome {
  PartitionMap partitions;
  bool is_capped = false;
  int64_t took_ms = 0;
};
// Lets the destination's parts merge after the inserts (clickhouse-parts §9 steps 11–12, §9.5):
// sets the merge settings, starts merges, and waits until none runs. An error 241 from the poll
// means go on; another one is logged and ends the wait. Merges that ran out of memory leave their
// parts as they are, which is a valid output.
Result<MergeWaitOutcome> WaitForMerges(const Context& ctx, Engine& engine, LocalTables& tables,
                                       const MergeWaitRequest& request);

}  // namespace partforge::clickhouse
