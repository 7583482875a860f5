#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/context.h"
#include "data/file_range.h"
#include "store/object_store.h"

namespace partforge::data {

// A byte source whose streams are read a piece at a time by somebody who goes over all of them at
// once, in small requests each: of every stream more is read than was asked for, and kept until it
// is used up. One thread at a time.
class StreamWindows final : public ByteSource {
 public:
  // The source must outlive this.
  explicit StreamWindows(ByteSource& source) : source_(source) {}

  // From now on requests within one of these ranges, which are disjoint, are served so. The windows
  // together take at most `bytes_max`, and are taken from ctx.memory; without it, or with less than
  // kBytesMin each, every request goes through as it is.
  void Watch(const Context& ctx, std::vector<FileRange> streams, int64_t bytes_max);

  int64_t size_bytes() const override { return source_.size_bytes(); }
  Status ReadAt(const Context& ctx, int64_t offset, std::span<std::byte> out) override;

 private:
  static constexpr int64_t kBytesMin = int64_t{256} << 10;
  static constexpr int64_t kBytesMax = int64_t{8} << 20;
  struct Stream {
    FileRange range;
    int64_t begin = 0;  // of the window in the file
    std::string window = {};
  };
  ByteSource& source_;
  std::vector<Stream> streams_;  // ascending
  int64_t window_bytes_ = 0;
  MemoryGrant grant_;
};

}  // namespace partforge::data
