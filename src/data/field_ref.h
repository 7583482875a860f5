#pragma once

#include <cstdint>
#include <string>

namespace partforge::data {

// How a column is found in a file: by id, by name, or both.
struct FieldRef {
  int32_t id = -1;  // -1 = none
  std::string name = {};
  bool operator==(const FieldRef&) const = default;
};

// kFieldId: columns match by id alone where the file has ids. kName: by name of the file's own
// schema.
enum class MatchBy : uint8_t { kFieldId, kName };

}  // namespace partforge::data
