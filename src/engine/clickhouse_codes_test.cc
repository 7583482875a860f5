#include "engine/clickhouse_codes.h"

#include <gtest/gtest.h>

#include <vector>

namespace partforge {
namespace {

struct Case {
  int number;
  std::string text;
  Code code;
  FailureClass failure_class;
};

void ExpectClass(const Case& c) {
  const ClickHouseFailure failure = ClassifyClickHouse(c.number, c.text);
  EXPECT_EQ(failure.code, c.code) << c.number << " " << c.text;
  EXPECT_EQ(failure.failure_class, c.failure_class) << c.number << " " << c.text;
}

TEST(ClickHouseCodes, EveryAnswerHasANumberAndARemedy) {
  for (const int number : {0, 60, 241, 99'999}) {
    const Status status = FromClickHouseCode(number, "DB::Exception: x");
    EXPECT_EQ(status.explanation().pf_number, 7014) << number;
    EXPECT_FALSE(status.explanation().what_to_do.empty()) << number;
  }
}

TEST(ClickHouseCodes, RowsOneToThreeAreResource) {
  for (const Case& c : std::vector<Case>{
           {241, "Memory limit (for query) exceeded", Code::kExhausted, FailureClass::kResource},
           {173, "", Code::kExhausted, FailureClass::kResource},
           {1001, "std::exception. type: std::bad_alloc", Code::kExhausted,
            FailureClass::kResource},
           {1002, "Cannot allocate memory", Code::kExhausted, FailureClass::kResource},
           {1002, "not enough memory", Code::kExhausted, FailureClass::kResource},
           {439, "", Code::kExhausted, FailureClass::kResource},
           {1000, "Too many threads", Code::kExhausted, FailureClass::kResource},
           {202, "", Code::kExhausted, FailureClass::kResource},
           {159, "Timeout exceeded while reading from pipe", Code::kExhausted,
            FailureClass::kResource}}) {
    ExpectClass(c);
  }
}

// Numbers of no row: the operating system's own number decides.
TEST(ClickHouseCodes, WhatTheSystemRefusesIsNotTheSqlsFault) {
  for (const Case& c : std::vector<Case>{
           {573, "Cannot open epoll descriptor: , errno: 24, strerror: Too many open files",
            Code::kRefused, FailureClass::kEnv},
           {460,
            "Cannot create timer_fd descriptor: , errno: 23, strerror: Too many open files in "
            "system",
            Code::kRefused, FailureClass::kEnv},
           {481, "Cannot create directory: , errno: 30, strerror: Read-only file system",
            Code::kRefused, FailureClass::kEnv},
           {70'000, "Cannot create thread: , errno: 11, strerror: Resource temporarily unavailable",
            Code::kExhausted, FailureClass::kResource},
           {481, "errno: 28, strerror: No space left on device", Code::kExhausted,
            FailureClass::kDisk},
           {395, "a user's own words, errno: 24, strerror: x", Code::kInvalidArgument,
            FailureClass::kData},
           {481, "errno: x", Code::kInvalidArgument, FailureClass::kSql},
           {481, "Cannot open: , errno: 36, strerror: File name too long", Code::kInvalidArgument,
            FailureClass::kSql},
           {481, "Cannot stat: , errno: 2, strerror: No such file or directory",
            Code::kInvalidArgument, FailureClass::kSql}}) {
    ExpectClass(c);
  }
}

TEST(ClickHouseCodes, NumbersWithSeveralMeaningsGoByTheirText) {
  for (const Case& c : std::vector<Case>{
           {252, "Too many partitions for single INSERT block (more than 100)",
            Code::kInvalidArgument, FailureClass::kSql},
           {252, "Too many parts (3001 with average size of 1 KiB)", Code::kExhausted,
            FailureClass::kResource},
           {252, "Cannot move 3 parts at once, the limit is 1", Code::kInvalidArgument,
            FailureClass::kInternal},
           {159, "Timeout exceeded: elapsed 1.2 seconds", Code::kUnavailable,
            FailureClass::kTransient},
           {159, "Distributed DDL task is not finished on 1 of 3 hosts", Code::kUnknownOutcome,
            FailureClass::kDoubt},
           {75, "Cannot write to file, errno: 28, strerror: No space left on device",
            Code::kExhausted, FailureClass::kDisk},
           {75, "Cannot write to file /x, errno: 30, strerror: Read-only file system",
            Code::kRefused, FailureClass::kEnv},
           {75, "Cannot write to file, errno: 122, strerror: Disk quota exceeded", Code::kExhausted,
            FailureClass::kDisk},
           {75, "Cannot write to file, errno: 5", Code::kInternal, FailureClass::kInternal},
           {74, "Cannot read from file /x, errno: 5, strerror: Input/output error",
            Code::kCorruption, FailureClass::kData},
           {74, "Cannot read from file descriptor", Code::kRefused, FailureClass::kEnv},
           {76, "Cannot open file /x, errno: 24, strerror: Too many open files", Code::kRefused,
            FailureClass::kEnv},
           {76, "Cannot open file /x, errno: 12, strerror: Cannot allocate memory",
            Code::kExhausted, FailureClass::kResource},
           {76, "Cannot open file /x, errno: 36, strerror: File name too long", Code::kCorruption,
            FailureClass::kData},
           {243, "", Code::kExhausted, FailureClass::kDisk},
           {36, "CompressionCodecEncrypted: no key", Code::kRefused, FailureClass::kEnv},
           {36, "Bad arguments", Code::kInvalidArgument, FailureClass::kSql},
           {76, "Cannot lock file /x/status. Another server instance", Code::kConflict,
            FailureClass::kEnv}}) {
    ExpectClass(c);
  }
}

TEST(ClickHouseCodes, SqlDataAndDamageAreNeverRetried) {
  for (const int number : {62, 46, 47, 16, 36, 42, 43, 44, 53, 70, 115, 386, 478, 701, 139, 225}) {
    ExpectClass({number, "", Code::kInvalidArgument, FailureClass::kSql});
  }
  for (const int number : {60, 81}) ExpectClass({number, "", Code::kNotFound, FailureClass::kSql});
  for (const int number : {452, 497}) ExpectClass({number, "", Code::kRefused, FailureClass::kSql});
  for (const int number : {6, 26, 27, 38, 41, 69, 153, 190, 349, 395, 407}) {
    ExpectClass({number, "", Code::kInvalidArgument, FailureClass::kData});
  }
  for (const int number : {40, 33, 4, 228, 226, 246, 271, 117, 432}) {
    ExpectClass({number, "", Code::kCorruption, FailureClass::kData});
  }
}

TEST(ClickHouseCodes, TransientCancelledInternalAndDoubt) {
  for (const int number : {242, 209, 210, 279}) {
    ExpectClass({number, "", Code::kUnavailable, FailureClass::kTransient});
  }
  ExpectClass({999, "", Code::kUnavailable, FailureClass::kSql});
  for (const int number : {394, 735, 236})
    ExpectClass({number, "", Code::kCancelled, FailureClass::kTransient});
  ExpectClass({233, "", Code::kInternal, FailureClass::kInternal});
  ExpectClass({319, "", Code::kUnknownOutcome, FailureClass::kDoubt});
  ExpectClass({373, "", Code::kConflict, FailureClass::kTransient});
  ExpectClass({777, "something new", Code::kInvalidArgument, FailureClass::kSql});
}

TEST(ClickHouseCodes, TheNumberIsReadFromTheText) {
  EXPECT_EQ(ClickHouseNumber("Code: 241. DB::Exception: x"), 241);
  EXPECT_EQ(ClickHouseNumber("insert chunk 3: Code: 62. DB::Exception"), 62);
  EXPECT_EQ(ClickHouseNumber("no code"), 0);
  EXPECT_EQ(ClickHouseNumber("Code: x."), 0);
  EXPECT_EQ(ClickHouseNumber("Code: 99999999999999."), 0);
}

TEST(ClickHouseCodes, TheStatusBeginsWithTheCodeAndDropsTheVersion) {
  const Status status = FromClickHouseCode(0,
                                           "Code: 60. DB::Exception: Table a.b does not exist. "
                                           "(UNKNOWN_TABLE) (version 26.7.3.1 (official build))\n");
  EXPECT_EQ(status.code(), Code::kNotFound);
  EXPECT_EQ(status.message(), "Code: 60. DB::Exception: Table a.b does not exist. (UNKNOWN_TABLE)");
  EXPECT_EQ(FromClickHouseCode(241, "memory").message(), "Code: 241. memory");
  EXPECT_EQ(FromClickHouseCode(0, "<html>").code(), Code::kInternal);
}

TEST(ClickHouseCodes, ClassOfAStatusSurvivesContext) {
  Status status = FromClickHouseCode(243, "full").With("insert range 3");
  EXPECT_EQ(status.code(), Code::kExhausted);
  EXPECT_EQ(FailureClassOf(status), FailureClass::kDisk);
  EXPECT_EQ(FailureClassOf(std::move(status).As(Code::kUnknownOutcome)), FailureClass::kDoubt);
  EXPECT_EQ(FailureClassOf(Status(Code::kUnavailable, "child died")), FailureClass::kTransient);
  EXPECT_EQ(FailureClassName(FailureClass::kDoubt), "doubt");
}

}  // namespace
}  // namespace partforge
