#include "data/arrow_edge.h"

#include <arrow/buffer.h>
#include <arrow/compute/initialize.h>
#include <arrow/io/interfaces.h>
#include <arrow/memory_pool.h>
#include <arrow/result.h>
#include <arrow/status.h>
#include <fmt/format.h>
#include <parquet/exception.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <new>
#include <span>
#include <vector>

namespace partforge::data {
namespace {

constexpr const char* kDetailType = "partforge::Status";

// Our status on its way through Arrow.
class OurDetail final : public arrow::StatusDetail {
 public:
  explicit OurDetail(Status status) : status_(std::move(status)) {}
  const char* type_id() const override { return kDetailType; }
  std::string ToString() const override { return status_.ToString(); }
  const Status& status() const { return status_; }

 private:
  const Status status_;
};

Code CodeOf(arrow::StatusCode code) {
  switch (code) {
    case arrow::StatusCode::OutOfMemory:
    case arrow::StatusCode::CapacityError:
      return Code::kExhausted;
    case arrow::StatusCode::NotImplemented:
      return Code::kRefused;
    case arrow::StatusCode::TypeError:
      return Code::kInvalidArgument;
    case arrow::StatusCode::Cancelled:
      return Code::kCancelled;
    case arrow::StatusCode::Invalid:
    case arrow::StatusCode::IOError:
    case arrow::StatusCode::IndexError:
    case arrow::StatusCode::KeyError:
    case arrow::StatusCode::SerializationError:
      return Code::kCorruption;
    default:
      return Code::kInternal;
  }
}

// Where pools take their bytes from. Arrow's default allocator, mimalloc, gives pages back after
// 10 ms, and decoding spends a tenth of its time getting them again; jemalloc keeps them for a
// second and takes less memory (docs/benchmarks.md). A sanitizer sees the system's alone.
arrow::MemoryPool& Allocator() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return *arrow::system_memory_pool();
#else
  static arrow::MemoryPool* const pool = [] {
    arrow::MemoryPool* jemalloc = nullptr;
    return arrow::jemalloc_memory_pool(&jemalloc).ok() ? jemalloc : arrow::default_memory_pool();
  }();
  return *pool;
#endif
}

}  // namespace

Status FromArrow(const arrow::Status& status) {
  if (status.ok()) return {};
  if (status.detail() != nullptr && status.detail()->type_id() == kDetailType) {
    return static_cast<const OurDetail&>(*status.detail()).status();
  }
  return Status(CodeOf(status.code()), status.message());
}

arrow::Status ToArrow(const Status& status) {
  if (status.ok()) return arrow::Status::OK();
  const auto code = status.code() == Code::kExhausted ? arrow::StatusCode::OutOfMemory
                                                      : arrow::StatusCode::IOError;
  return arrow::Status(code, status.message(), std::make_shared<OurDetail>(status));
}

Status FromException(const std::exception& exception) {
  if (dynamic_cast<const std::bad_alloc*>(&exception) != nullptr) {
    return Status(Code::kExhausted, "out of memory");
  }
  if (const auto* parquet = dynamic_cast<const parquet::ParquetStatusException*>(&exception)) {
    return FromArrow(parquet->status());
  }
  return Status(Code::kCorruption, exception.what());
}

// Grants are taken in blocks: a budget has a mutex, and Arrow allocates often.
class ArrowMemory::Pool final : public arrow::MemoryPool {
 public:
  explicit Pool(MemoryBudget& budget) : budget_(budget) {}

  arrow::Status Allocate(int64_t size, int64_t alignment, uint8_t** out) override {
    PF_CHECK(size >= 0, "a negative allocation");
    if (const Status status = Charge(size); !status.ok()) return ToArrow(status);
    auto status = allocator_.Allocate(size, alignment, out);
    if (!status.ok()) Discharge(size);
    return status;
  }

  arrow::Status Reallocate(int64_t old_size, int64_t new_size, int64_t alignment,
                           uint8_t** pointer) override {
    // While a buffer moves both copies exist; the old one is the smaller and short-lived.
    if (new_size > old_size) {
      if (const Status status = Charge(new_size - old_size); !status.ok()) return ToArrow(status);
    }
    auto status = allocator_.Reallocate(old_size, new_size, alignment, pointer);
    if (status.ok() && new_size < old_size) Discharge(old_size - new_size);
    if (!status.ok() && new_size > old_size) Discharge(new_size - old_size);
    return status;
  }

