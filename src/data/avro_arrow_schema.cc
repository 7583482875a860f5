#include "data/avro_arrow_schema.h"

#include <arrow/extension_type.h>
#include <arrow/type.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "data/schema_mapping.h"

namespace partforge::data {

namespace {

constexpr const char* kOriginalName = "iceberg-field-name";
constexpr int32_t kDecimalDigitsMax = 38;

std::shared_ptr<arrow::Field> FieldWithId(const std::string& name,
                                          std::shared_ptr<arrow::DataType> type, bool nullable,
                                          int32_t id) {
  auto field = arrow::field(name, std::move(type), nullable);
  return id < 0 ? field : WithFieldId(field, id);
}

std::shared_ptr<arrow::DataType> MapType(std::shared_ptr<arrow::Field> key,
                                         std::shared_ptr<arrow::Field> value) {
  return std::make_shared<arrow::MapType>(std::move(key), std::move(value));
}

// `nullable` of a union of null and another type, which is returned instead of it.
struct Unwrapped {
  const AvroType* type = nullptr;
  bool nullable = false;
};

Result<Unwrapped> Unwrap(const AvroType& type, const std::string& path) {
  if (type.kind != AvroKind::kUnion) {
    return Unwrapped{.type = &type, .nullable = type.kind == AvroKind::kNull};
  }
  if (type.branches.size() == 1) return Unwrapped{.type = type.branches[0], .nullable = false};
  if (const AvroType* value = type.OptionalOf()) return Unwrapped{.type = value, .nullable = true};
  return Status(Code::kRefused,
                fmt::format("read Avro column: a union of several types: {}", path));
}

Result<arrow::TimeUnit::type> UnitOf(std::string_view logical_type, const std::string& path) {
  if (logical_type.ends_with("-millis")) return arrow::TimeUnit::MILLI;
  if (logical_type.ends_with("-micros")) return arrow::TimeUnit::MICRO;
  if (logical_type.ends_with("-nanos")) return arrow::TimeUnit::NANO;
  return Status(Code::kRefused,
                fmt::format("read Avro column {}: logical type: {}", path, logical_type));
}

class ArrowTypes {
 public:
  explicit ArrowTypes(AvroTimestamps timestamps) : timestamps_(timestamps) {}

  Result<std::shared_ptr<arrow::Field>> Field(const std::string& name, const AvroType& type,
                                              int32_t id, const std::string& path) {
    PF_ASSIGN(const Unwrapped unwrapped, Unwrap(type, path));
    PF_ASSIGN(auto arrow_type, Type(*unwrapped.type, path));
    return FieldWithId(name, std::move(arrow_type), unwrapped.nullable, id);
  }

  Result<arrow::FieldVector> Fields(const AvroType& record, const std::string& path) {
    arrow::FieldVector fields;
    for (const AvroField& field : record.fields) {
      const std::string name = AvroTextAttribute(field.json, kOriginalName).value_or(field.name);
      const std::string field_path = path.empty() ? name : fmt::format("{}.{}", path, name);
      PF_ASSIGN(auto arrow_field, Field(name, *field.type, field.id, field_path));
      fields.push_back(std::move(arrow_field));
    }
    return fields;
  }

 private:
  Result<std::shared_ptr<arrow::DataType>> Type(const AvroType& type, const std::string& path) {
    const std::string& logical = type.logical_type;
    switch (type.kind) {
      case AvroKind::kNull:
        return arrow::null();
      case AvroKind::kBoolean:
        return arrow::boolean();
      case AvroKind::kInt:
        if (logical == "date") return arrow::date32();
        if (logical == "time-millis") return arrow::time32(arrow::TimeUnit::MILLI);
        return arrow::int32();
      case AvroKind::kLong:
        return Long(type, path);
      case AvroKind::kFloat:
        return arrow::float32();
      case AvroKind::kDouble:
        return arrow::float64();
      case AvroKind::kBytes:
        if (logical == "decimal") return Decimal(type, path);
        return arrow::binary();
      case AvroKind::kString:
      case AvroKind::kEnum:
        return arrow::utf8();
      case AvroKind::kFixed:
        if (logical == "decimal") return Decimal(type, path);
        return arrow::fixed_size_binary(static_cast<int32_t>(type.fixed_size_bytes));
      case AvroKind::kRecord: {
        PF_ASSIGN(auto fields, Fields(type, path));
        return arrow::struct_(fields);
      }
      case AvroKind::kArray: {
        if (type.IsMapOfPairs()) return MapOfPairs(*type.element, path);
        PF_ASSIGN(auto element,
                  Field("element", *type.element, type.element_id, path + ".element"));
        return arrow::list(std::move(element));
      }
      case AvroKind::kMap: {
        PF_ASSIGN(auto value, Field("value", *type.element, type.value_id, path + ".value"));
        return MapType(FieldWithId("key", arrow::utf8(), false, type.key_id), std::move(value));
      }
      case AvroKind::kUnion:
        break;
    }
    return Status(Code::kRefused, fmt::format("read Avro column: a union in a union: {}", path));
  }

