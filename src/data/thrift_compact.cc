#include "data/thrift_compact.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

namespace partforge::data {

ThriftValue ThriftValue::Bool(bool value) {
  return {ThriftType::kBool, int64_t{value}};
}
ThriftValue ThriftValue::Byte(int8_t value) {
  return {ThriftType::kByte, int64_t{value}};
}
ThriftValue ThriftValue::I16(int16_t value) {
  return {ThriftType::kI16, int64_t{value}};
}
ThriftValue ThriftValue::I32(int32_t value) {
  return {ThriftType::kI32, int64_t{value}};
}
ThriftValue ThriftValue::I64(int64_t value) {
  return {ThriftType::kI64, value};
}
ThriftValue ThriftValue::Double(double value) {
  return {ThriftType::kDouble, value};
}
ThriftValue ThriftValue::Binary(std::string bytes) {
  return {ThriftType::kBinary, std::move(bytes)};
}
ThriftValue ThriftValue::List(ThriftType element, std::vector<ThriftValue> items) {
  ThriftValue list(ThriftType::kList, std::move(items));
  list.element_type_ = element;
  return list;
}
ThriftValue ThriftValue::Struct() {
  return {ThriftType::kStruct, Items{}};
}

const ThriftValue* ThriftValue::Find(int16_t id) const {
  if (type_ != ThriftType::kStruct) return nullptr;
  const Items& fields = items();
  const auto found = std::find_if(fields.begin(), fields.end(),
                                  [id](const ThriftValue& field) { return field.id_ == id; });
  return found == fields.end() ? nullptr : &*found;
}

ThriftValue* ThriftValue::Find(int16_t id) {
  return const_cast<ThriftValue*>(static_cast<const ThriftValue*>(this)->Find(id));
}

ThriftValue& ThriftValue::Set(int16_t id, ThriftValue value) {
  PF_CHECK(type_ == ThriftType::kStruct, "a field is set in something that is no struct");
  value.id_ = id;
  if (ThriftValue* field = Find(id)) return *field = std::move(value);
  Items& fields = items();
  const auto at = std::find_if(fields.begin(), fields.end(),
                               [id](const ThriftValue& field) { return field.id_ > id; });
  return *fields.insert(at, std::move(value));
}

void ThriftValue::Remove(int16_t id) {
  if (type_ != ThriftType::kStruct) return;
  std::erase_if(items(), [id](const ThriftValue& field) { return field.id_ == id; });
}

namespace {

// Type nibbles on the wire. A boolean field carries its value in the nibble.
constexpr uint8_t kWireStop = 0;
constexpr uint8_t kWireTrue = 1;
constexpr uint8_t kWireFalse = 2;

uint8_t WireType(ThriftType type) {
  switch (type) {
    case ThriftType::kBool:
      return kWireTrue;
    case ThriftType::kByte:
      return 3;
    case ThriftType::kI16:
      return 4;
    case ThriftType::kI32:
      return 5;
    case ThriftType::kI64:
      return 6;
    case ThriftType::kDouble:
      return 7;
    case ThriftType::kBinary:
      return 8;
    case ThriftType::kList:
      return 9;
    case ThriftType::kSet:
      return 10;
    case ThriftType::kMap:
      return 11;
    case ThriftType::kStruct:
      return 12;
    case ThriftType::kUuid:
      return 13;
  }
  return kWireStop;
}

}  // namespace

// Reads values one after another. Fields and items of what is being read lie on one stack and are
// moved into a vector of the exact size at its end, so that no capacity is left over.
class ThriftParser {
 public:
  ThriftParser(std::span<const std::byte> bytes, std::string_view what, const ThriftLimits& limits)
      : bytes_(bytes),
        what_(what),
        values_left_(limits.values_max),
        memory_bytes_max_(limits.memory_bytes_max) {}

  size_t position() const { return position_; }

