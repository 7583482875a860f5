#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace partforge {

// Files of this machine. Errors carry the path and errno's text; ENOENT is kNotFound, EEXIST
// kAlreadyExists, ENOSPC/EDQUOT kExhausted, EACCES/EPERM kRefused, EXDEV kInvalidArgument, EIO
// kCorruption, else kInternal.

// An open descriptor; closed when destroyed. Movable.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept;
  UniqueFd& operator=(UniqueFd&& other) noexcept;
  ~UniqueFd();
  int get() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }
  int Release();
  Status Close();  // reports what close(2) says, which a destructor cannot

 private:
  int fd_ = -1;
};

// Whether an errno tells of what this process may and has (rights, descriptors, memory, room) and
// nothing of the file: another machine, or this one when it is set right, does not meet it. Not so
// EIO, ENOENT, ENOTDIR, ENAMETOOLONG and the like, which stay with the file.
bool IsErrnoOfSurroundings(int error_number);
// PF7007 where there is no room, PF7015 where the system refuses, PF7018 for all else.
Status ErrnoStatus(int error_number, std::string_view doing);

Result<UniqueFd> OpenFile(const std::filesystem::path& path, int flags,
                          int mode = 0600);  // O_CLOEXEC added
Status ReadAt(int fd, int64_t offset,
              std::span<std::byte> out);  // all of out; kCorruption at end of file
Status WriteAll(int fd, std::span<const std::byte> bytes);
// Whole file as a string; kInvalidArgument above `size_bytes_max`.
Result<std::string> ReadFile(const std::filesystem::path& path,
                             int64_t size_bytes_max = int64_t{1} << 30);
// Temporary name in the same folder, fsync, rename over the target, fsync the folder.
Status WriteFileDurably(const std::filesystem::path& path, std::string_view bytes, int mode = 0600);
Status SyncDirectory(const std::filesystem::path& directory);
// renameat2 with RENAME_NOREPLACE: kAlreadyExists when `to` exists. Does not sync.
Status RenameNoReplace(const std::filesystem::path& from, const std::filesystem::path& to);
Status MakeDirectories(const std::filesystem::path& path, int mode = 0700);
// Asks ext4 to lay each folder made below `folder` from now on into a block group of its own
// ("top directory" flag, chattr +T); elsewhere nothing happens. For folders below which many short-
// lived files come and go: ext4 gives no inode a second time for minutes and looks at every one of
// them on its way to a free one, so that making a file becomes dearer with each one removed beside.
// Best effort: it says nothing about failures, since only speed depends on it.
void SpreadSubfolders(const std::filesystem::path& folder);
// Removes a tree without following links; absent counts as removed.
Status RemoveTree(const std::filesystem::path& path);
Result<int64_t> FreeBytes(const std::filesystem::path& path);

// Names of what is in one directory, sorted bytewise, without "." and "..". An error in the middle
// of the reading is an error of the whole, never a shorter list; kRefused above `names_max`.
Result<std::vector<std::string>> ListNames(const std::filesystem::path& directory,
                                           int64_t names_max = 10'000'000);

struct FileEntry {
  std::string relative_path;  // '/'-separated, below the root of the walk
  int64_t size_bytes = 0;
  bool is_directory = false;
  uint32_t mode = 0;
};
// Everything below `root` in lexical order of the relative path, each directory before what is in
// it. A link, device or socket is kRefused naming it; at most `entries_max` entries.
Result<std::vector<FileEntry>> ListTree(const std::filesystem::path& root,
                                        int64_t entries_max = 10'000'000);

// Joins a relative path from outside below `root`: no empty, "." or ".." segment, no backslash, NUL
// or control character, at most 1024 bytes. kRefused (PF8005) otherwise. Pure; see OpenBeneath for
// the safe open.
Result<std::filesystem::path> JoinBelow(const std::filesystem::path& root,
                                        std::string_view relative);
Status CheckRelativePath(std::string_view relative);
// Opens `relative` below the directory descriptor with openat2(RESOLVE_BENEATH |
// RESOLVE_NO_SYMLINKS).
Result<UniqueFd> OpenBeneath(int directory_fd, std::string_view relative, int flags,
                             int mode = 0600);

namespace internal {
// OpenBeneath where the kernel or a sandbox has no openat2: segment by segment, O_NOFOLLOW each.
// Takes a checked path.
Result<UniqueFd> WalkBeneath(int directory_fd, std::string_view relative, int flags, int mode);
}  // namespace internal

// An exclusive flock on a file; held until destroyed or the process dies.
class FileLock {
 public:
  // kConflict when somebody else holds it. Creates the file when absent.
  static Result<FileLock> TryTake(const std::filesystem::path& path);
  // The same on a folder that exists; nothing is made.
  static Result<FileLock> TryTakeDirectory(const std::filesystem::path& path);

 private:
  explicit FileLock(UniqueFd fd) : fd_(std::move(fd)) {}
  static Result<FileLock> Lock(UniqueFd fd, const std::filesystem::path& path);
  UniqueFd fd_;
};

}  // namespace partforge
