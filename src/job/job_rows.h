#pragma once

#include "base/error.h"
#include "job/commit.h"
#include "job/sql_db.h"
#include "job/task.h"

// How rows of the state schema become values. Columns in the order of the statements in
// sql_statements.h. kCorruption when a state's name is unknown: somebody else wrote into our
// tables.
namespace partforge {

Result<Task> ReadTask(const SqlRow& row);  // {task_columns}
Result<std::vector<Task>> ReadTasks(const SqlRows& rows);
JobSpec ReadJobSpec(const SqlRow& row);        // jobs, one_job, open_jobs
JobView ReadJobView(const SqlRow& row);        // the same; counts and commits stay empty
Result<Commit> ReadCommit(const SqlRow& row);  // one_commit; `chosen` stays empty
Chosen ReadChosen(const SqlRow& row);          // chosen
Result<Piece> ReadPiece(const SqlRow& row);    // pieces
Thing ReadThing(const SqlRow& row);            // things
AttemptView ReadAttempt(const SqlRow& row);    // attempts
EventView ReadEvent(const SqlRow& row);        // events
// state, n, bytes, parts, row_count from column `first` on.
Result<StateCount> ReadStateCount(const SqlRow& row, size_t first);

std::string_view PublishModeName(PublishMode mode);  // "command" | "asked" | "auto"

}  // namespace partforge