  Result<ThriftValue> Struct(int depth) {
    PF_TRY(CheckDepth(depth));
    const size_t base = stack_.size();
    int16_t last_id = 0;
    while (true) {
      PF_ASSIGN(const uint8_t header, Byte());
      const uint8_t wire = header & 0x0f;
      if (wire == kWireStop) break;
      PF_ASSIGN(const int16_t id, FieldId(header, last_id));
      last_id = id;
      PF_ASSIGN(ThriftValue value, FieldValue(wire, depth));
      value.id_ = id;
      PF_TRY(Push(std::move(value)));
    }
    ThriftValue result = ThriftValue::Struct();
    PF_TRY(TakeItems(base, result.items()));
    PF_TRY(CheckUnique(result.items()));
    return result;
  }

 private:
  static constexpr auto kValueBytes = static_cast<int64_t>(sizeof(ThriftValue));

  Status Push(ThriftValue value) {
    if (values_left_-- <= 0) return Corrupt("more values than such a thing has");
    if (stack_.size() == stack_.capacity()) {
      constexpr size_t kFirst = 16;
      const size_t more = std::max(kFirst, stack_.capacity());
      PF_TRY(CheckRoom(static_cast<int64_t>(stack_.capacity() + more) * kValueBytes));
      stack_.reserve(stack_.capacity() + more);
    }
    stack_.push_back(std::move(value));
    return {};
  }
  // Moves the values above `base` off the stack.
  Status TakeItems(size_t base, std::vector<ThriftValue>& items) {
    const auto begin = stack_.begin() + static_cast<std::ptrdiff_t>(base);
    PF_TRY(Grow(static_cast<int64_t>(stack_.size() - base) * kValueBytes));
    items.reserve(stack_.size() - base);
    std::move(begin, stack_.end(), std::back_inserter(items));
    stack_.erase(begin, stack_.end());
    return {};
  }

  // Before the tree takes so many bytes more, or anything else does for a while.
  Status Grow(int64_t bytes) {
    tree_bytes_ += bytes;
    return CheckRoom(0);
  }
  Status CheckRoom(int64_t bytes) const {
    const int64_t held = tree_bytes_ + static_cast<int64_t>(stack_.capacity()) * kValueBytes;
    if (bytes <= memory_bytes_max_ - held) return {};
    return Status(Code::kExhausted,
                  fmt::format("parse {}: it takes more than {} bytes in memory at offset {}", what_,
                              memory_bytes_max_, position_));
  }

  Status Corrupt(std::string_view found) const {
    return Status(Code::kCorruption,
                  fmt::format("parse {}: {} at offset {}", what_, found, position_));
  }

  Status CheckDepth(int depth) const {
    if (depth > kThriftDepthMax) return Corrupt("nesting too deep");
    return {};
  }

  // A struct with one id twice has no single meaning, and readers differ in which one they take.
  Status CheckUnique(const std::vector<ThriftValue>& fields) {
    ids_.clear();
    for (const ThriftValue& field : fields) ids_.push_back(field.id_);
    if (!std::is_sorted(ids_.begin(), ids_.end())) std::sort(ids_.begin(), ids_.end());
    if (std::adjacent_find(ids_.begin(), ids_.end()) != ids_.end()) {
      return Corrupt("one field id twice in a struct");
    }
    return {};
  }

  size_t remaining() const { return bytes_.size() - position_; }

  Result<uint8_t> Byte() {
    if (remaining() == 0) return Corrupt("end of bytes");
    return static_cast<uint8_t>(bytes_[position_++]);
  }

