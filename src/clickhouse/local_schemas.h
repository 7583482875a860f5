#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "base/context.h"
#include "clickhouse/ddl.h"
#include "clickhouse/rewrite_job.h"
#include "engine/engine.h"

namespace partforge::clickhouse {

// What every part of one job needs before its first statement: both schemas made fit for the local
// engine.
struct LocalSchemas {
  LocalDdl source, destination;
  std::string engine_version;
};

// Keeps them per job and texts for the life of a worker, since its engines are all of one library:
// reading the engine's names and rewriting the schemas costs as much as a small part's insert.
// Thread-safe.
class LocalSchemaCache {
 public:
  Result<std::shared_ptr<const LocalSchemas>> Get(const Context& ctx, Engine& engine,
                                                  const std::string& job_id,
                                                  const RewriteJobSpec& job);

 private:
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<const LocalSchemas>> schemas_;  // guarded by mutex_
};

}  // namespace partforge::clickhouse
