#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "data/field_ref.h"

namespace partforge::data {

enum class AvroKind : uint8_t {
  kNull,
  kBoolean,
  kInt,
  kLong,
  kFloat,
  kDouble,
  kBytes,
  kString,
  kRecord,
  kEnum,
  kArray,
  kMap,
  kUnion,
  kFixed,
};

struct AvroType;

struct AvroField {
  std::string name;
  std::vector<std::string> aliases;
  int32_t id = -1;  // attribute `field-id`
  const AvroType* type = nullptr;
  const JsonDoc* json = nullptr;  // the field's object with all its attributes
};

// A node of a parsed schema. A named type that is used twice is one node.
struct AvroType {
  AvroKind kind = AvroKind::kNull;
  std::string name;                       // full name of a record, enum or fixed
  std::string logical_type;               // empty = none
  std::vector<AvroField> fields;          // kRecord
  std::vector<std::string> symbols;       // kEnum
  std::vector<const AvroType*> branches;  // kUnion
  const AvroType* element = nullptr;      // kArray: items, kMap: values
  int64_t fixed_size_bytes = 0;           // kFixed
  int32_t element_id = -1, key_id = -1,
          value_id = -1;             // attributes `element-id`, `key-id`, `value-id`
  int32_t precision = 0, scale = 0;  // decimals
  const JsonDoc* json = nullptr;     // the type's object; null when it is written as a bare name

  int64_t size_bytes_min = 0;  // fewest bytes a datum takes
  int64_t step_count = 1;      // nodes of the type written out, arrays counted once
  int64_t empty_count = 0;     // of those, how many take no byte
  // What passing over a datum takes, when that is always the same: so many variable-length integers
  // and nothing else, or so many bytes. -1: neither.
  int64_t varint_count = -1;
  int64_t exact_bytes = -1;

  // The other branch of a union of null and one type; null when it is no such union.
  const AvroType* OptionalOf() const;
  int NullBranch() const;  // index of the null branch, -1 when there is none or this is no union
  // An array that stands for a map: items are records of two fields, the attribute logicalType is
  // "map".
  bool IsMapOfPairs() const;
};

// Limits of foreign schemas: what is deeper or larger is kCorruption.
inline constexpr int kAvroDepthMax = 64;
inline constexpr int64_t kAvroStepsMax = 65'536;
inline constexpr int64_t kAvroEmptyMax = 8;
inline constexpr int64_t kAvroSchemaBytesMax = int64_t{16} << 20;

// A parsed Avro schema and the ordered JSON it came from, unknown attributes included. Immutable;
// copies share.
class AvroSchema {
 public:
  AvroSchema() = default;  // nothing may be asked of it
  // kCorruption with the place for text that is no schema; kRefused for a type that contains
  // itself.
  static Result<AvroSchema> Parse(std::string_view text);

  const AvroType& root() const { return *root_; }
  const std::string& text() const { return *text_; }  // as it was given
  // The record: the root itself, or the one record of a root union of null and a record.
  const AvroType* RootRecord() const;

 private:
  struct Nodes;
  std::shared_ptr<const Nodes> nodes_;
  std::shared_ptr<const std::string> text_;
  const AvroType* root_ = nullptr;
};

// The field of a record that `ref` or an alias names: by id where the file's field has one and
// `ref` too, else by name, the file's aliases and ours. Null when there is none.
const AvroField* FindAvroField(const AvroType& record, const FieldRef& ref,
                               const std::vector<std::string>& aliases = {});

// An attribute of a type or field as text or number; none when absent or of another JSON type.
std::optional<std::string> AvroTextAttribute(const JsonDoc* json, std::string_view name);
std::optional<bool> AvroBoolAttribute(const JsonDoc* json, std::string_view name);

}  // namespace partforge::data
