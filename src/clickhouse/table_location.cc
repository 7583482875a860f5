#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "clickhouse/freeze_scan.h"
#include "engine/sql_text.h"

namespace partforge::clickhouse {
namespace {

// The rows of a query as JSON arrays.
Result<std::vector<JsonDoc>> Rows(const Context& ctx, Engine& engine, const std::string& sql) {
  PF_ASSIGN(const QueryOutcome outcome,
            engine.Query(ctx, sql + " FORMAT JSONCompactStringsEachRow", {}));
  std::vector<JsonDoc> rows;
  for (std::string_view rest = outcome.text; !rest.empty();) {
    const size_t end = rest.find('\n');
    const std::string_view line = rest.substr(0, end);
    if (!line.empty()) {
      PF_ASSIGN(JsonDoc row, ParseJson(line));
      rows.push_back(std::move(row));
    }
    if (end == std::string_view::npos) break;
    rest.remove_prefix(end + 1);
  }
  return rows;
}

Result<std::string> Cell(const JsonDoc& row, size_t index) {
  if (!row.is_array() || index >= row.size() || !row[index].is_string()) {
    return Status(Code::kInternal, "the server answered a row of another shape: " + DumpJson(row));
  }
  return row[index].get<std::string>();
}

struct DiskRow {
  std::string name, path, type;
  bool is_encrypted = false;
};

bool IsLocal(const DiskRow& disk) {
  std::string type = disk.type;
  std::transform(type.begin(), type.end(), type.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return type == "local" && !disk.is_encrypted;
}

}  // namespace

Result<TableLocation> ReadTableLocation(const Context& ctx, Engine& engine,
                                        const TableName& table) {
  TableLocation location;
  const std::string where = fmt::format("FROM system.tables WHERE database = {} AND name = {}",
                                        QuoteString(table.database), QuoteString(table.table));
  PF_ASSIGN(const std::vector<JsonDoc> tables,
            Rows(ctx, engine, "SELECT toString(uuid), storage_policy " + where));
  if (tables.empty()) {
    return Status(Code::kNotFound, "the server has no such table")
        .Explain(2101, table.ToString(), "check --database, --table and --clickhouse-url");
  }
  PF_ASSIGN(location.uuid, Cell(tables[0], 0));
  PF_ASSIGN(const std::string policy, Cell(tables[0], 1));
  PF_ASSIGN(const std::vector<JsonDoc> paths,
            Rows(ctx, engine, "SELECT arrayJoin(data_paths) " + where));
  for (const JsonDoc& row : paths) {
    PF_ASSIGN(std::string path, Cell(row, 0));
    location.data_paths.push_back(std::move(path));
  }
  // Only the disks of the table's own policy: others of the server are no business of this job.
  PF_ASSIGN(const std::vector<JsonDoc> disks,
            Rows(ctx, engine,
                 fmt::format("SELECT name, path, type, toString(is_encrypted) FROM system.disks "
                             "WHERE name IN (SELECT arrayJoin(disks) FROM system.storage_policies "
                             "WHERE policy_name = {}) ORDER BY name",
                             QuoteString(policy))));
  for (const JsonDoc& row : disks) {
    DiskRow disk;
    PF_ASSIGN(disk.name, Cell(row, 0));
    PF_ASSIGN(disk.path, Cell(row, 1));
    PF_ASSIGN(disk.type, Cell(row, 2));
    PF_ASSIGN(const std::string encrypted, Cell(row, 3));
    disk.is_encrypted = encrypted != "0";
    if (!IsLocal(disk)) {
      return Status(Code::kRefused, fmt::format("disk {} is of type {}{}", disk.name, disk.type,
                                                disk.is_encrypted ? ", encrypted" : ""))
          .Explain(2103, fmt::format("{}, disk {}", table.ToString(), disk.name),
                   "BACKUP the table and RESTORE it to a local disk");
    }
    location.disks.push_back({.name = disk.name, .path = disk.path});
  }
  if (location.disks.empty()) {
    return Status(Code::kRefused, fmt::format("no disk belongs to its storage policy: {}", policy))
        .Explain(2103, table.ToString(), "grant SELECT on system.disks and storage_policies");
  }
  return location;
}

}  // namespace partforge::clickhouse
