#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/context.h"
#include "clickhouse/import_target.h"
#include "clickhouse/part_committer.h"
#include "clickhouse/rewrite_job.h"
#include "engine/engine.h"
#include "job/job_store.h"

namespace partforge::clickhouse {

struct ImportRequest {
  std::string job_id;
  TableName table;
  std::string part_id;  // one artifact only; empty = every FINISHED one
  std::string owner;    // of locks and fences; unique for the process
  bool requires_empty = true;
  bool is_partial_allowed = false;  // import what is FINISHED although other parts are not
  bool skips_schema_check = false;
  bool allows_reorder = false;  // PF2112
  int64_t wait_lock_ms =
      17'000;  // for another import of the same table; outlives the lock of a killed one
  int64_t lease_ms = 15'000;  // of the lock and the fences
  int artifacts_in_parallel = 4;
  ImportSettings settings;
  PartCommitter::StoreOfBucket store_of_bucket;
  std::function<void(int64_t done, int64_t total, int64_t rows, int64_t bytes)> on_progress;
};

struct FailedImport {
  std::string part_id, message;
  int pf_number = 0;            // 0 = not known
  Code code = Code::kInternal;  // what the failure stands for
  // What helps when the part itself is as good as before, and retry-failed would not touch it;
  // empty when the part is FAILED.
  std::string what_to_do = {};
};
struct ImportSummary {
  std::string job_id, table;
  int64_t imported = 0, already_imported = 0, rows = 0, parts = 0, bytes = 0;
  std::vector<FailedImport> failed, in_doubt, conflicts;
  // count() of the target afterwards, and Σ rows of the job's confirmed pieces in it: equal for a
  // plain MergeTree that was empty before. -1 = not comparable.
  int64_t rows_in_table = -1, rows_published = -1;
  Status ended_early;  // why what was left was not tried; OK = everything was
};

// Publishes the finished artifacts of a job into its destination, each exactly once
// (clickhouse-parts §11). First it carries whatever an earlier run left, then it decides new
// commits. Failures before anything is decided: kNotFound (PF2130, PF2101), kRefused (PF2111,
// PF2112, PF2121, PF2122, PF2123, PF2124, PF2132), kConflict (PF2135), kUnavailable (a replica that
// cannot take parts). An artifact that fails stops no other: it is listed in the summary. What
// stops the whole import later (a full disk, a server that is away, a signal) is `ended_early`, so
// that what was published is told in any case. StatusOf turns the summary into the command's
// outcome.
Result<ImportSummary> RunImport(const Context& ctx, JobStore& state, Engine& engine,
                                const ImportRequest& request);

// OK; kUnknownOutcome (PF2138) when something is in doubt; kCorruption (PF2137) when the table does
// not hold what was published; ended_early; kInternal with PF2149 (exit 4) when some failed, with
// the number of the first failure (exit 1) when nothing was published at all.
Status StatusOf(const ImportSummary& summary);

// The shape a part of the job has against the live table: fingerprint and TTL texts (PF2121,
// PF2122, PF2111).
Status CheckImportSchema(const Context& ctx, Engine& engine, const RewriteJobSpec& job,
                         const ImportTarget& target);

}  // namespace partforge::clickhouse
