// What reading and joining Parquet files takes of memory, as the allocator counts it: however many
// or large the things are that files hold or claim, it is taken from the budget first.

#include <fmt/format.h>

#include "base/hash.h"
#include "data/memory_bytes.h"
#include "data/page_index.h"
#include "data/parquet_assembler.h"
#include "data/parquet_rewrite_rig.h"
#include "testing/allocation_peak.h"

namespace partforge::data {
namespace {

using data::testing::ExpectSameRows;
using data::testing::ParquetRewriteFixture;
using data::testing::ReadAll;
using data::testing::ToTable;
using partforge::testing::AllocationPeak;
using Batches = std::vector<std::shared_ptr<arrow::RecordBatch>>;

constexpr size_t kMebibyte = size_t{1} << 20;

class ParquetBudget : public ParquetRewriteFixture {
 protected:
  static std::shared_ptr<arrow::Schema> TextSchema() {
    return arrow::schema({WithFieldId(arrow::field("s", arrow::utf8(), false), 1)});
  }
  static std::shared_ptr<arrow::RecordBatch> Texts(int64_t rows,
                                                   const std::function<std::string(int64_t)>& at) {
    arrow::StringBuilder builder;
    for (int64_t i = 0; i < rows; ++i) EXPECT_TRUE(builder.Append(at(i)).ok());
    return arrow::RecordBatch::Make(TextSchema(), rows, {builder.Finish().ValueOrDie()});
  }

  // Joins the files "0", "1", …; the most that was allocated meanwhile.
  size_t PeakOfJoin(int files) {
    std::vector<StitchPart> parts;
    for (int f = 0; f < files; ++f) {
      parts.push_back({.input = Input(std::to_string(f)), .row_group = 0});
    }
    AllocationPeak::Start();
    const StitchedRun run(parts, {}, memory_, counts_);
    WriteEncoded("out", TextSchema(), *parts[0].input, {&run});
    return AllocationPeak::PeakBytes();
  }

