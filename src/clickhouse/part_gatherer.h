#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "clickhouse/insert_tier.h"
#include "clickhouse/rewrite_job.h"
#include "job/kind.h"

namespace partforge::clickhouse {

inline constexpr int64_t kGatheredRowsMax = int64_t{1} << 21;  // of one insert (performance §4)
inline constexpr int64_t kGatheredPartsMax = 1'000;

// What decides how source parts share an insert (tier T5b). The same rules for `plan` and for the
// worker.
struct GatherRules {
  int64_t memory_cap_bytes = 0;  // --memory
  int64_t slots = 1;             // of this worker: each should get its share of a small job
  std::optional<InsertTier> forced = {};
  bool is_chunk_rows_explicit = false;
};

// Why no parts of the job may share an insert, for people; empty when they may. The SELECT must be
// right on any set of rows, and no result may depend on the order of parts or the place of a row.
std::string GatherRefusal(const RewriteJobSpec& job, const GatherRules& rules);

// The lease of each waiting part: groups of indexes into `offer.tasks`, in their order, at most
// limits.leases_max. A group fits one block in a slot's memory and keeps to the limits above; all
// groups that the job's waiting parts will make are about equally large, and a multiple of the
// slots unless they are very small. A part that has failed is alone; one whose worker vanished
// while it was in company is in a sixteenth of that company, down to alone. Pure.
std::vector<std::vector<size_t>> GatherParts(const ClaimOffer& offer, const RewriteJobSpec& job,
                                             const GatherRules& rules,
                                             const Gatherer::Limits& limits);

// Immutable.
class PartGatherer final : public Gatherer {
 public:
  explicit PartGatherer(GatherRules rules) : rules_(rules) {}
  int64_t task_bytes_max() const override;
  bool MayGather(const Json& spec) const override;
  std::vector<std::vector<size_t>> Gather(const ClaimOffer& offer,
                                          const Limits& limits) const override;

 private:
  const GatherRules rules_;
};

}  // namespace partforge::clickhouse
