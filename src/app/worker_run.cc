#include "app/worker_run.h"

#include <fmt/format.h>

#include "base/files.h"
#include "base/parallel_for.h"
#include "clickhouse/rewrite_executor.h"
#include "clickhouse/rewrite_job.h"
#include "clickhouse/tuning.h"

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
    wish = {path, job.timezone, job.allows_external_reads};
  }
  PF_TRY(engines.Get(input.ctx, 0, wish));
  return {};
}

}  // namespace

Result<RunSummary> RunWorker(const CommandInput& input, JobStore& state, BucketStores& stores,
                             WorkerRun run) {
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
  KindTable kinds;
  PF_TRY(kinds.Add(JobKind{.name = std::string(clickhouse::kRewriteKind),
                           .planner = nullptr,
                           .executor = &executor,
                           .committer = nullptr,
                           .batch_executor = nullptr,
                           .grouping = CommitGrouping::kTask}));
  PF_ASSIGN(run.options.work_dir, OpenWorkDir(input));
  run.options.parallel = run.use.slots;
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
  return summary;
}

}  // namespace partforge::app
