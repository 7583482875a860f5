#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/context.h"
#include "data/parquet_footer.h"
#include "data/parquet_schema.h"
#include "data/thrift_compact.h"
#include "store/object_store.h"

namespace partforge::data {

// Page indexes and bloom filters of column chunks (Parquet format, PageIndex.md, BloomFilter.md).

// Where one data page lies.
struct PagePlace {
  FileRange bytes;        // with its header
  int64_t first_row = 0;  // in the row group
};

struct OffsetIndex {
  ThriftValue tree = ThriftValue::Struct();
  std::shared_ptr<const MemoryGrant> charge;  // what it takes of the budget
  std::vector<PagePlace> pages;               // in order of rows; the first begins at row 0
  // Last row of page i, exclusive.
  int64_t EndRow(size_t page, int64_t row_count) const {
    return page + 1 < pages.size() ? pages[page + 1].first_row : row_count;
  }
};

// Reads and checks it: pages lie in the chunk, in order and without overlap, rows ascend from 0 and
// do not pass `row_count`; a page may have none. kCorruption otherwise; none when the chunk has no
// index.
Result<std::optional<OffsetIndex>> ReadOffsetIndex(const Context& ctx, ByteSource& source,
                                                   const ChunkView& chunk, int64_t row_count,
                                                   std::string_view what);

struct ColumnIndex {
  std::vector<bool> null_pages;
  std::vector<std::string> min_values, max_values;  // may be cut; empty for null pages
  int64_t boundary_order = 0;                       // 0 unordered, 1 ascending, 2 descending
  std::optional<std::vector<int64_t>> null_counts;
  // Levels counted, page after page; absent where the writer left them out.
  std::optional<std::vector<int64_t>> repetition_histograms, definition_histograms;
  std::shared_ptr<const MemoryGrant> charge;  // what it takes of the budget; null when made here
};

Result<ColumnIndex> ParseColumnIndex(std::string_view bytes, std::string_view what);
std::string EncodeColumnIndex(const ColumnIndex& index);
// None when the chunk has none; kCorruption when it has not `page_count` pages. `bytes_out` gets
// the bytes it was read from, if any.
Result<std::optional<ColumnIndex>> ReadColumnIndex(const Context& ctx, ByteSource& source,
                                                   const ChunkView& chunk, size_t page_count,
                                                   std::string_view what,
                                                   std::string* bytes_out = nullptr);
// Sets boundary_order from the values (PageIndex.md): null pages are skipped. Unordered for columns
// whose order we do not know.
void SetBoundaryOrder(ColumnIndex& index, const LeafColumn& column);

// A split-block bloom filter with its header.
struct BloomFilter {
  std::string header;  // Thrift bytes
  std::string bits;    // multiple of 32 bytes
};
inline constexpr int64_t kBloomFilterBytesMax = int64_t{128} << 20;

// None when the chunk has none or one of an algorithm we do not know. Old writers left the length
// out of the footer: it is taken from the filter's own header.
Result<std::optional<BloomFilter>> ReadBloomFilter(const Context& ctx, ByteSource& source,
                                                   const ChunkView& chunk, std::string_view what);
// An empty filter for that many distinct values at that false positive rate.
BloomFilter MakeBloomFilter(int64_t distinct_count, double false_positive_rate);
// `plain` is a value's PLAIN encoding without the length of a byte array.
void AddToBloomFilter(BloomFilter& filter, std::string_view plain);
bool MayContain(const BloomFilter& filter, std::string_view plain);
// The probability that a value that was never added is found, from the share of set bits.
double FalsePositiveRate(const BloomFilter& filter);

}  // namespace partforge::data