  Result<uint64_t> Varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      PF_ASSIGN(const uint8_t byte, Byte());
      if (shift == 63 && byte > 1) break;
      value |= uint64_t{byte & 0x7fu} << shift;
      if ((byte & 0x80) == 0) return value;
    }
    return Corrupt("integer longer than 64 bits");
  }

  Result<int64_t> Zigzag(int64_t min, int64_t max) {
    PF_ASSIGN(const uint64_t raw, Varint());
    const int64_t value = static_cast<int64_t>(raw >> 1) ^ -static_cast<int64_t>(raw & 1);
    if (value < min || value > max) return Corrupt("integer out of range of its type");
    return value;
  }
  template <class Int>
  Result<int64_t> Zigzag() {
    return Zigzag(std::numeric_limits<Int>::min(), std::numeric_limits<Int>::max());
  }

  Result<int16_t> FieldId(uint8_t header, int16_t last_id) {
    const int delta = header >> 4;
    if (delta != 0) {
      if (last_id > std::numeric_limits<int16_t>::max() - delta)
        return Corrupt("field id too large");
      return static_cast<int16_t>(last_id + delta);
    }
    PF_ASSIGN(const int64_t id, Zigzag<int16_t>());
    return static_cast<int16_t>(id);
  }

  Result<ThriftValue> FieldValue(uint8_t wire, int depth) {
    if (wire == kWireTrue || wire == kWireFalse) return ThriftValue::Bool(wire == kWireTrue);
    PF_ASSIGN(const ThriftType type, TypeOf(wire));
    return Value(type, depth);
  }

  Result<ThriftType> TypeOf(uint8_t wire) {
    switch (wire) {
      case kWireTrue:
      case kWireFalse:
        return ThriftType::kBool;
      case 3:
        return ThriftType::kByte;
      case 4:
        return ThriftType::kI16;
      case 5:
        return ThriftType::kI32;
      case 6:
        return ThriftType::kI64;
      case 7:
        return ThriftType::kDouble;
      case 8:
        return ThriftType::kBinary;
      case 9:
        return ThriftType::kList;
      case 10:
        return ThriftType::kSet;
      case 11:
        return ThriftType::kMap;
      case 12:
        return ThriftType::kStruct;
      case 13:
        return ThriftType::kUuid;
      default:
        return Corrupt(fmt::format("unknown type {}", wire));
    }
  }

  // A value outside a field header: element of a list, key or value of a map, or a field's body.
  Result<ThriftValue> Value(ThriftType type, int depth) {
    switch (type) {
      case ThriftType::kBool:
        return ElementBool();
      case ThriftType::kByte: {
        PF_ASSIGN(const uint8_t byte, Byte());
        return ThriftValue::Byte(static_cast<int8_t>(byte));
      }
      case ThriftType::kI16:
        return Integer<int16_t>(type);
      case ThriftType::kI32:
        return Integer<int32_t>(type);
      case ThriftType::kI64:
        return Integer<int64_t>(type);
      case ThriftType::kDouble:
        return DoubleValue();
      case ThriftType::kBinary: {
        PF_ASSIGN(const uint64_t length, Varint());
        return Bytes(type, length);
      }
      case ThriftType::kUuid:
        return Bytes(type, 16);
      case ThriftType::kList:
      case ThriftType::kSet:
        return List(type, depth + 1);
      case ThriftType::kMap:
        return Map(depth + 1);
      case ThriftType::kStruct:
        return Struct(depth + 1);
    }
    return Corrupt("unknown type");
  }

  // Elements are written 1 and 2 by most, 1 and 0 by some.
  Result<ThriftValue> ElementBool() {
    PF_ASSIGN(const uint8_t byte, Byte());
    if (byte > kWireFalse) return Corrupt(fmt::format("boolean {}", byte));
    return ThriftValue::Bool(byte == kWireTrue);
  }

  template <class Int>
  Result<ThriftValue> Integer(ThriftType type) {
    PF_ASSIGN(const int64_t value, Zigzag<Int>());
    return ThriftValue(type, value);
  }

  Result<ThriftValue> DoubleValue() {
    if (remaining() < sizeof(double)) return Corrupt("end of bytes");
    double value = 0;
    std::memcpy(&value, bytes_.data() + position_, sizeof value);
    position_ += sizeof value;
    return ThriftValue::Double(value);
  }

  Result<ThriftValue> Bytes(ThriftType type, uint64_t length) {
    if (length > remaining()) return Corrupt(fmt::format("length {} beyond the end", length));
    PF_TRY(Grow(static_cast<int64_t>(length)));
    std::string text(reinterpret_cast<const char*>(bytes_.data()) + position_, length);
    position_ += length;
    return ThriftValue(type, std::move(text));
  }

  Result<ThriftValue> List(ThriftType type, int depth) {
    PF_TRY(CheckDepth(depth));
    PF_ASSIGN(const uint8_t header, Byte());
    PF_ASSIGN(const ThriftType element, TypeOf(header & 0x0f));
    uint64_t count = header >> 4;
    if (count == 15) {
      PF_ASSIGN(count, Varint());
    }
    // Every element takes a byte at least, an empty struct its stop byte.
    if (count > remaining()) return Corrupt(fmt::format("count {} beyond the end", count));
    ThriftValue list(type, ThriftValue::Items{});
    list.element_type_ = element;
    if (!HoldsOthers(element)) {
      if (static_cast<int64_t>(count) > values_left_) {
        return Corrupt("more values than such a thing has");
      }
      values_left_ -= static_cast<int64_t>(count);
      PF_TRY(Grow(static_cast<int64_t>(count) * kValueBytes));
      list.items().reserve(count);
      for (uint64_t i = 0; i < count; ++i) {
        PF_ASSIGN(ThriftValue item, Value(element, depth));
        list.items().push_back(std::move(item));
      }
      return list;
    }
    // Room is made for what was found: within others a count is a claim that each of them may make.
    const size_t base = stack_.size();
    for (uint64_t i = 0; i < count; ++i) {
      PF_ASSIGN(ThriftValue item, Value(element, depth));
      PF_TRY(Push(std::move(item)));
    }
    PF_TRY(TakeItems(base, list.items()));
    return list;
  }

  static bool HoldsOthers(ThriftType type) {
    return type == ThriftType::kList || type == ThriftType::kSet || type == ThriftType::kMap ||
           type == ThriftType::kStruct;
  }

  Result<ThriftValue> Map(int depth) {
    PF_TRY(CheckDepth(depth));
    PF_ASSIGN(const uint64_t count, Varint());
    ThriftValue map(ThriftType::kMap, ThriftValue::Items{});
    if (count == 0) return map;
    PF_ASSIGN(const uint8_t types, Byte());
    PF_ASSIGN(map.key_type_, TypeOf(types >> 4));
    PF_ASSIGN(map.element_type_, TypeOf(types & 0x0f));
    if (count > remaining() / 2) return Corrupt(fmt::format("count {} beyond the end", count));
    const size_t base = stack_.size();
    for (uint64_t i = 0; i < count; ++i) {
      PF_ASSIGN(ThriftValue key, Value(map.key_type_, depth));
      PF_TRY(Push(std::move(key)));
      PF_ASSIGN(ThriftValue value, Value(map.element_type_, depth));
      PF_TRY(Push(std::move(value)));
    }
    PF_TRY(TakeItems(base, map.items()));
    return map;
  }

  const std::span<const std::byte> bytes_;
  const std::string_view what_;
  size_t position_ = 0;
  int64_t values_left_;
  const int64_t memory_bytes_max_;
  int64_t tree_bytes_ = 0;  // of what was taken off the stack, and of texts
  std::vector<ThriftValue> stack_;
  std::vector<int16_t> ids_;
};

