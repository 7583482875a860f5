#include "data/int96_check.h"

#include <fmt/format.h>
#include <parquet/column_reader.h>
#include <parquet/file_reader.h>
#include <parquet/schema.h>
#include <parquet/types.h>

#include <cstring>
#include <limits>
#include <vector>

#include "data/arrow_edge.h"

namespace partforge::data {
namespace {

constexpr int64_t kBatch = 4096;

// Nanoseconds since 1970, which take more than 64 bits for far dates.
__extension__ using Nanos = __int128;

Nanos NanosOf(const parquet::Int96& value) {
  constexpr int64_t kJulianDayOf1970 = 2'440'588;
  constexpr int64_t kDayNanos = int64_t{86'400} * 1'000'000'000;
  int64_t of_day = 0;
  std::memcpy(&of_day, value.value.data(), sizeof of_day);
  return Nanos{static_cast<int64_t>(value.value[2]) - kJulianDayOf1970} * kDayNanos + of_day;
}

const char* Misfit(const parquet::Int96& value, arrow::TimeUnit::type unit, DigitsOfTimes digits) {
  const Nanos nanos = NanosOf(value);
  Nanos per_unit = 1;
  switch (unit) {
    case arrow::TimeUnit::SECOND:
      per_unit = 1'000'000'000;
      break;
    case arrow::TimeUnit::MILLI:
      per_unit = 1'000'000;
      break;
    case arrow::TimeUnit::MICRO:
      per_unit = 1'000;
      break;
    case arrow::TimeUnit::NANO:
      break;
  }
  const Nanos scaled = nanos / per_unit;
  if (scaled < std::numeric_limits<int64_t>::min() ||
      scaled > std::numeric_limits<int64_t>::max()) {
    return "a time beyond what the unit holds";
  }
  const bool loses = digits == DigitsOfTimes::kMustFit && nanos % per_unit != 0;
  return loses ? "a time of more digits than the unit holds" : nullptr;
}

}  // namespace

Status CheckInt96Values(parquet::ParquetFileReader& file, int row_group, int leaf,
                        arrow::TimeUnit::type unit, DigitsOfTimes digits, int64_t first_row) {
  return CatchParquet([&]() -> Status {
    const auto column = file.RowGroup(row_group)->Column(leaf);
    auto& reader = static_cast<parquet::Int96Reader&>(*column);
    const int max_definition = column->descr()->max_definition_level();
    const bool is_repeated = column->descr()->max_repetition_level() > 0;
    std::vector<int16_t> definitions(kBatch), repetitions(kBatch);
    std::vector<parquet::Int96> values(kBatch);
    int64_t row = -1;
    while (reader.HasNext()) {
      int64_t value_count = 0;
      const int64_t levels = reader.ReadBatch(kBatch, definitions.data(), repetitions.data(),
                                              values.data(), &value_count);
      if (levels == 0 && value_count == 0) break;
      int64_t value = 0;
      for (int64_t i = 0; i < levels; ++i) {
        const auto at = static_cast<size_t>(i);
        if (!is_repeated || repetitions[at] == 0) ++row;
        if (max_definition > 0 && definitions[at] < max_definition) continue;
        if (value == value_count) break;
        const char* const why = Misfit(values[static_cast<size_t>(value++)], unit, digits);
        if (why == nullptr) continue;
        return Status(Code::kCorruption,
                      fmt::format("column {}, row {}: {}", column->descr()->path()->ToDotString(),
                                  first_row + row, why));
      }
    }
    return {};
  });
}

}  // namespace partforge::data
