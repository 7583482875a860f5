#include "data/schema_mapping.h"

#include <arrow/json/from_string.h>
#include <arrow/scalar.h>

#include "data/avro_sink.h"
#include "data/avro_source.h"
#include "data/orc_sink.h"
#include "data/orc_source.h"
#include "data/parquet_rig.h"

namespace partforge::data {
namespace {

using data::testing::ExpectSameRows;
using data::testing::ParquetFixture;
using data::testing::ReadAll;
using data::testing::ToTable;

std::shared_ptr<arrow::Field> Id(const char* name, const std::shared_ptr<arrow::DataType>& type,
                                 int id, bool nullable = true) {
  return WithFieldId(arrow::field(name, type, nullable), id);
}

std::shared_ptr<arrow::RecordBatch> FromJson(const std::shared_ptr<arrow::Schema>& schema,
                                             const std::string& rows) {
  const auto array =
      arrow::json::ArrayFromJSONString(arrow::struct_(schema->fields()), rows).ValueOrDie();
  const auto batch = arrow::RecordBatch::FromStructArray(array).ValueOrDie();
  // The builders drop metadata inside of lists.
  return arrow::RecordBatch::Make(schema, batch->num_rows(), batch->columns());
}

class InnerDefaults : public ParquetFixture {
 protected:
  // A struct, a list of structs and a map of structs.
  static std::shared_ptr<arrow::Schema> FileSchema() {
    const auto inner = [](int id) { return arrow::struct_({Id("a", arrow::int32(), id)}); };
    return arrow::schema({Id("s", inner(11), 1),
                          Id("l", arrow::list(Id("element", inner(13), 12)), 2),
                          Id("m",
                             std::make_shared<arrow::MapType>(Id("key", arrow::utf8(), 14, false),
                                                              Id("value", inner(16), 15)),
                             3)});
  }
  // The same with one more field in each, which the file lacks.
  static std::shared_ptr<arrow::Schema> Wanted(bool nullable = true) {
    const auto inner = [&](int id, int added) {
      return arrow::struct_(
          {Id("new", arrow::utf8(), added, nullable), Id("a", arrow::int32(), id)});
    };
    return arrow::schema({Id("s", inner(11, 21), 1),
                          Id("l", arrow::list(Id("element", inner(13, 22), 12)), 2),
                          Id("m",
                             std::make_shared<arrow::MapType>(Id("key", arrow::utf8(), 14, false),
                                                              Id("value", inner(16, 23), 15)),
                             3)});
  }
  static FillIn Text(int id, const char* text) {
    return {.value = arrow::MakeScalar(std::string(text)), .field_id = id};
  }
  static constexpr const char* kFile =
      R"([{"s": {"a": 1}, "l": [{"a": 2}, null, {"a": null}], "m": [["k", {"a": 3}]]},
          {"s": null, "l": null, "m": null}, {"s": {"a": null}, "l": [], "m": [["j", null]]}])";
  static constexpr const char* kWanted =
      R"([{"s": {"new": "x", "a": 1},
           "l": [{"new": "y", "a": 2}, null, {"new": "y", "a": null}],
           "m": [["k", {"new": "z", "a": 3}]]},
          {"s": null, "l": null, "m": null},
          {"s": {"new": "x", "a": null}, "l": [], "m": [["j", null]]}])";

  Status MakeOf(const std::shared_ptr<arrow::Schema>& wanted, std::vector<FillIn> fill_ins) {
    const auto mapping =
        SchemaMapping::Make(FileSchema(), wanted, {.fill_ins = std::move(fill_ins)}, "f");
    return mapping.ok() ? Status() : mapping.status();
  }
};

