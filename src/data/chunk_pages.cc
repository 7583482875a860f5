#include "data/chunk_pages.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/hash.h"

namespace partforge::data {
namespace {

// Headers are read through a window that grows while pages follow each other: few requests where
// there are many pages, few bytes where there are few.
constexpr int64_t kWindowBytesMin = int64_t{16} << 10;
constexpr int64_t kWindowBytesMax = int64_t{4} << 20;
constexpr int64_t kHeaderBytesMax = int64_t{16} << 20;  // what ParsePageHeader looks at

Status Corrupt(std::string_view what, std::string found) {
  return Status(Code::kCorruption, fmt::format("read pages of {}: {}", what, found));
}

// Page headers of a chunk, one by one.
class HeaderWindow {
 public:
  HeaderWindow(ByteSource& source, FileRange chunk, std::string_view what)
      : source_(source), chunk_(chunk), what_(what) {}

  // The header at that place of the file.
  Result<PageHeader> At(const Context& ctx, int64_t offset) {
    if (offset < begin_ || offset >= begin_ + static_cast<int64_t>(bytes_.size())) {
      PF_TRY(Fill(ctx, offset, window_bytes_));
      window_bytes_ = std::min(2 * window_bytes_, kWindowBytesMax);
    }
    while (true) {
      const std::string_view rest =
          std::string_view(bytes_).substr(static_cast<size_t>(offset - begin_));
      auto header = ParsePageHeader(AsBytes(rest), what_);
      const auto have = static_cast<int64_t>(rest.size());
      // It may only be cut by the window.
      if (header.ok() || offset + have == chunk_.end() || have >= kHeaderBytesMax) return header;
      PF_TRY(Fill(ctx, offset, std::max(2 * have, kWindowBytesMin)));
    }
  }

 private:
  Status Fill(const Context& ctx, int64_t offset, int64_t bytes) {
    PF_ASSIGN(
        bytes_,
        ReadRange(ctx, source_,
                  {.offset = offset, .length = std::min(bytes, chunk_.end() - offset)}, what_));
    begin_ = offset;
    return {};
  }

