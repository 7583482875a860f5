#pragma once

#include <filesystem>
#include <functional>
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

// A source part of an attempt, and what has become of it.
struct AttemptSource {
  Task task;  // as claimed
  RewriteTaskSpec spec;
  std::string owner_job, owner_task;  // of the artifact: borrowed work has another row's
  FetchedSource fetched = {};
  Status damage = {};  // not OK: the part itself is bad, and is left out of the insert
};

// One attempt at one source part, or at several of one job together (T5b). Made, run once, dropped.
// The engine's tables are given back or dropped by Run, whatever happened.
class RewriteAttempt {
 public:
  // `sources` are not empty and were claimed by one lease.
  RewriteAttempt(const RewriteSettings& settings, SlotEngines& engines, LocalSchemaCache& cache,
                 KeptTables& kept, ObjectStore& store, RewriteJobSpec job,
                 std::vector<AttemptSource> sources, TaskScope& scope);

  // The result of all sources that are not damaged. With one source its damage is the failure.
  Result<TaskResult> Run(const Context& ctx);
  const std::vector<AttemptSource>& sources() const { return sources_; }
  // Tells the sources that Run has rewritten.
  std::vector<const AttemptSource*> Rewritten() const;
  // The task that stands for several: after Run has succeeded.
  Task OutputTask(const TaskResult& result) const;
  // Whether objects were being copied when Run ended; asked before CleanUp.
  bool is_transfer() const {
    return stages_.stage() == "download_source" || stages_.stage() == "upload_finished_tarballs";
  }
  // Drops scratch, best effort.
  void CleanUp(const Context& ctx);

 private:
  Status CheckScratchSpace() const;
  Status Fetch(const Context& ctx);
  Status FetchOne(const Context& ctx, AttemptSource& source, int threads) const;
  // Notes a failure that is the part's own; any other is answered.
  Status NoteDamage(AttemptSource& source, Status failure) const;
  Status CheckSomeAreLeft() const;
  // An engine that hangs is killed, so that the next attempt finds another one.
  Status CheckEngineAnswers(const Context& ctx, Engine& local);
  Status PrepareTables(const Context& ctx);
  Status CheckColumns(const Context& ctx, const AttemptSource& source) const;
  Status Attach(const Context& ctx);
  Status Insert(const Context& ctx);
  Status Merge(const Context& ctx);
  Status Verify(const Context& ctx);
  Result<std::vector<PartDirectory>> Freeze(const Context& ctx);
  // Everything that is done in the slot's engine: from tables to frozen parts.
  Result<std::vector<PartDirectory>> Rewrite(const Context& ctx);
  // Drops the tables, or empties them for the slot's next part. While the permit of the engine is
  // held.
  enum class AfterUse : uint8_t { kDrop, kKeep };
  void ReleaseTables(const Context& ctx, AfterUse after);
  Status Upload(const Context& ctx, const std::vector<PartDirectory>& parts);
  Status Report(const Context& ctx, double fraction, int64_t read_rows, int64_t written_rows);
  // The gauges of active parts of one of the two tables (role: source, destination).
  void ShowParts(const Context& ctx, const std::string& role, const PartitionMap& parts) const;
  MetricLabels TableLabels() const;
  Result<TaskResult> MakeResult() const;
  // The first source that is not damaged: its task and epoch name what the attempt writes, so that
  // no two attempts meet.
  const AttemptSource& lead() const;
  bool is_gathered() const { return Rewritten().size() > 1; }
  // The task that has the result: the source's own, or the one that supersedes them all.
  TaskId OutputId() const;
  // Of the sources that are not damaged.
  int64_t Sum(const std::function<int64_t(const AttemptSource&)>& value) const;
  std::filesystem::path FolderOf(const AttemptSource& source) const;
  // For messages: the part, or how many.
  std::string What() const;
  Result<Engine*> engine(const Context& ctx) { return engines_.Get(ctx, scope_.slot(), wish()); }
  const LocalDdl& source_ddl() const { return schemas_->source; }
  const LocalDdl& destination_ddl() const { return schemas_->destination; }
  EngineWish wish() const {
    EngineWish wish(scope_.slot_path(), job_.timezone);
    wish.allows_external_reads = job_.allows_external_reads;
    return wish;
  }

  const RewriteSettings& settings_;
  SlotEngines& engines_;
  LocalSchemaCache& cache_;
  KeptTables& kept_;
  ObjectStore& store_;
  const RewriteJobSpec job_;
  std::vector<AttemptSource> sources_;
  const JobId job_id_;
  const TaskId first_id_;  // names the attempt in metrics and logs
  TaskScope& scope_;
  StageClock stages_;

  Tuning tuning_;
  std::shared_ptr<const LocalSchemas> schemas_;
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
