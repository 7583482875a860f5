#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "data/field_ref.h"
#include "data/scalar.h"

namespace partforge::data {

// What a row must satisfy in one flat top-level column to be wanted; a conjunct of a predicate, for
// pruning. Scalars have the column's type in the table, in the column's own unit.
struct ColumnRange {
  FieldRef column = {};
  std::optional<Scalar> lower = std::nullopt;  // inclusive
  std::optional<Scalar> upper = std::nullopt;  // inclusive
  // When not empty: only these values are wanted, and bloom filters are asked.
  std::vector<Scalar> equals = {};
  // A null is wanted too (IS NULL, or an OR with it).
  bool null_is_wanted = false;
  // Floats: statistics know nothing of NaN, so a wanted NaN stops pruning by them.
  bool nan_is_wanted = false;
};

}  // namespace partforge::data
