#include "data/avro_schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

namespace partforge::data {

const AvroType* AvroType::OptionalOf() const {
  const int null_branch = NullBranch();
  if (null_branch < 0 || branches.size() != 2) return nullptr;
  return branches[static_cast<size_t>(1 - null_branch)];
}

int AvroType::NullBranch() const {
  if (kind != AvroKind::kUnion) return -1;
  for (size_t i = 0; i < branches.size(); ++i) {
    if (branches[i]->kind == AvroKind::kNull) return static_cast<int>(i);
  }
  return -1;
}

bool AvroType::IsMapOfPairs() const {
  return kind == AvroKind::kArray && logical_type == "map" && element->kind == AvroKind::kRecord &&
         element->fields.size() == 2;
}

struct AvroSchema::Nodes {
  JsonDoc doc;
  std::deque<AvroType> types;  // stable addresses
};

namespace {

struct KindName {
  std::string_view name;
  AvroKind kind;
};
constexpr std::array kPrimitives = {
    KindName{"null", AvroKind::kNull},   KindName{"boolean", AvroKind::kBoolean},
    KindName{"int", AvroKind::kInt},     KindName{"long", AvroKind::kLong},
    KindName{"float", AvroKind::kFloat}, KindName{"double", AvroKind::kDouble},
    KindName{"bytes", AvroKind::kBytes}, KindName{"string", AvroKind::kString}};

constexpr int64_t kFixedBytesMax = int64_t{1} << 28;

Status Corrupt(std::string_view found, std::string_view value) {
  return Status(Code::kCorruption, fmt::format("parse Avro schema: {}: {}", found, value));
}

const JsonDoc* Member(const JsonDoc& object, std::string_view name) {
  const auto found = object.find(name);
  return found == object.end() ? nullptr : &*found;
}

// An integer attribute that fits 32 bits; the fallback when it is absent or something else, as
// attributes are free for anyone to use.
int32_t IntAttribute(const JsonDoc& object, std::string_view name, int32_t fallback) {
  const JsonDoc* value = Member(object, name);
  if (value == nullptr || !value->is_number_integer()) return fallback;
  const auto number = value->get<int64_t>();
  const bool fits = number >= std::numeric_limits<int32_t>::min() &&
                    number <= std::numeric_limits<int32_t>::max();
  return fits ? static_cast<int32_t>(number) : fallback;
}

Result<std::string> RequireText(const JsonDoc& object, std::string_view name) {
  const JsonDoc* value = Member(object, name);
  if (value == nullptr || !value->is_string())
    return Corrupt("attribute is missing or no text", name);
  return value->get<std::string>();
}

Result<std::vector<std::string>> Texts(const JsonDoc& object, std::string_view name) {
  std::vector<std::string> texts;
  const JsonDoc* value = Member(object, name);
  if (value == nullptr) return texts;
  if (!value->is_array()) return Corrupt("attribute is no list", name);
  for (const JsonDoc& item : *value) {
    if (!item.is_string()) return Corrupt("attribute is no list of texts", name);
    texts.push_back(item.get<std::string>());
  }
  return texts;
}

int64_t Bounded(int64_t value) {
  return std::min(value, int64_t{1} << 40);
}

class SchemaParser {
 public:
  explicit SchemaParser(std::deque<AvroType>& types) : types_(types) {}

  Result<const AvroType*> Type(const JsonDoc& json, const std::string& space, int depth) {
    if (depth > kAvroDepthMax)
      return Corrupt("nesting is deeper than", std::to_string(kAvroDepthMax));
    if (json.is_string()) return Named(json.get<std::string>(), space);
    if (json.is_array()) return Union(json, space, depth);
    if (!json.is_object()) return Corrupt("a type is neither name, list nor object", json.dump());
    const JsonDoc* inner = Member(json, "type");
    if (inner == nullptr) return Corrupt("a type object has no type", json.dump().substr(0, 100));
    if (!inner->is_string()) return Type(*inner, space, depth + 1);
    const auto name = inner->get<std::string>();
    if (name == "record" || name == "error") return Record(json, space, depth);
    if (name == "enum") return Enum(json, space);
    if (name == "fixed") return Fixed(json, space);
    if (name == "array") return Array(json, space, depth);
    if (name == "map") return Map(json, space, depth);
    const auto primitive = std::ranges::find(kPrimitives, name, &KindName::name);
    if (primitive == kPrimitives.end()) return Named(name, space);
    PF_ASSIGN(AvroType * type, New(primitive->kind, &json));
    return Sized(*type);
  }

