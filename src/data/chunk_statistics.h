#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/page_index.h"
#include "data/parquet_metrics.h"
#include "data/parquet_schema.h"
#include "data/thrift_compact.h"

namespace partforge::data {

// Statistics of a column chunk that is made of other chunks, by the encoded statistics of those.
// What one of them does not say the result does not say. One thread at a time.
class ChunkStatistics {
 public:
  explicit ChunkStatistics(const LeafColumn& column) : column_(column) {}

  // `metadata` is the ColumnMetaData of a chunk, `order` that of its file. `removed` values (nulls
  // among them: `removed_nulls`, unknown if none) were left out; bounds are then true but not
  // exact.
  struct Removed {
    int64_t values = 0;
    std::optional<int64_t> nulls = 0;
  };
  void Add(const ThriftValue& metadata, BoundOrder order, const Removed& removed);

  // Statistics and SizeStatistics of parquet.thrift; none when nothing is known.
  std::optional<ThriftValue> Statistics() const;
  const std::optional<ThriftValue>& SizeStatistics() const { return sizes_; }

 private:
  struct Side {
    std::optional<std::string> bytes;
    // What the chunk said of exactness; absent where it said nothing.
    std::optional<bool> is_exact;
  };
  void Widen(Side& into, const Side& other, bool is_lower);

  const LeafColumn& column_;
  bool is_first_ = true;
  bool bounds_are_known_ = true;  // of all chunks with a value
  Side lower_, upper_;
  std::optional<int64_t> null_count_ = 0;
  std::optional<ThriftValue> sizes_;
};

// One page of a chunk that is being put together.
struct PageEntry {
  int64_t offset = 0;  // from the chunk's first byte
  int64_t stored_bytes = 0;
  std::optional<int64_t> first_row;   // in the new row group; none: not known
  std::optional<int64_t> text_bytes;  // unencoded byte array bytes, where known
  // Bounds and counts; none: not known.
  bool has_bounds = false;
  bool is_null_page = false;
  std::string min, max;
  std::optional<int64_t> null_count;
  std::optional<std::vector<int64_t>> repetition_levels, definition_levels;  // histograms
};
// Indexes of the pages, as far as every page knows enough. Offsets count from the chunk's start.
std::optional<ThriftValue> MakeOffsetIndex(const std::vector<PageEntry>& pages);
std::string MakeColumnIndex(const LeafColumn& column, const std::vector<PageEntry>& pages);

}  // namespace partforge::data
