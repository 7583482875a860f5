#include "app/worker_run.h"

#include <fmt/format.h>

#include "base/files.h"
#include "clickhouse/rewrite_executor.h"
#include "clickhouse/rewrite_job.h"
#include "clickhouse/tuning.h"

namespace partforge::app {

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
  run.options.work_dir = WorkDir(input);
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
  Result<RunSummary> summary = worker->Run(input.ctx);
  Context unstopped = input.ctx;
  unstopped.stop = {};
  for (int slot = 0; slot < static_cast<int>(run.use.slots); ++slot) engines->Stop(unstopped, slot);
  Ignore(unstopped, worker->Close(unstopped), "the next worker on this machine sweeps it");
  return summary;
}

}  // namespace partforge::app