  ByteSource& source_;
  const FileRange chunk_;
  const std::string_view what_;
  std::string bytes_;
  int64_t begin_ = 0;
  int64_t window_bytes_ = kWindowBytesMin;
};

// What a page takes while it is decoded: its bytes as stored and plain, once more as values, levels
// and indices.
int64_t DecodedBytes(const PageHeader& header) {
  constexpr int64_t kBytesPerValue = 12;
  return header.compressed_bytes + 2 * header.uncompressed_bytes +
         kBytesPerValue * header.num_values;
}

}  // namespace

Result<ChunkPages> ChunkPages::Open(const Context& ctx, ByteSource& source, const ChunkView& chunk,
                                    const LeafColumn& column, int64_t row_count, std::string what,
                                    ArrowMemory& memory) {
  ChunkPages pages(source, chunk, column, row_count, std::move(what), memory);
  PF_ASSIGN(pages.offsets_, ReadOffsetIndex(ctx, source, chunk, row_count, pages.what_));
  return pages;
}

Result<std::optional<ColumnIndex>> ChunkPages::ReadIndex(const Context& ctx) const {
  if (!offsets_) return std::optional<ColumnIndex>();
  return ReadColumnIndex(ctx, *source_, chunk_, offsets_->pages.size(), what_);
}

Result<std::vector<PageSpot>> ChunkPages::Find(const Context& ctx) const {
  if (!offsets_) return Walk(ctx);
  std::vector<PageSpot> spots;
  for (size_t i = 0; i < offsets_->pages.size(); ++i) {
    const PagePlace& place = offsets_->pages[i];
    spots.push_back({.bytes = place.bytes,
                     .first_row = place.first_row,
                     .row_count = offsets_->EndRow(i, row_count_) - place.first_row});
  }
  return spots;
}

Result<std::vector<PageSpot>> ChunkPages::Walk(const Context& ctx) const {
  std::vector<PageSpot> spots;
  HeaderWindow headers(*source_, chunk_.bytes, what_);
  int64_t values = 0;
  for (int64_t at = chunk_.bytes.offset; at < chunk_.bytes.end();) {
    PF_TRY(ctx.CheckStop("looking for pages"));
    PF_ASSIGN(const PageHeader header, headers.At(ctx, at));
    const FileRange bytes{.offset = at, .length = header.header_bytes + header.compressed_bytes};
    if (bytes.end() > chunk_.bytes.end()) {
      return Corrupt(what_, fmt::format("a page passes the end of its chunk at {}", at));
    }
    at = bytes.end();
    if (!header.is_data()) continue;
    PageSpot spot{.bytes = bytes};
    if (column_->max_repetition_level == 0) {
      spot.first_row = values;
      spot.row_count = header.num_values;
    }
    if (offsets_) {
      const size_t page = spots.size();
      if (page == offsets_->pages.size() || offsets_->pages[page].bytes != bytes ||
          (spot.first_row && offsets_->pages[page].first_row != *spot.first_row)) {
        return Corrupt(what_, fmt::format("the offset index is wrong about page {}", page));
      }
      spot.first_row = offsets_->pages[page].first_row;
      spot.row_count = offsets_->EndRow(page, row_count_) - *spot.first_row;
    }
    values += header.num_values;
    spots.push_back(spot);
  }
  if (values != chunk_.num_values) {
    return Corrupt(
        what_, fmt::format("pages hold {} values, the footer says {}", values, chunk_.num_values));
  }
  if (offsets_ && offsets_->pages.size() != spots.size()) {
    return Corrupt(what_, fmt::format("{} pages, the offset index has {}", spots.size(),
                                      offsets_->pages.size()));
  }
  return spots;
}

Status ChunkPages::Charge(const Context& ctx, int64_t bytes, MemoryGrant& grant) const {
  grant.Release();
  auto taken = ctx.memory.TryReserve(bytes);
  if (!taken.ok()) {
    return Status(Code::kExhausted,
                  fmt::format("read pages of {}: no memory for a page of {} bytes", what_, bytes));
  }
  grant = std::move(taken).value();
  return {};
}

Status ChunkPages::Read(const Context& ctx, const PageSpot& spot, DecodedPage& page) {
  if (!compressor_) {
    PF_ASSIGN(compressor_, PageCompressor::Make(chunk_.codec, std::nullopt));
  }
  PF_ASSIGN(const std::string bytes, ReadRange(ctx, *source_, spot.bytes, what_));
  PF_ASSIGN(page.header, ParsePageHeader(AsBytes(bytes), what_));
  const PageHeader& header = page.header;
  if (!header.is_data() || header.header_bytes + header.compressed_bytes != spot.bytes.length) {
    return Corrupt(what_,
                   fmt::format("no page of {} bytes at {}", spot.bytes.length, spot.bytes.offset));
  }
  const Page stored{.header = header,
                    .offset = 0,
                    .body = AsBytes(bytes).subspan(static_cast<size_t>(header.header_bytes))};
  if (header.crc && PageCrc(stored.body) != *header.crc) {
    return Corrupt(what_, fmt::format("checksum of the page at {} is wrong", spot.bytes.offset));
  }
  PF_TRY(Charge(ctx, DecodedBytes(header), page_grant_));
  const auto at_page = [&](Status status) {
    if (status.ok() || status.code() != Code::kCorruption) return status;
    return std::move(status).With(fmt::format("page at {}", spot.bytes.offset));
  };
  PF_TRY(at_page(OpenPage(stored, *column_, *compressor_, what_, opened_)));
  PF_TRY(at_page(DecodeLevels(page)));
  if (spot.row_count && *spot.row_count != page.row_count) {
    return Corrupt(what_, fmt::format("the page at {} holds {} rows, the offset index says {}",
                                      spot.bytes.offset, page.row_count, *spot.row_count));
  }
  page.is_indexed = IsDictionaryEncoding(header.encoding);
  if (page.is_indexed && page.value_count > 0) PF_TRY(LoadDictionary(ctx));
  return at_page(DecodeValues(page));
}

Status ChunkPages::DecodeLevels(DecodedPage& page) {
  const PageHeader& header = page.header;
  const auto decode = [&](std::span<const std::byte> bytes, int max_level,
                          std::vector<uint32_t>& levels) -> Status {
    levels.clear();
    if (max_level == 0) return {};
    const auto max = static_cast<uint32_t>(max_level);
    return DecodeHybrid(bytes, BitWidth(max), header.num_values, max, what_, levels);
  };
  PF_TRY(decode(opened_.repetition_levels, column_->max_repetition_level, page.repetition_levels));
  PF_TRY(decode(opened_.definition_levels, column_->max_definition_level, page.definition_levels));
  page.row_count = header.num_values;
  if (column_->max_repetition_level > 0) {
    page.row_count =
        std::count(page.repetition_levels.begin(), page.repetition_levels.end(), uint32_t{0});
    // A page may be read alone only where it begins with a row.
    const bool must_begin_row = offsets_ || header.type == PageType::kDataV2;
    if (must_begin_row && !page.repetition_levels.empty() && page.repetition_levels[0] != 0) {
      return Corrupt(what_, "a page begins within a row");
    }
  }
  page.value_count = header.num_values;
  if (column_->max_definition_level > 0) {
    page.value_count = std::count(page.definition_levels.begin(), page.definition_levels.end(),
                                  static_cast<uint32_t>(column_->max_definition_level));
  }
  if (header.type != PageType::kDataV2) return {};
  // What counts as a null below a list differs between writers.
  const int64_t nulls = header.num_values - page.value_count;
  const bool has_nulls_right =
      column_->max_repetition_level == 0 ? header.num_nulls == nulls : header.num_nulls <= nulls;
  if (header.num_rows != page.row_count || !has_nulls_right) {
    return Corrupt(what_,
                   fmt::format("a page holds {} rows and {} nulls, its header says {} and {}",
                               page.row_count, nulls, header.num_rows, header.num_nulls));
  }
  return {};
}

// It stands first in the chunk, whatever the metadata says of it.
Status ChunkPages::LoadDictionary(const Context& ctx) {
  if (dictionary_) return {};
  HeaderWindow headers(*source_, chunk_.bytes, what_);
  PF_ASSIGN(const PageHeader header, headers.At(ctx, chunk_.bytes.offset));
  const FileRange body{.offset = chunk_.bytes.offset + header.header_bytes,
                       .length = header.compressed_bytes};
  if (header.type != PageType::kDictionary || body.end() > chunk_.bytes.end()) {
    return Corrupt(what_, "a page of indices without a dictionary");
  }
  constexpr auto kBytesPerEntry = static_cast<int64_t>(sizeof(std::string_view));
  PF_TRY(Charge(ctx,
                header.compressed_bytes + header.uncompressed_bytes +
                    kBytesPerEntry * std::min(header.num_values, header.uncompressed_bytes),
                dictionary_grant_));
  PF_ASSIGN(const std::string bytes, ReadRange(ctx, *source_, body, what_));
  if (header.crc && PageCrc(AsBytes(bytes)) != *header.crc) {
    return Corrupt(what_, "checksum of the dictionary is wrong");
  }
  PF_ASSIGN(dictionary_, ParseDictionary({.header = header, .offset = 0, .body = AsBytes(bytes)},
                                         *column_, *compressor_, what_));
  return {};
}

Status ChunkPages::DecodeValues(DecodedPage& page) {
  page.indices.clear();
  page.plain.clear();
  if (page.value_count == 0) return {};
  if (!page.is_indexed) {
    PF_ASSIGN(page.plain, ToPlain(*column_, page.header.encoding, opened_.values, page.value_count,
                                  *memory_, what_));
    return {};
  }
  const size_t entries = dictionary_->entries.size();
  if (opened_.values.empty() || entries == 0) {
    return Corrupt(what_, "indices without a dictionary or width");
  }
  return DecodeHybrid(opened_.values.subspan(1), static_cast<int>(opened_.values[0]),
                      page.value_count, static_cast<uint32_t>(entries - 1), what_, page.indices);
}

std::string_view PageValues::Next() {
  const size_t value = at_++;
  PF_DCHECK(value < static_cast<size_t>(page_.value_count), "a page has no such value");
  if (page_.is_indexed) return dictionary_->Bare(column_, page_.indices[value]);
  if (column_.type == ParquetType::kBoolean) {
    const auto bits = static_cast<uint8_t>(page_.plain[value / 8]);
    return ((bits >> (value % 8)) & 1) != 0 ? std::string_view("\1", 1) : std::string_view("\0", 1);
  }
  auto size = static_cast<uint32_t>(column_.value_bytes());
  if (column_.type == ParquetType::kByteArray) {
    std::memcpy(&size, page_.plain.data() + begin_, sizeof size);
    begin_ += sizeof size;
  }
  const std::string_view bytes = std::string_view(page_.plain).substr(begin_, size);
  begin_ += size;
  return bytes;
}

}  // namespace partforge::data
