#pragma once

#include <string>
#include <vector>

#include "base/context.h"
#include "base/json.h"
#include "job/job_store.h"

namespace partforge::app {

// What list-jobs and job-status print, computed from the counters alone (clickhouse-parts §7.3,
// §8.6).
struct JobNumbers {
  std::string
      status;  // EMPTY, FAILED, IMPORTED, IMPORTING, READY_FOR_IMPORT, COMPACTING, REWRITING, READY
  int64_t total = 0, rewritten = 0, imported = 0;
  int64_t rows_out = 0, bytes = 0, bytes_rewritten = 0, parts_out = 0;
  double rewrite_percent = 0, import_percent = 0;
};
// kRefused (PF2143) when the job is paused and parts of it wait: no worker takes them.
Status CheckNotPaused(const JobView& view);
// Pure. A job that is not sealed is never READY_FOR_IMPORT.
JobNumbers NumbersOf(const JobView& view);
// Where the rows of the rewritten parts went, from the results of the attempts that stand. All
// sums.
struct RowFlow {
  int64_t rows_in = 0;   // visible in the source parts
  int64_t rows_out = 0;  // in the produced parts
  int64_t filtered = 0;  // left out by the SELECT; negative when it makes more rows than it reads
  int64_t expired = 0;   // left out by --ttl=apply
  int64_t merged = 0;    // collapsed by the destination's engine
  int64_t bytes_in = 0, bytes_out = 0;  // of those parts, on disk
  bool is_conserved = false;  // in = out + removed, counted apart, and as the counters have it
  // "1 440 in = 1 440 out + 0 filtered ✓"
  std::string Text() const;
};
Result<RowFlow> FlowOf(const Context& ctx, StateReader& state, const JobView& view);
// kCorruption (PF2137): what to answer when a flow is not conserved; nothing may be published then.
Status NotConserved(const RowFlow& flow, const JobId& job);

// Why parts failed, for the command that tells so: kInternal with the record of one and with its PF
// number; PF2149 where the record has none.
Status FailedParts(int64_t count, const Status& recorded, std::string where,
                   std::string what_to_do);
// The record of the job's first failed part, or why it cannot be read; OK when none has failed.
Status FirstFailure(const Context& ctx, StateReader& state, const JobId& job);

int64_t CountIn(const JobView& view, TaskState state);
// [{"status":"READY","count":2},…] in the order of the states, without zeros.
JsonDoc StatusCounts(const JobView& view);

// One record under the names of clickhouse-parts §7.1 and §7.2: the task, its last attempt, its
// result.
Result<JsonDoc> RecordOf(const Context& ctx, StateReader& state, const JobView& view,
                         const Task& task);

// RFC 3339, or null when 0.
JsonDoc TimeOrNull(int64_t unix_ms);
std::vector<TaskState> AllTaskStates();

}  // namespace partforge::app
