#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "app/output.h"
#include "app/row_flow.h"
#include "app/wire.h"
#include "base/json.h"
#include "clickhouse/tuning.h"

namespace partforge::app {

// A source part that is not rewritten yet.
struct WaitingPart {
  std::string id;  // of the task, or the part's name before there is one
  int64_t rows = 0, size_bytes = 0, uncompressed_bytes = 0;
};

// How workers with these settings would rewrite parts: what `plan` and `rewrite --dry-run` print.
class PartPlan {
 public:
  static Result<PartPlan> Make(const MachineUse& use, const clickhouse::RewriteSettings& settings,
                               const clickhouse::RewriteJobSpec& job);
  void Add(const WaitingPart& part);

  int64_t part_count() const { return static_cast<int64_t>(parts_.size()); }
  Table ToTable() const;
  JsonDoc PartsDocument() const;
  int64_t rows() const { return rows_; }
  int64_t size_bytes() const { return size_bytes_; }
  // "T5 ×12 (…), T6 ×1 (…)"
  std::string TierText() const { return TextOf(tiers_); }
  JsonDoc TierDocument() const;

 private:
  PartPlan(const MachineUse& use, const clickhouse::RewriteSettings& settings, bool is_chunk_safe,
           const clickhouse::Tuning& tuning);

  struct Planned {
    WaitingPart part;
    std::string tier, reason;
    int64_t chunks = 0, block_rows = 0;
  };
  MachineUse use_;
  clickhouse::RewriteSettings settings_;
  bool is_chunk_safe_;
  clickhouse::Tuning tuning_;
  std::vector<Planned> parts_;
  TierUses tiers_;
  int64_t rows_ = 0, size_bytes_ = 0;
};

// What is handled, and yet good to know before the work begins (user-experience §2.3): PF2109,
// PF2112, PF2114.
std::vector<std::string> NotesOnJob(const clickhouse::RewriteJobSpec& job);

}  // namespace partforge::app
