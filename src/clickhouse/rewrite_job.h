#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace partforge::clickhouse {

// What a rewrite job, its tasks and their results say of themselves in the job store's JSON fields.
// Every document carries "version" and is read strictly: unknown or missing fields are kCorruption.

inline constexpr std::string_view kRewriteKind = "clickhouse.rewrite";

// jobs.payload: the request, the same for every task; fixed by `upload-freeze`.
struct RewriteJobSpec {
  std::string source_database, source_table, source_schema;  // schema: trimmed SHOW CREATE TABLE
  std::string destination_database, destination_table,
      destination_schema;        // schema: the file, verbatim
  std::string insert_select;     // the file, verbatim
  std::string timezone = "UTC";  // of the source's server; the rewriting engines have the same
  bool allows_external_reads = false;  // the SELECT may use url(), s3() and the like
  std::string freeze;
  std::string bucket, prefix;
  std::string
      fingerprint;  // canonical JSON of fingerprint.h (its SHA-256 is the schema_fingerprint)
  bool is_chunk_safe = true;  // the SELECT may be run on row ranges of a part (sql_check.h)
  std::string chunk_refusal;  // the construct that forbids it, for people; empty when safe
  bool is_order_sensitive =
      false;  // destination engine whose result depends on part order (PF2112)
  std::vector<std::string> warnings;

  std::string ToJson() const;
  static Result<RewriteJobSpec> FromJson(std::string_view text);
};

// tasks.payload of an original row: one uploaded source part. Of the output of several (T5b): no
// place on a disk, its own id as part_name, source_key equal to finished_key, and sums.
struct RewriteTaskSpec {
  std::string disk, relative_path, part_name;
  std::string source_key;    // object prefix that holds the files and manifest.json
  std::string finished_key;  // without epoch; attempts write below "<finished_key>.<epoch>"
  std::string manifest_sha256;
  std::string checksums_sha256;  // of checksums.txt: finds the same part uploaded twice
  int64_t rows = 0, size_bytes = 0, files = 0;
  int64_t uncompressed_bytes =
      0;  // of all columns as checksums.txt tells; 0 = unknown. Base of the block estimate
  std::string error;  // of the last failure, set by the store when a task fails

  std::string ToJson() const;
  static Result<RewriteTaskSpec> FromJson(std::string_view text);
};

// attempts.result of a finished rewrite (TaskResult.outputs).
struct RewriteOutput {
  std::string finished_key;  // prefix of this attempt; empty output has none
  std::string meta_key, meta_sha256;
  bool is_empty = false;
  std::string tier;         // the tier that worked
  std::string tier_reason;  // why it was planned, and the tiers that were fallen from
  std::map<std::string, int64_t> partition_parts;  // destination_active_partition_counts
  int64_t source_rows = 0, source_rows_visible = 0, rows_selected = 0, rows_written = 0,
          rows_out = 0;
  int64_t rows_expired = 0;  // --ttl=apply: what the local merges left out
  // Of the source part's columns, uncompressed: all are decoded and encoded again, no tier copies
  // any as they are (performance R9).
  int64_t bytes_decoded = 0;
  int64_t bytes_out = 0, chunks = 0, insert_attempts = 0, peak_memory_bytes = 0;
  std::map<std::string, int64_t> stage_ms;  // rewrite_stage_durations_ms
  int64_t source_parts = 1;  // T5b: how many; their tasks are superseded by the one that has this

  std::string ToJson() const;
  static Result<RewriteOutput> FromJson(std::string_view text);
};

}  // namespace partforge::clickhouse
