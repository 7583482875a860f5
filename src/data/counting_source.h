#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>

#include "store/object_store.h"

namespace partforge::data::testing {

// Counts what is asked of an object, for tests. Thread-safe.
class CountingSource final : public ByteSource {
 public:
  struct Counts {
    std::atomic<int64_t> requests = 0, bytes = 0;
  };
  // `counts` must outlive it.
  CountingSource(std::unique_ptr<ByteSource> source, Counts& counts)
      : source_(std::move(source)), counts_(counts) {}
  int64_t size_bytes() const override { return source_->size_bytes(); }
  Status ReadAt(const Context& ctx, int64_t offset, std::span<std::byte> out) override {
    ++counts_.requests;
    counts_.bytes += static_cast<int64_t>(out.size());
    return source_->ReadAt(ctx, offset, out);
  }

 private:
  const std::unique_ptr<ByteSource> source_;
  Counts& counts_;
};

}  // namespace partforge::data::testing
