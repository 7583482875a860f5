#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/context.h"
#include "data/bitmap.h"
#include "data/column_range.h"
#include "data/parquet_footer.h"
#include "data/parquet_schema.h"
#include "data/range_match.h"
#include "data/schema_mapping.h"
#include "store/object_store.h"

namespace partforge::data {

// Says, out of statistics alone, which rows of a Parquet file cannot be in all the ranges. When in
// doubt rows are kept. Immutable.
class ParquetPruner {
 public:
  // `mapping` tells which column of the file stands for which wanted one; null: the file's own
  // columns. Ranges over columns that the file lacks, that are nested or were converted are left
  // out. The footer must outlive the pruner.
  static Result<ParquetPruner> Make(const ParquetFooter& footer, const SchemaMapping* mapping,
                                    const std::vector<ColumnRange>& ranges,
                                    std::string_view file_name);

  bool has_ranges() const { return !bound_.empty(); }
  // By chunk statistics, then by bloom filters for equality.
  Result<bool> MayMatch(const Context& ctx, ByteSource& source, int row_group) const;
  // Runs of rows within the row group, by the page index; one run of all rows where there is none.
  Result<std::vector<RowRun>> RowsToRead(const Context& ctx, ByteSource& source,
                                         int row_group) const;

 private:
  // A range whose column is in the file.
  struct BoundRange {
    ColumnRange range;
    int leaf = 0;
  };
  bool MayMatch(const BoundRange& bound, const KnownValues& known) const;
  Result<bool> BloomMayMatch(const Context& ctx, ByteSource& source, int row_group,
                             const BoundRange& bound) const;

  const ParquetFooter* footer_ = nullptr;
  std::string file_name_;
  std::vector<LeafColumn> columns_;
  std::vector<BoundRange> bound_;
};

// Runs that are in both lists; both ascending and disjoint, and so is the result.
std::vector<RowRun> IntersectRuns(const std::vector<RowRun>& a, const std::vector<RowRun>& b);

}  // namespace partforge::data
