#include "base/clock.h"

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace partforge {

int64_t SystemClock::NowMs() {
  const auto since_epoch = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(since_epoch).count();
}

void SystemClock::SleepMs(int64_t ms, std::stop_token stop) {
  if (ms <= 0) return;
  std::mutex mutex;
  std::condition_variable_any wake;
  std::unique_lock lock(mutex);
  wake.wait_for(lock, stop, std::chrono::milliseconds(ms), [] { return false; });
}

int64_t MonotonicMs() {
  const auto since_start = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(since_start).count();
}

}  // namespace partforge
