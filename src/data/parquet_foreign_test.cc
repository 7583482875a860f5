#include <arrow/ipc/writer.h>
#include <arrow/json/from_string.h>
#include <arrow/util/base64.h>
#include <fmt/format.h>

#include "data/chunk_statistics.h"
#include "data/file_concat.h"
#include "data/file_inspect.h"
#include "data/page_codec.h"
#include "data/page_index.h"
#include "data/parquet_assembler.h"
#include "data/parquet_rewrite_rig.h"

// Files as our writer never makes them: legal but odd, or hostile.

namespace partforge::data {
namespace {

using namespace parquet_field;  // NOLINT: names of parquet.thrift
using data::testing::ExpectSameRows;
using data::testing::ParquetRewriteFixture;
using data::testing::RandomBatch;
using data::testing::ReadAll;
using data::testing::ToTable;
using SchemaPtr = std::shared_ptr<arrow::Schema>;
using TablePtr = std::shared_ptr<arrow::Table>;

TablePtr FromJson(const SchemaPtr& schema, std::string_view rows) {
  auto array =
      arrow::json::ArrayFromJSONString(arrow::struct_(schema->fields()), std::string(rows));
  EXPECT_TRUE(array.ok()) << array.status().ToString();
  const auto batch = arrow::RecordBatch::FromStructArray(*array).ValueOrDie();
  // The builders drop metadata inside of lists.
  return arrow::Table::FromRecordBatches(
             schema, {arrow::RecordBatch::Make(schema, batch->num_rows(), batch->columns())})
      .ValueOrDie();
}

TablePtr Twice(const TablePtr& table) {
  return arrow::ConcatenateTables({table, table}).ValueOrDie()->CombineChunks().ValueOrDie();
}

class ParquetForeign : public ParquetRewriteFixture {
 protected:
  void WriteTable(const std::string& key, const arrow::Table& table, bool with_index = false) {
    parquet::WriterProperties::Builder builder;
    if (with_index) {
      builder.enable_write_page_index();
    } else {
      builder.disable_write_page_index();
    }
    WriteByLibrary(key, table, 1000, builder);
  }

  // Writes the file again with another footer.
  void EditFooter(const std::string& key, const std::function<void(ThriftValue&)>& edit) {
    std::string bytes = *ReadObject(ctx_, store_, key);
    ParquetFooter footer = *ReadParquetFooter(ctx_, *Object(key), key);
    bytes.resize(static_cast<size_t>(footer.footer_start));
    edit(footer.tree);
    bytes += *EncodeParquetFooter(footer.tree);
    const std::string keys[] = {key};
    ASSERT_TRUE(store_.Delete(ctx_, keys).ok());
    ASSERT_TRUE(WriteObject(ctx_, store_, key, bytes).ok());
  }

  Result<ConcatReport> Concat(const std::vector<std::string>& keys,
                              const ConcatOptions& given = {}) {
    ConcatOptions options = given;
    options.overwrites = true;
    return ConcatFiles(ctx_, store_, keys, "out", options, memory_);
  }

  TablePtr ReadWhole(const std::string& key) { return ReadAll(ctx_, *Open(key)); }

  // What comes out is `wanted`, however the rows get there.
  void ExpectRows(const std::vector<std::string>& keys, const arrow::Table& wanted) {
    for (const bool decodes : {false, true}) {
      for (const std::optional<ParquetCodec> codec :
           {std::optional<ParquetCodec>(), std::optional(ParquetCodec::kSnappy)}) {
        const auto done = Concat(keys, {.decodes_always = decodes, .codec = codec});
        ASSERT_TRUE(done.ok()) << done.status().ToString();
        ExpectSameRows(*Read("out", nullptr), wanted);
      }
    }
  }

