#include "data/stream_windows.h"

#include <algorithm>
#include <cstring>

namespace partforge::data {

void StreamWindows::Watch(const Context& ctx, std::vector<FileRange> streams, int64_t bytes_max) {
  streams_.clear();
  grant_.Release();
  std::erase_if(streams, [](const FileRange& range) { return range.length <= 0; });
  if (streams.empty()) return;
  const auto count = static_cast<int64_t>(streams.size());
  window_bytes_ = std::min(bytes_max / count, kBytesMax);
  if (window_bytes_ < kBytesMin) return;
  int64_t bytes = 0;
  for (const FileRange& range : streams) bytes += std::min(range.length, window_bytes_);
  auto grant = ctx.memory.TryReserve(bytes);
  if (!grant.ok()) return;
  grant_ = std::move(grant).value();
  std::sort(streams.begin(), streams.end(),
            [](const FileRange& a, const FileRange& b) { return a.offset < b.offset; });
  for (const FileRange& range : streams) streams_.push_back({.range = range});
}

Status StreamWindows::ReadAt(const Context& ctx, int64_t offset, std::span<std::byte> out) {
  const auto after =
      std::upper_bound(streams_.begin(), streams_.end(), offset,
                       [](int64_t at, const Stream& stream) { return at < stream.range.offset; });
  const auto length = static_cast<int64_t>(out.size());
  if (after == streams_.begin()) return source_.ReadAt(ctx, offset, out);
  Stream& stream = *std::prev(after);
  // What goes beyond a stream, or is as long as a window, gains nothing.
  if (length > stream.range.end() - offset || length >= window_bytes_) {
    return source_.ReadAt(ctx, offset, out);
  }
  const int64_t window_end = stream.begin + static_cast<int64_t>(stream.window.size());
  if (offset < stream.begin || offset + length > window_end) {
    stream.window.resize(static_cast<size_t>(std::min(window_bytes_, stream.range.end() - offset)));
    stream.begin = offset;
    Status status = source_.ReadAt(ctx, offset, std::as_writable_bytes(std::span(stream.window)));
    if (!status.ok()) {
      stream.window.clear();
      return status;
    }
  }
  std::memcpy(out.data(), stream.window.data() + (offset - stream.begin), out.size());
  return {};
}

}  // namespace partforge::data
