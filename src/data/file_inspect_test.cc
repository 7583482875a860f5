#include "data/file_inspect.h"

#include <arrow/json/from_string.h>

#include <algorithm>

#include "base/hash.h"
#include "data/avro_file.h"
#include "data/avro_report.h"
#include "data/avro_sink.h"
#include "data/bitmap.h"
#include "data/file_concat.h"
#include "data/orc_sink.h"
#include "data/parquet_footer.h"
#include "data/parquet_rig.h"
#include "data/puffin.h"

namespace partforge::data {
namespace {

using data::testing::ExpectSameRows;
using data::testing::ParquetFixture;
using data::testing::RandomBatch;
using data::testing::ReadAll;
using data::testing::ToTable;

class FileInspect : public ParquetFixture {
 protected:
  static std::shared_ptr<arrow::Schema> Schema() {
    return arrow::schema(
        {WithFieldId(arrow::field("id", arrow::int64(), false), 1),
         WithFieldId(arrow::field("price", arrow::decimal128(9, 2)), 2),
         WithFieldId(arrow::field("at", arrow::timestamp(arrow::TimeUnit::MICRO, "UTC")), 3),
         WithFieldId(arrow::field("text", arrow::utf8()), 4)});
  }
  FileReport Inspect(const std::string& key) {
    const auto object = Object(key);
    auto report = InspectFile(ctx_, *object, key, Inspection::kDecode, memory_);
    EXPECT_TRUE(report.ok()) << report.status().ToString();
    return report.ok() ? *report : FileReport();
  }
};

TEST_F(FileInspect, ParquetShowsItsColumnsAndRowGroups) {
  const auto batch = RandomBatch(random_, Schema(), 1000);
  Write("f", {batch},
        {.columns = {{.path = "text", .codec = ParquetCodec::kSnappy, .bloom_distinct_count = 100}},
         .row_group_rows = 400,
         .key_values = {{"k", "v"}},
         .created_by = "partforge test"});
  const FileReport report = Inspect("f");
  EXPECT_EQ(report.format, FileFormat::kParquet);
  EXPECT_EQ(report.row_count, 1000);
  EXPECT_EQ(report.written_by, "partforge test");
  ASSERT_EQ(report.properties.size(), 1U);
  ASSERT_EQ(report.groups.size(), 3U);
  EXPECT_EQ(report.groups[2].row_count, 200);
  ASSERT_EQ(report.columns.size(), 4U);
  EXPECT_EQ(report.columns[0].type, "int64");
  EXPECT_TRUE(report.columns[0].is_required);
  EXPECT_EQ(report.columns[1].type, "decimal(9,2)");
  EXPECT_EQ(report.columns[1].physical_type, "int32");
  EXPECT_EQ(report.columns[2].type, "timestamp(us, utc)");
  EXPECT_EQ(report.columns[3].type, "string");
  EXPECT_EQ(report.columns[3].field_id, 4);
  EXPECT_EQ(report.columns[3].codecs, std::vector<std::string>{"snappy"});
  EXPECT_EQ(report.columns[3].bloom_filter_chunks, 3);
  EXPECT_TRUE(report.columns[0].has_page_index);
  EXPECT_EQ(report.columns[3].metrics->null_count, batch->column(3)->null_count());
}

TEST_F(FileInspect, OtherFormatsAreRecognisedByTheirFirstBytes) {
  const auto schema = arrow::schema({WithFieldId(arrow::field("id", arrow::int64()), 1)});
  const auto batch = RandomBatch(random_, schema, 100);
  auto orc = OpenOrcSink(ctx_, Create("o"), "o", schema, {});
  ASSERT_TRUE((*orc)->Write(ctx_, *batch).ok());
  ASSERT_TRUE((*orc)->Close(ctx_).ok());
  EXPECT_EQ(Inspect("o").row_count, 100);
  EXPECT_EQ(Inspect("o").format, FileFormat::kOrc);
  auto avro = OpenAvroSink(ctx_, Create("a"), "a", schema, {});
  ASSERT_TRUE((*avro)->Write(ctx_, *batch).ok());
  ASSERT_TRUE((*avro)->Close(ctx_).ok());
  EXPECT_EQ(Inspect("a").row_count, 100);
  EXPECT_EQ(Inspect("a").columns.at(0).field_id, 1);
  const auto bytes = Create("p");
  auto puffin = PuffinWriter::Open(ctx_, *bytes);
  ASSERT_TRUE((*puffin)
                  ->Append(ctx_, {.type = "t", .snapshot_id = 1, .sequence_number = 1},
                           std::as_bytes(std::span("blob", 4)))
                  .ok());
  ASSERT_TRUE((*puffin)->Finish(ctx_, {}).ok());
  ASSERT_TRUE(bytes->Close(ctx_).ok());
  EXPECT_EQ(Inspect("p").groups.at(0).blob->type, "t");
  ASSERT_TRUE(WriteObject(ctx_, store_, "x", "something else").ok());
  const auto other = Object("x");
  const auto refused = InspectFile(ctx_, *other, "x", Inspection::kFooter, memory_);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), Code::kRefused);
}

