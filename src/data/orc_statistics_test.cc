#include "data/orc_statistics.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "data/orc_tail.h"
#include "data/proto_wire.h"

namespace partforge::data {
namespace {

std::string Varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes.push_back(static_cast<char>(value | 0x80));
  bytes.push_back(static_cast<char>(value));
  return bytes;
}
std::string Number(uint64_t field, uint64_t value) {
  return Varint(field << 3) + Varint(value);
}
std::string Signed(uint64_t field, int64_t value) {
  return Number(field,
                (static_cast<uint64_t>(value) << 1) ^ (value < 0 ? ~uint64_t{0} : uint64_t{0}));
}
std::string Text(uint64_t field, const std::string& bytes) {
  return Varint(field << 3 | 2) + Varint(bytes.size()) + bytes;
}
std::string Real(uint64_t field, double value) {
  std::string bytes = Varint(field << 3 | 1);
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  return bytes;
}

constexpr uint64_t kJava = 0, kCpp = 1;
OrcColumnStatistics Parse(OrcKind kind, const std::string& message, OrcWriter writer = {0, 9, ""}) {
  const OrcType type{.kind = kind, .end = 1, .precision = 12, .scale = 2};
  const auto statistics = ParseOrcStatistics(message, type, writer);
  EXPECT_TRUE(statistics);
  return statistics.value_or(OrcColumnStatistics());
}

TEST(ProtoReader, WalksOverAllKindsOfFieldsAndStopsAtWhatIsNone) {
  const std::string message = Number(1, 300) + Signed(2, -7) + Text(3, "abc") + Real(4, 1.5) +
                              Text(5, Varint(1) + Varint(1000)) + Number(5, 9);
  ProtoReader fields(message);
  ASSERT_TRUE(fields.Next());
  EXPECT_EQ(fields.Unsigned(), 300U);
  ASSERT_TRUE(fields.Next());
  EXPECT_EQ(fields.Signed(), -7);
  ASSERT_TRUE(fields.Next());
  EXPECT_EQ(fields.Bytes(), "abc");
  ASSERT_TRUE(fields.Next());
  EXPECT_EQ(fields.Double(), 1.5);
  std::vector<uint64_t> numbers;
  uint64_t number = 0;
  while (fields.Next()) {
    while (fields.NextUnsigned(number)) numbers.push_back(number);
  }
  EXPECT_TRUE(fields.ok());
  EXPECT_EQ(numbers, (std::vector<uint64_t>{1, 1000, 9}));
  for (size_t length = 0; length < message.size(); ++length) {
    ProtoReader cut(std::string_view(message).substr(0, length));
    while (cut.Next()) continue;
  }
  ProtoReader other(message);
  ASSERT_TRUE(other.Next());
  EXPECT_EQ(other.Bytes(), "");
  EXPECT_FALSE(other.ok());
  EXPECT_FALSE(other.Next());
  ProtoReader group(std::string_view("\x0b", 1));
  EXPECT_FALSE(group.Next());
  EXPECT_FALSE(group.ok());
}

TEST(OrcStatistics, CountsAndBoundsAreThoseOfTheMessage) {
  const auto integers = Parse(OrcKind::kLong, Number(1, 12) + Number(10, 1) + Number(11, 345) +
                                                  Text(2, Signed(1, -5) + Signed(2, 1'000'000)));
  EXPECT_EQ(integers.value_count, 12);
  EXPECT_EQ(integers.has_null, true);
  EXPECT_EQ(integers.stored_bytes, 345);
  EXPECT_EQ(integers.lower->value, Scalar::Int64(-5));
  EXPECT_EQ(integers.upper->value, Scalar::Int64(1'000'000));
  const auto texts = Parse(OrcKind::kString, Text(4, Text(4, "ab") + Text(2, "zz")));
  EXPECT_EQ(texts.lower->value, Scalar::String("ab"));
  EXPECT_FALSE(texts.lower->is_exact);
  EXPECT_TRUE(texts.upper->is_exact);
  const auto trues = [](uint64_t count) {
    return Parse(OrcKind::kBoolean, Number(1, 10) + Text(5, Text(1, Varint(count))));
  };
  EXPECT_EQ(trues(0).upper->value, Scalar::Boolean(false));
  EXPECT_EQ(trues(10).lower->value, Scalar::Boolean(true));
  EXPECT_EQ(trues(4).lower->value, Scalar::Boolean(false));
  EXPECT_EQ(trues(4).upper->value, Scalar::Boolean(true));
  EXPECT_FALSE(trues(11).lower);
}

TEST(OrcStatistics, FloatsAreBelievedOnlyWhenTheirSumIsANumber) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto floats = [&](const std::string& message) {
    return Parse(OrcKind::kDouble, Text(3, message));
  };
  EXPECT_EQ(floats(Real(1, 1) + Real(2, 2) + Real(3, 9)).upper->value, Scalar::Double(2));
  EXPECT_FALSE(floats(Real(1, 1) + Real(2, 2) + Real(3, nan)).upper);
  EXPECT_FALSE(floats(Real(1, 1) + Real(2, 2)).lower);
  EXPECT_FALSE(floats(Real(1, nan) + Real(2, nan) + Real(3, 1)).lower);
}

