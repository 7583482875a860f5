#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/context.h"
#include "clickhouse/import_job.h"
#include "clickhouse/import_target.h"
#include "engine/engine.h"
#include "job/job_store.h"

// What an import asks before it decides anything, and after it has ended (clickhouse-parts §11.1,
// §11.6). Nothing here has an effect.
namespace partforge::clickhouse {

int64_t CountOf(const JobView& view, TaskState state);

// One artifact and its place in the order of the source's blocks.
struct ArtifactTask {
  TaskId id;
  std::string partition;  // empty where one count of blocks goes through all partitions
  int64_t min_block = 0;
  uint64_t winner = 0;  // epoch of the attempt that stands
};

// Whether the source counts its blocks through all partitions, as tables that are not replicated
// do. Then a row that came earlier lies in an earlier block, whatever its partition. False when the
// schema cannot be read: partitions are kept apart.
bool HasOneBlockCount(const RewriteJobSpec& job);

// The FINISHED artifacts that are asked for, in the order of the source's blocks, so that
// order-sensitive engines see what the source had.
Result<std::vector<ArtifactTask>> ListFinished(const Context& ctx, JobStore& state,
                                               const RewriteJobSpec& job,
                                               const ImportRequest& request);

// kRefused (PF2132) unless every part is finished, or less is asked for.
Status CheckReady(const JobView& view, const ImportRequest& request);

// Rows of the active parts, as the server counts them.
Result<int64_t> CountActiveRows(const Context& ctx, Engine& engine, const TableName& table);
// kRefused (PF2123): the table has rows that are not this job's.
Status NotEmpty(const TableName& table, std::string why);

// kRefused (PF2131): the one part that is asked for is not FINISHED.
Status NotFinished(const ImportRequest& request);

// What is asked before the table is locked, in this order: CheckReady, the table itself, its
// schema, its replica. The table as it stands.
Result<ImportTarget> CheckImport(const Context& ctx, Engine& engine, const ImportRequest& request,
                                 const JobView& view, const RewriteJobSpec& job);

// Whether the table keeps every row that is put into it: no engine that folds rows, no TTL that
// drops them.
Result<bool> KeepsEveryRow(const ImportTarget& target);

// What this job has published so far must stand in this very table. kRefused: PF2134 when artifacts
// went into another table (to say "nothing left to do" of this one would be untrue). Where an empty
// table is asked for also PF2123 unless it holds exactly what this job has put there before, where
// rows may vanish by merges at most that, and PF2137 when rows of the job are missing.
Status CheckPublished(const Context& ctx, JobStore& state, Engine& engine,
                      const ImportTarget& target, const ImportRequest& request);

// A table whose engine keeps the last of several rows must see the parts in the order of the
// source: kRefused (PF2112) when something that comes before `chosen` is not published.
Status CheckOrder(const Context& ctx, JobStore& state, const JobView& view,
                  const RewriteJobSpec& job, const ImportRequest& request,
                  const std::vector<ArtifactTask>& chosen);

// Parts cannot be attached to a replica that has lost its keeper: kUnavailable.
Status CheckReplica(const Context& ctx, Engine& engine, const ImportTarget& target);

// Fills both totals of the summary, where they can be compared (clickhouse-parts §11.6, last
// paragraph).
Status CompareTotals(const Context& ctx, JobStore& state, Engine& engine,
                     const ImportTarget& target, const ImportRequest& request,
                     ImportSummary& summary);

}  // namespace partforge::clickhouse
