#include "data/type_mapping.h"

#include <arrow/type.h>

namespace partforge::data {
namespace {

using arrow::Type;
using Change = std::function<TypePtr(const TypePtr&)>;

std::shared_ptr<arrow::Schema> MapSchema(const std::shared_ptr<arrow::Schema>& schema,
                                         const Change& change) {
  arrow::FieldVector fields;
  bool is_same = true;
  for (const auto& field : schema->fields()) {
    const TypePtr mapped = MapTypes(field->type(), change);
    is_same = is_same && mapped == field->type();
    fields.push_back(mapped == field->type() ? field : field->WithType(mapped));
  }
  return is_same ? schema : arrow::schema(std::move(fields), schema->metadata());
}

}  // namespace

TypePtr WithFields(const TypePtr& type, const arrow::FieldVector& fields) {
  switch (type->id()) {
    case Type::STRUCT:
      return arrow::struct_(fields);
    case Type::LIST:
      return arrow::list(fields[0]);
    case Type::LARGE_LIST:
      return arrow::large_list(fields[0]);
    case Type::FIXED_SIZE_LIST:
      return arrow::fixed_size_list(
          fields[0], static_cast<const arrow::FixedSizeListType&>(*type).list_size());
    case Type::MAP:
      return std::make_shared<arrow::MapType>(
          fields[0], static_cast<const arrow::MapType&>(*type).keys_sorted());
    default:
      return type;
  }
}

TypePtr MapTypes(const TypePtr& type, const Change& change) {
  const TypePtr changed = change(type);
  if (changed->id() == Type::DICTIONARY) {
    const auto& dictionary = static_cast<const arrow::DictionaryType&>(*changed);
    const TypePtr value = MapTypes(dictionary.value_type(), change);
    return value == dictionary.value_type()
               ? changed
               : arrow::dictionary(dictionary.index_type(), value, dictionary.ordered());
  }
  arrow::FieldVector fields;
  bool is_same = true;
  for (const auto& field : changed->fields()) {
    const TypePtr mapped = MapTypes(field->type(), change);
    is_same = is_same && mapped == field->type();
    fields.push_back(field->WithType(mapped));
  }
  return is_same ? changed : WithFields(changed, fields);
}

std::shared_ptr<arrow::Schema> WithoutDictionaries(const std::shared_ptr<arrow::Schema>& schema) {
  return MapSchema(schema, [](const TypePtr& type) {
    return type->id() == Type::DICTIONARY
               ? static_cast<const arrow::DictionaryType&>(*type).value_type()
               : type;
  });
}

std::shared_ptr<arrow::Schema> WithoutViews(const std::shared_ptr<arrow::Schema>& schema) {
  return MapSchema(schema, [](const TypePtr& type) -> TypePtr {
    switch (type->id()) {
      case Type::STRING_VIEW:
        return arrow::utf8();
      case Type::BINARY_VIEW:
        return arrow::binary();
      case Type::LIST_VIEW:
        return arrow::list(type->field(0));
      case Type::LARGE_LIST_VIEW:
        return arrow::large_list(type->field(0));
      default:
        return type;
    }
  });
}

}  // namespace partforge::data
