#include <arrow/json/from_string.h>

#include "data/parquet_rig.h"
#include "data/row_group_encoder.h"

namespace partforge::testing {
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ObjectStoreContract);  // linked in with the fakes
}

namespace partforge::data {
namespace {

using data::testing::ExpectSameRows;
using data::testing::ParquetFixture;
using data::testing::RandomBatch;
using data::testing::RandomSchema;
using data::testing::ReadAll;
using data::testing::TakeRows;
using data::testing::ToTable;

class ParquetRoundtrip : public ParquetFixture {};

TEST_F(ParquetRoundtrip, RandomSchemasComeBackEqual) {
  for (int round = 0; round < 12; ++round) {
    SCOPED_TRACE(round);
    const auto schema = RandomSchema(random_, 6, /*with_nested=*/true);
    std::vector<std::shared_ptr<arrow::RecordBatch>> batches;
    for (int i = 0; i < 4; ++i) batches.push_back(RandomBatch(random_, schema, 1 + i * 333));
    ParquetSinkOptions options;
    options.row_group_rows = 700;
    options.page_rows = 100;
    options.codec = static_cast<ParquetCodec>(round % 6);
    const WrittenFile file = Write("f", batches, options);
    EXPECT_EQ(file.size_bytes, store_.Stat(ctx_, "f")->size_bytes);
    ScanSpec spec;
    spec.wanted = schema;
    auto source = Open("f", spec);
    const auto wanted = ToTable(batches);
    EXPECT_EQ(file.row_count, wanted->num_rows());
    const auto got = ReadAll(ctx_, *source);
    ASSERT_NE(got, nullptr);
    ExpectSameRows(*got, *wanted);
    if (HasFailure()) return;
  }
}

std::shared_ptr<arrow::Field> Id(const std::string& name, std::shared_ptr<arrow::DataType> type,
                                 int id, bool nullable = true) {
  return WithFieldId(arrow::field(name, std::move(type), nullable), id);
}

std::shared_ptr<arrow::RecordBatch> FromJson(const std::shared_ptr<arrow::Schema>& schema,
                                             const std::string& json) {
  return arrow::RecordBatch::FromStructArray(
             arrow::json::ArrayFromJSONString(arrow::struct_(schema->fields()), json).ValueOrDie())
      .ValueOrDie()
      ->ReplaceSchemaMetadata(nullptr);
}

TEST_F(ParquetRoundtrip, ColumnsAreFoundByIdPromotedReorderedAndFilledIn) {
  const auto file_schema = arrow::schema(
      {Id("a", arrow::int32(), 1), Id("b", arrow::float32(), 2),
       Id("s", arrow::struct_({Id("x", arrow::int32(), 4), Id("y", arrow::utf8(), 5)}), 3),
       Id("l",
          arrow::list(Id("element",
                         arrow::struct_({Id("p", arrow::int32(), 8), Id("q", arrow::utf8(), 9)}),
                         7)),
          6),
       Id("g", arrow::struct_({Id("only", arrow::int32(), 11)}), 10)});
  const auto batch = FromJson(file_schema, R"([
      {"a": 1, "b": 0.5, "s": {"x": 7, "y": "u"}, "l": [{"p": 1, "q": "k"}, null], "g": {"only": 1}},
      {"a": null, "b": null, "s": null, "l": null, "g": null},
      {"a": 3, "b": 2.5, "s": {"x": null, "y": "w"}, "l": [], "g": {"only": null}}])");
  Write("f", {batch});
  ScanSpec spec;
  spec.wanted = arrow::schema(
      {Id("struct", arrow::struct_({Id("z", arrow::utf8(), 99), Id("x2", arrow::int64(), 4)}), 3),
       Id("long", arrow::int64(), 1), Id("part", arrow::int32(), 50),
       Id("list",
          arrow::list(Id("element",
                         arrow::struct_({Id("q", arrow::utf8(), 9), Id("new", arrow::int32(), 12)}),
                         7)),
          6),
       Id("b", arrow::float64(), 2), Id("g", arrow::struct_({Id("later", arrow::utf8(), 13)}), 10),
       Id("nothing", arrow::utf8(), 51)});
  spec.mapping.fill_ins = {{.column = "part", .value = arrow::MakeScalar(int32_t{42})}};
  auto source = Open("f", spec);
  const auto got = ReadAll(ctx_, *source);
  const auto wanted = FromJson(spec.wanted, R"([
      {"struct": {"z": null, "x2": 7}, "long": 1, "part": 42,
       "list": [{"q": "k", "new": null}, null], "b": 0.5, "g": {"later": null}, "nothing": null},
      {"struct": null, "long": null, "part": 42, "list": null, "b": null, "g": null,
       "nothing": null},
      {"struct": {"z": null, "x2": null}, "long": 3, "part": 42, "list": [], "b": 2.5,
       "g": {"later": null}, "nothing": null}])");
  ExpectSameRows(*got, *ToTable({wanted}));
}

