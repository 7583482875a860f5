#include "engine/sql_text.h"

#include <gtest/gtest.h>

#include "testing/test_world.h"

namespace partforge {
namespace {

std::vector<std::string> Texts(std::string_view sql) {
  const auto tokens = TokenizeSql(sql);
  EXPECT_TRUE(tokens.ok()) << tokens.status().ToString();
  std::vector<std::string> texts;
  if (tokens.ok()) {
    for (const SqlToken& token : *tokens) texts.emplace_back(token.text);
  }
  return texts;
}
using Strings = std::vector<std::string>;

TEST(TokenizeSql, QuotesAndCommentsHideKeywords) {
  EXPECT_EQ(Texts("SELECT 'a;''b\\'' -- ENGINE = x\n, `ENGINE`, \"a\"\"b\" /* ; /* nested */ ' */ "
                  "FROM t # tail"),
            (Strings{"SELECT", "'a;''b\\''", ",", "`ENGINE`", ",", "\"a\"\"b\"", "FROM", "t"}));
}

TEST(TokenizeSql, HeredocIsOneString) {
  EXPECT_EQ(Texts("SELECT $x$it's; -- $$ here$x$, $$b$$, a$b"),
            (Strings{"SELECT", "$x$it's; -- $$ here$x$", ",", "$$b$$", ",", "a$b"}));
}

TEST(TokenizeSql, NumbersNamesAndTupleElements) {
  EXPECT_EQ(Texts("1.5e-3 0xFF 1_000 t.1.2 .5 x.y"),
            (Strings{"1.5e-3", "0xFF", "1_000", "t", ".", "1", ".", "2", ".5", "x", ".", "y"}));
  EXPECT_EQ(Texts("a::Int8>=b||c<>d"),
            (Strings{"a", "::", "Int8", ">=", "b", "||", "c", "<>", "d"}));
}

TEST(TokenizeSql, PlacesAreLineAndColumn) {
  const auto tokens = TokenizeSql("SELECT\n  x,\n\ty");
  ASSERT_TRUE(tokens.ok());
  EXPECT_EQ((*tokens)[1].place.ToString(), "2:3");
  EXPECT_EQ((*tokens)[3].place.ToString(), "3:2");
  EXPECT_EQ(PlaceAt("SELECT\n  x", 9).ToString(), "2:3");
}

TEST(TokenizeSql, AnOpenEndIsRefusedWithItsPlace) {
  for (const char* text : {"SELECT 'abc", "SELECT\n`abc", "\"a\\\"", "/* /* */", "'a\\"}) {
    const auto tokens = TokenizeSql(text);
    ASSERT_FALSE(tokens.ok()) << text;
    EXPECT_EQ(tokens.status().code(), Code::kInvalidArgument);
    EXPECT_NE(tokens.status().message().find("never ends"), std::string::npos);
  }
  EXPECT_NE(TokenizeSql("SELECT\n`abc").status().message().find("2:1"), std::string::npos);
}

TEST(TokenizeSql, AnyBytesAreCutWithoutLossOfOrder) {
  const uint64_t seed = testing::TestSeed();
  SCOPED_TRACE(seed);
  testing::SeededRandom random(seed);
  constexpr std::string_view kAlphabet = "ab1.'`\"\\/*-#$ \n;(){}[]\xE2\x80\x98\xC2\xA0:<>=|@\0x";
  for (int round = 0; round < 2000; ++round) {
    std::string text;
    for (uint64_t n = RandomBelow(random, 40); n > 0; --n)
      text += kAlphabet[RandomBelow(random, kAlphabet.size())];
    const auto tokens = TokenizeSql(text);
    if (!tokens.ok()) continue;
    size_t end = 0;
    for (const SqlToken& token : *tokens) {
      ASSERT_GE(token.offset, end);
      ASSERT_FALSE(token.text.empty());
      ASSERT_EQ(text.substr(token.offset, token.text.size()), token.text);
      (void)TokenValue(token).ok();
      end = token.end();
    }
  }
}

TEST(TokenizeSql, TwoDotsBeforeANumberGiveNoEmptyToken) {
  const auto tokens = TokenizeSql("a..1");
  ASSERT_TRUE(tokens.ok());
  for (const SqlToken& token : *tokens) EXPECT_FALSE(token.text.empty());
}

TEST(QuoteSql, QuotedNamesAndStringsReadBackAsTheyWere) {
  for (const std::string& value :
       {std::string("a"), std::string("it's `odd` \"\\"), std::string("a\0b\n\t\r", 6),
        std::string("\xC3\xA9t\xC3\xA9"), std::string()}) {
    for (const std::string& quoted : {QuoteIdentifier(value), QuoteString(value)}) {
      const auto tokens = TokenizeSql(quoted);
      ASSERT_TRUE(tokens.ok());
      ASSERT_EQ(tokens->size(), 1U) << quoted;
      const auto back = TokenValue(tokens->front());
      ASSERT_TRUE(back.ok());
      EXPECT_EQ(*back, value);
    }
  }
}

TEST(CheckIdentifier, RefusesWhatWeNeverSend) {
  EXPECT_TRUE(CheckIdentifier("events").ok());
  EXPECT_EQ(CheckIdentifier("").code(), Code::kInvalidArgument);
  EXPECT_EQ(CheckIdentifier(std::string(201, 'a')).code(), Code::kInvalidArgument);
  EXPECT_EQ(CheckIdentifier(std::string_view("a\0b", 3)).code(), Code::kInvalidArgument);
}

TEST(ReadTableName, TakesOneOrTwoNames) {
  const auto tokens = TokenizeSql("`my db`.t x");
  ASSERT_TRUE(tokens.ok());
  size_t index = 0;
  const auto first = ReadTableName(*tokens, index);
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(*first, (SqlTableName{.database = "my db", .table = "t"}));
  const auto second = ReadTableName(*tokens, index);
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(*second, (SqlTableName{.database = "", .table = "x"}));
  EXPECT_FALSE(ReadTableName(*tokens, index).ok());
}

TEST(ClosingBracket, CountsItsOwnKind) {
  const auto tokens = TokenizeSql("f(a, [(1)], ')') )");
  ASSERT_TRUE(tokens.ok());
  const auto closing = ClosingBracket(*tokens, 1);
  ASSERT_TRUE(closing.ok());
  EXPECT_EQ(*closing, tokens->size() - 2);
  EXPECT_FALSE(ClosingBracket(*tokens, 0).ok());
}

}  // namespace
}  // namespace partforge
