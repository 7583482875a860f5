#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "app/output.h"
#include "app/row_flow.h"
#include "app/wire.h"
#include "base/json.h"
#include "clickhouse/rewrite_job.h"
#include "job/kind.h"

namespace partforge::app {

// How workers with these settings would rewrite parts that wait: what `plan` and `rewrite
// --dry-run` print.
class PartPlan {
 public:
  PartPlan(const MachineUse& use, const clickhouse::RewriteSettings& settings,
           clickhouse::RewriteJobSpec job)
      : use_(use), settings_(settings), job_(std::move(job)) {}

  // A task of the job, or one with the id, size and payload that it would get.
  Status Add(Task task);
  // Gathers and plans what was added, as a claim would; once.
  Status Close();

  int64_t part_count() const { return static_cast<int64_t>(specs_.size()); }
  int64_t rows() const { return rows_; }
  int64_t size_bytes() const { return size_bytes_; }
  // Of Close.
  Table ToTable() const;
  JsonDoc PartsDocument() const;
  // "T5 ×12 (…), T6 ×1 (…)"
  std::string TierText() const { return TextOf(tiers_); }
  JsonDoc TierDocument() const;

 private:
  // One insert.
  struct Planned {
    std::vector<size_t> parts;  // of offer_.tasks
    std::string tier, reason;
    int64_t chunks = 0, block_rows = 0;
  };
  const MachineUse use_;
  const clickhouse::RewriteSettings settings_;
  const clickhouse::RewriteJobSpec job_;
  ClaimOffer offer_;
  std::vector<clickhouse::RewriteTaskSpec> specs_;  // of its tasks
  std::vector<Planned> inserts_;
  TierUses tiers_;
  int64_t rows_ = 0, size_bytes_ = 0;
};

// What is handled, and yet good to know before the work begins (user-experience §2.3): PF2109,
// PF2112, PF2114, and what upload-freeze found of the parts (PF2110).
std::vector<std::string> NotesOnJob(const clickhouse::RewriteJobSpec& job);
// The job's warnings that are no such notes.
std::vector<std::string> WarningsOnJob(const clickhouse::RewriteJobSpec& job);

}  // namespace partforge::app
