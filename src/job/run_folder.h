#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/context.h"
#include "base/files.h"
#include "job/task.h"

namespace partforge {

// Scratch of one worker process: <work_dir>/run-<16 hex>/ with engine-<slot>/ and
// scratch/<task>.<epoch>.<letters>/. Garbage once the process is dead: <work_dir>/run-<16 hex>.lock
// is held by flock for the life of the object, and whoever gets that lock may remove the folder.
// Safe for concurrent use.
class RunFolder {
 public:
  // Removes the folders of dead processes first.
  static Result<std::unique_ptr<RunFolder>> Open(const Context& ctx,
                                                 const std::filesystem::path& work_dir);
  // The run folders below `work_dir` whose lock is free: what Sweep would remove.
  static Result<std::vector<std::filesystem::path>> Abandoned(
      const Context& ctx, const std::filesystem::path& work_dir);
  // Removes every run folder below `work_dir` whose lock is free; the number of them.
  static Result<int64_t> Sweep(const Context& ctx, const std::filesystem::path& work_dir);

  const std::filesystem::path& path() const { return path_; }
  // Private to the slot for the process's whole life; made when absent.
  Result<std::filesystem::path> MakeSlot(int slot) const;
  // Private to the attempt: exists and is empty.
  Result<std::filesystem::path> MakeScratch(const TaskId& task, uint64_t epoch) const;
  // Takes the folder away; called when the worker ends in order.
  Status Remove(const Context& ctx);

 private:
  RunFolder(std::filesystem::path path, FileLock lock)
      : path_(std::move(path)), lock_(std::move(lock)) {}
  const std::filesystem::path path_;
  const FileLock lock_;
};

}  // namespace partforge