 private:
  // Nodes are made within the limit only, so that a huge schema ends early.
  Result<AvroType*> New(AvroKind kind, const JsonDoc* json) {
    if (static_cast<int64_t>(types_.size()) >= kAvroStepsMax) {
      return Corrupt("more types than", std::to_string(kAvroStepsMax));
    }
    AvroType& type = types_.emplace_back();
    type.kind = kind;
    type.json = json;
    if (json != nullptr && json->is_object()) {
      if (const JsonDoc* logical = Member(*json, "logicalType"); logical && logical->is_string()) {
        type.logical_type = logical->get<std::string>();
      }
      type.precision = IntAttribute(*json, "precision", 0);
      type.scale = IntAttribute(*json, "scale", 0);
      type.element_id = IntAttribute(*json, "element-id", -1);
      type.key_id = IntAttribute(*json, "key-id", -1);
      type.value_id = IntAttribute(*json, "value-id", -1);
    }
    return &type;
  }

  Result<const AvroType*> Named(const std::string& name, const std::string& space) {
    const auto primitive = std::ranges::find(kPrimitives, name, &KindName::name);
    if (primitive != kPrimitives.end()) {
      const AvroType*& shared = bare_[primitive->kind];
      if (shared == nullptr) {
        PF_ASSIGN(AvroType * type, New(primitive->kind, nullptr));
        PF_ASSIGN(shared, Sized(*type));
      }
      return shared;
    }
    auto found = named_.find(FullName(name, space));
    if (found == named_.end()) found = named_.find(name);
    if (found == named_.end()) return Corrupt("unknown type", name);
    if (open_.contains(found->first)) {
      return Status(Code::kRefused,
                    fmt::format("parse Avro schema: a type contains itself: {}", found->first));
    }
    return found->second;
  }

  static std::string FullName(const std::string& name, const std::string& space) {
    return space.empty() || name.find('.') != std::string::npos ? name : space + "." + name;
  }

  // Enters the full name of a new named type; returns the name space for what is inside.
  Result<std::string> Enter(const JsonDoc& json, const std::string& space, AvroType& type) {
    PF_ASSIGN(const std::string name, RequireText(json, "name"));
    std::string own_space = space;
    if (const JsonDoc* given = Member(json, "namespace"); given && given->is_string()) {
      own_space = given->get<std::string>();
    }
    type.name = FullName(name, own_space);
    if (!named_.emplace(type.name, &type).second) return Corrupt("type stands twice", type.name);
    const size_t dot = type.name.rfind('.');
    return dot == std::string::npos ? "" : type.name.substr(0, dot);
  }

  Result<const AvroType*> Record(const JsonDoc& json, const std::string& space, int depth) {
    PF_ASSIGN(AvroType * type, New(AvroKind::kRecord, &json));
    PF_ASSIGN(const std::string inner_space, Enter(json, space, *type));
    open_.insert(type->name);
    const JsonDoc* fields = Member(json, "fields");
    if (fields == nullptr || !fields->is_array())
      return Corrupt("record without fields", type->name);
    std::set<std::string> names;
    for (const JsonDoc& field_json : *fields) {
      if (!field_json.is_object()) return Corrupt("a field is no object in", type->name);
      const JsonDoc* field_type = Member(field_json, "type");
      if (field_type == nullptr) return Corrupt("a field has no type in", type->name);
      AvroField field;
      PF_ASSIGN(field.name, RequireText(field_json, "name"));
      if (!names.insert(field.name).second) return Corrupt("field stands twice", field.name);
      PF_ASSIGN(field.aliases, Texts(field_json, "aliases"));
      field.id = IntAttribute(field_json, "field-id", -1);
      field.json = &field_json;
      PF_ASSIGN(field.type, Type(*field_type, inner_space, depth + 1));
      type->fields.push_back(std::move(field));
    }
    open_.erase(type->name);
    return Sized(*type);
  }

