#include "clickhouse/local_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "base/files.h"
#include "base/hash.h"
#include "clickhouse/freeze_scan.h"
#include "clickhouse/part_name.h"
#include "engine/sql_text.h"

namespace partforge::clickhouse {
namespace {

constexpr std::string_view kCompletedSuffix = "__partforge_completed";

constexpr int64_t kEmptyPartsMax = 1000;

// STOP MERGES ends with the engine's process; what stands in the table's own settings does not. So
// an engine that was started again merges nothing before it is told to stop again. OPTIMIZE is not
// bound by them.
constexpr std::string_view kNoMerges =
    "max_bytes_to_merge_at_max_space_in_pool = 1, max_bytes_to_merge_at_min_space_in_pool = 1, "
    "max_number_of_merges_with_ttl_in_pool = 0";

std::string Sql(const TableName& table) {
  return QuoteTable(table.database, table.table);
}

std::string WhereTable(const TableName& table) {
  return fmt::format("database = {} AND table = {}", QuoteString(table.database),
                     QuoteString(table.table));
}

}  // namespace

Result<int64_t> ToInt(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size()) return value;
  return Status(Code::kInternal,
                fmt::format("engine answered something that is no number: {}", text));
}

PartitionStats Total(const PartitionMap& partitions) {
  PartitionStats total;
  for (const auto& [id, stats] : partitions) {
    total.parts += stats.parts;
    total.rows += stats.rows;
    total.bytes += stats.bytes;
  }
  return total;
}

PartitionMap PartitionsOf(const std::vector<ActivePart>& parts) {
  PartitionMap partitions;
  for (const ActivePart& part : parts) {
    PartitionStats& stats = partitions[part.partition_id];
    ++stats.parts;
    stats.rows += part.rows;
    stats.bytes += part.bytes;
  }
  return partitions;
}

std::vector<std::vector<std::string>> SplitTsv(std::string_view text) {
  std::vector<std::vector<std::string>> rows;
  std::vector<std::string> row;
  std::string cell;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\\' && i + 1 < text.size()) {
      const char escaped = text[++i];
      switch (escaped) {
        case 't':
          cell += '\t';
          break;
        case 'n':
          cell += '\n';
          break;
        case 'r':
          cell += '\r';
          break;
        case '0':
          cell += '\0';
          break;
        case 'b':
          cell += '\b';
          break;
        case 'f':
          cell += '\f';
          break;
        default:
          cell += escaped;
      }
    } else if (c == '\t') {
      row.push_back(std::move(cell));
      cell.clear();
    } else if (c == '\n') {
      row.push_back(std::move(cell));
      cell.clear();
      rows.push_back(std::move(row));
      row.clear();
    } else {
      cell += c;
    }
  }
  return rows;
}

Result<int64_t> QueryInt(const Context& ctx, Engine& engine, std::string_view sql,
                         const QueryOptions& options) {
  PF_ASSIGN(const QueryOutcome outcome, engine.Query(ctx, sql, options));
  std::string_view text = outcome.text;
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.remove_suffix(1);
  return ToInt(text);
}

TableName TableBeside(const TableName& table, std::string_view suffix) {
  constexpr size_t kEscapedBytesMax = 190;  // of both names; the server's limit is some 213
  constexpr size_t kHashDigits = 16;
  TableName beside{table.database, table.table + std::string(suffix)};
  const size_t escaped_bytes =
      EscapeForFileName(beside.database).size() + EscapeForFileName(beside.table).size();
  if (escaped_bytes > kEscapedBytesMax)
    beside.table = Sha256Hex(table.table).substr(0, kHashDigits) + std::string(suffix);
  return beside;
}

std::vector<PartColumn> StoredColumns(const CreateTable& table) {
  std::vector<PartColumn> columns;
  for (const ColumnDefinition& column : table.columns) {
    if (column.default_kind == "ALIAS" || column.default_kind == "EPHEMERAL") continue;
    columns.push_back(PartColumn{column.name, column.type});
  }
  return columns;
}

// SYNC waits for statements that use the tables.
constexpr int64_t kDropTimeoutMs = 60'000, kDropTimeoutOnStopMs = 10'000;

