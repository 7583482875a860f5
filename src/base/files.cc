#include "base/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <system_error>
#include <utility>

namespace partforge {
namespace {

constexpr size_t kRelativePathBytesMax = 1024;
constexpr int kTemporaryNamesMax = 1000;
constexpr int kTreeDepthMax = 200;
constexpr int kResolveTriesMax = 1000;

Code CodeOfErrno(int error_number) {
  switch (error_number) {
    case ENOENT:
      return Code::kNotFound;
    case EEXIST:
      return Code::kAlreadyExists;
    case ENOSPC:
    case EDQUOT:
      return Code::kExhausted;
    case EACCES:
    case EPERM:
      return Code::kRefused;
    case EXDEV:
      return Code::kInvalidArgument;
    case EIO:
      return Code::kCorruption;
    default:
      return Code::kInternal;
  }
}

Status PathError(int error_number, std::string_view verb, const std::filesystem::path& path) {
  return ErrnoStatus(error_number, fmt::format("{} {}", verb, path.native()));
}

std::filesystem::path FolderOf(const std::filesystem::path& path) {
  const std::filesystem::path folder = path.parent_path();
  return folder.empty() ? std::filesystem::path(".") : folder;
}

// Closes a directory stream.
struct CloseDirectory {
  void operator()(DIR* stream) const { closedir(stream); }
};
using DirectoryStream = std::unique_ptr<DIR, CloseDirectory>;

// The names in an open directory, sorted bytewise, without "." and "..".
Result<std::vector<std::string>> ReadNames(int directory_fd, const std::string& shown,
                                           int64_t names_max) {
  UniqueFd copy(openat(directory_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!copy.is_open()) return PathError(errno, "open directory", shown);
  DirectoryStream stream(fdopendir(copy.get()));
  if (stream == nullptr) return PathError(errno, "read directory", shown);
  copy.Release();
  std::vector<std::string> names;
  while (true) {
    errno = 0;
    const dirent* const entry = readdir(stream.get());
    if (entry == nullptr) break;
    const std::string_view name = entry->d_name;
    if (name == "." || name == "..") continue;
    if (static_cast<int64_t>(names.size()) >= names_max) {
      return Status(Code::kRefused, fmt::format("read directory {}: too many entries", shown));
    }
    names.emplace_back(name);
  }
  if (errno != 0) return PathError(errno, "read directory", shown);
  std::sort(names.begin(), names.end());
  return names;
}

// One walk of ListTree; keeps the limits in one place.
class TreeWalk {
 public:
  TreeWalk(const std::filesystem::path& root, int64_t entries_max)
      : root_(root), entries_max_(entries_max) {}

  Status Visit(int directory_fd, const std::string& prefix, int depth) {
    if (depth > kTreeDepthMax) {
      return Status(Code::kRefused, fmt::format("walk {}: nested deeper than {} directories: {}",
                                                root_.native(), kTreeDepthMax, prefix));
    }
    const int64_t left = entries_max_ - static_cast<int64_t>(entries_.size());
    PF_ASSIGN(const auto names, ReadNames(directory_fd, Shown(prefix), left));
    for (const std::string& name : names) PF_TRY(VisitEntry(directory_fd, prefix, name, depth));
    return {};
  }

  std::vector<FileEntry> Take() {
    // Of whole paths: "b.x" stands before "b/1".
    std::sort(entries_.begin(), entries_.end(), [](const FileEntry& a, const FileEntry& b) {
      return a.relative_path < b.relative_path;
    });
    return std::move(entries_);
  }

 private:
  std::string Shown(const std::string& relative) const { return (root_ / relative).native(); }

  Status VisitEntry(int directory_fd, const std::string& prefix, const std::string& name,
                    int depth) {
    const std::string relative = prefix.empty() ? name : prefix + "/" + name;
    struct stat info {};
    if (fstatat(directory_fd, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) {
      return PathError(errno, "stat", Shown(relative));
    }
    const bool is_directory = S_ISDIR(info.st_mode);
    if (!is_directory && !S_ISREG(info.st_mode)) {
      return Status(Code::kRefused, fmt::format("walk {}: neither a file nor a directory: {}",
                                                root_.native(), relative));
    }
    if (static_cast<int64_t>(entries_.size()) >= entries_max_) {
      return Status(Code::kRefused,
                    fmt::format("walk {}: more entries than {}", root_.native(), entries_max_));
    }
    entries_.push_back(FileEntry{.relative_path = relative,
                                 .size_bytes = is_directory ? 0 : int64_t{info.st_size},
                                 .is_directory = is_directory,
                                 .mode = info.st_mode & 07777u});
    if (!is_directory) return {};
    const UniqueFd child(
        openat(directory_fd, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!child.is_open()) return PathError(errno, "open directory", Shown(relative));
    return Visit(child.get(), relative, depth + 1);
  }

  const std::filesystem::path& root_;
  const int64_t entries_max_;
  std::vector<FileEntry> entries_;
};

Status LinkInTheWay(std::string_view relative) {
  return Status(
      Code::kRefused,
      fmt::format("open beneath a folder: a link or a file stands in the way: {}", relative));
}

}  // namespace

UniqueFd::UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

UniqueFd& UniqueFd::operator=(UniqueFd&& other) noexcept {
  if (this != &other) {
    if (fd_ >= 0) close(fd_);
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

UniqueFd::~UniqueFd() {
  if (fd_ >= 0) close(fd_);
}

int UniqueFd::Release() {
  return std::exchange(fd_, -1);
}

Status UniqueFd::Close() {
  if (fd_ < 0) return {};
  // The descriptor is gone also when close fails (Linux), so it is never closed twice.
  if (close(std::exchange(fd_, -1)) != 0) return ErrnoStatus(errno, "close file");
  return {};
}

bool IsErrnoOfSurroundings(int error_number) {
  constexpr std::array kErrnos = {EACCES, EPERM,  EROFS,  EMFILE, ENFILE,
                                  ENOMEM, EAGAIN, ENOSPC, EDQUOT};
  return std::find(kErrnos.begin(), kErrnos.end(), error_number) != kErrnos.end();
}

Status ErrnoStatus(int error_number, std::string_view doing) {
  constexpr int kFull = 7007, kRefusedByMachine = 7015, kOfTheFile = 7018;
  int pf_number = IsErrnoOfSurroundings(error_number) ? kRefusedByMachine : kOfTheFile;
  const char* remedy = "see to the file or folder that is named";
  switch (error_number) {
    case ENOSPC:
    case EDQUOT:
      pf_number = kFull;
      remedy = "free space on that disk, or choose another folder";
      break;
    case EMFILE:
    case ENFILE:
      remedy = "let the process open more files: ulimit -n 65536";
      break;
    case ENOMEM:
    case EAGAIN:
      remedy = "give the process more memory, or let it start more threads";
      break;
    case EACCES:
    case EPERM:
    case EROFS:
      remedy = "see to the rights of the file or folder that is named";
      break;
    case EIO:
      remedy = "the disk cannot read or write there: look into the kernel's log";
      break;
    default:
      break;
  }
  return Status(CodeOfErrno(error_number),
                fmt::format("{}: {}", doing, std::generic_category().message(error_number)))
      .Explain(pf_number, "files of this machine", remedy);
}

Result<UniqueFd> OpenFile(const std::filesystem::path& path, int flags, int mode) {
  while (true) {
    UniqueFd fd(open(path.c_str(), flags | O_CLOEXEC, mode));
    if (fd.is_open()) return fd;
    if (errno != EINTR) return PathError(errno, "open", path);
  }
}

Status ReadAt(int fd, int64_t offset, std::span<std::byte> out) {
  while (!out.empty()) {
    const ssize_t got = pread(fd, out.data(), out.size(), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoStatus(errno, fmt::format("read {} bytes at {}", out.size(), offset));
    if (got == 0) {
      return Status(
          Code::kCorruption,
          fmt::format("file ends {} bytes before the end of the read at {}", out.size(), offset));
    }
    out = out.subspan(static_cast<size_t>(got));
    offset += got;
  }
  return {};
}

Status WriteAll(int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return ErrnoStatus(errno, fmt::format("write {} bytes", bytes.size()));
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return {};
}

Result<std::string> ReadFile(const std::filesystem::path& path, int64_t size_bytes_max) {
  PF_ASSIGN(const UniqueFd fd, OpenFile(path, O_RDONLY));
  // Read to the end rather than trusting the size: files of /proc and /sys say 0 or 4096.
  constexpr size_t kPiece = 64 << 10;
  std::string text;
  while (true) {
    const size_t before = text.size();
    text.resize(before + kPiece);
    const ssize_t got = read(fd.get(), text.data() + before, kPiece);
    const int error_number = errno;
    text.resize(before + (got > 0 ? static_cast<size_t>(got) : 0));
    if (got < 0 && error_number == EINTR) continue;
    if (got < 0) return PathError(error_number, "read", path);
    if (got == 0) return text;
    if (static_cast<int64_t>(text.size()) > size_bytes_max) {
      return Status(Code::kInvalidArgument,
                    fmt::format("read {}: larger than {} bytes", path.native(), size_bytes_max));
    }
  }
}

Status WriteFileDurably(const std::filesystem::path& path, std::string_view bytes, int mode) {
  const std::filesystem::path folder = FolderOf(path);
  std::filesystem::path temporary;
  UniqueFd fd;
  // A name that is taken belongs to a crashed or to a concurrent writer: take the next one, never
  // theirs.
  for (int n = 0; !fd.is_open(); ++n) {
    temporary = folder / fmt::format(".{}.{}.{}.tmp", path.filename().native(), getpid(), n);
    auto opened = OpenFile(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode);
    if (opened.ok()) {
      fd = std::move(opened).value();
    } else if (opened.status().code() != Code::kAlreadyExists || n >= kTemporaryNamesMax) {
      return std::move(opened).status();
    }
  }
  const auto write_and_rename = [&]() -> Status {
    PF_TRY(WriteAll(fd.get(), std::as_bytes(std::span(bytes)))
               .With(fmt::format("write {}", path.native())));
    if (fsync(fd.get()) != 0) return PathError(errno, "sync", temporary);
    PF_TRY(fd.Close());
    if (rename(temporary.c_str(), path.c_str()) != 0) return PathError(errno, "rename to", path);
    return {};
  };
  if (Status status = write_and_rename(); !status.ok()) {
    unlink(temporary.c_str());
    return status;
  }
  return SyncDirectory(folder);
}

Status SyncDirectory(const std::filesystem::path& directory) {
  PF_ASSIGN(const UniqueFd fd, OpenFile(directory, O_RDONLY | O_DIRECTORY));
  if (fsync(fd.get()) != 0) return PathError(errno, "sync directory", directory);
  return {};
}

Status RenameNoReplace(const std::filesystem::path& from, const std::filesystem::path& to) {
  if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return {};
  return ErrnoStatus(errno, fmt::format("rename {} to {}", from.native(), to.native()));
}

Status MakeDirectories(const std::filesystem::path& path, int mode) {
  std::filesystem::path at;
  for (const std::filesystem::path& segment : path) {
    at /= segment;
    if (mkdir(at.c_str(), static_cast<mode_t>(mode)) == 0) continue;
    const int error_number = errno;
    std::error_code ignored;
    // mkdir answers EEXIST, EROFS or EACCES on folders above that exist: what counts is that they
    // do.
    if (!std::filesystem::is_directory(at, ignored))
      return PathError(error_number, "make directory", at);
  }
  return {};
}

void SpreadSubfolders(const std::filesystem::path& folder) {
  const UniqueFd fd(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct statfs info {};
  if (fd.get() < 0 || fstatfs(fd.get(), &info) != 0 || info.f_type != EXT4_SUPER_MAGIC) return;
  int flags = 0;  // the kernel reads and writes an int, whatever the request's type says
  if (ioctl(fd.get(), FS_IOC_GETFLAGS, &flags) != 0 || (flags & FS_TOPDIR_FL) != 0) return;
  flags |= FS_TOPDIR_FL;
  [[maybe_unused]] const int refused = ioctl(fd.get(), FS_IOC_SETFLAGS, &flags);
}

Status RemoveTree(const std::filesystem::path& path) {
  // libstdc++ walks with openat and O_NOFOLLOW and removes links themselves.
  std::error_code error;
  std::filesystem::remove_all(path, error);
  if (!error || error.value() == ENOENT || error.value() == ENOTDIR) return {};
  return PathError(error.value(), "remove", path);
}

Result<int64_t> FreeBytes(const std::filesystem::path& path) {
  struct statvfs info {};
  if (statvfs(path.c_str(), &info) != 0) return PathError(errno, "ask for free space of", path);
  return static_cast<int64_t>(info.f_bavail * info.f_frsize);
}

Result<std::vector<std::string>> ListNames(const std::filesystem::path& directory,
                                           int64_t names_max) {
  PF_ASSIGN(const UniqueFd fd, OpenFile(directory, O_RDONLY | O_DIRECTORY));
  return ReadNames(fd.get(), directory.native(), names_max);
}

Result<std::vector<FileEntry>> ListTree(const std::filesystem::path& root, int64_t entries_max) {
  PF_ASSIGN(const UniqueFd fd, OpenFile(root, O_RDONLY | O_DIRECTORY));
  TreeWalk walk(root, entries_max);
  PF_TRY(walk.Visit(fd.get(), "", 0));
  return walk.Take();
}

Status CheckRelativePath(std::string_view relative) {
  std::string_view flaw;
  if (relative.empty()) {
    flaw = "is empty";
  } else if (relative.size() > kRelativePathBytesMax) {
    flaw = "is longer than 1024 bytes";
  } else if (std::any_of(relative.begin(), relative.end(), [](char c) {
               return static_cast<unsigned char>(c) < 0x20 || c == 0x7F || c == '\\';
             })) {
    flaw = "has a backslash or a control character";
  } else {
    for (std::string_view rest = relative; flaw.empty();) {
      const size_t slash = rest.find('/');
      const std::string_view segment = rest.substr(0, slash);
      if (segment.empty() || segment == "." || segment == "..")
        flaw = "has an empty, '.' or '..' segment";
      if (slash == std::string_view::npos) break;
      rest.remove_prefix(slash + 1);
    }
  }
  if (flaw.empty()) return {};
  std::string shown;
  for (const char c : relative.substr(0, 200)) {
    shown += static_cast<unsigned char>(c) < 0x20 || c == 0x7F ? '?' : c;
  }
  return Status(Code::kRefused, fmt::format("relative path {}: '{}'", flaw, shown))
      .Explain(8006, shown,
               "names must be plain relative paths below their folder; what names this path is not "
               "ours\n"
               "or was tampered with, and stays untouched");
}

Result<std::filesystem::path> JoinBelow(const std::filesystem::path& root,
                                        std::string_view relative) {
  PF_TRY(CheckRelativePath(relative));
  return root / std::filesystem::path(relative);
}

namespace internal {

Result<UniqueFd> WalkBeneath(int directory_fd, std::string_view relative, int flags, int mode) {
  UniqueFd holder;
  int at_fd = directory_fd;
  std::string_view rest = relative;
  while (true) {
    const size_t slash = rest.find('/');
    const std::string segment(rest.substr(0, slash));
    const bool is_last = slash == std::string_view::npos;
    const int segment_flags = is_last ? flags : O_PATH | O_DIRECTORY;
    UniqueFd next(openat(at_fd, segment.c_str(), segment_flags | O_NOFOLLOW | O_CLOEXEC, mode));
    if (!next.is_open() && (errno == ELOOP || errno == ENOTDIR)) return LinkInTheWay(relative);
    if (!next.is_open()) return PathError(errno, "open", std::filesystem::path(relative));
    if (is_last) return next;
    holder = std::move(next);
    at_fd = holder.get();
    rest.remove_prefix(slash + 1);
  }
}

}  // namespace internal

Result<UniqueFd> OpenBeneath(int directory_fd, std::string_view relative, int flags, int mode) {
  PF_TRY(CheckRelativePath(relative));
  const std::string path(relative);
  open_how how{};
  how.flags = static_cast<uint64_t>(static_cast<unsigned>(flags | O_CLOEXEC));
  how.mode = (flags & O_CREAT) != 0 ? static_cast<uint64_t>(mode)
                                    : 0;  // the kernel refuses a mode elsewhere
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  for (int tries = 0; tries < kResolveTriesMax; ++tries) {
    const long fd = syscall(SYS_openat2, directory_fd, path.c_str(), &how, sizeof(how));
    if (fd >= 0) return UniqueFd(static_cast<int>(fd));
    if (errno == EINTR || errno == EAGAIN)
      continue;  // EAGAIN: a rename elsewhere raced with the resolution
    if (errno == ENOSYS || errno == EPERM)
      return internal::WalkBeneath(directory_fd, relative, flags, mode);
    if (errno == ELOOP || errno == ENOTDIR) return LinkInTheWay(relative);
    return PathError(errno, "open", path);
  }
  return Status(Code::kUnavailable,
                fmt::format("open beneath a folder that keeps changing: {}", relative));
}

Result<FileLock> FileLock::TryTake(const std::filesystem::path& path) {
  PF_ASSIGN(UniqueFd fd, OpenFile(path, O_RDWR | O_CREAT));
  return Lock(std::move(fd), path);
}

Result<FileLock> FileLock::TryTakeDirectory(const std::filesystem::path& path) {
  PF_ASSIGN(UniqueFd fd, OpenFile(path, O_RDONLY | O_DIRECTORY));
  return Lock(std::move(fd), path);
}

Result<FileLock> FileLock::Lock(UniqueFd fd, const std::filesystem::path& path) {
  while (flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno == EWOULDBLOCK) {
      return Status(Code::kConflict,
                    fmt::format("somebody else holds the lock on {}", path.native()));
    }
    return PathError(errno, "lock", path);
  }
  return FileLock(std::move(fd));
}

}  // namespace partforge
