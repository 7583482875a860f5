#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "store/object_store.h"

namespace partforge::testing {

enum class StoreFault : uint8_t {
  kRefused,    // nothing happens; kUnavailable
  kLostReply,  // the effect happens, the caller hears kUnavailable (PutIfAbsent and Close:
               // kUnknownOutcome)
  kCut,  // half of a read or of a Delete happens, then kUnavailable; anything else as kRefused
};

// Any store, with a fault at the n-th request. Requests are counted over the store and all its
// sources and sinks: Open, ReadAt, Create, Append, Close, PutIfAbsent, Stat, List, Link, Delete.
// Thread-safe.
class FaultyStore final : public ObjectStore {
 public:
  explicit FaultyStore(ObjectStore& inner) : inner_(inner) {}

  // The n-th request from now (from 1) meets the fault; one at a time.
  void FailAt(int64_t nth, StoreFault fault);
  // From now until Thaw every List shows what List shows now: a store whose listing lags.
  Status FreezeList(const Context& ctx);
  void Thaw();
  int64_t request_count() const;
  bool has_fired() const;

  StoreTraits traits() const override { return inner_.traits(); }
  std::string url() const override { return inner_.url(); }
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
  Result<int64_t> SweepLeftovers(const Context& ctx, std::string_view prefix,
                                 int64_t age_ms_min) override;

 private:
  class Source;
  class Sink;
  // Counts a request; the fault that it meets, if any.
  std::optional<StoreFault> Meet();

  ObjectStore& inner_;
  mutable std::mutex mutex_;
  int64_t request_count_ = 0;                              // guarded by mutex_
  int64_t fault_at_ = -1;                                  // guarded by mutex_
  StoreFault fault_ = StoreFault::kRefused;                // guarded by mutex_
  bool has_fired_ = false;                                 // guarded by mutex_
  std::optional<std::vector<ObjectInfo>> frozen_objects_;  // guarded by mutex_
};

}  // namespace partforge::testing
