#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/context.h"
#include "clickhouse/import_job.h"
#include "engine/engine.h"
#include "job/job_store.h"

namespace partforge::clickhouse {

struct PlannedArtifact {
  std::string part_id;
  std::map<std::string, int64_t> partition_parts;  // ClickHouse parts by partition id
  int64_t parts = 0, rows = 0, bytes = 0;
};

// What import-finished would do (user-experience §1.2).
struct ImportPlan {
  std::string job_id, table, engine;
  std::vector<PlannedArtifact> artifacts;  // in the order of the import
  // Commits that earlier runs left: they are carried to their end before anything else.
  int64_t unfinished_commits = 0;
  int64_t already_imported = 0;
  int64_t parts = 0, rows = 0, bytes = 0;
  std::vector<std::string> partitions;  // sorted
};

// The checks of RunImport and the artifacts it would publish. Takes no lock and writes nothing:
// that this user may write to detached/ is looked up, not tried. Failures as RunImport's before
// anything is decided.
Result<ImportPlan> PlanImport(const Context& ctx, JobStore& state, Engine& engine,
                              const ImportRequest& request);

}  // namespace partforge::clickhouse