  Result<const AvroType*> Enum(const JsonDoc& json, const std::string& space) {
    PF_ASSIGN(AvroType * type, New(AvroKind::kEnum, &json));
    PF_TRY(Enter(json, space, *type));
    PF_ASSIGN(type->symbols, Texts(json, "symbols"));
    if (type->symbols.empty()) return Corrupt("enum without symbols", type->name);
    return Sized(*type);
  }

  Result<const AvroType*> Fixed(const JsonDoc& json, const std::string& space) {
    PF_ASSIGN(AvroType * type, New(AvroKind::kFixed, &json));
    PF_TRY(Enter(json, space, *type));
    type->fixed_size_bytes = IntAttribute(json, "size", -1);
    if (type->fixed_size_bytes < 0 || type->fixed_size_bytes > kFixedBytesMax) {
      return Corrupt("size of a fixed type", std::to_string(type->fixed_size_bytes));
    }
    return Sized(*type);
  }

  Result<const AvroType*> Array(const JsonDoc& json, const std::string& space, int depth) {
    PF_ASSIGN(AvroType * type, New(AvroKind::kArray, &json));
    const JsonDoc* items = Member(json, "items");
    if (items == nullptr) return Corrupt("array without items", "");
    PF_ASSIGN(type->element, Type(*items, space, depth + 1));
    return Sized(*type);
  }

  Result<const AvroType*> Map(const JsonDoc& json, const std::string& space, int depth) {
    PF_ASSIGN(AvroType * type, New(AvroKind::kMap, &json));
    const JsonDoc* values = Member(json, "values");
    if (values == nullptr) return Corrupt("map without values", "");
    PF_ASSIGN(type->element, Type(*values, space, depth + 1));
    return Sized(*type);
  }

  Result<const AvroType*> Union(const JsonDoc& json, const std::string& space, int depth) {
    PF_ASSIGN(AvroType * type, New(AvroKind::kUnion, nullptr));
    for (const JsonDoc& branch : json) {
      if (branch.is_array()) return Corrupt("a union within a union", branch.dump().substr(0, 100));
      PF_ASSIGN(const AvroType* branch_type, Type(branch, space, depth + 1));
      type->branches.push_back(branch_type);
    }
    if (type->branches.empty()) return Corrupt("union without branches", "[]");
    return Sized(*type);
  }

  // A record is passed over at once when all its fields are of one sort.
  static void FlattenRecord(AvroType& type) {
    type.varint_count = 0;
    type.exact_bytes = 0;
    for (const AvroField& field : type.fields) {
      const AvroType& inner = *field.type;
      const bool has_varints = type.varint_count >= 0 && inner.varint_count >= 0;
      const bool has_bytes = type.exact_bytes >= 0 && inner.exact_bytes >= 0;
      type.varint_count = has_varints ? Bounded(type.varint_count + inner.varint_count) : -1;
      type.exact_bytes = has_bytes ? Bounded(type.exact_bytes + inner.exact_bytes) : -1;
    }
  }

