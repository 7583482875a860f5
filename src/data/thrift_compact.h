#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/error.h"
#include "base/memory_budget.h"

namespace partforge::data {

// The Thrift compact protocol as a tree: what is parsed is encoded again with every field kept,
// known or not (thrift-compact-protocol.md of Apache Thrift). Parquet footers, page headers and
// page indexes are such structs.

enum class ThriftType : uint8_t {
  kBool,
  kByte,
  kI16,
  kI32,
  kI64,
  kDouble,
  kBinary,  // also string
  kList,
  kSet,
  kMap,
  kStruct,
  kUuid,  // 16 bytes
};

// Limits of the parser. A count or length is checked against the bytes that are left before
// anything is allocated, so a tree takes at most about 64 bytes for each byte of input, and three
// times that while lists of lists or structs are read.
inline constexpr int kThriftDepthMax = 64;
struct ThriftLimits {
  int64_t values_max = INT64_MAX;
  int64_t memory_bytes_max = INT64_MAX;  // of the tree, and what it takes to read it
};

// One value, and the field id it has when it stands in a struct. Copies are deep.
class ThriftValue {
 public:
  static ThriftValue Bool(bool value);
  static ThriftValue Byte(int8_t value);
  static ThriftValue I16(int16_t value);
  static ThriftValue I32(int32_t value);
  static ThriftValue I64(int64_t value);
  static ThriftValue Double(double value);
  static ThriftValue Binary(std::string bytes);
  static ThriftValue List(ThriftType element, std::vector<ThriftValue> items = {});
  static ThriftValue Struct();

  ThriftType type() const { return type_; }
  // Type of list and set elements and of map values; of map keys.
  ThriftType element_type() const { return element_type_; }
  ThriftType key_type() const { return key_type_; }
  int16_t id() const { return id_; }

  // Reading a value as another type than its own aborts: check type() first, or use the Require
  // functions.
  bool AsBool() const { return AsInt() != 0; }
  int64_t AsInt() const { return std::get<int64_t>(payload_); }  // bool, byte, i16, i32, i64
  double AsDouble() const { return std::get<double>(payload_); }
  const std::string& AsBinary() const { return std::get<std::string>(payload_); }  // binary, uuid
  // Elements of a list or set; keys and values of a map in turn; fields of a struct in file order.
  const std::vector<ThriftValue>& items() const { return std::get<Items>(payload_); }
  std::vector<ThriftValue>& items() { return std::get<Items>(payload_); }

  // The field of a struct, or null. Not a struct: null. Pointers die with the next Set or Remove.
  const ThriftValue* Find(int16_t id) const;
  ThriftValue* Find(int16_t id);
  // Replaces the field, or inserts it before the first field with a greater id. Requires a struct.
  ThriftValue& Set(int16_t id, ThriftValue value);
  void Remove(int16_t id);  // absent counts as removed

  bool operator==(const ThriftValue& other) const = default;

 private:
  friend class ThriftParser;
  using Items = std::vector<ThriftValue>;
  using Payload = std::variant<int64_t, double, std::string, Items>;
  ThriftValue(ThriftType type, Payload payload) : type_(type), payload_(std::move(payload)) {}

  ThriftType type_ = ThriftType::kBool;
  ThriftType element_type_ = ThriftType::kBool;
  ThriftType key_type_ = ThriftType::kBool;
  int16_t id_ = 0;
  Payload payload_;
};

struct ThriftParsed {
  ThriftValue value;      // a struct
  size_t size_bytes = 0;  // how much of the input it took
};
// Parses the struct that `bytes` begin with; what follows is left alone (a page's body follows its
// header). kCorruption with the offset, also when it holds more than `values_max` values;
// kExhausted when it takes more than `memory_bytes_max`. `what` names the thing parsed.
Result<ThriftParsed> ParseThriftStruct(std::span<const std::byte> bytes, std::string_view what,
                                       const ThriftLimits& limits = {});

struct ChargedThrift {
  ThriftValue value;  // a struct
  MemoryGrant grant;  // what it takes
};
// The same, within a budget. kExhausted when it has no room.
Result<ChargedThrift> ParseThriftWithin(MemoryBudget& memory, std::span<const std::byte> bytes,
                                        std::string_view what);
// Memory that a tree takes, in bytes.
int64_t TreeBytes(const ThriftValue& value);
std::string EncodeThriftStruct(const ThriftValue& value);
void AppendThriftStruct(const ThriftValue& value, std::string& out);

// A field that must be there with that type, else kCorruption naming `what` and the id. Ints of any
// width pass as int64.
Result<int64_t> RequireInt(const ThriftValue& record, int16_t id, std::string_view what);
Result<const ThriftValue*> RequireField(const ThriftValue& record, int16_t id, ThriftType type,
                                        std::string_view what);
// The field's number, or the fallback when it is absent; kCorruption when it has another type.
Result<int64_t> IntOr(const ThriftValue& record, int16_t id, int64_t fallback,
                      std::string_view what);
// The field's value when it is there with such a type; ints of any width. For what may be absent
// and then means nothing.
bool IsInt(const ThriftValue& value);
int64_t IntField(const ThriftValue& record, int16_t id, int64_t fallback);
std::optional<bool> BoolField(const ThriftValue& record, int16_t id);
std::optional<std::string> BytesField(const ThriftValue& record, int16_t id);
// The list's items when each has the element type wanted (an empty list passes with any).
Result<const std::vector<ThriftValue>*> RequireList(const ThriftValue& record, int16_t id,
                                                    ThriftType element, std::string_view what);

}  // namespace partforge::data
