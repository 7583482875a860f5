#pragma once

#include <vector>

#include "app/worker_run.h"
#include "job/sql_job_store.h"

namespace partforge::app {

// RunWorker for those jobs, with how far they are on the progress line: used where the work has an
// end (`rewrite`, `worker --drain`).
Result<WorkDone> RunWorkerShown(const CommandInput& input, SqlJobStore& state, BucketStores& stores,
                                WorkerRun run, const std::vector<JobId>& jobs);

}  // namespace partforge::app
