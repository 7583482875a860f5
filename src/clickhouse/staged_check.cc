#include "clickhouse/staged_check.h"

#include <fmt/format.h>

#include <filesystem>

#include "base/files.h"
#include "clickhouse/ddl.h"
#include "clickhouse/local_tables.h"
#include "clickhouse/rewrite_check.h"
#include "engine/sql_text.h"

namespace partforge::clickhouse {
namespace {

TableName ScratchOf(const ImportTarget& target, uint64_t serial) {
  return TableBeside(target.table, fmt::format("__partforge_check_{}", serial));
}

// The target's twin without replication, on the same disk.
Result<std::string> ScratchSql(const ImportTarget& target, const TableName& scratch) {
  if (!target.is_replicated()) {
    return fmt::format("CREATE TABLE {} AS {}", QuoteTable(scratch.database, scratch.table),
                       QuoteTable(target.table.database, target.table.table));
  }
  PF_ASSIGN(CreateTable create, ParseCreateTable(target.create_sql));
  create.name = scratch;
  const std::string ttl = create.ttl;  // of this server's disks and volumes
  std::vector<EngineSetting> placement;
  for (const EngineSetting& setting : create.settings) {
    if (setting.name == "storage_policy" || setting.name == "disk") placement.push_back(setting);
  }
  PF_ASSIGN(LocalDdl ddl, NormalizeDestination(create.ToSql(), DdlOptions{}));
  ddl.table.ttl = ttl;
  for (EngineSetting& setting : placement) ddl.table.settings.push_back(std::move(setting));
  return ddl.table.ToSql();
}

// The attach may write these two, which must not reach the staged files through a link.
bool IsRewrittenByAttach(std::string_view relative_path) {
  return relative_path == "metadata_version.txt" || relative_path.starts_with("txn_version.txt");
}

Status LinkPart(const std::filesystem::path& from, const std::filesystem::path& to) {
  PF_ASSIGN(const std::vector<FileEntry> entries, ListTree(from));
  PF_TRY(MakeDirectories(to, 0750));
  for (const FileEntry& entry : entries) {
    std::error_code error;
    const std::filesystem::path source = from / entry.relative_path,
                                copy = to / entry.relative_path;
    if (entry.is_directory) {
      std::filesystem::create_directory(copy, error);
    } else if (IsRewrittenByAttach(entry.relative_path)) {
      std::filesystem::copy_file(source, copy, error);
    } else {
      std::filesystem::create_hard_link(source, copy, error);
    }
    if (error) return ErrnoStatus(error.value(), "link " + source.string());
  }
  return {};
}

// Makes the scratch table and puts links of all pieces into its detached folder. What fails here
// says nothing about the parts.
Status Prepare(const Context& ctx, Engine& engine, const ImportTarget& target,
               const std::vector<Piece>& pieces, const TableName& scratch) {
  PF_ASSIGN(const std::string create, ScratchSql(target, scratch));
  PF_TRY(engine.Query(ctx, create, {}));
  PF_TRY(engine.Query(
      ctx, fmt::format("SYSTEM STOP MERGES {}", QuoteTable(scratch.database, scratch.table)), {}));
  PF_ASSIGN(const ImportTarget place, ReadImportTarget(ctx, engine, scratch));
  for (const Piece& piece : pieces) {
    const std::filesystem::path copy = place.detached() / piece.token;
    PF_TRY(LinkPart(target.detached() / ("pftmp_" + piece.token), copy));
    PF_TRY(GiveToOwner(copy, target.owner_uid, target.owner_gid));
  }
  return {};
}

Status Attach(const Context& ctx, Engine& engine, const std::vector<Piece>& pieces,
              const TableName& scratch) {
  for (const Piece& piece : pieces) {
    Result<QueryOutcome> attached = engine.Query(
        ctx,
        fmt::format("ALTER TABLE {} ATTACH PART {}", QuoteTable(scratch.database, scratch.table),
                    QuoteString(piece.token)),
        {});
    if (!attached.ok()) {
      return std::move(attached).status().With(
          fmt::format("the server refuses part {}", piece.stage_part));
    }
  }
  return {};
}

}  // namespace

Status CheckStagedPieces(const Context& ctx, Engine& engine, const ImportTarget& target,
                         const std::vector<Piece>& pieces, uint64_t serial, StagedCheck check) {
  const TableName scratch = ScratchOf(target, serial);
  const Status prepared = Prepare(ctx, engine, target, pieces, scratch);
  Status status = prepared;
  if (prepared.ok()) {
    status = Attach(ctx, engine, pieces, scratch);
    if (status.ok() && check == StagedCheck::kCheckTable) status = CheckTable(ctx, engine, scratch);
  } else if (check == StagedCheck::kAttach && prepared.code() != Code::kCancelled &&
             prepared.code() != Code::kUnavailable) {
    // E.g. a user who may not create tables: the parts are then judged by their own attach.
    ctx.log.Warn("parts are not tried in a scratch table",
                 {{"table", target.table.ToString()}, {"error", prepared.message()}});
    status = {};
  }
  Context unstopped = ctx;
  unstopped.stop = {};
  Ignore(unstopped, DropStagedCheck(unstopped, engine, target, serial),
         "it is dropped when the commit is cleaned");
  return status;
}

Status DropStagedCheck(const Context& ctx, Engine& engine, const ImportTarget& target,
                       uint64_t serial) {
  const TableName scratch = ScratchOf(target, serial);
  PF_TRY(engine.Query(
      ctx, fmt::format("DROP TABLE IF EXISTS {} SYNC", QuoteTable(scratch.database, scratch.table)),
      {}));
  return {};
}

}  // namespace partforge::clickhouse
