#include "store/local_path.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace partforge {
namespace {

constexpr int kFolderMode = 0777;  // the umask decides

bool IsFileBelow(int root_fd, std::string_view key) {
  const Result<UniqueFd> fd = OpenBeneath(root_fd, key, O_PATH | O_NOFOLLOW);
  struct stat info {};
  return fd.ok() && fstat(fd->get(), &info) == 0 && S_ISREG(info.st_mode);
}

Result<UniqueFd> OpenRoot(int root_fd) {
  UniqueFd fd(openat(root_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.is_open()) return ErrnoStatus(errno, "open the root of a local store");
  return fd;
}

}  // namespace

std::string_view FolderOfKey(std::string_view key) {
  const size_t slash = key.rfind('/');
  return slash == std::string_view::npos ? std::string_view() : key.substr(0, slash);
}

std::string_view NameOfKey(std::string_view key) {
  const size_t slash = key.rfind('/');
  return slash == std::string_view::npos ? key : key.substr(slash + 1);
}

bool IsAbsence(int root_fd, std::string_view key, const Status& failure) {
  if (failure.code() == Code::kNotFound) return true;
  // A file where a folder is needed: the kernel says ENOTDIR, which OpenBeneath takes for a link.
  if (failure.code() != Code::kInternal && failure.code() != Code::kRefused) return false;
  for (size_t slash = key.find('/'); slash != std::string_view::npos;
       slash = key.find('/', slash + 1)) {
    if (IsFileBelow(root_fd, key.substr(0, slash))) return true;
  }
  return false;
}

Result<UniqueFd> OpenFolderBelow(int root_fd, std::string_view folder) {
  if (folder.empty()) return OpenRoot(root_fd);
  return OpenBeneath(root_fd, folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
}

Result<UniqueFd> MakeFolderBelow(int root_fd, std::string_view folder) {
  Result<UniqueFd> existing = OpenFolderBelow(root_fd, folder);
  if (existing.ok()) return existing;
  PF_ASSIGN(UniqueFd at, OpenRoot(root_fd));
  std::string_view rest = folder;
  while (!rest.empty()) {
    const size_t slash = rest.find('/');
    const std::string segment(rest.substr(0, slash));
    if (mkdirat(at.get(), segment.c_str(), kFolderMode) == 0) {
      PF_TRY(SyncFolder(at.get(), folder));
    } else if (errno != EEXIST) {
      return ErrnoStatus(errno, fmt::format("make folder {} of {}", segment, folder));
    }
    UniqueFd next(
        openat(at.get(), segment.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!next.is_open()) {
      const int error_number = errno;
      if (error_number == ENOTDIR || error_number == ELOOP) {
        return Status(Code::kInvalidArgument,
                      fmt::format("an object or link stands where a folder is needed: {} of {}",
                                  segment, folder));
      }
      return ErrnoStatus(error_number, fmt::format("open folder {} of {}", segment, folder));
    }
    at = std::move(next);
    rest = slash == std::string_view::npos ? std::string_view() : rest.substr(slash + 1);
  }
  return at;
}

Status SyncFolder(int folder_fd, std::string_view shown) {
  if (fsync(folder_fd) != 0) return ErrnoStatus(errno, fmt::format("sync folder {}", shown));
  return {};
}

}  // namespace partforge
