#include "base/units.h"

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <limits>
#include <optional>

namespace partforge {
namespace {

// gcc's 128-bit integer: sums of nanoseconds and of bytes are exact and checked once at the end.
using Wide = __int128;

constexpr Wide kInt64Max = std::numeric_limits<int64_t>::max();
constexpr int kFractionDigitsMax = 18;

bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}
char ToLower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

// A non-negative decimal: whole + fraction / scale.
struct Decimal {
  Wide whole = 0;
  Wide fraction = 0;
  Wide scale = 1;

  // this × unit, rounded down.
  Wide Times(Wide unit) const { return whole * unit + fraction * unit / scale; }
};

// Takes "12", "1.5", ".5" or "2." from the front of `text`; nothing when no digit is there or the
// number does not fit 64 bits. Digits of the fraction beyond the 18th are read and dropped.
std::optional<Decimal> TakeDecimal(std::string_view* text) {
  Decimal number;
  bool has_digits = false;
  while (!text->empty() && IsDigit(text->front())) {
    has_digits = true;
    number.whole = number.whole * 10 + (text->front() - '0');
    if (number.whole > kInt64Max) return std::nullopt;
    text->remove_prefix(1);
  }
  if (!text->empty() && text->front() == '.') {
    text->remove_prefix(1);
    for (int digits = 0; !text->empty() && IsDigit(text->front()); ++digits) {
      has_digits = true;
      if (digits < kFractionDigitsMax) {
        number.fraction = number.fraction * 10 + (text->front() - '0');
        number.scale *= 10;
      }
      text->remove_prefix(1);
    }
  }
  if (!has_digits) return std::nullopt;
  return number;
}

// Bytes of one unit, 0 when the suffix is none. Letters of either case; "" and "b" are bytes.
Wide SizeUnit(std::string_view suffix) {
  static constexpr std::string_view kPrefixes = "kmgtp";
  if (suffix.empty() || (suffix.size() == 1 && ToLower(suffix[0]) == 'b')) return 1;
  const size_t power = kPrefixes.find(ToLower(suffix[0]));
  if (power == std::string_view::npos) return 0;
  const std::string_view rest = suffix.substr(1);
  Wide step = 0;
  if (rest.empty() || (rest.size() == 2 && ToLower(rest[0]) == 'i' && ToLower(rest[1]) == 'b')) {
    step = 1024;
  } else if (rest.size() == 1 && ToLower(rest[0]) == 'b') {
    step = 1000;
  } else {
    return 0;
  }
  Wide unit = 1;
  for (size_t i = 0; i <= power; ++i) unit *= step;
  return unit;
}

// Nanoseconds of one unit, 0 when the suffix is none.
Wide DurationUnitNs(std::string_view suffix) {
  constexpr Wide kSecond = 1'000'000'000;
  constexpr Wide kDay = 86'400 * kSecond;
  if (suffix == "ns") return 1;
  if (suffix == "us" || suffix == "\u00b5s" || suffix == "\u03bcs") return 1'000;
  if (suffix == "ms") return 1'000'000;
  if (suffix == "s") return kSecond;
  if (suffix == "m") return 60 * kSecond;
  if (suffix == "h") return 3'600 * kSecond;
  if (suffix == "d") return kDay;
  if (suffix == "w") return 7 * kDay;
  if (suffix == "y") return 365 * kDay;
  return 0;
}

// Reads a time from left to right; every Take answers false when the text is something else.
class TimeScanner {
 public:
  explicit TimeScanner(std::string_view text) : rest_(text) {}

  bool is_at_end() const { return rest_.empty(); }

  bool Take(char wanted) {
    if (rest_.empty() || rest_.front() != wanted) return false;
    rest_.remove_prefix(1);
    return true;
  }

  bool TakeOneOf(std::string_view wanted) {
    if (rest_.empty() || wanted.find(rest_.front()) == std::string_view::npos) return false;
    rest_.remove_prefix(1);
    return true;
  }

  // Exactly `digits` digits with a value in [low, high].
  std::optional<int> TakeNumber(size_t digits, int low, int high) {
    if (rest_.size() < digits) return std::nullopt;
    int value = 0;
    for (size_t i = 0; i < digits; ++i) {
      if (!IsDigit(rest_[i])) return std::nullopt;
      value = value * 10 + (rest_[i] - '0');
    }
    if (value < low || value > high) return std::nullopt;
    rest_.remove_prefix(digits);
    return value;
  }

