#include "data/read_ahead.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <optional>
#include <thread>

#include "base/parallel_for.h"

namespace partforge::data {

std::vector<FileRange> CoalesceRanges(std::vector<FileRange> ranges,
                                      const ReadAheadOptions& options) {
  std::erase_if(ranges, [](const FileRange& range) { return range.length <= 0; });
  std::sort(ranges.begin(), ranges.end(),
            [](const FileRange& a, const FileRange& b) { return a.offset < b.offset; });
  std::vector<FileRange> joined;
  for (const FileRange& range : ranges) {
    if (!joined.empty()) {
      FileRange& last = joined.back();
      const int64_t end = std::max(last.end(), range.end());
      const bool overlaps = range.offset < last.end();
      const bool near = range.offset - last.end() <= options.hole_bytes_max &&
                        end - last.offset <= options.request_bytes_max;
      if (overlaps || near) {
        last.length = end - last.offset;
        continue;
      }
    }
    joined.push_back(range);
  }
  std::vector<FileRange> requests;
  for (const FileRange& range : joined) {
    for (int64_t done = 0; done < range.length; done += options.request_bytes_max) {
      requests.push_back({.offset = range.offset + done,
                          .length = std::min(options.request_bytes_max, range.length - done)});
    }
  }
  return requests;
}

// The object, counting requests.
class ReadAheadSource::Object {
 public:
  explicit Object(std::unique_ptr<ByteSource> source) : source_(std::move(source)) {}
  int64_t size_bytes() const { return source_->size_bytes(); }
  Status ReadAt(const Context& ctx, int64_t offset, std::span<std::byte> out) {
    requests_.fetch_add(1, std::memory_order_relaxed);
    return source_->ReadAt(ctx, offset, out);
  }
  int64_t requests() const { return requests_.load(std::memory_order_relaxed); }

 private:
  const std::unique_ptr<ByteSource> source_;
  std::atomic<int64_t> requests_ = 0;
};

// The requests of one Fetch. Thread-safe.
class ReadAheadSource::Batch {
 public:
  Batch(const Context& ctx, Object& object, std::vector<FileRange> ranges, MemoryGrant grant,
        int threads)
      : object_(object), ranges_(std::move(ranges)), grant_(std::move(grant)) {
    blocks_.resize(ranges_.size());
    thread_ = std::jthread([this, own = ctx, threads](std::stop_token stop) mutable {
      own.stop = stop;
      const Status status = ParallelFor(own, static_cast<int64_t>(ranges_.size()), threads,
                                        [this](const Context& c, int64_t i) { return Read(c, i); });
      // Who needs the bytes asks the object again. Being stopped is no failure.
      if (!stop.stop_requested()) Ignore(own, status, "bytes were to be read ahead");
      const std::lock_guard lock(mutex_);
      is_over_ = true;
      finished_.notify_all();
    });
  }

  int64_t bytes() const { return grant_.size_bytes(); }
  int64_t end() const { return ranges_.empty() ? 0 : ranges_.back().end(); }

  // Index of the range that holds the offset.
  std::optional<size_t> Find(int64_t offset) const {
    const auto after =
        std::upper_bound(ranges_.begin(), ranges_.end(), offset,
                         [](int64_t at, const FileRange& range) { return at < range.offset; });
    if (after == ranges_.begin()) return std::nullopt;
    const auto index = static_cast<size_t>(after - ranges_.begin()) - 1;
    if (offset >= ranges_[index].end()) return std::nullopt;
    return index;
  }
  const FileRange& range(size_t index) const { return ranges_[index]; }

  // The bytes of a range, or null when they could not be fetched. Waits.
  const std::byte* Wait(size_t index) {
    std::unique_lock lock(mutex_);
    finished_.wait(lock, [&] { return is_over_ || blocks_[index] != nullptr; });
    return blocks_[index].get();
  }

 private:
  Status Read(const Context& ctx, int64_t index) {
    const auto i = static_cast<size_t>(index);
    const auto length = static_cast<size_t>(ranges_[i].length);
    // Not cleared: that would touch every page of it once more.
    auto bytes = std::make_unique_for_overwrite<std::byte[]>(length);
    PF_TRY(object_.ReadAt(ctx, ranges_[i].offset, {bytes.get(), length}));
    const std::lock_guard lock(mutex_);
    blocks_[i] = std::move(bytes);
    finished_.notify_all();
    return {};
  }

  Object& object_;
  const std::vector<FileRange> ranges_;
  const MemoryGrant grant_;
  std::mutex mutex_;
  std::condition_variable finished_;
  // By range; guarded by mutex_. One that is there does not change.
  std::vector<std::unique_ptr<std::byte[]>> blocks_;
  bool is_over_ = false;  // guarded by mutex_
  std::jthread thread_;   // last: it uses what stands above
};

ReadAheadSource::ReadAheadSource(std::unique_ptr<ByteSource> object, ReadAheadOptions options)
    : object_(std::make_unique<Object>(std::move(object))), options_(options) {}
ReadAheadSource::~ReadAheadSource() = default;

int64_t ReadAheadSource::size_bytes() const {
  return object_->size_bytes();
}

int64_t ReadAheadSource::request_count() const {
  return object_->requests();
}

bool ReadAheadSource::Fetch(const Context& ctx, const std::vector<FileRange>& ranges) {
  std::vector<FileRange> requests = CoalesceRanges(ranges, options_);
  int64_t bytes = 0;
  for (const FileRange& request : requests) bytes += request.length;
  if (bytes == 0) return true;
  int64_t held = bytes;
  for (const auto& batch : batches_) held += batch->bytes();
  if (held > options_.held_bytes_max) return false;
  auto grant = ctx.memory.TryReserve(bytes);
  if (!grant.ok()) return false;
  batches_.push_back(std::make_unique<Batch>(ctx, *object_, std::move(requests),
                                             std::move(grant).value(), options_.threads));
  return true;
}

void ReadAheadSource::DropBefore(int64_t offset) {
  std::erase_if(batches_, [&](const auto& batch) { return batch->end() <= offset; });
}

std::optional<std::span<const std::byte>> ReadAheadSource::View(FileRange range) const {
  if (range.length < 0) return std::nullopt;
  for (const auto& batch : batches_) {
    const auto index = batch->Find(range.offset);
    if (!index || batch->range(*index).end() - range.offset < range.length) continue;
    const std::byte* const bytes = batch->Wait(*index);
    if (bytes == nullptr) continue;
    return std::span(bytes + (range.offset - batch->range(*index).offset),
                     static_cast<size_t>(range.length));
  }
  return std::nullopt;
}

Status ReadAheadSource::ReadAt(const Context& ctx, int64_t offset, std::span<std::byte> out) {
  while (!out.empty()) {
    const std::byte* bytes = nullptr;
    FileRange range;
    for (const auto& batch : batches_) {
      const auto index = batch->Find(offset);
      if (!index) continue;
      range = batch->range(*index);
      bytes = batch->Wait(*index);
      if (bytes != nullptr) break;
    }
    // Read-ahead covers whole column chunks: what begins outside of it lies outside of it.
    if (bytes == nullptr) return object_->ReadAt(ctx, offset, out);
    const auto from = static_cast<size_t>(offset - range.offset);
    const size_t count = std::min(out.size(), static_cast<size_t>(range.end() - offset));
    std::memcpy(out.data(), bytes + from, count);
    out = out.subspan(count);
    offset += static_cast<int64_t>(count);
  }
  return {};
}

}  // namespace partforge::data
