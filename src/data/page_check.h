#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/context.h"
#include "data/chunk_pages.h"
#include "data/parquet_metrics.h"
#include "data/thrift_compact.h"

namespace partforge::data {

// What a file says of a column chunk, compared with its pages: wrong bounds and counts make readers
// leave out rows that they were asked for.

// The statements about one chunk. Immutable.
class ChunkClaims {
 public:
  // Reads the page index. `tree` is the ColumnChunk, `order` that of its file's bounds. kCorruption
  // when the statements contradict each other.
  static Result<ChunkClaims> Read(const Context& ctx, const ChunkPages& pages,
                                  const ThriftValue& tree, BoundOrder order);

  // kCorruption for a value outside of the bounds of its page or chunk, and for another number of
  // nulls than the page index says. `number` counts data pages.
  Status Check(const ChunkPages& pages, size_t number, const DecodedPage& page) const;
  // The same of all pages together.
  Status CheckNulls(const ChunkPages& pages, int64_t nulls) const;

 private:
  struct Bounds {
    std::optional<Scalar> lower, upper;
  };
  Bounds BoundsOfPage(const LeafColumn& column, size_t number) const;

  Bounds chunk_;
  std::optional<int64_t> null_count_;  // where nulls can be counted by levels
  std::optional<ColumnIndex> index_;
  bool page_bounds_hold_ = false;
};

// The least and the greatest value of a page as PLAIN bytes, as the format orders the column's type
// and without NaN; none where there is no such value, or no order that we know.
struct ValueRange {
  std::string_view min, max;
};
std::optional<ValueRange> RangeOfPage(const LeafColumn& column, const DecodedPage& page,
                                      const DictionaryValues* dictionary);

// kCorruption for a chunk whose metadata counts what cannot be: more nulls than values.
Status CheckCounts(const ThriftValue& tree, const LeafColumn& column, std::string_view what);

}  // namespace partforge::data
