#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "store/object_store.h"
#include "store/s3_client.h"
#include "store/s3_upload.h"

namespace partforge {

struct S3StoreOptions {
  S3ClientOptions client;
  int concurrency = 8;  // requests at once for one large object
  int64_t part_bytes = int64_t{16} << 20;
  int64_t part_bytes_min = int64_t{5} << 20;
  // CopyObject's limit (5 GiB); larger objects are copied in parts of `copy_part_bytes`.
  int64_t copy_bytes_max = int64_t{5} << 30;
  int64_t copy_part_bytes = int64_t{1} << 30;
  // Ask once whether the store honours If-None-Match, before relying on it. Amazon's does.
  bool probes_conditional_put = true;
};

// One bucket of S3 or of a store that speaks its protocol.
class S3Store final : public ObjectStore {
 public:
  explicit S3Store(S3StoreOptions options);

  StoreTraits traits() const override {
    return {.put_if_absent = true, .cheap_link = true, .strong_list = true};
  }
  std::string url() const override { return client_.url(); }
  Result<std::unique_ptr<ByteSource>> Open(const Context& ctx, std::string_view key) override;
  Result<std::unique_ptr<ByteSink>> Create(const Context& ctx, std::string_view key,
                                           int64_t size_hint_bytes) override;
  // kRefused (PF7011) when the store ignores If-None-Match: there, two writers would both win.
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
  // Whether the object at a key is the one a given write made.
  enum class Maker : uint8_t { kUs, kSomebodyElse, kNobody };

  Result<ObjectInfo> Head(const Context& ctx, std::string_view key);
  Result<Maker> WhoMade(const Context& ctx, std::string_view key, std::string_view token);
  Result<S3Reply> PutConditionally(const Context& ctx, std::string_view key,
                                   std::span<const std::byte> bytes, std::string_view token);
  Status ProbeConditionalPut(const Context& ctx);
  Status CopyWhole(const Context& ctx, const ObjectInfo& from, std::string_view to);
  Status CopyInParts(const Context& ctx, const ObjectInfo& from, std::string_view to);
  Status DeleteBatch(const Context& ctx, std::vector<std::string> keys);
  Status DeleteOne(const Context& ctx, const std::string& key);
  void AbortAbandoned(const Context& ctx);
  HttpHeaders CopySource(const ObjectInfo& from) const;

  const S3StoreOptions options_;
  S3Client client_;
  const std::shared_ptr<AbandonedUploads> abandoned_;
  std::mutex mutex_;
  bool has_probed_ = false;  // guarded by mutex_
};

}  // namespace partforge
