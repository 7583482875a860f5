#include "app/worker_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>

#include "app/time_spent.h"
#include "base/files.h"
#include "base/parallel_for.h"
#include "base/units.h"
#include "clickhouse/engine_failure.h"
#include "clickhouse/part_gatherer.h"
#include "clickhouse/rewrite_executor.h"
#include "clickhouse/rewrite_job.h"
#include "clickhouse/tuning.h"
#include "engine/sql_text.h"

namespace partforge::app {
namespace {

// The engine of slot 0, in the zone of the first job that is named.
Status StartFirstEngine(const CommandInput& input, JobStore& state,
                        clickhouse::SlotEngines& engines, const Worker& worker,
                        const std::vector<JobId>& only) {
  PF_ASSIGN(const std::filesystem::path path, worker.run_folder()->MakeSlot(0));
  clickhouse::EngineWish wish(path);
  if (!only.empty()) {
    const Result<JobView> view = state.View(input.ctx, only.front());
    if (!view.ok() || view->job.kind != clickhouse::kRewriteKind)
      return {};  // Run says what is wrong
    PF_ASSIGN(const clickhouse::RewriteJobSpec job,
              clickhouse::RewriteJobSpec::FromJson(view->job.spec));
    wish.timezone = job.timezone;
    wish.allows_external_reads = job.allows_external_reads;
  }
  PF_TRY(engines.Get(input.ctx, 0, wish));
  return {};
}

// A codec that the engine does not know would fail every part of every job.
Status CheckCodec(const CommandInput& input, clickhouse::SlotEngines& engines, const Worker& worker,
                  const std::string& codec) {
  constexpr std::string_view kTable = "default.partforge_codec";
  constexpr int64_t kAnswerMs = 30'000;
  PF_ASSIGN(const std::filesystem::path path, worker.run_folder()->MakeSlot(0));
  PF_ASSIGN(Engine* const engine, engines.Get(input.ctx, 0, clickhouse::EngineWish(path)));
  const QueryOptions quick{.idle_timeout_ms = kAnswerMs};
  const auto try_it = [&]() -> Status {
    PF_TRY(engine->Query(input.ctx,
                         fmt::format("CREATE TABLE {} (a UInt8) ENGINE = MergeTree ORDER BY a "
                                     "SETTINGS default_compression_codec = {}",
                                     kTable, QuoteString(codec)),
                         quick));
    PF_TRY(engine->Query(input.ctx, fmt::format("INSERT INTO {} VALUES (1)", kTable), quick));
    return {};
  };
  const auto drop = [&]() -> Status {
    PF_TRY(engine->Query(input.ctx, fmt::format("DROP TABLE IF EXISTS {} SYNC", kTable), quick));
    return {};
  };
  Status tried = try_it();
  Ignore(input.ctx, drop(), "it is dropped before the first part");
  if (tried.ok() || tried.code() == Code::kCancelled || tried.code() == Code::kUnavailable)
    return tried;
  return Status(Code::kInvalidArgument,
                fmt::format("the engine does not take the codec {}: {}", codec, tried.message()))
      .Explain(1005, "--default-compression-codec", "--default-compression-codec='ZSTD(5)'");
}

// Counts what the parts of one run came to. Thread-safe.
class WorkTally {
 public:
  WorkTally(const CommandInput& input, JobStore& state) : input_(input), state_(state) {}

  void Add(const Context& ctx, const Lease& lease, const Settlement& ended) {
    for (const TaskEdit& edit : ended.edits) {
      const auto task = std::find_if(lease.tasks.begin(), lease.tasks.end(),
                                     [&](const Task& one) { return one.id == edit.id; });
      if (task == lease.tasks.end()) continue;
      if (edit.result) {
        AddOutput(ctx, *task, edit.to, *edit.result);
      } else {
        ShowUnfinished(*task, edit);
      }
    }
    for (size_t i = 0; i < ended.added.size() && i < ended.added_results.size(); ++i)
      AddOutput(ctx, ended.added[i], ended.added[i].state, ended.added_results[i]);
    const std::lock_guard lock(mutex_);
    for (const TaskEdit& edit : ended.edits) released_ += edit.to == TaskState::kReady ? 1 : 0;
  }

  // Of inserts, and of parts that were handed back.
  int64_t retries() {
    const std::lock_guard lock(mutex_);
    return flow_.insert_retries + released_;
  }

