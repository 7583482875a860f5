#include "data/avro_schema.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace partforge::data {
namespace {

// The four shapes of iceberg-format.md §8, with an attribute that nobody knows.
constexpr std::string_view kManifestLike =
    R"({"type":"record","name":"r2","namespace":"a.b","fields":[
  {"name":"snapshot_id","type":["null","long"],"default":null,"field-id":1,"x-mine":[1,{"y":2}]},
  {"name":"lower_bounds","type":["null",{"type":"array","items":{"type":"record","name":"k126_v127","fields":[
     {"name":"key","type":"int","field-id":126},{"name":"value","type":"bytes","field-id":127}]},
     "logicalType":"map"}],"default":null,"field-id":125},
  {"name":"split_offsets","type":["null",{"type":"array","items":"long","element-id":133}],"default":null,"field-id":132},
  {"name":"partition","type":{"type":"record","name":"r102","fields":[
     {"name":"ts_day","type":["null",{"type":"int","logicalType":"date"}],"default":null,"field-id":1000},
     {"name":"_9a_x2E","type":["null",{"type":"fixed","name":"decimal_9_2","size":4,"logicalType":"decimal","precision":9,"scale":2}],
      "iceberg-field-name":"9a.","field-id":1001}]},"field-id":102},
  {"name":"again","type":["null","k126_v127"],"default":null}]})";

TEST(AvroSchema, KeepsIdsAttributesAndTheTextItself) {
  const auto schema = AvroSchema::Parse(kManifestLike);
  ASSERT_TRUE(schema.ok()) << schema.status().ToString();
  EXPECT_EQ(schema->text(), kManifestLike);
  const AvroType& root = schema->root();
  EXPECT_EQ(root.name, "a.b.r2");
  ASSERT_EQ(root.fields.size(), 5u);
  EXPECT_EQ(root.fields[0].id, 1);
  EXPECT_EQ(root.fields[0].type->OptionalOf()->kind, AvroKind::kLong);
  EXPECT_TRUE(root.fields[1].type->OptionalOf()->IsMapOfPairs());
  EXPECT_EQ(root.fields[2].type->OptionalOf()->element_id, 133);
  const AvroType& partition = *root.fields[3].type;
  EXPECT_EQ(partition.fields[0].type->OptionalOf()->logical_type, "date");
  const AvroType& decimal = *partition.fields[1].type->OptionalOf();
  EXPECT_EQ(decimal.precision, 9);
  EXPECT_EQ(decimal.scale, 2);
  EXPECT_EQ(decimal.fixed_size_bytes, 4);
  EXPECT_EQ(AvroTextAttribute(partition.fields[1].json, "iceberg-field-name"), "9a.");
  EXPECT_EQ(AvroTextAttribute(partition.fields[1].json, "none"), std::nullopt);
  EXPECT_EQ(root.fields[4].type->OptionalOf(), root.fields[1].type->OptionalOf()->element);
}

TEST(AvroSchema, FieldsAreFoundByIdThenNameThenAlias) {
  const auto schema = AvroSchema::Parse(
      R"({"type":"record","name":"r","fields":[{"name":"renamed","type":"int","field-id":7},
      {"name":"plain","type":"int"},{"name":"added_data_files_count","type":"int"},
      {"name":"new","aliases":["old"],"type":"int"}]})");
  const AvroType& root = schema->root();
  const auto name_of = [&](FieldRef ref, std::vector<std::string> aliases = {}) {
    const AvroField* field = FindAvroField(root, ref, aliases);
    return field == nullptr ? "none" : field->name;
  };
  EXPECT_EQ(name_of({7, "other"}), "renamed");
  EXPECT_EQ(name_of({8, "renamed"}), "none");  // another id stands on it
  EXPECT_EQ(name_of({8, "plain"}), "plain");
  EXPECT_EQ(name_of({504, "added_files_count"}, {"added_data_files_count"}),
            "added_data_files_count");
  EXPECT_EQ(name_of({-1, "old"}), "new");
  EXPECT_EQ(name_of({-1, "absent"}), "none");
}

Code CodeOf(std::string_view text) {
  const auto schema = AvroSchema::Parse(text);
  return schema.ok() ? Code::kInternal : schema.status().code();
}

TEST(AvroSchema, WhatIsNoSchemaIsCorruption) {
  for (
      const std::string_view text :
      {"", "{", "7", "\"unknown\"", "{}", R"({"type":"record","name":"r"})",
       R"({"type":"record","fields":[]})",
       R"({"type":"record","name":"r","fields":[{"name":"a"}]})",
       R"({"type":"record","name":"r","fields":[{"name":"a","type":"int"},{"name":"a","type":"int"}]})",
       R"({"type":"array"})", R"({"type":"map"})", "[]", R"([["null"],"int"])",
       R"({"type":"fixed","name":"f","size":-1})", R"({"type":"fixed","name":"f"})",
       R"({"type":"enum","name":"e","symbols":[]})", R"({"type":"enum","name":"e","symbols":[1]})",
       R"(["null",{"type":"fixed","name":"f","size":1},{"type":"fixed","name":"f","size":2}])"}) {
    EXPECT_EQ(CodeOf(text), Code::kCorruption) << text;
  }
}

TEST(AvroSchema, ATypeWithinItselfIsRefused) {
  EXPECT_EQ(
      CodeOf(R"({"type":"record","name":"r","fields":[{"name":"next","type":["null","r"]}]})"),
      Code::kRefused);
}

// check: DATA-19
TEST(AvroSchema, DepthAndWrittenOutSizeAreLimited) {
  std::string deep = "\"int\"";
  for (int i = 0; i < 70; ++i) deep = R"({"type":"array","items":)" + deep + "}";
  EXPECT_EQ(CodeOf(deep), Code::kCorruption);
  // Each record holds the one before twice: 2^40 atoms in 40 lines.
  std::string bomb =
      R"({"type":"record","name":"root","fields":[{"name":"f0","type":{"type":"record","name":"r0","fields":[{"name":"a","type":"int"}]}})";
  std::string empty_bomb =
      R"({"type":"record","name":"root","fields":[{"name":"f0","type":{"type":"record","name":"r0","fields":[]}})";
  for (std::string* text : {&bomb, &empty_bomb}) {
    for (int i = 1; i < 40; ++i) {
      *text += fmt::format(
          R"(,{{"name":"f{0}","type":{{"type":"record","name":"r{0}","fields":[{{"name":"a","type":"r{1}"}},{{"name":"b","type":"r{1}"}}]}}}})",
          i, i - 1);
    }
    *text += "]}";
    EXPECT_EQ(CodeOf(*text), Code::kCorruption);
  }
}

TEST(AvroSchema, RootUnionsGiveTheirRecord) {
  const auto schema = AvroSchema::Parse(
      R"(["null",{"type":"record","name":"r","fields":[{"name":"a","type":"int"}]}])");
  ASSERT_NE(schema->RootRecord(), nullptr);
  EXPECT_EQ(schema->RootRecord()->name, "r");
  EXPECT_EQ(AvroSchema::Parse("\"int\"")->RootRecord(), nullptr);
}

}  // namespace
}  // namespace partforge::data
