#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "base/context.h"
#include "base/json.h"
#include "clickhouse/rewrite_job.h"
#include "job/job_store.h"

namespace partforge::app {

// Source parts that were rewritten in one tier for one kind of reason.
struct TierUse {
  int64_t parts = 0;
  int64_t rows_max = -1;  // of the insert whose reason is shown: the one with most rows
  std::string reason;
};

// By tier and reason; reasons that differ in numbers only are one.
using TierUses = std::map<std::pair<std::string, std::string>, TierUse>;
// `parts` source parts that were rewritten together, `rows` in all.
void AddTier(TierUses& uses, const std::string& tier, const std::string& reason, int64_t parts,
             int64_t rows);
// "T5 ×12 (123 rows of 45 bytes fit one block in 300 MiB), T6 ×1 (…)"; empty without parts.
std::string TextOf(const TierUses& uses);
// [{"tier":"T5","parts":12,"reason":"…"},…]
JsonDoc DocumentOf(const TierUses& uses);

// Whether the engine of a destination collapses rows.
enum class Collapsing : uint8_t { kNo, kYes };

// Where the rows of rewritten parts went, from the results of the attempts that stand, and how the
// parts were made. All sums but the peak.
struct RowFlow {
  int64_t parts = 0;     // of the source
  int64_t rows_in = 0;   // visible in the source parts
  int64_t rows_out = 0;  // in the produced parts
  int64_t filtered = 0;  // left out by the SELECT; negative when it makes more rows than it reads
  int64_t expired = 0;   // left out by --ttl=apply
  int64_t merged = 0;    // collapsed by the destination's engine
  int64_t bytes_in = 0, bytes_out = 0;  // of those parts, on disk
  // Of the source's columns: decoded and encoded again (performance R9).
  int64_t bytes_decoded = 0;
  int64_t peak_memory_bytes = 0;  // of one engine
  int64_t insert_retries = 0;     // attempts at inserts beyond the first of each chunk
  // By stage (clickhouse-parts §9): of parts side by side it is more than the time that passed.
  std::map<std::string, int64_t> stage_ms;
  bool is_conserved = true;  // in = out + removed, counted apart, and as the counters have it
  TierUses tiers;

  // One part more.
  void Add(int64_t source_bytes, const clickhouse::RewriteOutput& output, Collapsing collapsing);
  // "1 440 in = 1 440 out + 0 filtered ✓"
  std::string Text() const;
  // "3.21 GiB → 1.1 GiB   9.8 GiB decoded"
  std::string BytesText() const;
  // The fields that every document has of it: rows_in … peak_memory_bytes, tiers, stage_seconds.
  void AppendTo(JsonDoc& document) const;
};

// The flow of all parts of a job that have an output.
Result<RowFlow> FlowOf(const Context& ctx, StateReader& state, const JobView& view);
// The same, as what may be published: kCorruption (PF2137) when it is not conserved.
Result<RowFlow> ConservedFlow(const Context& ctx, StateReader& state, const JobId& job);
// Of the job's destination.
Result<Collapsing> CollapsingOf(const JobView& view);
// kCorruption (PF2137): what to answer when a flow is not conserved; nothing may be published then.
Status NotConserved(const RowFlow& flow, const JobId& job);

}  // namespace partforge::app