TEST_F(ParquetRoundtrip, ValueThatDoesNotFitIsNamedWithItsRow) {
  const auto schema = arrow::schema({Id("a", arrow::decimal128(18, 4), 1)});
  const auto batch = FromJson(schema, R"([{"a": "1.0000"}, {"a": "2.0000"}, {"a": "3.1234"}])");
  Write("f", {batch});
  ScanSpec spec;
  spec.wanted = arrow::schema({Id("a", arrow::decimal128(9, 2), 1)});
  const auto got = Open("f", spec)->Next(ctx_);
  ASSERT_FALSE(got.ok());
  EXPECT_EQ(got.status().code(), Code::kCorruption);
  EXPECT_NE(got.status().message().find("column a, row 2"), std::string::npos)
      << got.status().ToString();
}

TEST_F(ParquetRoundtrip, FileWithoutIdsIsReadThroughANameMappingOnly) {
  const auto plain = arrow::schema({arrow::field("a", arrow::int32())});
  Write("f", {FromJson(plain, R"([{"a": 5}])")});
  ScanSpec spec;
  spec.wanted = arrow::schema({Id("renamed", arrow::int32(), 1)});
  auto refused = ParquetSource::Open(ctx_, Object("f"), "f", spec, memory_);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), Code::kRefused);
  spec.mapping.name_ids = {{.path = "a", .id = 1}};
  const auto got = ReadAll(ctx_, *Open("f", spec));
  ExpectSameRows(*got, *ToTable({FromJson(spec.wanted, R"([{"renamed": 5}])")}));
}

TEST_F(ParquetRoundtrip, DeletedRowsAreLeftOutAndPositionsStayPhysical) {
  const auto schema = RandomSchema(random_, 4, true);
  std::vector<std::shared_ptr<arrow::RecordBatch>> batches;
  for (int i = 0; i < 3; ++i) batches.push_back(RandomBatch(random_, schema, 500));
  Write("f", batches, {.row_group_rows = 600});
  Positions deleted;
  std::vector<int64_t> kept;
  for (int64_t row = 0; row < 1500; ++row) {
    if (row / 100 % 3 == 1 || random_.Next() % 10 == 0) {
      deleted.Add(static_cast<uint64_t>(row));
    } else {
      kept.push_back(row);
    }
  }
  const RowFilter filter(std::move(deleted));
  ScanSpec spec;
  spec.wanted = schema;
  spec.deleted = &filter;
  spec.position_column = "_pos";
  spec.batch_rows_max = 77;
  const auto got = ReadAll(ctx_, *Open("f", spec));
  const auto positions =
      std::static_pointer_cast<arrow::Int64Array>(got->GetColumnByName("_pos")->chunk(0));
  ASSERT_EQ(positions->length(), static_cast<int64_t>(kept.size()));
  for (int64_t i = 0; i < positions->length(); ++i) {
    ASSERT_EQ(positions->Value(i), kept[static_cast<size_t>(i)]);
  }
  ExpectSameRows(*got->RemoveColumn(got->num_columns() - 1).ValueOrDie(),
                 *TakeRows(*ToTable(batches), kept));
}

