#pragma once

#include <functional>

#include "job/job_store.h"

namespace partforge {

// Shows every task of a job to `visit` exactly once, in a state it was in meanwhile and in no
// order; a failure of `visit` ends it. Tasks are read by state and move from state to state while
// they are, also back, so one reading may miss some: it is repeated until as many tasks were seen
// as the job counts. kConflict when they never rest. Keeps the ids in memory.
Status ForEachTask(const Context& ctx, StateReader& state, const JobId& job,
                   const std::function<Status(const Task&)>& visit);

// One reading of the tasks that are in `wanted`, by id: those that come into it or leave it
// meanwhile may be shown or not. A failure of `visit` ends it.
Status ForEachTaskIn(const Context& ctx, StateReader& state, const JobId& job, TaskState wanted,
                     const std::function<Status(const Task&)>& visit);

}  // namespace partforge
