#include "data/avro_batches.h"

#include <arrow/api.h>
#include <arrow/json/from_string.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "base/hash.h"
#include "data/memory_bytes.h"
#include "testing/test_world.h"

namespace partforge::data {
namespace {

std::shared_ptr<arrow::Field> Id(const std::shared_ptr<arrow::Field>& field, int id) {
  return field->WithMetadata(arrow::key_value_metadata({"PARQUET:field_id"}, {std::to_string(id)}));
}

// Every Arrow type that has an Avro form in both styles, all nullable but the first, nested three
// deep.
std::shared_ptr<arrow::Schema> WideSchema() {
  const auto element = Id(arrow::field("element", arrow::int64()), 101);
  const auto inner = arrow::struct_({Id(arrow::field("x", arrow::int32(), false), 103),
                                     Id(arrow::field("deep list", arrow::list(element)), 104)});
  return arrow::schema(
      {Id(arrow::field("id", arrow::int64(), false), 1),
       Id(arrow::field("ok", arrow::boolean()), 2), Id(arrow::field("i", arrow::int32()), 3),
       Id(arrow::field("f", arrow::float32()), 4), Id(arrow::field("d", arrow::float64()), 5),
       Id(arrow::field("s", arrow::utf8()), 6), Id(arrow::field("b", arrow::binary()), 7),
       Id(arrow::field("fx", arrow::fixed_size_binary(3)), 8),
       Id(arrow::field("dec", arrow::decimal128(20, 3)), 9),
       Id(arrow::field("dec2", arrow::decimal128(38, 0)), 10),
       Id(arrow::field("day", arrow::date32()), 11),
       Id(arrow::field("ts", arrow::timestamp(arrow::TimeUnit::MICRO)), 12),
       Id(arrow::field("tz", arrow::timestamp(arrow::TimeUnit::MICRO, "UTC")), 13),
       Id(arrow::field("lst", arrow::list(Id(arrow::field("element", arrow::utf8()), 15))), 14),
       Id(arrow::field("mp", std::make_shared<arrow::MapType>(
                                 Id(arrow::field("key", arrow::utf8(), false), 17),
                                 Id(arrow::field("value", arrow::float64()), 18))),
          16),
       Id(arrow::field("kv", std::make_shared<arrow::MapType>(
                                 Id(arrow::field("key", arrow::int32(), false), 20),
                                 Id(arrow::field("value", arrow::utf8()), 21))),
          19),
       Id(arrow::field("9 st\xc3\xa9", inner), 102)});
}

std::shared_ptr<arrow::RecordBatch> WideBatch() {
  constexpr std::string_view kRows = R"([
    [1, true, -5, 1.5, -2.25, "naïve", "ab", "xyz", "12345.678", "-99999999999999999999999999999999999999", 19723,
     1704067200123456, 1704067200000001, ["a", null, ""], [["k", 1.5], ["j", null]], [[7, "seven"], [8, null]],
     [3, [1, null, 3]]],
    [2, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null],
    [3, false, 2147483647, 0, 1e300, "", "", "\u0000\u0001\u0002", "-0.001", "0", -1, -1, 0, [], [], [], [-3, null]]
  ])";
  std::string rows(kRows);
  auto array = arrow::json::ArrayFromJSONString(arrow::struct_(WideSchema()->fields()), rows);
  EXPECT_TRUE(array.ok()) << array.status().ToString();
  const auto batch = arrow::RecordBatch::FromStructArray(*array).ValueOrDie();
  // The builders have dropped metadata inside of maps.
  return arrow::RecordBatch::Make(WideSchema(), batch->num_rows(), batch->columns());
}

std::string Write(const arrow::RecordBatch& batch, const AvroSchemaStyle& style, int times = 1) {
  testing::TestWorld world;
  std::string bytes;
  MemorySink sink(bytes);
  auto schema = AvroSchemaOf(*batch.schema(), style);
  EXPECT_TRUE(schema.ok()) << schema.status().ToString();
  auto writer = AvroBatchWriter::Open(world.context(), batch.schema(),
                                      {.schema = *schema, .block_raw_bytes = 1000}, sink);
  EXPECT_TRUE(writer.ok()) << writer.status().ToString();
  for (int i = 0; i < times; ++i) {
    const Status status = (*writer)->Append(world.context(), batch);
    EXPECT_TRUE(status.ok()) << status.ToString();
  }
  EXPECT_TRUE((*writer)->Flush(world.context()).ok());
  return bytes;
}

struct Read {
  std::shared_ptr<arrow::Schema> schema;
  std::vector<std::shared_ptr<arrow::RecordBatch>> batches;
};
Result<Read> ReadBack(const std::string& bytes,
                      std::optional<std::vector<int>> leaves = std::nullopt,
                      AvroTimestamps timestamps = AvroTimestamps::kAvro, int64_t rows_max = 1000) {
  testing::TestWorld world;
  MemorySource source(AsBytes(bytes));
  PF_ASSIGN(auto reader, AvroBatchReader::Open(world.context(), source, "d.avro", timestamps,
                                               *arrow::default_memory_pool()));
  PF_TRY(reader->Select(leaves));
  Read read{.schema = reader->schema(), .batches = {}};
  while (true) {
    PF_ASSIGN(auto batch, reader->Next(world.context(), rows_max, int64_t{1} << 20));
    if (batch == nullptr) return read;
    EXPECT_TRUE(batch->ValidateFull().ok());
    read.batches.push_back(std::move(batch));
  }
}

