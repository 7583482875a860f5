#pragma once

#include <atomic>

#include "base/clock.h"

namespace partforge::testing {

// A clock that moves only when told or slept on. Thread-safe.
class SimClock final : public Clock {
 public:
  explicit SimClock(int64_t start_ms = 1'700'000'000'000) : now_ms_(start_ms) {}
  int64_t NowMs() override { return now_ms_; }
  void SleepMs(int64_t ms, std::stop_token) override { now_ms_ += ms; }
  void Advance(int64_t ms) { now_ms_ += ms; }

 private:
  std::atomic<int64_t> now_ms_;
};

}  // namespace partforge::testing
