#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/context.h"
#include "data/arrow_edge.h"
#include "data/page_codec.h"
#include "data/page_index.h"
#include "data/page_values.h"
#include "data/parquet_footer.h"
#include "data/parquet_schema.h"
#include "store/object_store.h"

namespace partforge::data {

// Single pages of a column chunk, found and decoded without the rest of it and without the library
// that decodes files: for checks of what was written.

// A data page in its file.
struct PageSpot {
  FileRange bytes;                                  // with its header
  std::optional<int64_t> first_row = std::nullopt;  // in the row group; none: not known
  std::optional<int64_t> row_count = std::nullopt;
};

// Levels and values of one data page.
struct DecodedPage {
  PageHeader header;
  std::vector<uint32_t> repetition_levels, definition_levels;  // empty where the maximum is 0
  int64_t row_count = 0;
  int64_t value_count = 0;  // without nulls
  std::string plain;        // values in PLAIN encoding, or else
  std::vector<uint32_t> indices;
  bool is_indexed = false;
};

// The data pages of one chunk. One thread at a time.
class ChunkPages {
 public:
  // Reads the offset index, if there is one. All that is referred to outlives the object; `what`
  // is for messages.
  static Result<ChunkPages> Open(const Context& ctx, ByteSource& source, const ChunkView& chunk,
                                 const LeafColumn& column, int64_t row_count, std::string what,
                                 ArrowMemory& memory);

  const ChunkView& chunk() const { return chunk_; }
  const LeafColumn& column() const { return *column_; }
  int64_t row_count() const { return row_count_; }
  const std::string& what() const { return what_; }
  const std::optional<OffsetIndex>& offsets() const { return offsets_; }
  // Of as many pages as the offset index has; none without one.
  Result<std::optional<ColumnIndex>> ReadIndex(const Context& ctx) const;

  // All data pages, by the offset index where there is one, else by their headers.
  Result<std::vector<PageSpot>> Find(const Context& ctx) const;
  // The same by their headers in any case: kCorruption unless pages fill the chunk, their values
  // add up to what the footer says, and the offset index names exactly these.
  Result<std::vector<PageSpot>> Walk(const Context& ctx) const;

  // Decodes a page, whose memory is used again. kCorruption when a checksum is wrong, a level or an
  // index is too large, values end too early, or header and page differ in a count; kRefused for
  // what only the library reads (levels in the deprecated encoding, pages above the limits of
  // page_codec.h); kExhausted when it does not fit the memory budget.
  Status Read(const Context& ctx, const PageSpot& spot, DecodedPage& page);
  // Entries that the indices of decoded pages mean; null before the first page with indices.
  const DictionaryValues* dictionary() const { return dictionary_ ? &*dictionary_ : nullptr; }

 private:
  ChunkPages(ByteSource& source, const ChunkView& chunk, const LeafColumn& column,
             int64_t row_count, std::string what, ArrowMemory& memory)
      : source_(&source),
        chunk_(chunk),
        column_(&column),
        row_count_(row_count),
        what_(std::move(what)),
        memory_(&memory) {}
  Status LoadDictionary(const Context& ctx);
  Status DecodeLevels(DecodedPage& page);
  Status DecodeValues(DecodedPage& page);
  Status Charge(const Context& ctx, int64_t bytes, MemoryGrant& grant) const;

  ByteSource* source_;
  ChunkView chunk_;
  const LeafColumn* column_;
  int64_t row_count_;
  std::string what_;
  ArrowMemory* memory_;
  std::optional<OffsetIndex> offsets_;
  std::optional<PageCompressor> compressor_;
  std::optional<DictionaryValues> dictionary_;
  MemoryGrant dictionary_grant_, page_grant_;
  OpenedPage opened_;
};

// The values of a decoded page one by one: PLAIN bytes without the length of byte arrays, booleans
// as one byte. There must be a next one. Views hold as long as page and dictionary do.
class PageValues {
 public:
  PageValues(const LeafColumn& column, const DecodedPage& page, const DictionaryValues* dictionary)
      : column_(column), page_(page), dictionary_(dictionary) {}
  std::string_view Next();

 private:
  const LeafColumn& column_;
  const DecodedPage& page_;
  const DictionaryValues* dictionary_;
  size_t at_ = 0;     // of the value
  size_t begin_ = 0;  // of its bytes
};

}  // namespace partforge::data
