#include "store/xml.h"

#include <gtest/gtest.h>

#include "testing/test_world.h"

namespace partforge {
namespace {

constexpr std::string_view kListing =
    "\xEF\xBB\xBF<?xml version=\"1.0\"?><!-- c --><s3:R xmlns:s3='x>y' a=\"<\">\n"
    "<Key>a&amp;b&lt;&#x20AC;&#65;<![CDATA[<raw>&amp;]]></Key><Empty/><Empty a='1' />"
    "<Owner><ID>7</ID></Owner></s3:R>\n";

TEST(Xml, ReadsElementsTextAndEntities) {
  const Result<XmlElement> root = ParseXml(kListing);
  ASSERT_TRUE(root.ok()) << root.status().ToString();
  EXPECT_EQ(root->name, "R");
  EXPECT_EQ(root->ChildText("Key"),
            "a&b<\xE2\x82\xAC"
            "A<raw>&amp;");
  EXPECT_EQ(root->ChildText("Empty"), "");
  EXPECT_EQ(root->children.size(), 4u);
  ASSERT_NE(root->Child("Owner"), nullptr);
  EXPECT_EQ(root->Child("Owner")->ChildText("ID"), "7");
  EXPECT_EQ(root->Child("Absent"), nullptr);
}

TEST(Xml, EscapedTextComesBack) {
  const std::string text = "a<b>&\"'\r\n ä";
  const Result<XmlElement> root = ParseXml("<T>" + EscapeXml(text) + "</T>");
  ASSERT_TRUE(root.ok());
  EXPECT_EQ(root->text, text);
}

TEST(Xml, EveryCutIsAnError) {
  for (size_t size = 0; size + 2 < kListing.size(); ++size) {
    const Result<XmlElement> root = ParseXml(kListing.substr(0, size));
    ASSERT_FALSE(root.ok()) << size;
    EXPECT_EQ(root.status().code(), Code::kCorruption);
  }
}

TEST(Xml, RefusesWhatCouldExpandOrIsWrong) {
  for (const std::string_view text :
       {"<!DOCTYPE a [<!ENTITY b \"c\">]><a>&b;</a>", "<a>&b;</a>", "<a>&#0;</a>",
        "<a>&#xD800;</a>", "<a>&#x110000;</a>", "<a>&#12x;</a>", "<a></b>", "<a><b></a></b>",
        "<a/><b/>", "text", "<a b></a>", "<a b=c></a>", "<a>&", "<>x</>"}) {
    EXPECT_FALSE(ParseXml(text).ok()) << text;
  }
}

TEST(Xml, HoldsItsLimits) {
  std::string deep, wide = "<a>";
  for (int i = 0; i < 20; ++i) deep += "<a>";
  for (int i = 0; i < 20; ++i) wide += "<b/>";
  wide += "</a>";
  EXPECT_FALSE(ParseXml(deep).ok());
  EXPECT_TRUE(ParseXml(wide).ok());
  EXPECT_FALSE(ParseXml(wide, {.elements_max = 20}).ok());
  EXPECT_FALSE(ParseXml(wide, {.size_bytes_max = 10}).ok());
}

TEST(Xml, DamagedBytesNeverCrash) {
  const uint64_t seed = testing::TestSeed();
  SCOPED_TRACE(seed);
  testing::SeededRandom random(seed);
  for (int round = 0; round < 3000; ++round) {
    std::string text(kListing);
    for (int i = 0; i < 3; ++i) {
      text[RandomBelow(random, text.size())] = static_cast<char>(random.Next());
    }
    const Result<XmlElement> root = ParseXml(text);
    if (!root.ok()) {
      EXPECT_EQ(root.status().code(), Code::kCorruption);
    }
  }
}

}  // namespace
}  // namespace partforge
