#include "data/avro_value.h"

#include <fmt/format.h>

#include <algorithm>

#include "data/raw_bytes.h"

namespace partforge::data {

namespace {

AvroValue::List DecodeItems(const AvroType& item, AvroCursor& cursor) {
  AvroValue::List items;
  cursor.ForItems(item, item.size_bytes_min,
                  [&] { items.push_back(DecodeAvroValue(item, cursor)); });
  return items;
}

AvroValue::Map DecodeMap(const AvroType& value_type, AvroCursor& cursor) {
  AvroValue::Map map;
  cursor.ForItems(value_type, value_type.size_bytes_min + 1, [&] {
    std::string key(cursor.Bytes());
    map.push_back({.key = std::move(key), .value = DecodeAvroValue(value_type, cursor)});
  });
  return map;
}

}  // namespace

AvroValue DecodeAvroValue(const AvroType& type, AvroCursor& cursor) {
  switch (type.kind) {
    case AvroKind::kNull:
      return {};
    case AvroKind::kBoolean:
      return {cursor.Boolean()};
    case AvroKind::kInt:
      return {int64_t{cursor.Int()}};
    case AvroKind::kLong:
      return {cursor.Long()};
    case AvroKind::kFloat:
      return {cursor.Float()};
    case AvroKind::kDouble:
      return {cursor.Double()};
    case AvroKind::kBytes:
    case AvroKind::kString:
      return {std::string(cursor.Bytes())};
    case AvroKind::kFixed:
      return {std::string(cursor.Fixed(static_cast<uint64_t>(type.fixed_size_bytes)))};
    case AvroKind::kEnum:
      return {type.symbols[cursor.Index(type.symbols.size())]};
    case AvroKind::kRecord: {
      AvroValue::List fields;
      fields.reserve(type.fields.size());
      for (const AvroField& field : type.fields) {
        fields.push_back(DecodeAvroValue(*field.type, cursor));
        if (!cursor.ok()) break;
      }
      return {std::move(fields)};
    }
    case AvroKind::kUnion: {
      const size_t branch = cursor.Index(type.branches.size());
      return cursor.ok() ? DecodeAvroValue(*type.branches[branch], cursor) : AvroValue();
    }
    case AvroKind::kArray:
      return {DecodeItems(*type.element, cursor)};
    case AvroKind::kMap:
      return {DecodeMap(*type.element, cursor)};
  }
  return {};
}

void PutAvroLong(int64_t value, std::string& out) {
  uint64_t raw = (static_cast<uint64_t>(value) << 1) ^ static_cast<uint64_t>(value >> 63);
  while (raw >= 0x80) {
    out.push_back(static_cast<char>(raw | 0x80));
    raw >>= 7;
  }
  out.push_back(static_cast<char>(raw));
}

void PutAvroBytes(std::string_view bytes, std::string& out) {
  PutAvroLong(static_cast<int64_t>(bytes.size()), out);
  out += bytes;
}

namespace {

// Whether a value can stand for a type at all; what is inside is found out while encoding.
bool Fits(const AvroType& type, const AvroValue& value) {
  const auto& held = value.value;
  switch (type.kind) {
    case AvroKind::kNull:
      return value.is_null();
    case AvroKind::kBoolean:
      return std::holds_alternative<bool>(held);
    case AvroKind::kInt: {
      const auto* number = std::get_if<int64_t>(&held);
      return number != nullptr && *number == static_cast<int32_t>(*number);
    }
    case AvroKind::kLong:
      return std::holds_alternative<int64_t>(held);
    case AvroKind::kFloat:
      return std::holds_alternative<float>(held);
    case AvroKind::kDouble:
      return std::holds_alternative<double>(held);
    case AvroKind::kBytes:
    case AvroKind::kString:
      return std::holds_alternative<std::string>(held);
    case AvroKind::kFixed: {
      const auto* bytes = std::get_if<std::string>(&held);
      return bytes != nullptr && static_cast<int64_t>(bytes->size()) == type.fixed_size_bytes;
    }
    case AvroKind::kEnum: {
      const auto* symbol = std::get_if<std::string>(&held);
      return symbol != nullptr && std::ranges::count(type.symbols, *symbol) > 0;
    }
    case AvroKind::kRecord: {
      const auto* fields = std::get_if<AvroValue::List>(&held);
      return fields != nullptr && fields->size() == type.fields.size();
    }
    case AvroKind::kUnion:
      return std::ranges::any_of(type.branches,
                                 [&](const AvroType* branch) { return Fits(*branch, value); });
    case AvroKind::kArray:
      return std::holds_alternative<AvroValue::List>(held);
    case AvroKind::kMap:
      return std::holds_alternative<AvroValue::Map>(held);
  }
  return false;
}

}  // namespace

Status EncodeAvroValue(const AvroType& type, const AvroValue& value, std::string& out) {
  if (!Fits(type, value)) {
    return Status(Code::kInvalidArgument,
                  fmt::format("encode an Avro value: it is not of the schema's type: {} {}",
                              static_cast<int>(type.kind), type.name));
  }
  const auto& held = value.value;
  switch (type.kind) {
    case AvroKind::kNull:
      return {};
    case AvroKind::kBoolean:
      out.push_back(std::get<bool>(held) ? '\x01' : '\0');
      return {};
    case AvroKind::kInt:
    case AvroKind::kLong:
      PutAvroLong(std::get<int64_t>(held), out);
      return {};
    case AvroKind::kFloat:
      AppendRaw(std::get<float>(held), out);
      return {};
    case AvroKind::kDouble:
      AppendRaw(std::get<double>(held), out);
      return {};
    case AvroKind::kBytes:
    case AvroKind::kString:
      PutAvroBytes(std::get<std::string>(held), out);
      return {};
    case AvroKind::kFixed:
      out += std::get<std::string>(held);
      return {};
    case AvroKind::kEnum:
      PutAvroLong(
          std::ranges::find(type.symbols, std::get<std::string>(held)) - type.symbols.begin(), out);
      return {};
    case AvroKind::kRecord: {
      const auto& fields = std::get<AvroValue::List>(held);
      for (size_t i = 0; i < fields.size(); ++i) {
        auto status = EncodeAvroValue(*type.fields[i].type, fields[i], out);
        if (!status.ok()) return std::move(status).With(type.fields[i].name);
      }
      return {};
    }
    case AvroKind::kUnion:
      for (size_t i = 0; i < type.branches.size(); ++i) {
        if (!Fits(*type.branches[i], value)) continue;
        PutAvroLong(static_cast<int64_t>(i), out);
        return EncodeAvroValue(*type.branches[i], value, out);
      }
      return {};
    case AvroKind::kArray: {
      const auto& items = std::get<AvroValue::List>(held);
      if (!items.empty()) PutAvroLong(static_cast<int64_t>(items.size()), out);
      for (const AvroValue& item : items) PF_TRY(EncodeAvroValue(*type.element, item, out));
      PutAvroLong(0, out);
      return {};
    }
    case AvroKind::kMap: {
      const auto& entries = std::get<AvroValue::Map>(held);
      if (!entries.empty()) PutAvroLong(static_cast<int64_t>(entries.size()), out);
      for (const auto& [key, entry] : entries) {
        PutAvroBytes(key, out);
        PF_TRY(EncodeAvroValue(*type.element, entry, out));
      }
      PutAvroLong(0, out);
      return {};
    }
  }
  return {};
}

}  // namespace partforge::data
