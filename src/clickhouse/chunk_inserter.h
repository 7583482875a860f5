#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/context.h"
#include "clickhouse/insert_tier.h"
#include "clickhouse/local_tables.h"
#include "clickhouse/slot_engines.h"
#include "job/kind.h"

namespace partforge::clickhouse {

struct ChunkInsertRequest {
  std::string query_id_prefix;  // "partforge-<job>-<part>-e<epoch>"
  std::string insert_select;    // the user's statement, verbatim
  std::string current_database;
  InsertPlan plan;
  bool may_split = false;  // the SELECT is right on any range: the last resort of the ladder
  Tuning tuning;
  int slot = 0;
  EngineWish engine_path = EngineWish({});
  MetricLabels metric_labels = {};                // job_id, source_table, destination_table
  std::optional<PartitionMap> source_parts = {};  // as attached; absent = the engine is asked
  std::function<Status(const Context&, double fraction, int64_t read_rows, int64_t written_rows)>
      report;
  // An insert that has read and written nothing and used no CPU for so long is given up with its
  // engine (clickhouse-parts §15 row 14).
  int64_t silence_ms_max = 600'000;
};

struct ChunkOutcome {
  RowRange range;
  int64_t attempts = 0, read_rows = 0, written_rows = 0;
};

struct InsertOutcome {
  std::vector<ChunkOutcome> chunks;
  // Of the destination, when it was written by one insert; after several the caller must ask.
  std::optional<std::vector<ActivePart>> parts;
  InsertState state;  // the one that worked last
  std::string falls;  // tiers that were tried before it and why they were left; empty = none
  int64_t engine_restarts = 0;
  int64_t wasted_ms = 0;  // of attempts that failed (metric insert_wasted_seconds_total)
  int64_t written_rows() const;
  int64_t attempts() const;
};

// Runs the INSERT SELECT of one part, range by range, with the resource ladder, partition moves
// into the completed table and the resume of a chunk after the engine died (clickhouse-parts
// §9.1–9.4, §9.7). On success the destination table holds every row and nothing merged. Failures:
// kExhausted when the ladder is at its end (PF2141), kInternal when the engine died for the third
// time (PF2139), kInvalidArgument or kCorruption from the SQL (PF2144, PF2145), kUnavailable
// (PF2142) when a move failed half-way: the attempt is lost, the insert must not be repeated.
//
// The record of §9.7 lives in this object: a new worker process never reuses another's folder, so
// nothing of it needs to outlive the process; only the engine child may die under it.
class ChunkInserter {
 public:
  ChunkInserter(SlotEngines& engines, LocalTables& tables, ChunkInsertRequest request)
      : engines_(engines),
        tables_(tables),
        request_(std::move(request)),
        ranges_(request_.plan.ranges) {}

  Result<InsertOutcome> Run(const Context& ctx);

 private:
  enum class ChunkStep : uint8_t { kStarted, kInserted, kMoving, kDone };

  Status RunChunk(const Context& ctx, size_t index);
  Result<QueryOutcome> InsertOnce(const Context& ctx, Engine& local, size_t index, int64_t attempt);
  // InsertOnce under a watch: kUnavailable with a dead engine when the insert hung.
  Result<QueryOutcome> InsertWatched(const Context& ctx, size_t index, int64_t attempt);
  void ReportDone(const Context& ctx, size_t index) const;
  Status ShrinkAfter(const Context& ctx, size_t index, const Status& failure, int64_t failures);
  // Halves every range from `index` on, once (§9.4); false when that cannot be done.
  Result<bool> SplitRemaining(const Context& ctx, size_t index);
  Result<ChunkStep> ResumeAfterDeath(const Context& ctx, size_t index, ChunkStep reached,
                                     const Status& failure, int64_t failures);
  // Starts the engine again and finds out by counts what the chunk had reached (§9.7).
  Result<ChunkStep> Recover(const Context& ctx, ChunkStep reached);
  Status FinishExchange(const Context& ctx);
  bool is_chunked() const { return ranges_.size() > 1; }
  Result<Engine*> engine(const Context& ctx) {
    return engines_.Get(ctx, request_.slot, request_.engine_path);
  }

  SlotEngines& engines_;
  LocalTables& tables_;
  const ChunkInsertRequest request_;
  std::vector<RowRange> ranges_;
  bool has_split_ = false;
  InsertOutcome outcome_;
  PartitionMap source_parts_;     // as attached; compared after a restart
  PartitionMap completed_parts_;  // Σ of DONE chunks
  PartitionMap staged_parts_;     // what the chunk under way inserted
  PartitionMap staged_left_;      // of those, what is not moved yet
  int64_t engine_block_rows_ = 0;
  int64_t resource_failures_ = 0;
  std::atomic<int64_t> moved_rows_ = 0;  // read and written by the insert under way
};

}  // namespace partforge::clickhouse
