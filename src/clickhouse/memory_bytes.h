#pragma once

// Only for this room's tests: an object in memory.

#include <cstring>
#include <string>

#include "base/hash.h"
#include "store/object_store.h"

namespace partforge::clickhouse {

class StringSource final : public ByteSource {
 public:
  explicit StringSource(std::string bytes) : bytes_(std::move(bytes)) {}
  int64_t size_bytes() const override { return static_cast<int64_t>(bytes_.size()); }
  Status ReadAt(const Context&, int64_t offset, std::span<std::byte> out) override {
    if (offset < 0 || offset + static_cast<int64_t>(out.size()) > size_bytes()) {
      return Status(Code::kCorruption, "object is shorter");
    }
    std::memcpy(out.data(), bytes_.data() + offset, out.size());
    return {};
  }

 private:
  const std::string bytes_;
};

class StringSink final : public ByteSink {
 public:
  Status Append(const Context&, std::span<const std::byte> bytes) override {
    bytes_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return {};
  }
  Result<ObjectInfo> Close(const Context&) override { return ObjectInfo{}; }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

}  // namespace partforge::clickhouse
