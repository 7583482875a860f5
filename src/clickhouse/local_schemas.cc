#include "clickhouse/local_schemas.h"

#include "base/hash.h"
#include "clickhouse/fingerprint.h"

namespace partforge::clickhouse {
namespace {

constexpr size_t kJobsMax = 64;  // more at once are made again

Result<std::shared_ptr<const LocalSchemas>> Make(const Context& ctx, Engine& engine,
                                                 const RewriteJobSpec& job) {
  auto schemas = std::make_shared<LocalSchemas>();
  DdlOptions options;
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
  // The texts too: another state store may hold another job of the same id.
  const std::string key =
      job_id + "/" + Sha256Hex(Sha256Hex(job.source_schema) + Sha256Hex(job.destination_schema));
  {
    const std::lock_guard lock(mutex_);
    if (const auto it = schemas_.find(key); it != schemas_.end()) return it->second;
  }
  PF_ASSIGN(std::shared_ptr<const LocalSchemas> schemas, Make(ctx, engine, job));
  const std::lock_guard lock(mutex_);
  if (schemas_.size() >= kJobsMax) schemas_.clear();
  schemas_[key] = schemas;
  return schemas;
}

}  // namespace partforge::clickhouse