  // One to nine digits of a second's fraction, cut to milliseconds.
  std::optional<int> TakeFractionMs() {
    int digits = 0;
    int value = 0;
    while (!rest_.empty() && IsDigit(rest_.front())) {
      if (digits < 3) value = value * 10 + (rest_.front() - '0');
      ++digits;
      rest_.remove_prefix(1);
    }
    if (digits == 0 || digits > 9) return std::nullopt;
    for (int i = digits; i < 3; ++i) value *= 10;
    return value;
  }

 private:
  std::string_view rest_;
};

// Offset from UTC in minutes: "Z", "+02:00", "-0130" is not one.
std::optional<int> TakeOffset(TimeScanner* scanner) {
  if (scanner->TakeOneOf("Zz")) return 0;
  int sign = 0;
  if (scanner->Take('+')) {
    sign = 1;
  } else if (scanner->Take('-')) {
    sign = -1;
  } else {
    return std::nullopt;
  }
  const auto hours = scanner->TakeNumber(2, 0, 23);
  if (!hours || !scanner->Take(':')) return std::nullopt;
  const auto minutes = scanner->TakeNumber(2, 0, 59);
  if (!minutes) return std::nullopt;
  return sign * (*hours * 60 + *minutes);
}

std::optional<int64_t> ScanTimeMs(std::string_view text) {
  TimeScanner scanner(text);
  const auto year = scanner.TakeNumber(4, 0, 9999);
  if (!year || !scanner.Take('-')) return std::nullopt;
  const auto month = scanner.TakeNumber(2, 1, 12);
  if (!month || !scanner.Take('-')) return std::nullopt;
  const auto day = scanner.TakeNumber(2, 1, 31);
  if (!day) return std::nullopt;
  const std::chrono::year_month_day date(std::chrono::year(*year),
                                         std::chrono::month(static_cast<unsigned>(*month)),
                                         std::chrono::day(static_cast<unsigned>(*day)));
  if (!date.ok()) return std::nullopt;
  int64_t ms = int64_t{std::chrono::sys_days(date).time_since_epoch().count()} * 86'400'000;
  if (scanner.is_at_end()) return ms;

  if (!scanner.TakeOneOf("Tt ")) return std::nullopt;
  const auto hour = scanner.TakeNumber(2, 0, 23);
  if (!hour || !scanner.Take(':')) return std::nullopt;
  const auto minute = scanner.TakeNumber(2, 0, 59);
  if (!minute || !scanner.Take(':')) return std::nullopt;
  const auto second = scanner.TakeNumber(2, 0, 59);
  if (!second) return std::nullopt;
  ms += (int64_t{*hour} * 3600 + int64_t{*minute} * 60 + *second) * 1000;
  if (scanner.Take('.')) {
    const auto fraction_ms = scanner.TakeFractionMs();
    if (!fraction_ms) return std::nullopt;
    ms += *fraction_ms;
  }
  if (scanner.is_at_end()) return ms;
  const auto offset_minutes = TakeOffset(&scanner);
  if (!offset_minutes || !scanner.is_at_end()) return std::nullopt;
  return ms - int64_t{*offset_minutes} * 60'000;
}

constexpr double kStep = 1024.0;

}  // namespace

Result<int64_t> ParseSize(std::string_view text) {
  std::string_view rest = text;
  const auto number = TakeDecimal(&rest);
  while (number && rest.size() > 1 && rest.front() == ' ') rest.remove_prefix(1);
  const Wide unit = number ? SizeUnit(rest) : 0;
  const bool is_whole = number && number->scale == 1;
  if (unit == 0 || (unit == 1 && !is_whole)) {
    return Status(
        Code::kInvalidArgument,
        fmt::format("size wants a number with an optional unit such as MiB or GB: '{}'", text));
  }
  // 2^63 parts of at most 1024^5 bytes stay far below 2^127.
  const Wide bytes = number->Times(unit);
  if (bytes > kInt64Max) {
    return Status(Code::kInvalidArgument, fmt::format("size is above 8 EiB: '{}'", text));
  }
  return static_cast<int64_t>(bytes);
}

Result<int64_t> ParseDurationMs(std::string_view text) {
  if (text == "0") return int64_t{0};
  const auto refuse = [&] {
    return Status(
        Code::kInvalidArgument,
        fmt::format("duration wants numbers with units (ns us ms s m h d w y), as 1d12h30m: '{}'",
                    text));
  };
  if (text.empty()) return refuse();
  Wide sum_ns = 0;
  for (std::string_view rest = text; !rest.empty();) {
    const auto number = TakeDecimal(&rest);
    if (!number) return refuse();
    size_t unit_size = 0;
    while (unit_size < rest.size() && !IsDigit(rest[unit_size]) && rest[unit_size] != '.')
      ++unit_size;
    const Wide unit_ns = DurationUnitNs(rest.substr(0, unit_size));
    if (unit_ns == 0) return refuse();
    rest.remove_prefix(unit_size);
    sum_ns += number->Times(unit_ns);
    // Go's durations are 64-bit nanoseconds: about 292 years.
    if (sum_ns > kInt64Max) {
      return Status(Code::kInvalidArgument, fmt::format("duration is above 292 years: '{}'", text));
    }
  }
  return static_cast<int64_t>(sum_ns / 1'000'000);
}

