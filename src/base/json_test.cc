#include "base/json.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "testing/test_world.h"

namespace partforge {
namespace {

JsonDoc Parsed(std::string_view text) {
  auto doc = ParseJson(text);
  EXPECT_TRUE(doc.ok()) << text;
  return doc.ok() ? std::move(doc).value() : JsonDoc();
}

std::string Nested(size_t depth) {
  return std::string(depth, '[') + std::string(depth, ']');
}

TEST(ParseJson, KeepsOrderOfKeysAndAllValues) {
  const std::string text =
      R"({"z":1,"a":[true,false,null,"ü\u00e4\n"],"m":{"b":-2,"a":1.5},"e":{},"f":[]})";
  EXPECT_EQ(DumpJson(Parsed(text)),
            "{\"z\":1,\"a\":[true,false,null,\"üä\\n\"],\"m\":{\"b\":-2,\"a\":1.5},"
            "\"e\":{},\"f\":[]}");
}

TEST(ParseJson, TakesAnyKindOfDocumentAndBlanks) {
  EXPECT_EQ(Parsed(" 7\n").get<int>(), 7);
  EXPECT_TRUE(Parsed("null").is_null());
  EXPECT_EQ(Parsed("\"x\"").get<std::string>(), "x");
}

TEST(ParseJson, Keeps64BitIntegersExactly) {
  const JsonDoc doc = Parsed("[9223372036854775807,-9223372036854775808,18446744073709551615]");
  EXPECT_EQ(doc[0].get<int64_t>(), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(doc[1].get<int64_t>(), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(doc[2].get<uint64_t>(), std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(DumpJson(doc), "[9223372036854775807,-9223372036854775808,18446744073709551615]");
}

TEST(ParseJson, RefusesADocumentNestedDeeperThan64) {
  EXPECT_TRUE(ParseJson(Nested(64)).ok());
  EXPECT_EQ(ParseJson(Nested(65)).status().code(), Code::kCorruption);
  std::string objects;
  for (int i = 0; i < 65; ++i) objects += "{\"a\":";
  EXPECT_NE(ParseJson(objects).status().message().find("64 levels"), std::string::npos);
}

TEST(ParseJson, HostileDepthDoesNotOverflowTheStack) {
  EXPECT_FALSE(ParseJson(std::string(10'000'000, '[')).ok());
}

TEST(ParseJson, RefusesAKeyThatStandsTwice) {
  const Status status = ParseJson(R"({"a":1,"b":{"a":2},"a":3})").status();
  EXPECT_EQ(status.code(), Code::kCorruption);
  EXPECT_NE(status.message().find("twice: a"), std::string::npos) << status.message();
  EXPECT_TRUE(ParseJson(R"([{"a":1},{"a":2}])").ok());
}

TEST(ParseJson, RefusesTornAndForeignTextNamingTheByte) {
  for (const char* text :
       {"", "{", "[1,", "{\"a\"}", "{\"a\":1,}", "[1]]", "{} {}", "nul", "01", "1.", "'a'", "{a:1}",
        "// c\n1", "\"\x80\"", "\"\\ud800\"", "\"\n\"", "NaN", "1e999"}) {
    const auto doc = ParseJson(text);
    ASSERT_FALSE(doc.ok()) << text;
    EXPECT_EQ(doc.status().code(), Code::kCorruption) << text;
  }
  EXPECT_NE(ParseJson("[1,2,x]").status().message().find("byte 6"), std::string::npos);
}

TEST(ParseJson, ReadsALargeObjectInLinearTime) {
  std::string text = "{";
  for (int i = 0; i < 200'000; ++i) text += fmt::format("{}\"key{}\":{}", i == 0 ? "" : ",", i, i);
  EXPECT_EQ(Parsed(text + "}").size(), 200'000u);
}

TEST(ParseJson, EveryMutationIsReadOrRefused) {
  const uint64_t seed = testing::TestSeed();
  SCOPED_TRACE(seed);
  testing::SeededRandom random(seed);
  const std::string golden = R"({"a":[1,-2,3.5e2,{"b":"x\u0041"}],"c":{"d":null,"e":true}})";
  for (int i = 0; i < 20'000; ++i) {
    std::string text = golden;
    text[RandomBelow(random, text.size())] = static_cast<char>(random.Next());
    if (RandomBelow(random, 4) == 0) text.resize(RandomBelow(random, text.size()));
    const auto doc = ParseJson(text);
    if (!doc.ok()) continue;
    // What is accepted reads back as the same document.
    const auto again = ParseJson(DumpJson(*doc));
    ASSERT_TRUE(again.ok()) << text;
    ASSERT_EQ(DumpJson(*again), DumpJson(*doc)) << text;
  }
}

TEST(DumpJson, PrettyHasTwoSpacesAndNoFinalNewline) {
  EXPECT_EQ(DumpJsonPretty(Parsed(R"({"a":[1],"b":{}})")),
            "{\n  \"a\": [\n    1\n  ],\n  \"b\": {}\n}");
}

TEST(DumpJson, ReplacesBytesThatAreNotUtf8) {
  EXPECT_EQ(DumpJson(JsonDoc("a\x80")), "\"a\uFFFD\"");
}

TEST(JsonReader, ReadsEveryType) {
  const JsonDoc doc = Parsed(
      R"({"s":"x","i":-1,"u":18446744073709551615,"d":1.5,"n":3,"b":true,"o":{},"a":[],"l":["p","q"]})");
  JsonReader reader(doc, "test");
  EXPECT_EQ(reader.String("s").value(), "x");
  EXPECT_EQ(reader.Int("i").value(), -1);
  EXPECT_EQ(reader.Uint("u").value(), std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(reader.Double("d").value(), 1.5);
  EXPECT_EQ(reader.Double("n").value(), 3.0);
  EXPECT_EQ(reader.Uint("n").value(), 3u);
  EXPECT_TRUE(reader.Bool("b").value());
  EXPECT_TRUE(reader.Object("o").value()->is_object());
  EXPECT_TRUE(reader.Array("a").value()->is_array());
  EXPECT_EQ(reader.Strings("l").value(), (std::vector<std::string>{"p", "q"}));
  EXPECT_TRUE(reader.Finish().ok());
}

TEST(JsonReader, NamesTheFieldThatIsMissingWrongOrUnknown) {
  const JsonDoc doc = Parsed(R"({"s":1,"i":1.0,"big":9223372036854775808,"neg":-1,"l":["p",2]})");
  JsonReader reader(doc, "manifest");
  EXPECT_EQ(reader.String("nope").status().message(), "manifest: field is missing: nope");
  EXPECT_EQ(reader.String("s").status().message(),
            "manifest: field s wants a string, found number");
  EXPECT_EQ(reader.Int("i").status().code(), Code::kCorruption);
  EXPECT_EQ(reader.Int("big").status().code(), Code::kCorruption);
  EXPECT_EQ(reader.Uint("neg").status().code(), Code::kCorruption);
  EXPECT_EQ(reader.Bool("s").status().code(), Code::kCorruption);
  EXPECT_EQ(reader.Double("l").status().code(), Code::kCorruption);
  EXPECT_EQ(reader.Object("l").status().code(), Code::kCorruption);
  EXPECT_EQ(reader.Array("s").status().code(), Code::kCorruption);
  EXPECT_EQ(reader.Strings("l").status().code(), Code::kCorruption);
  EXPECT_TRUE(reader.Finish().ok());
  JsonReader other(doc, "manifest");
  EXPECT_TRUE(other.Int("s").ok());
  EXPECT_EQ(other.Finish().message(), "manifest: field is unknown: i");
}

TEST(JsonReader, FallsBackOnlyWhenAbsentOrNull) {
  const JsonDoc doc = Parsed(R"({"s":null,"i":2,"bad":"x"})");
  JsonReader reader(doc, "test");
  EXPECT_EQ(reader.StringOr("s", "f").value(), "f");
  EXPECT_EQ(reader.IntOr("i", 1).value(), 2);
  EXPECT_EQ(reader.IntOr("none", 1).value(), 1);
  EXPECT_EQ(reader.DoubleOr("none", 0.5).value(), 0.5);
  EXPECT_TRUE(reader.BoolOr("none", true).value());
  EXPECT_EQ(reader.BoolOr("bad", true).status().code(), Code::kCorruption);
  EXPECT_FALSE(reader.Has("s"));
  EXPECT_TRUE(reader.Has("i"));
  EXPECT_TRUE(reader.Finish().ok());
}

TEST(JsonReader, RefusesWhatIsNoObject) {
  const JsonDoc doc = Parsed("[1]");
  JsonReader reader(doc, "test");
  EXPECT_EQ(reader.Int("a").status().code(), Code::kCorruption);
  EXPECT_EQ(reader.Finish().code(), Code::kCorruption);
  EXPECT_FALSE(reader.Has("a"));
}

}  // namespace
}  // namespace partforge
