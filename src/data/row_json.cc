#include "data/row_json.h"

#include <arrow/array.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/hash.h"

namespace partforge::data::testing {
namespace {

using Json = nlohmann::ordered_json;

template <class T>
const T& As(const arrow::Array& array) {
  return static_cast<const T&>(array);
}

Json FloatJson(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  return value;
}

// Digits below a microsecond are a fraction.
Json TimeJson(int64_t value, arrow::TimeUnit::type unit) {
  switch (unit) {
    case arrow::TimeUnit::SECOND:
      return value * 1'000'000;
    case arrow::TimeUnit::MILLI:
      return value * 1'000;
    case arrow::TimeUnit::MICRO:
      return value;
    case arrow::TimeUnit::NANO:
      if (value % 1'000 == 0) return value / 1'000;
      return static_cast<double>(value) / 1'000;
  }
  return nullptr;
}

Json ValueJson(const arrow::Array& array, int64_t row);

Json ItemsJson(const arrow::Array& values, int64_t begin, int64_t end) {
  Json items = Json::array();
  for (int64_t i = begin; i < end; ++i) items.push_back(ValueJson(values, i));
  return items;
}

Json PairsJson(const arrow::MapArray& map, int64_t row) {
  Json pairs = Json::array();
  for (int64_t i = map.value_offset(row); i < map.value_offset(row + 1); ++i) {
    pairs.push_back(Json::array({ValueJson(*map.keys(), i), ValueJson(*map.items(), i)}));
  }
  return pairs;
}

Json StructJson(const arrow::StructArray& record, int64_t row) {
  Json fields = Json::object();
  for (int i = 0; i < record.num_fields(); ++i) {
    fields[record.struct_type()->field(i)->name()] = ValueJson(*record.field(i), row);
  }
  return fields;
}

Json ValueJson(const arrow::Array& array, int64_t row) {
  if (array.IsNull(row)) return nullptr;
  const auto& type = *array.type();
  switch (type.id()) {
    case arrow::Type::BOOL:
      return As<arrow::BooleanArray>(array).Value(row);
    case arrow::Type::INT8:
      return As<arrow::Int8Array>(array).Value(row);
    case arrow::Type::INT16:
      return As<arrow::Int16Array>(array).Value(row);
    case arrow::Type::INT32:
      return As<arrow::Int32Array>(array).Value(row);
    case arrow::Type::INT64:
      return As<arrow::Int64Array>(array).Value(row);
    case arrow::Type::UINT8:
      return As<arrow::UInt8Array>(array).Value(row);
    case arrow::Type::UINT16:
      return As<arrow::UInt16Array>(array).Value(row);
    case arrow::Type::UINT32:
      return As<arrow::UInt32Array>(array).Value(row);
    case arrow::Type::UINT64:
      return As<arrow::UInt64Array>(array).Value(row);
    case arrow::Type::FLOAT:
      return FloatJson(As<arrow::FloatArray>(array).Value(row));
    case arrow::Type::DOUBLE:
      return FloatJson(As<arrow::DoubleArray>(array).Value(row));
    case arrow::Type::DATE32:
      return As<arrow::Date32Array>(array).Value(row);
    case arrow::Type::TIME64:
      return TimeJson(As<arrow::Time64Array>(array).Value(row),
                      static_cast<const arrow::Time64Type&>(type).unit());
    case arrow::Type::TIMESTAMP:
      return TimeJson(As<arrow::TimestampArray>(array).Value(row),
                      static_cast<const arrow::TimestampType&>(type).unit());
    case arrow::Type::DECIMAL128:
      return As<arrow::Decimal128Array>(array).FormatValue(row);
    case arrow::Type::STRING:
      return std::string(As<arrow::StringArray>(array).GetView(row));
    case arrow::Type::LARGE_STRING:
      return std::string(As<arrow::LargeStringArray>(array).GetView(row));
    case arrow::Type::BINARY:
      return ToHex(AsBytes(As<arrow::BinaryArray>(array).GetView(row)));
    case arrow::Type::LARGE_BINARY:
      return ToHex(AsBytes(As<arrow::LargeBinaryArray>(array).GetView(row)));
    case arrow::Type::FIXED_SIZE_BINARY:
      return ToHex(AsBytes(As<arrow::FixedSizeBinaryArray>(array).GetView(row)));
    case arrow::Type::LIST: {
      const auto& list = As<arrow::ListArray>(array);
      return ItemsJson(*list.values(), list.value_offset(row), list.value_offset(row + 1));
    }
    case arrow::Type::MAP:
      return PairsJson(As<arrow::MapArray>(array), row);
    case arrow::Type::STRUCT:
      return StructJson(As<arrow::StructArray>(array), row);
    case arrow::Type::DICTIONARY: {
      const auto& dictionary = As<arrow::DictionaryArray>(array);
      return ValueJson(*dictionary.dictionary(), dictionary.GetValueIndex(row));
    }
    default:
      return "no JSON for " + type.ToString();
  }
}

}  // namespace

std::string RowJson(const arrow::RecordBatch& batch, int64_t row) {
  Json fields = Json::object();
  for (int i = 0; i < batch.num_columns(); ++i) {
    fields[batch.column_name(i)] = ValueJson(*batch.column(i), row);
  }
  // Text that is no UTF-8 is shown, not refused.
  return fields.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace);
}

}  // namespace partforge::data::testing
