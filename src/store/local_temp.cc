#include "store/local_temp.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <utility>

#include "base/random.h"
#include "store/object_store.h"

namespace partforge {
namespace {

constexpr int64_t kLeftoverAgeMs = int64_t{24} * 3600 * 1000;
constexpr int kNameTriesMax = 8;
constexpr int kFileMode =
    0666;  // the umask decides: a lake folder is often shared with other programs
constexpr int kFolderMode = 0777;

struct CloseDirectory {
  void operator()(DIR* directory) const { closedir(directory); }
};

}  // namespace

LocalTemp::LocalTemp(const std::filesystem::path& root)
    : folder_(root / kReservedPrefix.substr(0, kReservedPrefix.size() - 1)) {}

Result<TempFile> LocalTemp::Create(const Context& ctx) {
  RemoveAbandoned(ctx);
  for (int tries = 0; tries < kNameTriesMax; ++tries) {
    std::string name = RandomHex(ctx.random, 16);
    Result<UniqueFd> fd =
        OpenFile(folder_ / name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, kFileMode);
    if (fd.ok()) return TempFile{.name = std::move(name), .fd = std::move(fd).value()};
    if (fd.status().code() == Code::kNotFound) {
      PF_TRY(MakeDirectories(folder_, kFolderMode));
    } else if (fd.status().code() != Code::kAlreadyExists) {
      return std::move(fd).status();
    }
  }
  return Status(Code::kUnavailable, "no temporary file could be made in " + folder_.string());
}

Result<UniqueFd> LocalTemp::OpenFolder() const {
  return OpenFile(folder_, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
}

Status LocalTemp::Remove(std::string_view name) const {
  const std::filesystem::path path = folder_ / name;
  if (unlink(path.c_str()) != 0 && errno != ENOENT) {
    return ErrnoStatus(errno, "remove " + path.string());
  }
  return {};
}

void LocalTemp::Abandon(std::string name) {
  const std::lock_guard lock(mutex_);
  abandoned_.push_back(std::move(name));
}

Result<int64_t> LocalTemp::Sweep(const Context& ctx, int64_t age_ms_min) const {
  const std::unique_ptr<DIR, CloseDirectory> directory(opendir(folder_.c_str()));
  if (directory == nullptr) {
    if (errno == ENOENT) return int64_t{0};
    return ErrnoStatus(errno, "list " + folder_.string());
  }
  const int64_t newest_ms = ctx.clock.NowMs() - age_ms_min;
  int64_t removed = 0;
  while (true) {
    errno = 0;
    const dirent* const entry = readdir(directory.get());
    if (entry == nullptr && errno != 0) return ErrnoStatus(errno, "list " + folder_.string());
    if (entry == nullptr) break;
    struct stat info {};
    if (fstatat(dirfd(directory.get()), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0) {
      if (errno == ENOENT) continue;  // published or removed by its writer
      return ErrnoStatus(errno, "look at " + (folder_ / entry->d_name).string());
    }
    const int64_t modified_ms =
        int64_t{info.st_mtim.tv_sec} * 1000 + info.st_mtim.tv_nsec / 1'000'000;
    if (!S_ISREG(info.st_mode) || modified_ms > newest_ms) continue;
    PF_TRY(Remove(entry->d_name));
    ++removed;
  }
  // It stays while any file is in it; a writer that finds it gone makes it again.
  if (rmdir(folder_.c_str()) != 0 && errno != ENOTEMPTY && errno != EEXIST && errno != ENOENT) {
    ctx.log.Debug("the folder of temporary files stays", {{"folder", folder_.string()}});
  }
  if (removed > 0) {
    ctx.log.Info("leftovers of dead writers removed",
                 {{"folder", folder_.string()}, {"files", removed}});
  }
  return removed;
}

void LocalTemp::RemoveAbandoned(const Context& ctx) {
  std::vector<std::string> names;
  bool sweeps = false;
  {
    const std::lock_guard lock(mutex_);
    names.swap(abandoned_);
    sweeps = !std::exchange(has_swept_, true);
  }
  for (const std::string& name : names) {
    Ignore(ctx, Remove(name), "a temporary file is removed by age later");
  }
  if (!sweeps) return;
  if (const Result<int64_t> swept = Sweep(ctx, kLeftoverAgeMs); !swept.ok()) {
    Ignore(ctx, swept.status(), "leftovers are swept by the next process");
  }
}

}  // namespace partforge
