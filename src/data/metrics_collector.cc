#include "data/metrics_collector.h"

#include <arrow/api.h>
#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <string_view>

#include "data/schema_mapping.h"

namespace partforge::data {

namespace internal {

// A field of the schema: a leaf, or what is inside.
struct MetricsColumn {
  std::shared_ptr<arrow::DataType> type;
  ColumnMetrics* leaf = nullptr;
  std::vector<MetricsColumn> children;
};

}  // namespace internal

namespace {

using Column = internal::MetricsColumn;

std::shared_ptr<arrow::DataType> StorageOf(std::shared_ptr<arrow::DataType> type) {
  while (type->id() == arrow::Type::EXTENSION) {
    type = static_cast<const arrow::ExtensionType&>(*type).storage_type();
  }
  return type;
}

// Which rows of an array count as null: its own nulls and those of the structs above it.
class Nulls {
 public:
  Nulls(const arrow::Array& array, const std::vector<bool>* above) : array_(array), above_(above) {}
  bool operator[](int64_t row) const {
    return (above_ != nullptr && (*above_)[static_cast<size_t>(row)]) || array_.IsNull(row);
  }
  bool MayBeSome() const { return above_ != nullptr || array_.null_count() > 0; }

 private:
  const arrow::Array& array_;
  const std::vector<bool>* above_;
};

void WidenLower(std::optional<Bound>& bound, Scalar value) {
  if (!bound || value < bound->value) bound = Bound{.value = std::move(value)};
}
void WidenUpper(std::optional<Bound>& bound, Scalar value) {
  if (!bound || bound->value < value) bound = Bound{.value = std::move(value)};
}

// Takes least and greatest of the values that are not null; `make` turns a value into a Scalar,
// once a batch.
template <class Value, class Get, class Make>
void Bounds(const arrow::Array& array, const Nulls& nulls, ColumnMetrics& metrics, Get get,
            Make make) {
  std::optional<Value> least, greatest;
  const bool has_nulls = nulls.MayBeSome();
  for (int64_t row = 0; row < array.length(); ++row) {
    if (has_nulls && nulls[row]) continue;
    const Value value = get(row);
    if (!least || value < *least) least = value;
    if (!greatest || *greatest < value) greatest = value;
  }
  if (!least) return;
  WidenLower(metrics.lower, make(*least));
  WidenUpper(metrics.upper, make(*greatest));
}

template <class ArrayType, class Make>
void Integers(const arrow::Array& array, const Nulls& nulls, ColumnMetrics& metrics, Make make) {
  using Value = typename ArrayType::value_type;
  const Value* values = static_cast<const ArrayType&>(array).raw_values();
  Bounds<Value>(
      array, nulls, metrics, [values](int64_t row) { return values[row]; }, make);
}

template <class ArrayType, class Make>
void Reals(const arrow::Array& array, const Nulls& nulls, ColumnMetrics& metrics, Make make) {
  using Value = typename ArrayType::value_type;
  const Value* values = static_cast<const ArrayType&>(array).raw_values();
  std::optional<Value> least, greatest;
  int64_t nan_count = 0;
  for (int64_t row = 0; row < array.length(); ++row) {
    if (nulls[row]) continue;
    const Value value = values[row];
    if (std::isnan(value)) {
      ++nan_count;
      continue;
    }
    if (!least || value < *least) least = value;
    if (!greatest || *greatest < value) greatest = value;
  }
  metrics.nan_count = metrics.nan_count.value_or(0) + nan_count;
  if (!least || metrics.is_repeated) return;
  WidenLower(metrics.lower, make(*least));
  WidenUpper(metrics.upper, make(*greatest));
  metrics.lower = CleanLower(std::move(metrics.lower));
  metrics.upper = CleanUpper(std::move(metrics.upper));
}

template <class ArrayType, class Make>
void Texts(const arrow::Array& array, const Nulls& nulls, ColumnMetrics& metrics, Make make) {
  const auto& texts = static_cast<const ArrayType&>(array);
  Bounds<std::string_view>(
      array, nulls, metrics, [&texts](int64_t row) { return std::string_view(texts.GetView(row)); },
      [make](std::string_view text) { return make(std::string(text)); });
}

void LeafBounds(const arrow::Array& array, const Nulls& nulls, ColumnMetrics& metrics) {
  switch (array.type_id()) {
    case arrow::Type::BOOL:
      Bounds<bool>(
          array, nulls, metrics,
          [&](int64_t row) { return static_cast<const arrow::BooleanArray&>(array).Value(row); },
          &Scalar::Boolean);
      return;
    case arrow::Type::INT8:
      Integers<arrow::Int8Array>(array, nulls, metrics, &Scalar::Int8);
      return;
    case arrow::Type::INT16:
      Integers<arrow::Int16Array>(array, nulls, metrics, &Scalar::Int16);
      return;
    case arrow::Type::INT32:
      Integers<arrow::Int32Array>(array, nulls, metrics, &Scalar::Int32);
      return;
    case arrow::Type::INT64:
      Integers<arrow::Int64Array>(array, nulls, metrics, &Scalar::Int64);
      return;
    case arrow::Type::UINT8:
      Integers<arrow::UInt8Array>(array, nulls, metrics, &Scalar::Int32);
      return;
    case arrow::Type::UINT16:
      Integers<arrow::UInt16Array>(array, nulls, metrics, &Scalar::Int32);
      return;
    case arrow::Type::UINT32:
      Integers<arrow::UInt32Array>(array, nulls, metrics, &Scalar::Int64);
      return;
    case arrow::Type::DATE32:
      Integers<arrow::Date32Array>(array, nulls, metrics, &Scalar::Int32);
      return;
    case arrow::Type::TIME32:
      Integers<arrow::Time32Array>(array, nulls, metrics, &Scalar::Int32);
      return;
    case arrow::Type::TIME64:
      Integers<arrow::Time64Array>(array, nulls, metrics, &Scalar::Int64);
      return;
    case arrow::Type::TIMESTAMP:
      Integers<arrow::TimestampArray>(array, nulls, metrics, &Scalar::Int64);
      return;
    case arrow::Type::DECIMAL128:
      Bounds<arrow::Decimal128>(
          array, nulls, metrics,
          [&](int64_t row) {
            return arrow::Decimal128(
                static_cast<const arrow::Decimal128Array&>(array).GetValue(row));
          },
          [](const arrow::Decimal128& value) {
            return Scalar::Decimal({.high = value.high_bits(), .low = value.low_bits()});
          });
      return;
    case arrow::Type::STRING:
      Texts<arrow::StringArray>(array, nulls, metrics, &Scalar::String);
      return;
    case arrow::Type::LARGE_STRING:
      Texts<arrow::LargeStringArray>(array, nulls, metrics, &Scalar::String);
      return;
    case arrow::Type::STRING_VIEW:
      Texts<arrow::StringViewArray>(array, nulls, metrics, &Scalar::String);
      return;
    case arrow::Type::BINARY:
      Texts<arrow::BinaryArray>(array, nulls, metrics, &Scalar::Bytes);
      return;
    case arrow::Type::LARGE_BINARY:
      Texts<arrow::LargeBinaryArray>(array, nulls, metrics, &Scalar::Bytes);
      return;
    case arrow::Type::BINARY_VIEW:
      Texts<arrow::BinaryViewArray>(array, nulls, metrics, &Scalar::Bytes);
      return;
    case arrow::Type::FIXED_SIZE_BINARY:
      Texts<arrow::FixedSizeBinaryArray>(array, nulls, metrics, &Scalar::Bytes);
      return;
    default:
      return;  // no bounds for other types
  }
}

void AddLeaf(const arrow::Array& array, const std::vector<bool>* above, ColumnMetrics& metrics) {
  const Nulls nulls(array, above);
  int64_t null_count = 0;
  if (above == nullptr) {
    null_count = array.null_count();
  } else {
    for (int64_t row = 0; row < array.length(); ++row) null_count += nulls[row] ? 1 : 0;
  }
  if (array.type_id() == arrow::Type::NA) null_count = array.length();
  metrics.value_count = metrics.value_count.value_or(0) + array.length();
  metrics.null_count = metrics.null_count.value_or(0) + null_count;
  // NaNs are counted wherever floats are; bounds only outside of lists and maps.
  if (array.type_id() == arrow::Type::FLOAT) {
    Reals<arrow::FloatArray>(array, nulls, metrics, &Scalar::Float);
  } else if (array.type_id() == arrow::Type::DOUBLE) {
    Reals<arrow::DoubleArray>(array, nulls, metrics, &Scalar::Double);
  } else if (!metrics.is_repeated) {
    LeafBounds(array, nulls, metrics);
  }
}

Status AddArray(const Column& column, std::shared_ptr<arrow::Array> array,
                const std::vector<bool>* above);

// Items of the rows [0, length) of a list that are not null.
template <class ListType>
Status AddList(const Column& column, const ListType& list, const std::vector<bool>* above) {
  const Nulls nulls(list, above);
  // Rows that are null may still have items behind them, which do not count.
  for (int64_t row = 0; row < list.length();) {
    if (nulls.MayBeSome() && nulls[row]) {
      ++row;
      continue;
    }
    int64_t end = row + 1;
    while (end < list.length() && (!nulls.MayBeSome() || !nulls[end])) ++end;
    const int64_t first = list.value_offset(row);
    const int64_t count = list.value_offset(end) - first;
    if (column.children.size() == 2) {  // a map
      const auto& entries = static_cast<const arrow::StructArray&>(*list.values());
      PF_TRY(AddArray(column.children[0], entries.field(0)->Slice(first, count), nullptr));
      PF_TRY(AddArray(column.children[1], entries.field(1)->Slice(first, count), nullptr));
    } else {
      PF_TRY(AddArray(column.children[0], list.values()->Slice(first, count), nullptr));
    }
    row = end;
  }
  return {};
}

Status AddArray(const Column& column, std::shared_ptr<arrow::Array> array,
                const std::vector<bool>* above) {
  while (array->type_id() == arrow::Type::EXTENSION) {
    array = static_cast<const arrow::ExtensionArray&>(*array).storage();
  }
  if (array->type_id() != column.type->id()) {
    return Status(Code::kInvalidArgument,
                  fmt::format("collect metrics: {} in a column of {}", array->type()->ToString(),
                              column.type->ToString()));
  }
  switch (array->type_id()) {
    case arrow::Type::STRUCT: {
      const auto& record = static_cast<const arrow::StructArray&>(*array);
      const Nulls nulls(record, above);
      std::vector<bool> is_null;
      if (nulls.MayBeSome()) {
        is_null.resize(static_cast<size_t>(record.length()));
        for (int64_t row = 0; row < record.length(); ++row) {
          is_null[static_cast<size_t>(row)] = nulls[row];
        }
      }
      const std::vector<bool>* inside = nulls.MayBeSome() ? &is_null : nullptr;
      for (size_t i = 0; i < column.children.size(); ++i) {
        PF_TRY(AddArray(column.children[i], record.field(static_cast<int>(i)), inside));
      }
      return {};
    }
    case arrow::Type::MAP:
    case arrow::Type::LIST:
      return AddList(column, static_cast<const arrow::ListArray&>(*array), above);
    case arrow::Type::LARGE_LIST:
      return AddList(column, static_cast<const arrow::LargeListArray&>(*array), above);
    default:
      AddLeaf(*array, above, *column.leaf);
      return {};
  }
}

}  // namespace

namespace {

// Names and types of leaves in the order of Parquet; repeated once a list or map was passed.
Column MakeColumn(const arrow::Field& field, const std::string& parent, bool is_repeated,
                  std::vector<std::unique_ptr<ColumnMetrics>>& leaves) {
  Column column;
  column.type = StorageOf(field.type());
  const std::string path = parent.empty() ? field.name() : parent + "." + field.name();
  const auto add = [&](const arrow::Field& child, bool is_child_repeated) {
    column.children.push_back(MakeColumn(child, path, is_child_repeated, leaves));
  };
  switch (column.type->id()) {
    case arrow::Type::STRUCT:
      for (const auto& child : column.type->fields()) add(*child, is_repeated);
      return column;
    case arrow::Type::LIST:
    case arrow::Type::LARGE_LIST:
      add(*column.type->field(0), true);
      return column;
    case arrow::Type::MAP: {
      const auto& map = static_cast<const arrow::MapType&>(*column.type);
      add(*map.key_field(), true);
      add(*map.item_field(), true);
      return column;
    }
    default:
      break;
  }
  auto leaf = std::make_unique<ColumnMetrics>();
  leaf->field_id = FieldIdOf(field);
  leaf->path = path;
  leaf->is_repeated = is_repeated;
  leaf->value_count = 0;
  leaf->null_count = 0;
  // Nobody counts those of half floats: unknown is not none.
  const bool counts_nans =
      column.type->id() == arrow::Type::FLOAT || column.type->id() == arrow::Type::DOUBLE;
  if (counts_nans) leaf->nan_count = 0;
  column.leaf = leaf.get();
  leaves.push_back(std::move(leaf));
  return column;
}

}  // namespace

MetricsCollector::MetricsCollector(const arrow::Schema& schema) {
  for (const auto& field : schema.fields()) {
    columns_.push_back(MakeColumn(*field, "", false, leaves_));
  }
}
MetricsCollector::~MetricsCollector() = default;
MetricsCollector::MetricsCollector(MetricsCollector&&) noexcept = default;
MetricsCollector& MetricsCollector::operator=(MetricsCollector&&) noexcept = default;

Status MetricsCollector::Add(const arrow::RecordBatch& batch) {
  if (static_cast<size_t>(batch.num_columns()) != columns_.size()) {
    return Status(Code::kInvalidArgument, fmt::format("collect metrics: {} columns, not {}",
                                                      batch.num_columns(), columns_.size()));
  }
  for (size_t i = 0; i < columns_.size(); ++i) {
    PF_TRY(AddArray(columns_[i], batch.column(static_cast<int>(i)), nullptr));
  }
  row_count_ += batch.num_rows();
  return {};
}

FileMetrics MetricsCollector::Metrics() const {
  FileMetrics metrics{.row_count = row_count_, .columns = {}};
  for (const auto& leaf : leaves_) metrics.columns.push_back(*leaf);
  return metrics;
}

}  // namespace partforge::data