TEST(AvroBatches, EveryTypeAndItsIdComesBackInBothStyles) {
  const auto batch = WideBatch();
  for (const AvroSchemaStyle& style :
       {AvroSchemaStyle{}, AvroSchemaStyle{.timestamps = AvroTimestamps::kSwapped,
                           .decimals = AvroSchemaStyle::Decimals::kBytes,
                           .names = AvroSchemaStyle::Names::kPaths,
                           .root_name = "record"}}) {
    const auto read = ReadBack(Write(*batch, style), std::nullopt, style.timestamps);
    ASSERT_TRUE(read.ok()) << read.status().ToString();
    for (int i = 0; i < WideSchema()->num_fields(); ++i) {
      EXPECT_TRUE(read->schema->field(i)->Equals(*WideSchema()->field(i), /*check_metadata=*/true))
          << read->schema->field(i)->ToString(true);
    }
    ASSERT_EQ(read->batches.size(), 1u);
    EXPECT_TRUE(read->batches[0]->Equals(*batch)) << read->batches[0]->ToString();
  }
}

TEST(AvroBatches, SlicesAreWrittenAsTheyShow) {
  const auto batch = WideBatch();
  const auto slice = batch->Slice(1, 2);
  const auto read = ReadBack(Write(*slice, {})).value();
  EXPECT_TRUE(read.batches.at(0)->Equals(*slice)) << read.batches.at(0)->ToString();
}

TEST(AvroBatches, BatchesAreCutAtRowsAndCrossBlocks) {
  const auto batch = WideBatch();
  const auto read =
      ReadBack(Write(*batch, {}, 200), std::nullopt, AvroTimestamps::kAvro, 7).value();
  int64_t rows = 0;
  for (const auto& part : read.batches) {
    for (int64_t i = 0; i < part->num_rows(); ++i, ++rows) {
      ASSERT_TRUE(part->Slice(i, 1)->Equals(*batch->Slice(rows % 3, 1))) << rows;
    }
    ASSERT_LE(part->num_rows(), 7);
  }
  EXPECT_EQ(rows, 600);
}

TEST(AvroBatches, OnlyChosenLeavesAreDecoded) {
  // Leaves: 13 flat columns, 13 lst.element, 14-15 mp, 16-17 kv, 18 x, 19 deep.element.
  const auto batch = WideBatch();
  const std::string bytes = Write(*batch, {});
  const auto read = ReadBack(bytes, std::vector<int>{0, 13, 15, 19}).value();
  ASSERT_EQ(read.schema->num_fields(), 4);
  EXPECT_EQ(read.schema->field(3)->type()->num_fields(), 1);
  EXPECT_TRUE(read.batches[0]->column(1)->Equals(batch->GetColumnByName("lst")));
  EXPECT_TRUE(read.batches[0]->column(2)->Equals(batch->GetColumnByName("mp")));
  const auto deep = std::static_pointer_cast<arrow::StructArray>(read.batches[0]->column(3));
  const auto whole =
      std::static_pointer_cast<arrow::StructArray>(batch->GetColumnByName("9 st\xc3\xa9"));
  EXPECT_TRUE(deep->field(0)->Equals(whole->field(1)));
  const auto none = ReadBack(bytes, std::vector<int>{}).value();
  EXPECT_EQ(none.batches.at(0)->num_rows(), 3);
  EXPECT_EQ(none.batches.at(0)->num_columns(), 0);
}

// Iceberg keeps the name of a column in an attribute, which anybody may write.
TEST(AvroBatches, FieldsOfOneNameAreToldApartByTheirPlace) {
  const std::string schema =
      R"({"type":"record","name":"r","fields":[{"name":"x","type":"int","field-id":1},)"
      R"({"name":"y","type":"string","iceberg-field-name":"x","field-id":2}]})";
  const std::string sync(16, 's');
  std::string bytes("Obj\x01\x02\x16", 6);
  bytes += "avro.schema";
  bytes += static_cast<char>(schema.size() * 2 % 128 + 128);
  bytes += static_cast<char>(schema.size() * 2 / 128);
  bytes += schema + '\0' + sync;
  bytes += "\x02\x08\x0a\x04hi" + sync;
  for (const int leaf : {0, 1}) {
    const auto read = ReadBack(bytes, std::vector<int>{leaf});
    ASSERT_TRUE(read.ok()) << read.status().ToString();
    const auto& batch = *read->batches.at(0);
    ASSERT_EQ(batch.num_columns(), 1);
    EXPECT_EQ(batch.column(0)->type_id(), leaf == 1 ? arrow::Type::STRING : arrow::Type::INT32);
    EXPECT_EQ(batch.column(0)->GetScalar(0).ValueOrDie()->ToString(), leaf == 1 ? "hi" : "5");
  }
}