std::vector<std::string> PathsOf(const FileReport& report) {
  std::vector<std::string> paths;
  for (const ColumnReport& column : report.columns) paths.push_back(column.path);
  return paths;
}

class NestedInspect : public FileInspect {
 protected:
  void SetUp() override {
    const auto id = [](const char* name, std::shared_ptr<arrow::DataType> type, int number,
                       bool nullable = true) {
      return WithFieldId(arrow::field(name, std::move(type), nullable), number);
    };
    schema_ = arrow::schema(
        {id("id", arrow::int64(), 1, false),
         id("s", arrow::struct_({id("a", arrow::int32(), 3), id("day", arrow::date32(), 4)}), 2),
         id("l", arrow::list(id("element", arrow::utf8(), 6)), 5),
         id("m",
            std::make_shared<arrow::MapType>(id("key", arrow::utf8(), 8, false),
                                             id("value", arrow::decimal128(9, 2), 9)),
            7)});
    const auto array =
        arrow::json::ArrayFromJSONString(
            arrow::struct_(schema_->fields()),
            R"([{"id": 5, "s": {"a": -3, "day": 0}, "l": ["x", null, "b"], "m": [["k", "1.50"]]},
                {"id": 7, "s": {"a": null, "day": 1}, "l": [], "m": null},
                {"id": 6, "s": null, "l": null, "m": [["j", "-2.00"], ["h", null]]}])")
            .ValueOrDie();
    const auto batch = arrow::RecordBatch::FromStructArray(array).ValueOrDie();
    batch_ = arrow::RecordBatch::Make(schema_, 3, batch->columns());
  }
  std::shared_ptr<arrow::Schema> schema_;
  std::shared_ptr<arrow::RecordBatch> batch_;
  const std::vector<std::string> paths_ = {"id",        "s", "s.a",   "s.day",  "l",
                                           "l.element", "m", "m.key", "m.value"};
};

