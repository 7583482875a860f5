#include "data/file_concat.h"

#include <limits>

#include "base/hash.h"
#include "data/parquet_footer.h"
#include "data/parquet_rewrite_rig.h"
#include "data/schema_mapping.h"

namespace partforge::data {
namespace {

using namespace parquet_field;  // NOLINT: names of parquet.thrift
using data::testing::ExpectSameRows;
using data::testing::ParquetRewriteFixture;
using data::testing::RandomBatch;
using data::testing::ToTable;

class FileConcat : public ParquetRewriteFixture {
 protected:
  Result<ConcatReport> Concat(const std::vector<std::string>& inputs, ConcatOptions options = {}) {
    options.overwrites = true;
    return ConcatFiles(ctx_, store_, inputs, "out", options, memory_);
  }

  // What comes out is `wanted`, however the rows get there.
  void ExpectRows(const std::vector<std::string>& inputs, const arrow::Table& wanted) {
    for (const bool decodes : {false, true}) {
      for (const std::optional<ParquetCodec> codec :
           {std::optional<ParquetCodec>(), std::optional(ParquetCodec::kSnappy)}) {
        const auto report = Concat(inputs, {.decodes_always = decodes, .codec = codec});
        ASSERT_TRUE(report.ok()) << report.status().ToString();
        ExpectSameRows(*Read("out", nullptr), wanted);
      }
    }
  }

  std::string Bytes(const std::string& key) {
    const auto object = Object(key);
    std::string bytes(static_cast<size_t>(object->size_bytes()), '\0');
    EXPECT_TRUE(object->ReadAt(ctx_, 0, std::as_writable_bytes(std::span(bytes))).ok());
    return bytes;
  }

