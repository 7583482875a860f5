#include "data/orc_attributes.h"

#include <arrow/type.h>
#include <arrow/util/key_value_metadata.h>

#include "data/schema_mapping.h"
#include "data/type_mapping.h"

namespace partforge::data {
namespace {

// Exchanges one key of field metadata for another, nested fields included.
std::shared_ptr<arrow::Field> RenameKey(const std::shared_ptr<arrow::Field>& field,
                                        const std::string& from, const std::string& to);

std::shared_ptr<arrow::DataType> RenameKeyInType(const std::shared_ptr<arrow::DataType>& type,
                                                 const std::string& from, const std::string& to) {
  arrow::FieldVector fields;
  for (const auto& child : type->fields()) fields.push_back(RenameKey(child, from, to));
  return WithFields(type, fields);
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
  arrow::FieldVector fields;
  for (const auto& child : field->type()->fields()) fields.push_back(WithRequired(child, key));
  return field->WithType(WithFields(field->type(), fields))
      ->WithMergedMetadata(
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