  void Free(uint8_t* buffer, int64_t size, int64_t alignment) override {
    allocator_.Free(buffer, size, alignment);
    Discharge(size);
  }

  int64_t bytes_allocated() const override { return used_bytes(); }
  int64_t max_memory() const override {
    const std::lock_guard lock(mutex_);
    return peak_bytes_;
  }
  int64_t total_bytes_allocated() const override { return total_bytes_.load(); }
  int64_t num_allocations() const override { return allocations_.load(); }
  std::string backend_name() const override { return "partforge"; }

  int64_t available_bytes() const {
    const std::lock_guard lock(mutex_);
    return budget_.limit_bytes() - budget_.used_bytes() + granted_bytes_ - used_bytes_;
  }

 private:
  static constexpr int64_t kBlockBytes = int64_t{2} << 20;

  int64_t used_bytes() const {
    const std::lock_guard lock(mutex_);
    return used_bytes_;
  }

  Status Charge(int64_t size) {
    const std::lock_guard lock(mutex_);
    const int64_t missing = used_bytes_ + size - granted_bytes_;
    if (missing > 0) {
      auto grant = budget_.TryReserve(std::max(missing, kBlockBytes));
      // Near the limit a whole block may be too much where the bytes themselves are not.
      if (!grant.ok() && missing < kBlockBytes) grant = budget_.TryReserve(missing);
      if (!grant.ok()) {
        return Status(Code::kExhausted,
                      fmt::format("allocate a buffer of {} bytes: the memory budget of {} bytes "
                                  "has no room (more memory: --memory)",
                                  size, budget_.limit_bytes()));
      }
      granted_bytes_ += grant->size_bytes();
      grants_.push_back(std::move(grant).value());
    }
    used_bytes_ += size;
    peak_bytes_ = std::max(peak_bytes_, used_bytes_);
    total_bytes_.fetch_add(size);
    allocations_.fetch_add(1);
    return {};
  }

  void Discharge(int64_t size) {
    const std::lock_guard lock(mutex_);
    used_bytes_ -= size;
    // One block is kept, so that a loop around one buffer does not go to the budget each time.
    while (!grants_.empty() &&
           granted_bytes_ - grants_.back().size_bytes() >= used_bytes_ + kBlockBytes) {
      granted_bytes_ -= grants_.back().size_bytes();
      grants_.pop_back();
    }
    if (used_bytes_ == 0) {
      grants_.clear();
      granted_bytes_ = 0;
    }
  }

  MemoryBudget& budget_;
  arrow::MemoryPool& allocator_ = Allocator();
  mutable std::mutex mutex_;
  std::vector<MemoryGrant> grants_;  // guarded by mutex_
  int64_t granted_bytes_ = 0;        // guarded by mutex_
  int64_t used_bytes_ = 0;           // guarded by mutex_
  int64_t peak_bytes_ = 0;           // guarded by mutex_
  std::atomic<int64_t> total_bytes_ = 0;
  std::atomic<int64_t> allocations_ = 0;
};

ArrowMemory::ArrowMemory(MemoryBudget& budget) : pool_(std::make_unique<Pool>(budget)) {}
ArrowMemory::~ArrowMemory() = default;
arrow::MemoryPool* ArrowMemory::pool() {
  return pool_.get();
}
int64_t ArrowMemory::allocated_bytes() const {
  return pool_->bytes_allocated();
}
int64_t ArrowMemory::available_bytes() const {
  return pool_->available_bytes();
}

Status EnsureArrowCompute() {
  static const Status status = FromArrow(arrow::compute::Initialize());
  return status;
}

namespace {

class RangeFile final : public arrow::io::RandomAccessFile {
 public:
  RangeFile(int64_t size_bytes, RangeReader read)
      : size_bytes_(size_bytes), read_(std::move(read)) {}