Result<ThriftParsed> ParseThriftStruct(std::span<const std::byte> bytes, std::string_view what,
                                       const ThriftLimits& limits) {
  ThriftParser parser(bytes, what, limits);
  PF_ASSIGN(ThriftValue value, parser.Struct(1));
  return ThriftParsed{.value = std::move(value), .size_bytes = parser.position()};
}

Result<ChargedThrift> ParseThriftWithin(MemoryBudget& memory, std::span<const std::byte> bytes,
                                        std::string_view what) {
  // Measured: footers take 16 to 20 bytes for each of the file's, and hardly more while they are
  // read. What is made of the smallest values takes up to the last of these.
  constexpr int64_t kBytesPerByte[] = {20, 64, 240};
  constexpr int64_t kBytesFree = 1024;  // the smallest stack
  const auto size = static_cast<int64_t>(bytes.size());
  for (const int64_t factor : kBytesPerByte) {
    auto grant = memory.TryReserve(size * factor + kBytesFree);
    if (!grant.ok()) {
      return Status(Code::kExhausted,
                    fmt::format("parse {}: {} bytes in memory, which the budget of {} has no room "
                                "for (more memory: --memory)",
                                what, size * factor, memory.limit_bytes()));
    }
    auto parsed = ParseThriftStruct(bytes, what, {.memory_bytes_max = grant->size_bytes()});
    if (!parsed.ok()) {
      if (parsed.status().code() == Code::kExhausted) continue;
      return parsed.status();
    }
    ChargedThrift charged{.value = std::move(parsed->value), .grant = std::move(grant).value()};
    // Most were expected to be larger.
    if (auto own = memory.TryReserve(TreeBytes(charged.value)); own.ok()) {
      charged.grant = std::move(own).value();
    }
    return charged;
  }
  return Status(Code::kInternal, fmt::format("parse {}: a tree without a limit", what));
}

