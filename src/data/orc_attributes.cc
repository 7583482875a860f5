#include "data/orc_attributes.h"

#include <arrow/type.h>
#include <arrow/util/key_value_metadata.h>

#include "data/schema_mapping.h"

namespace partforge::data {
namespace {

using arrow::Type;

// Exchanges one key of field metadata for another, nested fields included.
std::shared_ptr<arrow::Field> RenameKey(const std::shared_ptr<arrow::Field>& field,
                                        const std::string& from, const std::string& to);

std::shared_ptr<arrow::DataType> RenameKeyInType(const std::shared_ptr<arrow::DataType>& type,
                                                 const std::string& from, const std::string& to) {
  if (type->num_fields() == 0) return type;
  arrow::FieldVector fields;
  for (const auto& child : type->fields()) fields.push_back(RenameKey(child, from, to));
  switch (type->id()) {
    case Type::STRUCT:
      return arrow::struct_(fields);
    case Type::LIST:
      return arrow::list(fields[0]);
    case Type::LARGE_LIST:
      return arrow::large_list(fields[0]);
    case Type::MAP: {
      const auto entries = fields[0]->type()->fields();
      return std::make_shared<arrow::MapType>(entries[0], entries[1]);
    }
    default:
      return type;
  }
}

std::shared_ptr<arrow::Field> RenameKey(const std::shared_ptr<arrow::Field>& field,
                                        const std::string& from, const std::string& to) {
  auto renamed = field->WithType(RenameKeyInType(field->type(), from, to));
  if (field->metadata() == nullptr || from.empty() || to.empty()) return renamed;
  const int at = field->metadata()->FindKey(from);
  if (at < 0) return renamed;
  auto metadata = field->metadata()->Copy();
  const std::string value = metadata->value(at);
  const auto deleted = metadata->Delete(from);
  if (!deleted.ok()) return renamed;
  metadata->Append(to, value);
  return renamed->WithMetadata(std::move(metadata));
}

std::shared_ptr<arrow::Schema> RenameKeys(const arrow::Schema& schema, const std::string& from,
                                          const std::string& to) {
  arrow::FieldVector fields;
  for (const auto& field : schema.fields()) fields.push_back(RenameKey(field, from, to));
  return arrow::schema(std::move(fields));
}

// Adds the attribute that says whether a field may be null.
std::shared_ptr<arrow::Field> WithRequired(const std::shared_ptr<arrow::Field>& field,
                                           const std::string& key) {
  auto typed = field;
  if (field->type()->num_fields() > 0) {
    arrow::FieldVector fields;
    for (const auto& child : field->type()->fields()) fields.push_back(WithRequired(child, key));
    switch (field->type()->id()) {
      case Type::STRUCT:
        typed = field->WithType(arrow::struct_(fields));
        break;
      case Type::LIST:
        typed = field->WithType(arrow::list(fields[0]));
        break;
      case Type::MAP: {
        const auto entries = fields[0]->type()->fields();
        typed = field->WithType(std::make_shared<arrow::MapType>(entries[0], entries[1]));
        break;
      }
      default:
        break;
    }
  }
  return typed->WithMergedMetadata(
      arrow::key_value_metadata({key}, {field->nullable() ? "false" : "true"}));
}

}  // namespace

std::shared_ptr<arrow::Schema> FromOrcSchema(const arrow::Schema& schema,
                                             const OrcAttributes& attributes) {
  return RenameKeys(schema, attributes.id, kFieldIdKey);
}

std::shared_ptr<arrow::Schema> ToOrcSchema(const arrow::Schema& schema,
                                           const OrcAttributes& attributes) {
  arrow::FieldVector fields;
  for (const auto& field : schema.fields()) {
    fields.push_back(attributes.required.empty() ? field
                                                 : WithRequired(field, attributes.required));
  }
  return RenameKeys(*arrow::schema(fields), kFieldIdKey, attributes.id);
}

}  // namespace partforge::data
