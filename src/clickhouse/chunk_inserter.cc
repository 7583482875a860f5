#include "clickhouse/chunk_inserter.h"

#include <fmt/format.h>

#include <stop_token>
#include <thread>

#include "engine/clickhouse_codes.h"
#include "engine/sql_text.h"

namespace partforge::clickhouse {
namespace {

// Of the watch on an insert.
constexpr int64_t kWatchPollMs = 1'000;
constexpr int64_t kIdleCpuMs = 60'000;

constexpr int64_t kEngineDeathsMax = 2;  // clickhouse-parts §15 row 13: the third is poison

void AddTo(PartitionMap& sum, const PartitionMap& more) {
  for (const auto& [id, stats] : more) {
    PartitionStats& target = sum[id];
    target.parts += stats.parts;
    target.rows += stats.rows;
    target.bytes += stats.bytes;
  }
}

Status AttemptLost(std::string_view attempt, std::string message) {
  return Status(Code::kUnavailable, std::move(message))
      .Explain(2142, std::string(attempt), "nothing: the part is started again from its source");
}

PartitionStats StatsOf(const PartitionMap& partitions, const std::string& id) {
  const auto it = partitions.find(id);
  return it == partitions.end() ? PartitionStats{} : it->second;
}

bool SameCounts(const PartitionStats& a, const PartitionStats& b) {
  return a.rows == b.rows && a.parts == b.parts;
}

// Parts and rows per partition, never bytes.
bool SameRows(const PartitionMap& a, const PartitionMap& b) {
  if (a.size() != b.size()) return false;
  for (const auto& [id, stats] : a) {
    if (!SameCounts(stats, StatsOf(b, id))) return false;
  }
  return true;
}

// A MOVE that was killed half-way may leave rows in either table or in both, so only the counts
// decide (clickhouse-parts §9.7), partition by partition, since each is moved by a statement of its
// own: moved whole, or not at all. Anything else loses the attempt. Pure.
Result<PartitionMap> PartitionsToMove(const PartitionMap& done, const PartitionMap& staged,
                                      const PartitionMap& completed_now,
                                      const PartitionMap& staging_now, std::string_view attempt) {
  PartitionMap all_moved = done, left;
  AddTo(all_moved, staged);
  size_t explained = 0;  // partitions of the completed table that this chunk or an earlier one made
  for (const auto& [id, moved] : all_moved) {
    const PartitionStats completed = StatsOf(completed_now, id), staging = StatsOf(staging_now, id);
    if (completed.parts > 0) ++explained;
    if (SameCounts(completed, moved) && staging.parts == 0) continue;
    const PartitionStats wanted = StatsOf(staged, id);
    const bool is_unmoved = SameCounts(completed, StatsOf(done, id)) && SameCounts(staging, wanted);
    if (!is_unmoved) {
      return AttemptLost(
          attempt,
          fmt::format("the move of partition {} was cut off: {} rows in {} parts there, {} in {} "
                      "here, {} in {} in all",
                      id, completed.rows, completed.parts, staging.rows, staging.parts, moved.rows,
                      moved.parts));
    }
    left[id] = wanted;
  }
  if (explained != completed_now.size())
    return AttemptLost(attempt, "the completed table has partitions of unknown origin");
  return left;
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
  if (request_.source_parts) {
    source_parts_ = *request_.source_parts;
  } else {
    PF_ASSIGN(source_parts_, tables_.ActiveParts(ctx, tables_.source()));
  }
  if (is_chunked()) PF_TRY(tables_.CreateCompleted(ctx));
  for (size_t i = 0; i < ranges_.size(); ++i) {
    outcome_.chunks.push_back(
        ChunkOutcome{.range = ranges_[i], .attempts = 0, .read_rows = 0, .written_rows = 0});
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
      Result<QueryOutcome> inserted = InsertWatched(ctx, index, chunk.attempts);
      MetricLabels labels = request_.metric_labels;
      labels["result"] = inserted.ok() ? "completed" : "failed";
      ctx.metrics.Observe("partforge_insert_attempt_duration_seconds", labels,
                          static_cast<double>(MonotonicMs() - started_ms) / 1000.0);
      if (inserted.ok()) {
        Result<std::vector<ActivePart>> staged = tables_.ListParts(ctx, tables_.destination());
        if (staged.ok()) {
          staged_parts_ = PartitionsOf(*staged);
          staged_left_ = staged_parts_;
          if (!is_chunked()) outcome_.parts = std::move(staged).value();
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
      if (!is_chunked()) {
        ctx.metrics.Add("partforge_chunks_completed_total", request_.metric_labels);
        ReportDone(ctx, index);
        return {};
      }
      step = ChunkStep::kMoving;
      failure = tables_.PromoteStaging(ctx, staged_left_);
      if (failure.ok()) step = ChunkStep::kDone;
    }
    if (step == ChunkStep::kDone) {
      AddTo(completed_parts_, staged_parts_);
      ctx.metrics.Add("partforge_chunks_completed_total", request_.metric_labels);
      ReportDone(ctx, index);
      PF_FAULT(ctx, "clickhouse.chunk_promoted");
      return {};
    }
    if (failure.code() == Code::kCancelled || failure.code() == Code::kLeaseLost) return failure;
    ++failures;
    if (!engines_.IsAlive(request_.slot)) {
      PF_ASSIGN(step, ResumeAfterDeath(ctx, index, step, failure, failures));
      continue;
    }
    if (step == ChunkStep::kMoving) {
      // Some partitions have moved, some not: the insert must not be repeated in this attempt.
      return AttemptLost(request_.query_id_prefix, "partition move failed: " + failure.message());
    }
    const FailureClass failure_class = FailureClassOf(failure);
    if (failure_class != FailureClass::kResource) {
      Status explained = std::move(failure).With(
          fmt::format("insert rows {} to {}", chunk.range.begin, chunk.range.end));
      const bool is_data = failure_class == FailureClass::kData;
      if (!is_data && failure_class != FailureClass::kSql) return explained;
      return std::move(explained).Explain(
          is_data ? 2145 : 2144, request_.query_id_prefix,
          "correct the INSERT SELECT and upload again with another --job-id");
    }
    PF_TRY(ShrinkAfter(ctx, index, failure, failures));
    PF_TRY(tables_.TruncateStaging(ctx));
    ctx.metrics.Add("partforge_insert_retries_total", {{"reason", "resource"}});
    ctx.clock.SleepMs(LadderPauseMs(++resource_failures_), ctx.stop);
  }
}

Result<ChunkInserter::ChunkStep> ChunkInserter::ResumeAfterDeath(const Context& ctx, size_t index,
                                                                 ChunkStep reached,
                                                                 const Status& failure,
                                                                 int64_t failures) {
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
  PF_ASSIGN(const ChunkStep step, Recover(ctx, reached));
  // Most likely it needed more memory than there is.
  if (reached == ChunkStep::kStarted) PF_TRY(ShrinkAfter(ctx, index, failure, failures));
  return step;
}

Result<QueryOutcome> ChunkInserter::InsertWatched(const Context& ctx, size_t index,
                                                  int64_t attempt) {
  // Before the watch, which asks the slot's process: a slot is used by one thread at a time, and
  // Get may start another process.
  PF_ASSIGN(Engine* const local, engine(ctx));
  std::stop_source insert_stop;  // of the worker, or because the insert hangs
  const std::stop_callback on_stop(ctx.stop, [&insert_stop] { insert_stop.request_stop(); });
  std::atomic<bool> is_hung = false;
  Result<QueryOutcome> inserted = Status(Code::kInternal, "not run");
  {
    moved_rows_ = 0;
    const std::jthread watch([&](const std::stop_token& stop) {
      int64_t rows_before = -1, cpu_before_ms = -1, moved_at_ms = MonotonicMs();
      while (!stop.stop_requested()) {
        ctx.clock.SleepMs(std::min(kWatchPollMs, request_.silence_ms_max / 4 + 1), stop);
        const int64_t rows = moved_rows_, cpu_ms = engines_.CpuMs(request_.slot);
        // An idle engine still wakes up now and then.
        const bool has_moved = rows != rows_before || cpu_ms - cpu_before_ms > kIdleCpuMs;
        if (has_moved) {
          rows_before = rows;
          cpu_before_ms = cpu_ms;
          moved_at_ms = MonotonicMs();
        } else if (MonotonicMs() - moved_at_ms >= request_.silence_ms_max) {
          is_hung = true;
          insert_stop.request_stop();
          return;
        }
      }
    });
    Context watched = ctx;
    watched.stop = insert_stop.get_token();
    inserted = InsertOnce(watched, *local, index, attempt);
  }
  if (inserted.ok() || !is_hung || ctx.IsStopping()) return inserted;
  engines_.Discard(ctx, request_.slot);
  return Status(Code::kUnavailable,
                fmt::format("no row was read or written and no CPU used for {} s: {}",
                            request_.silence_ms_max / 1000, inserted.status().message()));
}

Result<QueryOutcome> ChunkInserter::InsertOnce(const Context& ctx, Engine& local, size_t index,
                                               int64_t attempt) {
  const RowRange range = ranges_[index];
  QueryOptions options;
  options.query_id = fmt::format("{}-c{}-a{}", request_.query_id_prefix, index, attempt);
  options.database = request_.current_database;
  options.settings = InsertSettings(outcome_.state, request_.tuning,
                                    is_chunked() ? InsertReads::kRange : InsertReads::kAll);
  if (is_chunked()) {
    options.settings["additional_table_filters"] =
        ChunkFilter(tables_.source().database, tables_.source().table, range);
  }
  const int64_t total_rows = ranges_.back().end;
  int64_t read_before = 0, written_before = 0;
  for (const ChunkOutcome& done : outcome_.chunks) {
    read_before += done.read_rows;
    written_before += done.written_rows;
  }
  options.on_progress = [&, total_rows](int64_t read_rows, int64_t written_rows) {
    moved_rows_ = read_rows + written_rows;
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
  return local.Query(ctx, request_.insert_select, options);
}

// The range counts whole, whatever the engine's estimate said, also one without rows.
void ChunkInserter::ReportDone(const Context& ctx, size_t index) const {
  if (!request_.report) return;
  const int64_t total_rows = ranges_.back().end;
  int64_t read_rows = 0, written_rows = 0;
  for (const ChunkOutcome& done : outcome_.chunks) {
    read_rows += done.read_rows;
    written_rows += done.written_rows;
  }
  const double fraction =
      total_rows == 0 ? 1.0
                      : static_cast<double>(ranges_[index].end) / static_cast<double>(total_rows);
  Ignore(ctx, request_.report(ctx, fraction, read_rows, written_rows),
         "progress never fails an insert");
}

Result<bool> ChunkInserter::SplitRemaining(const Context& ctx, size_t index) {
  if (!request_.may_split || has_split_ || ranges_[index].row_count() < 2) return false;
  std::vector<RowRange> ranges(ranges_.begin(),
                               ranges_.begin() + static_cast<std::ptrdiff_t>(index));
  for (size_t i = index; i < ranges_.size(); ++i) {
    for (const RowRange half : SplitRange(ranges_[i], 2)) ranges.push_back(half);
  }
  if (static_cast<int64_t>(ranges.size()) > kChunksMaxWhenShrinking) return false;
  if (!is_chunked()) PF_TRY(tables_.CreateCompleted(ctx));
  has_split_ = true;
  ranges_ = std::move(ranges);
  outcome_.chunks[index].range = ranges_[index];
  return true;
}

Status ChunkInserter::ShrinkAfter(const Context& ctx, size_t index, const Status& failure,
                                  int64_t failures) {
  if (engine_block_rows_ == 0) {
    PF_ASSIGN(Engine* const local, engine(ctx));
    PF_ASSIGN(engine_block_rows_,
              QueryInt(ctx, *local,
                       "SELECT value FROM system.settings WHERE name = 'max_block_size'", {}));
  }
  const auto next = Shrink(outcome_.state, request_.tuning, engine_block_rows_);
  if (!next) {
    PF_ASSIGN(const bool is_split, SplitRemaining(ctx, index));
    if (is_split) {
      ctx.log.Info("insert is retried on half the range",
                   {{"query", request_.query_id_prefix}, {"chunks", ranges_.size()}});
      return {};
    }
    const ResourceRung& rung = outcome_.state.rung;
    return Status(Code::kExhausted,
                  fmt::format("{} attempts, the last with {} threads and blocks of {} rows: {}",
                              failures, rung.max_insert_threads, rung.max_block_size,
                              failure.message()))
        .Explain(
            2141, request_.query_id_prefix,
            "fewer slots (--parallel), or more memory (--memory), then partforge retry-failed");
  }
  if (next->tier != outcome_.state.tier) {
    const int number = ClickHouseNumber(failure);
    outcome_.falls += fmt::format(
        "; fell from {} to {} after {}", TierName(outcome_.state.tier), TierName(next->tier),
        number != 0 ? fmt::format("code {}", number) : "the end of the engine");
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

Result<ChunkInserter::ChunkStep> ChunkInserter::Recover(const Context& ctx, ChunkStep reached) {
  PF_TRY(engine(ctx));
  PF_TRY(tables_.StopMerges(ctx));
  const auto lost = [&](std::string_view what) {
    return AttemptLost(request_.query_id_prefix,
                       fmt::format("after the engine's restart {}", what));
  };
  PF_ASSIGN(const PartitionMap source_now, tables_.ActiveParts(ctx, tables_.source()));
  if (!SameRows(source_now, source_parts_)) return lost("the source table is another one");
  PartitionMap completed_now;
  if (is_chunked()) {
    PF_ASSIGN(completed_now, tables_.ActiveParts(ctx, tables_.completed()));
  }
  if (reached != ChunkStep::kMoving) {
    if (!SameRows(completed_now, completed_parts_))
      return lost("the completed table is another one");
    PF_TRY(tables_.TruncateStaging(ctx));
    return ChunkStep::kStarted;
  }
  PF_ASSIGN(const PartitionMap staging_now, tables_.ActiveParts(ctx, tables_.destination()));
  PF_ASSIGN(staged_left_, PartitionsToMove(completed_parts_, staged_parts_, completed_now,
                                           staging_now, request_.query_id_prefix));
  return ChunkStep::kInserted;
}

Status ChunkInserter::FinishExchange(const Context& ctx) {
  PF_ASSIGN(const std::string completed_uuid, tables_.Uuid(ctx, tables_.completed()));
  Status exchanged = tables_.ExchangeCompleted(ctx);
  if (exchanged.ok() || engines_.IsAlive(request_.slot)) return exchanged;
  // The engine died during the exchange: the table behind the destination's name tells whether it
  // happened.
  if (++outcome_.engine_restarts > kEngineDeathsMax) return exchanged;
  PF_TRY(engine(ctx));
  PF_ASSIGN(const std::string destination_uuid, tables_.Uuid(ctx, tables_.destination()));
  if (destination_uuid != completed_uuid) {
    PF_TRY(tables_.StopMerges(ctx));
    return tables_.ExchangeCompleted(ctx);
  }
  PF_TRY(tables_.DropCompleted(ctx));
  return tables_.StopMerges(ctx);
}

}  // namespace partforge::clickhouse
