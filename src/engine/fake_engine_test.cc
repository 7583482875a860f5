#include "testing/fake_engine.h"

#include <gtest/gtest.h>

#include "testing/engine_child_fixture.h"

namespace partforge::testing {
namespace {

TEST(FakeEngine, RulesForOneUseComeFirstThenTheLastGiven) {
  TestWorld world;
  FakeEngine engine;
  engine.Answer("SELECT", "old\n").Answer("SELECT 1", "new\n").AnswerOnce("SELECT", "once\n");
  EXPECT_EQ(engine.Query(world.context(), " SELECT 1", {})->text, "once\n");
  EXPECT_EQ(engine.Query(world.context(), "SELECT 1", {})->text, "new\n");
  EXPECT_EQ(engine.Query(world.context(), "SELECT 2", {})->text, "old\n");
  EXPECT_EQ(engine.asked().size(), 3U);
  EXPECT_TRUE(engine.unused().empty());
}

TEST(FakeEngine, WhatNobodyExpectedFails) {
  TestWorld world;
  FakeEngine engine;
  engine.FailOnce("DROP", Status(Code::kUnknownOutcome, "lost"));
  EXPECT_EQ(engine.Query(world.context(), "DROP TABLE t", {}).status().code(),
            Code::kUnknownOutcome);
  EXPECT_EQ(engine.Query(world.context(), "DROP TABLE t", {}).status().code(), Code::kInternal);
}

TEST(FakeEngine, RowsGoInAndOut) {
  TestWorld world;
  FakeEngine engine;
  engine.Answer("INSERT", "").Answer("SELECT", "1\n2\n");
  StringRows rows({"a\n", "b\n"});
  ASSERT_TRUE(engine.Insert(world.context(), "INSERT INTO t FORMAT TSV", rows, {}).ok());
  EXPECT_EQ(engine.AskedFor("INSERT").at(0).rows, "a\nb\n");
  const auto stream = engine.Select(world.context(), "SELECT x", "TSV", {});
  ASSERT_TRUE(stream.ok());
  EXPECT_EQ(*ReadAll(world.context(), **stream), "1\n2\n");
  ASSERT_TRUE(engine.Kill(world.context(), "q").ok());
  EXPECT_EQ(engine.killed(), std::vector<std::string>{"q"});
}

}  // namespace
}  // namespace partforge::testing