  Result<std::shared_ptr<arrow::DataType>> Long(const AvroType& type, const std::string& path) {
    const std::string& logical = type.logical_type;
    if (logical == "time-micros" || logical == "time-nanos") {
      PF_ASSIGN(const auto unit, UnitOf(logical, path));
      return arrow::time64(unit);
    }
    const bool is_local = logical.starts_with("local-timestamp-");
    if (!is_local && !logical.starts_with("timestamp-")) return arrow::int64();
    PF_ASSIGN(const auto unit, UnitOf(logical, path));
    bool is_instant = AvroBoolAttribute(type.json, "adjust-to-utc").value_or(!is_local);
    if (timestamps_ == AvroTimestamps::kSwapped) is_instant = is_local;
    return is_instant ? arrow::timestamp(unit, "UTC") : arrow::timestamp(unit);
  }

  static Result<std::shared_ptr<arrow::DataType>> Decimal(const AvroType& type,
                                                          const std::string& path) {
    const bool is_legal = type.precision >= 1 && type.scale >= 0 && type.scale <= type.precision;
    if (!is_legal || type.precision > kDecimalDigitsMax) {
      return Status(Code::kRefused, fmt::format("read Avro column {}: decimal({}, {})", path,
                                                type.precision, type.scale));
    }
    return arrow::decimal128(type.precision, type.scale);
  }

  Result<std::shared_ptr<arrow::DataType>> MapOfPairs(const AvroType& pair,
                                                      const std::string& path) {
    PF_ASSIGN(auto key, Field("key", *pair.fields[0].type, pair.fields[0].id, path + ".key"));
    PF_ASSIGN(auto value, Field("value", *pair.fields[1].type, pair.fields[1].id, path + ".value"));
    if (key->nullable()) {
      return Status(Code::kRefused, fmt::format("read Avro column: keys may be null: {}", path));
    }
    return MapType(std::move(key), std::move(value));
  }

  const AvroTimestamps timestamps_;
};

}  // namespace

Result<std::shared_ptr<arrow::Schema>> ArrowSchemaOf(const AvroType& record,
                                                     AvroTimestamps timestamps) {
  PF_ASSIGN(auto fields, ArrowTypes(timestamps).Fields(record, ""));
  return arrow::schema(std::move(fields));
}

std::string AvroSafeName(const std::string& name) {
  std::string safe;
  for (size_t i = 0; i < name.size(); ++i) {
    const auto unit = static_cast<unsigned char>(name[i]);
    const bool is_digit = unit >= '0' && unit <= '9';
    const bool is_letter = (unit | 0x20) >= 'a' && (unit | 0x20) <= 'z';
    if (i == 0 && is_digit) safe += '_';
    if (is_digit || is_letter || unit == '_') {
      safe += name[i];
      continue;
    }
    // Beyond ASCII: decode UTF-8 and write UTF-16 code units, which is what Java's names are made
    // of.
    if (unit < 0x80) {
      safe += fmt::format("_x{:X}", unit);
      continue;
    }
    const size_t length = unit >= 0xf0 ? 4 : unit >= 0xe0 ? 3 : 2;
    uint32_t point = unit & (0xffu >> (length + 1));
    for (size_t k = 1; k < length && i + 1 < name.size(); ++k) {
      point = point << 6 | (static_cast<unsigned char>(name[++i]) & 0x3fu);
    }
    if (point >= 0x10000) {
      point -= 0x10000;
      safe += fmt::format("_x{:X}_x{:X}", 0xd800 + (point >> 10), 0xdc00 + (point & 0x3ff));
    } else {
      safe += fmt::format("_x{:X}", point);
    }
  }
  return safe;
}

namespace {

// Fewest bytes that hold every unscaled value of that many digits.
int DecimalBytes(int digits) {
  constexpr std::array<int, 39> kBytes = {1,  1,  1,  2,  2,  3,  3,  4,  4,  4,  5,  5,  6,
                                          6,  6,  7,  7,  8,  8,  9,  9,  9,  10, 10, 11, 11,
                                          11, 12, 12, 13, 13, 13, 14, 14, 15, 15, 16, 16, 16};
  return kBytes[static_cast<size_t>(digits)];
}

class AvroTypes {
 public:
  explicit AvroTypes(const AvroSchemaStyle& style) : style_(style) {}

