#include "data/scalar.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/hash.h"

namespace partforge::data {
namespace {

std::string Hex(const Scalar& value) {
  return ToHex(AsBytes(EncodeSingleValue(value)));
}

// iceberg-format.md §8.3.
TEST(SingleValue, VectorsOfTheFormatDocument) {
  EXPECT_EQ(Hex(Scalar::Boolean(true)), "01");
  EXPECT_EQ(Hex(Scalar::Int32(34)), "22000000");
  EXPECT_EQ(Hex(Scalar::Int64(34)), "2200000000000000");
  EXPECT_EQ(Hex(Scalar::Int64(-1)), "ffffffffffffffff");
  EXPECT_EQ(Hex(Scalar::Float(1.5F)), "0000c03f");
  EXPECT_EQ(Hex(Scalar::Double(1.5)), "000000000000f83f");
  EXPECT_EQ(Hex(Scalar::Int32(17486)), "4e440000");
  EXPECT_EQ(Hex(Scalar::Int64(81'068'000'000)), "008307e012000000");
  EXPECT_EQ(Hex(Scalar::Int64(1'510'871'468'000'000)), "00c3262d215e0500");
  EXPECT_EQ(Hex(Scalar::String("iceberg")), "69636562657267");
  EXPECT_EQ(Hex(Scalar::Decimal(Int128::Of(1420))), "058c");
  EXPECT_EQ(Hex(Scalar::Decimal(Int128::Of(-1420))), "fa74");
  EXPECT_EQ(Hex(Scalar::Decimal(Int128::Of(128))), "0080");
  EXPECT_EQ(Hex(Scalar::Decimal(Int128::Of(-1))), "ff");
  EXPECT_EQ(Hex(Scalar::Decimal(Int128::Of(0))), "00");
}

TEST(SingleValue, EveryTypeComesBack) {
  for (const Scalar& value :
       {Scalar::Boolean(false), Scalar::Int32(-5), Scalar::Int64(int64_t{1} << 60),
        Scalar::Float(-0.0F), Scalar::Double(1e300), Scalar::String(""), Scalar::Bytes("\x00\xff"),
        Scalar::Decimal({.high = std::numeric_limits<int64_t>::min(), .low = 0}),
        Scalar::Decimal({.high = 5, .low = ~uint64_t{0}})}) {
    const std::string bytes = EncodeSingleValue(value);
    const auto back = DecodeSingleValue(value.type(), AsBytes(bytes), "c");
    ASSERT_TRUE(back.ok()) << back.status().ToString();
    EXPECT_EQ(*back, value);
  }
}

TEST(SingleValue, BoundsFromBeforeAPromotionAreRead) {
  const std::string four = EncodeSingleValue(Scalar::Int32(-34));
  EXPECT_EQ(DecodeSingleValue(ScalarType::kInt64, AsBytes(four), "c")->AsInt(), -34);
  const std::string real = EncodeSingleValue(Scalar::Float(1.5F));
  EXPECT_EQ(DecodeSingleValue(ScalarType::kDouble, AsBytes(real), "c")->AsDouble(), 1.5);
}

TEST(SingleValue, WrongLengthsAreCorruption) {
  const std::string three("abc");
  for (const ScalarType type : {ScalarType::kBoolean, ScalarType::kInt32, ScalarType::kInt64,
                                ScalarType::kFloat, ScalarType::kDouble}) {
    EXPECT_EQ(DecodeSingleValue(type, AsBytes(three), "c").status().code(), Code::kCorruption);
  }
  EXPECT_FALSE(DecodeSingleValue(ScalarType::kDecimal, {}, "c").ok());
  EXPECT_FALSE(DecodeSingleValue(ScalarType::kDecimal, AsBytes(std::string(17, 'x')), "c").ok());
}

TEST(Scalar, OrdersByTypeNotByBytesOfTheHost) {
  EXPECT_LT(Scalar::String("a"), Scalar::String("\xc3\xa9"));
  EXPECT_LT(Scalar::Double(-0.0), Scalar::Double(0.0));
  EXPECT_LT(Scalar::Double(std::numeric_limits<double>::infinity()), Scalar::Double(std::nan("")));
  EXPECT_LT(Scalar::Decimal(Int128::Of(-1)), Scalar::Decimal(Int128::Of(0)));
  EXPECT_LT(Scalar::Decimal(Int128::Of(1)), Scalar::Decimal({.high = 1, .low = 0}));
}

std::string Upper(std::string text, size_t length) {
  const auto raised = TruncateUpper(Scalar::String(std::move(text)), length);
  return raised ? raised->AsBytes() : "none";
}

// iceberg-format.md §8.2.
TEST(Truncate, CutsAtCodePointsAndRaisesTheUpperBound) {
  EXPECT_EQ(TruncateLower(Scalar::String("h\xc3\xa9llo"), 2).AsBytes(), "h\xc3\xa9");
  EXPECT_EQ(Upper("abc", 3), "abc");
  EXPECT_EQ(Upper("abcd", 3), "abd");
  EXPECT_EQ(Upper("ab\xf4\x8f\xbf\xbf"
                  "d",
                  3),
            "ac");  // U+10FFFF cannot be raised
  EXPECT_EQ(Upper("\xf4\x8f\xbf\xbf\xf4\x8f\xbf\xbf", 1), "none");
  EXPECT_EQ(Upper("\xed\x9f\xbf"
                  "x",
                  1),
            "\xee\x80\x80");  // U+D7FF jumps the surrogates
  EXPECT_EQ(Upper("\x7f"
                  "x",
                  1),
            "\xc2\x80");
  EXPECT_EQ(Upper("\xef\xbf\xbf"
                  "x",
                  1),
            "\xf0\x90\x80\x80");
}

// Forms that are longer than they need be, and surrogates, are no code points: the number they seem
// to be is below their bytes.
TEST(Truncate, BytesThatAreNoTextNeverMakeABoundBelowThem) {
  for (const char* bad :
       {"\xe0\x80\x80", "\xf0\x80\x80\x80", "\xc0\x80", "\xed\xa0\x80", "\xe0\x9f\xbf"}) {
    const std::string value = std::string("a") + bad + "z";
    const auto upper = TruncateUpper(Scalar::String(value), 2);
    ASSERT_TRUE(upper.has_value());
    EXPECT_GE(upper->AsBytes(), value) << bad;
    EXPECT_EQ(upper->AsBytes(), "b");
  }
}

TEST(Truncate, BytesAreRaisedAtTheLastThatIsNotFf) {
  EXPECT_EQ(TruncateUpper(Scalar::Bytes("a\xff\xff"
                                        "b"),
                          3)
                ->AsBytes(),
            "b");
  EXPECT_EQ(TruncateUpper(Scalar::Bytes("\xff\xff\xff"), 2), std::nullopt);
  EXPECT_EQ(TruncateUpper(Scalar::Bytes("\xff\xff"), 2)->AsBytes(), "\xff\xff");
  EXPECT_EQ(TruncateLower(Scalar::Bytes("abc"), 2).AsBytes(), "ab");
  EXPECT_EQ(TruncateUpper(Scalar::Int64(7), 1)->AsInt(), 7);
}

}  // namespace
}  // namespace partforge::data
