#include "clickhouse/freeze_scan.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/hash.h"
#include "base/parallel_for.h"
#include "clickhouse/frozen_parts.h"
#include "clickhouse/part_files.h"

namespace partforge::clickhouse {
namespace {

constexpr int kReadThreads = 8;
constexpr int kDepthMax = 8;  // store/<xxx>/<uuid>/<part> is four
constexpr int64_t kPartsMax = 5'000'000;

// A part directory below one disk's shadow/<freeze>.
struct Found {
  const TableDisk* disk = nullptr;
  std::string freeze;
  std::string relative_path;
};

std::string Folder(std::string_view path) {
  const size_t slash = path.rfind('/');
  return std::string(path.substr(0, slash == std::string_view::npos ? 0 : slash));
}

// Walks shadow/<freeze> of one disk. A directory with checksums.txt and columns.txt is a part and
// is not descended into. So is one in a folder of the table that has a part's name or any file: it
// was a part, and what lacks a list must be refused by whoever reads it, not left out.
class ShadowWalk {
 public:
  ShadowWalk(const TableDisk& disk, std::string freeze, const std::set<std::string>& table_folders,
             std::vector<Found>& found)
      : disk_(disk),
        freeze_(std::move(freeze)),
        root_(ShadowFolder(disk, freeze_)),
        table_folders_(table_folders),
        found_(found) {}

  Status Run(const Context& ctx) {
    std::error_code error;
    const auto status = std::filesystem::symlink_status(root_, error);
    if (status.type() == std::filesystem::file_type::not_found) return {};
    if (error) return Failed(error, root_);
    return Visit(ctx, root_, "", 0);
  }

 private:
  static Status Failed(const std::error_code& error, const std::filesystem::path& path) {
    return ErrnoStatus(error.value(), fmt::format("read the freeze folder {}", path.string()));
  }

  Status Visit(const Context& ctx, const std::filesystem::path& path, const std::string& relative,
               int depth) {
    PF_TRY(ctx.CheckStop("look for frozen parts"));
    if (depth > kDepthMax) {
      return Status(Code::kRefused,
                    fmt::format("freeze is nested deeper than {}: {}", kDepthMax, path.string()));
    }
    std::vector<std::string> directories;
    bool has_checksums = false, has_columns = false, has_files = false;
    std::error_code error;
    for (std::filesystem::directory_iterator at(path, error), end; !error && at != end;
         at.increment(error)) {
      const std::string name = at->path().filename().string();
      // Links are not followed: a freeze is made of hard links.
      const auto type = at->symlink_status(error).type();
      if (error) break;
      if (type == std::filesystem::file_type::directory) directories.push_back(name);
      if (type != std::filesystem::file_type::regular) continue;
      has_files = true;
      if (name == kChecksumsFile) has_checksums = true;
      if (name == "columns.txt") has_columns = true;
    }
    if (error) return Failed(error, path);
    const bool is_damaged = table_folders_.contains(Folder(relative)) &&
                            (has_files || ParsePartName(path.filename().string()).ok());
    if ((has_checksums && has_columns) || is_damaged) {
      if (static_cast<int64_t>(found_.size()) >= kPartsMax) {
        return Status(Code::kRefused, fmt::format("freeze holds more than {} parts", kPartsMax));
      }
      found_.push_back({.disk = &disk_, .freeze = freeze_, .relative_path = relative});
      return {};
    }
    for (const std::string& name : directories) {
      const std::string inner = relative.empty() ? name : fmt::format("{}/{}", relative, name);
      PF_TRY(Visit(ctx, path / name, inner, depth + 1));
    }
    return {};
  }

