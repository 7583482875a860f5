#include "job/sql_text.h"

#include <gtest/gtest.h>

namespace partforge {
namespace {

TEST(ExpandMacros, ALockIsOfPostgresAndNothingOnSqlite) {
  EXPECT_EQ(ExpandMacros("a {for_update};", SqlDialect::kPostgres), "a FOR UPDATE;");
  EXPECT_EQ(ExpandMacros("a {for_update};", SqlDialect::kSqlite), "a ;");
  EXPECT_EQ(ExpandMacros("{skip_locked_t}", SqlDialect::kPostgres), "FOR UPDATE OF t SKIP LOCKED");
}

TEST(ExpandMacros, BracesThatAreNoMacroStay) {
  EXPECT_EQ(ExpandMacros("DEFAULT '{}', '{x}' {", SqlDialect::kSqlite), "DEFAULT '{}', '{x}' {");
}

TEST(ToPositional, ANameThatStandsTwiceIsOneParameter) {
  const PositionalSql sql = ToPositional("WHERE a = :job AND b = :task OR c = :job");
  EXPECT_EQ(sql.sql, "WHERE a = $1 AND b = $2 OR c = $1");
  EXPECT_EQ(sql.names, (std::vector<std::string>{"job", "task"}));
}

TEST(ToPositional, QuotedTextAndCastsAreLeftAlone) {
  const PositionalSql sql = ToPositional("SELECT ':no', 'it''s :no'::text, x::bigint, :yes");
  EXPECT_EQ(sql.sql, "SELECT ':no', 'it''s :no'::text, x::bigint, $1");
  EXPECT_EQ(sql.names, (std::vector<std::string>{"yes"}));
}

TEST(ToPositional, ALongNameIsNotItsPrefix) {
  const PositionalSql sql = ToPositional(":rows + :rows_in");
  EXPECT_EQ(sql.sql, "$1 + $2");
}

}  // namespace
}  // namespace partforge
