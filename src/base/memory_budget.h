#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <stop_token>

#include "base/error.h"

namespace partforge {

class MemoryBudget;

// Bytes taken from a budget; given back when destroyed. Movable, one thread at a time.
class MemoryGrant {
 public:
  MemoryGrant() = default;
  MemoryGrant(MemoryGrant&& other) noexcept;
  MemoryGrant& operator=(MemoryGrant&& other) noexcept;
  ~MemoryGrant();
  int64_t size_bytes() const { return size_bytes_; }
  void Release();

 private:
  friend class MemoryBudget;
  MemoryGrant(MemoryBudget* budget, int64_t size_bytes)
      : budget_(budget), size_bytes_(size_bytes) {}
  MemoryBudget* budget_ = nullptr;
  int64_t size_bytes_ = 0;
};

// A fixed number of bytes shared by everything whose buffers grow with data. Never overdraws.
// Thread-safe.
class MemoryBudget {
 public:
  explicit MemoryBudget(int64_t limit_bytes) : limit_bytes_(limit_bytes) {}

  // Waits until `size_bytes` are free. kExhausted when they can never be (size above the limit),
  // kCancelled when `stop` is asked for while waiting.
  Result<MemoryGrant> Reserve(int64_t size_bytes, std::stop_token stop);
  // Does not wait: kExhausted when the bytes are not free now.
  Result<MemoryGrant> TryReserve(int64_t size_bytes);

  int64_t limit_bytes() const { return limit_bytes_; }
  int64_t used_bytes() const;
  int64_t peak_bytes() const;

 private:
  friend class MemoryGrant;
  void Return(int64_t size_bytes);

  const int64_t limit_bytes_;
  mutable std::mutex mutex_;
  std::condition_variable_any freed_;
  int64_t used_bytes_ = 0;  // guarded by mutex_
  int64_t peak_bytes_ = 0;  // guarded by mutex_
};

}  // namespace partforge