TEST_F(NestedInspect, OrcShowsItsTreeWithIdsAndStatisticsOfFileAndStripes) {
  auto sink = OpenOrcSink(ctx_, Create("o"), "o", schema_,
                          {.attributes = {.id = "iceberg.id", .required = "iceberg.required"}});
  ASSERT_TRUE((*sink)->Write(ctx_, *batch_).ok());
  ASSERT_TRUE((*sink)->Close(ctx_).ok());
  const FileReport report = Inspect("o");
  EXPECT_EQ(report.row_count, 3);
  EXPECT_EQ(report.codec, "zstd");
  EXPECT_TRUE(report.written_by.starts_with("ORC C++")) << report.written_by;
  ASSERT_EQ(PathsOf(report), paths_);
  const std::vector<std::string> types = {"bigint",      "struct(2 fields)", "int", "date",
                                          "array",       "string",           "map", "string",
                                          "decimal(9,2)"};
  const std::vector<int32_t> ids = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  ASSERT_EQ(report.groups.size(), 1U);
  EXPECT_EQ(
      report.groups[0].index_bytes + report.groups[0].data_bytes + report.groups[0].footer_bytes,
      report.groups[0].compressed_bytes);
  int64_t stored = 0;
  for (size_t i = 0; i < paths_.size(); ++i) {
    SCOPED_TRACE(paths_[i]);
    const ColumnReport& column = report.columns[i];
    const ChunkReport& chunk = report.groups[0].chunks.at(i);
    EXPECT_EQ(column.type, types[i]);
    EXPECT_EQ(column.field_id, ids[i]);
    EXPECT_FALSE(column.encodings.empty());
    EXPECT_EQ(column.encodings, chunk.encodings);
    EXPECT_EQ(column.compressed_bytes, chunk.compressed_bytes);
    EXPECT_EQ(column.present_count, chunk.present_count);
    EXPECT_EQ(column.metrics->lower.has_value(), chunk.metrics->lower.has_value());
    stored += chunk.compressed_bytes;
  }
  EXPECT_LE(stored, report.groups[0].index_bytes + report.groups[0].data_bytes);
  EXPECT_TRUE(report.columns[0].is_required);
  EXPECT_FALSE(report.columns[1].is_required);
  EXPECT_EQ(report.columns[0].metrics->null_count, 0);
  EXPECT_EQ(report.columns[0].metrics->lower->value, Scalar::Int64(5));
  EXPECT_EQ(report.columns[0].metrics->upper->value, Scalar::Int64(7));
  EXPECT_EQ(report.columns[1].metrics->null_count, 1);
  EXPECT_EQ(report.columns[2].metrics->null_count, 1);  // that of the null struct is none
  EXPECT_EQ(report.columns[2].metrics->upper->value, Scalar::Int64(-3));
  EXPECT_EQ(report.columns[3].metrics->upper->value, Scalar::Int32(1));
  EXPECT_EQ(report.columns[5].metrics->null_count, std::nullopt);
  EXPECT_EQ(report.columns[5].present_count, 2);
  EXPECT_EQ(report.columns[5].has_null, true);
  EXPECT_EQ(report.columns[5].metrics->lower->value, Scalar::String("b"));
  EXPECT_EQ(report.columns[8].metrics->lower->value, Scalar::Decimal(Int128::Of(-200)));
}

TEST_F(NestedInspect, AvroShowsItsTreeAndItsFirstRecords) {
  auto sink = OpenAvroSink(ctx_, Create("a"), "a", schema_, {});
  ASSERT_TRUE((*sink)->Write(ctx_, *batch_).ok());
  ASSERT_TRUE((*sink)->Close(ctx_).ok());
  const FileReport report = Inspect("a");
  // A map whose keys are no strings of Avro's own is an array of pairs.
  const auto paths = PathsOf(report);
  for (const char* path : {"id", "s", "s.a", "s.day", "l", "l.element", "m"}) {
    EXPECT_NE(std::find(paths.begin(), paths.end(), path), paths.end()) << path;
  }
  EXPECT_EQ(report.columns[0].type, "long");
  EXPECT_EQ(report.columns[1].type, "record(2 fields)");
  EXPECT_EQ(report.columns[3].type, "date");
  EXPECT_EQ(report.columns[3].field_id, 4);
  EXPECT_EQ(report.columns[5].path, "l.element");
  EXPECT_EQ(report.columns[5].field_id, 6);
  for (const int64_t count : {0, 2, 3, 100}) {
    const auto object = Object("a");
    std::vector<AvroValue> records;
    const Status status = ForAvroRecords(ctx_, *object, "a", count,
                                         [&](const AvroType& type, const AvroValue& record) {
                                           EXPECT_EQ(type.kind, AvroKind::kRecord);
                                           records.push_back(record);
                                           return Status();
                                         });
    ASSERT_TRUE(status.ok()) << status.ToString();
    ASSERT_EQ(static_cast<int64_t>(records.size()), std::min<int64_t>(count, 3));
    if (count < 2) continue;
    const auto& fields = std::get<AvroValue::List>(records[1].value);
    EXPECT_EQ(fields[0], AvroValue{int64_t{7}});
    EXPECT_EQ(fields[2], AvroValue{AvroValue::List()});
  }
}

