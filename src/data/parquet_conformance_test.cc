// The numbered checks of copying and stitching that are about their conditions and limits;
// statistics are in parquet_statistics_test.cc, rows against a decoder in parquet_stitch_test.cc
// and parquet_rewrite_test.cc.

#include <fmt/format.h>
#include <parquet/file_reader.h>
#include <parquet/statistics.h>

#include "data/file_verify.h"
#include "data/memory_bytes.h"
#include "data/page_codec.h"
#include "data/page_index.h"
#include "data/parquet_rewrite_rig.h"
#include "testing/faulty_store.h"

namespace partforge::data {
namespace {

using data::testing::ExpectSameRows;
using data::testing::ParquetRewriteFixture;
using data::testing::RandomArray;
using data::testing::RandomBatch;
using data::testing::RandomSchema;
using data::testing::ReadAll;
using data::testing::TakeRows;
using data::testing::ToTable;
using Batches = std::vector<std::shared_ptr<arrow::RecordBatch>>;

class ParquetConformance : public ParquetRewriteFixture {
 protected:
  static std::shared_ptr<arrow::Field> Id(const char* name, std::shared_ptr<arrow::DataType> type,
                                          int number) {
    return WithFieldId(arrow::field(name, std::move(type)), number);
  }

  std::shared_ptr<arrow::RecordBatch> Texts(
      const std::shared_ptr<arrow::Schema>& schema, int rows,
      const std::function<std::optional<std::string>(int)>& at) {
    arrow::StringBuilder builder;
    for (int i = 0; i < rows; ++i) {
      const auto text = at(i);
      EXPECT_TRUE((text ? builder.Append(*text) : builder.AppendNull()).ok());
    }
    return arrow::RecordBatch::Make(schema, rows, {builder.Finish().ValueOrDie()});
  }

  // Plans and carries out; the rows of all files made.
  std::shared_ptr<arrow::Table> Rewrite(const std::vector<RewriteInput>& inputs,
                                        const std::shared_ptr<arrow::Schema>& schema,
                                        RewriteTarget target, std::vector<RewriteStep>& steps,
                                        RewriteCounts& counts) {
    const auto footer = ParquetSchemaOf(schema, {}, memory_);
    EXPECT_TRUE(footer.ok());
    target.copy.schema = &footer->tree.Find(parquet_field::file_metadata::kSchema)->items();
    auto planned = PlanRewrite(inputs, target);
    EXPECT_TRUE(planned.ok()) << planned.status().ToString();
    steps = *planned;
    const auto files = RunSteps(inputs, steps, target, schema, counts, {}, {.schema_of = &*footer});
    ExpectVerified({.inputs = inputs, .target = target, .schema = schema}, files);
    return ReadFiles(files, schema);
  }

  void ExpectVerified(const VerifiedRewrite& rewrite, const std::vector<WrittenFile>& files) {
    std::vector<std::unique_ptr<ByteSource>> objects;
    const auto outputs = OpenWritten(files, objects);
    for (const VerifyMode mode : {VerifyMode::kSample, VerifyMode::kFull}) {
      const auto verified = VerifyRewrite(ctx_, mode, rewrite, outputs, memory_);
      EXPECT_TRUE(verified.ok()) << verified.status().ToString();
    }
  }

  // An input whose footer says another size of its one chunk: plans look at footers alone.
  std::shared_ptr<ParquetInput> InputSaying(const std::string& key, int16_t field, int64_t bytes) {
    auto input = std::make_shared<ParquetInput>(std::move(*Input(key)));
    ThriftValue chunk = input->footer.chunk(0, 0);
    ThriftValue metadata = *chunk.Find(parquet_field::column_chunk::kMetaData);
    metadata.Set(field, ThriftValue::I64(bytes));
    chunk.Set(parquet_field::column_chunk::kMetaData, std::move(metadata));
    auto& groups = input->footer.tree.Find(parquet_field::file_metadata::kRowGroups)->items();
    groups[0].Find(parquet_field::row_group::kColumns)->items()[0] = std::move(chunk);
    return input;
  }

