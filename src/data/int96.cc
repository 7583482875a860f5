#include "data/int96.h"

#include <arrow/type.h>
#include <arrow/util/key_value_metadata.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>

namespace partforge::data {
namespace {

using namespace parquet_field;  // NOLINT: names of parquet.thrift
using arrow::Type;
using FieldPtr = std::shared_ptr<arrow::Field>;

constexpr const char* kInt96Key = "partforge.int96";
constexpr int32_t kInt96Bytes = 12;

bool IsInt96(const ThriftValue& record, int16_t type_field) {
  const ThriftValue* type = record.Find(type_field);
  return type != nullptr && type->type() == ThriftType::kI32 &&
         type->AsInt() == static_cast<int64_t>(ParquetType::kInt96);
}

// The field with its leaves changed, depth first.
FieldPtr ChangeLeaves(const FieldPtr& field,
                      const std::function<FieldPtr(const FieldPtr&)>& change) {
  const arrow::DataType& type = *field->type();
  if (type.id() == Type::EXTENSION || type.num_fields() == 0) return change(field);
  arrow::FieldVector children;
  for (const FieldPtr& child : type.fields()) children.push_back(ChangeLeaves(child, change));
  if (children == type.fields()) return field;
  switch (type.id()) {
    case Type::STRUCT:
      return field->WithType(arrow::struct_(std::move(children)));
    case Type::LIST:
      return field->WithType(arrow::list(children[0]));
    case Type::LARGE_LIST:
      return field->WithType(arrow::large_list(children[0]));
    case Type::FIXED_SIZE_LIST:
      return field->WithType(arrow::fixed_size_list(
          children[0], static_cast<const arrow::FixedSizeListType&>(type).list_size()));
    case Type::MAP: {
      const auto entries = children[0]->type();
      return field->WithType(
          std::make_shared<arrow::MapType>(entries->field(0), entries->field(1),
                                           static_cast<const arrow::MapType&>(type).keys_sorted()));
    }
    default:
      return field;
  }
}

std::shared_ptr<arrow::Schema> ChangeLeaves(
    const arrow::Schema& schema, const std::function<FieldPtr(const FieldPtr&)>& change) {
  arrow::FieldVector fields;
  for (const FieldPtr& field : schema.fields()) fields.push_back(ChangeLeaves(field, change));
  return arrow::schema(std::move(fields), schema.metadata());
}

}  // namespace

bool HasInt96(const std::vector<LeafColumn>& columns) {
  return std::any_of(columns.begin(), columns.end(),
                     [](const LeafColumn& column) { return column.type == ParquetType::kInt96; });
}

void Int96ToBytes(ThriftValue& footer) {
  const auto fixed = ThriftValue::I32(static_cast<int32_t>(ParquetType::kFixed));
  for (ThriftValue& element : footer.Find(file_metadata::kSchema)->items()) {
    if (!IsInt96(element, schema_element::kType)) continue;
    element.Set(schema_element::kType, fixed);
    element.Set(schema_element::kTypeLength, ThriftValue::I32(kInt96Bytes));
    element.Remove(schema_element::kConvertedType);
    element.Remove(schema_element::kLogicalType);
  }
  for (ThriftValue& group : footer.Find(file_metadata::kRowGroups)->items()) {
    for (ThriftValue& chunk : group.Find(row_group::kColumns)->items()) {
      ThriftValue* const metadata = chunk.Find(column_chunk::kMetaData);
      if (metadata == nullptr || !IsInt96(*metadata, column_metadata::kType)) continue;
      metadata->Set(column_metadata::kType, fixed);
      metadata->Remove(column_metadata::kStatistics);
    }
  }
}

std::shared_ptr<arrow::Schema> MarkInt96(const arrow::Schema& schema,
                                         const std::vector<LeafColumn>& columns) {
  size_t leaf = 0;
  return ChangeLeaves(schema, [&](const FieldPtr& field) {
    const bool is_int96 = leaf < columns.size() && columns[leaf].type == ParquetType::kInt96 &&
                          field->type()->id() == Type::FIXED_SIZE_BINARY;
    ++leaf;
    if (!is_int96) return field;
    return field->WithMergedMetadata(arrow::key_value_metadata({kInt96Key}, {"1"}));
  });
}

bool IsMarkedInt96(const arrow::Field& field) {
  return field.metadata() != nullptr && field.metadata()->Contains(kInt96Key);
}

std::shared_ptr<arrow::Schema> PlainSchema(const arrow::Schema& schema) {
  return ChangeLeaves(schema, [](const FieldPtr& field) {
    if (IsMarkedInt96(*field)) {
      auto metadata = field->metadata()->Copy();
      const auto status = metadata->Delete(kInt96Key);
      return field->WithType(arrow::timestamp(arrow::TimeUnit::MICRO))
          ->WithMetadata(status.ok() && metadata->size() > 0 ? metadata : nullptr);
    }
    if (field->type()->id() != Type::DICTIONARY) return field;
    return field->WithType(static_cast<const arrow::DictionaryType&>(*field->type()).value_type());
  });
}

Int96Time TimeOfInt96(const uint8_t* bytes, int64_t units_per_second) {
  int64_t nanos_of_day = 0;
  int32_t julian_day = 0;
  std::memcpy(&nanos_of_day, bytes, sizeof nanos_of_day);
  std::memcpy(&julian_day, bytes + sizeof nanos_of_day, sizeof julian_day);
  constexpr int64_t kJulianDayOf1970 = 2'440'588, kDaySeconds = 86'400,
                    kSecondNanos = 1'000'000'000;
  __extension__ using Wide = __int128;
  const Wide nanos =
      static_cast<Wide>(julian_day - kJulianDayOf1970) * kDaySeconds * kSecondNanos + nanos_of_day;
  const int64_t unit_nanos = kSecondNanos / units_per_second;
  Wide units = nanos / unit_nanos;
  Int96Time time;
  if (units * unit_nanos != nanos) {
    time.fit = Int96Time::Fit::kHasMoreDigits;
    if (nanos < 0) --units;
  }
  if (units < std::numeric_limits<int64_t>::min() || units > std::numeric_limits<int64_t>::max()) {
    time.fit = Int96Time::Fit::kTooFar;
    return time;
  }
  time.value = static_cast<int64_t>(units);
  return time;
}

}  // namespace partforge::data
