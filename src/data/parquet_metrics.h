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

// Metrics of a file or of chosen row groups, out of the footer alone (counts and bounds as the
// writer left them) and the NaN counts given (may be null). Requires a footer that CheckFooter
// accepted. Bounds are left out where their order is not the one the format defines, and absent in
// one row group means absent in the result.
Result<FileMetrics> MetricsOfFooter(const ThriftValue& tree, std::span<const int> row_groups,
                                    const NanCounts* nan_counts, std::string_view file_name);

// The same of one column chunk. `has_type_order`: what HasTypeOrder says of the column in
// the footer.
Result<ColumnMetrics> MetricsOfChunk(const LeafColumn& column, const ThriftValue& chunk,
                                     bool has_type_order, std::string_view file_name);

}  // namespace partforge::data
