#pragma once

#include <functional>
#include <string>
#include <vector>

#include "app/command.h"
#include "app/row_flow.h"
#include "app/wire.h"
#include "job/worker.h"

namespace partforge::app {

// Runs a worker for ClickHouse rewrites in this process until its options say it is done: used by
// `worker` and `rewrite`.
struct WorkerRun {
  WorkerOptions options;
  MachineUse use;
  // Told after each part that ended: how often inserts and parts were tried again so far. By
  // several threads at once; may be empty.
  std::function<void(int64_t retries)> on_retries = {};
};
// The lease of that flag. kInvalidArgument (PF1005) below one second; below ten a warning: a pause
// of the machine or of the state store would cost the work.
Result<int64_t> LeaseFrom(const CommandInput& input, std::string_view flag = "lease-ttl");
// What the run came to: of this process alone.
struct WorkDone {
  RunSummary summary;
  RowFlow flow;
  JobId unconserved;  // job of a part whose rows do not add up; empty = there is none
  int64_t took_ms = 0;
};
// Where objects are asked for, prints one for every part that ended.
Result<WorkDone> RunWorker(const CommandInput& input, JobStore& state, BucketStores& stores,
                           WorkerRun run);
// The lines of a summary below its first: rows, bytes, tiers, time. Nothing without parts.
void ShowWork(const CommandInput& input, const WorkDone& done);

}  // namespace partforge::app
