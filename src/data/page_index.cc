#include "data/page_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/hash.h"

namespace partforge::data {
namespace {

using namespace parquet_field;  // NOLINT: names of parquet.thrift

Status Corrupt(std::string_view what, std::string found) {
  return Status(Code::kCorruption, fmt::format("read page index of {}: {}", what, found));
}

}  // namespace

Result<std::optional<OffsetIndex>> ReadOffsetIndex(const Context& ctx, ByteSource& source,
                                                   const ChunkView& chunk, int64_t row_count,
                                                   std::string_view what) {
  if (chunk.offset_index.length == 0) return std::optional<OffsetIndex>();
  PF_ASSIGN(const std::string bytes, ReadRange(ctx, source, chunk.offset_index, what));
  PF_ASSIGN(ChargedThrift parsed, ParseThriftWithin(ctx.memory, AsBytes(bytes),
                                                    fmt::format("offset index of {} at {}", what,
                                                                chunk.offset_index.offset)));
  OffsetIndex index{.tree = std::move(parsed.value),
                    .charge = std::make_shared<const MemoryGrant>(std::move(parsed.grant)),
                    .pages = {}};
  PF_ASSIGN(const auto* places,
            RequireList(index.tree, offset_index::kPageLocations, ThriftType::kStruct, what));
  int64_t position = chunk.bytes.offset;
  int64_t row = -1;
  for (const ThriftValue& place : *places) {
    PagePlace page;
    PF_ASSIGN(page.bytes.offset, RequireInt(place, page_location::kOffset, what));
    PF_ASSIGN(page.bytes.length, RequireInt(place, page_location::kCompressedPageSize, what));
    PF_ASSIGN(page.first_row, RequireInt(place, page_location::kFirstRowIndex, what));
    if (page.bytes.offset < position || page.bytes.length <= 0 ||
        page.bytes.length > chunk.bytes.end() - page.bytes.offset) {
      return Corrupt(what, fmt::format("a page lies outside its chunk at {}", page.bytes.offset));
    }
    // Pages without a row are legal: the next one begins at the same row.
    if (page.first_row < row || page.first_row > row_count || (row < 0 && page.first_row != 0)) {
      return Corrupt(what, fmt::format("rows of pages do not ascend: {}", page.first_row));
    }
    position = page.bytes.end();
    row = page.first_row;
    index.pages.push_back(page);
  }
  if (index.pages.empty() && row_count > 0) return Corrupt(what, "no page");
  return std::optional(std::move(index));
}

namespace {

Result<std::vector<int64_t>> IntList(const ThriftValue& list, std::string_view what) {
  if (list.type() != ThriftType::kList) return Corrupt(what, "a count is no list");
  std::vector<int64_t> values;
  values.reserve(list.items().size());
  for (const ThriftValue& item : list.items()) {
    if (item.type() != ThriftType::kI64) return Corrupt(what, "a count is no integer");
    values.push_back(item.AsInt());
  }
  return values;
}

ThriftValue ToList(const std::vector<int64_t>& values) {
  std::vector<ThriftValue> items;
  items.reserve(values.size());
  for (const int64_t value : values) items.push_back(ThriftValue::I64(value));
  return ThriftValue::List(ThriftType::kI64, std::move(items));
}

ThriftValue ToList(const std::vector<std::string>& values) {
  std::vector<ThriftValue> items;
  items.reserve(values.size());
  for (const std::string& value : values) items.push_back(ThriftValue::Binary(value));
  return ThriftValue::List(ThriftType::kBinary, std::move(items));
}

}  // namespace

namespace {

Result<ColumnIndex> ColumnIndexOf(const ThriftValue& tree, std::string_view what) {
  ColumnIndex index;
  PF_ASSIGN(const auto* null_pages,
            RequireList(tree, column_index::kNullPages, ThriftType::kBool, what));
  for (const ThriftValue& page : *null_pages) index.null_pages.push_back(page.AsBool());
  PF_ASSIGN(const auto* mins,
            RequireList(tree, column_index::kMinValues, ThriftType::kBinary, what));
  for (const ThriftValue& value : *mins) index.min_values.push_back(value.AsBinary());
  PF_ASSIGN(const auto* maxs,
            RequireList(tree, column_index::kMaxValues, ThriftType::kBinary, what));
  for (const ThriftValue& value : *maxs) index.max_values.push_back(value.AsBinary());
  PF_ASSIGN(index.boundary_order, IntOr(tree, column_index::kBoundaryOrder, 0, what));
  const size_t pages = index.null_pages.size();
  if (index.min_values.size() != pages || index.max_values.size() != pages) {
    return Corrupt(what, fmt::format("{} pages have {} minima", pages, index.min_values.size()));
  }
  if (const ThriftValue* counts = tree.Find(column_index::kNullCounts); counts != nullptr) {
    PF_ASSIGN(index.null_counts, IntList(*counts, what));
    if (index.null_counts->size() != pages) {
      return Corrupt(what,
                     fmt::format("{} pages have {} null counts", pages, index.null_counts->size()));
    }
  }
  if (const ThriftValue* levels = tree.Find(column_index::kRepetitionHistograms)) {
    PF_ASSIGN(index.repetition_histograms, IntList(*levels, what));
  }
  if (const ThriftValue* levels = tree.Find(column_index::kDefinitionHistograms)) {
    PF_ASSIGN(index.definition_histograms, IntList(*levels, what));
  }
  return index;
}

}  // namespace

Result<ColumnIndex> ParseColumnIndex(std::string_view bytes, std::string_view what) {
  PF_ASSIGN(const ThriftParsed parsed, ParseThriftStruct(AsBytes(bytes), what));
  return ColumnIndexOf(parsed.value, what);
}

std::string EncodeColumnIndex(const ColumnIndex& index) {
  ThriftValue tree = ThriftValue::Struct();
  std::vector<ThriftValue> null_pages;
  for (const bool is_null : index.null_pages) null_pages.push_back(ThriftValue::Bool(is_null));
  tree.Set(column_index::kNullPages, ThriftValue::List(ThriftType::kBool, std::move(null_pages)));
  tree.Set(column_index::kMinValues, ToList(index.min_values));
  tree.Set(column_index::kMaxValues, ToList(index.max_values));
  tree.Set(column_index::kBoundaryOrder,
           ThriftValue::I32(static_cast<int32_t>(index.boundary_order)));
  if (index.null_counts) tree.Set(column_index::kNullCounts, ToList(*index.null_counts));
  if (index.repetition_histograms) {
    tree.Set(column_index::kRepetitionHistograms, ToList(*index.repetition_histograms));
  }
  if (index.definition_histograms) {
    tree.Set(column_index::kDefinitionHistograms, ToList(*index.definition_histograms));
  }
  return EncodeThriftStruct(tree);
}

Result<std::optional<ColumnIndex>> ReadColumnIndex(const Context& ctx, ByteSource& source,
                                                   const ChunkView& chunk, size_t page_count,
                                                   std::string_view what, std::string* bytes_out) {
  if (chunk.column_index.length == 0) return std::optional<ColumnIndex>();
  PF_ASSIGN(std::string bytes, ReadRange(ctx, source, chunk.column_index, what));
  PF_ASSIGN(ChargedThrift parsed, ParseThriftWithin(ctx.memory, AsBytes(bytes),
                                                    fmt::format("column index of {} at {}", what,
                                                                chunk.column_index.offset)));
  // What comes of the tree takes less.
  PF_ASSIGN(ColumnIndex index, ColumnIndexOf(parsed.value, what));
  index.charge = std::make_shared<const MemoryGrant>(std::move(parsed.grant));
  if (index.null_pages.size() != page_count) {
    return Corrupt(what, fmt::format("{} pages have {} entries in the column index", page_count,
                                     index.null_pages.size()));
  }
  if (index.null_counts &&
      std::any_of(index.null_counts->begin(), index.null_counts->end(),
                  [&](int64_t count) { return count < 0 || count > chunk.num_values; })) {
    return Corrupt(what, fmt::format("a page with more nulls than {} values, or less than none",
                                     chunk.num_values));
  }
  if (bytes_out != nullptr) *bytes_out = std::move(bytes);
  return std::optional(std::move(index));
}

void SetBoundaryOrder(ColumnIndex& index, const LeafColumn& column) {
  index.boundary_order = 0;
  bool ascends = true, descends = true;
  std::optional<Scalar> last_min, last_max;
  for (size_t i = 0; i < index.null_pages.size(); ++i) {
    if (index.null_pages[i]) continue;
    auto min = ScalarOfPlain(column, index.min_values[i]);
    auto max = ScalarOfPlain(column, index.max_values[i]);
    if (!min || !max) return;
    if (last_min) {
      ascends = ascends && *last_min <= *min && *last_max <= *max;
      descends = descends && *last_min >= *min && *last_max >= *max;
    }
    last_min = std::move(min);
    last_max = std::move(max);
  }
  index.boundary_order = ascends ? 1 : descends ? 2 : 0;
}

namespace {

// BloomFilterHeader of parquet.thrift; algorithm, hash and compression are unions of empty structs.
namespace bloom_header {
constexpr int16_t kBitsetBytes = 1, kAlgorithm = 2, kHash = 3, kCompression = 4;
constexpr int16_t kBlock = 1, kXxHash = 1, kUncompressed = 1;
}  // namespace bloom_header

constexpr size_t kBlockBytes = 32, kWords = 8;
constexpr std::array<uint32_t, kWords> kSalt = {0x47b6137bU, 0x44974d91U, 0x8824ad5bU, 0xa2b7289dU,
                                                0x705495c7U, 0x2df1424bU, 0x9efc4947U, 0x5c6bfb31U};
// Longest header: four small fields.
constexpr int64_t kBloomHeaderBytesMax = 256;

bool IsUnion(const ThriftValue& header, int16_t id, int16_t member) {
  const ThriftValue* value = header.Find(id);
  return value != nullptr && value->Find(member) != nullptr;
}

size_t BlockOf(const BloomFilter& filter, uint64_t hash) {
  const uint64_t blocks = filter.bits.size() / kBlockBytes;
  return static_cast<size_t>(((hash >> 32) * blocks) >> 32) * kBlockBytes;
}

uint32_t MaskOf(uint64_t hash, size_t word) {
  return uint32_t{1} << ((static_cast<uint32_t>(hash) * kSalt[word]) >> 27);
}

}  // namespace

Result<std::optional<BloomFilter>> ReadBloomFilter(const Context& ctx, ByteSource& source,
                                                   const ChunkView& chunk, std::string_view what) {
  const FileRange place = chunk.bloom_filter;
  if (place.offset <= 0) return std::optional<BloomFilter>();
  const int64_t there = source.size_bytes() - place.offset;
  const int64_t guess = std::min(
      {place.length > 0 ? place.length : kBloomHeaderBytesMax, kBloomHeaderBytesMax, there});
  PF_ASSIGN(const std::string head,
            ReadRange(ctx, source, {.offset = place.offset, .length = guess}, what));
  PF_ASSIGN(const ThriftParsed parsed, ParseThriftStruct(std::as_bytes(std::span(head)), what));
  PF_ASSIGN(const int64_t bytes, RequireInt(parsed.value, bloom_header::kBitsetBytes, what));
  if (!IsUnion(parsed.value, bloom_header::kAlgorithm, bloom_header::kBlock) ||
      !IsUnion(parsed.value, bloom_header::kHash, bloom_header::kXxHash) ||
      !IsUnion(parsed.value, bloom_header::kCompression, bloom_header::kUncompressed)) {
    return std::optional<BloomFilter>();
  }
  const auto header_bytes = static_cast<int64_t>(parsed.size_bytes);
  if (bytes <= 0 || bytes % static_cast<int64_t>(kBlockBytes) != 0 ||
      bytes > kBloomFilterBytesMax || bytes > there - header_bytes ||
      (place.length > 0 && place.length != header_bytes + bytes)) {
    return Corrupt(what, fmt::format("a bloom filter of {} bytes", bytes));
  }
  BloomFilter filter{.header = head.substr(0, parsed.size_bytes), .bits = {}};
  PF_ASSIGN(filter.bits,
            ReadRange(ctx, source, {.offset = place.offset + header_bytes, .length = bytes}, what));
  return std::optional(std::move(filter));
}

BloomFilter MakeBloomFilter(int64_t distinct_count, double false_positive_rate) {
  // BloomFilter.md: bits = -8 · n / ln(1 - fpp^(1/8)), rounded up to a power of two of bytes.
  const double count = static_cast<double>(std::max<int64_t>(distinct_count, 1));
  const double bits = -8.0 * count / std::log(1.0 - std::pow(false_positive_rate, 1.0 / 8.0));
  const auto wanted = static_cast<uint64_t>(
      std::clamp(bits / 8.0, double{kBlockBytes}, static_cast<double>(kBloomFilterBytesMax)));
  const uint64_t bytes =
      std::min(std::bit_ceil(wanted), static_cast<uint64_t>(kBloomFilterBytesMax));
  const auto chosen = [](int16_t member) {
    ThriftValue value = ThriftValue::Struct();
    value.Set(member, ThriftValue::Struct());
    return value;
  };
  ThriftValue header = ThriftValue::Struct();
  header.Set(bloom_header::kBitsetBytes, ThriftValue::I32(static_cast<int32_t>(bytes)));
  header.Set(bloom_header::kAlgorithm, chosen(bloom_header::kBlock));
  header.Set(bloom_header::kHash, chosen(bloom_header::kXxHash));
  header.Set(bloom_header::kCompression, chosen(bloom_header::kUncompressed));
  return {.header = EncodeThriftStruct(header), .bits = std::string(bytes, '\0')};
}

void AddToBloomFilter(BloomFilter& filter, std::string_view plain) {
  const uint64_t hash = XxHash64(AsBytes(plain));
  char* block = filter.bits.data() + BlockOf(filter, hash);
  for (size_t i = 0; i < kWords; ++i) {
    uint32_t word = 0;
    std::memcpy(&word, block + i * sizeof word, sizeof word);
    word |= MaskOf(hash, i);
    std::memcpy(block + i * sizeof word, &word, sizeof word);
  }
}

bool MayContain(const BloomFilter& filter, std::string_view plain) {
  const uint64_t hash = XxHash64(AsBytes(plain));
  const char* block = filter.bits.data() + BlockOf(filter, hash);
  for (size_t i = 0; i < kWords; ++i) {
    uint32_t word = 0;
    std::memcpy(&word, block + i * sizeof word, sizeof word);
    if ((word & MaskOf(hash, i)) == 0) return false;
  }
  return true;
}

double FalsePositiveRate(const BloomFilter& filter) {
  uint64_t set = 0;
  for (const char byte : filter.bits) {
    set += static_cast<uint64_t>(std::popcount(static_cast<uint8_t>(byte)));
  }
  const double share = static_cast<double>(set) / (8.0 * static_cast<double>(filter.bits.size()));
  return std::pow(share, static_cast<double>(kWords));
}

}  // namespace partforge::data
