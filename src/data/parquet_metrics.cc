#include "data/parquet_metrics.h"

#include <fmt/format.h>

namespace partforge::data {
namespace {

using namespace parquet_field;  // NOLINT: names of parquet.thrift

std::optional<Bound> BoundOf(const LeafColumn& column, const ThriftValue& statistics,
                             BoundOrder order, int16_t value_id, int16_t exact_id,
                             int16_t deprecated_id) {
  auto bytes = BoundsHold(column, order) ? BytesField(statistics, value_id) : std::nullopt;
  // Writers that cut long values did so long before they could say it.
  const bool may_be_cut =
      column.type == ParquetType::kByteArray || column.type == ParquetType::kFixed;
  const bool is_exact = BoolField(statistics, exact_id).value_or(!may_be_cut);
  if (!bytes && DeprecatedBoundsHold(column)) bytes = BytesField(statistics, deprecated_id);
  if (!bytes) return std::nullopt;
  auto value = ScalarOfPlain(column, *bytes);
  if (!value) return std::nullopt;
  return Bound{.value = std::move(*value), .is_exact = is_exact};
}

ColumnMetrics EmptyMetrics(const LeafColumn& column) {
  ColumnMetrics metrics;
  metrics.field_id = column.field_id;
  metrics.path = column.dotted_path;
  metrics.is_repeated = column.max_repetition_level > 0;
  return metrics;
}

}  // namespace

bool DeprecatedBoundsHold(const LeafColumn& column) {
  if (column.is_unsigned) return false;
  switch (column.type) {
    case ParquetType::kBoolean:
    case ParquetType::kInt32:
    case ParquetType::kInt64:
    case ParquetType::kFloat:
    case ParquetType::kDouble:
      return true;
    default:
      return false;
  }
}

BoundOrder BoundOrderOf(const ThriftValue& tree, int leaf) {
  constexpr int16_t kTypeOrder = 1;  // of the union ColumnOrder
  const ThriftValue* const orders = tree.Find(file_metadata::kColumnOrders);
  if (orders == nullptr || orders->type() != ThriftType::kList) return BoundOrder::kUnsaid;
  const auto at = static_cast<size_t>(leaf);
  if (at >= orders->items().size()) return BoundOrder::kUnsaid;
  return orders->items()[at].Find(kTypeOrder) != nullptr ? BoundOrder::kOfType : BoundOrder::kOther;
}

bool BoundsHold(const LeafColumn& column, BoundOrder order) {
  return order == BoundOrder::kOfType ||
         (order == BoundOrder::kUnsaid && DeprecatedBoundsHold(column));
}

Result<ColumnMetrics> MetricsOfChunk(const LeafColumn& column, const ThriftValue& chunk,
                                     BoundOrder order, std::string_view file_name) {
  PF_ASSIGN(const ChunkView view, ViewChunk(chunk, file_name));
  ColumnMetrics metrics = EmptyMetrics(column);
  metrics.compressed_bytes = view.bytes.length;
  metrics.value_count = view.num_values;
  const ThriftValue* statistics =
      chunk.Find(column_chunk::kMetaData)->Find(column_metadata::kStatistics);
  if (statistics == nullptr || statistics->type() != ThriftType::kStruct) {
    if (column.max_definition_level == 0) metrics.null_count = 0;
    return metrics;
  }
  PF_ASSIGN(const int64_t nulls, IntOr(*statistics, statistics::kNullCount,
                                       column.max_definition_level == 0 ? 0 : -1, file_name));
  if (nulls >= 0 && nulls <= view.num_values) metrics.null_count = nulls;
  if (metrics.is_repeated) return metrics;
  metrics.lower = CleanLower(BoundOf(column, *statistics, order, statistics::kMinValue,
                                     statistics::kIsMinValueExact, statistics::kMin));
  metrics.upper = CleanUpper(BoundOf(column, *statistics, order, statistics::kMaxValue,
                                     statistics::kIsMaxValueExact, statistics::kMax));
  return metrics;
}

Result<FileMetrics> MetricsOfFooter(const ThriftValue& tree, std::span<const int> row_groups,
                                    const NanCounts* nan_counts, std::string_view file_name) {
  PF_ASSIGN(const auto* schema,
            RequireList(tree, file_metadata::kSchema, ThriftType::kStruct, file_name));
  PF_ASSIGN(const std::vector<LeafColumn> columns, LeafColumns(*schema, file_name));
  PF_ASSIGN(const auto* groups,
            RequireList(tree, file_metadata::kRowGroups, ThriftType::kStruct, file_name));
  std::vector<int> chosen(row_groups.begin(), row_groups.end());
  if (chosen.empty()) {
    for (size_t i = 0; i < groups->size(); ++i) chosen.push_back(static_cast<int>(i));
  }
  FileMetrics total;
  for (size_t n = 0; n < chosen.size(); ++n) {
    const ThriftValue& group = (*groups)[static_cast<size_t>(chosen[n])];
    PF_ASSIGN(const auto* chunks,
              RequireList(group, row_group::kColumns, ThriftType::kStruct, file_name));
    FileMetrics one;
    PF_ASSIGN(one.row_count, RequireInt(group, row_group::kNumRows, file_name));
    for (size_t i = 0; i < columns.size(); ++i) {
      PF_ASSIGN(auto metrics, MetricsOfChunk(columns[i], (*chunks)[i],
                                             BoundOrderOf(tree, static_cast<int>(i)), file_name));
      if (nan_counts != nullptr) {
        metrics.nan_count = (*nan_counts)[static_cast<size_t>(chosen[n])][i];
      }
      one.columns.push_back(std::move(metrics));
    }
    if (n == 0) {
      total = std::move(one);
    } else {
      PF_TRY(MergeMetrics(total, one));
    }
  }
  if (chosen.empty()) {
    for (const LeafColumn& column : columns) {
      ColumnMetrics none = EmptyMetrics(column);
      none.compressed_bytes = none.value_count = none.null_count = 0;
      total.columns.push_back(std::move(none));
    }
  }
  return total;
}

}  // namespace partforge::data
