#pragma once

#include <cstdint>
#include <string>

namespace arrow {
class RecordBatch;
}  // namespace arrow

namespace partforge::data::testing {

// A row as one line of JSON, in the form in which tests/interop/java/Json.java writes rows of other
// implementations: bytes as hex, decimals as text, times in microseconds, dates in days, maps as
// pairs, structs as objects; floats that are no numbers as "NaN", "Infinity", "-Infinity".
std::string RowJson(const arrow::RecordBatch& batch, int64_t row);

}  // namespace partforge::data::testing
