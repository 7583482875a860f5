#pragma once

#include <string>
#include <vector>

#include "base/context.h"
#include "clickhouse/fingerprint.h"
#include "clickhouse/local_tables.h"
#include "engine/engine.h"

namespace partforge::clickhouse {

struct JobSqlRequest {
  std::string source_schema, destination_schema, insert_select;
  std::string compression_codec = "ZSTD(5)";
  bool allows_external_reads = false;
};

// What `check` and `upload-freeze` say about the three SQL texts of a job.
struct JobSqlVerdict {
  TableName source, destination;
  Fingerprint fingerprint;  // of the destination as the user wrote it
  bool is_chunk_safe = true;
  std::string chunk_refusal;          // the first construct that forbids chunks, with its place
  bool is_order_sensitive = false;    // PF2112
  std::vector<std::string> removals;  // what the local tables leave out
  std::vector<std::string> warnings;
};

// Proves the SQL in the local engine before anything is uploaded (clickhouse-parts §8.2 steps 2–5,
// §9.2, §12.3): the statements parse, fit each other, both tables can be made, the INSERT is
// understood, nothing reserved or external is used. kRefused with PF21xx (PF2114 is not refused
// here: it only sets is_chunk_safe).
Result<JobSqlVerdict> CheckJobSql(const Context& ctx, Engine& local, const JobSqlRequest& request);

// Engines whose result depends on the order in which parts arrive (PF2112).
bool IsOrderSensitive(const CreateTable& destination);

// What in a source's schema forbids reading its parts in ranges of rows, whatever the SELECT;
// empty when nothing does.
std::string ChunkRefusalOf(const CreateTable& source);

}  // namespace partforge::clickhouse
