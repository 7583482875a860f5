#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/error.h"
#include "data/avro_schema.h"

namespace arrow {
class Schema;
}  // namespace arrow

namespace partforge::data {

// Which Avro names stand for wall-clock times and which for instants.
enum class AvroTimestamps : uint8_t {
  // `timestamp-*` are instants unless `adjust-to-utc` is false, `local-timestamp-*` are wall clocks
  // (Avro, and
  // Iceberg's attribute).
  kAvro,
  // The other way round, as Paimon has them.
  kSwapped,
};

// The Arrow schema of a record: ids as field metadata "PARQUET:field_id", nested ones too; list
// items are called `element`, map entries `key` and `value`. Unions of null and one type are
// nullable fields; dates, times, timestamps and decimals become Arrow's; enums become strings; an
// array of pairs with logicalType map becomes a map. kRefused for a union of several types and for
// decimals of more than 38 digits.
Result<std::shared_ptr<arrow::Schema>> ArrowSchemaOf(const AvroType& record,
                                                     AvroTimestamps timestamps);

// How an Avro schema is written for Arrow data.
struct AvroSchemaStyle {
  AvroTimestamps timestamps = AvroTimestamps::kAvro;
  enum class Decimals : uint8_t { kFixed, kBytes } decimals = Decimals::kFixed;
  // Names of nested records: `r<id>` (Iceberg) or the parent's name and the field's, joined by "_"
  // (Paimon).
  enum class Names : uint8_t { kIds, kPaths } names = Names::kIds;
  std::string root_name = "table";
};

// JSON of the Avro schema for an Arrow schema; ids come from field metadata and are left out where
// absent. kRefused for a type that Avro has no form for, naming the column; kInvalidArgument when
// names are to be made of ids and a nested field has none.
Result<std::string> AvroSchemaOf(const arrow::Schema& schema, const AvroSchemaStyle& style);

// Names with characters other than [A-Za-z0-9_] written as _x and upper-case hex of the code unit,
// a leading digit with "_" before it (Iceberg, "Avro": names).
std::string AvroSafeName(const std::string& name);

}  // namespace partforge::data
