#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "base/context.h"
#include "store/object_store.h"

namespace arrow {
class MemoryPool;
class Status;
namespace io {
class OutputStream;
class RandomAccessFile;
}  // namespace io
}  // namespace arrow

namespace partforge::data {

// The edge between Arrow and us: statuses, exceptions, memory and bytes.

// Turns Arrow's failure into ours. A failure of ours that went through Arrow (an object store that
// did not answer) comes back as it was. What a file did wrong is kCorruption; out of memory is
// kExhausted; what Arrow lacks is kRefused.
Status FromArrow(const arrow::Status& status);
// The other direction: keeps ours inside, so that FromArrow finds it again.
arrow::Status ToArrow(const Status& status);
// What a library threw: std::bad_alloc is kExhausted, libparquet's own exceptions as FromArrow
// says.
Status FromException(const std::exception& exception);

// Runs a call of libparquet, which throws. The body returns Status or Result.
template <class Body>
auto CatchParquet(Body&& body) -> std::invoke_result_t<Body> {
  try {
    return std::forward<Body>(body)();
  } catch (const std::exception& exception) {
    return FromException(exception);
  }
}

// An Arrow memory pool whose bytes are taken from a budget in blocks of a few MiB; an allocation
// that the budget refuses fails as kExhausted. Must outlive everything allocated from it: make one
// for each task, before any source. Thread-safe.
class ArrowMemory {
 public:
  explicit ArrowMemory(MemoryBudget& budget);
  ~ArrowMemory();
  ArrowMemory(const ArrowMemory&) = delete;
  ArrowMemory& operator=(const ArrowMemory&) = delete;

  arrow::MemoryPool* pool();
  int64_t allocated_bytes() const;
  // What the budget has left for this pool, in bytes.
  int64_t available_bytes() const;

 private:
  class Pool;
  std::unique_ptr<Pool> pool_;
};

// Prepares Arrow's compute functions. Call before a cast, filter or take; cheap when done already.
Status EnsureArrowCompute();

// A view of an object for Arrow's readers; they may read from several threads. The context is
// copied into the view, because Arrow's interface has no place for it: clock, log and the rest must
// outlive the view. `source` must outlive it too.
std::shared_ptr<arrow::io::RandomAccessFile> OpenForArrow(const Context& ctx, ByteSource& source);
// A file of Arrow of so many bytes, whose ranges `read` gets: all of a range that lies inside, or
// an error.
using RangeReader = std::function<Status(int64_t offset, std::span<std::byte> out)>;
std::shared_ptr<arrow::io::RandomAccessFile> FileForArrow(int64_t size_bytes, RangeReader read);
// A stream of Arrow into an object. Closing the stream does not close the sink: the object stays
// invisible until its owner says so. The same words about context and sink.
std::shared_ptr<arrow::io::OutputStream> WriteForArrow(const Context& ctx, ByteSink& sink);

}  // namespace partforge::data

// PF_ARROW_TRY(expr), PF_ARROW_ASSIGN(lhs, expr): PF_TRY and PF_ASSIGN over Arrow's types.
#define PF_ARROW_TRY(...)                                          \
  do {                                                             \
    if (auto pf_arrow_ = (__VA_ARGS__); !pf_arrow_.ok()) {         \
      return ::partforge::data::internal::FromArrowAny(pf_arrow_); \
    }                                                              \
  } while (false)
#define PF_ARROW_ASSIGN(lhs, ...) \
  PF_ARROW_ASSIGN_(PF_CONCAT(pf_arrow_result_, __LINE__), lhs, __VA_ARGS__)
#define PF_ARROW_ASSIGN_(tmp, lhs, ...)                                 \
  auto tmp = (__VA_ARGS__);                                             \
  if (!tmp.ok()) return ::partforge::data::internal::FromArrowAny(tmp); \
  lhs = std::move(tmp).MoveValueUnsafe()

namespace partforge::data::internal {
inline Status FromArrowAny(const arrow::Status& status) {
  return FromArrow(status);
}
template <class T>
Status FromArrowAny(const T& result) {
  return FromArrow(result.status());
}
}  // namespace partforge::data::internal