Status DropUserDatabases(const Context& ctx, Engine& engine, int64_t timeout_ms) {
  const QueryOptions quick{.idle_timeout_ms = timeout_ms};
  PF_ASSIGN(const QueryOutcome names,
            engine.Query(
                ctx,
                "SELECT name FROM system.databases WHERE name NOT IN ('system', 'default', "
                "'INFORMATION_SCHEMA', "
                "'information_schema', '_local', '_temporary_and_external_tables') ORDER BY name",
                quick));
  const QueryOptions limits{
      .settings = {{"max_table_size_to_drop", "0"}, {"max_partition_size_to_drop", "0"}},
      .idle_timeout_ms = timeout_ms};
  for (const auto& row : SplitTsv(names.text)) {
    PF_TRY(engine.Query(
        ctx, fmt::format("DROP DATABASE IF EXISTS {} SYNC", QuoteIdentifier(row.at(0))), limits));
  }
  PF_ASSIGN(
      const QueryOutcome tables,
      engine.Query(ctx, "SELECT name FROM system.tables WHERE database = 'default' ORDER BY name",
                   quick));
  for (const auto& row : SplitTsv(tables.text)) {
    PF_TRY(engine.Query(
        ctx, fmt::format("DROP TABLE IF EXISTS {} SYNC", QuoteTable("default", row.at(0))),
        limits));
  }
  return {};
}

Result<LocalTables> LocalTables::Create(const Context& ctx, Engine& engine,
                                        LocalTablesRequest request) {
  PF_TRY(DropUserDatabases(ctx, engine, kDropTimeoutMs));
  LocalTables tables(engine, std::move(request));
  for (const TableName& table : {tables.source(), tables.destination()}) {
    if (table.database == "default") continue;
    PF_TRY(tables.Run(ctx, fmt::format("CREATE DATABASE IF NOT EXISTS {} ENGINE = Atomic",
                                       QuoteIdentifier(table.database))));
  }
  const QueryOptions lenient{.settings = LenientCreateSettings()};
  PF_TRY(engine.Query(ctx, tables.request_.source.sql, lenient));
  PF_TRY(tables.StopMergesOf(ctx, tables.source(), TtlPolicy::kKeep));
  PF_TRY(tables.Run(
      ctx, fmt::format("ALTER TABLE {} MODIFY SETTING {}", Sql(tables.source()), kNoMerges)));
  PF_TRY(engine.Query(ctx, tables.request_.destination.sql, lenient));
  PF_TRY(tables.StopMergesOf(ctx, tables.destination(), tables.request_.ttl));
  // Vertical merges always: several times cheaper than horizontal ones (performance §1). The
  // settings live in the local table only, not in the parts.
  PF_TRY(
      tables.Run(ctx, fmt::format("ALTER TABLE {} MODIFY SETTING default_compression_codec = {}, "
                                  "enable_vertical_merge_algorithm = 1, "
                                  "vertical_merge_algorithm_min_rows_to_activate = 0, "
                                  "vertical_merge_algorithm_min_bytes_to_activate = 0, "
                                  "vertical_merge_algorithm_min_columns_to_activate = 0, {}",
                                  Sql(tables.destination()),
                                  QuoteString(tables.request_.compression_codec), kNoMerges)));
  return tables;
}

TableName LocalTables::completed() const {
  return TableBeside(destination(), kCompletedSuffix);
}

Status LocalTables::Run(const Context& ctx, std::string_view sql) {
  PF_TRY(engine_->Query(ctx, sql, {}));
  return {};
}

Status LocalTables::StopMergesOf(const Context& ctx, const TableName& table, TtlPolicy ttl) {
  PF_TRY(Run(ctx, fmt::format("SYSTEM STOP MERGES {}", Sql(table))));
  if (ttl == TtlPolicy::kKeep)
    PF_TRY(Run(ctx, fmt::format("SYSTEM STOP TTL MERGES {}", Sql(table))));
  return {};
}

Status LocalTables::StopMerges(const Context& ctx) {
  PF_TRY(StopMergesOf(ctx, source(), TtlPolicy::kKeep));
  PF_TRY(StopMergesOf(ctx, destination(), request_.ttl));
  if (has_completed_) PF_TRY(StopMergesOf(ctx, completed(), request_.ttl));
  return {};
}

Status LocalTables::StartDestinationMerges(const Context& ctx) {
  return Run(ctx, fmt::format("SYSTEM START MERGES {}", Sql(destination())));
}