TEST_F(FileInspect, ConcatJoinsFilesInOrderAndSaysHow) {
  const auto schema = Schema();
  std::vector<std::shared_ptr<arrow::RecordBatch>> batches;
  std::vector<std::string> keys;
  for (int i = 0; i < 5; ++i) {
    batches.push_back(RandomBatch(random_, schema, 300));
    keys.push_back("in" + std::to_string(i));
    Write(keys.back(), {batches.back()}, {.row_group_rows = i % 2 == 0 ? 300 : 100});
  }
  const auto plan = ConcatFiles(ctx_, store_, keys, "out", {.is_dry_run = true}, memory_);
  ASSERT_TRUE(plan.ok()) << plan.status().ToString();
  ASSERT_EQ(plan->steps.size(), 1U);
  EXPECT_EQ(plan->steps[0].kind, StepKind::kStitch);
  EXPECT_FALSE(store_.Stat(ctx_, "out").ok());
  const auto done = ConcatFiles(ctx_, store_, keys, "out", {}, memory_);
  ASSERT_TRUE(done.ok()) << done.status().ToString();
  EXPECT_EQ(done->counts.rows_decoded, 0);
  EXPECT_EQ(done->output.row_count, 1500);
  ScanSpec spec;
  spec.wanted = schema;
  ExpectSameRows(*ReadAll(ctx_, *Open("out", spec)), *ToTable(batches));
  const auto again = ConcatFiles(ctx_, store_, keys, "out", {}, memory_);
  ASSERT_FALSE(again.ok());
  EXPECT_EQ(again.status().code(), Code::kAlreadyExists);
}

TEST_F(FileInspect, ConcatDecodesWhatHasAnotherType) {
  const auto wide = arrow::schema({WithFieldId(arrow::field("a", arrow::int64()), 1)});
  const auto narrow = arrow::schema({WithFieldId(arrow::field("b", arrow::int32()), 1)});
  const auto first = RandomBatch(random_, wide, 50);
  const auto second = RandomBatch(random_, narrow, 50);
  Write("1", {first});
  Write("2", {second});
  const auto done = ConcatFiles(ctx_, store_, {"1", "2"}, "out", {}, memory_);
  ASSERT_TRUE(done.ok()) << done.status().ToString();
  ASSERT_EQ(done->steps.size(), 2U);
  EXPECT_EQ(done->steps[1].reason, "schema differs: a");
  EXPECT_EQ(done->counts.rows_decoded, 50);
  EXPECT_EQ(done->output.row_count, 100);
}

TEST_F(FileInspect, FailedConcatLeavesNothing) {
  const auto schema = arrow::schema({arrow::field("a", arrow::utf8())});
  Write("1", {RandomBatch(random_, schema, 500)});
  std::string bytes = *ReadObject(ctx_, store_, "1");
  const auto footer = ParseParquetFooter(AsBytes(bytes), static_cast<int64_t>(bytes.size()), "1");
  bytes[static_cast<size_t>(ViewChunk(footer->chunk(0, 0), "1")->bytes.end() - 5)] ^= 1;
  ASSERT_TRUE(WriteObject(ctx_, store_, "2", bytes).ok());
  const auto failed = ConcatFiles(ctx_, store_, {"1", "2"}, "out", {}, memory_);
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.status().code(), Code::kCorruption);
  EXPECT_FALSE(store_.Stat(ctx_, "out").ok());
}

