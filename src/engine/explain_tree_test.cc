#include "engine/explain_tree.h"

#include <gtest/gtest.h>

namespace partforge {
namespace {

TEST(ExplainTree, AstLinesBecomeATree) {
  const auto nodes = ParseExplain(
      "InsertQuery   (children 3)\n Identifier x\n Function file (children 1)\n  ExpressionList "
      "(children 1)\n"
      "   Literal \\'x\\'\n Set\n",
      ExplainKind::kAst);
  ASSERT_TRUE(nodes.ok()) << nodes.status().ToString();
  ASSERT_EQ(nodes->size(), 6U);
  EXPECT_EQ((*nodes)[0].Kind(), "InsertQuery");
  EXPECT_EQ((*nodes)[0].AstName(), "");
  EXPECT_EQ((*nodes)[2].Kind(), "Function");
  EXPECT_EQ((*nodes)[2].AstName(), "file");
  EXPECT_EQ((*nodes)[3].parent, 2);
  EXPECT_EQ((*nodes)[5].parent, 0);
}

TEST(ExplainTree, QueryTreeKindsSectionsAndAttributes) {
  const auto nodes = ParseExplain(
      "QUERY id: 0, is_distinct: 1\n  JOIN TREE\n    TABLE id: 3, alias: __table1, table_name: "
      "x.e, final: 1\n"
      "  LIMIT BY LIMIT\n  SETTINGS max_threads=1\n  GROUP BY\n    LIST id: 4, nodes: 2\n",
      ExplainKind::kQueryTree);
  ASSERT_TRUE(nodes.ok()) << nodes.status().ToString();
  EXPECT_EQ((*nodes)[0].Kind(), "QUERY");
  EXPECT_EQ((*nodes)[0].Attribute("is_distinct"), "1");
  EXPECT_EQ((*nodes)[1].Kind(), "JOIN TREE");
  EXPECT_EQ((*nodes)[2].Attribute("table_name"), "x.e");
  EXPECT_EQ((*nodes)[2].Attribute("name"), "");
  EXPECT_TRUE(HasAbove(*nodes, 2, "JOIN TREE"));
  EXPECT_FALSE(HasAbove(*nodes, 6, "JOIN TREE"));
  EXPECT_EQ((*nodes)[3].Kind(), "LIMIT BY LIMIT");
  EXPECT_EQ((*nodes)[4].Kind(), "SETTINGS");
}

TEST(ExplainTree, WhatIsNoTreeIsRefused) {
  EXPECT_EQ(ParseExplain("", ExplainKind::kAst).status().code(), Code::kCorruption);
  EXPECT_EQ(ParseExplain(" a\n", ExplainKind::kAst).status().code(), Code::kCorruption);
  EXPECT_EQ(ParseExplain("a\n   b\n", ExplainKind::kQueryTree).status().code(), Code::kCorruption);
}

}  // namespace
}  // namespace partforge
