#include "engine/insert_head.h"

#include <gtest/gtest.h>

namespace partforge {
namespace {

TEST(FindInsertHead, CutsTheStatementBeforeItsData) {
  const std::string text = "INSERT INTO db.`t` (a, b) SETTINGS x = 1 FORMAT TSV\n'\t`unclosed";
  const auto head = FindInsertHead(text);
  ASSERT_TRUE(head.has_value());
  EXPECT_EQ(head->head, "INSERT INTO db.`t` (a, b) SETTINGS x = 1");
  EXPECT_EQ(head->format, "TSV");
  EXPECT_EQ(text.substr(head->data_offset), "'\t`unclosed");
}

TEST(FindInsertHead, ValuesAndNoFormat) {
  const std::string text = "insert into t values (1, 'x')";
  const auto values = FindInsertHead(text);
  ASSERT_TRUE(values.has_value());
  EXPECT_EQ(values->head, "insert into t");
  EXPECT_EQ(values->format, "Values");
  EXPECT_EQ(text.substr(values->data_offset), " (1, 'x')");
  const auto bare = FindInsertHead("INSERT INTO TABLE t (a)");
  ASSERT_TRUE(bare.has_value());
  EXPECT_EQ(bare->format, "");
}

TEST(FindInsertHead, OtherStatementsHaveNone) {
  for (const char* text :
       {"SELECT 1 FORMAT TSV", "INSERT INTO t SELECT 1 FORMAT TSV", "INSERT INTO t (a) SELECT 1",
        "INSERT INTO t (SELECT 1)", "INSERT INTO t SETTINGS a = 1 SELECT 1",
        "INSERT INTO t WITH 1 AS x SELECT x", "INSERT INTO FUNCTION file('x') VALUES (1)",
        "INSERT INTO t FROM INFILE 'x' FORMAT CSV", "INSERT INTO t (a", "INSERT INTO `t", "INSERT",
        ""}) {
    EXPECT_FALSE(FindInsertHead(text).has_value()) << text;
  }
}

}  // namespace
}  // namespace partforge
