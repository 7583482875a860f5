#include "store/sequential_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <thread>
#include <utility>

namespace partforge {

struct SequentialReader::Block {
  std::vector<std::byte> bytes;
  MemoryGrant grant;
  Status status;  // valid once the thread has ended
  std::jthread thread;
};

Result<std::unique_ptr<SequentialReader>> SequentialReader::Open(const Context& ctx,
                                                                 ByteSource& source,
                                                                 const Options& options) {
  Options whole = options;
  if (whole.size_bytes < 0) whole.size_bytes = source.size_bytes() - whole.offset;
  if (whole.offset < 0 || whole.offset > source.size_bytes() || whole.size_bytes < 0 ||
      whole.size_bytes > source.size_bytes() - whole.offset || whole.block_bytes < 1 ||
      whole.blocks_in_flight < 1) {
    return Status(Code::kInvalidArgument,
                  fmt::format("cannot read {} bytes at {} of an object of {} bytes",
                              whole.size_bytes, whole.offset, source.size_bytes()));
  }
  whole.block_bytes = std::clamp<int64_t>(ctx.memory.limit_bytes() / 4, 1, whole.block_bytes);
  auto reader = std::make_unique<SequentialReader>(ctx, source, whole);
  PF_TRY(reader->Fill(ctx));
  return reader;
}

SequentialReader::SequentialReader(const Context& ctx, ByteSource& source, const Options& options)
    : ctx_{ctx.clock, ctx.random, ctx.faults, ctx.log, ctx.metrics, ctx.memory, stop_.get_token()},
      source_(source),
      options_(options),
      next_offset_(options.offset) {}

SequentialReader::~SequentialReader() {
  stop_.request_stop();
  blocks_.clear();  // joins
}

Result<std::span<const std::byte>> SequentialReader::Next(const Context& ctx) {
  PF_TRY(failed_);
  current_.reset();  // its memory pays for the next one
  PF_TRY(Fill(ctx));
  if (blocks_.empty()) return std::span<const std::byte>();
  {
    const std::stop_callback pass_on(ctx.stop, [this] { stop_.request_stop(); });
    if (blocks_.front()->thread.joinable()) blocks_.front()->thread.join();
  }
  current_ = std::move(blocks_.front());
  blocks_.pop_front();
  if (!current_->status.ok()) {
    failed_ = current_->status;
    stop_.request_stop();
    return failed_;
  }
  return std::span<const std::byte>(current_->bytes);
}

// Starts blocks while the window has room. Waits for memory only when nothing else is on its way.
Status SequentialReader::Fill(const Context& ctx) {
  const int64_t end = options_.offset + options_.size_bytes;
  while (next_offset_ < end && static_cast<int>(blocks_.size()) < options_.blocks_in_flight) {
    const int64_t size_bytes = std::min(options_.block_bytes, end - next_offset_);
    Result<MemoryGrant> grant = blocks_.empty() ? ctx.memory.Reserve(size_bytes, ctx.stop)
                                                : ctx.memory.TryReserve(size_bytes);
    if (!grant.ok()) return blocks_.empty() ? std::move(grant).status() : Status();
    blocks_.push_back(std::make_unique<Block>());
    Block& block = *blocks_.back();
    block.grant = std::move(grant).value();
    block.bytes.resize(static_cast<size_t>(size_bytes));
    const bool is_only = size_bytes == options_.size_bytes;
    if (is_only) {  // nothing could be read ahead: a thread would cost more than a small object
      next_offset_ += size_bytes;
      block.status = source_.ReadAt(ctx, options_.offset, block.bytes);
      return {};
    }
    block.thread = std::jthread([this, &block, offset = next_offset_] {
      try {
        block.status = source_.ReadAt(ctx_, offset, block.bytes);
      } catch (const std::exception& e) {
        block.status =
            Status(Code::kExhausted, fmt::format("read ahead at {}: {}", offset, e.what()));
      }
    });
    next_offset_ += size_bytes;
  }
  return {};
}

}  // namespace partforge
