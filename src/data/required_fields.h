#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace arrow {
class Array;
class DataType;
}  // namespace arrow

namespace partforge::data {

// A null where the type has none.
struct MissingValue {
  int64_t row = 0;    // of the outermost array
  std::string field;  // path below it: "a.element.b"
};

// Whether there is a field that must have values inside of the type (of a struct, list or map).
bool HasRequiredFields(const arrow::DataType& type);
// The first null found in such a field, where no null above hides it. The array's own nulls are not
// looked at. Arrow's kernels and builders check none of this.
std::optional<MissingValue> FindMissingValue(const arrow::Array& array);

}  // namespace partforge::data
