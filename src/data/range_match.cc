#include "data/range_match.h"

#include <algorithm>

namespace partforge::data {
namespace {

// Integers, floats and byte strings each in one type, so that a column that was promoted since the
// file was written compares with the predicate.
Scalar Normal(const Scalar& value) {
  if (IsInteger(value.type())) return Scalar::Int64(value.AsInt());
  if (value.type() == ScalarType::kFloat) return Scalar::Double(value.AsDouble());
  if (value.type() == ScalarType::kString) return Scalar::Bytes(value.AsBytes());
  return value;
}

// Zeros of both signs are equal to a predicate.
Scalar AsLower(const Scalar& value) {
  const Scalar normal = Normal(value);
  const bool is_zero = normal.type() == ScalarType::kDouble && normal.AsDouble() == 0;
  return is_zero ? Scalar::Double(-0.0) : normal;
}
Scalar AsUpper(const Scalar& value) {
  const Scalar normal = Normal(value);
  const bool is_zero = normal.type() == ScalarType::kDouble && normal.AsDouble() == 0;
  return is_zero ? Scalar::Double(0.0) : normal;
}

// True unless both are known and of one type, and a > b.
bool MayBeAtMost(const std::optional<Scalar>& a, const std::optional<Scalar>& b) {
  return !a || !b || a->type() != b->type() || *a <= *b;
}

}  // namespace

bool IsInteger(ScalarType type) {
  return type >= ScalarType::kInt8 && type <= ScalarType::kInt64;
}
bool IsFloat(ScalarType type) {
  return type == ScalarType::kFloat || type == ScalarType::kDouble;
}

bool MayMatch(const ColumnRange& range, const KnownValues& known, std::optional<ScalarType> type) {
  if (range.null_is_wanted && known.may_have_null) return true;
  if (!known.may_have_value) return false;
  if (range.nan_is_wanted && type && IsFloat(*type)) return true;
  const auto lower = known.lower ? std::optional(AsLower(*known.lower)) : std::nullopt;
  const auto upper = known.upper ? std::optional(AsUpper(*known.upper)) : std::nullopt;
  if (range.lower && !MayBeAtMost(AsLower(*range.lower), upper)) return false;
  if (range.upper && !MayBeAtMost(lower, AsUpper(*range.upper))) return false;
  if (range.equals.empty()) return true;
  return std::any_of(range.equals.begin(), range.equals.end(), [&](const Scalar& value) {
    return MayBeAtMost(lower, AsUpper(value)) && MayBeAtMost(AsLower(value), upper);
  });
}

}  // namespace partforge::data
