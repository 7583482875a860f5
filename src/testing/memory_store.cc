#include "testing/memory_store.h"

#include <fmt/format.h>

#include <cstring>
#include <utility>

namespace partforge::testing {
namespace {

Status NoSuchObject(std::string_view key) {
  return Status(Code::kNotFound, fmt::format("no such object: {}", key));
}

}  // namespace

class MemoryStore::Source final : public ByteSource {
 public:
  explicit Source(std::shared_ptr<const std::string> bytes) : bytes_(std::move(bytes)) {}
  int64_t size_bytes() const override { return static_cast<int64_t>(bytes_->size()); }
  Status ReadAt(const Context& ctx, int64_t offset, std::span<std::byte> out) override {
    PF_TRY(ctx.CheckStop("reading an object"));
    if (offset < 0 || offset > size_bytes() ||
        static_cast<int64_t>(out.size()) > size_bytes() - offset) {
      return Status(Code::kCorruption, fmt::format("read {} bytes at {} of an object of {} bytes",
                                                   out.size(), offset, size_bytes()));
    }
    if (!out.empty()) std::memcpy(out.data(), bytes_->data() + offset, out.size());
    return {};
  }

 private:
  const std::shared_ptr<const std::string> bytes_;
};

class MemoryStore::Sink final : public ByteSink {
 public:
  Sink(MemoryStore& store, std::string key) : store_(store), key_(std::move(key)) {}
  Status Append(const Context& ctx, std::span<const std::byte> bytes) override {
    PF_TRY(ctx.CheckStop("writing an object"));
    if (has_ended_) return Status(Code::kInternal, "append to a closed object: " + key_);
    bytes_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return {};
  }
  Result<ObjectInfo> Close(const Context& ctx) override {
    PF_TRY(ctx.CheckStop("closing an object"));
    if (std::exchange(has_ended_, true))
      return Status(Code::kInternal, "close of a closed object: " + key_);
    return store_.Store(ctx, key_, std::make_shared<const std::string>(std::move(bytes_)));
  }

 private:
  MemoryStore& store_;
  const std::string key_;
  std::string bytes_;
  bool has_ended_ = false;
};

Result<std::unique_ptr<ByteSource>> MemoryStore::Open(const Context&, std::string_view key) {
  PF_TRY(CheckObjectKey(key));
  const std::lock_guard lock(mutex_);
  const auto it = objects_.find(key);
  if (it == objects_.end()) return NoSuchObject(key);
  return std::unique_ptr<ByteSource>(std::make_unique<Source>(it->second.bytes));
}

Result<std::unique_ptr<ByteSink>> MemoryStore::Create(const Context& ctx, std::string_view key,
                                                      int64_t) {
  PF_TRY(CheckObjectKey(key));
  PF_TRY(ctx.CheckStop("creating an object"));
  return std::unique_ptr<ByteSink>(std::make_unique<Sink>(*this, std::string(key)));
}

Result<PutOutcome> MemoryStore::PutIfAbsent(const Context& ctx, std::string_view key,
                                            std::span<const std::byte> bytes) {
  PF_TRY(CheckObjectKey(key));
  PF_TRY(ctx.CheckStop("creating an object"));
  auto copy = std::make_shared<const std::string>(reinterpret_cast<const char*>(bytes.data()),
                                                  bytes.size());
  const std::lock_guard lock(mutex_);
  const auto [it, is_new] = objects_.try_emplace(std::string(key));
  if (!is_new) return PutOutcome::kAlreadyThere;
  it->second = {.bytes = std::move(copy), .modified_ms = ctx.clock.NowMs(), .version = ++version_};
  return PutOutcome::kCreated;
}

Result<ObjectInfo> MemoryStore::Stat(const Context&, std::string_view key) {
  PF_TRY(CheckObjectKey(key));
  const std::lock_guard lock(mutex_);
  const auto it = objects_.find(key);
  if (it == objects_.end()) return NoSuchObject(key);
  return Info(key, it->second);
}

Result<ListPage> MemoryStore::List(const Context& ctx, std::string_view prefix,
                                   std::optional<std::string> after) {
  PF_TRY(CheckKeyPrefix(prefix));
  PF_TRY(ctx.CheckStop("listing objects"));
  const std::lock_guard lock(mutex_);
  ListPage page;
  auto it = objects_.lower_bound(prefix);
  if (after.has_value() && *after >= prefix) it = objects_.upper_bound(*after);
  for (; it != objects_.end() && it->first.starts_with(prefix); ++it) {
    if (page.objects.size() == page_objects_max_) {
      page.next = page.objects.back().key;
      break;
    }
    page.objects.push_back(Info(it->first, it->second));
  }
  return page;
}

Status MemoryStore::Link(const Context& ctx, std::string_view from, std::string_view to) {
  PF_TRY(CheckObjectKey(from));
  PF_TRY(CheckObjectKey(to));
  PF_TRY(ctx.CheckStop("linking an object"));
  const std::lock_guard lock(mutex_);
  const auto it = objects_.find(from);
  if (it == objects_.end()) return NoSuchObject(from);
  if (from == to) return {};
  const Object copy{
      .bytes = it->second.bytes, .modified_ms = ctx.clock.NowMs(), .version = ++version_};
  objects_.insert_or_assign(std::string(to), copy);
  return {};
}

Status MemoryStore::Delete(const Context& ctx, std::span<const std::string> keys) {
  PF_TRY(ctx.CheckStop("deleting objects"));
  Status first;
  const std::lock_guard lock(mutex_);
  for (const std::string& key : keys) {
    if (Status status = CheckObjectKey(key); !status.ok()) {
      if (first.ok()) first = std::move(status);
      continue;
    }
    objects_.erase(key);
  }
  return first;
}

ObjectInfo MemoryStore::Store(const Context& ctx, std::string_view key,
                              std::shared_ptr<const std::string> bytes) {
  const std::lock_guard lock(mutex_);
  const Object object{
      .bytes = std::move(bytes), .modified_ms = ctx.clock.NowMs(), .version = ++version_};
  objects_.insert_or_assign(std::string(key), object);
  return Info(key, object);
}

ObjectInfo MemoryStore::Info(std::string_view key, const Object& object) {
  return ObjectInfo{.key = std::string(key),
                    .size_bytes = static_cast<int64_t>(object.bytes->size()),
                    .modified_ms = object.modified_ms,
                    .etag = fmt::format("\"{}\"", object.version)};
}

}  // namespace partforge::testing
