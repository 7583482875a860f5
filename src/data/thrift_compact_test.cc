#include "data/thrift_compact.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/hash.h"

namespace partforge::data {
namespace {

// One of each type, ids with short and long gaps, and a negative one.
ThriftValue Sample() {
  ThriftValue inner = ThriftValue::Struct();
  inner.Set(1, ThriftValue::Bool(true));
  inner.Set(2, ThriftValue::Bool(false));
  ThriftValue value = ThriftValue::Struct();
  value.Set(1, ThriftValue::I32(-7));
  value.Set(2, ThriftValue::I64(std::numeric_limits<int64_t>::min()));
  value.Set(3, ThriftValue::Byte(-128));
  value.Set(4, ThriftValue::I16(-300));
  value.Set(5, ThriftValue::Double(2.5));
  value.Set(40, ThriftValue::Binary("four"));
  value.Set(41, ThriftValue::List(ThriftType::kI32, {ThriftValue::I32(1), ThriftValue::I32(2)}));
  value.Set(300, ThriftValue::List(ThriftType::kBool,
                                   std::vector<ThriftValue>(20, ThriftValue::Bool(true))));
  value.Set(301, ThriftValue::List(ThriftType::kStruct, {inner, ThriftValue::Struct()}));
  value.Set(-5, ThriftValue::Binary(""));
  return value;
}

TEST(ThriftCompact, EveryTypeComesBackAsWritten) {
  const ThriftValue value = Sample();
  const std::string bytes = EncodeThriftStruct(value);
  const auto parsed = ParseThriftStruct(AsBytes(bytes), "sample");
  ASSERT_TRUE(parsed.ok()) << parsed.status().ToString();
  EXPECT_EQ(parsed->value, value);
  EXPECT_EQ(parsed->size_bytes, bytes.size());
}

TEST(ThriftCompact, BytesOfTheProtocolDocument) {
  // 1: i32 = 1; 3: true; 19 (long form): binary "a"; 20: list<i32> of three; what follows is not
  // ours.
  const std::string right = FromHex(
                                "150221082601611935020406"
                                "00"
                                "ff")
                                .value();
  const auto parsed = ParseThriftStruct(AsBytes(right), "sample");
  ASSERT_TRUE(parsed.ok()) << parsed.status().ToString();
  EXPECT_EQ(parsed->value.Find(1)->AsInt(), 1);
  EXPECT_TRUE(parsed->value.Find(3)->AsBool());
  EXPECT_EQ(parsed->value.Find(19)->AsBinary(), "a");
  EXPECT_EQ(parsed->value.Find(20)->items().size(), 3u);
  EXPECT_EQ(parsed->size_bytes, right.size() - 1);
}

TEST(ThriftCompact, MapsAndUuidsSurvive) {
  // 1: map<i32, binary> {1: "x"}; 2: uuid.
  const std::string bytes = FromHex("1b01580201781d000102030405060708090a0b0c0d0e0f00").value();
  const auto parsed = ParseThriftStruct(AsBytes(bytes), "sample");
  ASSERT_TRUE(parsed.ok()) << parsed.status().ToString();
  EXPECT_EQ(parsed->value.Find(1)->items().at(1).AsBinary(), "x");
  EXPECT_EQ(EncodeThriftStruct(parsed->value), bytes);
}

TEST(ThriftCompact, EveryTruncationIsAnErrorWithItsPlace) {
  const std::string bytes = EncodeThriftStruct(Sample());
  for (size_t length = 0; length < bytes.size(); ++length) {
    const auto parsed = ParseThriftStruct(AsBytes(std::string_view(bytes).substr(0, length)), "x");
    ASSERT_FALSE(parsed.ok()) << length;
    EXPECT_EQ(parsed.status().code(), Code::kCorruption);
    EXPECT_NE(parsed.status().message().find("offset"), std::string::npos);
  }
}

TEST(ThriftCompact, HostileCountsDepthAndDuplicatesAreRefused) {
  const auto code_of = [](std::string_view hex) {
    const std::string bytes = FromHex(hex).value();
    const auto parsed = ParseThriftStruct(AsBytes(bytes), "x");
    return parsed.ok() ? Code::kInternal : parsed.status().code();
  };
  EXPECT_EQ(code_of("19fcffffffff0f00"), Code::kCorruption);            // list of 2^32 structs
  EXPECT_EQ(code_of("18ffffffff0f00"), Code::kCorruption);              // binary of 2^32 bytes
  EXPECT_EQ(code_of("15ffffffffffffffffffff0100"), Code::kCorruption);  // integer above 64 bits
  EXPECT_EQ(code_of("1580808080800100"), Code::kCorruption);            // i32 above 32 bits
  EXPECT_EQ(code_of("15020502020200"), Code::kCorruption);              // field 1 twice
  EXPECT_EQ(code_of("1f00"), Code::kCorruption);                        // type 15
  std::string deep;
  for (int i = 0; i < 100; ++i) deep += '\x1c';
  deep += std::string(101, '\0');
  EXPECT_FALSE(ParseThriftStruct(AsBytes(deep), "x").ok());
  std::string lists(1, '\x19');
  for (int i = 0; i < 100; ++i) lists += '\x19';
  EXPECT_FALSE(ParseThriftStruct(AsBytes(lists), "x").ok());
}

// Each of sixty lists within each other claims all the bytes that are left.
TEST(ThriftCompact, CountsAreClaimsAndTakeNoMemory) {
  std::string bytes(1, '\x19');
  for (int i = 0; i < 30; ++i) {
    bytes += "\xf9";  // a list of lists
    bytes += "\x80\x80\x04";
  }
  bytes += std::string(1 << 16, '\x19');
  EXPECT_EQ(ParseThriftStruct(AsBytes(bytes), "x").status().code(), Code::kCorruption);
  // A limit on values holds for lists, maps and fields alike.
  const ThriftValue sample = Sample();
  const std::string good = EncodeThriftStruct(sample);
  EXPECT_TRUE(ParseThriftStruct(AsBytes(good), "x", {.values_max = 1000}).ok());
  EXPECT_EQ(ParseThriftStruct(AsBytes(good), "x", {.values_max = 2}).status().code(),
            Code::kCorruption);
}

// What it takes to read a tree is known before it is taken, whatever the tree is made of.
TEST(ThriftCompact, ATreeIsTakenFromTheBudgetBeforeItGrows) {
  ThriftValue flat = ThriftValue::Struct(), deep = ThriftValue::Struct();
  flat.Set(1, ThriftValue::List(ThriftType::kBool,
                                std::vector<ThriftValue>(5000, ThriftValue::Bool(true))));
  deep.Set(1, ThriftValue::List(ThriftType::kStruct,
                                std::vector<ThriftValue>(5000, ThriftValue::Struct())));
  ThriftValue text = ThriftValue::Struct();
  text.Set(1, ThriftValue::Binary(std::string(100'000, 'x')));
  for (const ThriftValue& tree : {Sample(), flat, deep, text}) {
    const std::string bytes = EncodeThriftStruct(tree);
    EXPECT_EQ(ParseThriftStruct(AsBytes(bytes), "x", {.memory_bytes_max = TreeBytes(tree) / 2})
                  .status()
                  .code(),
              Code::kExhausted);
    MemoryBudget memory(int64_t{64} << 20);
    {
      const auto parsed = ParseThriftWithin(memory, AsBytes(bytes), "x");
      ASSERT_TRUE(parsed.ok()) << parsed.status().ToString();
      EXPECT_EQ(parsed->value, tree);
      EXPECT_EQ(memory.used_bytes(), TreeBytes(parsed->value));
    }
    EXPECT_EQ(memory.used_bytes(), 0);
    MemoryBudget none(100);
    const auto refused = ParseThriftWithin(none, AsBytes(bytes), "x");
    EXPECT_EQ(refused.status().code(), Code::kExhausted);
    EXPECT_NE(refused.status().message().find("--memory"), std::string::npos);
  }
}

TEST(ThriftCompact, RequireNamesWhatIsMissing) {
  const ThriftValue value = Sample();
  EXPECT_EQ(RequireInt(value, 1, "sample").value(), -7);
  EXPECT_EQ(RequireInt(value, 99, "sample").status().message(),
            "read sample: field is missing: 99");
  EXPECT_EQ(RequireInt(value, 40, "sample").status().message(),
            "read sample: field of another type: 40");
  EXPECT_EQ(IntOr(value, 99, 5, "sample").value(), 5);
  EXPECT_EQ(RequireList(value, 41, ThriftType::kI32, "sample").value()->size(), 2u);
  EXPECT_FALSE(RequireList(value, 41, ThriftType::kI64, "sample").ok());
}

TEST(ThriftCompact, SetKeepsTheOrderOfIdsAndRemoveForgets) {
  ThriftValue value = ThriftValue::Struct();
  value.Set(5, ThriftValue::I32(5));
  value.Set(2, ThriftValue::I32(2));
  value.Set(5, ThriftValue::I32(6));
  ASSERT_EQ(value.items().size(), 2u);
  EXPECT_EQ(value.items()[0].id(), 2);
  EXPECT_EQ(value.Find(5)->AsInt(), 6);
  value.Remove(2);
  value.Remove(2);
  EXPECT_EQ(value.Find(2), nullptr);
}

}  // namespace
}  // namespace partforge::data
