#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/context.h"
#include "clickhouse/ddl.h"
#include "clickhouse/part_files.h"
#include "engine/engine.h"

namespace partforge::clickhouse {

enum class TtlPolicy : uint8_t {
  kKeep,   // TTL clauses are kept and never applied here
  kApply,  // the local merges apply them
};

// Active parts of a table by partition id; without the empty ones that the engine leaves where rows
// were moved, truncated or expired.
struct PartitionStats {
  int64_t parts = 0, rows = 0, bytes = 0;
  bool operator==(const PartitionStats&) const = default;
};
using PartitionMap = std::map<std::string, PartitionStats>;
PartitionStats Total(const PartitionMap& partitions);

// One active part that holds rows, as the engine lists it.
struct ActivePart {
  std::string partition_id, name;
  std::filesystem::path path;  // its folder
  int64_t rows = 0, bytes = 0;
};
PartitionMap PartitionsOf(const std::vector<ActivePart>& parts);

// A fetched source part that waits to be attached.
struct SourceDirectory {
  std::filesystem::path directory;
  std::string part_name;  // as on the server: names the partition
};

struct LocalTablesRequest {
  LocalDdl source, destination;
  std::string compression_codec = "ZSTD(5)";
  TtlPolicy ttl = TtlPolicy::kKeep;
};

// The throw-away tables of one work item in the slot's own engine: source and destination under the
// user's names, and the completed table of chunked inserts (clickhouse-parts §9 steps 6–8, §9.3).
// The engine belongs to the slot alone, so whatever databases an earlier item left are dropped
// first. One thread at a time.
class LocalTables {
 public:
  // Drops leftovers, creates databases (Atomic) and both tables, sets the codec, stops merges (so
  // that they stay stopped also when the engine's process is started again).
  // kRefused or kInvalidArgument from the engine say that a schema does not work here.
  static Result<LocalTables> Create(const Context& ctx, Engine& engine, LocalTablesRequest request);

  const TableName& source() const { return request_.source.table.name; }
  const TableName& destination() const { return request_.destination.table.name; }
  TableName completed() const;  // "<destination>__partforge_completed"

  // Moves a part directory (same file system) into the source table and attaches it under its own
  // name. kCorruption when the engine refuses it.
  Status AttachSource(const Context& ctx, const std::filesystem::path& part_directory,
                      std::string_view part_name);

  // The same for many parts, each under a name of its own, by as few statements as there are
  // partitions. A failure leaves some attached.
  Status AttachSources(const Context& ctx, const std::vector<SourceDirectory>& parts);

  // The same for a produced part, into the destination table: for `verify`.
  Status AttachDestination(const Context& ctx, const std::filesystem::path& part_directory,
                           std::string_view part_name);

  Result<PartitionMap> ActiveParts(const Context& ctx, const TableName& table);
  // The same, part by part in order of their names.
  Result<std::vector<ActivePart>> ListParts(const Context& ctx, const TableName& table);
  // The source's parts, once it is proven that the other tables hold none: kUnavailable else, and
  // the tables must not be used. One statement for what both questions need.
  Result<PartitionMap> SourcePartsAlone(const Context& ctx);
  Result<int64_t> CountRows(const Context& ctx, const TableName& table,
                            std::string_view additional_filter);
  Status CreateCompleted(const Context& ctx);
  // Moves every partition of the destination into the completed table, one after the other. A
  // failure leaves some moved.
  Status PromoteStaging(const Context& ctx, const PartitionMap& partitions);
  Status TruncateStaging(const Context& ctx);
  // Destination and completed table change names, and the emptied one is dropped.
  Status ExchangeCompleted(const Context& ctx);
  // The emptied table behind the completed table's name, after an exchange.
  Status DropCompleted(const Context& ctx);
  // STOP MERGES does not survive a restart of the engine: said again for every table.
  Status StopMerges(const Context& ctx);
  Status StartDestinationMerges(const Context& ctx);
  Result<std::string> Uuid(const Context& ctx, const TableName& table);
  // Takes every row out of source and destination, so that another part can be written with them:
  // several times cheaper than new tables. Only while nothing but inserts was done to them: not
  // after a merge, a restart of the engine, or with a completed table.
  Status Clear(const Context& ctx);
  // Drops everything; also after the engine was restarted, and after a stop, which only shortens
  // how long the engine may stay silent.
  Status Drop(const Context& ctx);

 private:
  LocalTables(Engine& engine, LocalTablesRequest request)
      : engine_(&engine), request_(std::move(request)) {}
  Status Run(const Context& ctx, std::string_view sql);
  Status Attach(const Context& ctx, const TableName& table, const std::filesystem::path& data_path,
                const std::filesystem::path& part_directory, std::string_view part_name);
  Status Truncate(const Context& ctx, const TableName& table);
  Result<std::filesystem::path> DataPath(const Context& ctx, const TableName& table);
  // Those that apply a TTL only where it is kept.
  Status StopMergesOf(const Context& ctx, const TableName& table, TtlPolicy ttl);

  Engine* engine_;
  LocalTablesRequest request_;
  bool has_completed_ = false;
  std::filesystem::path source_path_;  // where the engine keeps the source; empty = not asked yet
};

// A table of ours beside that one: `<table><suffix>`, or a hash in place of a name that would be
// too long with it. The server counts its letters as they are escaped for a file, with the
// database's.
TableName TableBeside(const TableName& table, std::string_view suffix);

// Columns that a part of the table may hold, with their types, in order.
std::vector<PartColumn> StoredColumns(const CreateTable& table);

// Drops every database that is not the engine's own. `timeout_ms`: how long it may stay silent.
Status DropUserDatabases(const Context& ctx, Engine& engine, int64_t timeout_ms);
// Rows of a TabSeparated answer, unescaped.
std::vector<std::vector<std::string>> SplitTsv(std::string_view text);
// A field of one. kInternal when it is no number.
Result<int64_t> ToInt(std::string_view text);
Result<int64_t> QueryInt(const Context& ctx, Engine& engine, std::string_view sql,
                         const QueryOptions& options);

}  // namespace partforge::clickhouse
