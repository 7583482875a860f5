#include "app/scalar_text.h"

#include <gtest/gtest.h>

#include <limits>

namespace partforge::app {
namespace {

using data::Int128;
using data::Scalar;

TEST(ScalarText, ReadsAsThePersonWroteTheValue) {
  EXPECT_EQ(ScalarText(Scalar::Int32(0), "date"), "1970-01-01");
  EXPECT_EQ(ScalarText(Scalar::Int32(-1), "date"), "1969-12-31");
  EXPECT_EQ(ScalarText(Scalar::Int64(-1), "timestamp(ms, utc)"), "1969-12-31T23:59:59.999Z");
  EXPECT_EQ(ScalarText(Scalar::Int64(1'700'000'000'123'456), "timestamp(us)"),
            "2023-11-14T22:13:20.123456");
  EXPECT_EQ(ScalarText(Scalar::Int64(1), "timestamp(ns)"), "1970-01-01T00:00:00.000000001");
  EXPECT_EQ(ScalarText(Scalar::Int64(-5), "decimal(9,2)"), "-0.05");
  EXPECT_EQ(ScalarText(Scalar::Decimal(Int128::Of(123'456)), "decimal(20,3)"), "123.456");
  EXPECT_EQ(ScalarText(Scalar::Decimal({.high = -1, .low = ~uint64_t{0}}), "decimal(38,0)"), "-1");
  EXPECT_EQ(ScalarText(Scalar::Decimal({.high = 1, .low = 0}), "decimal(38,0)"),
            "18446744073709551616");
  EXPECT_EQ(ScalarText(Scalar::String("a\nb"), "string"), "a\\x0ab");
  EXPECT_EQ(ScalarText(Scalar::Bytes(std::string("\x00\xff", 2)), "byte_array"), "0x00ff");
  EXPECT_EQ(ScalarText(Scalar::Boolean(true), "boolean"), "true");
  EXPECT_EQ(ScalarText(Scalar::Float(0.1F), "float"), "0.1");
}

TEST(ScalarText, ValuesBeyondTheCalendarStayNumbers) {
  EXPECT_EQ(ScalarText(Scalar::Int64(std::numeric_limits<int64_t>::max()), "timestamp(ms)"),
            "9223372036854775807");
  EXPECT_EQ(ScalarText(Scalar::Int64(std::numeric_limits<int64_t>::min()), "timestamp(us)"),
            "-9223372036854775808");
  EXPECT_EQ(ScalarText(Scalar::Int32(std::numeric_limits<int32_t>::max()), "date"), "2147483647");
}

}  // namespace
}  // namespace partforge::app