  StitchCounts counts_;
};

// Sound files: their dictionaries take little room where they are stored.
TEST_F(ParquetBudget, OfManyDictionariesFewAreOpenAtOnce) {
  constexpr int kFiles = 60, kEntries = 5000;
  Batches rows;
  for (int f = 0; f < kFiles; ++f) {
    rows.push_back(Texts(2 * kEntries, [&](int64_t i) {
      return std::string(100, 'a') + fmt::format("{} {:06}", f, i % kEntries);
    }));
    Write(std::to_string(f), {rows.back()},
          {.columns = {{.path = "s", .dictionary = DictionaryChoice::kAlways}}});
  }
  const size_t peak = PeakOfJoin(kFiles);
  EXPECT_EQ(counts_.pages_materialised, kFiles);
  EXPECT_EQ(counts_.columns_decoded, 0);
  EXPECT_LE(peak, 16 * kMebibyte);  // all together are 35
  ExpectSameRows(*Read("out", TextSchema()), *ToTable(rows));
  EXPECT_EQ(ctx_.memory.used_bytes(), 0);
}

TEST_F(ParquetBudget, BloomFiltersAreJoinedOneByOne) {
  constexpr int kFiles = 40;
  Batches rows;
  for (int f = 0; f < kFiles; ++f) {
    rows.push_back(Texts(50, [&](int64_t i) { return fmt::format("{} {}", f, i); }));
    Write(std::to_string(f), {rows.back()},
          {.columns = {{.path = "s", .bloom_distinct_count = 700'000}}});
  }
  const auto first = Input("0");
  const auto one =
      ReadBloomFilter(ctx_, *first->source, *ViewChunk(first->footer.chunk(0, 0), "0"), "0");
  ASSERT_TRUE(one.ok() && one->has_value());
  ASSERT_GE((*one)->bits.size(), kMebibyte / 2);
  EXPECT_LE(PeakOfJoin(kFiles), 8 * (*one)->bits.size());
  const auto out = Input("out");
  const auto joined =
      ReadBloomFilter(ctx_, *out->source, *ViewChunk(out->footer.chunk(0, 0), "out"), "out");
  ASSERT_TRUE(joined.ok() && joined->has_value());
  for (int f = 0; f < kFiles; ++f) EXPECT_TRUE(MayContain(**joined, fmt::format("{} 7", f)));
}

// A chunk of pages without a value: what is noted of each is more than the page.
TEST_F(ParquetBudget, TinyPagesAreTakenFromTheBudget) {
  Write("like", {Texts(1, [](int64_t) { return "x"; })});
  const auto input = Input("like");
  const auto bytes = Create("0");
  auto file = ParquetAssembler::Make(input->schema(), {.file_name = "0"}, *bytes);
  ASSERT_TRUE(file.ok());
  auto compressor = PageCompressor::Make(0, std::nullopt);
  const PageParts none{.num_values = 0, .encoding = static_cast<int>(PageEncoding::kPlain)};
  std::string empty, pages;
  ASSERT_TRUE(WriteDataPage(none, file->columns()[0], *compressor, empty).ok());
  PageParts one = none;
  one.num_values = 1;
  one.values = std::string_view("\x01\0\0\0z", 5);
  ASSERT_TRUE(WriteDataPage(one, file->columns()[0], *compressor, pages).ok());
  constexpr int kPages = 60'000;
  for (int i = 0; i < kPages; ++i) pages += empty;
  using namespace parquet_field::column_metadata;  // NOLINT: a list of fields follows
  ThriftValue metadata = ThriftValue::Struct();
  metadata.Set(kType, ThriftValue::I32(6));
  metadata.Set(kEncodings, ThriftValue::List(ThriftType::kI32, {ThriftValue::I32(0)}));
  metadata.Set(kCodec, ThriftValue::I32(0));
  metadata.Set(kNumValues, ThriftValue::I64(1));
  metadata.Set(kTotalUncompressedSize, ThriftValue::I64(static_cast<int64_t>(pages.size())));
  metadata.Set(kTotalCompressedSize, ThriftValue::I64(static_cast<int64_t>(pages.size())));
  metadata.Set(kDataPageOffset, ThriftValue::I64(4));
  EncodedChunk chunk;
  chunk.chunk.Set(parquet_field::column_chunk::kMetaData, std::move(metadata));
  chunk.pages_began_at = 4;
  ASSERT_TRUE(file->BeginRowGroup(ctx_, 1).ok());
  ASSERT_TRUE(file->AppendPages(ctx_, AsBytes(pages)).ok());
  ASSERT_TRUE(file->EndChunk(std::move(chunk)).ok());
  ASSERT_TRUE(file->EndRowGroup(ctx_).ok());
  ASSERT_TRUE(file->Finish(ctx_).ok() && bytes->Close(ctx_).ok());

  partforge::testing::TestWorld small(static_cast<int64_t>(8 * kMebibyte));
  const Context ctx = small.context();
  ArrowMemory memory(ctx.memory);
  const StitchedRun run({{.input = Input("0"), .row_group = 0}}, {}, memory, counts_);
  std::string out;
  MemorySink sink(out);
  auto made = ParquetAssembler::Make(input->schema(), {.file_name = "out"}, sink);
  ASSERT_TRUE(made.ok());
  AllocationPeak::Start();
  EXPECT_EQ(run.WriteTo(ctx, *made).code(), Code::kExhausted);
  EXPECT_LE(AllocationPeak::PeakBytes(), 12 * kMebibyte);
  // With room they are passed over.
  const StitchedRun again({{.input = Input("0"), .row_group = 0}}, {}, memory_, counts_);
  WriteEncoded("out", TextSchema(), *input, {&again});
  EXPECT_EQ(Read("out", TextSchema())->num_rows(), 1);
}

TEST_F(ParquetBudget, PageIndexesAreTakenFromTheBudget) {
  constexpr uint32_t kCount = 1 << 18;
  const auto list_of = [](char element, char item) {
    std::string bytes = {'\x19', static_cast<char>(0xF0 | element)};
    for (uint32_t left = kCount; left > 0; left >>= 7) {
      bytes.push_back(static_cast<char>(left >= 0x80 ? left | 0x80 : left));
    }
    return bytes + std::string(kCount, item) + '\0';
  };
  const std::string nulls = list_of('\x01', '\x01');      // of booleans
  const std::string locations = list_of('\x0C', '\x00');  // of structs without a field
  ChunkView view;
  view.bytes = {.offset = 4, .length = 100};
  view.num_values = kCount;
  view.column_index = {.offset = 0, .length = static_cast<int64_t>(nulls.size())};
  view.offset_index = {.offset = 0, .length = static_cast<int64_t>(locations.size())};
  partforge::testing::TestWorld small(static_cast<int64_t>(8 * kMebibyte));
  for (const bool has_room : {false, true}) {
    const Context ctx = has_room ? ctx_ : small.context();
    const Code wanted = has_room ? Code::kCorruption : Code::kExhausted;
    MemorySource of_nulls(AsBytes(nulls)), of_locations(AsBytes(locations));
    AllocationPeak::Start();
    EXPECT_EQ(ReadColumnIndex(ctx, of_nulls, view, kCount, "f").status().code(), wanted);
    EXPECT_EQ(ReadOffsetIndex(ctx, of_locations, view, kCount, "f").status().code(), wanted);
    if (has_room) continue;
    EXPECT_LE(AllocationPeak::PeakBytes(), 8 * kMebibyte);
  }
  EXPECT_EQ(ctx_.memory.used_bytes(), 0);
}

// Where the pages that are wanted have no room together, their row group is read from end to end.
TEST_F(ParquetBudget, PagesArePickedOnlyWhereTheyHaveRoom) {
  constexpr int64_t kRows = 30'000;
  const auto schema = arrow::schema({WithFieldId(arrow::field("k", arrow::int64(), false), 1),
                                     WithFieldId(arrow::field("s", arrow::utf8(), false), 2)});
  arrow::Int64Builder keys;
  arrow::StringBuilder texts;
  for (int64_t i = 0; i < kRows; ++i) {
    std::string text;
    for (int word = 0; word < 64; ++word) text += fmt::format("{:016x}", random_.Next());
    ASSERT_TRUE(keys.Append(i).ok() && texts.Append(text).ok());
  }
  Write("f",
        {arrow::RecordBatch::Make(schema, kRows,
                                  {keys.Finish().ValueOrDie(), texts.Finish().ValueOrDie()})},
        {.codec = ParquetCodec::kNone, .page_bytes = 64 << 10, .page_rows = 500});
  for (const size_t budget : {size_t{14}, size_t{256}}) {
    SCOPED_TRACE(budget);
    partforge::testing::TestWorld world(static_cast<int64_t>(budget * kMebibyte));
    const Context ctx = world.context();
    ArrowMemory memory(ctx.memory);
    ColumnRange range{.column = {.id = 1, .name = {}}};
    range.lower = Scalar::Int64(1000);
    range.upper = Scalar::Int64(20'999);
    ScanSpec spec{.wanted = schema, .position_column = "_pos", .batch_bytes_max = 256 << 10};
    spec.ranges = {range};
    spec.read_ahead.held_bytes_max = 1 << 20;
    spec.stream_bytes_max = 1 << 20;
    const auto source = ParquetSource::Open(ctx, Object("f"), "f", spec, memory);
    ASSERT_TRUE(source.ok()) << source.status().ToString();
    int64_t wanted = 0;
    AllocationPeak::Start();
    while (true) {
      const auto batch = (*source)->Next(ctx);
      ASSERT_TRUE(batch.ok()) << batch.status().ToString();
      if (*batch == nullptr) break;
      const auto& got = static_cast<const arrow::Int64Array&>(*(*batch)->column(0));
      const auto& positions = static_cast<const arrow::Int64Array&>(*(*batch)->column(2));
      for (int64_t i = 0; i < got.length(); ++i) {
        ASSERT_EQ(got.Value(i), positions.Value(i));
        if (got.Value(i) >= 1000 && got.Value(i) <= 20'999) ++wanted;
      }
    }
    EXPECT_EQ(wanted, 20'000);
    const bool has_room = budget > 100;
    EXPECT_EQ((*source)->counts().rows_pruned_in_pages > 0, has_room);
    if (!has_room) {
      EXPECT_LE(AllocationPeak::PeakBytes(), budget * kMebibyte);
    }
  }
}

}  // namespace
}  // namespace partforge::data
