#pragma once

#include <span>

#include "store/object_store.h"

namespace partforge::data {

// An object that somebody else owns, for readers that take theirs over. The owner outlives it.
class BorrowedSource final : public ByteSource {
 public:
  explicit BorrowedSource(ByteSource& source) : source_(source) {}
  int64_t size_bytes() const override { return source_.size_bytes(); }
  Status ReadAt(const Context& ctx, int64_t offset, std::span<std::byte> out) override {
    return source_.ReadAt(ctx, offset, out);
  }

 private:
  ByteSource& source_;
};

}  // namespace partforge::data
