#pragma once

#include <memory>
#include <string>

namespace arrow {
class Schema;
}  // namespace arrow

namespace partforge::data {

// Attributes of ORC types that carry what ORC has no place for. Arrow hands them on as field
// metadata, nested fields included.
struct OrcAttributes {
  std::string id = {};        // whose value is the field id; empty: none
  std::string required = {};  // "true" or "false" by the field's nullability; empty: not written
};

// The schema of an ORC file with ids where all our sources have them (kFieldIdKey).
std::shared_ptr<arrow::Schema> FromOrcSchema(const arrow::Schema& schema,
                                             const OrcAttributes& attributes);
// The other direction, for a writer.
std::shared_ptr<arrow::Schema> ToOrcSchema(const arrow::Schema& schema,
                                           const OrcAttributes& attributes);

}  // namespace partforge::data
