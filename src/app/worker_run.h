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
// --lease-ttl. kInvalidArgument (PF1005) below one second; below ten a warning: a pause of the
// machine or of the state store would cost the work.
Result<int64_t> LeaseFrom(const CommandInput& input);
Result<RunSummary> RunWorker(const CommandInput& input, JobStore& state, BucketStores& stores,
                             WorkerRun run);

}  // namespace partforge::app
