#include "data/orc_pruning.h"

#include <arrow/type.h>

#include <algorithm>
#include <limits>

#include "data/range_match.h"

namespace partforge::data {
namespace {

constexpr int64_t kMicrosASecond = 1'000'000;
// Bounds of a wall clock are made with the zone of the writer, and values are read with that of our
// own tables: twice what any two zones differ by.
constexpr int64_t kZoneMicros = int64_t{2} * 24 * 3600 * kMicrosASecond;
// Writers cut what is below a millisecond in either direction.
constexpr int64_t kMillisecondMicros = 1000;

int64_t UnitsASecond(const arrow::DataType& type) {
  switch (static_cast<const arrow::TimestampType&>(type).unit()) {
    case arrow::TimeUnit::SECOND:
      return 1;
    case arrow::TimeUnit::MILLI:
      return 1000;
    case arrow::TimeUnit::MICRO:
      return kMicrosASecond;
    case arrow::TimeUnit::NANO:
      return 1'000'000'000;
  }
  return 1;
}

// Microseconds less or more `slack` in another unit, rounded away from the values in between; none
// when they do not fit.
std::optional<Scalar> TimeBound(int64_t micros, int64_t slack, int64_t units_a_second) {
  int64_t value = 0;
  if (__builtin_add_overflow(micros, slack, &value)) return std::nullopt;
  if (units_a_second >= kMicrosASecond) {
    if (__builtin_mul_overflow(value, units_a_second / kMicrosASecond, &value)) return std::nullopt;
    return Scalar::Int64(value);
  }
  const int64_t micros_a_unit = kMicrosASecond / units_a_second;
  const int64_t rest = value % micros_a_unit;
  value /= micros_a_unit;
  if (rest < 0 && slack < 0) --value;
  if (rest > 0 && slack > 0) ++value;
  return Scalar::Int64(value);
}

KnownValues KnownOf(const OrcColumnStatistics& statistics, OrcKind kind, int64_t row_count,
                    std::optional<int64_t> units_a_second) {
  KnownValues known;
  // More values than rows: whoever wrote this meant something else.
  if (statistics.value_count && *statistics.value_count > row_count) return known;
  if (statistics.value_count) {
    known.may_have_value = *statistics.value_count > 0;
    // Old writers do not say; where both are said both must agree.
    known.may_have_null = *statistics.value_count < row_count || statistics.has_null.value_or(true);
  }
  if (!statistics.lower && !statistics.upper) return known;
  if (kind != OrcKind::kTimestamp && kind != OrcKind::kTimestampInstant) {
    if (statistics.lower) known.lower = statistics.lower->value;
    if (statistics.upper) known.upper = statistics.upper->value;
    return known;
  }
  if (!units_a_second) return known;
  const int64_t slack = kind == OrcKind::kTimestamp ? kZoneMicros : kMillisecondMicros;
  if (statistics.lower) {
    known.lower = TimeBound(statistics.lower->value.AsInt(), -slack, *units_a_second);
  }
  if (statistics.upper) {
    known.upper = TimeBound(statistics.upper->value.AsInt(), slack, *units_a_second);
  }
  return known;
}

std::optional<ScalarType> FloatTypeOf(OrcKind kind) {
  if (kind == OrcKind::kFloat) return ScalarType::kFloat;
  if (kind == OrcKind::kDouble) return ScalarType::kDouble;
  return std::nullopt;
}

const arrow::Field* FieldOf(const arrow::Schema& schema, const FieldRef& column) {
  for (const auto& field : schema.fields()) {
    if (IsField(*field, column)) return field.get();
  }
  return nullptr;
}

}  // namespace

OrcPruner::OrcPruner(const OrcTail& tail, const arrow::Schema& file_schema,
                     const SchemaMapping* mapping, const std::vector<ColumnRange>& ranges)
    : tail_(tail) {
  const OrcType& root = tail.types[0];
  if (root.kind != OrcKind::kStruct ||
      root.children.size() != static_cast<size_t>(file_schema.num_fields())) {
    return;
  }
  for (const ColumnRange& range : ranges) {
    const arrow::Schema& wanted = mapping == nullptr ? file_schema : *mapping->wanted();
    const arrow::Field* const field = FieldOf(wanted, range.column);
    if (field == nullptr) continue;
    BoundRange bound{.range = range};
    const bool is_time = field->type()->id() == arrow::Type::TIMESTAMP;
    if (is_time) bound.units_a_second = UnitsASecond(*field->type());
    std::optional<int> leaf;
    if (mapping != nullptr) {
      leaf = is_time ? mapping->TimestampLeafOf(range.column) : mapping->LeafOf(range.column);
      if (!leaf) continue;
    }
    int first_leaf = 0;
    for (int i = 0; i < file_schema.num_fields(); ++i) {
      const arrow::Field& own = *file_schema.field(i);
      const bool is_it = leaf ? *leaf == first_leaf : &own == field;
      first_leaf += LeafCount(own);
      if (!is_it) continue;
      bound.column = root.children[static_cast<size_t>(i)];
      if (tail.types[bound.column].children.empty()) bound_.push_back(bound);
      break;
    }
  }
}

bool OrcPruner::MayMatch(size_t stripe) const {
  if (bound_.empty()) return true;
  const auto statistics = tail_.StripeStatistics(stripe);
  if (statistics.empty()) return true;
  const int64_t row_count = tail_.stripes[stripe].row_count;
  return std::all_of(bound_.begin(), bound_.end(), [&](const BoundRange& bound) {
    const OrcKind kind = tail_.types[bound.column].kind;
    return data::MayMatch(bound.range,
                          KnownOf(statistics[bound.column], kind, row_count, bound.units_a_second),
                          FloatTypeOf(kind));
  });
}

}  // namespace partforge::data
