#include "fuzz/fuzz_parquet.h"

#include <arrow/api.h>
#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "base/hash.h"
#include "data/file_inspect.h"
#include "data/file_verify.h"
#include "data/memory_bytes.h"
#include "data/page_codec.h"
#include "data/page_index.h"
#include "data/page_stitch.h"
#include "data/page_values.h"
#include "data/parquet_assembler.h"
#include "data/parquet_source.h"
#include "data/row_group_copy.h"
#include "testing/test_world.h"

namespace partforge::fuzz {
namespace {

using namespace partforge::data;  // NOLINT: this file is about nothing else

constexpr std::string_view kWhat = "fuzzed";

LeafColumn SomeColumn(uint8_t choice) {
  LeafColumn column;
  column.path = {"c"};
  column.dotted_path = "c";
  column.type = static_cast<ParquetType>(choice % 8);
  column.fixed_length = 5;
  column.max_definition_level = choice / 8 % 4;
  column.max_repetition_level = choice / 32 % 2;
  return column;
}

}  // namespace

int FuzzHybrid(std::span<const std::byte> bytes) {
  if (bytes.size() < 3) return 0;
  const int width = static_cast<int>(bytes[0]) % 40 - 2;
  const int64_t count = static_cast<int64_t>(bytes[1]) * 256 + static_cast<int64_t>(bytes[2]);
  std::vector<uint32_t> values;
  const Status status = DecodeHybrid(bytes.subspan(3), width, count, 100'000, kWhat, values);
  if (!status.ok()) return 0;
  std::string encoded;
  EncodeHybrid(values, 32, encoded);
  std::vector<uint32_t> again;
  PF_CHECK(
      DecodeHybrid(std::as_bytes(std::span(encoded)), 32, count, UINT32_MAX, kWhat, again).ok(),
      "what was encoded does not decode");
  PF_CHECK(values == again, "values changed");
  return 0;
}

int FuzzPageCodec(std::span<const std::byte> bytes) {
  if (bytes.size() < 2) return 0;
  const LeafColumn column = SomeColumn(static_cast<uint8_t>(bytes[0]));
  constexpr int32_t kCodecs[] = {0, 1, 2, 4, 5, 6, 7};
  auto compressor =
      PageCompressor::Make(kCodecs[static_cast<size_t>(bytes[1]) % 7], std::nullopt).value();
  const auto chunk = bytes.subspan(2);
  // The count is the footer's word; whatever the pages say is taken here.
  int64_t values = 0;
  for (size_t at = 0; at < chunk.size();) {
    const auto header = ParsePageHeader(chunk.subspan(at), kWhat);
    if (!header.ok()) break;
    if (header->is_data()) values += header->num_values;
    at += static_cast<size_t>(header->header_bytes + header->compressed_bytes);
  }
  const auto pages = ListPages(chunk, values, kWhat);
  if (!pages.ok()) return 0;
  testing::TestWorld world;
  ArrowMemory memory(world.context().memory);
  OpenedPage opened;
  std::vector<uint32_t> levels;
  for (const Page& page : *pages) {
    if (page.header.type == PageType::kDictionary) {
      (void)ParseDictionary(page, column, compressor, kWhat).ok();
      continue;
    }
    if (!page.header.is_data()) continue;
    if (!OpenPage(page, column, compressor, kWhat, opened).ok()) continue;
    const auto max_level = static_cast<uint32_t>(column.max_definition_level);
    const auto present = CountInHybrid(opened.definition_levels, BitWidth(max_level),
                                       page.header.num_values, max_level, kWhat);
    if (!present.ok()) continue;
    (void)ToPlain(column, page.header.encoding, opened.values, *present, memory, kWhat).ok();
    (void)DecodeHybrid(opened.values, 7, std::min<int64_t>(page.header.num_values, 1 << 16), 100,
                       kWhat, levels)
        .ok();
  }
  return 0;
}

int FuzzPageIndex(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  auto index = ParseColumnIndex(text, kWhat);
  if (!index.ok()) return 0;
  SetBoundaryOrder(*index, SomeColumn(2));
  PF_CHECK(ParseColumnIndex(EncodeColumnIndex(*index), kWhat).ok(), "an index that does not read");
  return 0;
}

namespace {

constexpr int64_t kBudgetBytes = int64_t{256} << 20;

// The rows of a file, decoded by the library; null when it does not take them all.
std::shared_ptr<arrow::Table> RowsOf(const Context& ctx, std::span<const std::byte> bytes,
                                     ArrowMemory& memory) {
  const auto source =
      ParquetSource::Open(ctx, std::make_unique<MemorySource>(bytes), "fuzzed", {}, memory);
  if (!source.ok()) return nullptr;
  std::vector<std::shared_ptr<arrow::RecordBatch>> batches;
  while (true) {
    auto batch = (*source)->Next(ctx);
    if (!batch.ok()) return nullptr;
    if (*batch == nullptr) break;
    batches.push_back(std::move(*batch));
  }
  return arrow::Table::FromRecordBatches((*source)->schema(), batches).ValueOr(nullptr);
}

// The rows whose positions are live.
std::shared_ptr<arrow::Table> LiveRows(const std::shared_ptr<arrow::Table>& rows,
                                       const RowFilter* deleted) {
  if (deleted == nullptr) return rows;
  std::vector<std::shared_ptr<arrow::Table>> pieces = {rows->Slice(0, 0)};
  const auto end = static_cast<uint64_t>(rows->num_rows());
  for (auto run = deleted->NextRun(0, end); run; run = deleted->NextRun(run->end, end)) {
    pieces.push_back(
        rows->Slice(static_cast<int64_t>(run->begin), static_cast<int64_t>(run->size())));
  }
  return arrow::ConcatenateTables(pieces).ValueOrDie();
}

void CheckSameRows(const arrow::Table& got, const arrow::Table& wanted) {
  PF_CHECK(got.num_rows() == wanted.num_rows(), "a copy of other rows");
  PF_CHECK(got.num_columns() == wanted.num_columns(), "a copy of other columns");
  const auto options = arrow::EqualOptions::Defaults().nans_equal(true).signed_zeros_equal(false);
  for (int i = 0; i < got.num_columns(); ++i) {
    PF_CHECK(got.column(i)->Equals(*wanted.column(i), options), "a copy of other values");
  }
}

}  // namespace

int FuzzParquetCopy(std::span<const std::byte> bytes) {
  testing::TestWorld world(kBudgetBytes);
  const Context ctx = world.context();
  ArrowMemory memory(ctx.memory);
  const auto input = OpenParquetInput(ctx, std::make_unique<MemorySource>(bytes), "fuzzed");
  if (!input.ok()) return 0;
  Positions deleted;
  deleted.Add(3);
  deleted.AddRun({.begin = 15, .end = 22});
  const RowFilter filter(std::move(deleted));
  const ParquetFooter& footer = (*input)->footer;
  for (const bool filters : {false, true}) {
    const RowFilter* const left_out = filters ? &filter : nullptr;
    std::string out;
    MemorySink sink(out);
    auto file = ParquetAssembler::Make((*input)->schema(), {.file_name = "out"}, sink);
    if (!file.ok()) return 0;
    StitchCounts counts;
    std::vector<StitchPart> parts;
    for (int g = 0; g < footer.row_group_count(); ++g) {
      parts.push_back({.input = *input, .row_group = g, .deleted = left_out});
    }
    Status status = StitchedRun(parts, {}, memory, counts).WriteTo(ctx, *file);
    const bool copies = footer.row_group_count() > 0 && !filters;
    if (status.ok() && copies) status = CopiedRowGroup(*input, 0, {}).WriteTo(ctx, *file);
    if (!status.ok() || !file->Finish(ctx).ok()) continue;
    // What was accepted reads back equal. Bytes that nobody decoded may be damaged in both files.
    const auto read = RowsOf(ctx, bytes, memory);
    const auto written = RowsOf(ctx, AsBytes(out), memory);
    if (read == nullptr) continue;
    PF_CHECK(written != nullptr, "a copy that does not read");
    auto wanted = LiveRows(read, left_out);
    if (copies) {
      wanted =
          arrow::ConcatenateTables({wanted, read->Slice(0, (*input)->RowCount(0))}).ValueOrDie();
    }
    CheckSameRows(*written, *wanted);
  }
  return 0;
}

int FuzzParquetSource(std::span<const std::byte> bytes) {
  testing::TestWorld world(kBudgetBytes);
  const Context ctx = world.context();
  ArrowMemory memory(ctx.memory);
  ColumnRange numbers{.column = {.id = -1, .name = "id"}};
  numbers.lower = Scalar::Int64(9);
  numbers.upper = Scalar::Int64(27);
  ColumnRange texts{.column = {.id = -1, .name = "t"}};
  texts.equals = {Scalar::String("t3"), Scalar::String("t5")};
  const auto wanted = arrow::schema({arrow::field("t", arrow::utf8()),
                                     arrow::field("l", arrow::list(arrow::int32())),
                                     arrow::field("id", arrow::int64())});
  for (const bool by_text : {false, true}) {
    ScanSpec spec{.wanted = wanted, .mapping = {.match = MatchBy::kName}};
    spec.ranges = {by_text ? texts : numbers};
    spec.position_column = "_pos";
    const auto source = ParquetSource::Open(ctx, std::make_unique<MemorySource>(bytes), "fuzzed",
                                            std::move(spec), memory);
    if (!source.ok()) return 0;
    int64_t last = -1;
    while (true) {
      const auto batch = (*source)->Next(ctx);
      if (!batch.ok() || *batch == nullptr) break;
      // Not ValidateFull: text that is no UTF-8 is passed on as it is.
      PF_CHECK((*batch)->Validate().ok(), "a batch that Arrow does not believe");
      const auto& positions = static_cast<const arrow::Int64Array&>(*(*batch)->column(3));
      for (int64_t i = 0; i < positions.length(); ++i) {
        PF_CHECK(positions.Value(i) > last, "positions that do not ascend");
        last = positions.Value(i);
      }
    }
  }
  return 0;
}

int FuzzInspect(std::span<const std::byte> bytes) {
  // ORC is another process's (fuzz_orc_test.cc).
  if (!bytes.empty() && bytes[0] == std::byte{'O'} && bytes.size() > 1 &&
      bytes[1] == std::byte{'R'}) {
    return 0;
  }
  testing::TestWorld world(kBudgetBytes);
  const Context ctx = world.context();
  ArrowMemory memory(ctx.memory);
  MemorySource source(bytes);
  for (const auto inspection : {Inspection::kFooter, Inspection::kPages, Inspection::kDecode}) {
    const auto report = InspectFile(ctx, source, "fuzzed", inspection, memory);
    if (!report.ok()) continue;
    PF_CHECK(report->size_bytes == static_cast<int64_t>(bytes.size()), "another size");
    for (const GroupReport& group : report->groups) {
      PF_CHECK(
          report->format != FileFormat::kParquet || group.chunks.size() == report->columns.size(),
          "a row group of other columns");
    }
  }
  return 0;
}

int FuzzParquetVerify(std::span<const std::byte> bytes) {
  testing::TestWorld world(kBudgetBytes);
  const Context ctx = world.context();
  ArrowMemory memory(ctx.memory);
  MemorySource source(bytes);
  const auto footer = ReadParquetFooter(ctx, source, kWhat);
  if (!footer.ok()) return 0;
  const WrittenObject file{
      .bytes = &source, .name = std::string(kWhat), .row_count = footer->num_rows()};
  const bool is_whole = VerifyFile(ctx, VerifyMode::kFull, file, memory).ok();
  const bool is_right = VerifyFile(ctx, VerifyMode::kSample, file, memory).ok();
  PF_CHECK(is_right || !is_whole, "a sample sees what a look at all pages does not");
  return 0;
}

}  // namespace partforge::fuzz
