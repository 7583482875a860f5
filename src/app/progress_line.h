#pragma once

#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <string_view>

#include "app/command.h"

namespace partforge::app {

// How much is done so far; what is not counted stays 0.
struct Amounts {
  int64_t rows = 0, bytes = 0;
};
struct Rates {
  double rows = 0, bytes = 0;  // a second
};
// Rates over the last ten seconds (user-experience §4.2). One thread at a time.
class RateWindow {
 public:
  // What was done at that time, not before the last one. Zero until two moments are known.
  Rates Add(int64_t now_ms, const Amounts& done);

 private:
  struct Sample {
    int64_t at_ms = 0;
    Amounts done;
  };
  std::deque<Sample> samples_;
};
// " · 2 100 000 rows/s · 412.0 MB/s", without what is 0; empty when both are. Pure.
std::string RateText(const Rates& rates);

// One line on stderr, redrawn at most 5 times a second on a terminal; elsewhere one line at the
// start, every 30 s or 10 %, and at the end (user-experience §4.2); with NDJSON an object on stdout
// instead, as often as such a line. Thread-safe; never fails.
class ProgressLine {
 public:
  ProgressLine(const CommandInput& input, std::string verb);
  ~ProgressLine();
  // `fraction` in [0, 1]; `detail` is free text, e.g. "part 13/20 · 128.4 M rows". The rates of
  // `done` stand behind it.
  void Show(double fraction, std::string_view detail, const Amounts& done);
  // Takes the line away.
  void Finish();

 private:
  void Draw(double fraction, std::string_view detail);

  const CommandInput& input_;
  const std::string verb_;
  const int64_t started_ms_;
  std::mutex mutex_;
  RateWindow window_;           // guarded by mutex_
  int64_t drawn_at_ms_ = 0;     // guarded by mutex_
  double drawn_fraction_ = -1;  // guarded by mutex_
  bool is_drawn_ = false;       // guarded by mutex_
};

// Pure: the text of the line, without control characters. `elapsed_ms` since the start gives the
// ETA.
std::string ProgressText(std::string_view verb, double fraction, std::string_view detail,
                         int64_t elapsed_ms, int width, bool is_utf8);

}  // namespace partforge::app
