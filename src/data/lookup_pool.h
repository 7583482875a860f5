#pragma once

#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "data/lookup_file.h"

namespace partforge::data {

class LookupPool;

// How the rows of a lookup file are read when it has to be made: the data file with the schema
// wanted, no row left out.
using LookupRows = std::function<Result<std::unique_ptr<BatchSource>>(const Context&)>;

// One data file's rows by key. Its lookup file stays while the reader lives. One thread at a time.
class LookupReader {
 public:
  ~LookupReader();
  LookupReader(const LookupReader&) = delete;
  LookupReader& operator=(const LookupReader&) = delete;
  // None when there is no such row. A damaged file is made anew once; damaged again: kCorruption.
  Result<std::optional<FoundRow>> Find(const Context& ctx, std::string_view key);
  int64_t blocks_read() const { return cursor_ ? cursor_->blocks_read() : 0; }

 private:
  friend class LookupPool;
  struct Request {
    LookupIdentity identity;
    std::shared_ptr<arrow::Schema> schema;
    const KeyEncoder* keys = nullptr;
    LookupRows rows;
  };
  LookupReader(LookupPool& pool, std::string name, Request request)
      : pool_(pool), name_(std::move(name)), request_(std::move(request)) {}

  LookupPool& pool_;
  const std::string name_;  // of the entry
  const Request request_;
  std::string file_name_;  // that is pinned; empty: none
  std::optional<LookupCursor> cursor_;
  bool was_rebuilt_ = false;
};

// Lookup files of one folder of this process, at most so many bytes: what was not used for longest
// goes first, what is in use never. A crash leaves files that the next pool of the folder takes
// over, and `.tmp` files that it removes. Thread-safe.
class LookupPool {
 public:
  struct Options {
    std::filesystem::path directory = {};  // exists; nobody else's
    int64_t bytes_max = int64_t{10} << 30;
    LookupLimits limits = {};
    int64_t epoch = 0;  // of the task: in the names of half-written files
  };
  // `memory` must outlive the pool and its readers.
  static Result<std::unique_ptr<LookupPool>> Open(const Context& ctx, Options options,
                                                  ArrowMemory& memory);

  // Opens the lookup file of the identity, made of `rows` when there is none. `keys` outlives the
  // reader, the pool too. Two that want the same file make it once.
  Result<std::unique_ptr<LookupReader>> Acquire(const Context& ctx, LookupIdentity identity,
                                                std::shared_ptr<arrow::Schema> schema,
                                                const KeyEncoder& keys, LookupRows rows);
  int64_t used_bytes() const;
  int64_t files_built() const;
  int64_t files_evicted() const;

 private:
  friend class LookupReader;
  class FileSink;
  struct Entry {
    std::string file_name;  // empty while it is being made
    int64_t size_bytes = 0;
    int64_t pins = 0;
    int64_t last_use = 0;
  };
  LookupPool(Options options, ArrowMemory& memory)
      : options_(std::move(options)), memory_(memory) {}
  Status TakeOver(const Context& ctx);
  // Makes the reader's cursor over a pinned file.
  Status Attach(const Context& ctx, LookupReader& reader);
  Status Build(const Context& ctx, LookupReader& reader);
  // Counts bytes that are about to be written; makes room for them.
  Status Take(const Context& ctx, int64_t bytes);
  void GiveBack(int64_t bytes);
  // Forgets the reader's file, if it still is the entry's, and removes it.
  void Discard(const Context& ctx, LookupReader& reader);
  void Unpin(LookupReader& reader);

  const Options options_;
  ArrowMemory& memory_;
  mutable std::mutex mutex_;
  std::condition_variable_any made_;
  std::map<std::string, Entry> entries_;  // guarded by mutex_
  int64_t used_bytes_ = 0;                // guarded by mutex_
  int64_t use_count_ = 0;                 // guarded by mutex_
  int64_t files_built_ = 0;               // guarded by mutex_
  int64_t files_evicted_ = 0;             // guarded by mutex_
};

}  // namespace partforge::data
