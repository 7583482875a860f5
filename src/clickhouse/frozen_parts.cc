#include "clickhouse/frozen_parts.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/files.h"
#include "clickhouse/checksums.h"

namespace partforge::clickhouse {
namespace {

std::string Shown(const FrozenPart& part) {
  return fmt::format("{} (disk {}, {})", part.name.ToString(), part.disk, part.freeze);
}

struct FileIdentity {
  dev_t device = 0;
  ino_t inode = 0;
  bool operator==(const FileIdentity&) const = default;
};
Result<FileIdentity> IdentityOf(const std::filesystem::path& path) {
  struct stat info {};
  if (lstat(path.c_str(), &info) != 0) {
    return ErrnoStatus(errno, fmt::format("stat {}", path.string()));
  }
  return FileIdentity{.device = info.st_dev, .inode = info.st_ino};
}

Status TwoOverlap(const FrozenPart& a, const FrozenPart& b, const TableName& table,
                  std::string_view how) {
  return Status(Code::kRefused,
                fmt::format("part {} {} part {}: rows would appear twice", Shown(a), how, Shown(b)))
      .Explain(2136, table.ToString(),
               "freeze the table again under a new name and use that freeze alone");
}

// Outer parts before what they cover.
bool OuterFirst(const FrozenPart* a, const FrozenPart* b) {
  const PartName& x = a->name;
  const PartName& y = b->name;
  if (x.partition_id != y.partition_id) return x.partition_id < y.partition_id;
  if (x.min_block != y.min_block) return x.min_block < y.min_block;
  if (x.max_block != y.max_block) return x.max_block > y.max_block;
  if (x.level != y.level) return x.level > y.level;
  return x.mutation.value_or(0) > y.mutation.value_or(0);
}

}  // namespace

Status RefusePatches(const std::vector<FrozenPart>& parts, const TableName& table) {
  for (const FrozenPart& part : parts) {
    if (!part.name.IsPatch()) continue;
    return Status(Code::kRefused, fmt::format("the freeze holds a patch part: {}", Shown(part)))
        .Explain(2107, table.ToString(),
                 fmt::format("ALTER TABLE {} APPLY PATCHES   then freeze again", table.ToSql()));
  }
  return {};
}

Status RefuseDuplicates(const std::vector<FrozenPart>& parts, const TableName& table) {
  std::map<std::string_view, std::vector<const FrozenPart*>> by_checksums;
  for (const FrozenPart& part : parts) by_checksums[part.checksums_txt_sha256].push_back(&part);
  for (const auto& [checksums, equal] : by_checksums) {
    if (equal.size() < 2) continue;
    std::map<std::string, const FrozenPart*> names;
    std::map<std::pair<dev_t, ino_t>, const FrozenPart*> files;
    for (const FrozenPart* part : equal) {
      PF_ASSIGN(const FileIdentity file, IdentityOf(part->directory / kChecksumsFile));
      const auto [name_at, is_new_name] = names.emplace(part->name.ToString(), part);
      const auto [file_at, is_new_file] = files.emplace(std::pair(file.device, file.inode), part);
      if (is_new_name && is_new_file) continue;
      const FrozenPart& other = is_new_name ? *file_at->second : *name_at->second;
      return Status(Code::kRefused,
                    fmt::format("part {} and part {} are one part", Shown(other), Shown(*part)))
          .Explain(2119, table.ToString(), "name each freeze once, and freeze each part once");
    }
  }
  return {};
}

Result<FreezeScan> SeparateCovered(std::vector<FrozenPart> parts, const TableName& table,
                                   CoveredParts covered) {
  std::vector<const FrozenPart*> sorted;
  sorted.reserve(parts.size());
  for (const FrozenPart& part : parts) sorted.push_back(&part);
  std::sort(sorted.begin(), sorted.end(), OuterFirst);
  std::set<const FrozenPart*> inner;
  const FrozenPart* outer = nullptr;  // the one that reaches farthest in this partition
  for (const FrozenPart* part : sorted) {
    if (outer == nullptr || !Overlaps(outer->name, part->name)) {
      outer = part;
      continue;
    }
    if (!Covers(outer->name, part->name) || outer->name == part->name) {
      return TwoOverlap(*outer, *part, table, "shares blocks with");
    }
    if (covered == CoveredParts::kRefuse) return TwoOverlap(*outer, *part, table, "covers");
    inner.insert(part);
  }
  FreezeScan scan;
  std::vector<bool> is_inner(parts.size());
  for (size_t i = 0; i < parts.size(); ++i) is_inner[i] = inner.contains(&parts[i]);
  for (size_t i = 0; i < parts.size(); ++i) {
    (is_inner[i] ? scan.skipped : scan.parts).push_back(std::move(parts[i]));
  }
  return scan;
}

}  // namespace partforge::clickhouse
