#include "app/progress_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/units.h"

namespace partforge::app {
namespace {

constexpr int64_t kRedrawMs = 200, kPlainLineMs = 30'000, kEtaAfterMs = 5'000;
constexpr double kPlainLineStep = 0.1, kEtaAfter = 0.02;
constexpr int kBarWidth = 22;

}  // namespace

std::string ProgressText(std::string_view verb, double fraction, std::string_view detail,
                         int64_t elapsed_ms, int width, bool is_utf8) {
  fraction = std::clamp(fraction, 0.0, 1.0);
  std::string bar;
  const int full = static_cast<int>(std::floor(fraction * kBarWidth));
  for (int i = 0; i < kBarWidth; ++i) {
    if (is_utf8) {
      bar += i < full ? "━" : (i == full ? "╸" : "─");
    } else {
      bar += i < full ? "=" : (i == full ? ">" : "-");
    }
  }
  std::string text = fmt::format("{}  {}  {:3.0f}%  {}", verb, bar, fraction * 100, detail);
  if (elapsed_ms >= kEtaAfterMs && fraction >= kEtaAfter && fraction < 1) {
    const auto left_ms =
        static_cast<int64_t>(static_cast<double>(elapsed_ms) * (1 - fraction) / fraction);
    text += fmt::format(" {} ETA {}", is_utf8 ? "·" : "|", FormatDurationMs(left_ms));
  }
  // Cut by characters, so that the line never wraps.
  size_t end = 0;
  int columns = 0;
  while (end < text.size()) {
    if ((static_cast<unsigned char>(text[end]) & 0xC0) != 0x80 && ++columns >= width) break;
    ++end;
  }
  return text.substr(0, end);
}

ProgressLine::ProgressLine(const CommandInput& input, std::string verb)
    : input_(input), verb_(std::move(verb)), started_ms_(MonotonicMs()) {}

ProgressLine::~ProgressLine() {
  Finish();
}

Rates RateWindow::Add(int64_t now_ms, const Amounts& done) {
  constexpr int64_t kWindowMs = 10'000;
  samples_.push_back({.at_ms = now_ms, .done = done});
  // The oldest sample is the last one before the window, so that it is filled.
  while (samples_.size() > 2 && samples_[1].at_ms <= now_ms - kWindowMs) samples_.pop_front();
  const Sample& first = samples_.front();
  const int64_t took_ms = now_ms - first.at_ms;
  if (took_ms <= 0) return {};
  const auto rate = [&](int64_t before, int64_t now) {
    return static_cast<double>(std::max<int64_t>(0, now - before)) * 1000.0 /
           static_cast<double>(took_ms);
  };
  return {.rows = rate(first.done.rows, done.rows), .bytes = rate(first.done.bytes, done.bytes)};
}

std::string RateText(const Rates& rates) {
  std::string text;
  if (rates.rows >= 1)
    text += fmt::format(" · {} rows/s", FormatCount(static_cast<int64_t>(rates.rows)));
  if (rates.bytes >= 1) text += fmt::format(" · {:.1f} MB/s", rates.bytes / 1e6);
  return text;
}

void ProgressLine::Show(double fraction, std::string_view detail, const Amounts& done) {
  const OutputStyle& style = input_.out.style();
  if (style.is_quiet) return;
  const std::lock_guard lock(mutex_);
  const int64_t now_ms = MonotonicMs();
  const Rates rates = window_.Add(now_ms, done);
  const std::string line = std::string(detail) + RateText(rates);
  if (style.is_stderr_tty && !style.is_ndjson) {
    if (is_drawn_ && now_ms - drawn_at_ms_ < kRedrawMs) return;
    Draw(fraction, line);
  } else {
    const bool is_due = drawn_fraction_ < 0 || now_ms - drawn_at_ms_ >= kPlainLineMs ||
                        fraction - drawn_fraction_ >= kPlainLineStep || fraction >= 1;
    if (!is_due || fraction == drawn_fraction_) return;
    if (!style.is_json && !style.is_ndjson)
      input_.out.Note(fmt::format("{} {:.0f}% {}", verb_, fraction * 100, line));
    if (style.is_ndjson)
      input_.out.Object(JsonDoc{{"type", "progress"},
                                {"stage", verb_},
                                {"fraction", fraction},
                                {"rows", done.rows},
                                {"bytes", done.bytes},
                                {"rows_per_second", rates.rows},
                                {"bytes_per_second", rates.bytes}});
  }
  drawn_at_ms_ = now_ms;
  drawn_fraction_ = fraction;
  is_drawn_ = true;
}

void ProgressLine::Draw(double fraction, std::string_view detail) {
  const OutputStyle& style = input_.out.style();
  const std::string line =
      "\r\x1b[K" + ProgressText(verb_, fraction, detail, MonotonicMs() - started_ms_, style.width,
                                style.is_utf8);
  std::fwrite(line.data(), 1, line.size(), stderr);
  std::fflush(stderr);
}

void ProgressLine::Finish() {
  const std::lock_guard lock(mutex_);
  const OutputStyle& style = input_.out.style();
  if (!is_drawn_ || !style.is_stderr_tty || style.is_ndjson) return;
  std::fputs("\r\x1b[K", stderr);
  std::fflush(stderr);
  is_drawn_ = false;
}

}  // namespace partforge::app
