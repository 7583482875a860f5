#pragma once

#include <cstdint>
#include <filesystem>
#include <mutex>
#include <string>
#include <vector>

#include "base/context.h"
#include "base/files.h"

namespace partforge {

// A file nobody can see yet, in the reserved folder of a local store.
struct TempFile {
  std::string name;  // inside the reserved folder
  UniqueFd fd;       // open for writing
};

// The reserved folder of a local store: half-written objects live here until they are renamed into
// place. A writer that dies leaves its file; such a file is removed by age only, since nothing
// tells a dead writer from a slow one. Thread-safe.
class LocalTemp {
 public:
  // `root` is the store's folder; it and the reserved folder are made when the first file is.
  explicit LocalTemp(const std::filesystem::path& root);

  const std::filesystem::path& folder() const { return folder_; }
  Result<TempFile> Create(const Context& ctx);
  // The descriptor of the folder, for renameat and linkat. kNotFound before the first Create.
  Result<UniqueFd> OpenFolder() const;
  // Removes a file; absent counts as removed.
  Status Remove(std::string_view name) const;
  // Remembers a file whose writer was dropped in this process; RemoveAbandoned, which Create calls,
  // removes it. Touches
  // no disk, so it may be called from a destructor.
  void Abandon(std::string name);
  // Removes files not written to for `age_ms_min`, and the folder when it is empty; returns how
  // many files.
  Result<int64_t> Sweep(const Context& ctx, int64_t age_ms_min) const;
  // Removes the files remembered so far now; a failure is logged, and left to the sweep.
  void RemoveAbandoned(const Context& ctx);

 private:
  const std::filesystem::path folder_;
  std::mutex mutex_;
  std::vector<std::string> abandoned_;  // guarded by mutex_
  bool has_swept_ = false;              // guarded by mutex_
};

}  // namespace partforge