TEST_F(InnerDefaults, FieldsOfStructsInListsAndMapsAreFilledInByTheirIds) {
  const auto batch = FromJson(FileSchema(), kFile);
  Write("p", {batch});
  auto orc = OpenOrcSink(ctx_, Create("o"), "o", FileSchema(), {.attributes = {.id = "x.id"}});
  ASSERT_TRUE((*orc)->Write(ctx_, *batch).ok());
  ASSERT_TRUE((*orc)->Close(ctx_).ok());
  auto avro = OpenAvroSink(ctx_, Create("a"), "a", FileSchema(), {});
  ASSERT_TRUE((*avro)->Write(ctx_, *batch).ok());
  ASSERT_TRUE((*avro)->Close(ctx_).ok());
  for (const bool nullable : {true, false}) {
    ScanSpec spec;
    spec.wanted = Wanted(nullable);
    spec.mapping.fill_ins = {Text(21, "x"), Text(22, "y"), Text(23, "z")};
    const auto wanted = ToTable({FromJson(spec.wanted, kWanted)});
    ExpectSameRows(*ReadAll(ctx_, *Open("p", spec)), *wanted);
    auto from_orc = OpenOrcSource(ctx_, Object("o"), "o", spec, {.id = "x.id"}, memory_);
    ASSERT_TRUE(from_orc.ok()) << from_orc.status().ToString();
    ExpectSameRows(*ReadAll(ctx_, **from_orc), *wanted);
    auto from_avro = OpenAvroSource(ctx_, Object("a"), "a", spec, {}, memory_);
    ASSERT_TRUE(from_avro.ok()) << from_avro.status().ToString();
    ExpectSameRows(*ReadAll(ctx_, **from_avro), *wanted);
  }
}

TEST_F(InnerDefaults, ARequiredInnerFieldWithoutOneIsRefusedByItsPath) {
  EXPECT_TRUE(MakeOf(Wanted(true), {}).ok());
  const std::pair<std::vector<FillIn>, const char*> cases[] = {
      {{Text(22, "y"), Text(23, "z")}, "s.new"},
      {{Text(21, "x"), Text(23, "z")}, "l.element.new"},
      {{Text(21, "x"), Text(22, "y")}, "m.value.new"}};
  for (const auto& [fill_ins, path] : cases) {
    const Status status = MakeOf(Wanted(false), fill_ins);
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_NE(status.message().find(std::string("required column ") + path), std::string::npos)
        << status.ToString();
  }
  const FillIn number{.value = arrow::MakeScalar(int32_t{1}), .field_id = 21};
  const Status status = MakeOf(Wanted(true), {number});
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_NE(status.message().find("column s.new is of type int32, wanted string"),
            std::string::npos)
      << status.ToString();
}

TEST_F(InnerDefaults, AnEmptyStructStandsForTheDefaultsOfItsFields) {
  Write("f", {FromJson(FileSchema(), kFile)});
  const auto added =
      arrow::struct_({Id("n", arrow::int64(), 31, false), Id("t", arrow::utf8(), 32),
                      Id("in", arrow::struct_({Id("d", arrow::float64(), 34)}), 33)});
  const std::shared_ptr<arrow::Scalar> empty =
      std::make_shared<arrow::StructScalar>(arrow::ScalarVector{}, arrow::struct_({}));
  ScanSpec spec;
  spec.wanted = arrow::schema({Id("added", added, 30, false)});
  spec.mapping.fill_ins = {{.value = empty, .field_id = 30},
                           {.value = arrow::MakeScalar(int64_t{7}), .field_id = 31},
                           {.value = empty, .field_id = 33},
                           {.value = arrow::MakeScalar(0.5), .field_id = 34}};
  const std::string row = R"({"added": {"n": 7, "t": null, "in": {"d": 0.5}}})";
  ExpectSameRows(*ReadAll(ctx_, *Open("f", spec)),
                 *ToTable({FromJson(spec.wanted, "[" + row + "," + row + "," + row + "]")}));
  spec.mapping.fill_ins.erase(spec.mapping.fill_ins.begin() + 1);
  const Status status = MakeOf(spec.wanted, spec.mapping.fill_ins);
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_NE(status.message().find("required column added.n"), std::string::npos)
      << status.ToString();
}

TEST_F(InnerDefaults, NamesOfTheTopLevelDoNotReachInside) {
  Write("f", {FromJson(FileSchema(), kFile)});
  ScanSpec spec;
  spec.wanted = arrow::schema({Wanted()->field(0), Id("new", arrow::utf8(), 40)});
  spec.mapping.fill_ins = {{.column = "new", .value = arrow::MakeScalar(std::string("top"))}};
  ExpectSameRows(*ReadAll(ctx_, *Open("f", spec)),
                 *ToTable({FromJson(spec.wanted, R"([{"s": {"new": null, "a": 1}, "new": "top"},
                                                     {"s": null, "new": "top"},
                                                     {"s": {"new": null, "a": null},
                                                      "new": "top"}])")}));
}

}  // namespace
}  // namespace partforge::data