  void MoveTo(WorkDone& done) {
    const std::lock_guard lock(mutex_);
    done.flow = std::move(flow_);
    done.unconserved = unconserved_;
  }

 private:
  void AddOutput(const Context& ctx, const Task& task, TaskState to, const TaskResult& result) {
    const auto output = clickhouse::RewriteOutput::FromJson(result.outputs);
    if (!output.ok()) {
      Ignore(ctx, output.status(), "the part stands, only the summary lacks it");
      return;
    }
    const Collapsing collapsing = CollapsingIn(ctx, task.job);
    RowFlow own;
    own.Add(task.size_bytes, *output, collapsing);
    JsonDoc object{{"type", "part"},
                   {"job_id", task.job},
                   {"part_id", task.id},
                   {"status", std::string(TaskStateName(to))},
                   {"tier", output->tier},
                   {"tier_reason", output->tier_reason},
                   {"insert_attempts", output->insert_attempts},
                   {"clickhouse_parts", result.parts_out}};
    own.AppendTo(object);
    object.erase("tiers");
    const std::lock_guard lock(mutex_);
    flow_.Add(task.size_bytes, *output, collapsing);
    if (!own.is_conserved) unconserved_ = task.job;
    if (input_.out.style().is_ndjson) input_.out.Object(object);
  }

  void ShowUnfinished(const Task& task, const TaskEdit& edit) {
    if (!input_.out.style().is_ndjson || edit.to == TaskState::kSuperseded) return;
    input_.out.Object(JsonDoc{{"type", "part"},
                              {"job_id", task.job},
                              {"part_id", task.id},
                              {"status", std::string(TaskStateName(edit.to))},
                              {"failure_class", edit.failure_class},
                              {"error", edit.error}});
  }

  // A job whose destination is not known is believed to collapse rows: its import looks again.
  Collapsing CollapsingIn(const Context& ctx, const JobId& job) {
    {
      const std::lock_guard lock(mutex_);
      if (const auto known = collapsing_.find(job); known != collapsing_.end())
        return known->second;
    }
    const Result<JobView> view = state_.View(ctx, job);
    const Result<Collapsing> found =
        view.ok() ? CollapsingOf(*view) : Result<Collapsing>(view.status());
    const std::lock_guard lock(mutex_);
    return collapsing_.emplace(job, found.ok() ? *found : Collapsing::kYes).first->second;
  }

