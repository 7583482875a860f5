#include <gtest/gtest.h>

#include <functional>

#include "clickhouse/fingerprint.h"
#include "testing/test_world.h"

namespace partforge::clickhouse {
namespace {

SchemaShape Sample() {
  SchemaShape shape;
  shape.columns = {{"id", "UInt64", "", ""},
                   {"amount", "String", "", ""},
                   {"day", "Date", "DEFAULT", "today()"}};
  shape.engine = "ReplacingMergeTree";
  shape.engine_args = {"id"};
  shape.partition_by = {"toYYYYMM(day)"};
  shape.order_by = {"day", "id"};
  shape.primary_key = {"day"};
  shape.sample_by = "id";
  return shape;
}

struct Verdict {
  int pf_number = 0;
  std::string message;
};
Verdict Compare(const std::function<void(SchemaShape&)>& change) {
  SchemaShape target = Sample();
  change(target);
  const Status status = CompareShapes(Sample(), target, "shop.orders_v2");
  if (status.ok()) return {};
  EXPECT_EQ(status.code(), Code::kRefused);
  EXPECT_EQ(status.explanation().where, "shop.orders_v2");
  return {status.explanation().pf_number, status.message()};
}

TEST(SchemaShape, JsonReadsBackAndIsCanonical) {
  const std::string json = FormatShape(Sample());
  EXPECT_EQ(ParseShape(json).value(), Sample());
  EXPECT_EQ(FormatShape(ParseShape(json).value()), json);
  EXPECT_EQ(json.find('\n'), std::string::npos);
  EXPECT_FALSE(ParseShape("{}").ok());
  std::string newer = json;
  newer.replace(newer.find("\"version\":1"), 11, "\"version\":2");
  EXPECT_EQ(ParseShape(newer).status().code(), Code::kRefused);
}

TEST(SchemaShape, SettingsOfTheIndexAreWrittenOnlyWhereTheyAreNotTheDefaults) {
  SchemaShape shape = Sample();
  EXPECT_EQ(FormatShape(shape).find("granularity"), std::string::npos);
  shape.allows_nullable_key = true;
  shape.has_adaptive_granularity = false;
  EXPECT_EQ(ParseShape(FormatShape(shape)).value(), shape);
  EXPECT_NE(FormatShape(shape), FormatShape(Sample()));
}

TEST(SchemaShape, MutatedJsonNeverCrashes) {
  testing::SeededRandom random(testing::TestSeed());
  for (int round = 0; round < 3000; ++round) {
    std::string json = FormatShape(Sample());
    json[RandomBelow(random, json.size())] = static_cast<char>(random.Next());
    (void)ParseShape(json);
  }
}

TEST(CompareShapes, EqualShapesPass) {
  EXPECT_EQ(Compare([](SchemaShape&) {}).pf_number, 0);
}

TEST(CompareShapes, NamesTheFirstDifference) {
  const Verdict key = Compare([](SchemaShape& t) { t.order_by = {"id"}; });
  EXPECT_EQ(key.pf_number, 2121);
  EXPECT_EQ(key.message, "sorting key: part has (day, id), table has (id)");
  EXPECT_EQ(Compare([](SchemaShape& t) { t.partition_by.clear(); }).message,
            "partition key: part has (toYYYYMM(day)), table has ()");
  EXPECT_EQ(Compare([](SchemaShape& t) { t.primary_key = {"day", "id"}; }).pf_number, 2121);
  EXPECT_EQ(Compare([](SchemaShape& t) { t.columns[1].type = "UInt32"; }).message,
            "column amount: part has String, table has UInt32");
  EXPECT_EQ(Compare([](SchemaShape& t) { t.columns[2].default_expression = "now()"; }).message,
            "default of column day: part has DEFAULT today(), table has DEFAULT now()");
  EXPECT_EQ(Compare([](SchemaShape& t) { t.columns.pop_back(); }).message,
            "the table has no column day Date");
  EXPECT_EQ(Compare([](SchemaShape& t) {
              t.columns.push_back({"x", "Int8", "", ""});
            }).message,
            "the part has no column x Int8");
  EXPECT_EQ(Compare([](SchemaShape& t) { std::swap(t.columns[0], t.columns[1]); }).message,
            "the columns stand in another order in the table");
  EXPECT_EQ(Compare([](SchemaShape& t) { t.engine = "MergeTree"; }).pf_number, 2121);
  EXPECT_EQ(Compare([](SchemaShape& t) { t.engine_args = {"day"}; }).pf_number, 2121);
  EXPECT_EQ(Compare([](SchemaShape& t) { t.sample_by = ""; }).pf_number, 2121);
  EXPECT_EQ(Compare([](SchemaShape& t) { t.has_adaptive_granularity = false; }).message,
            "index granularity: part has (by rows and bytes), table has (by rows)");
  EXPECT_EQ(Compare([](SchemaShape& t) { t.allows_nullable_key = true; }).message,
            "allow_nullable_key: part has (0), table has (1)");
}

TEST(CompareShapes, ARenamedColumnHasItsOwnNumber) {
  const Verdict renamed = Compare([](SchemaShape& t) { t.columns[1].name = "total"; });
  EXPECT_EQ(renamed.pf_number, 2122);
  EXPECT_NE(renamed.message.find("column amount of the part is named total"), std::string::npos);
  // Renamed and moved is still one.
  EXPECT_EQ(Compare([](SchemaShape& t) {
              t.columns[1].name = "total";
              std::swap(t.columns[1], t.columns[2]);
            }).pf_number,
            2122);
  // Another name and another type: a drop and an addition.
  EXPECT_EQ(Compare([](SchemaShape& t) {
              t.columns[1] = {"total", "Int8", "", ""};
            }).pf_number,
            2121);
}

}  // namespace
}  // namespace partforge::clickhouse