  // Computes the sizes of a finished node and holds them against the limits: a type that names
  // others over and over can stand for more steps than there are atoms.
  static Result<const AvroType*> Sized(AvroType& type) {
    switch (type.kind) {
      case AvroKind::kNull:
        type.empty_count = 1;
        type.varint_count = 0;
        type.exact_bytes = 0;
        break;
      case AvroKind::kFixed:
        type.size_bytes_min = type.exact_bytes = type.fixed_size_bytes;
        type.empty_count = type.fixed_size_bytes == 0 ? 1 : 0;
        break;
      case AvroKind::kBoolean:
        type.size_bytes_min = type.exact_bytes = 1;
        break;
      case AvroKind::kFloat:
        type.size_bytes_min = type.exact_bytes = 4;
        break;
      case AvroKind::kDouble:
        type.size_bytes_min = type.exact_bytes = 8;
        break;
      case AvroKind::kInt:
      case AvroKind::kLong:
      case AvroKind::kEnum:
        type.size_bytes_min = type.varint_count = 1;
        break;
      case AvroKind::kRecord:
        FlattenRecord(type);
        type.empty_count = type.fields.empty() ? 1 : 0;
        for (const AvroField& field : type.fields) {
          type.size_bytes_min = Bounded(type.size_bytes_min + field.type->size_bytes_min);
          type.step_count = Bounded(type.step_count + field.type->step_count);
          type.empty_count = Bounded(type.empty_count + field.type->empty_count);
        }
        break;
      case AvroKind::kUnion: {
        int64_t least = std::numeric_limits<int64_t>::max();
        for (const AvroType* branch : type.branches) {
          least = std::min(least, branch->size_bytes_min);
          type.step_count = Bounded(type.step_count + branch->step_count);
          type.empty_count = std::max(type.empty_count, branch->empty_count - 1);
        }
        type.size_bytes_min = 1 + least;
        break;
      }
      case AvroKind::kArray:
      case AvroKind::kMap:
        type.size_bytes_min = 1;
        type.step_count = Bounded(type.step_count + type.element->step_count);
        break;
      case AvroKind::kBytes:
      case AvroKind::kString:
        type.size_bytes_min = 1;
        break;
    }
    if (type.step_count > kAvroStepsMax) {
      return Corrupt("more types, written out, than", std::to_string(kAvroStepsMax));
    }
    if (type.empty_count > kAvroEmptyMax) {
      return Corrupt("more types without bytes than", std::to_string(kAvroEmptyMax));
    }
    return &type;
  }

  std::deque<AvroType>& types_;
  std::map<AvroKind, const AvroType*> bare_;
  std::map<std::string, const AvroType*> named_;
  std::set<std::string> open_;
};

}  // namespace

Result<AvroSchema> AvroSchema::Parse(std::string_view text) {
  if (static_cast<int64_t>(text.size()) > kAvroSchemaBytesMax) {
    return Corrupt("text is longer than its limit", std::to_string(text.size()));
  }
  auto nodes = std::make_shared<Nodes>();
  auto doc = ParseJson(text);
  if (!doc.ok()) return std::move(doc).status().With("parse Avro schema");
  nodes->doc = std::move(doc).value();
  SchemaParser parser(nodes->types);
  AvroSchema schema;
  PF_ASSIGN(schema.root_, parser.Type(nodes->doc, "", 1));
  schema.nodes_ = std::move(nodes);
  schema.text_ = std::make_shared<const std::string>(text);
  return schema;
}

const AvroType* AvroSchema::RootRecord() const {
  const AvroType* type = root_->kind == AvroKind::kUnion ? root_->OptionalOf() : root_;
  return type != nullptr && type->kind == AvroKind::kRecord ? type : nullptr;
}

const AvroField* FindAvroField(const AvroType& record, const FieldRef& ref,
                               const std::vector<std::string>& aliases) {
  if (ref.id >= 0) {
    const auto by_id = std::ranges::find(record.fields, ref.id, &AvroField::id);
    if (by_id != record.fields.end()) return &*by_id;
  }
  const auto has_other_id = [&ref](const AvroField& field) { return ref.id >= 0 && field.id >= 0; };
  const auto by_name = [&](const std::string& name) -> const AvroField* {
    for (const AvroField& field : record.fields) {
      if (!has_other_id(field) && field.name == name) return &field;
    }
    return nullptr;
  };
  if (const AvroField* field = by_name(ref.name)) return field;
  for (const AvroField& field : record.fields) {
    if (!has_other_id(field) && std::ranges::count(field.aliases, ref.name) > 0) return &field;
  }
  for (const std::string& alias : aliases) {
    if (const AvroField* field = by_name(alias)) return field;
  }
  return nullptr;
}

std::optional<std::string> AvroTextAttribute(const JsonDoc* json, std::string_view name) {
  if (json == nullptr || !json->is_object()) return std::nullopt;
  const JsonDoc* value = Member(*json, name);
  if (value == nullptr || !value->is_string()) return std::nullopt;
  return value->get<std::string>();
}

std::optional<bool> AvroBoolAttribute(const JsonDoc* json, std::string_view name) {
  if (json == nullptr || !json->is_object()) return std::nullopt;
  const JsonDoc* value = Member(*json, name);
  if (value == nullptr || !value->is_boolean()) return std::nullopt;
  return value->get<bool>();
}

}  // namespace partforge::data
