#include "data/lookup_pool.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/files.h"
#include "base/hash.h"

namespace partforge::data {
namespace {

constexpr std::string_view kSuffix = ".pflk";

// A file of this machine as an object.
class LocalSource final : public ByteSource {
 public:
  LocalSource(UniqueFd fd, int64_t size_bytes) : fd_(std::move(fd)), size_bytes_(size_bytes) {}
  int64_t size_bytes() const override { return size_bytes_; }
  Status ReadAt(const Context& /*ctx*/, int64_t offset, std::span<std::byte> out) override {
    return partforge::ReadAt(fd_.get(), offset, out);
  }

 private:
  const UniqueFd fd_;
  const int64_t size_bytes_;
};

}  // namespace

// Appends to the half-written file; the pool's limit holds for every byte of it.
class LookupPool::FileSink final : public ByteSink {
 public:
  FileSink(LookupPool& pool, UniqueFd fd) : pool_(pool), fd_(std::move(fd)) {}
  Status Append(const Context& ctx, std::span<const std::byte> bytes) override {
    const auto size = static_cast<int64_t>(bytes.size());
    PF_TRY(pool_.Take(ctx, size));
    size_bytes_ += size;
    return WriteAll(fd_.get(), bytes);
  }
  Result<ObjectInfo> Close(const Context& /*ctx*/) override {
    PF_TRY(fd_.Close());
    return ObjectInfo{.key = {}, .size_bytes = size_bytes_, .etag = {}};
  }
  int64_t size_bytes() const { return size_bytes_; }

 private:
  LookupPool& pool_;
  UniqueFd fd_;
  int64_t size_bytes_ = 0;
};

Result<std::unique_ptr<LookupPool>> LookupPool::Open(const Context& ctx, Options options,
                                                     ArrowMemory& memory) {
  std::unique_ptr<LookupPool> pool(new LookupPool(std::move(options), memory));
  PF_TRY(pool->TakeOver(ctx));
  return pool;
}

// Names: the hash of the identity, a token that no two files share, the suffix; while it is written
// ".tmp." and the epoch behind that.
Status LookupPool::TakeOver(const Context& ctx) {
  PF_ASSIGN(const std::vector<FileEntry> files, ListTree(options_.directory));
  for (const FileEntry& file : files) {
    const std::string& name = file.relative_path;
    if (file.is_directory || name.find(kSuffix) == std::string::npos) continue;
    const std::string hash = name.substr(0, name.find('.'));
    const bool is_whole = name.ends_with(kSuffix);
    const bool is_taken = [&] {
      const std::lock_guard lock(mutex_);
      if (!is_whole || entries_.contains(hash)) return false;
      entries_[hash] = {.file_name = name, .size_bytes = file.size_bytes};
      used_bytes_ += file.size_bytes;
      return true;
    }();
    if (!is_taken) PF_TRY(RemoveTree(options_.directory / name));
  }
  return Take(ctx, 0);
}

Result<std::unique_ptr<LookupReader>> LookupPool::Acquire(const Context& ctx,
                                                          LookupIdentity identity,
                                                          std::shared_ptr<arrow::Schema> schema,
                                                          const KeyEncoder& keys, LookupRows rows) {
  std::string name = Sha256Hex(identity.ToText()).substr(0, 32);
  std::unique_ptr<LookupReader> reader(new LookupReader(*this, std::move(name),
                                                        {.identity = std::move(identity),
                                                         .schema = std::move(schema),
                                                         .keys = &keys,
                                                         .rows = std::move(rows)}));
  Status status = Attach(ctx, *reader);
  // Of another version, or damaged where one sees it at once.
  const auto is = [&](Code code) { return !status.ok() && status.code() == code; };
  if ((is(Code::kNotFound) || is(Code::kCorruption)) && !reader->file_name_.empty()) {
    Discard(ctx, *reader);
    reader->was_rebuilt_ = is(Code::kCorruption);
    status = Attach(ctx, *reader);
  }
  if (!status.ok()) return status;
  return reader;
}

Status LookupPool::Attach(const Context& ctx, LookupReader& reader) {
  if (!reader.file_name_.empty()) {  // it was there and could not be opened
    Unpin(reader);
    reader.file_name_.clear();
  }
  while (true) {
    bool builds = false;
    {
      std::unique_lock lock(mutex_);
      const auto place = entries_.find(reader.name_);
      if (place == entries_.end()) {
        entries_[reader.name_] = {};  // whoever comes now waits
        builds = true;
      } else if (place->second.file_name.empty()) {
        made_.wait(lock, ctx.stop, [&] {
          const auto now = entries_.find(reader.name_);
          return now == entries_.end() || !now->second.file_name.empty();
        });
      } else {
        ++place->second.pins;
        place->second.last_use = ++use_count_;
        reader.file_name_ = place->second.file_name;
      }
    }
    PF_TRY(ctx.CheckStop("waiting for a lookup file"));
    if (builds) PF_TRY(Build(ctx, reader));
    if (!reader.file_name_.empty()) break;
  }
  const auto path = options_.directory / reader.file_name_;
  PF_ASSIGN(UniqueFd fd, OpenFile(path, O_RDONLY));
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  if (error) return ErrnoStatus(error.value(), fmt::format("size of {}", path.string()));
  PF_ASSIGN(auto file,
            LookupFile::Open(
                ctx, std::make_unique<LocalSource>(std::move(fd), static_cast<int64_t>(size)),
                reader.request_.identity, reader.request_.schema, options_.limits));
  reader.cursor_.emplace(std::move(file), *reader.request_.keys, memory_);
  return {};
}

// The entry is there, without a file: it is this call's to fill or to remove.
Status LookupPool::Build(const Context& ctx, LookupReader& reader) {
  const std::string file_name =
      fmt::format("{}.{:016x}{}", reader.name_, ctx.random.Next(), kSuffix);
  const auto temporary = options_.directory / fmt::format("{}.tmp.{}", file_name, options_.epoch);
  int64_t size_bytes = 0;
  const auto build = [&]() -> Status {
    PF_ASSIGN(const auto rows, reader.request_.rows(ctx));
    PF_ASSIGN(UniqueFd fd, OpenFile(temporary, O_WRONLY | O_CREAT | O_EXCL));
    FileSink sink(*this, std::move(fd));
    const auto written = WriteLookupFile(ctx, *rows, *reader.request_.keys,
                                         reader.request_.identity, options_.limits, sink, memory_);
    size_bytes = sink.size_bytes();
    if (!written.ok()) return written.status();
    PF_TRY(sink.Close(ctx));
    PF_FAULT(ctx, "data.wrote_lookup");
    // Nothing to sync: after a crash of the machine its checksums tell what is missing.
    PF_TRY(RenameNoReplace(temporary, options_.directory / file_name));
    PF_FAULT(ctx, "data.named_lookup");
    return {};
  };
  const Status status = build();
  {
    const std::lock_guard lock(mutex_);
    if (status.ok()) {
      entries_[reader.name_] = {
          .file_name = file_name, .size_bytes = size_bytes, .pins = 1, .last_use = ++use_count_};
      ++files_built_;
    } else {
      entries_.erase(reader.name_);
    }
  }
  made_.notify_all();
  if (status.ok()) {
    reader.file_name_ = file_name;
    return {};
  }
  Ignore(ctx, RemoveTree(temporary), "a half-written lookup file: the next start removes it");
  Ignore(ctx, RemoveTree(options_.directory / file_name), "a lookup file that nobody knows");
  GiveBack(size_bytes);
  return status;
}

Status LookupPool::Take(const Context& ctx, int64_t bytes) {
  std::vector<std::string> removed;
  bool fits = true;
  {
    const std::lock_guard lock(mutex_);
    while (used_bytes_ + bytes > options_.bytes_max) {
      auto oldest = entries_.end();
      for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
        if (entry->second.pins > 0 || entry->second.file_name.empty()) continue;
        if (oldest == entries_.end() || entry->second.last_use < oldest->second.last_use) {
          oldest = entry;
        }
      }
      if (oldest == entries_.end()) {
        fits = false;
        break;
      }
      used_bytes_ -= oldest->second.size_bytes;
      removed.push_back(oldest->second.file_name);
      entries_.erase(oldest);
      ++files_evicted_;
    }
    if (fits) used_bytes_ += bytes;
  }
  // Names are never used again, so that nobody can have made the same one meanwhile.
  for (const std::string& name : removed) {
    Ignore(ctx, RemoveTree(options_.directory / name), "an evicted lookup file");
  }
  if (fits) return {};
  return Status(Code::kExhausted,
                fmt::format("lookup: a file does not fit {} bytes on disk beside those in use",
                            options_.bytes_max));
}

