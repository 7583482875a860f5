#include "clickhouse/table_freeze.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <optional>
#include <set>
#include <vector>

#include "base/files.h"
#include "base/hash.h"
#include "base/random.h"
#include "clickhouse/freeze_scan.h"
#include "clickhouse/local_tables.h"
#include "engine/sql_text.h"

namespace partforge::clickhouse {
namespace {

// Where the table lives on one disk.
struct Place {
  const TableDisk* disk = nullptr;
  std::filesystem::path live;      // store/1f2/<uuid> below the disk's path, absolute
  std::filesystem::path relative;  // the same below the disk's path, and below shadow/<freeze>
};

std::filesystem::path WithoutSlash(const std::filesystem::path& path) {
  return path.filename().empty() ? path.parent_path() : path;
}

// Data paths that lie on no disk of the policy are left out.
std::vector<Place> PlacesOf(const TableLocation& location) {
  std::vector<Place> places;
  for (const std::string& data_path : location.data_paths) {
    const std::filesystem::path live = WithoutSlash(data_path);
    Place place{.disk = nullptr, .live = live, .relative = {}};
    size_t longest = 0;
    for (const TableDisk& disk : location.disks) {
      const std::filesystem::path relative = live.lexically_relative(WithoutSlash(disk.path));
      const bool is_below = !relative.empty() && *relative.begin() != "..";
      if (!is_below || disk.path.native().size() < longest) continue;
      longest = disk.path.native().size();
      place.disk = &disk;
      place.relative = relative;
    }
    if (place.disk != nullptr) places.push_back(std::move(place));
  }
  return places;
}

std::filesystem::path FrozenFolder(const Place& place, std::string_view name) {
  return ShadowFolder(*place.disk, name) / place.relative;
}

// Names in a folder; none when it is absent. A folder that cannot be read is an error: taken for
// empty, its parts would be left out of the freeze.
Result<std::vector<std::string>> NamesIn(const std::filesystem::path& folder) {
  Result<std::vector<std::string>> names = ListNames(folder);
  if (!names.ok() && names.status().code() == Code::kNotFound) return std::vector<std::string>();
  return names;
}

// The server writes these two anew when it freezes or attaches.
bool IsWrittenAnew(const std::filesystem::path& file) {
  return file.filename() == "metadata_version.txt" ||
         file.filename().native().starts_with("txn_version.txt");
}

bool IsSameFile(const std::filesystem::path& a, const std::filesystem::path& b) {
  struct stat first {
  }, second{};
  return lstat(a.c_str(), &first) == 0 && lstat(b.c_str(), &second) == 0 &&
         first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

// Whether every file of the live part is hard-linked in the frozen one. A part that a merge takes
// away meanwhile is not.
bool HoldsAllFiles(const std::filesystem::path& live, const std::filesystem::path& frozen) {
  const Result<std::vector<FileEntry>> entries = ListTree(live);
  if (!entries.ok() || entries->empty()) return false;
  return std::all_of(entries->begin(), entries->end(), [&](const FileEntry& entry) {
    return entry.is_directory || IsWrittenAnew(entry.relative_path) ||
           IsSameFile(live / entry.relative_path, frozen / entry.relative_path);
  });
}

// Whether the freeze holds the table's active parts, whole, and nothing else of the table: then
// freezing again would change nothing, whoever made it.
Result<bool> IsFreezeOfNow(const Context& ctx, Engine& engine, const TableName& table,
                           const std::vector<Place>& places, const std::string& name) {
  PF_ASSIGN(const QueryOutcome listed,
            engine.Query(ctx,
                         fmt::format("SELECT path FROM system.parts WHERE database = {} AND "
                                     "table = {} AND active",
                                     QuoteString(table.database), QuoteString(table.table)),
                         {}));
  std::set<std::filesystem::path> wanted;
  for (const auto& row : SplitTsv(listed.text)) {
    const std::filesystem::path live = WithoutSlash(row.at(0));
    const auto place = std::find_if(places.begin(), places.end(), [&](const Place& one) {
      return one.live == live.parent_path();
    });
    if (place == places.end()) return false;
    const std::filesystem::path frozen = FrozenFolder(*place, name) / live.filename();
    if (!HoldsAllFiles(live, frozen)) return false;
    wanted.insert(frozen);
  }
  for (const Place& place : places) {
    const std::filesystem::path folder = FrozenFolder(place, name);
    PF_ASSIGN(const std::vector<std::string> frozen, NamesIn(folder));
    for (const std::string& part : frozen) {
      if (!wanted.contains(folder / part)) return false;
    }
  }
  return true;
}

Status NameInUse(const TableName& table, const std::filesystem::path& folder,
                 const std::string& name) {
  return Status(Code::kRefused, "it holds parts that the table had at another time")
      .Explain(2127, folder.string(),
               fmt::format("upload that freeze, or choose another name, or remove it: ALTER TABLE "
                           "{} UNFREEZE WITH NAME {}",
                           table.ToSql(), QuoteString(name)));
}

// Beginning of the names under which FREEZE runs for this table and this name.
std::string UnnamedPrefix(const TableName& table, const std::string& name) {
  return "pftmp_" + Sha256Hex(fmt::format("{}\n{}", table.ToSql(), name)).substr(0, 16) + "_";
}

bool MayName(const std::vector<Place>& places) {
  return !places.empty() && std::all_of(places.begin(), places.end(), [](const Place& place) {
    std::error_code error;
    const std::filesystem::path shadow = place.disk->path / "shadow";
    const bool has_shadow = std::filesystem::is_directory(shadow, error);
    const std::filesystem::path& changed = has_shadow ? shadow : place.disk->path;
    return std::filesystem::is_directory(place.live, error) &&
           access(changed.c_str(), W_OK | X_OK) == 0;
  });
}

// What runs that were killed left. A statement of theirs may go on at the server: its folder stays
// for the next run.
Status RemoveUnnamed(const Context& ctx, Engine& engine, const std::vector<Place>& places,
                     const std::string& prefix) {
  std::vector<std::filesystem::path> left;
  for (const Place& place : places) {
    const std::filesystem::path shadow = place.disk->path / "shadow";
    PF_ASSIGN(const std::vector<std::string> names, NamesIn(shadow));
    for (const std::string& one : names) {
      if (one.starts_with(prefix)) left.push_back(shadow / one);
    }
  }
  if (left.empty()) return {};
  PF_ASSIGN(const int64_t running,
            QueryInt(ctx, engine,
                     fmt::format("SELECT count() FROM system.processes WHERE query LIKE 'ALTER %' "
                                 "AND position(query, {}) > 0",
                                 QuoteString(prefix)),
                     {}));
  if (running > 0) return {};
  for (const std::filesystem::path& folder : left) {
    PF_TRY(RemoveTree(folder));
    ctx.log.Info("unfinished freeze of an earlier run is removed", {{"path", folder.string()}});
  }
  return {};
}

// Folders between shadow/ and the table's own, as the server would make them: of its user.
Status MakeParents(const std::filesystem::path& shadow, const std::filesystem::path& folder) {
  struct stat owner {};
  if (stat(shadow.c_str(), &owner) != 0) return ErrnoStatus(errno, "look at " + shadow.string());
  std::filesystem::path made = shadow;
  for (const auto& segment : folder.lexically_relative(shadow)) {
    made /= segment;
    std::error_code error;
    if (std::filesystem::is_directory(made, error)) continue;
    if (mkdir(made.c_str(), owner.st_mode & 0777) != 0 && errno != EEXIST)
      return ErrnoStatus(errno, "make " + made.string());
    if (geteuid() == 0 && lchown(made.c_str(), owner.st_uid, owner.st_gid) != 0)
      return ErrnoStatus(errno, "give away " + made.string());
  }
  return {};
}

// Renames what was frozen as `unnamed` on one disk.
Status NameFolder(const Place& place, const std::string& unnamed, const std::string& name) {
  const std::filesystem::path shadow = place.disk->path / "shadow",
                              from = shadow / unnamed / place.relative,
                              to = FrozenFolder(place, name);
  PF_ASSIGN(const std::vector<std::string> parts, NamesIn(from));
  if (parts.empty()) return {};
  PF_TRY(MakeParents(shadow, to.parent_path()));
  // UNFREEZE may leave the empty folder.
  if (rmdir(to.c_str()) != 0 && errno != ENOENT) return ErrnoStatus(errno, "name " + to.string());
  PF_TRY(RenameNoReplace(from, to));
  return SyncDirectory(to.parent_path());
}

Status FreezeAs(const Context& ctx, Engine& engine, const TableName& table,
                const std::string& name) {
  PF_TRY(engine.Query(
      ctx, fmt::format("ALTER TABLE {} FREEZE WITH NAME {}", table.ToSql(), QuoteString(name)),
      {}));
  return {};
}

// UNFREEZE removes parts, not the folders that they were in. One that is not empty is of another
// table under the same name.
void RemoveEmptyFolders(const Place& place, const std::string& name) {
  const std::filesystem::path shadow = place.disk->path / "shadow";
  std::filesystem::path folder = FrozenFolder(place, name);
  for (; folder != shadow && folder.has_relative_path(); folder = folder.parent_path()) {
    if (rmdir(folder.c_str()) != 0 && errno != ENOENT) return;
  }
}

Status FreezeThenName(const Context& ctx, Engine& engine, const TableName& table,
                      const std::vector<Place>& places, const std::string& name) {
  const std::string unnamed = UnnamedPrefix(table, name) + RandomHex(ctx.random, 8);
  const auto freeze = [&]() -> Status {
    PF_TRY(FreezeAs(ctx, engine, table, unnamed));
    PF_FAULT(ctx, "clickhouse.table_frozen");
    for (const Place& place : places) PF_TRY(NameFolder(place, unnamed, name));
    PF_FAULT(ctx, "clickhouse.freeze_named");
    return {};
  };
  Status frozen = freeze();
  // The server may still be at it.
  if (!frozen.ok() && frozen.code() == Code::kUnknownOutcome) return frozen;
  for (const Place& place : places) {
    Ignore(ctx, RemoveTree(place.disk->path / "shadow" / unnamed), "the next freeze removes it");
  }
  return frozen;
}

}  // namespace

Status CheckFreezeName(const std::string& name) {
  constexpr size_t kFolderBytesMax = 255;
  Status checked = CheckRelativePath(name);
  if (checked.ok() && name == "increment.txt")
    checked = Status(Code::kInvalidArgument, "the server keeps a file of that name");
  if (checked.ok() && EscapeForFileName(name).size() > kFolderBytesMax)
    checked = Status(Code::kInvalidArgument, "as a folder it would have more than 255 bytes");
  if (checked.ok()) return {};
  return std::move(checked)
      .As(Code::kInvalidArgument)
      .Explain(1005, "--freeze", "--freeze=NAME of letters, digits, - and _");
}

Result<FreezeEnd> FreezeTable(const Context& ctx, Engine& engine, const TableName& table,
                              const std::string& name) {
  PF_ASSIGN(const TableLocation location, ReadTableLocation(ctx, engine, table));
  const std::vector<Place> places = PlacesOf(location);
  const bool may_name = MayName(places);
  std::optional<FileLock> lock;
  if (may_name) {
    Result<FileLock> taken = FileLock::TryTakeDirectory(places.front().live);
    if (!taken.ok()) {
      return std::move(taken).status().Explain(6007, table.ToString(),
                                               "wait until the other partforge freeze has ended");
    }
    lock.emplace(std::move(taken).value());
    Ignore(ctx, RemoveUnnamed(ctx, engine, places, UnnamedPrefix(table, name)),
           "hard links cost disk space only");
  }
  for (const Place& place : places) {
    const std::filesystem::path folder = FrozenFolder(place, name);
    PF_ASSIGN(const std::vector<std::string> frozen, NamesIn(folder));
    if (frozen.empty()) continue;
    PF_ASSIGN(const bool is_of_now, IsFreezeOfNow(ctx, engine, table, places, name));
    if (is_of_now) return FreezeEnd::kWasThere;
    return NameInUse(table, folder, name);
  }
  if (may_name) {
    PF_TRY(FreezeThenName(ctx, engine, table, places, name));
  } else {
    ctx.log.Warn("shadow/ cannot be written here: a freeze that is cut short keeps its name",
                 {{"table", table.ToString()}});
    PF_TRY(FreezeAs(ctx, engine, table, name));
  }
  return FreezeEnd::kMade;
}

Status UnfreezeTable(const Context& ctx, Engine& engine, const TableName& table,
                     const std::string& name) {
  PF_TRY(engine.Query(
      ctx, fmt::format("ALTER TABLE {} UNFREEZE WITH NAME {}", table.ToSql(), QuoteString(name)),
      {}));
  const Result<TableLocation> location = ReadTableLocation(ctx, engine, table);
  if (!location.ok()) {
    Ignore(ctx, location.status(), "empty folders of the freeze stay");
    return {};
  }
  for (const Place& place : PlacesOf(*location)) RemoveEmptyFolders(place, name);
  return {};
}

}  // namespace partforge::clickhouse