Result<std::filesystem::path> LocalTables::DataPath(const Context& ctx, const TableName& table) {
  PF_ASSIGN(const QueryOutcome outcome,
            engine_->Query(ctx,
                           fmt::format("SELECT arrayElement(data_paths, 1) FROM system.tables "
                                       "WHERE database = {} AND name = {}",
                                       QuoteString(table.database), QuoteString(table.table)),
                           {}));
  const auto rows = SplitTsv(outcome.text);
  if (rows.size() != 1 || rows[0].at(0).empty()) {
    return Status(Code::kInternal,
                  fmt::format("the engine does not tell where it keeps {}", table.ToString()));
  }
  return std::filesystem::path(rows[0][0]);
}

Status LocalTables::Attach(const Context& ctx, const TableName& table,
                           const std::filesystem::path& data_path,
                           const std::filesystem::path& part_directory,
                           std::string_view part_name) {
  const std::filesystem::path detached = data_path / "detached";
  PF_TRY(MakeDirectories(detached, 0750));
  PF_TRY(RenameNoReplace(part_directory, detached / std::string(part_name)));
  return Run(ctx, fmt::format("ALTER TABLE {} ATTACH PART {}", Sql(table), QuoteString(part_name)))
      .With(fmt::format("attach part {}", part_name));
}

Status LocalTables::AttachSource(const Context& ctx, const std::filesystem::path& part_directory,
                                 std::string_view part_name) {
  if (source_path_.empty()) {
    PF_ASSIGN(source_path_, DataPath(ctx, source()));
  }
  return Attach(ctx, source(), source_path_, part_directory, part_name);
}

Status LocalTables::AttachSources(const Context& ctx, const std::vector<SourceDirectory>& parts) {
  if (source_path_.empty()) {
    PF_ASSIGN(source_path_, DataPath(ctx, source()));
  }
  const std::filesystem::path detached = source_path_ / "detached";
  PF_TRY(MakeDirectories(detached, 0750));
  std::set<std::string> partitions;
  int64_t number = 0;
  for (const SourceDirectory& part : parts) {
    PF_ASSIGN(const PartName name, ParsePartName(part.part_name));
    ++number;
    // Blocks of their own: the engine leaves out a part that another one's name covers.
    const PartName renamed{.partition_id = name.partition_id,
                           .min_block = number,
                           .max_block = number,
                           .mutation = {}};
    PF_TRY(RenameNoReplace(part.directory, detached / renamed.ToString()));
    partitions.insert(name.partition_id);
  }
  for (const std::string& id : partitions) {
    PF_TRY(Run(ctx,
               fmt::format("ALTER TABLE {} ATTACH PARTITION ID {}", Sql(source()), QuoteString(id)))
               .With(fmt::format("attach {} parts, partition {}", parts.size(), id)));
  }
  return {};
}

Status LocalTables::AttachDestination(const Context& ctx,
                                      const std::filesystem::path& part_directory,
                                      std::string_view part_name) {
  PF_ASSIGN(const std::filesystem::path data_path, DataPath(ctx, destination()));
  return Attach(ctx, destination(), data_path, part_directory, part_name);
}

Result<PartitionMap> LocalTables::ActiveParts(const Context& ctx, const TableName& table) {
  PF_ASSIGN(const std::vector<ActivePart> parts, ListParts(ctx, table));
  return PartitionsOf(parts);
}

Result<std::vector<ActivePart>> LocalTables::ListParts(const Context& ctx, const TableName& table) {
  PF_ASSIGN(const QueryOutcome outcome,
            engine_->Query(ctx,
                           fmt::format("SELECT partition_id, name, path, rows, bytes_on_disk FROM "
                                       "system.parts WHERE {} AND active AND rows > 0",
                                       WhereTable(table)),
                           {}));
  std::vector<ActivePart> parts;
  for (const auto& row : SplitTsv(outcome.text)) {
    ActivePart part{.partition_id = row.at(0), .name = row.at(1), .path = row.at(2)};
    if (part.path.filename().empty()) part.path = part.path.parent_path();
    PF_ASSIGN(part.rows, ToInt(row.at(3)));
    PF_ASSIGN(part.bytes, ToInt(row.at(4)));
    parts.push_back(std::move(part));
  }
  std::sort(parts.begin(), parts.end(),
            [](const ActivePart& a, const ActivePart& b) { return a.name < b.name; });
  return parts;
}

