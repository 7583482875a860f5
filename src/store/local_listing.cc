#include "store/local_listing.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/files.h"
#include "store/local_path.h"

namespace partforge {
namespace {

constexpr int kDepthMax = 256;  // folders inside folders
constexpr int64_t kSettledMs =
    2000;  // file times tick coarsely: a younger folder may change unseen
constexpr int64_t kRememberBytesMax = 64 << 20;
constexpr int64_t kGrantStepBytes = 64 << 10;

struct CloseDirectory {
  void operator()(DIR* directory) const { closedir(directory); }
};

enum class EntryType : uint8_t { kFile, kFolder, kOther };

// What a directory entry is; kOther when it vanished meanwhile.
Result<EntryType> TypeOf(int folder_fd, const dirent& entry) {
  if (entry.d_type == DT_REG) return EntryType::kFile;
  if (entry.d_type == DT_DIR) return EntryType::kFolder;
  if (entry.d_type != DT_UNKNOWN) return EntryType::kOther;
  struct stat info {};
  if (fstatat(folder_fd, entry.d_name, &info, AT_SYMLINK_NOFOLLOW) != 0) {
    if (errno == ENOENT) return EntryType::kOther;
    return ErrnoStatus(errno, fmt::format("stat {}", entry.d_name));
  }
  if (S_ISREG(info.st_mode)) return EntryType::kFile;
  return S_ISDIR(info.st_mode) ? EntryType::kFolder : EntryType::kOther;
}

bool IsDotName(std::string_view name) {
  return name == "." || name == "..";
}

// The folder `folder` ("" or "a/b/") below the root; a closed descriptor when it is absent or no
// folder.
Result<UniqueFd> OpenFolder(int root_fd, const std::string& folder) {
  if (folder.empty()) {
    UniqueFd fd(openat(root_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!fd.is_open()) return ErrnoStatus(errno, "list the root of a local store");
    return fd;
  }
  const std::string path = folder.substr(0, folder.size() - 1);
  if (!CheckObjectKey(path).ok()) return UniqueFd();  // no object can lie there
  Result<UniqueFd> fd = OpenBeneath(root_fd, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  if (!fd.ok() && IsAbsence(root_fd, folder, fd.status())) return UniqueFd();
  return fd;
}

}  // namespace

std::string_view FolderNames::name(size_t index) const {
  const Entry& entry = entries_[index];
  return std::string_view(text_).substr(entry.offset, entry.length);
}

int64_t FolderNames::size_bytes() const {
  return static_cast<int64_t>(text_.size() + entries_.size() * sizeof(Entry));
}

size_t FolderNames::LowerBound(std::string_view name) const {
  const auto it = std::lower_bound(
      entries_.begin(), entries_.end(), name, [this](const Entry& entry, std::string_view wanted) {
        return std::string_view(text_).substr(entry.offset, entry.length) < wanted;
      });
  return static_cast<size_t>(it - entries_.begin());
}

Result<std::shared_ptr<const FolderNames>> FolderNames::Read(const Context& ctx, int folder_fd,
                                                             std::vector<MemoryGrant>& grants) {
  UniqueFd own(fcntl(folder_fd, F_DUPFD_CLOEXEC, 0));
  if (!own.is_open()) return ErrnoStatus(errno, "list a folder");
  const std::unique_ptr<DIR, CloseDirectory> directory(fdopendir(own.get()));
  if (directory == nullptr) return ErrnoStatus(errno, "list a folder");
  own.Release();
  rewinddir(directory.get());

  auto names = std::make_shared<FolderNames>();
  int64_t granted_bytes = 0;
  while (true) {
    errno = 0;
    const dirent* entry = readdir(directory.get());
    if (entry == nullptr) {
      if (errno != 0) return ErrnoStatus(errno, "list a folder");
      break;
    }
    if (IsDotName(entry->d_name)) continue;
    PF_ASSIGN(const EntryType type, TypeOf(folder_fd, *entry));
    if (type == EntryType::kOther) continue;
    const size_t offset = names->text_.size();
    names->text_ += entry->d_name;
    if (type == EntryType::kFolder) names->text_ += '/';
    names->entries_.push_back({offset, static_cast<uint32_t>(names->text_.size() - offset)});

    // Twice the use: strings and vectors double when they grow.
    while (granted_bytes < 2 * names->size_bytes() - kGrantStepBytes) {
      PF_ASSIGN(MemoryGrant grant, ctx.memory.TryReserve(kGrantStepBytes));
      granted_bytes += kGrantStepBytes;
      grants.push_back(std::move(grant));
    }
  }
  const std::string_view text = names->text_;
  std::sort(names->entries_.begin(), names->entries_.end(), [text](const Entry& a, const Entry& b) {
    return text.substr(a.offset, a.length) < text.substr(b.offset, b.length);
  });
  return std::shared_ptr<const FolderNames>(std::move(names));
}

// One call of List.
struct LocalListing::Walk {
  int root_fd = -1;
  std::string_view prefix;
  std::string_view after;  // empty = from the start; every key is greater than ""
  size_t objects_max = 0;
  ListPage page;
  std::vector<MemoryGrant> grants;  // of the folders being walked

  // True when no key of the folder can belong to the page.
  bool LeavesOut(std::string_view folder_key) const {
    if (folder_key == kReservedPrefix) return true;
    if (!folder_key.starts_with(prefix) && !prefix.starts_with(folder_key)) return true;
    return after > folder_key && !after.starts_with(folder_key);
  }
  bool is_full() const { return page.next.has_value(); }
};

Result<ListPage> LocalListing::List(const Context& ctx, int root_fd, std::string_view prefix,
                                    const std::optional<std::string>& after, size_t objects_max) {
  Walk walk;
  walk.root_fd = root_fd;
  walk.prefix = prefix;
  if (after.has_value()) walk.after = *after;
  walk.objects_max = objects_max;
  // Everything wanted lies below the folder that the prefix names in full.
  const size_t slash = prefix.rfind('/');
  const std::string start(slash == std::string_view::npos ? "" : prefix.substr(0, slash + 1));
  if (!start.starts_with(kReservedPrefix)) PF_TRY(WalkFolder(ctx, walk, start, 0));
  if (!walk.is_full()) {
    Remembered forgotten;  // its names are freed outside the lock
    const std::lock_guard lock(mutex_);
    std::swap(remembered_, forgotten);
  }
  return std::move(walk.page);
}

// `folder` is "" or ends with '/'.
Status LocalListing::WalkFolder(const Context& ctx, Walk& walk, const std::string& folder,
                                int depth) {
  PF_TRY(ctx.CheckStop("listing a local store"));
  if (depth > kDepthMax) {
    return Status(Code::kRefused,
                  fmt::format("folders are nested deeper than {}: {}", kDepthMax, folder));
  }
  PF_ASSIGN(const std::shared_ptr<const FolderNames> names, Names(ctx, walk, folder));
  if (names == nullptr) return {};
  size_t index = 0;
  if (walk.after.starts_with(folder)) {
    // A folder "b/" sorts before "b/x", which may be where the last page ended: step back onto it.
    std::string_view tail = walk.after.substr(folder.size());
    if (const size_t slash = tail.find('/'); slash != std::string_view::npos)
      tail = tail.substr(0, slash + 1);
    index = names->LowerBound(tail);
  }
  for (; index < names->size() && !walk.is_full(); ++index) {
    const std::string key = folder + std::string(names->name(index));
    if (key.back() == '/') {
      if (!walk.LeavesOut(key)) PF_TRY(WalkFolder(ctx, walk, key, depth + 1));
      continue;
    }
    if (key <= walk.after) continue;
    if (!key.starts_with(walk.prefix)) {
      if (key > walk.prefix) break;
      continue;
    }
    if (!CheckObjectKey(key).ok()) continue;  // not a name any of our writers can have given
    const Result<UniqueFd> fd = OpenBeneath(walk.root_fd, key, O_PATH | O_NOFOLLOW);
    if (!fd.ok()) {
      if (fd.status().code() == Code::kNotFound) continue;  // vanished since readdir
      return Status(fd.status()).With("list " + key);
    }
    struct stat info {};
    if (fstat(fd->get(), &info) != 0) return ErrnoStatus(errno, "stat " + key);
    if (!S_ISREG(info.st_mode)) continue;
    if (walk.page.objects.size() == walk.objects_max) {
      walk.page.next = walk.page.objects.back().key;
      break;
    }
    walk.page.objects.push_back(ObjectInfo{
        .key = key,
        .size_bytes = info.st_size,
        .modified_ms = int64_t{info.st_mtim.tv_sec} * 1000 + info.st_mtim.tv_nsec / 1'000'000,
        .etag = {}});
  }
  return {};
}

Result<std::shared_ptr<const FolderNames>> LocalListing::Names(const Context& ctx, Walk& walk,
                                                               const std::string& folder) {
  PF_ASSIGN(const UniqueFd fd, OpenFolder(walk.root_fd, folder));
  if (!fd.is_open()) return std::shared_ptr<const FolderNames>();
  struct stat info {};
  if (fstat(fd.get(), &info) != 0) return ErrnoStatus(errno, "stat folder " + folder);
  Remembered fresh{
      .folder = folder,
      .device = info.st_dev,
      .inode = info.st_ino,
      .modified_ns = int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec,
      .names = nullptr};
  {
    const std::lock_guard lock(mutex_);
    if (remembered_.names != nullptr && remembered_.folder == fresh.folder &&
        remembered_.device == fresh.device && remembered_.inode == fresh.inode &&
        remembered_.modified_ns == fresh.modified_ns) {
      return remembered_.names;
    }
  }
  // The time was taken before the names: a change during the reading shows in it.
  const bool is_settled = ctx.clock.NowMs() - fresh.modified_ns / 1'000'000 > kSettledMs;
  PF_ASSIGN(fresh.names, FolderNames::Read(ctx, fd.get(), walk.grants));
  std::shared_ptr<const FolderNames> names = fresh.names;
  if (is_settled && names->size() >= remember_names_min_ &&
      names->size_bytes() <= kRememberBytesMax) {
    const std::lock_guard lock(mutex_);
    std::swap(remembered_, fresh);
  }
  return names;
}

}  // namespace partforge