  const ThriftValue* StatisticsOf(const ParquetFooter& footer, int leaf, int row_group = 0) {
    return footer.chunk(row_group, leaf)
        .Find(column_chunk::kMetaData)
        ->Find(column_metadata::kStatistics);
  }
};

TEST_F(ParquetForeign, GroupsWithoutIdsAboveLeavesWithIdsKeepTheirValues) {
  const auto schema = arrow::schema(
      {WithFieldId(arrow::field("k", arrow::int64()), 1),
       arrow::field("s", arrow::struct_({WithFieldId(arrow::field("a", arrow::int32()), 2),
                                         WithFieldId(arrow::field("b", arrow::utf8()), 3)})),
       arrow::field("l", arrow::list(WithFieldId(arrow::field("element", arrow::int32()), 4)))});
  const auto table =
      FromJson(schema, R"([[1, [1, "x"], [1]], [2, [2, "y"], [2, 3]], [3, null, null]])");
  WriteTable("1", *table);
  WriteTable("2", *table);
  for (const bool decodes : {false, true}) {
    const auto done = Concat({"1", "2"}, {.decodes_always = decodes});
    ASSERT_TRUE(done.ok()) << done.status().ToString();
    EXPECT_EQ(done->steps[0].kind, decodes ? StepKind::kDecode : StepKind::kStitch);
    ExpectSameRows(*ReadWhole("out"), *Twice(table));
  }
  const auto flat_and_group = arrow::schema({schema->field(0), schema->field(1)});
  const auto a = RandomBatch(random_, flat_and_group, 50);
  const auto b = RandomBatch(random_, flat_and_group, 70);
  Write("a", {a});
  Write("b", {b});
  ExpectRows({"a", "b"}, *ToTable({a, b}));
  // The same for readers that look for ids: what is wanted without one is found by its name.
  ScanSpec spec;
  spec.wanted = schema;
  spec.mapping.match = MatchBy::kFieldId;
  ExpectSameRows(*ReadAll(ctx_, *Open("1", spec)), *table);
  const auto footer = *ReadParquetFooter(ctx_, *Object("1"), "1");
  const ParquetSchema& own = footer.tree.Find(file_metadata::kSchema)->items();
  const auto mapping = MapParquetLeaves(own, own, MatchBy::kFieldId, "1");
  ASSERT_TRUE(mapping.ok());
  EXPECT_FALSE(mapping->difference);
  EXPECT_TRUE(mapping->is_identity());
}

TEST_F(ParquetForeign, ColumnsOfOneNameOrIdKeepTheirOwnValues) {
  const auto same_names =
      arrow::schema({arrow::field("a", arrow::int64()), arrow::field("a", arrow::int64())});
  const auto same_ids = arrow::schema({WithFieldId(arrow::field("x", arrow::int64()), 1),
                                       WithFieldId(arrow::field("y", arrow::int64()), 1)});
  const auto same_both = arrow::schema({WithFieldId(arrow::field("a", arrow::int64()), 7),
                                        WithFieldId(arrow::field("a", arrow::int64()), 7)});
  for (const auto& schema : {same_names, same_ids, same_both}) {
    const auto table = FromJson(schema, "[[1, 10], [2, 20], [3, 30]]");
    WriteTable("in", *table);
    for (const ConcatOptions& options :
         {ConcatOptions{}, ConcatOptions{.codec = ParquetCodec::kZstd},
          ConcatOptions{.row_group_bytes = 1}, ConcatOptions{.decodes_always = true}}) {
      const auto done = Concat({"in", "in"}, options);
      ASSERT_TRUE(done.ok()) << done.status().ToString();
      ExpectSameRows(*ReadWhole("out"), *Twice(table));
    }
    const auto batch = RandomBatch(random_, schema, 80);
    Write("own", {batch});
    ExpectRows({"own", "own"}, *ToTable({batch, batch}));
    const std::string keys[] = {"in"};
    ASSERT_TRUE(store_.Delete(ctx_, keys).ok());
  }
}

TEST_F(ParquetForeign, AColumnIsNotTakenTwiceNorOneOfTwoChosen) {
  const auto bare = arrow::field("a", arrow::int64());
  for (const auto& field : {bare, WithFieldId(bare, 7)}) {
    WriteTable("one", *FromJson(arrow::schema({field}), "[[1]]"));
    WriteTable("two", *FromJson(arrow::schema({field, field}), "[[1, 10]]"));
    for (const auto& keys : {std::vector<std::string>{"one", "two"}, {"two", "one"}}) {
      const auto done = Concat(keys);
      EXPECT_EQ(done.status().code(), Code::kInvalidArgument);
      EXPECT_EQ(done.status().explanation().pf_number, 8009) << done.status().ToString();
    }
    const std::string keys[] = {"one", "two"};
    ASSERT_TRUE(store_.Delete(ctx_, keys).ok());
  }
}

// A step of a concatenation never makes values up.
TEST_F(ParquetForeign, NothingIsFilledInWhereItIsNotAskedFor) {
  const auto file = arrow::schema({arrow::field("a", arrow::int64())});
  const auto wanted =
      arrow::schema({arrow::field("a", arrow::int64()), arrow::field("b", arrow::int64())});
  MappingOptions options{.match = MatchBy::kName};
  EXPECT_TRUE(SchemaMapping::Make(file, wanted, options, "f").ok());
  options.absent = AbsentFields::kRefused;
  const auto refused = SchemaMapping::Make(file, wanted, options, "f");
  EXPECT_EQ(refused.status().code(), Code::kInvalidArgument);
  EXPECT_NE(refused.status().message().find("lacks column b"), std::string::npos);
}

TEST_F(ParquetForeign, BoundsWithoutAnOrderAreNotCopied) {
  const auto schema =
      arrow::schema({arrow::field("t", arrow::utf8()), arrow::field("i", arrow::int64())});
  WriteTable("in", *FromJson(schema, R"([["a", 1], ["é", 2], ["z", 3]])"), true);
  WriteTable("ordered", *FromJson(schema, R"([["b", 4]])"), true);
  EditFooter("in", [](ThriftValue& tree) {
    tree.Remove(file_metadata::kColumnOrders);
    ThriftValue* chunk =
        &tree.Find(file_metadata::kRowGroups)->items()[0].Find(row_group::kColumns)->items()[0];
    ThriftValue* stats = chunk->Find(column_chunk::kMetaData)->Find(column_metadata::kStatistics);
    stats->Set(statistics::kMinValue, ThriftValue::Binary("é"));
    stats->Set(statistics::kMaxValue, ThriftValue::Binary("z"));
    stats->Set(statistics::kMin, ThriftValue::Binary("é"));
    stats->Set(statistics::kMax, ThriftValue::Binary("z"));
  });
  // One row group copied, two joined, one joined with one that has an order.
  const std::vector<std::vector<std::string>> inputs = {{"in"}, {"in", "in"}, {"ordered", "in"}};
  for (const auto& keys : inputs) {
    const auto done = Concat(keys);
    ASSERT_TRUE(done.ok()) << done.status().ToString();
    const auto footer = *ReadParquetFooter(ctx_, *Object("out"), "out");
    EXPECT_EQ(BoundOrderOf(footer.tree, 0), BoundOrder::kOfType);
    const ThriftValue* text = StatisticsOf(footer, 0);
    ASSERT_NE(text, nullptr);
    for (const int16_t field :
         {statistics::kMin, statistics::kMax, statistics::kMinValue, statistics::kMaxValue}) {
      EXPECT_EQ(text->Find(field), nullptr) << field;
    }
    EXPECT_EQ(text->Find(statistics::kNullCount)->AsInt(), 0);
    EXPECT_NE(StatisticsOf(footer, 1)->Find(statistics::kMinValue), nullptr);
    EXPECT_EQ(ViewChunk(footer.chunk(0, 0), "out")->column_index.length, 0);
    EXPECT_GT(ViewChunk(footer.chunk(0, 1), "out")->column_index.length, 0);
    // Nobody who prunes loses a row.
    ScanSpec spec;
    spec.ranges = {{.column = {.id = -1, .name = "t"}}};
    spec.ranges[0].equals = {Scalar::String("a")};
    EXPECT_EQ(ReadAll(ctx_, *Open("out", spec))->num_rows(), ReadWhole("out")->num_rows());
  }
}

// Bounds are compared with what the new file says of their order.
TEST_F(ParquetForeign, OfTwoRowGroupsTheSoundOneKeepsItsBounds) {
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
  EditFooter("b", [](ThriftValue& tree) { tree.Remove(file_metadata::kColumnOrders); });
  for (const std::vector<std::string>& inputs :
       {std::vector<std::string>{"b", "a"}, std::vector<std::string>{"a", "b"}}) {
    for (const int64_t group_bytes : {int64_t{1} << 10, int64_t{64} << 20}) {
      const auto report = Concat(inputs, {.row_group_bytes = group_bytes});
      ASSERT_TRUE(report.ok()) << report.status().ToString();
      const auto out = Input("out");
      int with_bounds = 0;
      for (int g = 0; g < out->footer.row_group_count(); ++g) {
        const auto bounds_of = [&](int leaf) {
          const ThriftValue* const stats = StatisticsOf(out->footer, leaf, g);
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

// An order that is not the type's (IEEE 754 total order, or one to come).
TEST_F(ParquetForeign, BoundsInAnotherOrderAreNotCopied) {
  const auto schema = arrow::schema({arrow::field("d", arrow::float64())});
  WriteTable("in", *FromJson(schema, "[[1], [2]]"), true);
  EditFooter("in", [](ThriftValue& tree) {
    ThriftValue order = ThriftValue::Struct();
    order.Set(2, ThriftValue::Struct());
    tree.Set(file_metadata::kColumnOrders, ThriftValue::List(ThriftType::kStruct, {order}));
  });
  ASSERT_TRUE(Concat({"in"}).ok());
  const auto footer = *ReadParquetFooter(ctx_, *Object("out"), "out");
  EXPECT_EQ(StatisticsOf(footer, 0)->Find(statistics::kMinValue), nullptr);
  EXPECT_EQ(ViewChunk(footer.chunk(0, 0), "out")->column_index.length, 0);
}

TEST_F(ParquetForeign, AColumnIndexOfOtherPagesIsNotCopied) {
  const auto schema =
      arrow::schema({arrow::field("i", arrow::int64()), arrow::field("j", arrow::int64())});
  WriteTable("in", *FromJson(schema, "[[1, 2]]"), true);
  // The first column gets an index of two pages.
  std::string bytes = *ReadObject(ctx_, store_, "in");
  ParquetFooter footer = *ReadParquetFooter(ctx_, *Object("in"), "in");
  bytes.resize(static_cast<size_t>(footer.footer_start));
  ColumnIndex index;
  index.null_pages = {false, false};
  index.min_values = index.max_values = {std::string(8, '\1'), std::string(8, '\1')};
  const std::string encoded = EncodeColumnIndex(index);
  ThriftValue& chunk =
      footer.tree.Find(file_metadata::kRowGroups)->items()[0].Find(row_group::kColumns)->items()[0];
  ASSERT_TRUE(PlaceColumnIndex(chunk, {.offset = footer.footer_start,
                                       .length = static_cast<int64_t>(encoded.size())})
                  .ok());
  bytes += encoded + *EncodeParquetFooter(footer.tree);
  ASSERT_TRUE(WriteObject(ctx_, store_, "odd", bytes).ok());
  EXPECT_EQ(Concat({"odd"}).status().code(), Code::kCorruption);
}

TEST_F(ParquetForeign, LocalTimesAreNotJoinedWithInstants) {
  const auto local = arrow::schema({arrow::field("t", arrow::timestamp(arrow::TimeUnit::MICRO))});
  const auto instant =
      arrow::schema({arrow::field("t", arrow::timestamp(arrow::TimeUnit::MICRO, "UTC"))});
  WriteTable("local", *FromJson(local, "[[1]]"));
  WriteTable("instant", *FromJson(instant, "[[2]]"));
  for (const auto& keys : {std::vector<std::string>{"local", "instant"}, {"instant", "local"}}) {
    for (const bool decodes : {false, true}) {
      const auto done = Concat(keys, {.decodes_always = decodes});
      EXPECT_EQ(done.status().code(), Code::kInvalidArgument);
      EXPECT_EQ(done.status().explanation().pf_number, 8009);
    }
  }
  ScanSpec spec;
  spec.wanted = instant;
  spec.mapping = {.match = MatchBy::kName, .zones = ZonesOfTimes::kAsWanted};
  ExpectSameRows(*ReadAll(ctx_, *Open("local", spec)), *FromJson(instant, "[[1]]"));
}

TEST_F(ParquetForeign, ANullInARequiredInnerFieldIsFoundWithItsRow) {
  const auto of = [](bool is_nullable) {
    const auto a = arrow::field("a", arrow::int32(), is_nullable);
    return arrow::schema(
        {arrow::field("s", arrow::struct_({a})),
         arrow::field("l", arrow::list(arrow::field("element", arrow::int32(), is_nullable))),
         arrow::field("m", arrow::map(arrow::utf8(), arrow::field("value", arrow::struct_({a}))))});
  };
  const auto read_as = [&](const SchemaPtr& schema, const SchemaPtr& wanted,
                           std::string_view rows) {
    WriteTable("in", *FromJson(schema, rows));
    ScanSpec spec;
    spec.wanted = wanted;
    spec.mapping.match = MatchBy::kName;
    const auto source = Open("in", spec);
    const auto batch = source->Next(ctx_);
    const std::string keys[] = {"in"};
    EXPECT_TRUE(store_.Delete(ctx_, keys).ok());
    if (!batch.ok()) {
      EXPECT_EQ(batch.status().code(), Code::kCorruption);
      return batch.status().message();
    }
    return std::to_string((*batch)->num_rows());
  };
  const auto read = [&](std::string_view rows) { return read_as(of(true), of(false), rows); };
  // Nulls above hide what is below.
  EXPECT_EQ(read(R"([[null, null, null], [[1], [2, 3], [["k", [4]], ["l", null]]]])"), "2");
  EXPECT_NE(read(R"([[null, [], []], [[null], [], []]])").find("column s.a, row 1"),
            std::string::npos);
  EXPECT_NE(read(R"([[[1], [1, 2], []], [[1], [], []], [[1], [3, null], []]])")
                .find("column l.element, row 2"),
            std::string::npos);
  EXPECT_NE(
      read(R"([[[1], [], [["k", [4]]]], [[1], [], [["k", [4]], ["l", [null]]]]])").find("row 1"),
      std::string::npos);
  // Of a group with more fields, alone and in lists: null itself, or with the null inside.
  const auto of_two = [](bool is_nullable) {
    const auto inner = arrow::struct_(
        {arrow::field("x", arrow::int32(), is_nullable), arrow::field("y", arrow::int8())});
    return arrow::schema(
        {arrow::field("s", inner), arrow::field("l", arrow::list(arrow::field("element", inner)))});
  };
  const auto read_two = [&](std::string_view rows) {
    return read_as(of_two(true), of_two(false), rows);
  };
  EXPECT_EQ(read_two("[[[1, 1], [[1, 1], null]], [null, []], [[3, 3], [[3, 3]]]]"), "3");
  EXPECT_NE(read_two("[[[1, 1], [[1, 1], null]], [null, []], [[null, 3], [[null, 3]]]]")
                .find("s.x, row 2"),
            std::string::npos);
}

// INT96 columns as fixed values of twelve bytes, and the footer then says what they are.
class ParquetInt96 : public ParquetForeign {
 protected:
  static std::string Bytes(int64_t nanos_of_day, int32_t julian_day) {
    std::string bytes(12, '\0');
    std::memcpy(bytes.data(), &nanos_of_day, sizeof nanos_of_day);
    std::memcpy(bytes.data() + 8, &julian_day, sizeof julian_day);
    return bytes;
  }

  void WriteInt96(const std::string& key, const std::vector<std::string>& values) {
    arrow::FixedSizeBinaryBuilder builder(arrow::fixed_size_binary(12));
    for (const std::string& value : values) ASSERT_TRUE(builder.Append(value).ok());
    const auto array = builder.Finish().ValueOrDie();
    const auto schema = arrow::schema({arrow::field("t", array->type())});
    WriteTable(key, *arrow::Table::Make(schema, {array}));
    EditFooter(key, [](ThriftValue& tree) {
      constexpr auto kInt96 = static_cast<int32_t>(ParquetType::kInt96);
      ThriftValue& leaf = tree.Find(file_metadata::kSchema)->items()[1];
      leaf.Set(schema_element::kType, ThriftValue::I32(kInt96));
      leaf.Remove(schema_element::kTypeLength);
      tree.Find(file_metadata::kRowGroups)
          ->items()[0]
          .Find(row_group::kColumns)
          ->items()[0]
          .Find(column_chunk::kMetaData)
          ->Set(column_metadata::kType, ThriftValue::I32(kInt96));
    });
  }

  static SchemaPtr Wanted(arrow::TimeUnit::type unit, const std::string& zone = "") {
    return arrow::schema({arrow::field("t", arrow::timestamp(unit, zone))});
  }

  Result<std::shared_ptr<arrow::RecordBatch>> ReadAs(
      const SchemaPtr& wanted, DigitsOfTimes digits = DigitsOfTimes::kMustFit) {
    ScanSpec spec;
    spec.wanted = wanted;
    spec.mapping = {.match = MatchBy::kName, .digits = digits};
    return Open("in", spec)->Next(ctx_);
  }
};

constexpr int32_t kDayOf1970 = 2'440'588, kDayOf2500 = 2'634'167;

TEST_F(ParquetInt96, FarDatesAreExactOrRefused) {
  WriteInt96("in", {Bytes(1'000, kDayOf1970), Bytes(0, kDayOf2500)});
  const auto micros = ReadAs(Wanted(arrow::TimeUnit::MICRO));
  ASSERT_TRUE(micros.ok()) << micros.status().ToString();
  const auto& values = static_cast<const arrow::TimestampArray&>(*(*micros)->column(0));
  EXPECT_EQ(values.Value(0), 1);
  EXPECT_EQ(values.Value(1), int64_t{kDayOf2500 - kDayOf1970} * 86'400 * 1'000'000);
  const auto nanos = ReadAs(Wanted(arrow::TimeUnit::NANO));
  EXPECT_EQ(nanos.status().code(), Code::kCorruption);
  EXPECT_NE(nanos.status().message().find("column t, row 1"), std::string::npos);
}

TEST_F(ParquetInt96, DigitsAreCutOffWhereAskedForOnly) {
  WriteInt96("in", {Bytes(1'000'000'123, kDayOf1970), Bytes(86'399'999'999'999, kDayOf1970 - 1)});
  const auto nanos = ReadAs(Wanted(arrow::TimeUnit::NANO));
  ASSERT_TRUE(nanos.ok()) << nanos.status().ToString();
  EXPECT_EQ(static_cast<const arrow::TimestampArray&>(*(*nanos)->column(0)).Value(0),
            1'000'000'123);
  EXPECT_EQ(ReadAs(Wanted(arrow::TimeUnit::MICRO)).status().code(), Code::kCorruption);
  const auto cut = ReadAs(Wanted(arrow::TimeUnit::MICRO), DigitsOfTimes::kMayBeCut);
  ASSERT_TRUE(cut.ok()) << cut.status().ToString();
  const auto& values = static_cast<const arrow::TimestampArray&>(*(*cut)->column(0));
  EXPECT_EQ(values.Value(0), 1'000'000);
  EXPECT_EQ(values.Value(1), -1);
  // Without a type wanted it is read in microseconds; and joined by its bytes.
  EXPECT_EQ(ReadWhole("in")->schema()->field(0)->type()->ToString(), "timestamp[us]");
  const auto done = Concat({"in", "in"});
  ASSERT_TRUE(done.ok()) << done.status().ToString();
  EXPECT_EQ(ReadWhole("out")->num_rows(), 4);
}

TEST_F(ParquetInt96, ConcatNeverChangesATime) {
  WriteInt96("in", {Bytes(0, kDayOf2500)});
  const auto nanos = Wanted(arrow::TimeUnit::NANO);
  WriteTable("nanos", *FromJson(nanos, "[[1]]"));
  EXPECT_EQ(Concat({"nanos", "in"}).status().code(), Code::kCorruption);
  // What fits is joined; what does not is refused with its row.
  WriteTable("micros", *FromJson(Wanted(arrow::TimeUnit::MICRO), "[[1]]"));
  WriteInt96("near", {Bytes(1'000, kDayOf1970), Bytes(86'399'999'995'000, kDayOf1970 - 1)});
  WriteInt96("digits", {Bytes(1'000, kDayOf1970), Bytes(1'000'000'123, kDayOf1970)});
  WriteInt96("far", {Bytes(0, kDayOf1970), Bytes(0, kDayOf1970), Bytes(0, kDayOf2500)});
  ASSERT_TRUE(Concat({"nanos", "near"}).ok());
  ASSERT_TRUE(Concat({"nanos", "digits"}).ok());
  ASSERT_TRUE(Concat({"micros", "near"}).ok());
  ASSERT_TRUE(Concat({"micros", "far"}).ok());
  const auto far = Concat({"nanos", "far"}).status();
  EXPECT_NE(far.ToString().find("column t, row 2"), std::string::npos) << far.ToString();
  const auto digits = Concat({"micros", "digits"}).status();
  EXPECT_NE(digits.ToString().find("column t, row 1"), std::string::npos) << digits.ToString();
}

// Such a column is checked whole, so its row groups are read whole.
TEST_F(ParquetInt96, PagesArePickedWhereNoneIsWanted) {
  arrow::Int64Builder keys;
  arrow::TimestampBuilder times(arrow::timestamp(arrow::TimeUnit::MICRO),
                                arrow::default_memory_pool());
  for (int64_t i = 0; i < 400; ++i) ASSERT_TRUE(keys.Append(i).ok() && times.Append(i).ok());
  const auto key = arrow::field("k", arrow::int64());
  const auto time = arrow::field("t", arrow::timestamp(arrow::TimeUnit::MICRO));
  parquet::WriterProperties::Builder builder;
  builder.enable_write_page_index()->max_rows_per_page(20)->write_batch_size(20);
  WriteByLibrary("in",
                 *arrow::Table::Make(arrow::schema({key, time}),
                                     {keys.Finish().ValueOrDie(), times.Finish().ValueOrDie()}),
                 1000, builder, true);
  for (const bool has_times : {false, true}) {
    ScanSpec spec;
    spec.wanted = has_times ? arrow::schema({key, time}) : arrow::schema({key});
    spec.mapping.match = MatchBy::kName;
    spec.ranges = {{.column = {.id = -1, .name = "k"}}};
    spec.ranges[0].equals = {Scalar::Int64(123)};
    const auto source = Open("in", spec);
    const auto rows = ReadAll(ctx_, *source);
    EXPECT_EQ(source->counts().rows_pruned_in_pages, has_times ? 0 : 380);
    EXPECT_EQ(rows->num_rows(), has_times ? 400 : 20);
    const auto first = std::static_pointer_cast<arrow::Int64Array>(rows->column(0)->chunk(0));
    EXPECT_EQ(first->Value(0), has_times ? 0 : 120);
  }
}

// A required integer column whose pages hold so many rows each.
class ParquetEmptyPages : public ParquetForeign {
 protected:
  void WritePages(const std::string& key, const std::vector<std::vector<int64_t>>& pages,
                  bool with_index) {
    WriteTable("like", *FromJson(Schema(), "[[1]]"));
    const auto bytes = Create(key);
    auto file = ParquetAssembler::Make(Input("like")->schema(), {.file_name = key}, *bytes);
    ASSERT_TRUE(file.ok());
    auto compressor = PageCompressor::Make(0, std::nullopt);
    std::string all;
    std::vector<PageEntry> entries;
    int64_t rows = 0;
    for (const auto& values : pages) {
      PageEntry entry;
      entry.offset = 4 + static_cast<int64_t>(all.size());
      entry.first_row = rows;
      const std::string plain(reinterpret_cast<const char*>(values.data()), values.size() * 8);
      ASSERT_TRUE(WriteDataPage({.num_values = static_cast<int64_t>(values.size()),
                                 .encoding = static_cast<int>(PageEncoding::kPlain),
                                 .values = plain},
                                file->columns()[0], *compressor, all)
                      .ok());
      entry.stored_bytes = 4 + static_cast<int64_t>(all.size()) - entry.offset;
      entries.push_back(entry);
      rows += static_cast<int64_t>(values.size());
    }
    using namespace column_metadata;  // NOLINT: a list of fields follows
    ThriftValue metadata = ThriftValue::Struct();
    metadata.Set(kType, ThriftValue::I32(2));
    metadata.Set(kEncodings, ThriftValue::List(ThriftType::kI32, {ThriftValue::I32(0)}));
    metadata.Set(kCodec, ThriftValue::I32(0));
    metadata.Set(kNumValues, ThriftValue::I64(rows));
    metadata.Set(kTotalUncompressedSize, ThriftValue::I64(static_cast<int64_t>(all.size())));
    metadata.Set(kTotalCompressedSize, ThriftValue::I64(static_cast<int64_t>(all.size())));
    metadata.Set(kDataPageOffset, ThriftValue::I64(4));
    EncodedChunk chunk;
    chunk.chunk.Set(column_chunk::kMetaData, std::move(metadata));
    chunk.pages_began_at = 4;
    if (with_index) chunk.offset_index = MakeOffsetIndex(entries);
    ASSERT_TRUE(file->BeginRowGroup(ctx_, rows).ok());
    ASSERT_TRUE(file->AppendPages(ctx_, std::as_bytes(std::span(all))).ok());
    ASSERT_TRUE(file->EndChunk(std::move(chunk)).ok());
    ASSERT_TRUE(file->EndRowGroup(ctx_).ok());
    const auto finished = file->Finish(ctx_);
    ASSERT_TRUE(finished.ok()) << finished.status().ToString();
    ASSERT_TRUE(bytes->Close(ctx_).ok());
    const std::string keys[] = {"like"};
    ASSERT_TRUE(store_.Delete(ctx_, keys).ok());
  }
  static SchemaPtr Schema() { return arrow::schema({arrow::field("a", arrow::int64(), false)}); }
};

TEST_F(ParquetEmptyPages, AreLegalBehindOthers) {
  WritePages("middle", {{1}, {}, {2, 3}}, false);
  WritePages("indexed", {{1}, {}, {2, 3}, {}}, true);
  WritePages("none", {{}}, true);
  WritePages("full", {{4, 5}}, false);
  for (const std::string key : {"middle", "indexed", "none", "full"}) {
    const auto report = InspectFile(ctx_, *Object(key), key, Inspection::kDecode, memory_);
    EXPECT_TRUE(report.ok()) << report.status().ToString();
  }
  const auto wanted = FromJson(Schema(), "[[1], [2], [3], [1], [2], [3], [4], [5]]");
  for (const ConcatOptions& options :
       {ConcatOptions{}, ConcatOptions{.codec = ParquetCodec::kZstd},
        ConcatOptions{.row_group_bytes = 1}, ConcatOptions{.decodes_always = true}}) {
    const auto done = Concat({"middle", "none", "indexed", "full"}, options);
    ASSERT_TRUE(done.ok()) << done.status().ToString();
    ExpectSameRows(*ReadWhole("out"), *wanted);
    // What was written can be joined again.
    ASSERT_TRUE(
        ConcatFiles(ctx_, store_, {"out", "full"}, "again", {.overwrites = true}, memory_).ok());
  }
}

TEST(ChunkStatistics, HostileCountsAreDropped) {
  LeafColumn column{
      .path = {"a"}, .dotted_path = "a", .type = ParquetType::kInt64, .max_definition_level = 1};
  const auto metadata = [](int64_t nulls, int64_t size) {
    ThriftValue stats = ThriftValue::Struct();
    stats.Set(statistics::kNullCount, ThriftValue::I64(nulls));
    ThriftValue sizes = ThriftValue::Struct();
    sizes.Set(1, ThriftValue::I64(size));
    ThriftValue tree = ThriftValue::Struct();
    tree.Set(column_metadata::kNumValues, ThriftValue::I64(10));
    tree.Set(column_metadata::kStatistics, std::move(stats));
    tree.Set(column_metadata::kSizeStatistics, std::move(sizes));
    return tree;
  };
  for (const int64_t hostile : {int64_t{-1}, int64_t{11}, INT64_MAX, INT64_MIN}) {
    ChunkStatistics statistics(column);
    statistics.Add(metadata(1, INT64_MAX), BoundOrder::kOfType, {});
    statistics.Add(metadata(hostile, INT64_MAX), BoundOrder::kOfType, {});
    EXPECT_FALSE(statistics.Statistics());
    EXPECT_FALSE(statistics.SizeStatistics());
  }
}

// The library that reads pages says what the columns lay in before they were written; joining goes
// by the columns.
TEST_F(ParquetForeign, ADictionaryInMemoryIsNoTypeOfAColumn) {
  const auto dictionary = arrow::dictionary(arrow::int32(), arrow::utf8());
  const auto group_of = [](const std::shared_ptr<arrow::DataType>& type) {
    return arrow::struct_({arrow::field("d", type)});
  };
  const auto one =
      arrow::schema({arrow::field("s", dictionary), arrow::field("g", group_of(dictionary)),
                     arrow::field("l", arrow::list(group_of(dictionary)))});
  const auto two = arrow::schema({arrow::field("s", arrow::utf8(), false),
                                  arrow::field("g", group_of(arrow::utf8())),
                                  arrow::field("l", arrow::list(group_of(arrow::utf8())))});
  const auto text = FromJson(two, R"([["a", ["a"], [["a"]]], ["b", ["b"], [["b"]]]])");
  const auto encoded =
      arrow::DictionaryArray::FromArrays(
          dictionary, arrow::json::ArrayFromJSONString(arrow::int32(), "[0, 1]").ValueOrDie(),
          arrow::json::ArrayFromJSONString(arrow::utf8(), R"(["a", "b"])").ValueOrDie())
          .ValueOrDie();
  const auto group = arrow::StructArray::Make({encoded}, {"d"}).ValueOrDie();
  const auto offsets = arrow::json::ArrayFromJSONString(arrow::int32(), "[0, 1, 2]").ValueOrDie();
  const auto lists = std::make_shared<arrow::ListArray>(one->field(2)->type(), 2,
                                                        offsets->data()->buffers[1], group);
  auto stream = arrow::io::BufferOutputStream::Create().ValueOrDie();
  const auto properties = parquet::ArrowWriterProperties::Builder().store_schema()->build();
  ASSERT_TRUE(parquet::arrow::WriteTable(*arrow::Table::Make(one, {encoded, group, lists}),
                                         arrow::default_memory_pool(), stream, 100,
                                         parquet::default_writer_properties(), properties)
                  .ok());
  ASSERT_TRUE(WriteObject(ctx_, store_, "one", stream->Finish().ValueOrDie()->ToString()).ok());
  WriteTable("two", *text);
  for (const auto& keys : {std::vector<std::string>{"one", "two"}, {"two", "one"}}) {
    const auto done = Concat(keys);
    ASSERT_TRUE(done.ok()) << done.status().ToString();
    EXPECT_EQ(done->output.row_count, 4);
    ASSERT_TRUE(Concat(keys, {.decodes_always = true}).ok());
  }
}

// Writers that hold strings as views say so in the footer; rows come in the plain layout, which can
// be gathered, spilled and encoded as ranges of bytes.
TEST_F(ParquetForeign, ViewsAreReadAsPlainValues) {
  const auto schema_of = [](const std::shared_ptr<arrow::DataType>& text,
                            const std::shared_ptr<arrow::DataType>& bytes) {
    const auto nested =
        arrow::struct_({arrow::field("t", text), arrow::field("n", arrow::int64())});
    return arrow::schema({arrow::field("s", text), arrow::field("b", bytes, false),
                          arrow::field("g", nested), arrow::field("l", arrow::list(nested)),
                          arrow::field("wait", arrow::duration(arrow::TimeUnit::SECOND))});
  };
  constexpr std::string_view kRows = R"([
      ["a", "", ["longer than an inlined view", 1], [["x", 2], null, [null, 3]], 5],
      [null, "as long as this one is", null, null, null],
      ["longer than an inlined view, too", "b", [null, null], [], 7]])";
  const auto plain = FromJson(schema_of(arrow::utf8(), arrow::binary()), kRows);
  WriteTable("views", *plain);
  const auto held =
      arrow::ipc::SerializeSchema(*schema_of(arrow::utf8_view(), arrow::binary_view()));
  ASSERT_TRUE(held.ok()) << held.status().ToString();
  EditFooter("views", [&](ThriftValue& tree) {
    ThriftValue pair = ThriftValue::Struct();
    pair.Set(key_value::kKey, ThriftValue::Binary("ARROW:schema"));
    pair.Set(key_value::kValue,
             ThriftValue::Binary(arrow::util::base64_encode(std::string_view(**held))));
    tree.Set(file_metadata::kKeyValues, ThriftValue::List(ThriftType::kStruct, {std::move(pair)}));
  });
  const auto read = ReadWhole("views");
  ASSERT_NE(read, nullptr);
  EXPECT_TRUE(read->schema()->Equals(*plain->schema())) << read->schema()->ToString();
  ExpectSameRows(*read, *plain);
  ExpectRows({"views"}, *plain);
  ExpectRows({"views", "views"}, *Twice(plain));
}

// What lies behind a null is no value.
TEST_F(ParquetForeign, NansBehindNullMapsAreNotCounted) {
  const auto json = [](const std::shared_ptr<arrow::DataType>& type, const std::string& text) {
    return arrow::json::ArrayFromJSONString(type, text).ValueOrDie();
  };
  const auto type = arrow::map(arrow::utf8(), arrow::float64());
  const auto offsets = json(arrow::int32(), "[0, 1, 2]");
  const auto validity = arrow::AllocateBitmap(2).ValueOrDie();
  validity->mutable_data()[0] = 1;
  const auto map = std::make_shared<arrow::MapArray>(
      type, 2, offsets->data()->buffers[1], json(arrow::utf8(), R"(["a", "b"])"),
      json(arrow::float64(), "[1.5, NaN]"), validity, 1);
  const auto schema = arrow::schema({arrow::field("m", type)});
  const WrittenFile file = Write("f", {arrow::RecordBatch::Make(schema, 2, {map})});
  ASSERT_EQ(file.metrics.columns.size(), 2U);
  EXPECT_EQ(file.metrics.columns[1].nan_count, 0);
}

}  // namespace
}  // namespace partforge::data
