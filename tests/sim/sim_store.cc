#include "sim_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace partforge::sim {
namespace {

constexpr size_t kPageObjects = 3;  // small, so that a listing is several calls

class SimSource final : public ByteSource {
 public:
  explicit SimSource(std::string bytes) : bytes_(std::move(bytes)) {}
  int64_t size_bytes() const override { return std::ssize(bytes_); }
  Status ReadAt(const Context&, int64_t offset, std::span<std::byte> out) override {
    if (offset + std::ssize(out) > std::ssize(bytes_)) {
      return Status(Code::kCorruption, "read beyond the end of an object");
    }
    std::memcpy(out.data(), bytes_.data() + offset, out.size());
    return {};
  }

 private:
  const std::string bytes_;
};

ObjectInfo InfoOf(const std::string& key, const std::string& bytes) {
  return ObjectInfo{.key = key, .size_bytes = std::ssize(bytes), .modified_ms = 0, .etag = {}};
}

std::string TextOf(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

class SimSink final : public ByteSink {
 public:
  SimSink(SimStore& store, std::string key) : store_(store), key_(std::move(key)) {}
  Status Append(const Context&, std::span<const std::byte> bytes) override {
    bytes_ += TextOf(bytes);
    return {};
  }
  Result<ObjectInfo> Close(const Context&) override {
    PF_TRY(store_.Enter("store.close", key_));
    store_.objects_[key_] = bytes_;
    if (store_.baton_.DrawLostReply("store.close")) return Status(Code::kUnavailable, "reply lost");
    return InfoOf(key_, bytes_);
  }

 private:
  SimStore& store_;
  const std::string key_;
  std::string bytes_;
};

Status SimStore::Enter(std::string_view what, std::string_view key) {
  baton_.Yield(fmt::format("{} {}", what, key));
  if (baton_.DrawFailure(what))
    return Status(Code::kUnavailable, fmt::format("simulated failure of {}", what));
  return {};
}

Result<std::unique_ptr<ByteSource>> SimStore::Open(const Context&, std::string_view key) {
  PF_TRY(Enter("store.open", key));
  const auto it = objects_.find(std::string(key));
  if (it == objects_.end()) return Status(Code::kNotFound, fmt::format("no such object: {}", key));
  return std::unique_ptr<ByteSource>(std::make_unique<SimSource>(it->second));
}

Result<std::unique_ptr<ByteSink>> SimStore::Create(const Context&, std::string_view key, int64_t) {
  return std::unique_ptr<ByteSink>(std::make_unique<SimSink>(*this, std::string(key)));
}

Result<PutOutcome> SimStore::PutIfAbsent(const Context&, std::string_view key,
                                         std::span<const std::byte> bytes) {
  PF_TRY(Enter("store.put_if_absent", key));
  const bool is_created = objects_.try_emplace(std::string(key), TextOf(bytes)).second;
  if (baton_.DrawLostReply("store.put_if_absent")) {
    return Status(Code::kUnknownOutcome, fmt::format("reply lost: {}", key));
  }
  return is_created ? PutOutcome::kCreated : PutOutcome::kAlreadyThere;
}

Result<ObjectInfo> SimStore::Stat(const Context&, std::string_view key) {
  PF_TRY(Enter("store.stat", key));
  const auto it = objects_.find(std::string(key));
  if (it == objects_.end()) return Status(Code::kNotFound, fmt::format("no such object: {}", key));
  return InfoOf(it->first, it->second);
}

Result<ListPage> SimStore::List(const Context&, std::string_view prefix,
                                std::optional<std::string> after) {
  PF_TRY(Enter("store.list", prefix));
  ListPage page;
  for (const auto& [key, bytes] : objects_) {
    if (!key.starts_with(prefix) || (after.has_value() && key <= *after)) continue;
    if (page.objects.size() == kPageObjects) {
      page.next = page.objects.back().key;
      break;
    }
    page.objects.push_back(InfoOf(key, bytes));
  }
  return page;
}

Status SimStore::Link(const Context&, std::string_view from, std::string_view to) {
  PF_TRY(Enter("store.link", to));
  const auto it = objects_.find(std::string(from));
  if (it == objects_.end()) return Status(Code::kNotFound, fmt::format("no such object: {}", from));
  objects_[std::string(to)] = it->second;
  return {};
}

Status SimStore::Delete(const Context&, std::span<const std::string> keys) {
  for (const std::string& key : keys) {
    PF_TRY(Enter("store.delete", key));
    objects_.erase(key);
  }
  return {};
}

}  // namespace partforge::sim