  // The rows that a reader of the inputs makes of them with that schema.
  std::shared_ptr<arrow::Table> Decoded(const std::vector<RewriteInput>& inputs,
                                        const std::shared_ptr<arrow::Schema>& schema) {
    std::vector<std::unique_ptr<BatchSource>> sources;
    for (const RewriteInput& input : inputs) {
      ScanSpec spec;
      spec.wanted = schema;
      spec.mapping = input.mapping;
      spec.deleted = input.deleted;
      sources.push_back(Open(input.file->file_name, spec));
    }
    ConcatenatedBatches joined(std::move(sources));
    return ReadAll(ctx_, joined);
  }
};

// check: DATA-3
TEST_F(ParquetConformance, EachConditionBrokenGivesItsReasonAndTheRowsOfADecoder) {
  const auto schema =
      arrow::schema({Id("a", arrow::int32(), 1), Id("b", arrow::utf8(), 2),
                     Id("f", arrow::fixed_size_binary(4), 3), Id("d", arrow::decimal128(9, 2), 4),
                     Id("l", arrow::list(Id("element", arrow::int32(), 6)), 5)});
  Write("in", {RandomBatch(random_, schema, 300)}, {.row_group_rows = 100});
  Positions some;
  some.AddRun({.begin = 120, .end = 130});
  const RowFilter deleted(std::move(some));
  const auto replaced = [&](int column, const std::shared_ptr<arrow::Field>& field) {
    return *schema->SetField(column, field);
  };
  struct Case {
    std::string reason;
    std::shared_ptr<arrow::Schema> wanted;
    const RowFilter* deleted = nullptr;
    bool sorts = false;
  };
  const std::vector<Case> cases = {
      // Physical and logical type, repetition, levels, id.
      {"schema differs: a", replaced(0, Id("a", arrow::int64(), 1))},
      {"schema differs: d", replaced(3, Id("d", arrow::decimal128(18, 2), 4))},
      {"needs projection: c", *schema->AddField(5, Id("c", arrow::utf8(), 9))},
      {"needs projection: b", replaced(1, Id("b", arrow::utf8(), 12))},
      {"key columns differ: _KEY_a", *schema->AddField(0, Id("_KEY_a", arrow::int32(), 10))},
      {"sort", schema, nullptr, true},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.reason);
    const std::vector<RewriteInput> inputs{{.file = Input("in"), .deleted = one.deleted}};
    RewriteTarget target;
    target.copy.order_is_wanted = one.sorts;
    target.copy.row_group_bytes = 1 << 10;
    std::vector<RewriteStep> steps;
    RewriteCounts counts;
    const auto rows = Rewrite(inputs, one.wanted, target, steps, counts);
    ASSERT_EQ(steps.size(), 1U);
    EXPECT_EQ(steps[0].kind, StepKind::kDecode);
    EXPECT_EQ(steps[0].reason, one.reason);
    EXPECT_EQ(counts.rows_decoded, 300);
    ExpectSameRows(*rows, *Decoded(inputs, one.wanted));
  }

