#pragma once

#include <string>
#include <vector>

#include "base/context.h"
#include "base/json.h"
#include "clickhouse/rewrite_job.h"
#include "job/job_store.h"

namespace partforge::app {

// What list-jobs and job-status print, computed from the counters alone (clickhouse-parts §7.3,
// §8.6).
struct JobNumbers {
  std::string
      status;  // EMPTY, FAILED, IMPORTED, IMPORTING, READY_FOR_IMPORT, COMPACTING, REWRITING, READY
  int64_t total = 0, rewritten = 0, imported = 0;
  int64_t source_parts = 0;  // uploaded, whether rewritten alone or together
  int64_t rows_out = 0, bytes = 0, bytes_rewritten = 0, parts_out = 0;
  double rewrite_percent = 0, import_percent = 0;
};
// kRefused (PF2143) when the job is paused and parts of it wait: no worker takes them.
Status CheckNotPaused(const JobView& view);
// Pure. A job that is not sealed is never READY_FOR_IMPORT.
JobNumbers NumbersOf(const JobView& view);
// Why parts failed, for the command that tells so: kInternal with the record of one and with its PF
// number; PF2149 where the record has none.
Status FailedParts(int64_t count, const Status& recorded, std::string where,
                   std::string what_to_do);
// The record of the job's first failed part, or why it cannot be read; OK when none has failed.
Status FirstFailure(const Context& ctx, StateReader& state, const JobId& job);

// Of a view of ListJobs: the last change of the job or of one of its tasks.
int64_t UpdatedAtMs(const JobView& view);
// Of a view of ListJobs: until the last part is rewritten when the bytes go on as they did since
// the first claim; null when nothing is rewritten yet. Pure.
JsonDoc EtaSeconds(const JobView& view, const JobNumbers& numbers);

int64_t CountIn(const JobView& view, TaskState state);
// [{"status":"READY","count":2},…] in the order of the states, without zeros.
JsonDoc StatusCounts(const JobView& view);

// What the records of all parts of a job share.
struct JobFacts {
  clickhouse::RewriteJobSpec spec;
  std::string schema_fingerprint;
};
Result<JobFacts> FactsOf(const JobView& view);
// One record under the names of clickhouse-parts §7.1 and §7.2: the task, its last attempt, its
// result.
Result<JsonDoc> RecordOf(const Context& ctx, StateReader& state, const JobView& view,
                         const JobFacts& facts, const Task& task);

// "sha256:…" of the shape that the job's artifacts have; empty when it cannot be read.
std::string SchemaFingerprintOf(const clickhouse::RewriteJobSpec& job);

// RFC 3339, or null when 0.
JsonDoc TimeOrNull(int64_t unix_ms);
std::vector<TaskState> AllTaskStates();

}  // namespace partforge::app
