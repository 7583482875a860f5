#include <fmt/format.h>

#include <charconv>
#include <chrono>

#include "clickhouse/manifest.h"

namespace partforge::clickhouse {
namespace {

constexpr int64_t kNsPerSecond = 1'000'000'000;
constexpr size_t kFractionDigitsMax = 9;
// Years whose nanoseconds fit into 64 bits.
constexpr int kYearMin = 1678, kYearMax = 2261;

// Takes `count` digits off the front.
bool TakeDigits(std::string_view& text, size_t count, int& out) {
  if (text.size() < count) return false;
  const auto [end, error] = std::from_chars(text.data(), text.data() + count, out);
  if (error != std::errc() || end != text.data() + count || text[0] == '-') return false;
  text.remove_prefix(count);
  return true;
}

bool TakeByte(std::string_view& text, char wanted) {
  if (text.empty() || text[0] != wanted) return false;
  text.remove_prefix(1);
  return true;
}

// ".123" → 123000000; nothing → 0.
bool TakeFraction(std::string_view& text, int64_t& nanoseconds) {
  nanoseconds = 0;
  if (!TakeByte(text, '.')) return true;
  size_t digits = 0;
  while (digits < text.size() && text[digits] >= '0' && text[digits] <= '9') ++digits;
  if (digits == 0 || digits > kFractionDigitsMax) return false;
  for (size_t i = 0; i < kFractionDigitsMax; ++i) {
    nanoseconds = nanoseconds * 10 + (i < digits ? text[i] - '0' : 0);
  }
  text.remove_prefix(digits);
  return true;
}

bool TakeOffset(std::string_view& text, int64_t& seconds) {
  seconds = 0;
  if (TakeByte(text, 'Z') || TakeByte(text, 'z')) return true;
  const bool is_east = !text.empty() && text[0] == '+';
  if (!is_east && (text.empty() || text[0] != '-')) return false;
  text.remove_prefix(1);
  int hours = 0, minutes = 0;
  if (!TakeDigits(text, 2, hours) || !TakeByte(text, ':') || !TakeDigits(text, 2, minutes) ||
      hours > 23 || minutes > 59) {
    return false;
  }
  seconds = (is_east ? 1 : -1) * (int64_t{hours} * 3600 + int64_t{minutes} * 60);
  return true;
}

}  // namespace

std::string FormatTimeNs(int64_t unix_ns) {
  using namespace std::chrono;
  const auto whole = floor<seconds>(nanoseconds(unix_ns));
  const auto day = floor<days>(whole);
  const year_month_day date{sys_days(day)};
  const hh_mm_ss time{whole - day};
  std::string text =
      fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}", static_cast<int>(date.year()),
                  static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                  time.hours().count(), time.minutes().count(), time.seconds().count());
  const int64_t fraction = unix_ns - nanoseconds(whole).count();
  if (fraction != 0) {
    std::string digits = fmt::format(".{:09}", fraction);
    digits.resize(digits.find_last_not_of('0') + 1);
    text += digits;
  }
  return text + "Z";
}

Result<int64_t> ParseTimeNs(std::string_view text) {
  using namespace std::chrono;
  const std::string_view whole = text;
  const auto wrong = [&] {
    return Status(Code::kCorruption, fmt::format("not an RFC 3339 time: {}", whole.substr(0, 100)));
  };
  int year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0;
  int64_t fraction = 0, offset = 0;
  const bool is_read =
      TakeDigits(text, 4, year) && TakeByte(text, '-') && TakeDigits(text, 2, month) &&
      TakeByte(text, '-') && TakeDigits(text, 2, day) &&
      (TakeByte(text, 'T') || TakeByte(text, 't') || TakeByte(text, ' ')) &&
      TakeDigits(text, 2, hour) && TakeByte(text, ':') && TakeDigits(text, 2, minute) &&
      TakeByte(text, ':') && TakeDigits(text, 2, second) && TakeFraction(text, fraction) &&
      TakeOffset(text, offset) && text.empty();
  const year_month_day date{std::chrono::year(year),
                            std::chrono::month(static_cast<unsigned>(month)),
                            std::chrono::day(static_cast<unsigned>(day))};
  if (!is_read || !date.ok() || year < kYearMin || year > kYearMax || hour > 23 || minute > 59 ||
      second > 59) {
    return wrong();
  }
  const int64_t seconds_of_day = int64_t{hour} * 3600 + int64_t{minute} * 60 + second;
  const int64_t unix_seconds =
      int64_t{sys_days(date).time_since_epoch().count()} * 86'400 + seconds_of_day - offset;
  return unix_seconds * kNsPerSecond + fraction;
}

}  // namespace partforge::clickhouse
