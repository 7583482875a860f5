#pragma once

#include <arrow/type_fwd.h>

#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "data/schema_mapping.h"

namespace parquet {
class ParquetFileReader;
}  // namespace parquet

namespace partforge::data {

// The library turns INT96 times into a unit without a look at what does not fit: far dates wrap
// around in nanoseconds, digits below a microsecond are cut. Reads the values of one leaf of a row
// group and fails with kCorruption, naming column and row, when one would come out as another time.
// `first_row` is that of the row group in the file. Rows that a RowFilter leaves out are checked
// too.
Status CheckInt96Values(parquet::ParquetFileReader& file, int row_group, int leaf,
                        arrow::TimeUnit::type unit, DigitsOfTimes digits, int64_t first_row);

}  // namespace partforge::data
