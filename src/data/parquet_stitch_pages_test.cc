// What stitching makes of dictionaries, statistics and bloom filters of a column.

#include <fmt/format.h>
#include <parquet/arrow/writer.h>

#include "data/page_codec.h"
#include "data/page_index.h"
#include "data/parquet_assembler.h"
#include "data/parquet_rewrite_rig.h"
#include "data/rewrite_plan.h"

namespace partforge::data {
namespace {

using data::testing::ExpectSameRows;
using data::testing::ParquetRewriteFixture;
using data::testing::RandomBatch;
using data::testing::ToTable;
using Batches = std::vector<std::shared_ptr<arrow::RecordBatch>>;

class ParquetStitchPages : public ParquetRewriteFixture {
 protected:
  // Stitches files of texts that have a number each, with a bloom filter; what becomes of those.
  std::optional<BloomFilter> StitchFilters(int files, int rows, bool by_dictionary,
                                           int64_t distinct_count,
                                           const std::function<int(int file, int row)>& number) {
    const auto schema = arrow::schema({arrow::field("k", arrow::utf8())});
    std::vector<StitchPart> parts;
    for (int f = 0; f < files; ++f) {
      arrow::StringBuilder builder;
      for (int i = 0; i < rows; ++i) {
        EXPECT_TRUE(builder.Append(fmt::format("k{}", number(f, i))).ok());
      }
      const std::string key = fmt::format("in{}", f);
      Write(key, {arrow::RecordBatch::Make(schema, rows, {builder.Finish().ValueOrDie()})},
            {.columns = {{.path = "k",
                          .dictionary =
                              by_dictionary ? DictionaryChoice::kAlways : DictionaryChoice::kNever,
                          .bloom_distinct_count = distinct_count,
                          .bloom_false_positive_rate = 0.01}}});
      parts.push_back({.input = Input(key), .row_group = 0});
    }
    StitchCounts counts;
    const StitchedRun run(parts, {}, memory_, counts);
    WriteEncoded("out", schema, *parts[0].input, {&run});
    const auto out = Input("out");
    auto filter =
        ReadBloomFilter(ctx_, *out->source, *ViewChunk(out->footer.chunk(0, 0), "out"), "out");
    EXPECT_TRUE(filter.ok()) << filter.status().ToString();
    return filter.ok() ? *std::move(filter) : std::nullopt;
  }
};

// check: DATA-4
TEST_F(ParquetStitchPages, DictionariesAreKeptUnitedOrMaterialised) {
  const auto schema = arrow::schema({arrow::field("s", arrow::utf8())});
  const auto column = [&](const std::function<std::string(int)>& value, int rows) {
    arrow::StringBuilder builder;
    for (int i = 0; i < rows; ++i) {
      const std::string text = value(i);
      EXPECT_TRUE((text == "null" ? builder.AppendNull() : builder.Append(text)).ok());
    }
    return arrow::RecordBatch::Make(schema, rows, {builder.Finish().ValueOrDie()});
  };
  const auto stitch = [&](const Batches& batches, bool by_dictionary = true,
                          int64_t dictionary_bytes = 1 << 20) {
    std::vector<StitchPart> parts;
    for (size_t i = 0; i < batches.size(); ++i) {
      parquet::WriterProperties::Builder builder;
      if (!by_dictionary) builder.disable_dictionary();
      builder.max_rows_per_page(1000)->enable_write_page_index();
      builder.dictionary_pagesize_limit(dictionary_bytes);
      const std::string key = fmt::format("in{}", i);
      WriteByLibrary(key, *ToTable({batches[i]}), 1 << 20, builder);
      parts.push_back({.input = Input(key), .row_group = 0});
    }
    StitchCounts counts;
    const StitchedRun run(parts, {}, memory_, counts);
    WriteEncoded("out", schema, *parts[0].input, {&run});
    ExpectSameRows(*Read("out", schema), *ToTable(batches));
    return counts;
  };
  // Dictionary pages of what was written, and the bit width that pages of indices begin with, in
  // order and once each.
  const auto written = [&]() {
    const auto out = Input("out");
    const ChunkView view = *ViewChunk(out->footer.chunk(0, 0), "out");
    const std::string bytes = *ReadRange(ctx_, *out->source, view.bytes, "out");
    auto compressor = PageCompressor::Make(view.codec, std::nullopt);
    std::pair<int, std::vector<int>> found;
    const auto pages = ListPages(std::as_bytes(std::span(bytes)), view.num_values, "out");
    EXPECT_TRUE(pages.ok());
    for (const Page& page : *pages) {
      if (page.header.type == PageType::kDictionary) ++found.first;
      if (!page.header.is_data() ||
          page.header.encoding != static_cast<int>(PageEncoding::kRleDictionary)) {
        continue;
      }
      OpenedPage opened;
      EXPECT_TRUE(OpenPage(page, out->columns[0], *compressor, "out", opened).ok());
      const int width = static_cast<int>(opened.values[0]);
      if (found.second.empty() || found.second.back() != width) found.second.push_back(width);
    }
    return found;
  };
  using Written = std::pair<int, std::vector<int>>;
  const auto mod = [](int n, const std::string& prefix) {
    return [n, prefix](int i) { return prefix + std::to_string(i % n); };
  };
  // Equal dictionaries, and one that is the beginning of another.
  StitchCounts counts = stitch({column(mod(50, "v"), 3000), column(mod(50, "v"), 2000)});
  EXPECT_EQ(counts.pages_copied, 5);
  EXPECT_EQ(counts.pages_remapped, 0);
  EXPECT_EQ(written(), (Written{1, {6}}));
  counts = stitch({column(mod(20, "v"), 3000), column(mod(50, "v"), 2000)});
  EXPECT_EQ(counts.pages_copied, 5);
  EXPECT_EQ(written(), (Written{1, {5, 6}}));  // each page keeps the width it was written with
  // Small and different: the second file's indices move.
  counts = stitch({column(mod(50, "a"), 3000), column(mod(50, "b"), 2000)});
  EXPECT_EQ(counts.pages_copied, 3);
  EXPECT_EQ(counts.pages_remapped, 2);
  EXPECT_EQ(written(), (Written{1, {6, 7}}));  // of 100 entries
  // Unique values.
  counts = stitch({column(mod(1 << 30, "a"), 3000), column(mod(1 << 30, "b"), 2000)});
  EXPECT_EQ(counts.pages_materialised, 5);
  EXPECT_EQ(written(), (Written{0, {}}));
  // No dictionary at all.
  counts = stitch({column(mod(9, "a"), 3000), column(mod(9, "b"), 2000)}, false);
  EXPECT_EQ(counts.pages_copied, 5);
  // One entry, a chunk of nulls, a page of nulls.
  counts = stitch({column(mod(1, "a"), 3000), column([](int) { return "null"; }, 1500),
                   column([](int i) { return i < 1000 ? "null" : "z"; }, 2000)});
  EXPECT_EQ(counts.pages_materialised, 0);
  EXPECT_EQ(counts.columns_decoded, 0);
  EXPECT_EQ(written().first, 1);
  // One entry in each of two: two in the end.
  counts = stitch({column(mod(1, "a"), 3000), column(mod(1, "b"), 2000)});
  EXPECT_EQ(counts.pages_remapped, 2);
  EXPECT_EQ(written(), (Written{1, {1}}));
  // A dictionary that was given up: pages of values behind pages of indices.
  counts = stitch({column(mod(50, "a"), 3000), column(mod(900, "b"), 3000)}, true, 400);
  EXPECT_EQ(counts.columns_decoded, 0);
  // 2^16 + 1 entries: indices of 17 bits, each value often enough.
  counts = stitch({column(mod(1, "first"), 300'000), column(mod(65'537, ""), 300'000)});
  EXPECT_GT(counts.pages_remapped, 0);
  EXPECT_EQ(written().first, 1);
  EXPECT_EQ(written().second.back(), 17);
}

// A file of one required column whose one page holds `count` times the one entry of its dictionary,
// in indices of no bit.
// check: DATA-4
TEST_F(ParquetStitchPages, IndicesOfNoBitAreRead) {
  const auto schema = arrow::schema({arrow::field("s", arrow::utf8(), false)});
  arrow::StringBuilder other;
  ASSERT_TRUE(other.AppendValues({"a", "b", "a"}).ok());
  Write("other", {arrow::RecordBatch::Make(schema, 3, {other.Finish().ValueOrDie()})},
        {.columns = {{.path = "s", .dictionary = DictionaryChoice::kAlways}}});
  const auto input = Input("other");

  const auto bytes = Create("one");
  auto file = ParquetAssembler::Make(input->schema(), {.file_name = "one"}, *bytes);
  ASSERT_TRUE(file.ok());
  auto compressor = PageCompressor::Make(0, std::nullopt);
  std::string pages;
  ASSERT_TRUE(WriteDictionaryPage(std::string("\x01\0\0\0z", 5), 1, *compressor, pages).ok());
  const auto data_page = static_cast<int64_t>(pages.size());
  ASSERT_TRUE(WriteDataPage({.num_values = 5,
                             .encoding = static_cast<int>(PageEncoding::kRleDictionary),
                             .values = std::string_view("\0", 1)},
                            file->columns()[0], *compressor, pages)
                  .ok());
  using namespace parquet_field::column_metadata;  // NOLINT: a list of fields follows
  ThriftValue metadata = ThriftValue::Struct();
  metadata.Set(kType, ThriftValue::I32(6));
  metadata.Set(kEncodings, ThriftValue::List(ThriftType::kI32, {ThriftValue::I32(8)}));
  metadata.Set(kCodec, ThriftValue::I32(0));
  metadata.Set(kNumValues, ThriftValue::I64(5));
  metadata.Set(kTotalUncompressedSize, ThriftValue::I64(static_cast<int64_t>(pages.size())));
  metadata.Set(kTotalCompressedSize, ThriftValue::I64(static_cast<int64_t>(pages.size())));
  metadata.Set(kDataPageOffset, ThriftValue::I64(4 + data_page));
  metadata.Set(kDictionaryPageOffset, ThriftValue::I64(4));
  EncodedChunk chunk;
  chunk.chunk.Set(parquet_field::column_chunk::kMetaData, std::move(metadata));
  chunk.pages_began_at = 4;
  ASSERT_TRUE(file->BeginRowGroup(ctx_, 5).ok());
  ASSERT_TRUE(file->AppendPages(ctx_, std::as_bytes(std::span(pages))).ok());
  ASSERT_TRUE(file->EndChunk(std::move(chunk)).ok());
  ASSERT_TRUE(file->EndRowGroup(ctx_).ok());
  const auto finished = file->Finish(ctx_);
  ASSERT_TRUE(finished.ok()) << finished.status().ToString();
  ASSERT_TRUE(bytes->Close(ctx_).ok());

  StitchCounts counts;
  const StitchedRun run({{.input = input, .row_group = 0}, {.input = Input("one"), .row_group = 0}},
                        {}, memory_, counts);
  WriteEncoded("out", schema, *input, {&run});
  EXPECT_EQ(counts.pages_remapped, 1);
  const auto rows = Read("out", schema);
  const auto& texts = static_cast<const arrow::StringArray&>(*rows->column(0)->chunk(0));
  ASSERT_EQ(texts.length(), 8);
  EXPECT_EQ(texts.GetView(1), "b");
  for (int64_t i = 3; i < 8; ++i) EXPECT_EQ(texts.GetView(i), "z");
}

TEST_F(ParquetStitchPages, StatisticsOfStitchedFilesEqualARecount) {
  const auto schema = arrow::schema(
      {arrow::field("i", arrow::int64()), arrow::field("d", arrow::float64()),
       arrow::field("s", arrow::utf8()), arrow::field("x", arrow::decimal128(30, 3))});
  for (int round = 0; round < 10; ++round) {
    Batches batches;
    std::vector<StitchPart> parts;
    for (int f = 0; f < 3; ++f) {
      batches.push_back(RandomBatch(random_, schema, 200));
      const std::string key = fmt::format("in{}", f);
      Write(key, {batches.back()}, {.row_group_rows = 90});
      const auto input = Input(key);
      for (int g = 0; g < 3; ++g) parts.push_back({.input = input, .row_group = g});
    }
    const WrittenFile whole = Write("whole", batches);
    StitchCounts counts;
    const StitchedRun run(parts, {}, memory_, counts);
    const WrittenFile file = WriteEncoded("out", schema, *parts[0].input, {&run});
    for (size_t c = 0; c < 4; ++c) {
      const ColumnMetrics& got = file.metrics.columns[c];
      const ColumnMetrics& wanted = whole.metrics.columns[c];
      EXPECT_EQ(got.value_count, wanted.value_count);
      EXPECT_EQ(got.null_count, wanted.null_count);
      // One input without a bound (all NaN) leaves the result without: never half.
      if (!got.lower || !wanted.lower) continue;
      EXPECT_EQ(got.lower->value, wanted.lower->value) << got.path;
      EXPECT_EQ(got.upper->value, wanted.upper->value) << got.path;
    }
  }
}

// check: DATA-7
TEST_F(ParquetStitchPages, JoinedBloomFiltersMissNothing) {
  for (const bool by_dictionary : {false, true}) {
    const auto filter =
        StitchFilters(4, 500, by_dictionary, by_dictionary ? 50 : 3000,
                      [&](int f, int i) { return by_dictionary ? i % 40 + f : i * 4 + f; });
    ASSERT_TRUE(filter.has_value());
    const auto rows = Read("out", arrow::schema({arrow::field("k", arrow::utf8())}));
    const auto& texts = static_cast<const arrow::StringArray&>(*rows->column(0)->chunk(0));
    for (int64_t i = 0; i < texts.length(); ++i) {
      ASSERT_TRUE(MayContain(*filter, texts.GetView(i)));
    }
    int64_t wrong = 0;
    for (int i = 0; i < 10'000; ++i) wrong += MayContain(*filter, fmt::format("other{}", i));
    EXPECT_LE(wrong, 200);
  }
}

// Filters that are as full as they may be are not joined: what came out would find nearly anything.
// Where dictionaries tell the values a larger one is made.
// check: DATA-7
TEST_F(ParquetStitchPages, BloomFiltersThatAreFullAreLeftOutOrMadeAnew) {
  for (const bool by_dictionary : {false, true}) {
    SCOPED_TRACE(by_dictionary);
    const auto filter =
        StitchFilters(8, 2000, by_dictionary, 400, [](int f, int i) { return f * 2000 + i % 400; });
    EXPECT_EQ(filter.has_value(), by_dictionary);
    if (!filter) continue;
    for (int f = 0; f < 8; ++f) {
      for (int i = 0; i < 400; ++i) {
        ASSERT_TRUE(MayContain(*filter, fmt::format("k{}", f * 2000 + i)));
      }
    }
    EXPECT_LE(FalsePositiveRate(*filter), 0.02);
  }
}

}  // namespace
}  // namespace partforge::data