  // The file with another footer.
  void Edit(const std::string& key, const std::function<void(ThriftValue&)>& edit) {
    std::string bytes = Bytes(key);
    auto footer = ParseParquetFooter(AsBytes(bytes), static_cast<int64_t>(bytes.size()), key);
    ASSERT_TRUE(footer.ok()) << footer.status().ToString();
    uint32_t length = 0;
    std::memcpy(&length, bytes.data() + bytes.size() - 8, sizeof length);
    bytes.resize(bytes.size() - 8 - length);
    edit(footer->tree);
    const std::string tree = EncodeThriftStruct(footer->tree);
    length = static_cast<uint32_t>(tree.size());
    bytes += tree;
    bytes.append(reinterpret_cast<const char*>(&length), sizeof length);
    bytes += "PAR1";
    ASSERT_TRUE(WriteObject(ctx_, store_, key, bytes).ok());
  }
};

TEST_F(FileConcat, GroupsWithoutAnIdAreFoundByName) {
  const auto inner = WithFieldId(arrow::field("x", arrow::int32()), 2);
  const auto schema = arrow::schema({WithFieldId(arrow::field("id", arrow::int64()), 1),
                                     arrow::field("s", arrow::struct_({inner}))});
  const auto a = RandomBatch(random_, schema, 50), b = RandomBatch(random_, schema, 70);
  Write("a", {a});
  Write("b", {b});
  ExpectRows({"a", "b"}, *ToTable({a, b}));
}

TEST_F(FileConcat, ColumnsOfOneNameOrIdKeepTheirValues) {
  for (const bool has_ids : {false, true}) {
    const auto field = [&](int32_t id) {
      const auto made = arrow::field("a", arrow::int64());
      return has_ids ? WithFieldId(made, id) : made;
    };
    const auto schema = arrow::schema({field(7), field(7)});
    const auto batch = RandomBatch(random_, schema, 80);
    Write("a", {batch});
    ExpectRows({"a", "a"}, *ToTable({batch, batch}));
    // One of them alone is not both.
    Write("b", {RandomBatch(random_, arrow::schema({field(7)}), 80)});
    const auto report = Concat({"a", "b"});
    EXPECT_EQ(report.status().explanation().pf_number, 8009) << report.status().ToString();
    EXPECT_FALSE(Concat({"b", "a"}).ok());
  }
}

// Bounds are compared with what the new file says of their order.
TEST_F(FileConcat, BoundsOfAnUnsaidOrderAreLeftOut) {
  const auto schema =
      arrow::schema({arrow::field("text", arrow::utf8()), arrow::field("n", arrow::int64())});
  arrow::StringBuilder texts;
  arrow::Int64Builder numbers;
  for (int64_t i = 0; i < 300; ++i) {
    ASSERT_TRUE(texts.Append("row " + std::to_string(random_.Next() % 1000)).ok());
    ASSERT_TRUE(numbers.Append(static_cast<int64_t>(random_.Next())).ok());
  }
  const auto batch = arrow::RecordBatch::Make(
      schema, 300, {texts.Finish().ValueOrDie(), numbers.Finish().ValueOrDie()});
  Write("a", {batch});
  Write("b", {batch});
  Edit("b", [](ThriftValue& tree) { tree.Remove(file_metadata::kColumnOrders); });
  for (const std::vector<std::string>& inputs :
       {std::vector<std::string>{"b", "a"}, std::vector<std::string>{"a", "b"}}) {
    for (const int64_t group_bytes : {int64_t{1} << 10, int64_t{64} << 20}) {
      const auto report = Concat(inputs, {.row_group_bytes = group_bytes});
      ASSERT_TRUE(report.ok()) << report.status().ToString();
      const auto out = Input("out");
      int with_bounds = 0;
      for (int g = 0; g < out->footer.row_group_count(); ++g) {
        const auto bounds_of = [&](int leaf) {
          const ThriftValue* const stats = out->footer.chunk(g, leaf)
                                               .Find(column_chunk::kMetaData)
                                               ->Find(column_metadata::kStatistics);
          return stats != nullptr && stats->Find(statistics::kMinValue) != nullptr;
        };
        if (bounds_of(0)) ++with_bounds;
        // Numbers have one order.
        EXPECT_TRUE(bounds_of(1));
        EXPECT_EQ(out->footer.chunk(g, 0).Find(column_chunk::kColumnIndexOffset) != nullptr,
                  bounds_of(0));
      }
      // Of two row groups the sound one keeps them; one that is joined has none.
      EXPECT_EQ(with_bounds, out->footer.row_group_count() == 2 ? 1 : 0);
    }
  }
}

TEST_F(FileConcat, LocalTimesAndInstantsAreNotJoined) {
  const auto us = arrow::TimeUnit::MICRO;
  const auto local = arrow::schema({arrow::field("t", arrow::timestamp(us))});
  const auto instants = arrow::schema({arrow::field("t", arrow::timestamp(us, "UTC"))});
  Write("a", {RandomBatch(random_, local, 10)});
  Write("b", {RandomBatch(random_, instants, 10)});
  for (const bool decodes : {false, true}) {
    EXPECT_EQ(Concat({"a", "b"}, {.decodes_always = decodes}).status().explanation().pf_number,
              8009);
    EXPECT_EQ(Concat({"b", "a"}, {.decodes_always = decodes}).status().explanation().pf_number,
              8009);
  }
}

// INT96 has nanoseconds and six million years.
TEST_F(FileConcat, TimesThatDoNotFitAreRefusedWithTheirRow) {
  const auto write = [&](const std::string& key, arrow::TimeUnit::type unit,
                         const std::vector<int64_t>& values, bool as_int96) {
    arrow::TimestampBuilder builder(arrow::timestamp(unit), arrow::default_memory_pool());
    EXPECT_TRUE(builder.AppendValues(values).ok());
    const auto schema = arrow::schema({arrow::field("t", arrow::timestamp(unit))});
    parquet::WriterProperties::Builder properties;
    WriteByLibrary(key, *arrow::Table::Make(schema, {builder.Finish().ValueOrDie()}), 100,
                   properties, as_int96);
  };
  constexpr int64_t kYear2500 = int64_t{16'725'225'600} * 1'000'000;
  write("ns", arrow::TimeUnit::NANO, {1}, false);
  write("us", arrow::TimeUnit::MICRO, {1}, false);
  write("near", arrow::TimeUnit::NANO, {1'000, -5'000}, true);
  write("digits", arrow::TimeUnit::NANO, {1'000, 1'000'000'123}, true);
  write("far", arrow::TimeUnit::MICRO, {0, 0, kYear2500}, true);
  ASSERT_TRUE(Concat({"ns", "near"}).ok());
  ASSERT_TRUE(Concat({"ns", "digits"}).ok());
  ASSERT_TRUE(Concat({"us", "near"}).ok());
  ASSERT_TRUE(Concat({"us", "far"}).ok());
  const auto far = Concat({"ns", "far"}).status();
  EXPECT_NE(far.ToString().find("column t, row 2"), std::string::npos) << far.ToString();
  const auto digits = Concat({"us", "digits"}).status();
  EXPECT_NE(digits.ToString().find("column t, row 1"), std::string::npos) << digits.ToString();
}

TEST_F(FileConcat, NullsInRequiredInnerFieldsAreFoundUnlessHidden) {
  const auto schema_of = [](bool is_nullable) {
    const auto inner = arrow::struct_(
        {arrow::field("x", arrow::int32(), is_nullable), arrow::field("y", arrow::int8())});
    return arrow::schema(
        {arrow::field("s", inner), arrow::field("l", arrow::list(arrow::field("element", inner)))});
  };
  const auto made = [&](bool has_null) {
    // Row 1 is null itself, row 2 holds the null.
    arrow::Int32Builder x;
    arrow::Int8Builder y;
    EXPECT_TRUE(x.Append(1).ok() && x.AppendNull().ok());
    EXPECT_TRUE((has_null ? x.AppendNull() : x.Append(3)).ok());
    EXPECT_TRUE(y.AppendValues({1, 2, 3}).ok());
    const uint8_t valid = 0b101;
    const auto inner = std::make_shared<arrow::StructArray>(
        schema_of(true)->field(0)->type(), 3,
        arrow::ArrayVector{x.Finish().ValueOrDie(), y.Finish().ValueOrDie()},
        arrow::Buffer::FromString(std::string(1, static_cast<char>(valid))));
    arrow::Int32Builder offsets;
    EXPECT_TRUE(offsets.AppendValues({0, 2, 2, 3}).ok());
    const auto list = std::make_shared<arrow::ListArray>(
        schema_of(true)->field(1)->type(), 3,
        std::static_pointer_cast<arrow::Int32Array>(offsets.Finish().ValueOrDie())->values(),
        inner);
    return arrow::RecordBatch::Make(schema_of(true), 3, {inner, list});
  };
  ScanSpec spec;
  spec.wanted = schema_of(false);
  spec.mapping.match = MatchBy::kName;
  Write("hidden", {made(false)});
  const auto hidden = Open("hidden", spec)->Next(ctx_);
  EXPECT_TRUE(hidden.ok()) << hidden.status().ToString();
  Write("bare", {made(true)});
  const auto bare = Open("bare", spec)->Next(ctx_);
  EXPECT_EQ(bare.status().code(), Code::kCorruption);
  EXPECT_NE(bare.status().ToString().find("s.x, row 2"), std::string::npos)
      << bare.status().ToString();
}

// Other writers store decimals in bytes of a fixed length, which a column that is decoded keeps.
TEST_F(FileConcat, ListsOfDecimalsLoseTheirDeletedRows) {
  const auto decimals = arrow::list(arrow::field("element", arrow::decimal128(18, 4)));
  const auto schema =
      arrow::schema({arrow::field("id", arrow::int64()), arrow::field("l", decimals),
                     arrow::field("t", arrow::utf8())});
  const auto batch = RandomBatch(random_, schema, 400);
  parquet::WriterProperties::Builder properties;
  WriteByLibrary("a", *ToTable({batch}), 1000, properties);
  Positions deleted;
  deleted.Add(3);
  deleted.Add(399);
  const RowFilter filter(std::move(deleted));
  std::vector<RewriteInput> inputs;
  inputs.push_back({.file = Input("a"), .deleted = &filter, .mapping = {.match = MatchBy::kName}});
  RewriteTarget target;
  target.copy.schema = &inputs[0].file->schema();
  target.copy.match = MatchBy::kName;
  const std::vector<RewriteStep> steps = {{.kind = StepKind::kFilterPages,
                                           .groups = {{.input = 0, .row_group = 0}},
                                           .live_rows = 398,
                                           .bytes = 1,
                                           .reason = "deleted rows"}};
  const auto read_schema = Read("a", nullptr)->schema();
  RollingSink sink(store_,
                   [&](const Context& ctx, int64_t) -> Result<RollingSink::Opened> {
                     RollingSink::Opened opened{.key = "out", .sink = nullptr};
                     ParquetSinkOptions options;
                     options.schema_of = &inputs[0].file->footer;
                     PF_ASSIGN(opened.sink, ParquetSink::Open(ctx, Create("out"), "out",
                                                              read_schema, options, memory_));
                     return opened;
                   },
                   {.size_bytes = INT64_MAX});
  RewriteCounts counts;
  const Status status =
      RunRewrite(ctx_, inputs, steps, target, read_schema, {}, sink, memory_, counts);
  ASSERT_TRUE(status.ok()) << status.ToString();
  const auto written = sink.Close(ctx_);
  ASSERT_TRUE(written.ok()) << written.status().ToString();
  std::vector<int64_t> live;
  for (int64_t i = 0; i < 399; ++i) {
    if (i != 3) live.push_back(i);
  }
  ExpectSameRows(*Read("out", nullptr), *data::testing::TakeRows(*ToTable({batch}), live));
}

}  // namespace
}  // namespace partforge::data
