#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/context.h"
#include "store/object_store.h"

namespace partforge {

// The names in one folder, sorted bytewise with '/' behind each folder's name: in this order a walk
// meets full keys in their own order. Immutable once read.
class FolderNames {
 public:
  // Reads the folder open at `folder_fd`. Neither files nor folders: links, devices and the like
  // are left out. kExhausted when the names do not fit into ctx.memory.
  static Result<std::shared_ptr<const FolderNames>> Read(const Context& ctx, int folder_fd,
                                                         std::vector<MemoryGrant>& grants);

  size_t size() const { return entries_.size(); }
  // "name" of a file, "name/" of a folder.
  std::string_view name(size_t index) const;
  int64_t size_bytes() const;
  // Index of the first name that is not less than `name`.
  size_t LowerBound(std::string_view name) const;

 private:
  struct Entry {
    size_t offset = 0;
    uint32_t length = 0;
  };
  std::string text_;
  std::vector<Entry> entries_;
};

// Lists a folder tree page by page in the order of full keys. Keeps the names of the last large
// folder, so that a million files in one folder cost one readdir and not one a page; they are used
// again only while the folder's modification time proves that no name came or went. Thread-safe.
class LocalListing {
 public:
  // Folders with fewer names than `remember_names_min` are read again for each page.
  explicit LocalListing(size_t remember_names_min = 4096)
      : remember_names_min_(remember_names_min) {}

  // As ObjectStore::List, below the folder open at `root_fd`, at most `objects_max` a page.
  Result<ListPage> List(const Context& ctx, int root_fd, std::string_view prefix,
                        const std::optional<std::string>& after, size_t objects_max);

 private:
  struct Walk;
  struct Remembered {
    std::string folder;
    uint64_t device = 0, inode = 0;
    int64_t modified_ns = 0;
    std::shared_ptr<const FolderNames> names;
  };

  Status WalkFolder(const Context& ctx, Walk& walk, const std::string& folder, int depth);
  // Empty when the folder is gone.
  Result<std::shared_ptr<const FolderNames>> Names(const Context& ctx, Walk& walk,
                                                   const std::string& folder);

  const size_t remember_names_min_;
  std::mutex mutex_;
  Remembered remembered_;  // guarded by mutex_
};

}  // namespace partforge