  const CommandInput& input_;
  JobStore& state_;
  std::mutex mutex_;
  RowFlow flow_;                            // guarded by mutex_
  int64_t released_ = 0;                    // guarded by mutex_
  JobId unconserved_;                       // guarded by mutex_
  std::map<JobId, Collapsing> collapsing_;  // guarded by mutex_
};

}  // namespace

void ShowWork(const CommandInput& input, const WorkDone& done) {
  const RowFlow& flow = done.flow;
  if (flow.parts == 0) return;
  input.out.Line("  rows     " + flow.Text());
  input.out.Line("  bytes    " + flow.BytesText());
  input.out.Line("  tiers    " + TextOf(flow.tiers));
  const std::string parts = TextOf(PartsOfStages(flow.stage_ms));
  const TimeSpent spent{.took_ms = done.took_ms,
                        .parts = parts.empty() ? parts : "summed over parts: " + parts,
                        .rows = flow.rows_in,
                        .bytes = flow.bytes_in,
                        .peak_memory_bytes = flow.peak_memory_bytes};
  input.out.Line("  time     " + spent.Text());
  if (flow.insert_retries > 0)
    input.out.Line(fmt::format("  retries  {} of inserts", FormatCount(flow.insert_retries)));
}

Result<int64_t> LeaseFrom(const CommandInput& input, std::string_view flag) {
  constexpr int64_t kLeaseMsMin = 1'000, kLeaseMsWise = 10'000;
  const int64_t lease_ms = input.options.DurationMs(flag);
  if (lease_ms < kLeaseMsMin) {
    return Status(Code::kInvalidArgument, "a lease lasts 1 s at least")
        .Explain(1005, fmt::format("--{}", flag), fmt::format("--{}=60s", flag));
  }
  if (lease_ms < kLeaseMsWise)
    input.ctx.log.Warn("a lease so short is lost in any pause",
                       {{"flag", flag}, {"lease_ms", lease_ms}});
  return lease_ms;
}

Result<WorkDone> RunWorker(const CommandInput& input, JobStore& state, BucketStores& stores,
                           WorkerRun run) {
  const int64_t started_ms = MonotonicMs();
  PF_ASSIGN(const clickhouse::RewriteSettings settings, RewriteSettingsFrom(input, run.use));
  PF_ASSIGN(EngineChoice choice, ChooseEngine(input, run.use.slots));
  PF_ASSIGN(const clickhouse::Tuning tuning, clickhouse::Tune(run.use.limits, run.use.slots));
  // The keys of this line are read by operators' scripts (clickhouse-parts §13).
  input.ctx.log.Info("configured clickhouse resource settings",
                     {{"cpus", run.use.limits.cpus},
                      {"memory_bytes_raw", run.use.limits.memory_bytes},
                      {"slots", run.use.slots},
                      {"max_threads", tuning.insert_threads},
                      {"max_insert_threads", tuning.insert_threads},
                      {"max_memory_usage_raw", tuning.max_memory_usage_bytes}});
  const std::unique_ptr<clickhouse::SlotEngines> engines =
      MakeSlotEngines(std::move(choice), run.use.slots);
  clickhouse::RewriteExecutor executor(state, stores.function(), *engines, settings);
  const clickhouse::PartGatherer gatherer(GatherRulesFrom(settings));
  KindTable kinds;
  PF_TRY(kinds.Add(JobKind{.name = std::string(clickhouse::kRewriteKind),
                           .planner = nullptr,
                           .executor = &executor,
                           .committer = nullptr,
                           .batch_executor = nullptr,
                           .grouping = CommitGrouping::kTask,
                           .gatherer = &gatherer,
                           .read_failure = &clickhouse::ReadEngineFailure}));
  PF_ASSIGN(run.options.work_dir, OpenWorkDir(input));
  run.options.parallel = run.use.slots;
  // The network and the disk work for the next part and for the last while an engine inserts.
  run.options.ahead = run.use.slots;
  const std::filesystem::path work_dir = run.options.work_dir;
  const double free_min = settings.free_space_fraction_min;
  // A part needs about three times its size: source, output, room for merges.
  run.options.size_bytes_max = [work_dir, free_min](const Context&) -> Result<int64_t> {
    PF_ASSIGN(const int64_t free_bytes, FreeBytes(work_dir));
    return static_cast<int64_t>(static_cast<double>(free_bytes) * (1.0 - free_min) / 3.0);
  };
  if (Status made = MakeDirectories(work_dir); !made.ok()) {
    return std::move(made).Explain(1015, work_dir.string(),
                                   "name a folder of this user on a local disk with --work-dir");
  }
  WorkTally tally(input, state);
  run.options.on_ended = [&](const Context& ctx, const Lease& lease, const Settlement& ended) {
    tally.Add(ctx, lease, ended);
    if (run.on_retries) run.on_retries(tally.retries());
  };
  PF_ASSIGN(const std::unique_ptr<Worker> worker,
            Worker::Open(input.ctx, state, kinds, run.options));
  // An engine that cannot be started at all would hand back one part after the other.
  if (run.options.until != RunUntil::kOnce) {
    const Status started = StartFirstEngine(input, state, *engines, *worker, run.options.only);
    if (!started.ok()) {
      Ignore(input.ctx, worker->Close(input.ctx), "the next worker on this machine sweeps it");
      return started;
    }
  }
  if (input.options.IsSet("default-compression-codec")) {
    const Status checked = CheckCodec(input, *engines, *worker, settings.compression_codec);
    if (!checked.ok()) {
      Context unstopped = input.ctx;
      unstopped.stop = {};
      engines->Stop(unstopped, 0);
      Ignore(unstopped, worker->Close(unstopped), "the next worker on this machine sweeps it");
      return checked;
    }
  }
  Result<RunSummary> summary = worker->Run(input.ctx);
  Context unstopped = input.ctx;
  unstopped.stop = {};
  // Side by side: one that hangs takes its whole time.
  Ignore(unstopped,
         ParallelFor(unstopped, run.use.slots, static_cast<int>(run.use.slots),
                     [&](const Context& inner, int64_t slot) {
                       engines->Stop(inner, static_cast<int>(slot));
                       return Status();
                     }),
         "they are children of this process");
  Ignore(unstopped, worker->Close(unstopped), "the next worker on this machine sweeps it");
  PF_TRY(summary);
  WorkDone done;
  done.summary = *summary;
  done.took_ms = MonotonicMs() - started_ms;
  tally.MoveTo(done);
  return done;
}

}  // namespace partforge::app
