#include "job/run_folder.h"

#include <fmt/format.h>

#include <string_view>
#include <system_error>
#include <vector>

namespace partforge {
namespace {

constexpr std::string_view kRunPrefix = "run-";
constexpr size_t kRunLetters = 4;
constexpr std::string_view kLockSuffix = ".lock";

std::filesystem::path LockPath(const std::filesystem::path& run) {
  return run.parent_path() / (run.filename().string() + std::string(kLockSuffix));
}

Result<std::vector<std::filesystem::path>> RunFolders(const std::filesystem::path& work_dir) {
  PF_ASSIGN(const std::vector<std::string> names, ListNames(work_dir));
  std::vector<std::filesystem::path> found;
  for (const std::string& name : names) {
    std::error_code ignored;  // an entry that vanished meanwhile is not a folder any more
    if (name.starts_with(kRunPrefix) && std::filesystem::is_directory(work_dir / name, ignored))
      found.push_back(work_dir / name);
  }
  return found;
}

}  // namespace

Result<std::unique_ptr<RunFolder>> RunFolder::Open(const Context& ctx,
                                                   const std::filesystem::path& work_dir) {
  PF_TRY(MakeDirectories(work_dir));
  PF_ASSIGN(const int64_t swept, Sweep(ctx, work_dir));
  if (swept > 0) ctx.log.Info("scratch of dead workers removed", {{"folders", swept}});
  const std::filesystem::path path =
      work_dir / (std::string(kRunPrefix) + RandomHex(ctx.random, 8));
  // The lock comes before the folder, so that a folder without a held lock always has a dead owner.
  PF_ASSIGN(FileLock lock, FileLock::TryTake(LockPath(path)));
  PF_FAULT(ctx, "job.locked_run_folder");
  PF_TRY(MakeDirectories(path / "scratch"));
  SpreadSubfolders(path / "scratch");
  return std::unique_ptr<RunFolder>(new RunFolder(path, std::move(lock)));
}

Result<std::vector<std::filesystem::path>> RunFolder::Abandoned(
    const Context& ctx, const std::filesystem::path& work_dir) {
  PF_ASSIGN(const auto folders, RunFolders(work_dir));
  std::vector<std::filesystem::path> abandoned;
  for (const auto& folder : folders) {
    const auto lock = FileLock::TryTake(LockPath(folder));
    if (lock.ok()) abandoned.push_back(folder);
    if (!lock.ok() && lock.status().code() != Code::kConflict)
      Ignore(ctx, lock.status(), "a folder whose lock cannot be asked is not listed");
  }
  return abandoned;
}

Result<int64_t> RunFolder::Sweep(const Context& ctx, const std::filesystem::path& work_dir) {
  PF_ASSIGN(const auto folders, RunFolders(work_dir));
  int64_t removed = 0;
  for (const auto& folder : folders) {
    auto lock = FileLock::TryTake(LockPath(folder));
    if (!lock.ok()) {
      if (lock.status().code() != Code::kConflict)
        Ignore(ctx, lock.status(), "folder is left to a later sweep");
      continue;
    }
    const Status status = RemoveTree(folder);
    if (!status.ok()) {
      Ignore(ctx, status, "folder is left to a later sweep");
      continue;
    }
    PF_FAULT(ctx, "job.swept_run_folder");
    std::error_code ignored;  // an empty lock file left behind harms nobody
    std::filesystem::remove(LockPath(folder), ignored);
    ++removed;
  }
  return removed;
}

Result<std::filesystem::path> RunFolder::MakeSlot(int slot) const {
  std::filesystem::path folder = path_ / fmt::format("engine-{}", slot);
  PF_TRY(MakeDirectories(folder));
  return folder;
}

Result<std::filesystem::path> RunFolder::MakeScratch(const TaskId& task, uint64_t epoch) const {
  // The run's own letters, since ext4 places a spread folder by its name: a second run must not
  // meet the inodes that the first has just given up.
  const std::string run = path_.filename().string().substr(kRunPrefix.size(), kRunLetters);
  PF_ASSIGN(std::filesystem::path folder,
            JoinBelow(path_ / "scratch", fmt::format("{}.{}.{}", task, epoch, run)));
  PF_TRY(RemoveTree(folder));
  PF_TRY(MakeDirectories(folder));
  return folder;
}

Status RunFolder::Remove(const Context& ctx) {
  PF_TRY(RemoveTree(path_));
  PF_FAULT(ctx, "job.removed_run_folder");
  std::error_code ignored;  // an empty lock file left behind harms nobody
  std::filesystem::remove(LockPath(path_), ignored);
  return {};
}

}  // namespace partforge
