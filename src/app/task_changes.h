#pragma once

#include <functional>
#include <span>
#include <vector>

#include "base/context.h"
#include "job/sql_job_store.h"

namespace partforge::app {

// What came of an operator's edits.
struct ChangedTasks {
  std::vector<TaskEdit> done;
  std::vector<TaskId> left;  // they moved on since they were looked at, and are as they are now
};

// Carries out edits of one job, some at a time. Tasks that moved since they were looked at are
// looked at again: one that is already where it should go counts as done (with one task of a lease
// the others go back), one in the same state that `is_chosen` still takes is changed as it is now
// (another worker may have it), and the rest are left alone. kConflict when they never rest.
Result<ChangedTasks> ChangeInTurn(const Context& ctx, SqlJobStore& state, const JobId& job,
                                  std::span<const TaskEdit> edits, OpenWork open_work,
                                  const std::function<Result<bool>(const Task&)>& is_chosen);

}  // namespace partforge::app
