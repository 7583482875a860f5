#include "base/units.h"

#include <gtest/gtest.h>

#include <limits>

#include "testing/test_world.h"

namespace partforge {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
constexpr int64_t kMin = std::numeric_limits<int64_t>::min();

TEST(ParseSize, ReadsBinaryAndDecimalSuffixes) {
  EXPECT_EQ(ParseSize("0").value(), 0);
  EXPECT_EQ(ParseSize("161061273600").value(), 161061273600);
  EXPECT_EQ(ParseSize("150GiB").value(), 161061273600);
  EXPECT_EQ(ParseSize("128MB").value(), 128'000'000);
  EXPECT_EQ(ParseSize("4k").value(), 4096);
  EXPECT_EQ(ParseSize("2G").value(), int64_t{2} << 30);
  EXPECT_EQ(ParseSize("1kB").value(), 1000);
  EXPECT_EQ(ParseSize("3KiB").value(), 3072);
  EXPECT_EQ(ParseSize("1TiB").value(), int64_t{1} << 40);
  EXPECT_EQ(ParseSize("1PiB").value(), int64_t{1} << 50);
  EXPECT_EQ(ParseSize("7B").value(), 7);
}

TEST(ParseSize, TakesFractionsOfUnitsAndOneBlank) {
  EXPECT_EQ(ParseSize("1.5GiB").value(), int64_t{3} << 29);
  EXPECT_EQ(ParseSize("0.5k").value(), 512);
  EXPECT_EQ(ParseSize("150 GiB").value(), 161061273600);
}

TEST(ParseSize, RefusesWhatIsNoSize) {
  for (const char* text : {"", " ", "GiB", "-1", "+1", "1.5", "1.5B", "1 ", " 1", "1XB", "1KiBs",
                           "1Ki", "1e3", "0x10", "1,000", "k4", ".", ".k"}) {
    EXPECT_EQ(ParseSize(text).status().code(), Code::kInvalidArgument) << text;
  }
}

TEST(ParseSize, RefusesMoreThan64Bits) {
  EXPECT_EQ(ParseSize("9223372036854775807").value(), kMax);
  EXPECT_FALSE(ParseSize("9223372036854775808").ok());
  EXPECT_EQ(ParseSize("8191PiB").value(), int64_t{8191} << 50);
  EXPECT_FALSE(ParseSize("8192PiB").ok());
  EXPECT_FALSE(ParseSize("9223372036854775807P").ok());
  EXPECT_FALSE(ParseSize("99999999999999999999999999999999999999999999").ok());
}

TEST(ParseDuration, ReadsGoDurationsAndOurLongUnits) {
  EXPECT_EQ(ParseDurationMs("500ms").value(), 500);
  EXPECT_EQ(ParseDurationMs("1d12h30m").value(), (36 * 60 + 30) * int64_t{60'000});
  EXPECT_EQ(ParseDurationMs("1h30m5s").value(), 5'405'000);
  EXPECT_EQ(ParseDurationMs("1.5h").value(), 5'400'000);
  EXPECT_EQ(ParseDurationMs(".5s").value(), 500);
  EXPECT_EQ(ParseDurationMs("1.s").value(), 1000);
  EXPECT_EQ(ParseDurationMs("2w").value(), 14 * int64_t{86'400'000});
  EXPECT_EQ(ParseDurationMs("1y").value(), 365 * int64_t{86'400'000});
  EXPECT_EQ(ParseDurationMs("0").value(), 0);
  EXPECT_EQ(ParseDurationMs("0s").value(), 0);
}

TEST(ParseDuration, RoundsTheSumDownToMilliseconds) {
  EXPECT_EQ(ParseDurationMs("999999ns").value(), 0);
  EXPECT_EQ(ParseDurationMs("1000us").value(), 1);
  EXPECT_EQ(ParseDurationMs("1000\u00b5s").value(), 1);
  EXPECT_EQ(ParseDurationMs("999us1us").value(), 1);
}

TEST(ParseDuration, RefusesWhatIsNoDuration) {
  for (const char* text : {"", "1", "1.5", "-1s", "+1s", "s", "1 s", "1s ", "1sec", "1M", "1h30",
                           ".s", "1..5s", "00"}) {
    EXPECT_EQ(ParseDurationMs(text).status().code(), Code::kInvalidArgument) << text;
  }
}

TEST(ParseDuration, RefusesMoreThan292Years) {
  EXPECT_TRUE(ParseDurationMs("292y").ok());
  EXPECT_FALSE(ParseDurationMs("293y").ok());
  EXPECT_FALSE(ParseDurationMs("9223372036854775807y9223372036854775807y").ok());
}

TEST(ParseTime, ReadsRfc3339AndDates) {
  EXPECT_EQ(ParseTimeMs("1970-01-01").value(), 0);
  EXPECT_EQ(ParseTimeMs("2026-10-11T12:13:14.123Z").value(), 1791720794123);
  EXPECT_EQ(ParseTimeMs("2026-10-11t12:13:14.123z").value(), 1791720794123);
  EXPECT_EQ(ParseTimeMs("2026-10-11T14:13:14.123+02:00").value(), 1791720794123);
  EXPECT_EQ(ParseTimeMs("2026-10-11T10:43:14.123-01:30").value(), 1791720794123);
  EXPECT_EQ(ParseTimeMs("2026-10-11 12:13:14").value(), 1791720794000);
  EXPECT_EQ(ParseTimeMs("2026-10-11 12:13:14.1").value(), 1791720794100);
  EXPECT_EQ(ParseTimeMs("2026-10-11 12:13:14.123999999").value(), 1791720794123);
  EXPECT_EQ(ParseTimeMs("2024-02-29").value(), 1709164800000);
  EXPECT_EQ(ParseTimeMs("1969-12-31 23:59:59.999").value(), -1);
}

TEST(ParseTime, RefusesWhatIsNoTime) {
  for (const char* text :
       {"", "2026", "2026-13-01", "2026-00-01", "2026-02-29", "2026-1-1", "26-10-11",
        "2026-10-11 24:00:00", "2026-10-11 12:60:00", "2026-10-11 12:13:60", "2026-10-11 12:13",
        "2026-10-11T12:13:14.", "2026-10-11T12:13:14.1234567890Z", "2026-10-11T12:13:14+0200",
        "2026-10-11T12:13:14+24:00", "2026-10-11T12:13:14Zx", "2026-10-11x12:13:14", " 2026-10-11",
        "2026-10-11 "}) {
    EXPECT_EQ(ParseTimeMs(text).status().code(), Code::kInvalidArgument) << text;
  }
}

TEST(FormatTime, IsReadBackForAnyTime) {
  EXPECT_EQ(FormatTime(1791720794123), "2026-10-11T12:13:14.123Z");
  EXPECT_EQ(FormatTime(0), "1970-01-01T00:00:00.000Z");
  EXPECT_EQ(FormatTime(-1), "1969-12-31T23:59:59.999Z");
  const uint64_t seed = testing::TestSeed();
  SCOPED_TRACE(seed);
  testing::SeededRandom random(seed);
  for (int i = 0; i < 1000; ++i) {
    // Years 1800 to about 2500.
    const int64_t ms =
        static_cast<int64_t>(RandomBelow(random, 22'000'000'000'000)) - 5'364'662'400'000;
    EXPECT_EQ(ParseTimeMs(FormatTime(ms)).value(), ms);
  }
}

TEST(FormatBytes, ShowsThreeDigits) {
  EXPECT_EQ(FormatBytes(0), "0 B");
  EXPECT_EQ(FormatBytes(999), "999 B");
  EXPECT_EQ(FormatBytes(1024), "1.00 KiB");
  EXPECT_EQ(FormatBytes(3446711255), "3.21 GiB");
  EXPECT_EQ(FormatBytes(int64_t{128} << 20), "128 MiB");
  EXPECT_EQ(FormatBytes(10'276'045), "9.80 MiB");
  EXPECT_EQ(FormatBytes(kMax), "8.00 EiB");
  EXPECT_EQ(FormatBytes(-2048), "-2.00 KiB");
  EXPECT_EQ(FormatBytes(kMin), "-8.00 EiB");
}

TEST(FormatBytes, NeverRoundsUpTo1024) {
  EXPECT_EQ(FormatBytes(1024 * 1024 - 1), "1.00 MiB");
  EXPECT_EQ(FormatBytes(1023 * 1024), "1023 KiB");
  EXPECT_EQ(FormatBytes(10 * 1024 - 1), "10.0 KiB");
  EXPECT_EQ(FormatBytes(100 * 1024 - 1), "100 KiB");
}

TEST(FormatBytesShort, HasOneDecimalUnlessIntegral) {
  EXPECT_EQ(FormatBytesShort(0), "0B");
  EXPECT_EQ(FormatBytesShort(1023), "1023B");
  EXPECT_EQ(FormatBytesShort(1024), "1KB");
  EXPECT_EQ(FormatBytesShort(1536), "1.5KB");
  EXPECT_EQ(FormatBytesShort(int64_t{5} << 30), "5GB");
  EXPECT_EQ(FormatBytesShort(int64_t{2048} << 50), "2048PB");
}

TEST(FormatCount, GroupsDigitsByThree) {
  EXPECT_EQ(FormatCount(0), "0");
  EXPECT_EQ(FormatCount(999), "999");
  EXPECT_EQ(FormatCount(1000), "1 000");
  EXPECT_EQ(FormatCount(12345678), "12 345 678");
  EXPECT_EQ(FormatCount(-123456), "-123 456");
  EXPECT_EQ(FormatCount(kMin), "-9 223 372 036 854 775 808");
}

TEST(FormatDuration, ChoosesTwoUnits) {
  EXPECT_EQ(FormatDurationMs(0), "0 ms");
  EXPECT_EQ(FormatDurationMs(412), "412 ms");
  EXPECT_EQ(FormatDurationMs(8100), "8.1 s");
  EXPECT_EQ(FormatDurationMs(59'949), "59.9 s");
  EXPECT_EQ(FormatDurationMs(59'950), "1m00s");
  EXPECT_EQ(FormatDurationMs(72'000), "1m12s");
  EXPECT_EQ(FormatDurationMs(3'599'600), "1h00m");
  EXPECT_EQ(FormatDurationMs(7'380'000), "2h03m");
  EXPECT_EQ(FormatDurationMs((3 * 24 + 4) * int64_t{3'600'000}), "3d04h");
  EXPECT_EQ(FormatDurationMs(-412), "-412 ms");
  EXPECT_EQ(FormatDurationMs(kMin).front(), '-');
}

TEST(FormatAge, SaysOneUnit) {
  constexpr int64_t kNow = 1'760'000'000'000;
  EXPECT_EQ(FormatAge(kNow, kNow), "now");
  EXPECT_EQ(FormatAge(kNow - 999, kNow), "now");
  EXPECT_EQ(FormatAge(kNow - 59'999, kNow), "59 s ago");
  EXPECT_EQ(FormatAge(kNow - 60'000, kNow), "1 min ago");
  EXPECT_EQ(FormatAge(kNow - 3'599'999, kNow), "59 min ago");
  EXPECT_EQ(FormatAge(kNow - 3'600'000, kNow), "1 h ago");
  EXPECT_EQ(FormatAge(kNow - 2 * int64_t{86'400'000} + 1, kNow), "47 h ago");
  EXPECT_EQ(FormatAge(kNow - 2 * int64_t{86'400'000}, kNow), "2 d ago");
  EXPECT_EQ(FormatAge(0, kNow), "20370 d ago");
  EXPECT_EQ(FormatAge(kNow + 180'000, kNow), "in 3 min") << "a clock that is ahead";
}

}  // namespace
}  // namespace partforge
