#include "testing/faulty_store.h"

#include <algorithm>
#include <utility>

namespace partforge::testing {
namespace {

constexpr size_t kPageObjectsMax = 1000;

Status Injected(std::string_view what, Code code = Code::kUnavailable) {
  return Status(code, "injected fault: " + std::string(what));
}

bool StopsBefore(const std::optional<StoreFault>& fault) {
  return fault.has_value() && *fault != StoreFault::kLostReply;
}

}  // namespace

class FaultyStore::Source final : public ByteSource {
 public:
  Source(FaultyStore& store, std::unique_ptr<ByteSource> inner)
      : store_(store), inner_(std::move(inner)) {}
  int64_t size_bytes() const override { return inner_->size_bytes(); }
  Status ReadAt(const Context& ctx, int64_t offset, std::span<std::byte> out) override {
    const std::optional<StoreFault> fault = store_.Meet();
    if (!fault.has_value()) return inner_->ReadAt(ctx, offset, out);
    if (*fault == StoreFault::kCut) PF_TRY(inner_->ReadAt(ctx, offset, out.first(out.size() / 2)));
    return Injected("read");
  }

 private:
  FaultyStore& store_;
  const std::unique_ptr<ByteSource> inner_;
};

class FaultyStore::Sink final : public ByteSink {
 public:
  Sink(FaultyStore& store, std::unique_ptr<ByteSink> inner)
      : store_(store), inner_(std::move(inner)) {}
  Status Append(const Context& ctx, std::span<const std::byte> bytes) override {
    if (store_.Meet().has_value()) return Injected("append");
    return inner_->Append(ctx, bytes);
  }
  Result<ObjectInfo> Close(const Context& ctx) override {
    const std::optional<StoreFault> fault = store_.Meet();
    if (StopsBefore(fault)) return Injected("close");
    Result<ObjectInfo> info = inner_->Close(ctx);
    if (info.ok() && fault.has_value())
      return Injected("reply to close lost", Code::kUnknownOutcome);
    return info;
  }

 private:
  FaultyStore& store_;
  const std::unique_ptr<ByteSink> inner_;
};

void FaultyStore::FailAt(int64_t nth, StoreFault fault) {
  const std::lock_guard lock(mutex_);
  fault_at_ = request_count_ + nth;
  fault_ = fault;
  has_fired_ = false;
}

Status FaultyStore::FreezeList(const Context& ctx) {
  PF_ASSIGN(std::vector<ObjectInfo> objects, ListAll(ctx, inner_, ""));
  const std::lock_guard lock(mutex_);
  frozen_objects_ = std::move(objects);
  return {};
}

void FaultyStore::Thaw() {
  const std::lock_guard lock(mutex_);
  frozen_objects_.reset();
}

int64_t FaultyStore::request_count() const {
  const std::lock_guard lock(mutex_);
  return request_count_;
}

bool FaultyStore::has_fired() const {
  const std::lock_guard lock(mutex_);
  return has_fired_;
}

std::optional<StoreFault> FaultyStore::Meet() {
  const std::lock_guard lock(mutex_);
  if (++request_count_ != fault_at_) return std::nullopt;
  has_fired_ = true;
  return fault_;
}

Result<std::unique_ptr<ByteSource>> FaultyStore::Open(const Context& ctx, std::string_view key) {
  if (Meet().has_value()) return Injected("open");
  PF_ASSIGN(std::unique_ptr<ByteSource> source, inner_.Open(ctx, key));
  return std::unique_ptr<ByteSource>(std::make_unique<Source>(*this, std::move(source)));
}

Result<std::unique_ptr<ByteSink>> FaultyStore::Create(const Context& ctx, std::string_view key,
                                                      int64_t size_hint_bytes) {
  if (Meet().has_value()) return Injected("create");
  PF_ASSIGN(std::unique_ptr<ByteSink> sink, inner_.Create(ctx, key, size_hint_bytes));
  return std::unique_ptr<ByteSink>(std::make_unique<Sink>(*this, std::move(sink)));
}

Result<PutOutcome> FaultyStore::PutIfAbsent(const Context& ctx, std::string_view key,
                                            std::span<const std::byte> bytes) {
  const std::optional<StoreFault> fault = Meet();
  if (StopsBefore(fault)) return Injected("put_if_absent");
  Result<PutOutcome> outcome = inner_.PutIfAbsent(ctx, key, bytes);
  if (outcome.ok() && fault.has_value()) {
    return Injected("reply to put_if_absent lost", Code::kUnknownOutcome);
  }
  return outcome;
}

Result<ObjectInfo> FaultyStore::Stat(const Context& ctx, std::string_view key) {
  if (Meet().has_value()) return Injected("stat");
  return inner_.Stat(ctx, key);
}

Result<ListPage> FaultyStore::List(const Context& ctx, std::string_view prefix,
                                   std::optional<std::string> after) {
  if (Meet().has_value()) return Injected("list");
  {
    const std::lock_guard lock(mutex_);
    if (frozen_objects_.has_value()) {
      ListPage page;
      for (const ObjectInfo& object : *frozen_objects_) {
        if (!object.key.starts_with(prefix) || (after.has_value() && object.key <= *after))
          continue;
        if (page.objects.size() == kPageObjectsMax) {
          page.next = page.objects.back().key;
          break;
        }
        page.objects.push_back(object);
      }
      return page;
    }
  }
  return inner_.List(ctx, prefix, std::move(after));
}

Status FaultyStore::Link(const Context& ctx, std::string_view from, std::string_view to) {
  const std::optional<StoreFault> fault = Meet();
  if (StopsBefore(fault)) return Injected("link");
  PF_TRY(inner_.Link(ctx, from, to));
  return fault.has_value() ? Injected("reply to link lost") : Status();
}

Status FaultyStore::Delete(const Context& ctx, std::span<const std::string> keys) {
  const std::optional<StoreFault> fault = Meet();
  if (fault.has_value() && *fault == StoreFault::kRefused) return Injected("delete");
  // Cut: the first half is gone, the rest is not.
  const bool is_cut = fault.has_value() && *fault == StoreFault::kCut;
  PF_TRY(inner_.Delete(ctx, is_cut ? keys.first(keys.size() / 2) : keys));
  return fault.has_value() ? Injected("reply to delete lost") : Status();
}

Result<int64_t> FaultyStore::SweepLeftovers(const Context& ctx, std::string_view prefix,
                                            int64_t age_ms_min) {
  return inner_.SweepLeftovers(ctx, prefix, age_ms_min);
}

}  // namespace partforge::testing
