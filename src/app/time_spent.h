#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"

namespace partforge::app {

// What a time was spent on, in the order of the work: name and milliseconds.
using TimeParts = std::vector<std::pair<std::string, int64_t>>;
// "plan 0.3, read 4.1, write 6.9": seconds. Pure.
std::string TextOf(const TimeParts& parts);
// {"plan":0.31,"read":4.102,…}: seconds.
JsonDoc DocumentOf(const TimeParts& parts);
// The stages of part rewrites (clickhouse-parts §9) as plan, read, write, commit and wait; what
// took nothing is left out. `stage_ms` may be sums over parts. Pure.
TimeParts PartsOfStages(const std::map<std::string, int64_t>& stage_ms);

// Measures a command and its phases, one after the other. One thread at a time.
class PhaseClock {
 public:
  PhaseClock();
  // Ends the phase before. Each name once.
  void Begin(std::string_view phase);
  int64_t took_ms() const;  // since the clock was made
  TimeParts parts() const;  // the running phase as far as it is
 private:
  const int64_t made_ms_;
  int64_t begun_ms_;
  TimeParts parts_;  // the last one runs
};

// What a summary says of a run's time (user-experience §4.3).
struct TimeSpent {
  int64_t took_ms = 0;
  std::string parts = {};  // of the time, for people
  int64_t rows = 0, bytes = 0, peak_memory_bytes = 0;
  // "11.8 s (plan 0.3, write 11.5)   12 345 rows/s · 280 MB/s   peak memory 412 MiB"; what is 0 or
  // empty is left out.
  std::string Text() const;
};

}  // namespace partforge::app
