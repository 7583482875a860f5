#include "job/slot_board.h"

#include <chrono>

namespace partforge {

int64_t SlotBoard::WaitForFree(std::stop_token stop) {
  std::unique_lock lock(mutex_);
  const auto free = [&] { return waiting_ - std::ssize(given_); };
  if (!changed_.wait(lock, std::move(stop), [&] { return free() > 0; })) return 0;
  return free();
}

void SlotBoard::Give(ClaimedWork work) {
  const std::lock_guard lock(mutex_);
  given_.push_back(std::move(work));
  changed_.notify_all();
}

std::optional<ClaimedWork> SlotBoard::Take() {
  std::unique_lock lock(mutex_);
  ++waiting_;
  changed_.notify_all();
  changed_.wait(lock, [&] { return !given_.empty() || is_closed_; });
  --waiting_;
  if (given_.empty()) return std::nullopt;
  ClaimedWork work = std::move(given_.front());
  given_.pop_front();
  return work;
}

void SlotBoard::Announce() {
  const std::lock_guard lock(mutex_);
  ++news_;
  changed_.notify_all();
}

int64_t SlotBoard::WaitForNews(int64_t seen, int64_t ms, std::stop_token stop) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, std::move(stop), std::chrono::milliseconds(ms),
                    [&] { return news_ != seen; });
  return news_;
}

void SlotBoard::Close() {
  const std::lock_guard lock(mutex_);
  is_closed_ = true;
  changed_.notify_all();
}

void SlotBoard::Leave() {
  const std::lock_guard lock(mutex_);
  ++left_;
  changed_.notify_all();
}

bool SlotBoard::WaitForLeave(int64_t slots, int64_t ms) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, std::chrono::milliseconds(ms), [&] { return left_ >= slots; });
}

bool SlotBoard::IsQuiet(int64_t slots) {
  const std::lock_guard lock(mutex_);
  return given_.empty() && waiting_ == slots;
}

}  // namespace partforge