// Legal, and written by libraries for tables without columns.
TEST_F(FileInspect, AFileWithoutColumnsIsShownAndCannotBeJoined) {
  using namespace parquet_field;  // NOLINT: names of parquet.thrift
  ThriftValue root = ThriftValue::Struct();
  root.Set(schema_element::kName, ThriftValue::Binary("schema"));
  root.Set(schema_element::kNumChildren, ThriftValue::I32(0));
  ThriftValue group = ThriftValue::Struct();
  group.Set(row_group::kColumns, ThriftValue::List(ThriftType::kStruct));
  group.Set(row_group::kTotalByteSize, ThriftValue::I64(0));
  group.Set(row_group::kNumRows, ThriftValue::I64(5));
  ThriftValue tree = ThriftValue::Struct();
  tree.Set(file_metadata::kVersion, ThriftValue::I32(2));
  tree.Set(file_metadata::kSchema, ThriftValue::List(ThriftType::kStruct, {root}));
  tree.Set(file_metadata::kNumRows, ThriftValue::I64(5));
  tree.Set(file_metadata::kRowGroups, ThriftValue::List(ThriftType::kStruct, {group}));
  ASSERT_TRUE(WriteObject(ctx_, store_, "f", "PAR1" + *EncodeParquetFooter(tree)).ok());
  const FileReport report = Inspect("f");
  EXPECT_EQ(report.row_count, 5);
  EXPECT_TRUE(report.columns.empty());
  ASSERT_EQ(report.groups.size(), 1U);
  EXPECT_EQ(report.groups[0].row_count, 5);
  EXPECT_EQ(report.groups[0].offset, 4);
  for (const bool is_dry_run : {true, false}) {
    const auto joined =
        ConcatFiles(ctx_, store_, {"f", "f"}, "out", {.is_dry_run = is_dry_run}, memory_);
    ASSERT_FALSE(joined.ok());
    EXPECT_EQ(joined.status().code(), Code::kRefused);
    EXPECT_EQ(joined.status().explanation().pf_number, 8008);
    EXPECT_EQ(joined.status().explanation().where, "f");
  }
}

TEST_F(FileInspect, DecodingSeesDamageInRecordsOfAvro) {
  const auto sink = Create("a");
  const auto writer = AvroFileWriter::Open(
      ctx_,
      {.schema = R"({"type":"record","name":"r","fields":[{"name":"s","type":"string"}]})",
       .codec = BlockCodec::kNone},
      *sink);
  ASSERT_TRUE(writer.ok()) << writer.status().ToString();
  ASSERT_TRUE((*writer)->Append(ctx_, "\x04ok").ok());
  ASSERT_TRUE((*writer)->Append(ctx_, "\x64no").ok());  // fifty bytes, it says
  ASSERT_TRUE((*writer)->Flush(ctx_).ok());
  ASSERT_TRUE(sink->Close(ctx_).ok());
  const auto object = Object("a");
  EXPECT_TRUE(InspectFile(ctx_, *object, "a", Inspection::kFooter, memory_).ok());
  EXPECT_EQ(InspectFile(ctx_, *object, "a", Inspection::kDecode, memory_).status().code(),
            Code::kCorruption);
}

TEST_F(FileInspect, DecodingComparesADeletionVectorWithItsCardinality) {
  Positions positions;
  for (const uint64_t row : {3, 5, 900}) positions.Add(row);
  const std::string vector = *EncodeVector(positions, VectorLayout::kBits64);
  for (const std::string cardinality : {"3", "1"}) {
    const std::string key = "p" + cardinality;
    const auto bytes = Create(key);
    auto puffin = PuffinWriter::Open(ctx_, *bytes);
    ASSERT_TRUE((*puffin)
                    ->Append(ctx_,
                             {.type = "deletion-vector-v1",
                              .snapshot_id = -1,
                              .sequence_number = -1,
                              .properties = {{"cardinality", cardinality}}},
                             AsBytes(vector))
                    .ok());
    ASSERT_TRUE((*puffin)->Finish(ctx_, {}).ok());
    ASSERT_TRUE(bytes->Close(ctx_).ok());
    const auto object = Object(key);
    const auto report = InspectFile(ctx_, *object, key, Inspection::kDecode, memory_);
    EXPECT_EQ(report.ok(), cardinality == "3") << report.status().ToString();
    if (report.ok()) continue;
    EXPECT_EQ(report.status().code(), Code::kCorruption);
  }
}

}  // namespace
}  // namespace partforge::data
