#include "app/avro_record.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <span>

#include "app/output.h"
#include "app/scalar_text.h"

namespace partforge::app {
namespace {

using data::AvroKind;
using data::AvroType;
using data::AvroValue;
using data::Scalar;

// Whether a value may be of the type, going by its kind alone.
bool MayBeOf(const AvroType& type, const AvroValue& value) {
  switch (type.kind) {
    case AvroKind::kNull:
      return value.is_null();
    case AvroKind::kBoolean:
      return std::holds_alternative<bool>(value.value);
    case AvroKind::kInt:
    case AvroKind::kLong:
      return std::holds_alternative<int64_t>(value.value);
    case AvroKind::kFloat:
      return std::holds_alternative<float>(value.value);
    case AvroKind::kDouble:
      return std::holds_alternative<double>(value.value);
    case AvroKind::kBytes:
    case AvroKind::kString:
    case AvroKind::kEnum:
    case AvroKind::kFixed:
      return std::holds_alternative<std::string>(value.value);
    case AvroKind::kRecord: {
      const auto* const fields = std::get_if<AvroValue::List>(&value.value);
      return fields != nullptr && fields->size() == type.fields.size();
    }
    case AvroKind::kArray:
      return std::holds_alternative<AvroValue::List>(value.value);
    case AvroKind::kMap:
      return std::holds_alternative<AvroValue::Map>(value.value);
    case AvroKind::kUnion:
      return false;  // a union holds no union
  }
  return false;
}

// "timestamp(us, utc)" for the logical type timestamp-micros; as ScalarText has it.
std::string ScalarTypeOf(const AvroType& type) {
  const std::string_view logical = type.logical_type;
  if (logical == "date") return "date";
  if (logical == "decimal") return fmt::format("decimal({},{})", type.precision, type.scale);
  const bool is_local = logical.starts_with("local-timestamp-");
  if (!is_local && !logical.starts_with("timestamp-")) return "";
  const char* const unit = logical.ends_with("-millis")   ? "ms"
                           : logical.ends_with("-micros") ? "us"
                                                          : "ns";
  return fmt::format("timestamp({}{})", unit, is_local ? "" : ", utc");
}

JsonDoc TextJson(const AvroType& type, const std::string& bytes) {
  if (type.kind == AvroKind::kString || type.kind == AvroKind::kEnum) return Printable(bytes);
  if (type.logical_type == "decimal") {
    const auto unscaled =
        data::FromBigEndian(std::as_bytes(std::span(bytes)), "a decimal of a record");
    if (unscaled.ok()) return ScalarText(Scalar::Decimal(*unscaled), ScalarTypeOf(type));
  }
  return ScalarText(Scalar::Bytes(bytes), "");
}

JsonDoc ListJson(const AvroType& type, const AvroValue::List& items) {
  if (type.kind == AvroKind::kArray) {
    JsonDoc array = JsonDoc::array();
    for (const AvroValue& item : items) array.push_back(AvroRecordJson(*type.element, item));
    return array;
  }
  JsonDoc object = JsonDoc::object();
  for (size_t i = 0; i < items.size() && i < type.fields.size(); ++i) {
    object[Printable(type.fields[i].name)] = AvroRecordJson(*type.fields[i].type, items[i]);
  }
  return object;
}

}  // namespace

JsonDoc AvroRecordJson(const AvroType& type, const AvroValue& value) {
  if (value.is_null()) return nullptr;
  if (type.kind == AvroKind::kUnion) {
    for (const AvroType* const branch : type.branches) {
      if (MayBeOf(*branch, value)) return AvroRecordJson(*branch, value);
    }
    return nullptr;
  }
  if (const auto* const flag = std::get_if<bool>(&value.value)) return *flag;
  if (const auto* const number = std::get_if<int64_t>(&value.value)) {
    return ScalarJson(Scalar::Int64(*number), ScalarTypeOf(type));
  }
  if (const auto* const real = std::get_if<float>(&value.value)) {
    return ScalarJson(Scalar::Float(*real), "");
  }
  if (const auto* const real = std::get_if<double>(&value.value)) {
    return ScalarJson(Scalar::Double(*real), "");
  }
  if (const auto* const bytes = std::get_if<std::string>(&value.value)) {
    return TextJson(type, *bytes);
  }
  if (const auto* const items = std::get_if<AvroValue::List>(&value.value)) {
    return ListJson(type, *items);
  }
  JsonDoc object = JsonDoc::object();
  for (const data::AvroMapEntry& entry : std::get<AvroValue::Map>(value.value)) {
    object[Printable(entry.key)] = AvroRecordJson(*type.element, entry.value);
  }
  return object;
}

}  // namespace partforge::app