  // What does not forbid the cheaper tiers, with its reason.
  {
    const auto flat = arrow::schema({schema->field(0), schema->field(1)});
    Write("flat", {RandomBatch(random_, flat, 300)},
          {.columns = {{.path = "a", .dictionary = DictionaryChoice::kNever},
                       {.path = "b", .dictionary = DictionaryChoice::kNever}},
           .row_group_rows = 100});
    const std::vector<RewriteInput> inputs{{.file = Input("flat"), .deleted = &deleted}};
    RewriteTarget target;
    target.copy.row_group_bytes = 8;  // no row group is small, whatever its random rows take
    std::vector<RewriteStep> steps;
    RewriteCounts counts;
    ExpectSameRows(*Rewrite(inputs, flat, target, steps, counts), *Decoded(inputs, flat));
    ASSERT_EQ(steps.size(), 3U);
    EXPECT_EQ(steps[0].kind, StepKind::kCopy);
    EXPECT_EQ(steps[0].reason, "");
    EXPECT_EQ(steps[1].kind, StepKind::kFilterPages);
    EXPECT_EQ(steps[1].reason, "deleted rows");
    EXPECT_EQ(counts.row_groups_copied, 2);
    EXPECT_EQ(counts.rows_decoded, 0);

    RewriteTarget large;
    large.copy.row_group_bytes = 1 << 20;
    ExpectSameRows(*Rewrite(inputs, flat, large, steps, counts), *Decoded(inputs, flat));
    ASSERT_EQ(steps.size(), 1U);
    EXPECT_EQ(steps[0].kind, StepKind::kStitch);
    EXPECT_EQ(steps[0].reason, "small row groups");
  }
}

// A fixed length, a level or a place that differs is another column; an encrypted file is told so.
// check: DATA-3
TEST_F(ParquetConformance, LengthsLevelsAndEncryptionAreLookedAt) {
  const auto schema = arrow::schema({Id("f", arrow::fixed_size_binary(4), 1),
                                     Id("s", arrow::struct_({Id("x", arrow::int32(), 3)}), 2)});
  Write("in", {RandomBatch(random_, schema, 100)});
  const auto input = Input("in");
  const auto reason = [&](const std::shared_ptr<arrow::Schema>& wanted) {
    const auto footer = ParquetSchemaOf(wanted, {}, memory_);
    const CopyTarget target{
        .schema = &footer->tree.Find(parquet_field::file_metadata::kSchema)->items(),
        .small_is_fine = true};
    return JudgeCopy(*input, 0, nullptr, target)->Reason();
  };
  EXPECT_EQ(reason(schema), "");
  EXPECT_EQ(reason(*schema->SetField(0, Id("f", arrow::fixed_size_binary(5), 1))),
            "schema differs: f");
  EXPECT_EQ(reason(*schema->SetField(1, schema->field(1)->WithNullable(false))),
            "schema differs: s");
  EXPECT_EQ(reason(*schema->SetField(1, Id("s", arrow::struct_({Id("x", arrow::date32(), 3)}), 2))),
            "schema differs: s.x");
  std::string bytes = *ReadObject(ctx_, store_, "in");
  bytes.replace(0, 4, "PARE");
  bytes.replace(bytes.size() - 4, 4, "PARE");
  ASSERT_TRUE(WriteObject(ctx_, store_, "encrypted", bytes).ok());
  const auto encrypted = OpenParquetInput(ctx_, Object("encrypted"), "encrypted");
  ASSERT_FALSE(encrypted.ok());
  EXPECT_EQ(encrypted.status().code(), Code::kRefused);
  EXPECT_NE(encrypted.status().message().find("encrypted"), std::string::npos);

  // A plain footer over one column that is encrypted.
  bytes = *ReadObject(ctx_, store_, "in");
  ParquetFooter footer = *ReadParquetFooter(ctx_, *Object("in"), "in");
  bytes.resize(static_cast<size_t>(footer.footer_start));
  using namespace parquet_field;  // NOLINT: names of parquet.thrift
  ThriftValue& chunk =
      footer.tree.Find(file_metadata::kRowGroups)->items()[0].Find(row_group::kColumns)->items()[1];
  chunk.Set(column_chunk::kCryptoMetadata, ThriftValue::Struct());
  bytes += *EncodeParquetFooter(footer.tree);
  ASSERT_TRUE(WriteObject(ctx_, store_, "one column", bytes).ok());
  const auto column = OpenParquetInput(ctx_, Object("one column"), "one column");
  ASSERT_FALSE(column.ok());
  EXPECT_EQ(column.status().code(), Code::kRefused);
  EXPECT_NE(column.status().message().find("encrypted"), std::string::npos);
}

// Files of other codecs copied into one keep theirs, chunk by chunk. A column that must be encoded
// is, beside others that are copied.
// check: DATA-3
TEST_F(ParquetConformance, MixedCodecsAreCopiedAndOneColumnIsEncodedAmongCopies) {
  const auto schema = arrow::schema({Id("a", arrow::int64(), 1), Id("b", arrow::utf8(), 2)});
  const auto first = RandomBatch(random_, schema, 200), second = RandomBatch(random_, schema, 100);
  Write("z", {first}, {.codec = ParquetCodec::kZstd});
  Write("s", {second}, {.codec = ParquetCodec::kSnappy});
  const std::vector<RewriteInput> inputs{{.file = Input("z")}, {.file = Input("s")}};
  RewriteTarget target;
  target.copy.small_is_fine = true;
  std::vector<RewriteStep> steps;
  RewriteCounts counts;
  const auto rows = Rewrite(inputs, schema, target, steps, counts);
  EXPECT_EQ(counts.row_groups_copied, 2);
  ExpectSameRows(*rows, *ToTable({first, second}));
  const auto out = Library("out/0");
  EXPECT_EQ(out->metadata()->RowGroup(0)->ColumnChunk(1)->compression(),
            parquet::Compression::ZSTD);
  EXPECT_EQ(out->metadata()->RowGroup(1)->ColumnChunk(1)->compression(),
            parquet::Compression::SNAPPY);

  // A column that the file lacks and the caller encodes forbids nothing (v3 lineage).
  const auto wanted =
      ParquetSchemaOf(*schema->AddField(2, Id("c", arrow::int64(), 3)), {}, memory_);
  CopyTarget copy{.schema = &wanted->tree.Find(parquet_field::file_metadata::kSchema)->items(),
                  .small_is_fine = true};
  EXPECT_EQ(JudgeCopy(*Input("z"), 0, nullptr, copy)->Reason(), "needs projection: c");
  copy.encoded_columns = {2};
  EXPECT_EQ(JudgeCopy(*Input("z"), 0, nullptr, copy)->Reason(), "");

  // Column a of another file in the place of the input's.
  const auto input = Input("z");
  const auto other = RandomBatch(random_, arrow::schema({schema->field(0)}), 200);
  Write("other", {other});
  const auto encoded = Input("other");
  const CopiedRowGroup group(input, 0,
                             {.overrides = {{.target_leaf = 0,
                                             .source = encoded->source.get(),
                                             .footer = &encoded->footer,
                                             .row_group = 0,
                                             .leaf = 0}}});
  WriteEncoded("mixed", schema, *input, {&group});
  ExpectSameRows(
      *Read("mixed", schema),
      *ToTable({arrow::RecordBatch::Make(schema, 200, {other->column(0), first->column(1)})}));
}

// What each column's values are encoded by when they are in no dictionary; PLAIN where the encoding
// asked for is not for the type.
TEST_F(ParquetConformance, ColumnsHaveTheEncodingsAskedFor) {
  const auto schema =
      arrow::schema({Id("i", arrow::int64(), 1), Id("s", arrow::utf8(), 2),
                     Id("d", arrow::float64(), 3), Id("f", arrow::fixed_size_binary(4), 4)});
  const auto batch = RandomBatch(random_, schema, 700);
  using parquet::Encoding;
  const std::pair<ValueEncoding, std::vector<Encoding::type>> cases[] = {
      {ValueEncoding::kPlain, {Encoding::PLAIN, Encoding::PLAIN, Encoding::PLAIN, Encoding::PLAIN}},
      {ValueEncoding::kDelta,
       {Encoding::DELTA_BINARY_PACKED, Encoding::DELTA_BYTE_ARRAY, Encoding::PLAIN,
        Encoding::PLAIN}},
      {ValueEncoding::kByteStreamSplit,
       {Encoding::BYTE_STREAM_SPLIT, Encoding::PLAIN, Encoding::BYTE_STREAM_SPLIT,
        Encoding::BYTE_STREAM_SPLIT}}};
  for (const auto& [encoding, wanted] : cases) {
    SCOPED_TRACE(static_cast<int>(encoding));
    ParquetSinkOptions options;
    for (const auto& field : schema->fields()) {
      options.columns.push_back(
          {.path = field->name(), .dictionary = DictionaryChoice::kNever, .encoding = encoding});
    }
    Write("out", {batch}, options);
    ExpectSameRows(*Read("out", schema), *ToTable({batch}));
    const auto library = Library("out");
    const auto group = library->metadata()->RowGroup(0);
    for (int c = 0; c < 4; ++c) {
      const auto encodings = group->ColumnChunk(c)->encodings();
      EXPECT_NE(std::find(encodings.begin(), encodings.end(), wanted[static_cast<size_t>(c)]),
                encodings.end())
          << c;
    }
  }
}

// A sink that has no room for more than three row groups, as Parquet's has none for more than 16
// bits number.
class SmallSink final : public BatchSink {
 public:
  const std::shared_ptr<arrow::Schema>& schema() const override { return schema_; }
  Status Write(const Context&, const arrow::RecordBatch& batch) override {
    row_count_ += batch.num_rows();
    ++groups_;
    return {};
  }
  Status AppendEncoded(const Context&, const EncodedRows&) override { return {}; }
  int64_t row_count() const override { return row_count_; }
  int64_t bytes_estimated() const override { return 0; }
  bool has_room() const override { return groups_ < 3; }
  Result<WrittenFile> Close(const Context&) override {
    WrittenFile file;
    file.row_count = row_count_;
    return file;
  }