  Result<JsonDoc> Record(const std::string& name, const arrow::FieldVector& fields) {
    JsonDoc json = {{"type", "record"}, {"name", name}, {"fields", JsonDoc::array()}};
    for (const auto& field : fields) {
      PF_ASSIGN(JsonDoc type, Nullable(*field, name));
      const std::string safe = AvroSafeName(field->name());
      JsonDoc field_json = {{"name", safe}, {"type", std::move(type)}};
      if (field->nullable()) field_json["default"] = nullptr;
      if (safe != field->name()) field_json[kOriginalName] = field->name();
      if (FieldIdOf(*field) >= 0) field_json["field-id"] = FieldIdOf(*field);
      json["fields"].push_back(std::move(field_json));
    }
    return json;
  }

 private:
  Result<JsonDoc> Nullable(const arrow::Field& field, const std::string& parent) {
    PF_ASSIGN(JsonDoc type, Type(field, parent));
    if (!field.nullable() || type == "null") return type;
    return JsonDoc::array({"null", std::move(type)});
  }

  Result<std::string> RecordName(const arrow::Field& field, const std::string& parent) {
    if (style_.names == AvroSchemaStyle::Names::kPaths) {
      return parent + "_" + AvroSafeName(field.name());
    }
    if (FieldIdOf(field) >= 0) return fmt::format("r{}", FieldIdOf(field));
    return Status(Code::kInvalidArgument,
                  fmt::format("make Avro schema: nested column without id: {}", field.name()));
  }

  // A fixed type is written out once and named afterwards.
  JsonDoc Fixed(const std::string& name, int size, const JsonDoc& attributes) {
    if (std::ranges::count(named_, name) > 0) return name;
    named_.push_back(name);
    JsonDoc json = {{"type", "fixed"}, {"name", name}, {"size", size}};
    json.update(attributes);
    return json;
  }

  JsonDoc Decimal(const arrow::Decimal128Type& type) {
    const JsonDoc attributes = {
        {"logicalType", "decimal"}, {"precision", type.precision()}, {"scale", type.scale()}};
    if (style_.decimals == AvroSchemaStyle::Decimals::kFixed) {
      return Fixed(fmt::format("decimal_{}_{}", type.precision(), type.scale()),
                   DecimalBytes(type.precision()), attributes);
    }
    JsonDoc json = {{"type", "bytes"}};
    json.update(attributes);
    return json;
  }

  Result<JsonDoc> Timestamp(const arrow::TimestampType& type, const arrow::Field& field) {
    const bool is_instant = !type.timezone().empty();
    std::string_view unit = "";
    switch (type.unit()) {
      case arrow::TimeUnit::MILLI:
        unit = "millis";
        break;
      case arrow::TimeUnit::MICRO:
        unit = "micros";
        break;
      case arrow::TimeUnit::NANO:
        unit = "nanos";
        break;
      case arrow::TimeUnit::SECOND:
        return Unsupported(field);
    }
    if (style_.timestamps == AvroTimestamps::kSwapped) {
      return JsonDoc{
          {"type", "long"},
          {"logicalType", fmt::format("{}timestamp-{}", is_instant ? "local-" : "", unit)}};
    }
    return JsonDoc{{"type", "long"},
                   {"logicalType", fmt::format("timestamp-{}", unit)},
                   {"adjust-to-utc", is_instant}};
  }

  static Status Unsupported(const arrow::Field& field) {
    return Status(Code::kRefused, fmt::format("make Avro schema: column {} has no Avro form: {}",
                                              field.name(), field.type()->ToString()));
  }

  Result<JsonDoc> List(const arrow::Field& field, const arrow::Field& element,
                       const std::string& parent) {
    PF_ASSIGN(const std::string name, ElementParent(field, parent));
    PF_ASSIGN(JsonDoc items, Nullable(element, name));
    JsonDoc json = {{"type", "array"}, {"items", std::move(items)}};
    if (FieldIdOf(element) >= 0) json["element-id"] = FieldIdOf(element);
    return json;
  }

  // Names below lists and maps come after the column's own.
  Result<std::string> ElementParent(const arrow::Field& field, const std::string& parent) {
    if (style_.names == AvroSchemaStyle::Names::kIds) return parent;
    return RecordName(field, parent);
  }

