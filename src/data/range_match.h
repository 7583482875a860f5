#pragma once

#include <optional>

#include "data/column_range.h"
#include "data/scalar.h"

namespace partforge::data {

// What is known of a column's values in some rows: a row group, a page, a stripe. Bounds hold for
// all values but nulls and NaNs.
struct KnownValues {
  std::optional<Scalar> lower = std::nullopt, upper = std::nullopt;
  bool may_have_null = true;
  bool may_have_value = true;
};

// False when no row of which this is known can be in the range. `type` is that of the file's
// column, where it has one. When in doubt true.
bool MayMatch(const ColumnRange& range, const KnownValues& known, std::optional<ScalarType> type);

bool IsInteger(ScalarType type);  // of any width
bool IsFloat(ScalarType type);    // kFloat, kDouble

}  // namespace partforge::data