  arrow::Status Close() override {
    is_closed_ = true;
    return arrow::Status::OK();
  }
  bool closed() const override { return is_closed_; }
  arrow::Result<int64_t> Tell() const override { return position_; }
  arrow::Status Seek(int64_t position) override {
    if (position < 0) return arrow::Status::IOError("seek before the file: ", position);
    position_ = position;
    return arrow::Status::OK();
  }
  arrow::Result<int64_t> GetSize() override { return size_bytes_; }
  arrow::Result<int64_t> Read(int64_t nbytes, void* out) override {
    ARROW_ASSIGN_OR_RAISE(const int64_t got, ReadAt(position_, nbytes, out));
    position_ += got;
    return got;
  }
  arrow::Result<std::shared_ptr<arrow::Buffer>> Read(int64_t nbytes) override {
    ARROW_ASSIGN_OR_RAISE(auto buffer, ReadAt(position_, nbytes));
    position_ += buffer->size();
    return buffer;
  }

  using RandomAccessFile::ReadAt;
  arrow::Result<int64_t> ReadAt(int64_t position, int64_t nbytes, void* out) override {
    const int64_t count = Available(position, nbytes);
    if (count < 0) return arrow::Status::IOError("read outside the file at ", position);
    if (count == 0) return 0;
    const auto bytes = std::span(static_cast<std::byte*>(out), static_cast<size_t>(count));
    if (const Status status = read_(position, bytes); !status.ok()) return ToArrow(status);
    return count;
  }
  arrow::Result<std::shared_ptr<arrow::Buffer>> ReadAt(int64_t position, int64_t nbytes) override {
    // The length may come out of a lying file: no more is allocated than the file has.
    const int64_t count = Available(position, nbytes);
    if (count < 0) return arrow::Status::IOError("read outside the file at ", position);
    ARROW_ASSIGN_OR_RAISE(std::shared_ptr<arrow::Buffer> buffer, arrow::AllocateBuffer(count));
    ARROW_ASSIGN_OR_RAISE([[maybe_unused]] const int64_t got,
                          ReadAt(position, count, buffer->mutable_data()));
    return buffer;
  }

 private:
  // How many of `nbytes` the file has at `position`; negative when the range makes no sense.
  int64_t Available(int64_t position, int64_t nbytes) const {
    if (position < 0 || nbytes < 0) return -1;
    return std::clamp<int64_t>(size_bytes_ - position, 0, nbytes);
  }

  const int64_t size_bytes_;
  const RangeReader read_;
  int64_t position_ = 0;
  bool is_closed_ = false;
};

class SinkStream final : public arrow::io::OutputStream {
 public:
  SinkStream(const Context& ctx, ByteSink& sink) : ctx_(ctx), sink_(sink) {}

  arrow::Status Close() override {
    is_closed_ = true;
    return arrow::Status::OK();
  }
  bool closed() const override { return is_closed_; }
  arrow::Result<int64_t> Tell() const override { return position_; }
  using OutputStream::Write;
  arrow::Status Write(const void* data, int64_t nbytes) override {
    const auto bytes = std::span(static_cast<const std::byte*>(data), static_cast<size_t>(nbytes));
    if (const Status status = sink_.Append(ctx_, bytes); !status.ok()) return ToArrow(status);
    position_ += nbytes;
    return arrow::Status::OK();
  }

 private:
  const Context ctx_;
  ByteSink& sink_;
  int64_t position_ = 0;
  bool is_closed_ = false;
};

}  // namespace

std::shared_ptr<arrow::io::RandomAccessFile> OpenForArrow(const Context& ctx, ByteSource& source) {
  return FileForArrow(source.size_bytes(),
                      [own = ctx, &source](int64_t offset, std::span<std::byte> out) {
                        return source.ReadAt(own, offset, out);
                      });
}

std::shared_ptr<arrow::io::RandomAccessFile> FileForArrow(int64_t size_bytes, RangeReader read) {
  return std::make_shared<RangeFile>(size_bytes, std::move(read));
}

std::shared_ptr<arrow::io::OutputStream> WriteForArrow(const Context& ctx, ByteSink& sink) {
  return std::make_shared<SinkStream>(ctx, sink);
}

}  // namespace partforge::data
