#include "app/scalar_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "app/output.h"
#include "base/units.h"

namespace partforge::app {
namespace {

using data::Scalar;
using data::ScalarType;

// Digits of 10^-scale behind a point.
std::string PlaceValue(std::string digits, size_t scale) {
  const bool is_negative = digits.starts_with('-');
  if (is_negative) digits.erase(0, 1);
  if (digits.size() <= scale) digits.insert(0, scale + 1 - digits.size(), '0');
  if (scale > 0) digits.insert(digits.size() - scale, 1, '.');
  return is_negative ? "-" + digits : digits;
}

std::string DecimalDigits(data::Int128 value) {
  const bool is_negative = value.high < 0;
  uint64_t high = static_cast<uint64_t>(value.high), low = value.low;
  if (is_negative) {
    low = ~low + 1;
    high = ~high + (low == 0 ? 1 : 0);
  }
  std::string digits;
  while (high != 0 || low != 0) {
    uint64_t rest = 0;
    uint64_t words[] = {high >> 32, high & 0xFFFFFFFF, low >> 32, low & 0xFFFFFFFF};
    for (uint64_t& word : words) {
      const uint64_t dividend = (rest << 32) | word;
      word = dividend / 10;
      rest = dividend % 10;
    }
    digits.push_back(static_cast<char>('0' + rest));
    high = (words[0] << 32) | words[1];
    low = (words[2] << 32) | words[3];
  }
  if (digits.empty()) digits = "0";
  if (is_negative) digits.push_back('-');
  std::reverse(digits.begin(), digits.end());
  return digits;
}

size_t DecimalScale(std::string_view type) {
  const size_t comma = type.find(',');
  size_t scale = 0;
  if (!type.starts_with("decimal(") || comma == std::string_view::npos) return 0;
  std::from_chars(type.data() + comma + 1, type.data() + type.size(), scale);
  return std::min<size_t>(scale, 76);
}

// Whole units of 10^-digits seconds since 1970 as "2026-10-11T12:13:14.123456[Z]". Years that the
// calendar of ISO 8601 has no four digits for stay numbers.
std::string TimestampText(int64_t value, int64_t units_a_second, int digits, bool is_utc) {
  int64_t seconds = value / units_a_second, fraction = value % units_a_second;
  if (fraction < 0) {
    fraction += units_a_second;
    --seconds;
  }
  constexpr int64_t kYear0 = -62'167'219'200, kYear10000 = 253'402'300'800;
  if (seconds < kYear0 || seconds >= kYear10000) return fmt::format("{}", value);
  const std::string text = FormatTime(seconds * 1000);
  return fmt::format("{}.{:0{}}{}", text.substr(0, 19), fraction, digits, is_utc ? "Z" : "");
}

}  // namespace

std::string ScalarText(const Scalar& value, std::string_view type) {
  switch (value.type()) {
    case ScalarType::kBoolean:
      return value.AsBoolean() ? "true" : "false";
    case ScalarType::kFloat:
      return fmt::format("{}", static_cast<float>(value.AsDouble()));
    case ScalarType::kDouble:
      return fmt::format("{}", value.AsDouble());
    case ScalarType::kDecimal:
      return PlaceValue(DecimalDigits(value.AsDecimal()), DecimalScale(type));
    case ScalarType::kString:
      return Printable(value.AsBytes());
    case ScalarType::kBytes: {
      std::string hex = "0x";
      for (const char c : value.AsBytes())
        hex += fmt::format("{:02x}", static_cast<unsigned char>(c));
      return hex;
    }
    default:
      break;
  }
  const int64_t number = value.AsInt();
  const bool is_instant = type == "timestamp with local time zone";  // ORC's names
  const bool is_utc = type.ends_with(", utc)") || is_instant;
  if (type == "date") {
    constexpr int64_t kYear0Days = -719'528, kYear10000Days = 2'932'897;
    if (number < kYear0Days || number >= kYear10000Days) return fmt::format("{}", number);
    return FormatTime(number * 86'400'000).substr(0, 10);
  }
  if (type.starts_with("timestamp(ms")) return TimestampText(number, 1000, 3, is_utc);
  if (type.starts_with("timestamp(us") || type == "timestamp" || is_instant)
    return TimestampText(number, 1'000'000, 6, is_utc);
  if (type.starts_with("timestamp(ns")) return TimestampText(number, 1'000'000'000, 9, is_utc);
  if (type.starts_with("decimal(")) {
    return PlaceValue(fmt::format("{}", number), DecimalScale(type));
  }
  return fmt::format("{}", number);
}

JsonDoc ScalarJson(const Scalar& value, std::string_view type) {
  const std::string text = ScalarText(value, type);
  constexpr int64_t kExactInJsonMax = int64_t{1} << 53;
  switch (value.type()) {
    case ScalarType::kBoolean:
      return value.AsBoolean();
    case ScalarType::kInt8:
    case ScalarType::kInt16:
    case ScalarType::kInt32:
    case ScalarType::kInt64:
      // Numbers that others read as doubles stay exact as text.
      if (text != fmt::format("{}", value.AsInt())) return text;
      if (value.AsInt() > kExactInJsonMax || value.AsInt() < -kExactInJsonMax) return text;
      return value.AsInt();
    case ScalarType::kFloat:
    case ScalarType::kDouble:
      if (text == "inf" || text == "-inf" || text == "nan") return text;
      return value.AsDouble();
    default:
      return text;
  }
}

}  // namespace partforge::app
