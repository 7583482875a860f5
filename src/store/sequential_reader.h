#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <vector>

#include "store/object_store.h"

namespace partforge {

// Reads a range of an object from front to back with several blocks on their way ahead of the
// reader. Each block is paid for from ctx.memory; when that is short the window shrinks, down to
// one block. One thread at a time. The source, and what the context of Open refers to, must outlive
// it.
class SequentialReader {
 public:
  struct Options {
    int64_t offset = 0;
    int64_t size_bytes = -1;  // -1 = to the end of the object
    int64_t block_bytes = int64_t{8} << 20;
    int blocks_in_flight = 4;
  };
  // Asks for the first blocks. kInvalidArgument when the range leaves the object.
  static Result<std::unique_ptr<SequentialReader>> Open(const Context& ctx, ByteSource& source,
                                                        const Options& options);
  // Use Open.
  SequentialReader(const Context& ctx, ByteSource& source, const Options& options);
  ~SequentialReader();

  // The next block, valid until the next call; empty at the end. After a failure every call fails.
  Result<std::span<const std::byte>> Next(const Context& ctx);

 private:
  struct Block;
  Status Fill(const Context& ctx);

  std::stop_source stop_;
  const Context ctx_;  // of the threads that read ahead
  ByteSource& source_;
  const Options options_;
  std::deque<std::unique_ptr<Block>> blocks_;  // oldest first
  std::unique_ptr<Block> current_;
  int64_t next_offset_ = 0;
  Status failed_;
};

}  // namespace partforge
