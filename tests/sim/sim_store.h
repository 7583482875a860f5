#pragma once

#include <map>
#include <memory>
#include <string>

#include "baton.h"
#include "store/object_store.h"

namespace partforge::sim {

// Object storage in memory. Each call hands the baton back first, and may fail, or lose its reply.
class SimStore final : public ObjectStore {
 public:
  explicit SimStore(Baton& baton) : baton_(baton) {}

  StoreTraits traits() const override {
    return {.put_if_absent = true, .cheap_link = true, .strong_list = true};
  }
  std::string url() const override { return "sim://"; }
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

  // What is there, without a hand-back: for checkers and for setting up.
  std::map<std::string, std::string>& objects() { return objects_; }

 private:
  friend class SimSink;
  Status Enter(std::string_view what, std::string_view key);

  Baton& baton_;
  std::map<std::string, std::string> objects_;
};

}  // namespace partforge::sim