TEST_F(ParquetRoundtrip, BatchesKeepToTheirSize) {
  const auto schema = arrow::schema({Id("s", arrow::utf8(), 1, false)});
  arrow::StringBuilder builder;
  for (int i = 0; i < 20'000; ++i) ASSERT_TRUE(builder.Append(std::string(1000, 'x')).ok());
  Write("f", {arrow::RecordBatch::Make(schema, 20'000, {builder.Finish().ValueOrDie()})});
  ScanSpec spec;
  spec.wanted = schema;
  spec.batch_bytes_max = 1 << 20;
  auto source = Open("f", spec);
  int64_t rows = 0, batches = 0;
  while (true) {
    auto batch = source->Next(ctx_);
    ASSERT_TRUE(batch.ok());
    if (*batch == nullptr) break;
    EXPECT_LE(BatchBytes(**batch), 1 << 20);
    rows += (*batch)->num_rows();
    ++batches;
  }
  EXPECT_EQ(rows, 20'000);
  EXPECT_GE(batches, 20);
  EXPECT_LE(batches, 40);
}

TEST_F(ParquetRoundtrip, FewRequestsReadAFile) {
  const auto schema = RandomSchema(random_, 20, false);
  Write("f", {RandomBatch(random_, schema, 3000)}, {.row_group_rows = 1000});
  ScanSpec spec;
  spec.wanted = schema;
  auto source = Open("f", spec);
  ReadAll(ctx_, *source);
  EXPECT_LE(source->counts().requests, 4);  // the end of the file, and each row group
}

// A recount of metrics out of rows that were written.
void ExpectMetricsOf(const FileMetrics& metrics, const arrow::RecordBatch& rows,
                     ArrowMemory& memory) {
  const auto leaves = LeafArrays(rows, memory);
  ASSERT_EQ(metrics.columns.size(), leaves.size());
  for (size_t i = 0; i < leaves.size(); ++i) {
    const ColumnMetrics& column = metrics.columns[i];
    SCOPED_TRACE(column.path);
    EXPECT_EQ(column.nan_count, CountNans(*leaves[i]));
    if (column.is_repeated || column.path.find('.') != std::string::npos) continue;
    EXPECT_EQ(column.value_count, leaves[i]->length());
    EXPECT_EQ(column.null_count, leaves[i]->null_count());
    if (leaves[i]->type_id() != arrow::Type::STRING) continue;
    const auto& texts = static_cast<const arrow::StringArray&>(*leaves[i]);
    std::optional<std::string> least, most;
    for (int64_t row = 0; row < texts.length(); ++row) {
      if (texts.IsNull(row)) continue;
      const std::string text(texts.GetView(row));
      if (!least || text < *least) least = text;
      if (!most || text > *most) most = text;
    }
    ASSERT_EQ(column.lower.has_value(), least.has_value());
    if (!least) continue;
    EXPECT_LE(column.lower->value.AsBytes(), *least);
    EXPECT_GE(column.upper->value.AsBytes(), *most);
    EXPECT_EQ(column.lower->is_exact, column.lower->value.AsBytes() == *least);
    EXPECT_EQ(column.upper->is_exact, column.upper->value.AsBytes() == *most);
  }
}

TEST_F(ParquetRoundtrip, MetricsEqualARecount) {
  for (int round = 0; round < 6; ++round) {
    const auto schema = RandomSchema(random_, 8, true);
    const auto batch = RandomBatch(random_, schema, 900);
    const WrittenFile file = Write("f", {batch}, {.row_group_rows = 400});
    ExpectMetricsOf(file.metrics, *batch, memory_);
  }
}

TEST_F(ParquetRoundtrip, LongTextsLeaveShortBounds) {
  const auto schema = arrow::schema({Id("s", arrow::utf8(), 1)});
  arrow::StringBuilder builder;
  for (const char c : {'m', 'b', 'y'}) {
    ASSERT_TRUE(builder.Append(std::string(65'536, c)).ok());
  }
  const auto batch = arrow::RecordBatch::Make(schema, 3, {builder.Finish().ValueOrDie()});
  const WrittenFile file = Write("f", {batch}, {.bound_bytes_max = 16});
  const ColumnMetrics& column = file.metrics.columns[0];
  EXPECT_EQ(column.lower->value.AsBytes(), std::string(16, 'b'));
  EXPECT_EQ(column.upper->value.AsBytes(), std::string(15, 'y') + "z");
  EXPECT_FALSE(column.lower->is_exact);
  EXPECT_FALSE(column.upper->is_exact);
  EXPECT_LT(file.size_bytes, 10'000);
}

TEST_F(ParquetRoundtrip, RollingCutsByRowsAndAbortLeavesNothing) {
  const auto schema = RandomSchema(random_, 3, false);
  const auto factory = [&](const Context& ctx, int64_t number) -> Result<RollingSink::Opened> {
    RollingSink::Opened opened{.key = "r/" + std::to_string(number), .sink = nullptr};
    PF_ASSIGN(auto bytes, store_.Create(ctx, opened.key, -1));
    PF_ASSIGN(opened.sink,
              ParquetSink::Open(ctx, std::move(bytes), opened.key, schema, {}, memory_));
    return opened;
  };
  RollingSink sink(store_, factory, {.size_bytes = INT64_MAX, .rows = 250});
  const auto batch = RandomBatch(random_, schema, 600);
  ASSERT_TRUE(sink.Write(ctx_, *batch).ok());
  auto files = sink.Close(ctx_);
  ASSERT_TRUE(files.ok());
  ASSERT_EQ(files->size(), 3U);
  EXPECT_EQ((*files)[2].row_count, 100);
  std::vector<std::unique_ptr<BatchSource>> sources;
  for (const WrittenFile& file : *files) {
    ScanSpec spec;
    spec.wanted = schema;
    sources.push_back(Open(file.key, spec));
  }
  ConcatenatedBatches all(std::move(sources));
  ExpectSameRows(*ReadAll(ctx_, all), *ToTable({batch}));

  RollingSink dropped(store_, factory, {.size_bytes = INT64_MAX, .rows = 250});
  ASSERT_TRUE(dropped.Write(ctx_, *batch).ok());
  ASSERT_TRUE(dropped.Abort(ctx_).ok());
  EXPECT_TRUE(ListAll(ctx_, store_, "r/")->empty());
}

// The values of a pruning test: sorted in c0, so that pages and row groups differ in it.
TEST_F(ParquetRoundtrip, PrunedScansKeepEveryRowThatMatches) {
  const auto schema = arrow::schema(
      {Id("key", arrow::int64(), 1), Id("text", arrow::utf8(), 2),
       Id("l", arrow::list(Id("element", arrow::int32(), 4)), 3),
       Id("s", arrow::struct_({Id("x", arrow::int32(), 6), Id("y", arrow::utf8(), 7)}), 5)});
  for (int round = 0; round < 10; ++round) {
    SCOPED_TRACE(round);
    const int64_t rows = 4000;
    arrow::Int64Builder keys;
    for (int64_t i = 0; i < rows; ++i) {
      if (random_.Next() % 50 == 0) {
        ASSERT_TRUE(keys.AppendNull().ok());
      } else {
        ASSERT_TRUE(keys.Append(i * 10 + static_cast<int64_t>(random_.Next() % 30)).ok());
      }
    }
    auto batch = RandomBatch(random_, schema, rows);
    batch = batch->SetColumn(0, schema->field(0), keys.Finish().ValueOrDie()).ValueOrDie();
    Write("f", {batch}, {.row_group_rows = 1300, .page_rows = 90});
    const auto low = static_cast<int64_t>(random_.Next() % 40'000);
    ColumnRange range{.column = {.id = 1}};
    range.lower = Scalar::Int64(low);
    range.upper = Scalar::Int64(low + 700);
    range.null_is_wanted = round % 5 == 4;
    ScanSpec spec;
    spec.wanted = schema;
    spec.position_column = "_pos";
    spec.ranges = {range};
    auto source = Open("f", spec);
    const auto got = ReadAll(ctx_, *source);
    const auto& position =
        static_cast<const arrow::Int64Array&>(*got->GetColumnByName("_pos")->chunk(0));
    std::vector<int64_t> rows_got;
    for (int64_t i = 0; i < position.length(); ++i) rows_got.push_back(position.Value(i));
    ExpectSameRows(*got->RemoveColumn(got->num_columns() - 1).ValueOrDie(),
                   *TakeRows(*ToTable({batch}), rows_got));
    const std::set<int64_t> there(rows_got.begin(), rows_got.end());
    const auto& key = static_cast<const arrow::Int64Array&>(*batch->column(0));
    for (int64_t row = 0; row < rows; ++row) {
      const bool matches = key.IsNull(row) ? range.null_is_wanted
                                           : key.Value(row) >= low && key.Value(row) <= low + 700;
      ASSERT_TRUE(!matches || there.contains(row)) << row;
    }
    EXPECT_TRUE(range.null_is_wanted || rows_got.size() <= 400U) << rows_got.size();
  }
}

TEST_F(ParquetRoundtrip, BloomFiltersAndStatisticsSkipRowGroups) {
  const auto schema = arrow::schema({Id("k", arrow::utf8(), 1)});
  std::vector<std::shared_ptr<arrow::RecordBatch>> batches;
  for (int group = 0; group < 4; ++group) {
    arrow::StringBuilder builder;
    for (int i = 0; i < 1000; ++i) {
      ASSERT_TRUE(builder.Append("user-" + std::to_string(i * 4 + group)).ok());
    }
    batches.push_back(arrow::RecordBatch::Make(schema, 1000, {builder.Finish().ValueOrDie()}));
  }
  Write("f", batches,
        {.columns = {{.path = "k", .bloom_distinct_count = 0, .bloom_false_positive_rate = 0.0001}},
         .row_group_rows = 1000});
  const auto rows_for = [&](const std::string& value) {
    ColumnRange range{.column = {.id = 1}};
    range.equals = {Scalar::String(value)};
    ScanSpec spec;
    spec.wanted = schema;
    spec.ranges = {range};
    auto source = Open("f", spec);
    const auto got = ReadAll(ctx_, *source);
    return std::pair(got->num_rows(), source->counts().row_groups_pruned);
  };
  for (const int number : {0, 1777, 3999}) {
    const auto [rows, pruned] = rows_for("user-" + std::to_string(number));
    EXPECT_EQ(rows, 1000);
    EXPECT_EQ(pruned, 3);
  }
  EXPECT_EQ(rows_for("user-1000x").second, 4);
  EXPECT_EQ(rows_for("aaaa").second, 4);
}

TEST_F(ParquetRoundtrip, FailuresAfterADurableStepLeaveNothingOnceAborted) {
  const auto schema = RandomSchema(random_, 2, false);
  const auto batch = RandomBatch(random_, schema, 300);
  int64_t reached = 0;
  for (int64_t nth = 1; nth < 20; ++nth) {
    partforge::testing::FailNth faults(nth, "data.");
    world_.UseFaults(faults);
    const Context ctx = world_.context();
    RollingSink sink(
        store_,
        [&](const Context& c, int64_t number) -> Result<RollingSink::Opened> {
          RollingSink::Opened opened{.key = "r/" + std::to_string(number), .sink = nullptr};
          PF_ASSIGN(auto bytes, store_.Create(c, opened.key, -1));
          PF_ASSIGN(opened.sink,
                    ParquetSink::Open(c, std::move(bytes), opened.key, schema, {}, memory_));
          return opened;
        },
        {.size_bytes = INT64_MAX, .rows = 100});
    Status status = sink.Write(ctx, *batch);
    if (status.ok()) {
      const auto files = sink.Close(ctx);
      if (!files.ok()) status = files.status();
    }
    if (!faults.has_fired()) {
      EXPECT_TRUE(status.ok());
      break;
    }
    ++reached;
    EXPECT_FALSE(status.ok());
    ASSERT_TRUE(sink.Abort(ctx).ok());
    EXPECT_TRUE(ListAll(ctx, store_, "r/")->empty()) << faults.fired_point();
  }
  EXPECT_EQ(reached, 6);  // two steps for each of three files
}

TEST_F(ParquetRoundtrip, DamagedFilesAreErrorsAndNothingElse) {
  const auto schema = RandomSchema(random_, 5, true);
  Write("f", {RandomBatch(random_, schema, 300)}, {.row_group_rows = 150, .page_rows = 50});
  const std::string bytes = *ReadObject(ctx_, store_, "f");
  const auto bodies = PageBodies("f");
  const size_t footer =
      static_cast<size_t>(ReadParquetFooter(ctx_, *Object("f"), "f")->footer_start);
  // What is cut short or damaged under a checksum is always seen; a footer or the header of a page
  // may say something else that holds together.
  enum class Damage { kCut, kPage, kFooter, kAnywhere };
  for (int round = 0; round < 400; ++round) {
    const auto damage = static_cast<Damage>(round % 4);
    std::string damaged;
    switch (damage) {
      case Damage::kCut:
        damaged = bytes.substr(0, random_.Next() % bytes.size());
        break;
      case Damage::kPage:
        damaged = FlipBitsOfOne(bytes, bodies);
        break;
      case Damage::kFooter:
        damaged = FlipBits(bytes, footer, bytes.size());
        break;
      case Damage::kAnywhere:
        damaged = FlipBits(bytes, 0, bytes.size());
        break;
    }
    ASSERT_TRUE(WriteObject(ctx_, store_, "d", damaged).ok());
    ScanSpec spec;
    spec.wanted = schema;
    auto source = ParquetSource::Open(ctx_, Object("d"), "d", spec, memory_);
    Status status = source.ok() ? Status() : source.status();
    while (status.ok()) {
      const auto batch = (*source)->Next(ctx_);
      status = batch.ok() ? Status() : batch.status();
      if (batch.ok() && *batch == nullptr) break;
    }
    const bool must_be_seen = damage == Damage::kCut || damage == Damage::kPage;
    EXPECT_TRUE(!must_be_seen || !status.ok()) << round;
  }
}

}  // namespace
}  // namespace partforge::data
