#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "store/object_store.h"

namespace partforge::testing {

// Objects in this process. Keeps every promise of ObjectStore and nothing on disk.
class MemoryStore final : public ObjectStore {
 public:
  explicit MemoryStore(size_t page_objects_max = 1000) : page_objects_max_(page_objects_max) {}

  StoreTraits traits() const override {
    return {.put_if_absent = true, .cheap_link = true, .strong_list = true};
  }
  std::string url() const override { return "memory://store"; }
  Result<std::unique_ptr<ByteSource>> Open(const Context& ctx, std::string_view key) override;
  Result<std::unique_ptr<ByteSink>> Create(const Context& ctx, std::string_view key,
                                           int64_t size_hint_bytes) override;
  Result<PutOutcome> PutIfAbsent(const Context& ctx, std::string_view key,
                                 std::span<const std::byte> bytes) override;
  Result<ObjectInfo> Stat(const Context& ctx, std::string_view key) override;
  Result<ListPage> List(const Context& ctx, std::string_view prefix,
                        std::optional<std::string> after) override;
  Status Link(const Context& ctx, std::string_view from, std::string_view to) override;
  Status Delete(const Context& ctx, std::span<const std::string> keys) override;

 private:
  class Source;
  class Sink;
  struct Object {
    std::shared_ptr<const std::string> bytes;
    int64_t modified_ms = 0;
    int64_t version = 0;
  };

  ObjectInfo Store(const Context& ctx, std::string_view key,
                   std::shared_ptr<const std::string> bytes);
  static ObjectInfo Info(std::string_view key, const Object& object);

  const size_t page_objects_max_;
  std::mutex mutex_;
  std::map<std::string, Object, std::less<>> objects_;  // guarded by mutex_
  int64_t version_ = 0;                                 // guarded by mutex_
};

}  // namespace partforge::testing
