#include "engine/http_answer.h"

#include <gtest/gtest.h>

#include "engine/clickhouse_codes.h"

namespace partforge {
namespace {

TEST(HttpAnswer, TheHeaderNamesTheErrorTheBodyTellsIt) {
  const std::string body =
      "Code: 241. DB::Exception: Memory limit (for query) exceeded. (MEMORY_LIMIT_EXCEEDED) "
      "(version 24.8.1)\n";
  const Status status = CheckAnswer(500, {{"x-clickhouse-exception-code", "241"}}, body);
  EXPECT_EQ(status.code(), Code::kExhausted);
  EXPECT_EQ(status.message(),
            "Code: 241. DB::Exception: Memory limit (for query) exceeded. (MEMORY_LIMIT_EXCEEDED)");
  EXPECT_EQ(CheckAnswer(404, {}, "Code: 60. DB::Exception: x").code(), Code::kNotFound);
  EXPECT_TRUE(CheckAnswer(200, {}, "Code: 60. is a row here").ok());
}

TEST(HttpAnswer, WrongCredentialsAndStrangersSayWhatToDo) {
  EXPECT_EQ(CheckAnswer(403, {{"x-clickhouse-exception-code", "516"}}, "x").explanation().pf_number,
            7009);
  EXPECT_EQ(CheckAnswer(401, {}, "<html>").code(), Code::kRefused);
  EXPECT_EQ(CheckAnswer(503, {}, "<html>").code(), Code::kUnavailable);
  EXPECT_EQ(CheckAnswer(404, {}, "<html>").explanation().pf_number, 7008);
}

TEST(HttpAnswer, TheSummaryIsReadAndNeverTrusted) {
  const auto outcome = ReadSummary(
      {{"x-clickhouse-summary", R"({"read_rows":"5","written_rows":"3","written_bytes":"24"})"}});
  EXPECT_EQ(outcome.read_rows, 5);
  EXPECT_EQ(outcome.written_rows, 3);
  EXPECT_EQ(outcome.written_bytes, 24);
  for (const char* text : {"", "{", "[]", R"({"read_rows":5})", R"({"read_rows":"x"})"}) {
    EXPECT_EQ(ReadSummary({{"x-clickhouse-summary", text}}).read_rows, 0) << text;
  }
}

TEST(HttpAnswer, ALateErrorOfOurEngineNeedsABrokenBody) {
  const std::string tail = "1\n2\n\r\n__exception__\r\nCode: 395. DB::Exception: x (Y)\n";
  const auto late = FindLateException(tail, {}, BodyEnd::kBrokenOff);
  ASSERT_TRUE(late.has_value());
  EXPECT_EQ(late->offset, 4U);
  EXPECT_EQ(ClickHouseNumber(late->status), 395);
  EXPECT_FALSE(FindLateException(tail, {}, BodyEnd::kProper).has_value());
  EXPECT_FALSE(FindLateException("1\n2\n", {}, BodyEnd::kBrokenOff).has_value());
  EXPECT_FALSE(FindLateException("__exception__\r\nno code", {}, BodyEnd::kBrokenOff).has_value());
}

TEST(HttpAnswer, ALateErrorOfAServerNeedsItsTag) {
  const AnswerHeaders headers = {{"x-clickhouse-exception-tag", "abcdefgh"}};
  const std::string tail =
      "1\n\r\n__exception__\r\nabcdefgh\r\nCode: 241. DB::Exception: m (N)\n34 "
      "abcdefgh\r\n__exception__\r\n";
  const auto late = FindLateException(tail, headers, BodyEnd::kProper);
  ASSERT_TRUE(late.has_value());
  EXPECT_EQ(late->status.message(), "Code: 241. DB::Exception: m (N)");
  EXPECT_FALSE(
      FindLateException("1\n\r\n__exception__\r\nother\r\nCode: 1. x", headers, BodyEnd::kProper)
          .has_value());
}

TEST(HttpAnswer, OnlyReadsLoseTheirAnswerWithoutDoubt) {
  for (const char* sql :
       {"SELECT 1", " -- c\n show tables", "EXPLAIN SELECT 1", "exists table t", "CHECK TABLE t"}) {
    EXPECT_TRUE(IsReadStatement(sql)) << sql;
  }
  for (const char* sql : {"INSERT INTO t SELECT 1", "WITH 1 AS x INSERT INTO t SELECT x",
                          "ALTER TABLE t FREEZE", "", "'"}) {
    EXPECT_FALSE(IsReadStatement(sql)) << sql;
  }
}

}  // namespace
}  // namespace partforge
