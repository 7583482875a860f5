#include "data/memory_bytes.h"

#include <fmt/format.h>

#include <algorithm>

namespace partforge::data {

Status MemorySource::ReadAt(const Context& /*ctx*/, int64_t offset, std::span<std::byte> out) {
  if (offset < 0 || static_cast<uint64_t>(offset) > bytes_.size() ||
      out.size() > bytes_.size() - static_cast<size_t>(offset)) {
    return Status(Code::kCorruption, fmt::format("read {} bytes at {}: the object has {}",
                                                 out.size(), offset, bytes_.size()));
  }
  std::ranges::copy(bytes_.subspan(static_cast<size_t>(offset), out.size()), out.begin());
  return {};
}

Status MemorySink::Append(const Context& /*ctx*/, std::span<const std::byte> bytes) {
  bytes_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return {};
}

Result<ObjectInfo> MemorySink::Close(const Context& /*ctx*/) {
  ObjectInfo info;
  info.size_bytes = static_cast<int64_t>(bytes_.size());
  return info;
}

}  // namespace partforge::data