Result<PartitionMap> LocalTables::SourcePartsAlone(const Context& ctx) {
  PF_ASSIGN(const QueryOutcome outcome,
            engine_->Query(ctx,
                           fmt::format("SELECT ({}), partition_id, rows, bytes_on_disk FROM "
                                       "system.parts WHERE database IN ({}, {}) AND active AND "
                                       "rows > 0",
                                       WhereTable(source()), QuoteString(source().database),
                                       QuoteString(destination().database)),
                           {}));
  std::vector<ActivePart> parts;
  for (const auto& row : SplitTsv(outcome.text)) {
    ActivePart part{.partition_id = row.at(1), .name = {}, .path = {}};
    PF_ASSIGN(part.rows, ToInt(row.at(2)));
    PF_ASSIGN(part.bytes, ToInt(row.at(3)));
    if (row.at(0) != "1") {
      return Status(Code::kUnavailable,
                    fmt::format("a table beside {} holds rows before the insert: {}",
                                source().ToString(), part.rows));
    }
    parts.push_back(std::move(part));
  }
  return PartitionsOf(parts);
}

Result<int64_t> LocalTables::CountRows(const Context& ctx, const TableName& table,
                                       std::string_view additional_filter) {
  QueryOptions options;
  options.settings["optimize_use_projections"] = "0";
  options.settings["use_query_condition_cache"] = "0";
  if (!additional_filter.empty())
    options.settings["additional_table_filters"] = std::string(additional_filter);
  return QueryInt(ctx, *engine_, fmt::format("SELECT count() FROM {}", Sql(table)), options);
}

Status LocalTables::CreateCompleted(const Context& ctx) {
  PF_TRY(Run(ctx, fmt::format("CREATE TABLE {} AS {}", Sql(completed()), Sql(destination()))));
  has_completed_ = true;
  return StopMergesOf(ctx, completed(), request_.ttl);
}

Status LocalTables::PromoteStaging(const Context& ctx, const PartitionMap& partitions) {
  bool is_first = true;
  for (const auto& [id, stats] : partitions) {
    if (!is_first) PF_FAULT(ctx, "clickhouse.partition_moved");
    is_first = false;
    // The engine refuses to move more parts than this setting in one statement (error 252). Empty
    // parts, which earlier moves leave behind, are counted too.
    const QueryOptions options{
        .settings = {{"max_parts_to_move", fmt::format("{}", 2 * stats.parts + kEmptyPartsMax)}}};
    PF_TRY(engine_->Query(ctx,
                          fmt::format("ALTER TABLE {} MOVE PARTITION ID {} TO TABLE {}",
                                      Sql(destination()), QuoteString(id), Sql(completed())),
                          options));
  }
  return {};
}

Status LocalTables::TruncateStaging(const Context& ctx) {
  return Truncate(ctx, destination());
}

Status LocalTables::Truncate(const Context& ctx, const TableName& table) {
  const QueryOptions limits{
      .settings = {{"max_table_size_to_drop", "0"}, {"max_partition_size_to_drop", "0"}},
      .idle_timeout_ms = kDropTimeoutMs};
  PF_TRY(engine_->Query(ctx, fmt::format("TRUNCATE TABLE {} SYNC", Sql(table)), limits));
  return {};
}

Status LocalTables::Clear(const Context& ctx) {
  PF_CHECK(!has_completed_, "tables with a completed table are not used again");
  PF_TRY(Truncate(ctx, destination()));
  return Truncate(ctx, source());
}

Status LocalTables::ExchangeCompleted(const Context& ctx) {
  PF_TRY(Run(ctx, fmt::format("EXCHANGE TABLES {} AND {}", Sql(destination()), Sql(completed()))));
  PF_FAULT(ctx, "clickhouse.tables_exchanged");
  return DropCompleted(ctx);
}

Status LocalTables::DropCompleted(const Context& ctx) {
  PF_TRY(Run(ctx, fmt::format("DROP TABLE IF EXISTS {} SYNC", Sql(completed()))));
  has_completed_ = false;
  return {};
}

Result<std::string> LocalTables::Uuid(const Context& ctx, const TableName& table) {
  PF_ASSIGN(
      const QueryOutcome outcome,
      engine_->Query(
          ctx,
          fmt::format("SELECT toString(uuid) FROM system.tables WHERE database = {} AND name = {}",
                      QuoteString(table.database), QuoteString(table.table)),
          {}));
  const auto rows = SplitTsv(outcome.text);
  return rows.empty() ? std::string() : rows[0].at(0);
}

Status LocalTables::Drop(const Context& ctx) {
  Context unstopped = ctx;
  unstopped.stop = {};
  return DropUserDatabases(unstopped, *engine_,
                           ctx.IsStopping() ? kDropTimeoutOnStopMs : kDropTimeoutMs);
}

}  // namespace partforge::clickhouse
