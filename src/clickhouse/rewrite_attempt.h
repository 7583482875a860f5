#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/context.h"
#include "clickhouse/artifact.h"
#include "clickhouse/artifact_upload.h"
#include "clickhouse/chunk_inserter.h"
#include "clickhouse/ddl.h"
#include "clickhouse/kept_tables.h"
#include "clickhouse/local_schemas.h"
#include "clickhouse/local_tables.h"
#include "clickhouse/rewrite_executor.h"
#include "clickhouse/rewrite_job.h"
#include "clickhouse/source_fetch.h"
#include "engine/engine.h"
#include "job/kind.h"

namespace partforge::clickhouse {

// The stages of one rewrite, in order: name, start, durations (clickhouse-parts §9), for progress,
// metrics and logs.
class StageClock {
 public:
  StageClock(std::string job, std::string part) : job_(std::move(job)), part_(std::move(part)) {}
  void Begin(const Context& ctx, std::string_view stage);
  void End(const Context& ctx);
  // Brings the gauges of elapsed time up to date.
  void Tick(const Context& ctx) const;
  // Takes every gauge of the item away.
  void Close(const Context& ctx);
  // Fields of a progress document: the stage's and the whole time, and the stages behind it.
  std::string ProgressFields() const;
  const std::string& stage() const { return stage_; }
  const std::map<std::string, int64_t>& durations_ms() const { return durations_ms_; }

 private:
  const std::string job_, part_;
  std::string stage_;
  const int64_t begun_ms_ = MonotonicMs();
  int64_t started_ms_ = 0;
  std::map<std::string, int64_t> durations_ms_;
};

// One attempt at one source part. Made, run once, dropped. The engine's tables are given back
// or dropped by Run, whatever happened.
class RewriteAttempt {
 public:
  RewriteAttempt(const RewriteSettings& settings, SlotEngines& engines, LocalSchemaCache& cache,
                 KeptTables& kept, ObjectStore& store, RewriteJobSpec job, RewriteTaskSpec part,
                 const Task& task, std::string owner_job, std::string owner_task, TaskScope& scope);

  Result<TaskResult> Run(const Context& ctx);
  // Whether objects were being copied when Run ended; asked before CleanUp.
  bool is_transfer() const {
    return stages_.stage() == "download_source" || stages_.stage() == "upload_finished_tarballs";
  }
  // Drops scratch, best effort.
  void CleanUp(const Context& ctx);

 private:
  Status CheckScratchSpace() const;
  Status Fetch(const Context& ctx);
  // An engine that hangs is killed, so that the next attempt finds another one.
  Status CheckEngineAnswers(const Context& ctx, Engine& local);
  Status PrepareTables(const Context& ctx);
  Status Attach(const Context& ctx);
  Status Insert(const Context& ctx);
  Status Merge(const Context& ctx);
  Status Verify(const Context& ctx);
  Result<std::vector<PartDirectory>> Freeze(const Context& ctx);
  // Everything that is done in the slot's engine: from tables to frozen parts.
  Result<std::vector<PartDirectory>> Rewrite(const Context& ctx);
  // Empties the tables for the slot's next part, or drops them. While the permit of the engine is
  // held.
  void ReleaseTables(const Context& ctx, bool may_be_kept);
  Status Upload(const Context& ctx, const std::vector<PartDirectory>& parts);
  Status Report(const Context& ctx, double fraction, int64_t read_rows, int64_t written_rows);
  // The gauges of active parts of one of the two tables (role: source, destination).
  void ShowParts(const Context& ctx, const std::string& role, const PartitionMap& parts) const;
  MetricLabels TableLabels() const;
  Result<TaskResult> MakeResult() const;
  Result<Engine*> engine(const Context& ctx) { return engines_.Get(ctx, scope_.slot(), wish()); }
  const LocalDdl& source_ddl() const { return schemas_->source; }
  const LocalDdl& destination_ddl() const { return schemas_->destination; }
  EngineWish wish() const {
    return {scope_.slot_path(), job_.timezone, job_.allows_external_reads};
  }

  const RewriteSettings& settings_;
  SlotEngines& engines_;
  LocalSchemaCache& cache_;
  KeptTables& kept_;
  ObjectStore& store_;
  const RewriteJobSpec job_;
  const RewriteTaskSpec part_;
  const Task& task_;
  const std::string owner_job_, owner_task_;
  TaskScope& scope_;
  StageClock stages_;

  Tuning tuning_;
  std::shared_ptr<const LocalSchemas> schemas_;
  FetchedSource source_;
  std::unique_ptr<LocalTables> tables_;
  bool are_tables_plain_ = false;      // nothing was done to them but one insert that worked
  std::filesystem::path frozen_path_;  // shadow folder of this attempt; empty = none
  InsertPlan plan_;
  InsertOutcome inserted_;
  int64_t visible_rows_ = 0, rows_expired_ = 0, peak_memory_bytes_ = 0;
  PartitionMap attached_, after_insert_, produced_;
  std::vector<ActivePart> produced_parts_;  // produced_, part by part
  ArtifactMeta meta_;
  MetaReference meta_reference_;
  std::string finished_prefix_;
};

}  // namespace partforge::clickhouse
