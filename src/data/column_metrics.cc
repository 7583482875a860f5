#include "data/column_metrics.h"

#include <fmt/format.h>

#include <cmath>

namespace partforge::data {

bool ColumnMetrics::HasNoBoundedValue() const {
  return value_count && null_count && *value_count == *null_count + nan_count.value_or(0);
}

namespace {

std::optional<Bound> Clean(std::optional<Bound> bound, double zero) {
  if (!bound) return bound;
  const ScalarType type = bound->value.type();
  if (type != ScalarType::kFloat && type != ScalarType::kDouble) return bound;
  const double value = bound->value.AsDouble();
  if (std::isnan(value)) return std::nullopt;
  if (value == 0) {
    bound->value =
        type == ScalarType::kFloat ? Scalar::Float(static_cast<float>(zero)) : Scalar::Double(zero);
  }
  return bound;
}

// Adds when both sides know, else forgets.
void AddCount(std::optional<int64_t>& into, const std::optional<int64_t>& other) {
  if (into && other) {
    *into += *other;
  } else {
    into.reset();
  }
}

enum class Side : uint8_t { kLower, kUpper };

// The wider of two bounds. Where they are equal the result is exact if one of them is.
std::optional<Bound> Wider(const std::optional<Bound>& a, const std::optional<Bound>& b,
                           Side side) {
  if (!a || !b || a->value.type() != b->value.type()) return std::nullopt;
  const auto order = a->value <=> b->value;
  if (std::is_eq(order)) return Bound{.value = a->value, .is_exact = a->is_exact || b->is_exact};
  return std::is_lt(order) == (side == Side::kLower) ? a : b;
}

void MergeColumn(ColumnMetrics& into, const ColumnMetrics& other) {
  // A side whose values are all null or NaN says nothing about bounds.
  if (into.HasNoBoundedValue()) {
    into.lower = other.lower;
    into.upper = other.upper;
  } else if (!other.HasNoBoundedValue()) {
    into.lower = Wider(into.lower, other.lower, Side::kLower);
    into.upper = Wider(into.upper, other.upper, Side::kUpper);
  }
  AddCount(into.compressed_bytes, other.compressed_bytes);
  AddCount(into.value_count, other.value_count);
  AddCount(into.null_count, other.null_count);
  AddCount(into.nan_count, other.nan_count);
  into.lower = CleanLower(std::move(into.lower));
  into.upper = CleanUpper(std::move(into.upper));
}

}  // namespace

std::optional<Bound> CleanLower(std::optional<Bound> bound) {
  return Clean(std::move(bound), -0.0);
}

std::optional<Bound> CleanUpper(std::optional<Bound> bound) {
  return Clean(std::move(bound), 0.0);
}

Status MergeMetrics(FileMetrics& into, const FileMetrics& other) {
  if (into.columns.size() != other.columns.size()) {
    return Status(Code::kInvalidArgument, fmt::format("merge metrics: {} columns and {}",
                                                      into.columns.size(), other.columns.size()));
  }
  for (size_t i = 0; i < into.columns.size(); ++i) {
    if (into.columns[i].path != other.columns[i].path) {
      return Status(Code::kInvalidArgument,
                    fmt::format("merge metrics: column {} against {}", into.columns[i].path,
                                other.columns[i].path));
    }
  }
  for (size_t i = 0; i < into.columns.size(); ++i) MergeColumn(into.columns[i], other.columns[i]);
  into.row_count += other.row_count;
  return {};
}

void MarkBoundsInexact(FileMetrics& metrics) {
  for (ColumnMetrics& column : metrics.columns) {
    if (column.lower) column.lower->is_exact = false;
    if (column.upper) column.upper->is_exact = false;
  }
}

}  // namespace partforge::data
