#include "clickhouse/import_target.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/files.h"
#include "base/random.h"
#include "engine/sql_text.h"

namespace partforge::clickhouse {
namespace {

constexpr std::string_view kNoServer = "00000000-0000-0000-0000-000000000000";

Status CannotPlace(const ImportTarget& target, const Status& why) {
  return Status(Code::kRefused,
                fmt::format("user {} cannot build parts there: {}", geteuid(), why.message()))
      .Explain(2124, target.detached().string(),
               fmt::format("run the import as root or as the owner {}:{} of the table's files, on "
                           "the server's own machine",
                           target.owner_uid, target.owner_gid));
}

constexpr std::string_view kProbePrefix = "pftmp_probe_";
constexpr int kProbesMax = 8;  // tries of a probe that another import takes for a dead one's

// What killed imports left of the check. A living one, maybe of another state store, holds the lock
// of its folder.
void RemoveDeadProbes(const Context& ctx, const ImportTarget& target) {
  const Result<std::vector<std::string>> names = ListNames(target.detached());
  if (!names.ok()) return;  // the check itself says what is wrong there
  for (const std::string& name : *names) {
    if (!name.starts_with(kProbePrefix)) continue;
    const Result<FileLock> lock = FileLock::TryTakeDirectory(target.detached() / name);
    if (lock.ok()) Ignore(ctx, RemoveTree(target.detached() / name), "an empty folder stays");
  }
}

// kConflict: another import took the folder for a dead one's before it was locked.
Status Probe(const Context& ctx, const ImportTarget& target) {
  const std::string name = std::string(kProbePrefix) + RandomHex(ctx.random, 8);
  const std::filesystem::path probe = target.detached() / name,
                              renamed = target.detached() / (name + "_renamed");
  PF_TRY(MakeDirectories(probe, 0750));
  const Result<FileLock> lock = FileLock::TryTakeDirectory(probe);
  if (!lock.ok()) {
    const Code code = lock.status().code();
    return code == Code::kNotFound ? Status(lock.status()).As(Code::kConflict) : lock.status();
  }
  const auto attempt = [&]() -> Status {
    PF_TRY(WriteFileDurably(probe / "probe", "probe"));
    PF_TRY(GiveToOwner(probe, target.owner_uid, target.owner_gid));
    return RenameNoReplace(probe, renamed);
  };
  Status status = attempt();
  Ignore(ctx, RemoveTree(probe), "the probe is empty");
  Ignore(ctx, RemoveTree(renamed), "the probe is empty");
  return status;
}

Status ChangeOwner(int directory_fd, const char* name, uid_t uid, gid_t gid,
                   const std::filesystem::path& path) {
  struct stat info {};
  if (fstatat(directory_fd, name, &info, AT_SYMLINK_NOFOLLOW) != 0)
    return ErrnoStatus(errno, "stat " + path.string());
  if (info.st_uid == uid && info.st_gid == gid) return {};
  if (fchownat(directory_fd, name, uid, gid, AT_SYMLINK_NOFOLLOW) != 0)
    return ErrnoStatus(errno, fmt::format("give {} to {}:{}", path.string(), uid, gid));
  return {};
}

}  // namespace

std::string ImportTarget::key() const {
  return fmt::format("{}/{}",
                     server_uuid == kNoServer || server_uuid.empty()
                         ? data_path.parent_path().string()
                         : server_uuid,
                     table_uuid);
}

Result<ImportTarget> ReadImportTarget(const Context& ctx, Engine& engine, const TableName& table) {
  ImportTarget target;
  target.table = table;
  PF_ASSIGN(const QueryOutcome outcome,
            engine.Query(ctx,
                         fmt::format("SELECT toString(serverUUID()), toString(uuid), engine, "
                                     "arrayElement(data_paths, 1), storage_policy "
                                     "FROM system.tables WHERE database = {} AND name = {}",
                                     QuoteString(table.database), QuoteString(table.table)),
                         {}));
  const auto rows = SplitTsv(outcome.text);
  if (rows.empty()) {
    return Status(Code::kNotFound, "the destination table does not exist")
        .Explain(2101, table.ToString(),
                 "create it on the server from the job's destination schema file");
  }
  target.server_uuid = rows[0].at(0);
  target.table_uuid = rows[0].at(1);
  target.engine = rows[0].at(2);
  target.data_path = rows[0].at(3);
  if (!target.engine.ends_with("MergeTree")) {
    return Status(Code::kRefused, fmt::format("its engine is {}", target.engine))
        .Explain(2101, table.ToString(), "name a table of the MergeTree family");
  }
  PF_ASSIGN(const QueryOutcome create,
            engine.Query(ctx,
                         fmt::format("SHOW CREATE TABLE {} FORMAT TSVRaw",
                                     QuoteTable(table.database, table.table)),
                         {}));
  target.create_sql = create.text;
  while (target.create_sql.ends_with('\n')) target.create_sql.pop_back();

  PF_ASSIGN(const QueryOutcome disks,
            engine.Query(ctx, "SELECT name, path, type, is_encrypted FROM system.disks", {}));
  std::string disk_name, disk_type;
  bool is_encrypted = false;
  size_t longest = 0;
  for (const auto& row : SplitTsv(disks.text)) {
    if (!target.data_path.string().starts_with(row.at(1)) || row.at(1).size() < longest) continue;
    longest = row.at(1).size();
    disk_name = row.at(0);
    disk_type = row.at(2);
    is_encrypted = row.at(3) != "0";
  }
  if (is_encrypted) {
    return Status(Code::kRefused, fmt::format("disk {} is encrypted", disk_name))
        .Explain(2103, table.ToString(),
                 "parts are placed as plain files: choose a storage policy whose first disk is not "
                 "encrypted");
  }
  if (!disk_type.empty() && disk_type != "Local" && disk_type != "local") {
    return Status(Code::kRefused, fmt::format("disk {} is of type {}", disk_name, disk_type))
        .Explain(2103, table.ToString(),
                 "attach needs a local disk: choose a storage policy whose first disk is local");
  }
  struct stat info {};
  if (stat(target.data_path.c_str(), &info) != 0) {
    return Status(Code::kRefused, ErrnoStatus(errno, "look at the table's folder").message())
        .Explain(2124, target.data_path.string(),
                 "run the import on the server's own machine, as a user who may write there");
  }
  target.owner_uid = info.st_uid;
  target.owner_gid = info.st_gid;
  return target;
}

Status ProbeDetached(const Context& ctx, const ImportTarget& target) {
  RemoveDeadProbes(ctx, target);
  Status status = Probe(ctx, target);
  for (int tries = 1; !status.ok() && status.code() == Code::kConflict && tries < kProbesMax;
       ++tries)
    status = Probe(ctx, target);
  return status.ok() ? status : CannotPlace(target, status);
}

Status CheckDetachedRights(const ImportTarget& target) {
  if (access(target.detached().c_str(), W_OK | X_OK) != 0)
    return CannotPlace(target, ErrnoStatus(errno, "write to " + target.detached().string()));
  if (geteuid() == 0 || geteuid() == target.owner_uid) return {};
  return CannotPlace(target, Status(Code::kRefused, "files cannot be given to the table's owner"));
}

Status GiveToOwner(const std::filesystem::path& path, uid_t uid, gid_t gid) {
  PF_ASSIGN(const std::vector<FileEntry> entries, ListTree(path));
  PF_ASSIGN(const UniqueFd root, OpenFile(path, O_RDONLY | O_DIRECTORY));
  for (const FileEntry& entry : entries) {
    PF_TRY(
        ChangeOwner(root.get(), entry.relative_path.c_str(), uid, gid, path / entry.relative_path));
  }
  return ChangeOwner(AT_FDCWD, path.c_str(), uid, gid, path);
}

Result<DirectoryIdentity> IdentityOf(const std::filesystem::path& directory) {
  struct stat info {};
  if (lstat(directory.c_str(), &info) != 0)
    return ErrnoStatus(errno, "look at " + directory.string());
  if (!S_ISDIR(info.st_mode))
    return Status(Code::kRefused, "not a directory: " + directory.string());
  return DirectoryIdentity{.dev = info.st_dev, .ino = info.st_ino};
}

}  // namespace partforge::clickhouse
