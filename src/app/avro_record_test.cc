#include "app/avro_record.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "data/avro_cursor.h"
#include "data/avro_schema.h"

namespace partforge::app {
namespace {

using data::AvroValue;

std::string Shown(std::string_view schema, const AvroValue& value) {
  const auto parsed = data::AvroSchema::Parse(schema);
  EXPECT_TRUE(parsed.ok()) << parsed.status().ToString();
  return DumpJson(AvroRecordJson(parsed->root(), value));
}
AvroValue List(std::vector<AvroValue> items) {
  return {std::move(items)};
}

TEST(AvroRecordJson, FieldsHaveTheirNamesAndOptionalOnesTheirValues) {
  const std::string_view schema =
      R"({"type":"record","name":"r","fields":[{"name":"id","type":"long"},
          {"name":"s","type":["null","string"]},{"name":"n","type":["null","string"]},
          {"name":"in","type":{"type":"record","name":"q","fields":[{"name":"f","type":"float"}]}},
          {"name":"l","type":{"type":"array","items":"int"}},
          {"name":"m","type":{"type":"map","values":"boolean"}},
          {"name":"e","type":{"type":"enum","name":"en","symbols":["A","B"]}}]})";
  AvroValue::Map map;
  map.push_back({.key = "k", .value = {true}});
  const AvroValue record = List({{int64_t{7}},
                                 {std::string("a\nb")},
                                 {},
                                 List({{0.5F}}),
                                 List({{int64_t{1}}, {int64_t{2}}}),
                                 {std::move(map)},
                                 {std::string("B")}});
  EXPECT_EQ(Shown(schema, record),
            R"({"id":7,"s":"a\\x0ab","n":null,"in":{"f":0.5},"l":[1,2],"m":{"k":true},"e":"B"})");
}

TEST(AvroRecordJson, TimesDecimalsAndBytesReadAsAPersonWritesThem) {
  EXPECT_EQ(Shown(R"({"type":"int","logicalType":"date"})", {int64_t{-1}}), R"("1969-12-31")");
  EXPECT_EQ(Shown(R"({"type":"long","logicalType":"timestamp-micros"})", {int64_t{1}}),
            R"("1970-01-01T00:00:00.000001Z")");
  EXPECT_EQ(Shown(R"({"type":"long","logicalType":"local-timestamp-millis"})", {int64_t{1}}),
            R"("1970-01-01T00:00:00.001")");
  EXPECT_EQ(Shown(R"({"type":"bytes","logicalType":"decimal","precision":9,"scale":2})",
                  {std::string("\xff\x38", 2)}),
            R"("-2.00")");
  EXPECT_EQ(Shown(R"({"type":"fixed","name":"f","size":2})", {std::string("\x01\xfe", 2)}),
            R"("0x01fe")");
}

TEST(AvroRecordJson, NumbersThatReadersWouldRoundAreText) {
  EXPECT_EQ(Shown(R"("long")", {int64_t{9007199254740993}}), R"("9007199254740993")");
  EXPECT_EQ(Shown(R"("double")", {std::numeric_limits<double>::quiet_NaN()}), R"("nan")");
  EXPECT_EQ(Shown(R"("double")", {0.1}), "0.1");
}

TEST(AvroRecordJson, InAUnionOfSeveralTypesTheValueSaysWhichItIs) {
  const std::string_view schema =
      R"(["null","string",{"type":"long","logicalType":"timestamp-millis"},"double"])";
  EXPECT_EQ(Shown(schema, {}), "null");
  EXPECT_EQ(Shown(schema, {std::string("x")}), R"("x")");
  EXPECT_EQ(Shown(schema, {int64_t{0}}), R"("1970-01-01T00:00:00.000Z")");
  EXPECT_EQ(Shown(schema, {2.5}), "2.5");
}

}  // namespace
}  // namespace partforge::app
