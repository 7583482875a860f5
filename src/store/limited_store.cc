#include "store/limited_store.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace partforge {
namespace {

// Large transfers are let through piece by piece, so that two of them share the rate evenly.
constexpr size_t kPieceBytes = size_t{1} << 20;

class LimitedSource final : public ByteSource {
 public:
  LimitedSource(std::unique_ptr<ByteSource> source, RateLimit& limit)
      : source_(std::move(source)), limit_(limit) {}
  int64_t size_bytes() const override { return source_->size_bytes(); }
  // One request stays one: its bytes are paid for before it is sent.
  Status ReadAt(const Context& ctx, int64_t offset, std::span<std::byte> out) override {
    for (size_t left = out.size(); left > 0; left -= std::min(left, kPieceBytes)) {
      PF_TRY(limit_.Take(ctx, static_cast<int64_t>(std::min(left, kPieceBytes))));
    }
    return source_->ReadAt(ctx, offset, out);
  }

 private:
  const std::unique_ptr<ByteSource> source_;
  RateLimit& limit_;
};

class LimitedSink final : public ByteSink {
 public:
  LimitedSink(std::unique_ptr<ByteSink> sink, RateLimit& limit)
      : sink_(std::move(sink)), limit_(limit) {}
  Status Append(const Context& ctx, std::span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      const auto piece = bytes.first(std::min(bytes.size(), kPieceBytes));
      PF_TRY(limit_.Take(ctx, static_cast<int64_t>(piece.size())));
      PF_TRY(sink_->Append(ctx, piece));
      bytes = bytes.subspan(piece.size());
    }
    return {};
  }
  Result<ObjectInfo> Close(const Context& ctx) override { return sink_->Close(ctx); }

 private:
  const std::unique_ptr<ByteSink> sink_;
  RateLimit& limit_;
};

class LimitedStore final : public ObjectStore {
 public:
  LimitedStore(std::unique_ptr<ObjectStore> store, RateLimit* download, RateLimit* upload)
      : store_(std::move(store)), download_(download), upload_(upload) {}

  StoreTraits traits() const override { return store_->traits(); }
  std::string url() const override { return store_->url(); }
  Result<std::unique_ptr<ByteSource>> Open(const Context& ctx, std::string_view key) override {
    PF_ASSIGN(auto source, store_->Open(ctx, key));
    if (download_ == nullptr) return source;
    return std::unique_ptr<ByteSource>(
        std::make_unique<LimitedSource>(std::move(source), *download_));
  }
  Result<std::unique_ptr<ByteSink>> Create(const Context& ctx, std::string_view key,
                                           int64_t size_hint_bytes) override {
    PF_ASSIGN(auto sink, store_->Create(ctx, key, size_hint_bytes));
    if (upload_ == nullptr) return sink;
    return std::unique_ptr<ByteSink>(std::make_unique<LimitedSink>(std::move(sink), *upload_));
  }
  Result<PutOutcome> PutIfAbsent(const Context& ctx, std::string_view key,
                                 std::span<const std::byte> bytes) override {
    if (upload_ != nullptr) PF_TRY(upload_->Take(ctx, static_cast<int64_t>(bytes.size())));
    return store_->PutIfAbsent(ctx, key, bytes);
  }
  Result<ObjectInfo> Stat(const Context& ctx, std::string_view key) override {
    return store_->Stat(ctx, key);
  }
  Result<ListPage> List(const Context& ctx, std::string_view prefix,
                        std::optional<std::string> after) override {
    return store_->List(ctx, prefix, std::move(after));
  }
  Status Link(const Context& ctx, std::string_view from, std::string_view to) override {
    return store_->Link(ctx, from, to);
  }
  Status Delete(const Context& ctx, std::span<const std::string> keys) override {
    return store_->Delete(ctx, keys);
  }
  Result<int64_t> SweepLeftovers(const Context& ctx, std::string_view prefix,
                                 int64_t age_ms_min) override {
    return store_->SweepLeftovers(ctx, prefix, age_ms_min);
  }

 private:
  const std::unique_ptr<ObjectStore> store_;
  RateLimit* const download_;
  RateLimit* const upload_;
};

}  // namespace

Status RateLimit::Take(const Context& ctx, int64_t bytes) {
  double wait_ms = 0;
  {
    const std::lock_guard lock(mutex_);
    const auto now_ms = static_cast<double>(ctx.clock.NowMs());
    const double starts_at_ms = std::max(now_ms, free_at_ms_);
    free_at_ms_ =
        starts_at_ms + static_cast<double>(bytes) * 1000 / static_cast<double>(bytes_per_s_);
    wait_ms = starts_at_ms - now_ms;
  }
  if (wait_ms >= 1) ctx.clock.SleepMs(static_cast<int64_t>(std::ceil(wait_ms)), ctx.stop);
  return ctx.CheckStop("waiting for the rate of transfers");
}

std::unique_ptr<ObjectStore> LimitRates(std::unique_ptr<ObjectStore> store, RateLimit* download,
                                        RateLimit* upload) {
  if (download == nullptr && upload == nullptr) return store;
  return std::make_unique<LimitedStore>(std::move(store), download, upload);
}

}  // namespace partforge