 private:
  const std::shared_ptr<arrow::Schema> schema_ =
      arrow::schema({arrow::field("a", arrow::int32(), false)});
  int64_t row_count_ = 0, groups_ = 0;
};

TEST_F(ParquetConformance, AFileEndsWhenItHasNoRoomForMoreRowGroups) {
  RollingSink sink(store_,
                   [](const Context&, int64_t number) -> Result<RollingSink::Opened> {
                     return RollingSink::Opened{.key = fmt::format("out/{}", number),
                                                .sink = std::make_unique<SmallSink>()};
                   },
                   {});
  arrow::Int32Builder one;
  ASSERT_TRUE(one.Append(7).ok());
  const auto batch = arrow::RecordBatch::Make(SmallSink().schema(), 1, {one.Finish().ValueOrDie()});
  for (int i = 0; i < 7; ++i) ASSERT_TRUE(sink.Write(ctx_, *batch).ok());
  const auto files = sink.Close(ctx_);
  ASSERT_TRUE(files.ok()) << files.status().ToString();
  ASSERT_EQ(files->size(), 3U);
  EXPECT_EQ((*files)[0].row_count, 3);
  EXPECT_EQ((*files)[1].row_count, 3);
  EXPECT_EQ((*files)[2].row_count, 1);
}

// Levels of every data page of one column, in order.
struct PageLevels {
  int64_t num_values = 0;
  std::string repetition, definition;
  bool operator==(const PageLevels&) const = default;
};

// check: DATA-5
TEST_F(ParquetConformance, StitchedLevelsAreThoseOfTheInputs) {
  const auto schema = arrow::schema(
      {arrow::field("o", arrow::utf8()), arrow::field("l", arrow::list(arrow::utf8())),
       arrow::field("s", arrow::struct_({arrow::field("p", arrow::utf8()),
                                         arrow::field("q", arrow::list(arrow::int32()))})),
       arrow::field("r", arrow::list(arrow::list(arrow::int16())))});
  const auto levels = [&](const std::string& key, std::vector<std::vector<PageLevels>>& out) {
    const auto input = Input(key);
    out.resize(input->columns.size());
    for (int g = 0; g < input->footer.row_group_count(); ++g) {
      for (size_t c = 0; c < input->columns.size(); ++c) {
        const ChunkView view = *ViewChunk(input->footer.chunk(g, static_cast<int>(c)), key);
        const std::string bytes = *ReadRange(ctx_, *input->source, view.bytes, key);
        const auto pages = ListPages(std::as_bytes(std::span(bytes)), view.num_values, key);
        ASSERT_TRUE(pages.ok());
        auto compressor = PageCompressor::Make(view.codec, std::nullopt);
        for (const Page& page : *pages) {
          if (!page.header.is_data()) continue;
          OpenedPage opened;
          ASSERT_TRUE(OpenPage(page, input->columns[c], *compressor, key, opened).ok());
          const auto text = [](std::span<const std::byte> span) {
            return std::string(reinterpret_cast<const char*>(span.data()), span.size());
          };
          out[c].push_back({page.header.num_values, text(opened.repetition_levels),
                            text(opened.definition_levels)});
        }
      }
    }
  };
  for (const bool is_united : {false, true}) {
    SCOPED_TRACE(is_united);
    Batches batches;
    std::vector<StitchPart> parts;
    std::vector<std::vector<PageLevels>> wanted;
    for (int f = 0; f < 3; ++f) {
      arrow::ArrayVector columns;
      for (const auto& field : schema->fields()) {
        columns.push_back(RandomArray(random_, field->type(), 400, true,
                                      {.null_share = 0.2, .distinct_max = 15}));
      }
      batches.push_back(arrow::RecordBatch::Make(schema, 400, std::move(columns)));
      parquet::WriterProperties::Builder builder;
      builder.max_rows_per_page(60)->write_batch_size(20)->enable_write_page_index();
      if (!is_united) builder.disable_dictionary();
      const std::string key = fmt::format("in{}", f);
      WriteByLibrary(key, *ToTable({batches.back()}), 400, builder);
      parts.push_back({.input = Input(key), .row_group = 0});
      levels(key, wanted);
    }
    StitchCounts counts;
    const StitchedRun run(parts, {}, memory_, counts);
    WriteEncoded("out", schema, *parts[0].input, {&run});
    ExpectSameRows(*Read("out", schema), *ToTable(batches));
    EXPECT_EQ(counts.columns_decoded, 0);
    EXPECT_EQ(counts.pages_materialised, 0);
    if (is_united) {
      EXPECT_GT(counts.pages_remapped, 0);
    } else {
      EXPECT_EQ(counts.pages_remapped, 0);
    }
    std::vector<std::vector<PageLevels>> got;
    levels("out", got);
    EXPECT_EQ(got, wanted);
  }
}

// check: DATA-9
TEST_F(ParquetConformance, RunsEndBeforeAColumnChunkGetsTooLarge) {
  constexpr int64_t kOldReadersBytes = int64_t{1} << 30;
  EXPECT_EQ(RewriteTarget{}.run_bytes_max, kOldReadersBytes);
  const auto schema = arrow::schema({Id("s", arrow::utf8(), 1)});
  std::vector<RewriteInput> inputs;
  for (int f = 0; f < 20; ++f) {
    const std::string key = fmt::format("in{}", f);
    Write(key, {Texts(schema, 100, [&](int i) { return fmt::format("{} {}", f, i); })});
    inputs.push_back({.file = InputSaying(key, parquet_field::column_metadata::kTotalCompressedSize,
                                          300'000'000)});
  }
  RewriteTarget target;
  target.copy.schema = &inputs[0].file->schema();
  target.copy.row_group_bytes = int64_t{64} << 30;
  const auto steps = PlanRewrite(inputs, target);
  ASSERT_TRUE(steps.ok()) << steps.status().ToString();
  size_t groups = 0;
  for (const RewriteStep& step : *steps) {
    EXPECT_EQ(step.kind, StepKind::kStitch) << step.reason;
    EXPECT_LE(step.bytes, kOldReadersBytes);
    EXPECT_EQ(step.bytes, static_cast<int64_t>(step.groups.size()) * 300'000'000);
    groups += step.groups.size();
  }
  EXPECT_EQ(groups, 20U);
  EXPECT_EQ(steps->size(), 7U);  // three at a time

  // The same limit, small, with real bytes: no chunk written is above it.
  Batches batches;
  inputs.clear();
  for (int f = 0; f < 30; ++f) {
    const std::string key = fmt::format("real{}", f);
    batches.push_back(
        Texts(schema, 200, [&](int i) { return fmt::format("{:016x}{}", random_.Next(), i); }));
    Write(key, {batches.back()});
    inputs.push_back({.file = Input(key)});
  }
  RewriteTarget small;
  small.copy.row_group_bytes = int64_t{1} << 30;
  small.run_bytes_max = 20'000;
  std::vector<RewriteStep> done;
  RewriteCounts counts;
  ExpectSameRows(*Rewrite(inputs, schema, small, done, counts), *ToTable(batches));
  EXPECT_EQ(counts.rows_decoded, 0);
  const auto out = Library("out/0");
  EXPECT_GT(out->metadata()->num_row_groups(), 2);
  for (int g = 0; g < out->metadata()->num_row_groups(); ++g) {
    EXPECT_LE(out->metadata()->RowGroup(g)->ColumnChunk(0)->total_compressed_size(), 20'000);
  }
}

TEST_F(ParquetConformance, ChunksThatGrowInAnotherCodecStayBelowTheLimit) {
  const auto schema = arrow::schema({Id("s", arrow::utf8(), 1)});
  const auto write = [&](const std::string& key, int rows) {
    const auto batch = Texts(
        schema, rows, [](int i) { return fmt::format("a text that repeats itself {:08}", i); });
    Write(key, {batch},
          {.columns = {{.path = "s", .dictionary = DictionaryChoice::kNever}}, .page_rows = 100});
    return batch;
  };
  Batches batches;
  std::vector<RewriteInput> inputs;
  for (int f = 0; f < 8; ++f) {
    batches.push_back(write(fmt::format("in{}", f), f == 5 ? 3000 : 400));
    inputs.push_back({.file = Input(fmt::format("in{}", f))});
  }
  RewriteTarget target;
  target.codec = ParquetCodecNumber(ParquetCodec::kNone);
  target.chunk_bytes_max = 40'000;
  std::vector<RewriteStep> steps;
  RewriteCounts counts;
  ExpectSameRows(*Rewrite(inputs, schema, target, steps, counts), *ToTable(batches));
  // Two files of 16,000 bytes a run; the large one alone would pass the limit.
  ASSERT_EQ(steps.size(), 5U);
  EXPECT_EQ(steps[0].kind, StepKind::kStitch);
  EXPECT_EQ(steps[3].kind, StepKind::kDecode);
  EXPECT_EQ(steps[3].reason, "a chunk too large to change");
  EXPECT_EQ(counts.rows_decoded, 3000);
  const auto out = Library("out/0");
  for (int g = 0; g < out->metadata()->num_row_groups(); ++g) {
    const auto group = out->metadata()->RowGroup(g);
    if (group->num_rows() == 3000) continue;  // encoded anew: as the sink's limits say
    EXPECT_LE(group->ColumnChunk(0)->total_compressed_size(), 40'000);
  }

  // What a footer does not say is seen while pages are appended; the rows are decoded then.
  inputs[5].file = InputSaying("in5", parquet_field::column_metadata::kTotalUncompressedSize, 1);
  counts = {};
  ExpectSameRows(*Rewrite(inputs, schema, target, steps, counts), *ToTable(batches));
  EXPECT_EQ(std::count_if(steps.begin(), steps.end(),
                          [](const RewriteStep& step) { return step.kind == StepKind::kDecode; }),
            0);
  EXPECT_GE(counts.rows_decoded, 3000);
  StitchCounts stitched;
  const StitchedRun run({{.input = inputs[5].file, .row_group = 0}},
                        {.chunk_bytes_max = 40'000, .codec = 0}, memory_, stitched);
  std::string bytes;
  MemorySink sink(bytes);
  auto file = ParquetAssembler::Make(inputs[5].file->schema(), {.file_name = "out"}, sink);
  ASSERT_TRUE(file.ok());
  const Status refused = run.WriteTo(ctx_, *file);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.code(), Code::kRefused) << refused.ToString();
  EXPECT_EQ(file->row_group_count(), 0);
  // Pages that stay as they are count, too: nothing of them is written.
  const auto size = bytes.size();
  const StitchedRun verbatim({{.input = inputs[0].file, .row_group = 0}}, {.chunk_bytes_max = 100},
                             memory_, stitched);
  EXPECT_EQ(verbatim.WriteTo(ctx_, *file).code(), Code::kRefused);
  EXPECT_EQ(bytes.size(), size);
}

TEST_F(ParquetConformance, CountsThatCannotBeAreNotCopied) {
  const auto schema = arrow::schema({Id("s", arrow::utf8(), 1)});
  Write("in", {Texts(schema, 100, [](int i) { return std::to_string(i); })});
  for (const int64_t nulls : {-1, 101}) {
    auto input = std::make_shared<ParquetInput>(std::move(*Input("in")));
    auto& groups = input->footer.tree.Find(parquet_field::file_metadata::kRowGroups)->items();
    groups[0]
        .Find(parquet_field::row_group::kColumns)
        ->items()[0]
        .Find(parquet_field::column_chunk::kMetaData)
        ->Find(parquet_field::column_metadata::kStatistics)
        ->Set(parquet_field::statistics::kNullCount, ThriftValue::I64(nulls));
    const CopiedRowGroup group(input, 0, {});
    const WrittenFile file = WriteEncoded("out", schema, *input, {&group});
    EXPECT_EQ(file.metrics.columns[0].null_count, std::nullopt);
    const auto object = Object("out");
    const auto verified = VerifyFile(
        ctx_, VerifyMode::kFull, {.bytes = object.get(), .name = "out", .row_count = 100}, memory_);
    EXPECT_TRUE(verified.ok()) << verified.status().ToString();
  }
}

// Row groups of every kind that the library writes, copied: page versions, codecs, encodings,
// nesting, INT96, dictionaries that were given up.
TEST_F(ParquetConformance, CopiesOfRandomFilesHaveTheirRows) {
  for (int round = 0; round < 30; ++round) {
    SCOPED_TRACE(round);
    auto schema = RandomSchema(random_, 5, round % 2 == 1);
    const bool writes_int96 = round % 3 == 0;
    if (writes_int96) {
      schema = *schema->AddField(5, Id("old", arrow::timestamp(arrow::TimeUnit::NANO), 1000));
    }
    const auto batch = RandomBatch(random_, schema, 500);
    parquet::WriterProperties::Builder builder;
    RandomProperties(builder, *schema, true);
    WriteByLibrary("in", *ToTable({batch}), 170, builder, writes_int96);
    if (HasFatalFailure()) return;
    const auto input = Input("in");
    std::vector<std::unique_ptr<CopiedRowGroup>> groups;
    std::vector<const EncodedRows*> rows;
    for (int g = 0; g < input->footer.row_group_count(); ++g) {
      groups.push_back(std::make_unique<CopiedRowGroup>(input, g, CopyOptions{}));
      rows.push_back(groups.back().get());
    }
    WriteEncoded("out", schema, *input, rows);
    const auto copied = Read("out", schema);
    ExpectSameRows(*copied, *Read("in", schema));
    ExpectSameRows(*copied, *ToTable({batch}));
    if (HasFailure()) return;
  }
}

// Whatever request to the store fails, and however: copying, stitching and filtering end with that
// failure, and no file is visible.
TEST_F(ParquetConformance, AnyFailedRequestIsTheResultAndLeavesNoFile) {
  const auto schema = RandomSchema(random_, 3, true);
  Batches batches;
  for (const char* key : {"in0", "in1"}) {
    parquet::WriterProperties::Builder builder;
    RandomProperties(builder, *schema, false);
    batches.push_back(RandomBatch(random_, schema, 300));
    WriteByLibrary(key, *ToTable({batches.back()}), 120, builder);
  }
  Positions some;
  some.AddRun({.begin = 30, .end = 60});
  const RowFilter deleted(std::move(some));
  const auto all = ToTable(batches);
  std::vector<int64_t> rows_kept;
  for (int64_t row = 0; row < 600; ++row) {
    if (row % 300 < 30 || row % 300 >= 60) rows_kept.push_back(row);
  }
  const auto kept = TakeRows(*all, rows_kept);
  partforge::testing::FaultyStore faulty(store_);
  const auto run = [&](int kind) -> Status {
    std::vector<std::shared_ptr<ParquetInput>> inputs;
    for (const char* key : {"in0", "in1"}) {
      PF_ASSIGN(auto object, faulty.Open(ctx_, key));
      PF_ASSIGN(auto input, OpenParquetInput(ctx_, std::move(object), key));
      inputs.push_back(std::move(input));
    }
    PF_ASSIGN(auto bytes, faulty.Create(ctx_, "out", -1));
    ParquetSinkOptions options;
    options.schema_of = &inputs[0]->footer;
    PF_ASSIGN(const auto sink,
              ParquetSink::Open(ctx_, std::move(bytes), "out", schema, options, memory_));
    std::vector<StitchPart> parts;
    for (const auto& input : inputs) {
      for (int g = 0; g < input->footer.row_group_count(); ++g) {
        parts.push_back(
            {.input = input, .row_group = g, .deleted = kind == 2 ? &deleted : nullptr});
        if (kind == 0) PF_TRY(sink->AppendEncoded(ctx_, CopiedRowGroup(input, g, {})));
      }
    }
    StitchCounts counts;
    if (kind != 0) PF_TRY(sink->AppendEncoded(ctx_, StitchedRun(parts, {}, memory_, counts)));
    PF_TRY(sink->Close(ctx_));
    return {};
  };
  for (int kind = 0; kind < 3; ++kind) {
    for (const auto fault :
         {partforge::testing::StoreFault::kRefused, partforge::testing::StoreFault::kCut}) {
      int64_t failed = 0;
      for (int64_t nth = 1;; ++nth) {
        ASSERT_TRUE(store_.Delete(ctx_, std::vector<std::string>{"out"}).ok());
        faulty.FailAt(nth, fault);
        const Status status = run(kind);
        if (!faulty.has_fired()) {
          EXPECT_TRUE(status.ok()) << status.ToString();
          break;
        }
        // What is fetched ahead may fail: it is read again when it is needed.
        if (status.ok()) {
          ExpectSameRows(*Read("out", schema), kind == 2 ? *kept : *all);
          continue;
        }
        EXPECT_EQ(status.code(), Code::kUnavailable) << kind << " " << nth << status.ToString();
        EXPECT_EQ(store_.Stat(ctx_, "out").status().code(), Code::kNotFound);
        ++failed;
      }
      EXPECT_GT(failed, 6);
    }
  }
}

}  // namespace
}  // namespace partforge::data
