#include "clickhouse/chunk_inserter.h"

#include <fmt/format.h>

#include "engine/clickhouse_codes.h"
#include "engine/sql_text.h"

namespace partforge::clickhouse {
namespace {

constexpr int64_t kEngineDeathsMax = 2;  // clickhouse-parts §15 row 13: the third is poison

void AddTo(PartitionMap& sum, const PartitionMap& more) {
  for (const auto& [id, stats] : more) {
    PartitionStats& target = sum[id];
    target.parts += stats.parts;
    target.rows += stats.rows;
    target.bytes += stats.bytes;
  }
}

// Counts decide after a MOVE was cut off: parts and rows per partition, never bytes alone.
bool SameRows(const PartitionMap& a, const PartitionMap& b) {
  if (a.size() != b.size()) return false;
  for (const auto& [id, stats] : a) {
    const auto it = b.find(id);
    if (it == b.end() || it->second.rows != stats.rows || it->second.parts != stats.parts)
      return false;
  }
  return true;
}

Status AttemptLost(std::string message) {
  return Status(Code::kUnavailable, std::move(message))
      .Explain(2142, "engine child", "nothing: the part is started again from its source");
}

}  // namespace

int64_t InsertOutcome::written_rows() const {
  int64_t rows = 0;
  for (const ChunkOutcome& chunk : chunks) rows += chunk.written_rows;
  return rows;
}

int64_t InsertOutcome::attempts() const {
  int64_t count = 0;
  for (const ChunkOutcome& chunk : chunks) count += chunk.attempts;
  return count;
}

Result<InsertOutcome> ChunkInserter::Run(const Context& ctx) {
  outcome_.state = request_.plan.state;
  PF_ASSIGN(source_parts_, tables_.ActiveParts(ctx, tables_.source()));
  if (is_chunked()) PF_TRY(tables_.CreateCompleted(ctx));
  for (size_t i = 0; i < request_.plan.ranges.size(); ++i) {
    outcome_.chunks.push_back(ChunkOutcome{
        .range = request_.plan.ranges[i], .attempts = 0, .read_rows = 0, .written_rows = 0});
    PF_TRY(RunChunk(ctx, i));
  }
  if (is_chunked()) PF_TRY(FinishExchange(ctx));
  return outcome_;
}

Status ChunkInserter::RunChunk(const Context& ctx, size_t index) {
  ChunkOutcome& chunk = outcome_.chunks[index];
  int64_t failures = 0;
  ChunkStep step = ChunkStep::kStarted;
  while (true) {
    PF_TRY(ctx.CheckStop("inserting"));
    Status failure;
    if (step == ChunkStep::kStarted) {
      staged_parts_.clear();
      const int64_t started_ms = MonotonicMs();
      ++chunk.attempts;
      Result<QueryOutcome> inserted = InsertOnce(ctx, index, chunk.attempts);
      if (inserted.ok()) {
        Result<PartitionMap> staged = tables_.ActiveParts(ctx, tables_.destination());
        if (staged.ok()) {
          staged_parts_ = std::move(staged).value();
          chunk.read_rows = inserted->read_rows;
          chunk.written_rows = inserted->written_rows;
          PF_FAULT(ctx, "clickhouse.chunk_inserted");
          step = ChunkStep::kInserted;
        } else {
          failure = staged.status();
        }
      } else {
        failure = inserted.status();
        outcome_.wasted_ms += MonotonicMs() - started_ms;
      }
    }
    if (failure.ok() && step != ChunkStep::kStarted && step != ChunkStep::kDone) {
      if (!is_chunked()) return {};
      step = ChunkStep::kMoving;
      failure = Promote(ctx, index);
      if (failure.ok()) step = ChunkStep::kDone;
    }
    if (step == ChunkStep::kDone) {
      AddTo(completed_parts_, staged_parts_);
      PF_FAULT(ctx, "clickhouse.chunk_promoted");
      return {};
    }
    if (failure.code() == Code::kCancelled || failure.code() == Code::kLeaseLost) return failure;
    ++failures;
    if (!engines_.IsAlive(request_.slot)) {
      ++outcome_.engine_restarts;
      if (outcome_.engine_restarts > kEngineDeathsMax) {
        return Status(Code::kInternal, fmt::format("the engine ended {} times on this part: {}",
                                                   outcome_.engine_restarts, failure.message()))
            .Explain(2139, request_.query_id_prefix,
                     "give the worker more memory, then partforge retry-failed");
      }
      ctx.log.Warn(
          "engine ended, chunk is resumed",
          {{"query", request_.query_id_prefix}, {"chunk", index}, {"error", failure.message()}});
      if (step == ChunkStep::kStarted) PF_TRY(ShrinkAfter(ctx, failure, failures));
      PF_ASSIGN(step, Recover(ctx, index, step));
      continue;
    }
    if (step == ChunkStep::kMoving) {
      // Some partitions have moved, some not: the insert must not be repeated in this attempt.
      return Status(Code::kUnavailable, "partition move failed: " + failure.message())
          .Explain(2142, request_.query_id_prefix,
                   "nothing: the part is started again from its source");
    }
    if (FailureClassOf(failure) != FailureClass::kResource) {
      const bool is_data = FailureClassOf(failure) == FailureClass::kData;
      return std::move(failure)
          .With(fmt::format("insert rows {} to {}", chunk.range.begin, chunk.range.end))
          .Explain(is_data ? 2145 : 2144, request_.query_id_prefix,
                   "correct the INSERT SELECT in a new job; the uploaded parts can be reused with "
                   "--copy-parts-from-job");
    }
    PF_TRY(ShrinkAfter(ctx, failure, failures));
    PF_TRY(tables_.TruncateStaging(ctx));
    ctx.metrics.Add("partforge_insert_retries_total", {{"reason", "resource"}});
    ctx.clock.SleepMs(LadderPauseMs(++resource_failures_), ctx.stop);
  }
}

Result<QueryOutcome> ChunkInserter::InsertOnce(const Context& ctx, size_t index, int64_t attempt) {
  const RowRange range = request_.plan.ranges[index];
  PF_ASSIGN(Engine* const local, engine(ctx));
  QueryOptions options;
  options.query_id = fmt::format("{}-c{}-a{}", request_.query_id_prefix, index, attempt);
  options.database = request_.current_database;
  options.settings = InsertSettings(outcome_.state, request_.tuning, is_chunked());
  if (is_chunked()) {
    options.settings["additional_table_filters"] =
        ChunkFilter(tables_.source().database, tables_.source().table, range);
  }
  const int64_t total_rows = request_.plan.ranges.back().end;
  int64_t read_before = 0, written_before = 0;
  for (const ChunkOutcome& done : outcome_.chunks) {
    read_before += done.read_rows;
    written_before += done.written_rows;
  }
  options.on_progress = [&, total_rows](int64_t read_rows, int64_t written_rows) {
    if (!request_.report || total_rows == 0) return;
    const double part = std::min(
        1.0, range.row_count() == 0
                 ? 1.0
                 : static_cast<double>(read_rows) / static_cast<double>(range.row_count()));
    const double fraction =
        (static_cast<double>(range.begin) + static_cast<double>(range.row_count()) * part) /
        static_cast<double>(total_rows);
    Ignore(ctx,
           request_.report(ctx, fraction, read_before + read_rows, written_before + written_rows),
           "progress never fails an insert");
  };
  ctx.log.Debug("insert started", {{"query", options.query_id},
                                   {"tier", TierName(outcome_.state.tier)},
                                   {"from", range.begin},
                                   {"to", range.end}});
  return local->Query(ctx, request_.insert_select, options);
}

Status ChunkInserter::Promote(const Context& ctx, size_t) {
  if (staged_parts_.empty()) return {};
  return tables_.PromoteStaging(ctx, staged_parts_);
}

Status ChunkInserter::ShrinkAfter(const Context& ctx, const Status& failure, int64_t failures) {
  if (engine_block_rows_ == 0) {
    PF_ASSIGN(Engine* const local, engine(ctx));
    PF_ASSIGN(engine_block_rows_,
              QueryInt(ctx, *local,
                       "SELECT value FROM system.settings WHERE name = 'max_block_size'", {}));
  }
  const auto next = Shrink(outcome_.state, request_.tuning, engine_block_rows_);
  if (!next) {
    const ResourceRung& rung = outcome_.state.rung;
    return Status(Code::kExhausted,
                  fmt::format("{} attempts, the last with {} threads and blocks of {} rows: {}",
                              failures, rung.max_insert_threads, rung.max_block_size,
                              failure.message()))
        .Explain(
            2141, request_.query_id_prefix,
            "fewer slots (--parallel), or more memory (--memory), then partforge retry-failed");
  }
  outcome_.state = *next;
  ctx.log.Info("insert is retried smaller",
               {{"query", request_.query_id_prefix},
                {"tier", TierName(next->tier)},
                {"block_rows",
                 next->tier == InsertTier::kSeed ? next->rung.max_block_size : next->block_rows},
                {"threads", next->rung.max_insert_threads},
                {"error", failure.message()}});
  return {};
}

Result<ChunkInserter::ChunkStep> ChunkInserter::Recover(const Context& ctx, size_t,
                                                        ChunkStep reached) {
  PF_TRY(engine(ctx));
  PF_TRY(tables_.StopMerges(ctx));
  PF_ASSIGN(const PartitionMap source_now, tables_.ActiveParts(ctx, tables_.source()));
  if (!SameRows(source_now, source_parts_))
    return AttemptLost("the source table is not the same after the engine's restart");
  if (!is_chunked()) {
    PF_TRY(tables_.TruncateStaging(ctx));
    return ChunkStep::kStarted;
  }
  PF_ASSIGN(const PartitionMap completed_now, tables_.ActiveParts(ctx, tables_.completed()));
  PF_ASSIGN(const PartitionMap staging_now, tables_.ActiveParts(ctx, tables_.destination()));
  if (reached != ChunkStep::kMoving) {
    if (!SameRows(completed_now, completed_parts_))
      return AttemptLost("the completed table is not the same after the engine's restart");
    PF_TRY(tables_.TruncateStaging(ctx));
    return ChunkStep::kStarted;
  }
  // A MOVE killed half-way may leave rows in either table or in both, so only the counts decide.
  PartitionMap all_moved = completed_parts_;
  AddTo(all_moved, staged_parts_);
  if (staging_now.empty() && SameRows(completed_now, all_moved)) return ChunkStep::kDone;
  if (SameRows(staging_now, staged_parts_) && SameRows(completed_now, completed_parts_))
    return ChunkStep::kInserted;
  return AttemptLost("a partition move was cut off between its parts");
}

Status ChunkInserter::FinishExchange(const Context& ctx) {
  PF_ASSIGN(const std::string completed_uuid, tables_.Uuid(ctx, tables_.completed()));
  const Status exchanged = tables_.ExchangeCompleted(ctx);
  if (exchanged.ok() || engines_.IsAlive(request_.slot)) return exchanged;
  // The engine died during the exchange: the table behind the destination's name tells whether it
  // happened.
  ++outcome_.engine_restarts;
  PF_TRY(engine(ctx));
  PF_ASSIGN(const std::string destination_uuid, tables_.Uuid(ctx, tables_.destination()));
  if (destination_uuid != completed_uuid) {
    PF_TRY(tables_.StopMerges(ctx));
    return tables_.ExchangeCompleted(ctx);
  }
  PF_ASSIGN(Engine* const local, engine(ctx));
  PF_TRY(
      local->Query(ctx,
                   fmt::format("DROP TABLE IF EXISTS {} SYNC",
                               QuoteTable(tables_.completed().database, tables_.completed().table)),
                   {}));
  PF_TRY(local->Query(
      ctx,
      fmt::format("SYSTEM STOP MERGES {}",
                  QuoteTable(tables_.destination().database, tables_.destination().table)),
      {}));
  return {};
}

}  // namespace partforge::clickhouse
