#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "data/parquet_schema.h"
#include "data/thrift_compact.h"

namespace arrow {
class Field;
class Schema;
}  // namespace arrow

namespace partforge::data {

// INT96 as Hive, Impala and old Sparks store timestamps: nanoseconds of a day in eight bytes and
// the Julian day in four, little endian. The library that decodes pages makes one unit of all of
// them, cuts digits and lets far dates overflow; hence it is given them as bytes, and each column
// becomes what is wanted of it here.

// Whether a leaf is INT96.
bool HasInt96(const std::vector<LeafColumn>& columns);
// A footer (FileMetaData) whose INT96 columns are fixed values of twelve bytes: their pages are the
// same. Their statistics are dropped, as they have no order.
void Int96ToBytes(ThriftValue& footer);

// The Arrow schema of such a file with a mark at the leaves that are INT96.
std::shared_ptr<arrow::Schema> MarkInt96(const arrow::Schema& schema,
                                         const std::vector<LeafColumn>& columns);
bool IsMarkedInt96(const arrow::Field& field);
// Marked leaves as timestamps in microseconds without a zone, and dictionaries as their values: the
// columns as they are in the file, whatever it says of how they once lay in memory.
std::shared_ptr<arrow::Schema> PlainSchema(const arrow::Schema& schema);

struct Int96Time {
  enum class Fit : uint8_t { kExact, kHasMoreDigits, kTooFar };
  int64_t value = 0;  // rounded down; meaningless when too far
  Fit fit = Fit::kExact;
};
// Twelve bytes as a count of units since 1970.
Int96Time TimeOfInt96(const uint8_t* bytes, int64_t units_per_second);

}  // namespace partforge::data
