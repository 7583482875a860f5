#include "data/orc_statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "data/orc_tail.h"
#include "data/proto_wire.h"

namespace partforge::data {
namespace {

constexpr uint64_t kJavaWriter = 0;
// OrcFile.WriterVersion of Java's writer.
constexpr uint64_t kFixedStripeStatistics = 1;  // HIVE-8732
constexpr uint64_t kTimesInUtc = 6;             // ORC-135; other writers begin with this number
constexpr uint64_t kFixedDecimal64 = 7;         // ORC-517

constexpr int64_t kGregorianDays = -141'427;  // 1582-10-15
constexpr int64_t kMicrosADay = int64_t{86'400} * 1'000'000;

// Lower and upper bound as the message has them, in any order of fields.
struct Pair {
  std::optional<Scalar> lower = std::nullopt, upper = std::nullopt;
  bool lower_is_exact = true, upper_is_exact = true;
};

Pair Integers(std::string_view message, bool& ok) {
  Pair pair;
  ProtoReader fields(message);
  while (fields.Next()) {
    if (fields.number() == 1) pair.lower = Scalar::Int64(fields.Signed());
    if (fields.number() == 2) pair.upper = Scalar::Int64(fields.Signed());
  }
  ok = ok && fields.ok();
  return pair;
}

Pair Floats(std::string_view message, bool& ok) {
  Pair pair;
  std::optional<double> sum;
  ProtoReader fields(message);
  while (fields.Next()) {
    if (fields.number() == 1) pair.lower = Scalar::Double(fields.Double());
    if (fields.number() == 2) pair.upper = Scalar::Double(fields.Double());
    if (fields.number() == 3) sum = fields.Double();
  }
  ok = ok && fields.ok();
  const auto is_nan = [](const std::optional<Scalar>& bound) {
    return bound && std::isnan(bound->AsDouble());
  };
  if (!sum || std::isnan(*sum) || is_nan(pair.lower) || is_nan(pair.upper)) return {};
  return pair;
}

Pair Texts(std::string_view message, bool& ok) {
  Pair pair;
  ProtoReader fields(message);
  while (fields.Next()) {
    const uint64_t number = fields.number();
    if (number != 1 && number != 2 && number != 4 && number != 5) continue;
    Scalar value = Scalar::String(std::string(fields.Bytes()));
    const bool is_cut = number >= 4;  // ORC-203: what was cut has a name of its own
    if (number == 1 || number == 4) {
      pair.lower = std::move(value);
      pair.lower_is_exact = !is_cut;
    } else {
      pair.upper = std::move(value);
      pair.upper_is_exact = !is_cut;
    }
  }
  ok = ok && fields.ok();
  return pair;
}

// A number of true values.
Pair Booleans(std::string_view message, int64_t value_count, bool& ok) {
  ProtoReader fields(message);
  std::optional<uint64_t> trues;
  while (fields.Next()) {
    uint64_t count = 0;
    while (fields.number() == 1 && fields.NextUnsigned(count)) {
      if (!trues) trues = count;
    }
  }
  ok = ok && fields.ok();
  const auto values = static_cast<uint64_t>(value_count);
  if (!trues || *trues > values || values == 0) return {};
  Pair pair;
  pair.lower = Scalar::Boolean(*trues == values);
  pair.upper = Scalar::Boolean(*trues > 0);
  return pair;
}

// "-12.5" at a scale; none when it has more digits behind the point, or more than 38 in all.
std::optional<Scalar> DecimalOf(std::string_view text, int scale) {
  constexpr int kDigitsMax = 38;
  const bool is_negative = text.starts_with('-');
  if (is_negative || text.starts_with('+')) text.remove_prefix(1);
  __extension__ using Wide = unsigned __int128;
  Wide value = 0;
  int digits = 0, behind = -1;
  for (const char c : text) {
    if (c == '.' && behind < 0) {
      behind = 0;
      continue;
    }
    if (c < '0' || c > '9') return std::nullopt;
    if (behind >= 0) {
      if (behind == scale && c == '0') continue;
      if (++behind > scale) return std::nullopt;
    }
    value = value * 10 + static_cast<Wide>(c - '0');
    if (value != 0 && ++digits > kDigitsMax) return std::nullopt;
  }
  if (text.empty() || text == ".") return std::nullopt;
  for (int i = std::max(behind, 0); i < scale; ++i) {
    value *= 10;
    if (value != 0 && ++digits > kDigitsMax) return std::nullopt;
  }
  if (is_negative) value = ~value + 1;
  return Scalar::Decimal({.high = static_cast<int64_t>(static_cast<uint64_t>(value >> 64)),
                          .low = static_cast<uint64_t>(value)});
}

Pair Decimals(std::string_view message, int scale, bool& ok) {
  Pair pair;
  ProtoReader fields(message);
  while (fields.Next()) {
    if (fields.number() == 1) pair.lower = DecimalOf(fields.Bytes(), scale);
    if (fields.number() == 2) pair.upper = DecimalOf(fields.Bytes(), scale);
  }
  ok = ok && fields.ok();
  return pair;
}

Pair Dates(std::string_view message, bool& ok) {
  Pair pair = Integers(message, ok);
  for (std::optional<Scalar>* bound : {&pair.lower, &pair.upper}) {
    if (!*bound) continue;
    const int64_t days = (*bound)->AsInt();
    const bool is_told = days >= kGregorianDays && days <= std::numeric_limits<int32_t>::max();
    *bound = is_told ? std::optional(Scalar::Int32(static_cast<int32_t>(days))) : std::nullopt;
  }
  return pair;
}

// Milliseconds and, since ORC-611, the nanoseconds within, counted from one.
Pair Times(std::string_view message, bool& ok) {
  constexpr int64_t kMillisMax = std::numeric_limits<int64_t>::max() / 1000 - 1;
  std::optional<int64_t> lower, upper;
  int64_t lower_nanos = 0, upper_nanos = 999'999;
  ProtoReader fields(message);
  while (fields.Next()) {
    if (fields.number() == 3) lower = fields.Signed();
    if (fields.number() == 4) upper = fields.Signed();
    if (fields.number() != 5 && fields.number() != 6) continue;
    const auto nanos = static_cast<int64_t>(std::min<uint64_t>(fields.Unsigned(), 1'000'000)) - 1;
    if (fields.number() == 5) lower_nanos = std::max<int64_t>(nanos, 0);
    if (fields.number() == 6 && nanos >= 0) upper_nanos = nanos;
  }
  ok = ok && fields.ok();
  const auto is_told = [](const std::optional<int64_t>& millis) {
    return millis && *millis >= kGregorianDays * (kMicrosADay / 1000) && *millis <= kMillisMax;
  };
  Pair pair{.lower_is_exact = false, .upper_is_exact = false};
  if (is_told(lower)) pair.lower = Scalar::Int64(*lower * 1000 + lower_nanos / 1000);
  if (is_told(upper)) pair.upper = Scalar::Int64(*upper * 1000 + (upper_nanos + 999) / 1000);
  return pair;
}

}  // namespace

std::optional<OrcColumnStatistics> ParseOrcStatistics(std::string_view message, const OrcType& type,
                                                      const OrcWriter& writer) {
  OrcColumnStatistics statistics;
  // The messages of the kinds of values, by field number.
  constexpr uint64_t kIntegers = 2, kFloats = 3, kTexts = 4, kBuckets = 5, kDecimals = 6,
                     kDates = 7, kTimes = 9;
  std::string_view kinds[kTimes + 1];
  bool is_there[kTimes + 1] = {};
  ProtoReader fields(message);
  while (fields.Next()) {
    const uint64_t number = fields.number();
    if (number == 1 || number == 11) {
      const auto count = static_cast<int64_t>(
          std::min<uint64_t>(fields.Unsigned(), std::numeric_limits<int64_t>::max()));
      (number == 1 ? statistics.value_count : statistics.stored_bytes) = count;
    } else if (number == 10) {
      statistics.has_null = fields.Unsigned() != 0;
    } else if (number >= kIntegers && number <= kTimes) {
      kinds[number] = fields.Bytes();
      is_there[number] = true;
    }
  }
  bool ok = fields.ok();
  Pair pair;
  const bool is_java = writer.id == kJavaWriter;
  const bool has_bounds = !is_java || writer.version >= kFixedStripeStatistics;
  const auto has = [&](uint64_t kind) { return has_bounds && is_there[kind]; };
  switch (type.kind) {
    case OrcKind::kBoolean:
      if (has(kBuckets) && statistics.value_count) {
        pair = Booleans(kinds[kBuckets], *statistics.value_count, ok);
      }
      break;
    case OrcKind::kByte:
    case OrcKind::kShort:
    case OrcKind::kInt:
    case OrcKind::kLong:
      if (has(kIntegers)) pair = Integers(kinds[kIntegers], ok);
      break;
    case OrcKind::kFloat:
    case OrcKind::kDouble:
      if (has(kFloats)) pair = Floats(kinds[kFloats], ok);
      break;
    case OrcKind::kString:
    case OrcKind::kVarchar:
      if (has(kTexts)) pair = Texts(kinds[kTexts], ok);
      break;
    case OrcKind::kDecimal:
      // Without a precision (Hive 0.11) readers do not agree on the scale.
      if (has(kDecimals) && type.precision > 0 && (!is_java || writer.version >= kFixedDecimal64)) {
        pair = Decimals(kinds[kDecimals], type.scale, ok);
      }
      break;
    case OrcKind::kDate:
      if (has(kDates)) pair = Dates(kinds[kDates], ok);
      break;
    case OrcKind::kTimestamp:
    case OrcKind::kTimestampInstant:
      if (has(kTimes) && writer.version >= kTimesInUtc) pair = Times(kinds[kTimes], ok);
      break;
    default:
      break;
  }
  if (!ok) return std::nullopt;
  // Bounds that contradict each other are bounds of nothing.
  if (pair.lower && pair.upper && *pair.lower > *pair.upper) return statistics;
  if (pair.lower) statistics.lower = Bound{*std::move(pair.lower), pair.lower_is_exact};
  if (pair.upper) statistics.upper = Bound{*std::move(pair.upper), pair.upper_is_exact};
  return statistics;
}

}  // namespace partforge::data