  Result<JsonDoc> Map(const arrow::Field& field, const arrow::MapType& type,
                      const std::string& parent) {
    const arrow::Field& key = *type.key_field();
    const arrow::Field& value = *type.item_field();
    PF_ASSIGN(const std::string name, ElementParent(field, parent));
    if (key.type()->id() == arrow::Type::STRING) {
      PF_ASSIGN(JsonDoc values, Nullable(value, name));
      JsonDoc json = {{"type", "map"}, {"values", std::move(values)}};
      if (FieldIdOf(key) >= 0) json["key-id"] = FieldIdOf(key);
      if (FieldIdOf(value) >= 0) json["value-id"] = FieldIdOf(value);
      return json;
    }
    const std::string pair_name = style_.names == AvroSchemaStyle::Names::kIds
                                      ? fmt::format("k{}_v{}", FieldIdOf(key), FieldIdOf(value))
                                      : name;
    PF_ASSIGN(JsonDoc pair, Record(pair_name, {key.WithName("key"), value.WithName("value")}));
    return JsonDoc{{"type", "array"}, {"items", std::move(pair)}, {"logicalType", "map"}};
  }

  Result<JsonDoc> Type(const arrow::Field& field, const std::string& parent) {
    const arrow::DataType& type = *field.type();
    switch (type.id()) {
      case arrow::Type::NA:
        return JsonDoc("null");
      case arrow::Type::BOOL:
        return JsonDoc("boolean");
      case arrow::Type::INT8:
      case arrow::Type::INT16:
      case arrow::Type::INT32:
        return JsonDoc("int");
      case arrow::Type::INT64:
        return JsonDoc("long");
      case arrow::Type::FLOAT:
        return JsonDoc("float");
      case arrow::Type::DOUBLE:
        return JsonDoc("double");
      case arrow::Type::STRING:
      case arrow::Type::LARGE_STRING:
        return JsonDoc("string");
      case arrow::Type::BINARY:
      case arrow::Type::LARGE_BINARY:
        return JsonDoc("bytes");
      case arrow::Type::DATE32:
        return JsonDoc{{"type", "int"}, {"logicalType", "date"}};
      case arrow::Type::TIME32:
        if (static_cast<const arrow::Time32Type&>(type).unit() != arrow::TimeUnit::MILLI) {
          return Unsupported(field);
        }
        return JsonDoc{{"type", "int"}, {"logicalType", "time-millis"}};
      case arrow::Type::TIME64:
        if (static_cast<const arrow::Time64Type&>(type).unit() != arrow::TimeUnit::MICRO) {
          return Unsupported(field);
        }
        return JsonDoc{{"type", "long"}, {"logicalType", "time-micros"}};
      case arrow::Type::TIMESTAMP:
        return Timestamp(static_cast<const arrow::TimestampType&>(type), field);
      case arrow::Type::DECIMAL128:
        return Decimal(static_cast<const arrow::Decimal128Type&>(type));
      case arrow::Type::FIXED_SIZE_BINARY: {
        const int size = static_cast<const arrow::FixedSizeBinaryType&>(type).byte_width();
        return Fixed(fmt::format("fixed_{}", size), size, JsonDoc::object());
      }
      case arrow::Type::STRUCT: {
        PF_ASSIGN(const std::string name, RecordName(field, parent));
        return Record(name, type.fields());
      }
      case arrow::Type::LIST:
        return List(field, *static_cast<const arrow::ListType&>(type).value_field(), parent);
      case arrow::Type::MAP:
        return Map(field, static_cast<const arrow::MapType&>(type), parent);
      case arrow::Type::EXTENSION:
        return Extension(field, parent);
      default:
        return Unsupported(field);
    }
  }

  Result<JsonDoc> Extension(const arrow::Field& field, const std::string& parent) {
    const auto& type = static_cast<const arrow::ExtensionType&>(*field.type());
    if (type.extension_name() == "arrow.uuid") {
      return Fixed("uuid_fixed", 16, {{"logicalType", "uuid"}});
    }
    return Type(*field.WithType(type.storage_type()), parent);
  }

  const AvroSchemaStyle& style_;
  std::vector<std::string> named_;
};

}  // namespace

Result<std::string> AvroSchemaOf(const arrow::Schema& schema, const AvroSchemaStyle& style) {
  PF_ASSIGN(const JsonDoc json, AvroTypes(style).Record(style.root_name, schema.fields()));
  return DumpJson(json);
}

}  // namespace partforge::data
