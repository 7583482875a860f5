#pragma once

#include <arrow/io/interfaces.h>
#include <arrow/result.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "data/arrow_edge.h"
#include "store/object_store.h"

namespace arrow {
class Buffer;
}  // namespace arrow

namespace partforge::data {

// What an encoder of Arrow writes, kept in memory in blocks and then read like an object: nothing
// that is there is moved when more comes, so that no byte is held twice. One thread at a time.
class BlockStream final : public arrow::io::OutputStream, public ByteSource {
 public:
  // `memory` must outlive the stream.
  explicit BlockStream(ArrowMemory& memory) : memory_(memory) {}

  arrow::Status Close() override;
  bool closed() const override { return is_closed_; }
  arrow::Result<int64_t> Tell() const override { return size_bytes_; }
  using OutputStream::Write;
  arrow::Status Write(const void* data, int64_t nbytes) override;

  int64_t size_bytes() const override { return size_bytes_; }
  Status ReadAt(const Context& ctx, int64_t offset, std::span<std::byte> out) override;
  // ReadAt without a context, which memory does not need.
  Status CopyOut(int64_t offset, std::span<std::byte> out) const;

 private:
  static constexpr int64_t kBlockBytes = int64_t{64} << 10;
  ArrowMemory& memory_;
  std::vector<std::shared_ptr<arrow::Buffer>> blocks_;  // of kBlockBytes each, the last in part
  int64_t size_bytes_ = 0;
  bool is_closed_ = false;
};

}  // namespace partforge::data
