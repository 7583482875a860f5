#include "data/block_stream.h"

#include <arrow/buffer.h>
#include <arrow/memory_pool.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace partforge::data {

arrow::Status BlockStream::Close() {
  is_closed_ = true;
  return arrow::Status::OK();
}

arrow::Status BlockStream::Write(const void* data, int64_t nbytes) {
  const auto* from = static_cast<const uint8_t*>(data);
  while (nbytes > 0) {
    const int64_t used = size_bytes_ % kBlockBytes;
    if (used == 0) {
      ARROW_ASSIGN_OR_RAISE(std::shared_ptr<arrow::Buffer> block,
                            arrow::AllocateBuffer(kBlockBytes, memory_.pool()));
      blocks_.push_back(std::move(block));
    }
    const int64_t count = std::min(nbytes, kBlockBytes - used);
    std::memcpy(blocks_.back()->mutable_data() + used, from, static_cast<size_t>(count));
    from += count;
    nbytes -= count;
    size_bytes_ += count;
  }
  return arrow::Status::OK();
}

Status BlockStream::ReadAt(const Context&, int64_t offset, std::span<std::byte> out) {
  return CopyOut(offset, out);
}

Status BlockStream::CopyOut(int64_t offset, std::span<std::byte> out) const {
  if (offset < 0 || offset > size_bytes_ ||
      static_cast<int64_t>(out.size()) > size_bytes_ - offset) {
    return Status(Code::kCorruption, fmt::format("read encoded rows: {} bytes at {} of {}",
                                                 out.size(), offset, size_bytes_));
  }
  while (!out.empty()) {
    const int64_t at = offset % kBlockBytes;
    const auto count = std::min(out.size(), static_cast<size_t>(kBlockBytes - at));
    std::memcpy(out.data(), blocks_[static_cast<size_t>(offset / kBlockBytes)]->data() + at, count);
    out = out.subspan(count);
    offset += static_cast<int64_t>(count);
  }
  return {};
}

}  // namespace partforge::data
