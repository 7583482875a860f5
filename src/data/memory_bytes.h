#pragma once

#include <memory>
#include <span>
#include <string>

#include "store/object_store.h"

namespace partforge::data {

// Bytes of one object that are in memory already, read through the interface of objects in a store.
// Immutable; does not own the bytes, which must outlive it.
class MemorySource final : public ByteSource {
 public:
  explicit MemorySource(std::span<const std::byte> bytes) : bytes_(bytes) {}
  int64_t size_bytes() const override { return static_cast<int64_t>(bytes_.size()); }
  Status ReadAt(const Context& ctx, int64_t offset, std::span<std::byte> out) override;

 private:
  const std::span<const std::byte> bytes_;
};

// Collects what a writer appends into a string of the caller, e.g. for a PutIfAbsent of the whole
// object. One thread at a time.
class MemorySink final : public ByteSink {
 public:
  explicit MemorySink(std::string& bytes) : bytes_(bytes) {}
  Status Append(const Context& ctx, std::span<const std::byte> bytes) override;
  Result<ObjectInfo> Close(const Context& ctx) override;

 private:
  std::string& bytes_;
};

}  // namespace partforge::data