int64_t TreeBytes(const ThriftValue& value) {
  auto bytes = static_cast<int64_t>(sizeof value);
  switch (value.type()) {
    case ThriftType::kBinary:
    case ThriftType::kUuid: {
      static const size_t kInside = std::string().capacity();
      const std::string& text = value.AsBinary();
      if (text.capacity() > kInside) bytes += static_cast<int64_t>(text.capacity()) + 1;
      return bytes;
    }
    case ThriftType::kList:
    case ThriftType::kSet:
    case ThriftType::kMap:
    case ThriftType::kStruct: {
      const auto& items = value.items();
      bytes += static_cast<int64_t>((items.capacity() - items.size()) * sizeof value);
      for (const ThriftValue& item : items) bytes += TreeBytes(item);
      return bytes;
    }
    default:
      return bytes;
  }
}

namespace {

void PutVarint(uint64_t value, std::string& out) {
  while (value >= 0x80) {
    out.push_back(static_cast<char>(value | 0x80));
    value >>= 7;
  }
  out.push_back(static_cast<char>(value));
}

void PutZigzag(int64_t value, std::string& out) {
  PutVarint((static_cast<uint64_t>(value) << 1) ^ static_cast<uint64_t>(value >> 63), out);
}

void PutValue(const ThriftValue& value, std::string& out) {
  switch (value.type()) {
    case ThriftType::kBool:
      out.push_back(value.AsBool() ? kWireTrue : kWireFalse);
      return;
    case ThriftType::kByte:
      out.push_back(static_cast<char>(value.AsInt()));
      return;
    case ThriftType::kI16:
    case ThriftType::kI32:
    case ThriftType::kI64:
      PutZigzag(value.AsInt(), out);
      return;
    case ThriftType::kDouble: {
      const auto bits = std::bit_cast<std::array<char, sizeof(double)>>(value.AsDouble());
      out.append(bits.data(), bits.size());
      return;
    }
    case ThriftType::kBinary:
      PutVarint(value.AsBinary().size(), out);
      [[fallthrough]];
    case ThriftType::kUuid:
      out += value.AsBinary();
      return;
    case ThriftType::kList:
    case ThriftType::kSet: {
      const size_t count = value.items().size();
      const int short_count = static_cast<int>(std::min<size_t>(count, 15));
      out.push_back(static_cast<char>(short_count << 4 | WireType(value.element_type())));
      if (count >= 15) PutVarint(count, out);
      for (const ThriftValue& item : value.items()) PutValue(item, out);
      return;
    }
    case ThriftType::kMap: {
      PutVarint(value.items().size() / 2, out);
      if (value.items().empty()) return;
      out.push_back(
          static_cast<char>(WireType(value.key_type()) << 4 | WireType(value.element_type())));
      for (const ThriftValue& item : value.items()) PutValue(item, out);
      return;
    }
    case ThriftType::kStruct:
      AppendThriftStruct(value, out);
      return;
  }
}

}  // namespace

