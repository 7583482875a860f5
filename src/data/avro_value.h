#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/error.h"
#include "data/avro_cursor.h"
#include "data/avro_schema.h"

namespace partforge::data {

struct AvroMapEntry;

// One datum as a tree, for what has no fixed shape: partition tuples, records of tools. The schema
// it was read with says what it means; hot paths use bindings (avro_binding.h) or Arrow instead.
struct AvroValue {
  using List = std::vector<AvroValue>;    // array items, or fields of a record in order
  using Map = std::vector<AvroMapEntry>;  // in file order
  // null; boolean; int and long; float; double; string, bytes, fixed, and enum as its symbol; …
  std::variant<std::monostate, bool, int64_t, float, double, std::string, List, Map> value;

  bool is_null() const { return value.index() == 0; }
  bool operator==(const AvroValue& other) const;
};

// Not a std::pair: asking a pair what it can do needs a whole AvroValue, which needs the pair.
struct AvroMapEntry {
  std::string key;
  AvroValue value;

  bool operator==(const AvroMapEntry& other) const = default;
};

inline bool AvroValue::operator==(const AvroValue& other) const {
  return value == other.value;
}

// Reads a datum of the type; a union gives the value of its branch. Sets the cursor's failure.
AvroValue DecodeAvroValue(const AvroType& type, AvroCursor& cursor);

// Appends a datum. In a union the first branch that can hold the value is taken. kInvalidArgument
// when the value is not of the type; `out` may then hold a part.
Status EncodeAvroValue(const AvroType& type, const AvroValue& value, std::string& out);

// Pieces of the binary encoding.
void PutAvroLong(int64_t value, std::string& out);
void PutAvroBytes(std::string_view bytes, std::string& out);

}  // namespace partforge::data
