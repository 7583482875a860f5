// The numbered checks of copying and stitching that are about their conditions, limits and
// statistics; rows against a decoder are in parquet_stitch_test.cc and parquet_rewrite_test.cc.

#include <fmt/format.h>
#include <parquet/file_reader.h>
#include <parquet/statistics.h>

#include <cmath>
#include <limits>

#include "data/file_verify.h"
#include "data/memory_bytes.h"
#include "data/metrics_collector.h"
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
    const auto factory = [&](const Context& ctx, int64_t number) -> Result<RollingSink::Opened> {
      RollingSink::Opened opened{.key = fmt::format("out/{}", number), .sink = nullptr};
      PF_ASSIGN(auto bytes, store_.Create(ctx, opened.key, -1));
      ParquetSinkOptions options;
      options.schema_of = &*footer;
      PF_ASSIGN(opened.sink,
                ParquetSink::Open(ctx, std::move(bytes), opened.key, schema, options, memory_));
      return opened;
    };
    RollingSink sink(store_, factory, {});
    const Status status =
        RunRewrite(ctx_, inputs, steps, target, schema, {}, sink, memory_, counts);
    EXPECT_TRUE(status.ok()) << status.ToString();
    const auto files = sink.Close(ctx_);
    EXPECT_TRUE(files.ok());
    ExpectVerified({.inputs = inputs, .target = target, .schema = schema}, *files);
    std::vector<std::unique_ptr<BatchSource>> sources;
    for (const WrittenFile& file : *files) {
      ScanSpec spec;
      spec.wanted = schema;
      sources.push_back(Open(file.key, spec));
    }
    ConcatenatedBatches joined(std::move(sources));
    return ReadAll(ctx_, joined);
  }

  void ExpectVerified(const VerifiedRewrite& rewrite, const std::vector<WrittenFile>& files) {
    std::vector<std::unique_ptr<ByteSource>> objects;
    std::vector<WrittenObject> outputs;
    for (const WrittenFile& file : files) {
      objects.push_back(Object(file.key));
      outputs.push_back(
          {.bytes = objects.back().get(), .name = file.key, .row_count = file.row_count});
    }
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

  std::unique_ptr<parquet::ParquetFileReader> Library(const std::string& key) {
    const std::string bytes = *ReadObject(ctx_, store_, key);
    return parquet::ParquetFileReader::Open(
        std::make_shared<arrow::io::BufferReader>(arrow::Buffer::FromString(bytes)));
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

// Columns whose statistics are easily wrong, one batch a file.
std::shared_ptr<arrow::Schema> HardSchema() {
  return arrow::schema({WithFieldId(arrow::field("nulls", arrow::int64()), 1),
                        WithFieldId(arrow::field("nan", arrow::float64()), 2),
                        WithFieldId(arrow::field("zero", arrow::float32()), 3),
                        WithFieldId(arrow::field("text", arrow::utf8()), 4),
                        WithFieldId(arrow::field("high", arrow::binary()), 5),
                        WithFieldId(arrow::field("i", arrow::int32()), 6),
                        WithFieldId(arrow::field("x", arrow::decimal128(30, 3)), 7),
                        WithFieldId(arrow::field("b", arrow::boolean()), 8),
                        WithFieldId(arrow::field("t", arrow::utf8()), 9)});
}

std::shared_ptr<arrow::RecordBatch> HardBatch(Random& random, int file) {
  constexpr int kRows = 120;
  arrow::Int64Builder nulls;
  arrow::DoubleBuilder nan;
  arrow::FloatBuilder zero;
  arrow::StringBuilder text, t;
  arrow::BinaryBuilder high;
  arrow::Int32Builder i;
  arrow::BooleanBuilder b;
  const auto must = [](const arrow::Status& status) { ASSERT_TRUE(status.ok()); };
  for (int row = 0; row < kRows; ++row) {
    must(file == 2 && row == 5 ? nulls.Append(-7) : nulls.AppendNull());
    must(row % 3 == file % 3 ? nan.Append(std::numeric_limits<double>::quiet_NaN())
                             : nan.Append(static_cast<double>(random.Next() % 1000) - 500));
    must(zero.Append(file == 0 ? 0.0F : -0.0F));
    // Long texts whose beginnings do not tell them apart, and some of 64 KiB.
    must(text.Append(std::string(row == 60 ? 64 << 10 : 300, 'm') + std::to_string(random.Next())));
    must(high.Append(std::string(400, '\xff') + static_cast<char>(random.Next() % 256)));
    must(i.Append(static_cast<int32_t>(random.Next())));
    must(b.Append(file == 1 && row % 2 == 0));
    // Short ones: their bounds are exact, and die first where a library keeps pointers to them.
    must(t.Append(fmt::format("k{:05}", random.Next() % 100'000)));
  }
  return arrow::RecordBatch::Make(
      HardSchema(), kRows,
      {nulls.Finish().ValueOrDie(), nan.Finish().ValueOrDie(), zero.Finish().ValueOrDie(),
       text.Finish().ValueOrDie(), high.Finish().ValueOrDie(), i.Finish().ValueOrDie(),
       RandomArray(random, arrow::decimal128(30, 3), kRows, true), b.Finish().ValueOrDie(),
       t.Finish().ValueOrDie()});
}

constexpr int64_t kLongBytes = (64 << 10) + 20;  // the longest of HardBatch

// What the metrics say must hold for the rows counted one by one, and be as sharp where it is
// marked exact.
void ExpectMetricsHold(const FileMetrics& got, const FileMetrics& counted, int64_t bound_bytes,
                       bool cuts) {
  ASSERT_EQ(got.columns.size(), counted.columns.size());
  EXPECT_EQ(got.row_count, counted.row_count);
  for (size_t c = 0; c < got.columns.size(); ++c) {
    const ColumnMetrics& column = got.columns[c];
    const ColumnMetrics& wanted = counted.columns[c];
    SCOPED_TRACE(column.path);
    EXPECT_EQ(column.value_count, wanted.value_count);
    EXPECT_EQ(column.null_count, wanted.null_count);
    if (column.nan_count) {
      EXPECT_EQ(column.nan_count, wanted.nan_count);
    }
    if (!wanted.lower) {
      EXPECT_FALSE(column.lower.has_value());
      EXPECT_FALSE(column.upper.has_value());
      continue;
    }
    // Bounds that are longer than their writer keeps are left out, or cut by one that cuts; but
    // what is cut from bytes that are all 0xff cannot be raised, and the lower one may go with it.
    const bool is_long = column.path == "high" || column.path == "text";
    const bool has_bounds = !is_long || bound_bytes > kLongBytes || (cuts && column.path == "text");
    if (has_bounds || !cuts) {
      EXPECT_EQ(column.lower.has_value(), has_bounds);
    }
    EXPECT_EQ(column.upper.has_value(), has_bounds);
    if (column.lower) {
      EXPECT_LE(column.lower->value, wanted.lower->value);
      if (column.lower->is_exact) {
        EXPECT_EQ(column.lower->value, wanted.lower->value);
      }
    }
    if (column.upper) {
      EXPECT_GE(column.upper->value, wanted.upper->value);
      if (column.upper->is_exact) {
        EXPECT_EQ(column.upper->value, wanted.upper->value);
      }
    }
  }
}

// check: DATA-10
TEST_F(ParquetConformance, StatisticsOfCopiesAndStitchesEqualARecountInHardCases) {
  const auto schema = HardSchema();
  for (const int64_t bound_bytes : {int64_t{16}, int64_t{256}, int64_t{1} << 20}) {
    for (const bool by_library : {false, true}) {
      SCOPED_TRACE(fmt::format("bounds of {} bytes, by the library: {}", bound_bytes, by_library));
      MetricsCollector collector(*schema);
      Batches batches;
      std::vector<StitchPart> parts;
      std::vector<std::unique_ptr<CopiedRowGroup>> copies;
      std::vector<const EncodedRows*> rows;
      for (int f = 0; f < 3; ++f) {
        batches.push_back(HardBatch(random_, f));
        ASSERT_TRUE(collector.Add(*batches.back()).ok());
        const std::string key = fmt::format("in{}", f);
        std::vector<std::optional<int64_t>> nan_counts;
        if (by_library) {
          parquet::WriterProperties::Builder builder;
          builder.max_rows_per_page(25)->write_batch_size(5)->enable_write_page_index();
          builder.max_statistics_size(static_cast<size_t>(bound_bytes));
          WriteByLibrary(key, *ToTable({batches.back()}), 50, builder);
        } else {
          const WrittenFile file =
              Write(key, {batches.back()},
                    {.row_group_rows = 1000, .page_rows = 25, .bound_bytes_max = bound_bytes});
          for (const ColumnMetrics& column : file.metrics.columns) {
            nan_counts.push_back(column.nan_count);
          }
        }
        const auto input = Input(key);
        for (int g = 0; g < input->footer.row_group_count(); ++g) {
          parts.push_back({.input = input, .row_group = g, .nan_counts = nan_counts});
          copies.push_back(std::make_unique<CopiedRowGroup>(
              input, g, CopyOptions{.nan_counts = nan_counts, .bound_bytes_max = bound_bytes}));
          rows.push_back(copies.back().get());
        }
      }
      const FileMetrics counted = collector.Metrics();
      const auto copied = WriteEncoded("copied", schema, *parts[0].input, rows);
      ExpectMetricsHold(copied.metrics, counted, bound_bytes, !by_library);
      StitchCounts counts;
      const StitchedRun run(parts, {}, memory_, counts);
      const auto stitched = WriteEncoded("stitched", schema, *parts[0].input, {&run});
      ExpectMetricsHold(stitched.metrics, counted, bound_bytes, !by_library);
      if (!by_library) {
        EXPECT_TRUE(copied.metrics.columns[1].nan_count.has_value());
        EXPECT_TRUE(stitched.metrics.columns[1].nan_count.has_value());
      }
      // The footers themselves, row group by row group, as another reader sees them.
      for (const std::string key : {"copied", "stitched"}) {
        const auto table = Read(key, schema);
        ExpectSameRows(*table, *ToTable(batches));
        const auto& texts =
            static_cast<const arrow::StringArray&>(*table->GetColumnByName("t")->chunk(0));
        const auto& numbers =
            static_cast<const arrow::Int32Array&>(*table->GetColumnByName("i")->chunk(0));
        const auto library = Library(key);
        int64_t row = 0;
        for (int g = 0; g < library->metadata()->num_row_groups(); ++g) {
          const auto group = library->metadata()->RowGroup(g);
          std::string low = std::string(texts.GetView(row)), high = low;
          int32_t least = numbers.Value(row), most = least;
          for (int64_t end = row + group->num_rows(); row < end; ++row) {
            low = std::min(low, std::string(texts.GetView(row)));
            high = std::max(high, std::string(texts.GetView(row)));
            least = std::min(least, numbers.Value(row));
            most = std::max(most, numbers.Value(row));
          }
          const auto text = group->ColumnChunk(8)->statistics();
          ASSERT_TRUE(text != nullptr && text->HasMinMax()) << key;
          EXPECT_EQ(text->EncodeMin(), low) << key;
          EXPECT_EQ(text->EncodeMax(), high) << key;
          const auto number = group->ColumnChunk(5)->statistics();
          ASSERT_TRUE(number != nullptr && number->HasMinMax()) << key;
          EXPECT_EQ(static_cast<const parquet::Int32Statistics&>(*number).min(), least) << key;
          EXPECT_EQ(static_cast<const parquet::Int32Statistics&>(*number).max(), most) << key;
        }
      }
      if (HasFailure()) return;
    }
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
