#include "clickhouse/local_schemas.h"

#include "clickhouse/fingerprint.h"

namespace partforge::clickhouse {
namespace {

constexpr size_t kJobsMax = 64;  // more at once are made again

Result<std::shared_ptr<const LocalSchemas>> Make(const Context& ctx, Engine& engine,
                                                 const RewriteJobSpec& job) {
  auto schemas = std::make_shared<LocalSchemas>();
  DdlOptions options;
  options.keep_ttl = true;
  PF_ASSIGN(options.engine, ReadEngineNames(ctx, engine));
  PF_ASSIGN(schemas->source, NormalizeSource(job.source_schema, options));
  PF_ASSIGN(schemas->destination, NormalizeDestination(job.destination_schema, options));
  PF_ASSIGN(const QueryOutcome version, engine.Query(ctx, "SELECT version()", {}));
  schemas->engine_version = version.text.substr(0, version.text.find('\n'));
  return std::shared_ptr<const LocalSchemas>(std::move(schemas));
}

}  // namespace

Result<std::shared_ptr<const LocalSchemas>> LocalSchemaCache::Get(const Context& ctx,
                                                                  Engine& engine,
                                                                  const std::string& job_id,
                                                                  const RewriteJobSpec& job) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto it = schemas_.find(job_id); it != schemas_.end()) return it->second;
  }
  PF_ASSIGN(std::shared_ptr<const LocalSchemas> schemas, Make(ctx, engine, job));
  const std::lock_guard lock(mutex_);
  if (schemas_.size() >= kJobsMax) schemas_.clear();
  schemas_[job_id] = schemas;
  return schemas;
}

}  // namespace partforge::clickhouse