// check: DATA-19
TEST(AvroBatches, FastavroFilesBecomeColumns) {
  const std::string bytes =
      ReadFile(fmt::format("{}/fastavro_zstandard.avro", PARTFORGE_DATA_TESTDATA)).value();
  const auto read = ReadBack(bytes);
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  const auto& batch = *read->batches.at(0);
  ASSERT_EQ(batch.num_rows(), 40);
  const auto text = [&](const char* column, int64_t row) {
    return batch.GetColumnByName(column)->GetScalar(row).ValueOrDie()->ToString();
  };
  EXPECT_EQ(batch.schema()->GetFieldByName("ts")->type()->ToString(), "timestamp[us]");
  EXPECT_EQ(batch.schema()->GetFieldByName("dec")->type()->ToString(), "decimal128(20, 3)");
  EXPECT_EQ(batch.schema()->GetFieldByName("kv")->type()->id(), arrow::Type::MAP);
  EXPECT_EQ(text("id", 5), "2");
  EXPECT_EQ(text("big", 3), "null");
  EXPECT_EQ(text("s", 7), "na\xc3\xafve 7");
  EXPECT_EQ(text("dec", 2), "2000.001");
  EXPECT_EQ(text("decb", 1), "-2.14");
  EXPECT_EQ(text("e", 1), "GREEN");
  EXPECT_EQ(text("day", 1), "2024-01-02");
}

TEST(AvroBatches, NullsInRequiredColumnsAreRefusedAndNothingIsHalfWritten) {
  const auto schema = arrow::schema({arrow::field("a", arrow::int32(), false)});
  arrow::Int32Builder builder;
  ASSERT_TRUE(builder.AppendNull().ok());
  const auto batch = arrow::RecordBatch::Make(schema, 1, {builder.Finish().ValueOrDie()});
  testing::TestWorld world;
  std::string bytes;
  MemorySink sink(bytes);
  auto writer = AvroBatchWriter::Open(world.context(), schema,
                                      {.schema = AvroSchemaOf(*schema, {}).value()}, sink)
                    .value();
  EXPECT_EQ(writer->Append(world.context(), *batch).code(), Code::kInvalidArgument);
  EXPECT_EQ(writer->record_count(), 0);
}

TEST(AvroBatches, TypesWithoutAnAvroFormAreRefusedByName) {
  const auto refused = [](std::shared_ptr<arrow::DataType> type) {
    const auto schema = AvroSchemaOf(*arrow::schema({arrow::field("odd", std::move(type))}), {});
    return schema.status();
  };
  EXPECT_EQ(refused(arrow::uint64()).code(), Code::kRefused);
  EXPECT_NE(refused(arrow::duration(arrow::TimeUnit::MICRO)).message().find("odd"),
            std::string::npos);
  EXPECT_EQ(refused(arrow::struct_({arrow::field("x", arrow::int32())})).code(),
            Code::kInvalidArgument);  // a nested record wants an id for its name
  const auto union_schema = AvroSchema::Parse(
      R"({"type":"record","name":"r","fields":[{"name":"u","type":["int","string"]}]})");
  EXPECT_EQ(ArrowSchemaOf(union_schema->root(), AvroTimestamps::kAvro).status().code(),
            Code::kRefused);
}

TEST(AvroBatches, NamesAreMadeSafeAndRemembered) {
  EXPECT_EQ(AvroSafeName("plain_1"), "plain_1");
  EXPECT_EQ(AvroSafeName("9a.b"), "_9a_x2Eb");
  EXPECT_EQ(AvroSafeName("caf\xc3\xa9"), "caf_xE9");
  EXPECT_EQ(AvroSafeName("\xf0\x9f\x98\x80"), "_xD83D_xDE00");
}

TEST(AvroBatches, WideDecimalsAreReadWhenTheyOnlyRepeatTheSign) {
  const auto decimal_file = [](const std::string& unscaled) {
    testing::TestWorld world;
    std::string bytes;
    MemorySink sink(bytes);
    auto writer = AvroFileWriter::Open(
        world.context(),
        {.schema =
             R"({"type":"record","name":"r","fields":[{"name":"d","type":{"type":"fixed","name":"f","size":18,
                   "logicalType":"decimal","precision":5,"scale":2}}]})"},
        sink);
    EXPECT_TRUE((*writer)->Append(world.context(), unscaled).ok());
    EXPECT_TRUE((*writer)->Flush(world.context()).ok());
    return ReadBack(bytes);
  };
  const auto good = decimal_file(std::string(16, '\xff') + "\xcf\xc7");
  ASSERT_TRUE(good.ok()) << good.status().ToString();
  EXPECT_EQ(good->batches[0]->column(0)->GetScalar(0).ValueOrDie()->ToString(), "-123.45");
  EXPECT_EQ(decimal_file(std::string(17, '\x01') + "x").status().code(), Code::kCorruption);
  EXPECT_EQ(decimal_file(std::string(15, '\0') + "\x0f\x42\x40").status().code(),
            Code::kCorruption);  // 1,000,000 has more than 5 digits
}

}  // namespace
}  // namespace partforge::data