Result<int64_t> ParseTimeMs(std::string_view text) {
  if (const auto ms = ScanTimeMs(text)) return *ms;
  return Status(Code::kInvalidArgument,
                fmt::format("time wants RFC 3339 or YYYY-MM-DD[ HH:MM:SS]: '{}'", text));
}

std::string FormatTime(int64_t unix_ms) {
  using std::chrono::days;
  using std::chrono::milliseconds;
  const milliseconds since_epoch(unix_ms);
  const auto day = std::chrono::floor<days>(since_epoch);
  const std::chrono::year_month_day date{std::chrono::sys_days(day)};
  const int64_t ms = (since_epoch - day).count();
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                     ms / 3'600'000, ms / 60'000 % 60, ms / 1000 % 60, ms % 1000);
}

std::string FormatBytes(int64_t bytes) {
  static constexpr std::array<std::string_view, 7> kUnits = {"B",   "KiB", "MiB", "GiB",
                                                             "TiB", "PiB", "EiB"};
  const std::string_view sign = bytes < 0 ? "-" : "";
  const auto magnitude =
      bytes < 0 ? 0 - static_cast<uint64_t>(bytes) : static_cast<uint64_t>(bytes);
  if (magnitude < 1024) return fmt::format("{}{} B", sign, magnitude);
  auto value = static_cast<double>(magnitude);
  size_t unit = 0;
  // The limit lies half a unit of the last digit below 1024, so that rounding never prints "1024
  // KiB".
  while (value >= kStep - 0.5 && unit + 1 < kUnits.size()) {
    value /= kStep;
    ++unit;
  }
  const int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return fmt::format("{}{:.{}f} {}", sign, value, decimals, kUnits[unit]);
}

std::string FormatBytesShort(int64_t bytes) {
  static constexpr std::array<std::string_view, 6> kUnits = {"B", "KB", "MB", "GB", "TB", "PB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= kStep && unit + 1 < kUnits.size()) {
    value /= kStep;
    ++unit;
  }
  const bool is_whole = value == static_cast<double>(static_cast<int64_t>(value));
  return fmt::format("{:.{}f}{}", value, is_whole ? 0 : 1, kUnits[unit]);
}

std::string FormatCount(int64_t count) {
  const std::string digits = fmt::format("{}", count);
  const size_t first = digits[0] == '-' ? 1 : 0;
  std::string text = digits.substr(0, first);
  for (size_t i = first; i < digits.size(); ++i) {
    if (i > first && (digits.size() - i) % 3 == 0) text += ' ';
    text += digits[i];
  }
  return text;
}

std::string FormatDurationMs(int64_t ms) {
  if (ms < 0)
    return "-" + FormatDurationMs(ms == std::numeric_limits<int64_t>::min()
                                      ? std::numeric_limits<int64_t>::max()
                                      : -ms);
  if (ms < 1000) return fmt::format("{} ms", ms);
  const int64_t tenths = ms / 100 + (ms % 100 >= 50 ? 1 : 0);
  if (tenths < 600) return fmt::format("{}.{} s", tenths / 10, tenths % 10);
  const int64_t seconds = ms / 1000 + (ms % 1000 >= 500 ? 1 : 0);
  if (seconds < 3600) return fmt::format("{}m{:02}s", seconds / 60, seconds % 60);
  const int64_t minutes = seconds / 60;
  if (minutes < int64_t{24} * 60) return fmt::format("{}h{:02}m", minutes / 60, minutes % 60);
  const int64_t hours = minutes / 60;
  return fmt::format("{}d{:02}h", hours / 24, hours % 24);
}

std::string FormatAge(int64_t at_ms, int64_t now_ms) {
  const bool is_to_come = at_ms > now_ms;
  const int64_t seconds = (is_to_come ? at_ms - now_ms : now_ms - at_ms) / 1000;
  if (seconds == 0) return "now";
  std::string amount = fmt::format("{} d", seconds / 86'400);
  if (seconds < 60) {
    amount = fmt::format("{} s", seconds);
  } else if (seconds < 3600) {
    amount = fmt::format("{} min", seconds / 60);
  } else if (seconds < int64_t{2} * 86'400) {
    amount = fmt::format("{} h", seconds / 3600);
  }
  return is_to_come ? "in " + amount : amount + " ago";
}

}  // namespace partforge
