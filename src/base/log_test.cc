#include "base/log.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/json.h"
#include "testing/sim_clock.h"

namespace partforge {
namespace {

constexpr int64_t kNowMs = 1791720794123;  // 2026-10-11T12:13:14.123Z

class LogTest : public ::testing::Test {
 protected:
  Log Make(LogLevel level, LogFormat format,
           std::vector<std::pair<std::string, std::string>> common = {}) {
    return Log(clock_, Log::Options{.level = level, .format = format, .common = std::move(common)},
               [this](std::string_view line) { lines_ += line; });
  }
  testing::SimClock clock_{kNowMs};
  std::string lines_;
};

TEST_F(LogTest, TextIsOneEventALineWithKeys) {
  Log log = Make(LogLevel::kInfo, LogFormat::kText);
  const std::string job = "job-1";
  log.Info("part attached",
           {{"job", job}, {"part", "all_1_1_0"}, {"took_ms", 12}, {"is_last", true}});
  log.Error("failed");
  EXPECT_EQ(lines_,
            "2026-10-11T12:13:14.123Z INFO  part attached job=job-1 part=all_1_1_0 took_ms=12 "
            "is_last=true\n"
            "2026-10-11T12:13:14.123Z ERROR failed\n");
}

TEST_F(LogTest, JsonParsesWithTypesAndCommonKeys) {
  Log log = Make(LogLevel::kInfo, LogFormat::kJson, {{"component", "worker"}});
  log.Warn("slow \"disk\"\n",
           {{"bytes", std::numeric_limits<uint64_t>::max()}, {"share", 0.5}, {"path", "a\tb\x01"}});
  const auto doc = ParseJson(lines_);
  ASSERT_TRUE(doc.ok()) << lines_;
  EXPECT_EQ(
      DumpJson(*doc),
      R"({"ts":"2026-10-11T12:13:14.123Z","level":"warn","msg":"slow \"disk\"\n","component":"worker",)"
      R"("bytes":18446744073709551615,"share":0.5,"path":"a\tb\u0001"})");
}

TEST_F(LogTest, NumbersThatJsonLacksAreNull) {
  Log log = Make(LogLevel::kInfo, LogFormat::kJson);
  log.Info("x", {{"a", std::numeric_limits<double>::infinity()}, {"b", std::nan("")}});
  EXPECT_TRUE(ParseJson(lines_).ok()) << lines_;
}

TEST_F(LogTest, HostileValuesCannotForgeALine) {
  Log log = Make(LogLevel::kInfo, LogFormat::kText);
  log.Info("x",
           {{"name", "a\n2026 ERROR forged"}, {"empty", ""}, {"pair", "k=v"}, {"quote", "\""}});
  EXPECT_EQ(
      lines_,
      "2026-10-11T12:13:14.123Z INFO  x name=\"a\\n2026 ERROR forged\" empty=\"\" pair=\"k=v\" "
      "quote=\"\\\"\"\n");
}

TEST_F(LogTest, WritesOnlyFromItsLevelOn) {
  Log log = Make(LogLevel::kWarn, LogFormat::kText);
  log.Trace("t");
  log.Debug("d");
  log.Info("i");
  EXPECT_EQ(lines_, "");
  log.Warn("w");
  EXPECT_NE(lines_, "");
  EXPECT_TRUE(log.IsOn(LogLevel::kError));
  EXPECT_FALSE(Make(LogLevel::kOff, LogFormat::kText).IsOn(LogLevel::kError));
}

TEST_F(LogTest, SecretsArePrintedAsStarsEverywhere) {
  for (const LogFormat format : {LogFormat::kText, LogFormat::kJson}) {
    lines_.clear();
    Log log = Make(LogLevel::kInfo, format);
    log.AddSecret("hunter2");
    log.Info("using hunter2", {{"url", "http://u:hunter2@host/?p=hunter2"}, {"hunter2", 1}});
    EXPECT_EQ(lines_.find("hunter2"), std::string::npos) << lines_;
    EXPECT_NE(lines_.find("http://u:***@host"), std::string::npos) << lines_;
  }
}

TEST_F(LogTest, SecretsWithEscapedBytesAreHiddenToo) {
  Log log = Make(LogLevel::kInfo, LogFormat::kJson);
  log.AddSecret("pass\"word\\1");
  log.Info("x", {{"value", "pass\"word\\1"}});
  EXPECT_EQ(lines_.find("word"), std::string::npos) << lines_;
}

TEST_F(LogTest, ShortSecretsWouldHideEverything) {
  Log log = Make(LogLevel::kInfo, LogFormat::kText);
  log.AddSecret("abc");
  log.AddSecret("");
  EXPECT_EQ(log.Redact("abc"), "abc");
  log.AddSecret("****");
  EXPECT_EQ(log.Redact("a****b"), "a***b");
}

TEST_F(LogTest, LinesOfSeveralThreadsStayWhole) {
  std::mutex mutex;
  std::vector<std::string> lines;
  Log log(clock_, Log::Options{}, [&](std::string_view line) {
    const std::lock_guard lock(mutex);
    lines.emplace_back(line);
  });
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 100; ++i) {
          log.Info("x", {{"i", i}});
          log.AddSecret("secret");
        }
      });
    }
  }
  EXPECT_EQ(lines.size(), 400u);
  for (const std::string& line : lines) EXPECT_EQ(line.find('\n'), line.size() - 1);
}

TEST(Secret, RevealsOnlyOnRequest) {
  EXPECT_EQ(Secret("abc").Reveal(), "abc");
  EXPECT_TRUE(Secret().empty());
}

}  // namespace
}  // namespace partforge
