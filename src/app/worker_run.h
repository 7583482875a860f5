#pragma once

#include <functional>
#include <string>
#include <vector>

#include "app/command.h"
#include "app/wire.h"
#include "job/worker.h"

namespace partforge::app {

// Runs a worker for ClickHouse rewrites in this process until its options say it is done: used by
// `worker` and `rewrite`.
struct WorkerRun {
  WorkerOptions options;
  MachineUse use;
};
Result<RunSummary> RunWorker(const CommandInput& input, JobStore& state, BucketStores& stores,
                             WorkerRun run);

}  // namespace partforge::app
