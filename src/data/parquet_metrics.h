#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "data/column_metrics.h"
#include "data/parquet_footer.h"
#include "data/parquet_schema.h"

namespace partforge::data {

// NaNs by row group and column, where somebody counted them.
using NanCounts = std::vector<std::vector<std::optional<int64_t>>>;

// What a footer says of the order behind the minima and maxima of a column (ColumnOrder of
// parquet.thrift).
enum class BoundOrder : uint8_t { kOfType, kUnsaid, kOther };
// `tree` is a footer.
BoundOrder BoundOrderOf(const ThriftValue& tree, int leaf);
// Whether min_value and max_value, and with them the column index, are ordered as the column's type
// is: for signed numbers also where nothing was said.
bool BoundsHold(const LeafColumn& column, BoundOrder order);
// Whether the deprecated fields min and max are: they were compared as signed.
bool DeprecatedBoundsHold(const LeafColumn& column);

// Metrics of a file or of chosen row groups, out of the footer alone (counts and bounds as the
// writer left them) and the NaN counts given (may be null). Requires a footer that CheckFooter
// accepted. Bounds are left out where their order is not the one the format defines, and absent in
// one row group means absent in the result.
Result<FileMetrics> MetricsOfFooter(const ThriftValue& tree, std::span<const int> row_groups,
                                    const NanCounts* nan_counts, std::string_view file_name);

// The same of one column chunk.
Result<ColumnMetrics> MetricsOfChunk(const LeafColumn& column, const ThriftValue& chunk,
                                     BoundOrder order, std::string_view file_name);

}  // namespace partforge::data
