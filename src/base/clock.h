#pragma once

#include <cstdint>
#include <stop_token>

namespace partforge {

// The wall clock. Times are Unix milliseconds, UTC. Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual int64_t NowMs() = 0;
  // Sleeps for `ms`, or less when `stop` is asked for.
  virtual void SleepMs(int64_t ms, std::stop_token stop) = 0;
};

class SystemClock final : public Clock {
 public:
  int64_t NowMs() override;
  void SleepMs(int64_t ms, std::stop_token stop) override;
};

// Milliseconds on a clock that never jumps; only differences mean anything (durations in logs and
// summaries).
int64_t MonotonicMs();

}  // namespace partforge
