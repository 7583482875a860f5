#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/context.h"
#include "clickhouse/freeze_scan.h"
#include "clickhouse/rewrite_job.h"
#include "engine/engine.h"
#include "job/job_store.h"
#include "store/object_store.h"

namespace partforge::clickhouse {

struct UploadFreezeRequest {
  TableName source;
  std::vector<std::string> freezes;
  std::string destination_schema, insert_select;  // the two files, verbatim
  std::string bucket, prefix = "partforge";
  std::string job_id, job_name;  // job_id empty = drawn
  int parts_in_parallel = 1, files_in_parallel = 8;
  CoveredParts covered = CoveredParts::kRefuse;
  bool allows_external_reads = false;
  bool refuses_other_tables = false;  // --freeze-name-check: a freeze of several tables (PF2127)
  // --chunk-unsafe=single: SQL that is right for whole parts only is run on whole parts; else it is
  // refused (PF2114).
  bool allows_whole_parts_only = false;
  // An earlier run has begun with this job and this freeze: patch parts and mutations that the
  // table has now (PF2107, PF2108) came after it or were looked at then, and are told only.
  bool is_resumed = false;
  bool is_source_checked = false;  // CheckSourceTable was asked already
};

struct PlannedPart {
  FrozenPart frozen;
  std::string part_id, source_key, finished_key;
};

// What upload-freeze would do: pure but for reading; printed by --dry-run and `plan`.
struct UploadPlan {
  std::string job_id;
  RewriteJobSpec job;
  std::string schema_fingerprint;         // "sha256:…"
  std::vector<PlannedPart> parts;         // in order of disk and path
  std::vector<FrozenPart> skipped;        // covered by others
  std::vector<std::string> other_tables;  // data paths that the freeze holds beside the table's
  std::vector<std::string> removals;  // what the local tables leave out of the schemas, for people
  int64_t rows = 0, size_bytes = 0;
};

// PF2110, for a job of so many parts with a mask of deleted rows; it begins with its code.
std::string MaskedPartsNote(int64_t parts);

// In what a job is not the one that `request` asks for, for people: its table, SQL, bucket or
// prefix. Empty = it is that one. Freezes are not compared.
Result<std::string> DifferenceOf(const RewriteJobSpec& job, const UploadFreezeRequest& request);

// The first half of PlanUpload, before there is a freeze: the job without parts. Same refusals.
Result<UploadPlan> PlanJob(const Context& ctx, Engine& source, Engine& local,
                           const UploadFreezeRequest& request);

// Reads the source's schema and freeze, validates the SQL in the local engine (clickhouse-parts
// §8.2 steps 1–7). `source` is the server that holds the table, `local` the embedded engine.
// Refusals: PF21xx, kRefused. What is handled and yet good to know of the parts is among the job's
// warnings, with its code first, so that whoever plans its work later can tell it.
Result<UploadPlan> PlanUpload(const Context& ctx, Engine& source, Engine& local,
                              const UploadFreezeRequest& request);

struct UploadSummary {
  std::string job_id;
  int64_t parts = 0, size_bytes = 0, skipped = 0,
          rows = 0;  // skipped: parts that were complete already
};
// Copies every part and registers its row, then seals the job (steps 8–9). Running it again with
// the same job id resumes. A failure stops the rest; rows that are registered stay. Fault points:
// clickhouse.job_created, clickhouse.part_registered, clickhouse.job_sealed.
Result<UploadSummary> RunUpload(
    const Context& ctx, JobStore& state, ObjectStore& store, const UploadFreezeRequest& request,
    const UploadPlan& plan, const std::function<void(int64_t parts, int64_t bytes)>& on_progress);

}  // namespace partforge::clickhouse