void LookupPool::GiveBack(int64_t bytes) {
  const std::lock_guard lock(mutex_);
  used_bytes_ -= bytes;
}

void LookupPool::Discard(const Context& ctx, LookupReader& reader) {
  if (reader.file_name_.empty()) return;
  reader.cursor_.reset();
  {
    const std::lock_guard lock(mutex_);
    const auto entry = entries_.find(reader.name_);
    if (entry != entries_.end() && entry->second.file_name == reader.file_name_) {
      used_bytes_ -= entry->second.size_bytes;
      entries_.erase(entry);
    }
  }
  // Others that have it open read on.
  Ignore(ctx, RemoveTree(options_.directory / reader.file_name_), "a damaged lookup file");
  reader.file_name_.clear();
}

void LookupPool::Unpin(LookupReader& reader) {
  const std::lock_guard lock(mutex_);
  const auto entry = entries_.find(reader.name_);
  if (entry != entries_.end() && entry->second.file_name == reader.file_name_) {
    --entry->second.pins;
  }
}

int64_t LookupPool::used_bytes() const {
  const std::lock_guard lock(mutex_);
  return used_bytes_;
}
int64_t LookupPool::files_built() const {
  const std::lock_guard lock(mutex_);
  return files_built_;
}
int64_t LookupPool::files_evicted() const {
  const std::lock_guard lock(mutex_);
  return files_evicted_;
}

LookupReader::~LookupReader() {
  if (!file_name_.empty()) pool_.Unpin(*this);
}

Result<std::optional<FoundRow>> LookupReader::Find(const Context& ctx, std::string_view key) {
  // A file that was damaged, and that could not be made anew when this was asked for last.
  if (!cursor_) PF_TRY(pool_.Attach(ctx, *this));
  auto found = cursor_->Find(ctx, key);
  if (found.ok() || found.status().code() != Code::kCorruption || was_rebuilt_) return found;
  was_rebuilt_ = true;
  pool_.Discard(ctx, *this);
  PF_TRY(pool_.Attach(ctx, *this));
  return cursor_->Find(ctx, key);
}

}  // namespace partforge::data