TEST(OrcStatistics, DecimalsHaveTheScaleOfTheColumn) {
  const auto decimals = [](const std::string& lower, const std::string& upper,
                           OrcWriter writer = {kJava, 7, ""}) {
    return Parse(OrcKind::kDecimal, Text(6, Text(1, lower) + Text(2, upper)), writer);
  };
  EXPECT_EQ(decimals("-1.5", "12").lower->value, Scalar::Decimal(Int128::Of(-150)));
  EXPECT_EQ(decimals("-1.5", "12").upper->value, Scalar::Decimal(Int128::Of(1200)));
  EXPECT_EQ(decimals("0.010", "0.0100").lower->value, Scalar::Decimal(Int128::Of(1)));
  EXPECT_FALSE(decimals("1.005", "2").lower);
  EXPECT_FALSE(decimals("1e5", "2").lower);
  EXPECT_FALSE(decimals("", "2").lower);
  EXPECT_FALSE(decimals(std::string(40, '9'), "2").lower);
  EXPECT_EQ(decimals(std::string(36, '9'), "2").lower, std::nullopt) << "above the upper bound";
  EXPECT_FALSE(decimals("1", "2", {kJava, 6, ""}).lower);
  EXPECT_TRUE(decimals("1", "2", {kCpp, 6, ""}).lower);
}

TEST(OrcStatistics, TimesAreThoseInUtcAndDaysThoseOfOneCalendar) {
  const auto times = [](const std::string& message, OrcWriter writer = {kJava, 6, ""}) {
    return Parse(OrcKind::kTimestamp, Text(9, message), writer);
  };
  const auto both = times(Signed(3, 1000) + Signed(4, 2000) + Number(5, 1501) + Number(6, 2001));
  EXPECT_EQ(both.lower->value, Scalar::Int64(1'000'001));
  EXPECT_EQ(both.upper->value, Scalar::Int64(2'000'002));
  EXPECT_EQ(times(Signed(3, 1000) + Signed(4, 2000)).upper->value, Scalar::Int64(2'001'000));
  EXPECT_FALSE(times(Signed(1, 1000) + Signed(2, 2000)).lower);
  EXPECT_FALSE(times(Signed(3, 1000), {kJava, 5, ""}).lower);
  EXPECT_FALSE(times(Signed(3, std::numeric_limits<int64_t>::min())).lower);
  EXPECT_FALSE(times(Signed(4, std::numeric_limits<int64_t>::max())).upper);
  const auto days = Parse(OrcKind::kDate, Text(7, Signed(1, -200'000) + Signed(2, 19'000)));
  EXPECT_FALSE(days.lower);
  EXPECT_EQ(days.upper->value, Scalar::Int32(19'000));
}

TEST(OrcStatistics, WhatOldWritersMixedUpOrContradictsItselfIsNoBound) {
  const std::string text = Text(4, Text(1, "a") + Text(2, "b"));
  EXPECT_FALSE(Parse(OrcKind::kString, text, {kJava, 0, ""}).lower);
  EXPECT_TRUE(Parse(OrcKind::kString, text, {kJava, 1, ""}).lower);
  EXPECT_FALSE(Parse(OrcKind::kChar, text).lower);
  EXPECT_FALSE(Parse(OrcKind::kLong, text).lower);
  EXPECT_FALSE(Parse(OrcKind::kLong, Text(2, Signed(1, 5) + Signed(2, 4))).upper);
  EXPECT_FALSE(ParseOrcStatistics("\xff", {.kind = OrcKind::kLong}, {}));
  EXPECT_FALSE(ParseOrcStatistics(Text(2, "\xff"), {.kind = OrcKind::kLong}, {0, 9, ""}));
}

}  // namespace
}  // namespace partforge::data