void AppendThriftStruct(const ThriftValue& value, std::string& out) {
  PF_CHECK(value.type() == ThriftType::kStruct, "encode something that is no struct");
  int last_id = 0;
  for (const ThriftValue& field : value.items()) {
    const bool is_bool = field.type() == ThriftType::kBool;
    const uint8_t wire = is_bool && !field.AsBool() ? kWireFalse : WireType(field.type());
    const int delta = field.id() - last_id;
    if (delta >= 1 && delta <= 15) {
      out.push_back(static_cast<char>(delta << 4 | wire));
    } else {
      out.push_back(static_cast<char>(wire));
      PutZigzag(field.id(), out);
    }
    last_id = field.id();
    if (!is_bool) PutValue(field, out);
  }
  out.push_back(static_cast<char>(kWireStop));
}

std::string EncodeThriftStruct(const ThriftValue& value) {
  std::string out;
  AppendThriftStruct(value, out);
  return out;
}

namespace {

bool IsInt(ThriftType type) {
  return type == ThriftType::kByte || type == ThriftType::kI16 || type == ThriftType::kI32 ||
         type == ThriftType::kI64;
}

Status WrongType(int16_t id, std::string_view what) {
  return Status(Code::kCorruption, fmt::format("read {}: field of another type: {}", what, id));
}

Status Missing(int16_t id, std::string_view what) {
  return Status(Code::kCorruption, fmt::format("read {}: field is missing: {}", what, id));
}

}  // namespace

Result<int64_t> RequireInt(const ThriftValue& record, int16_t id, std::string_view what) {
  const ThriftValue* field = record.Find(id);
  if (field == nullptr) return Missing(id, what);
  if (!IsInt(field->type())) return WrongType(id, what);
  return field->AsInt();
}

Result<const ThriftValue*> RequireField(const ThriftValue& record, int16_t id, ThriftType type,
                                        std::string_view what) {
  const ThriftValue* field = record.Find(id);
  if (field == nullptr) return Missing(id, what);
  if (field->type() != type) return WrongType(id, what);
  return field;
}

Result<int64_t> IntOr(const ThriftValue& record, int16_t id, int64_t fallback,
                      std::string_view what) {
  const ThriftValue* field = record.Find(id);
  if (field == nullptr) return fallback;
  if (!IsInt(field->type())) return WrongType(id, what);
  return field->AsInt();
}

bool IsInt(const ThriftValue& value) {
  switch (value.type()) {
    case ThriftType::kByte:
    case ThriftType::kI16:
    case ThriftType::kI32:
    case ThriftType::kI64:
      return true;
    default:
      return false;
  }
}

int64_t IntField(const ThriftValue& record, int16_t id, int64_t fallback) {
  const ThriftValue* field = record.Find(id);
  return field != nullptr && IsInt(*field) ? field->AsInt() : fallback;
}

std::optional<bool> BoolField(const ThriftValue& record, int16_t id) {
  const ThriftValue* field = record.Find(id);
  if (field == nullptr || field->type() != ThriftType::kBool) return std::nullopt;
  return field->AsBool();
}

std::optional<std::string> BytesField(const ThriftValue& record, int16_t id) {
  const ThriftValue* field = record.Find(id);
  if (field == nullptr || field->type() != ThriftType::kBinary) return std::nullopt;
  return field->AsBinary();
}

Result<const std::vector<ThriftValue>*> RequireList(const ThriftValue& record, int16_t id,
                                                    ThriftType element, std::string_view what) {
  PF_ASSIGN(const ThriftValue* field, RequireField(record, id, ThriftType::kList, what));
  if (field->element_type() != element && !field->items().empty()) return WrongType(id, what);
  return &field->items();
}

}  // namespace partforge::data
