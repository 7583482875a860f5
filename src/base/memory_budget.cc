#include "base/memory_budget.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace partforge {

MemoryGrant::MemoryGrant(MemoryGrant&& other) noexcept
    : budget_(std::exchange(other.budget_, nullptr)),
      size_bytes_(std::exchange(other.size_bytes_, 0)) {}

MemoryGrant& MemoryGrant::operator=(MemoryGrant&& other) noexcept {
  if (this != &other) {
    Release();
    budget_ = std::exchange(other.budget_, nullptr);
    size_bytes_ = std::exchange(other.size_bytes_, 0);
  }
  return *this;
}

MemoryGrant::~MemoryGrant() {
  Release();
}

void MemoryGrant::Release() {
  if (budget_ != nullptr) budget_->Return(size_bytes_);
  budget_ = nullptr;
  size_bytes_ = 0;
}

Result<MemoryGrant> MemoryBudget::Reserve(int64_t size_bytes, std::stop_token stop) {
  PF_CHECK(size_bytes >= 0, "a negative reservation");
  if (size_bytes > limit_bytes_) {
    return Status(Code::kExhausted, fmt::format("{} bytes of memory asked for, the budget has {}",
                                                size_bytes, limit_bytes_));
  }
  std::unique_lock lock(mutex_);
  const bool fits =
      freed_.wait(lock, std::move(stop), [&] { return used_bytes_ + size_bytes <= limit_bytes_; });
  if (!fits) return Status(Code::kCancelled, "stopped while waiting for memory");
  used_bytes_ += size_bytes;
  peak_bytes_ = std::max(peak_bytes_, used_bytes_);
  return MemoryGrant(this, size_bytes);
}

Result<MemoryGrant> MemoryBudget::TryReserve(int64_t size_bytes) {
  PF_CHECK(size_bytes >= 0, "a negative reservation");
  const std::lock_guard lock(mutex_);
  if (used_bytes_ + size_bytes > limit_bytes_) {
    return Status(Code::kExhausted,
                  fmt::format("{} bytes of memory asked for, {} of {} are free", size_bytes,
                              limit_bytes_ - used_bytes_, limit_bytes_));
  }
  used_bytes_ += size_bytes;
  peak_bytes_ = std::max(peak_bytes_, used_bytes_);
  return MemoryGrant(this, size_bytes);
}

int64_t MemoryBudget::used_bytes() const {
  const std::lock_guard lock(mutex_);
  return used_bytes_;
}

int64_t MemoryBudget::peak_bytes() const {
  const std::lock_guard lock(mutex_);
  return peak_bytes_;
}

void MemoryBudget::Return(int64_t size_bytes) {
  {
    const std::lock_guard lock(mutex_);
    used_bytes_ -= size_bytes;
  }
  freed_.notify_all();
}

}  // namespace partforge