  const TableDisk& disk_;
  const std::string freeze_;
  const std::filesystem::path root_;
  const std::set<std::string>& table_folders_;
  std::vector<Found>& found_;
};

// Where parts of the table lie below a disk or a freeze, without a final '/'.
std::set<std::string> DataFolders(const TableLocation& location, const TableName& table) {
  std::set<std::string> folders = {
      fmt::format("data/{}/{}", EscapeForFileName(table.database), EscapeForFileName(table.table))};
  constexpr std::string_view kNoUuid = "00000000-0000-0000-0000-000000000000";
  if (location.uuid.size() == kNoUuid.size() && location.uuid != kNoUuid) {
    folders.insert(fmt::format("store/{}/{}", location.uuid.substr(0, 3), location.uuid));
  }
  for (const std::string& path : location.data_paths) {
    for (const TableDisk& disk : location.disks) {
      const std::string root = (disk.path / "").string();
      if (!path.starts_with(root)) continue;
      std::string below = path.substr(root.size());
      while (below.ends_with('/')) below.pop_back();
      if (!below.empty()) folders.insert(below);
    }
  }
  return folders;
}

Result<FrozenPart> ReadFrozen(const Context& ctx, const Found& found) {
  FrozenPart part;
  part.disk = found.disk->name;
  part.freeze = found.freeze;
  part.relative_path = found.relative_path;
  part.directory = ShadowFolder(*found.disk, found.freeze) / found.relative_path;
  Result<PartName> name = ParsePartName(part.directory.filename().string());
  if (!name.ok()) {
    return std::move(name)
        .status()
        .As(Code::kCorruption)
        .Explain(2102, part.directory.string(), "the folder was not made by FREEZE; move it away");
  }
  part.name = std::move(*name);
  PF_ASSIGN(const PartInfo info, ReadPart(ctx, part.directory));
  part.size_bytes = info.size_bytes;
  part.rows = info.rows;
  part.checksums_txt_sha256 = info.checksums_txt_sha256;
  return part;
}

}  // namespace

std::string EscapeForFileName(std::string_view name) {
  std::string escaped;
  for (const char c : name) {
    const bool is_plain =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    escaped += is_plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<uint8_t>(c));
  }
  return escaped;
}

std::string FreezeNameOfJob(std::string_view job_id) {
  constexpr size_t kHashDigits = 8;
  std::string name = "partforge_";
  for (const char c : job_id) {
    const bool is_plain =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    name += is_plain ? c : '_';
  }
  return name + "_" + Sha256Hex(job_id).substr(0, kHashDigits);
}

std::filesystem::path ShadowFolder(const TableDisk& disk, std::string_view freeze) {
  const std::filesystem::path shadow = disk.path / "shadow";
  std::filesystem::path escaped = shadow / EscapeForFileName(freeze);
  // What cannot be looked at counts as there: whoever reads it meets the error.
  const auto is_absent = [](const std::filesystem::path& path) {
    std::error_code error;
    return std::filesystem::status(path, error).type() == std::filesystem::file_type::not_found;
  };
  if (!is_absent(escaped)) return escaped;
  const std::filesystem::path plain = shadow / std::string(freeze);
  return is_absent(plain) ? escaped : plain;
}

Result<FreezeScan> ScanFreeze(const Context& ctx, const TableLocation& location,
                              const TableName& table, const std::vector<std::string>& freezes,
                              CoveredParts covered) {
  const std::set<std::string> folders = DataFolders(location, table);
  std::vector<Found> found;
  for (const std::string& freeze : freezes) {
    PF_TRY(CheckRelativePath(freeze));
    for (const TableDisk& disk : location.disks)
      PF_TRY(ShadowWalk(disk, freeze, folders, found).Run(ctx));
  }
  std::set<std::string> others;
  std::erase_if(found, [&](const Found& part) {
    const std::string folder = Folder(part.relative_path);
    if (folders.contains(folder)) return false;
    others.insert(folder);
    return true;
  });
  if (found.empty()) {
    return Status(Code::kNotFound,
                  fmt::format("no part of the table below shadow/{} of its disks ({} parts of "
                              "other tables)",
                              fmt::join(freezes, ", shadow/"), others.size()))
        .Explain(2102, table.ToString(),
                 fmt::format("ALTER TABLE {} FREEZE WITH NAME '…', and run on the same machine",
                             table.ToSql()));
  }
  std::sort(found.begin(), found.end(), [](const Found& a, const Found& b) {
    return std::tie(a.disk->name, a.relative_path, a.freeze) <
           std::tie(b.disk->name, b.relative_path, b.freeze);
  });
  std::vector<FrozenPart> parts(found.size());
  const auto read = [&](const Context& inner, int64_t index) -> Status {
    const auto i = static_cast<size_t>(index);
    PF_ASSIGN(parts[i], ReadFrozen(inner, found[i]));
    return {};
  };
  PF_TRY(ParallelFor(ctx, static_cast<int64_t>(found.size()), kReadThreads, read));
  PF_TRY(RefusePatches(parts, table));
  PF_TRY(RefuseDuplicates(parts, table));
  PF_ASSIGN(FreezeScan scan, SeparateCovered(std::move(parts), table, covered));
  scan.other_tables.assign(others.begin(), others.end());
  return scan;
}

}  // namespace partforge::clickhouse
