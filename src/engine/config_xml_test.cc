#include "engine/config_xml.h"

#include <gtest/gtest.h>

#include "testing/test_world.h"

namespace partforge {
namespace {

TEST(ConfigXml, LeavesAreDottedPathsWithText) {
  const auto leaves = ReadXmlLeaves(
      "<?xml version=\"1.0\"?>\n<!-- a <b> -->\n<clickhouse>\n <http_port replace='1'> 8124 "
      "</http_port>\n"
      " <listen_host>::</listen_host><listen_host>0.0.0.0</listen_host>\n"
      " <a><b>x &amp; &#x41;</b><c/></a><d><![CDATA[<raw>]]></d></clickhouse>\n");
  ASSERT_TRUE(leaves.ok()) << leaves.status().ToString();
  EXPECT_EQ(*leaves, (XmlLeaves{{"http_port", "8124"},
                                {"listen_host", "::"},
                                {"listen_host", "0.0.0.0"},
                                {"a.b", "x & A"},
                                {"a.c", ""},
                                {"d", "<raw>"}}));
}

TEST(ConfigXml, WhatIsWrittenReadsBack) {
  const std::map<std::string, std::string> values = {
      {"a", "1 < 2 & 3"}, {"b.c.d", "x"}, {"b.c.e", "y"}, {"b.f", "z"}, {"g", ""}};
  const auto xml = WriteClickHouseXml(values);
  ASSERT_TRUE(xml.ok());
  const auto leaves = ReadXmlLeaves(*xml);
  ASSERT_TRUE(leaves.ok()) << *xml;
  EXPECT_EQ((std::map<std::string, std::string>(leaves->begin(), leaves->end())), values) << *xml;
}

TEST(ConfigXml, KeysThatAreNoPathsAreRefused) {
  for (const char* key : {"", ".", "a..b", "a b", "a/>", "1a", "a.", "x:y"}) {
    EXPECT_FALSE(WriteClickHouseXml({{key, "v"}}).ok()) << key;
  }
}

TEST(ConfigXml, MalformedTextIsRefusedWithItsPlace) {
  for (const char* xml :
       {"", "x", "<a>", "<a></b>", "<a/><b/>", "<a>&nope;</a>", "<a b></a>", "<!DOCTYPE a><a/>",
        "<a><!-- </a>", "</a>", "<a>&#0;</a>", "<a b=c/>", "<a", "<"}) {
    const auto leaves = ReadXmlLeaves(xml);
    ASSERT_FALSE(leaves.ok()) << xml;
    EXPECT_EQ(leaves.status().code(), Code::kCorruption);
  }
  std::string deep;
  for (int i = 0; i < 100; ++i) deep += "<a>";
  EXPECT_FALSE(ReadXmlLeaves(deep).ok());
}

TEST(ConfigXml, AnyBytesEndWithoutACrash) {
  const uint64_t seed = testing::TestSeed();
  SCOPED_TRACE(seed);
  testing::SeededRandom random(seed);
  constexpr std::string_view kAlphabet = "<>/!-?&;=\"'ab [CDATA]x#";
  for (int round = 0; round < 5000; ++round) {
    std::string text = "<a>";
    for (uint64_t n = RandomBelow(random, 40); n > 0; --n)
      text += kAlphabet[RandomBelow(random, kAlphabet.size())];
    (void)ReadXmlLeaves(text).ok();
  }
}

}  // namespace
}  // namespace partforge
