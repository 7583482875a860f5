#include "fuzz/fuzz_parquet.h"

#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "data/file_verify.h"
#include "data/memory_bytes.h"
#include "data/page_codec.h"
#include "data/page_index.h"
#include "data/page_stitch.h"
#include "data/page_values.h"
#include "data/parquet_assembler.h"
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

int FuzzParquetCopy(std::span<const std::byte> bytes) {
  testing::TestWorld world(int64_t{256} << 20);
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
    std::string out;
    MemorySink sink(out);
    auto file = ParquetAssembler::Make((*input)->schema(), {.file_name = "out"}, sink);
    if (!file.ok()) return 0;
    StitchCounts counts;
    std::vector<StitchPart> parts;
    for (int g = 0; g < footer.row_group_count(); ++g) {
      parts.push_back({.input = *input, .row_group = g, .deleted = filters ? &filter : nullptr});
    }
    Status status = StitchedRun(parts, {}, memory, counts).WriteTo(ctx, *file);
    if (status.ok() && footer.row_group_count() > 0 && !filters) {
      status = CopiedRowGroup(*input, 0, {}).WriteTo(ctx, *file);
    }
    if (status.ok()) (void)file->Finish(ctx).ok();
  }
  return 0;
}

int FuzzParquetVerify(std::span<const std::byte> bytes) {
  testing::TestWorld world(int64_t{256} << 20);
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
