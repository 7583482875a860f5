#include "data/random_batches.h"

#include <arrow/array.h>
#include <arrow/array/concatenate.h>
#include <arrow/builder.h>
#include <arrow/compute/api_vector.h>
#include <arrow/datum.h>
#include <arrow/util/decimal.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "data/arrow_edge.h"
#include "data/schema_mapping.h"

namespace partforge::data::testing {
namespace {

int64_t Below(Random& random, int64_t limit) {
  return static_cast<int64_t>(random.Next() % static_cast<uint64_t>(limit));
}
bool Chance(Random& random, double share) {
  return static_cast<double>(random.Next() >> 11) * 0x1.0p-53 < share;
}

// The `number`-th value of a type: the same number gives the same value.
uint64_t Mix(uint64_t number) {
  number += 0x9E3779B97F4A7C15ULL;
  number = (number ^ (number >> 30)) * 0xBF58476D1CE4E5B9ULL;
  number = (number ^ (number >> 27)) * 0x94D049BB133111EBULL;
  return number ^ (number >> 31);
}

std::string TextOf(uint64_t number) {
  const uint64_t mixed = Mix(number);
  std::string text = fmt::format("v{}", mixed % 1'000'003);
  if (mixed % 7 == 0) text += std::string(mixed % 90, 'x');
  if (mixed % 11 == 0) text += "é漢";
  if (mixed % 50 == 0) text.clear();
  return text;
}

template <class T>
T FloatOf(uint64_t number) {
  const uint64_t mixed = Mix(number);
  switch (mixed % 40) {
    case 0:
      return std::numeric_limits<T>::quiet_NaN();
    case 1:
      return static_cast<T>(-0.0);
    case 2:
      return static_cast<T>(0.0);
    case 3:
      return std::numeric_limits<T>::infinity();
    default:
      return static_cast<T>(static_cast<int64_t>(mixed % 2'000'001) - 1'000'000) /
             static_cast<T>(64);
  }
}

class Generator {
 public:
  Generator(Random& random, RandomColumn column) : random_(random), column_(column) {}

  void Append(arrow::ArrayBuilder& builder, const arrow::DataType& type, bool nullable) {
    if (nullable && Chance(random_, column_.null_share)) {
      ASSERT_TRUE(builder.AppendNull().ok());
      return;
    }
    const uint64_t number = column_.distinct_max > 0
                                ? static_cast<uint64_t>(Below(random_, column_.distinct_max))
                                : random_.Next();
    const auto mixed = static_cast<int64_t>(Mix(number));
    arrow::Status status;
    switch (type.id()) {
      case arrow::Type::BOOL:
        status = static_cast<arrow::BooleanBuilder&>(builder).Append((mixed & 1) != 0);
        break;
      case arrow::Type::INT8:
        status = static_cast<arrow::Int8Builder&>(builder).Append(static_cast<int8_t>(mixed));
        break;
      case arrow::Type::INT16:
        status = static_cast<arrow::Int16Builder&>(builder).Append(static_cast<int16_t>(mixed));
        break;
      case arrow::Type::INT32:
        status = static_cast<arrow::Int32Builder&>(builder).Append(static_cast<int32_t>(mixed));
        break;
      case arrow::Type::UINT32:
        status = static_cast<arrow::UInt32Builder&>(builder).Append(static_cast<uint32_t>(mixed));
        break;
      case arrow::Type::INT64:
        status = static_cast<arrow::Int64Builder&>(builder).Append(mixed);
        break;
      case arrow::Type::UINT64:
        status = static_cast<arrow::UInt64Builder&>(builder).Append(static_cast<uint64_t>(mixed));
        break;
      case arrow::Type::FLOAT:
        status = static_cast<arrow::FloatBuilder&>(builder).Append(FloatOf<float>(number));
        break;
      case arrow::Type::DOUBLE:
        status = static_cast<arrow::DoubleBuilder&>(builder).Append(FloatOf<double>(number));
        break;
      case arrow::Type::DATE32:
        status = static_cast<arrow::Date32Builder&>(builder).Append(
            static_cast<int32_t>(mixed % 40'000));
        break;
      case arrow::Type::TIME64:
        status = static_cast<arrow::Time64Builder&>(builder).Append(
            static_cast<int64_t>(static_cast<uint64_t>(mixed) % 86'400'000'000ULL));
        break;
      case arrow::Type::TIMESTAMP:
        status = static_cast<arrow::TimestampBuilder&>(builder).Append(mixed >> 12);
        break;
      case arrow::Type::DECIMAL128: {
        const auto& decimal = static_cast<const arrow::Decimal128Type&>(type);
        int64_t limit = 1;
        for (int i = 0; i < std::min(decimal.precision(), 18); ++i) limit *= 10;
        arrow::Decimal128 value(mixed % limit);
        if (decimal.precision() > 18) value *= arrow::Decimal128(int64_t{1'000'000'007});
        status = static_cast<arrow::Decimal128Builder&>(builder).Append(value);
        break;
      }
      case arrow::Type::STRING:
        status = static_cast<arrow::StringBuilder&>(builder).Append(TextOf(number));
        break;
      case arrow::Type::BINARY:
        status = static_cast<arrow::BinaryBuilder&>(builder).Append(TextOf(number));
        break;
      case arrow::Type::FIXED_SIZE_BINARY: {
        std::string bytes;
        const int width = static_cast<const arrow::FixedSizeBinaryType&>(type).byte_width();
        for (int i = 0; i < width; ++i) {
          bytes.push_back(static_cast<char>(Mix(number + static_cast<uint64_t>(i))));
        }
        status = static_cast<arrow::FixedSizeBinaryBuilder&>(builder).Append(bytes);
        break;
      }
      case arrow::Type::STRUCT: {
        auto& record = static_cast<arrow::StructBuilder&>(builder);
        status = record.Append();
        for (int i = 0; i < type.num_fields(); ++i) {
          Append(*record.field_builder(i), *type.field(i)->type(), type.field(i)->nullable());
        }
        break;
      }
      case arrow::Type::LIST: {
        auto& list = static_cast<arrow::ListBuilder&>(builder);
        status = list.Append();
        const auto& item = *type.field(0);
        for (int64_t n = Below(random_, 5); n > 0; --n) {
          Append(*list.value_builder(), *item.type(), item.nullable());
        }
        break;
      }
      case arrow::Type::MAP: {
        auto& map = static_cast<arrow::MapBuilder&>(builder);
        const auto& map_type = static_cast<const arrow::MapType&>(type);
        status = map.Append();
        for (int64_t n = Below(random_, 4); n > 0; --n) {
          Append(*map.key_builder(), *map_type.key_type(), false);
          Append(*map.item_builder(), *map_type.item_type(), map_type.item_field()->nullable());
        }
        break;
      }
      default:
        FAIL() << "no random values of type " << type.ToString();
    }
    ASSERT_TRUE(status.ok()) << status.ToString();
  }

 private:
  Random& random_;
  const RandomColumn column_;
};

std::shared_ptr<arrow::DataType> FlatType(Random& random) {
  switch (Below(random, 18)) {
    case 0:
      return arrow::boolean();
    case 1:
      return arrow::int32();
    case 2:
      return arrow::int64();
    case 3:
      return arrow::float32();
    case 4:
      return arrow::float64();
    case 5:
      return arrow::decimal128(9, 2);
    case 6:
      return arrow::decimal128(18, 4);
    case 7:
      return arrow::decimal128(38, 6);
    case 8:
      return arrow::date32();
    case 9:
      return arrow::time64(arrow::TimeUnit::MICRO);
    case 10:
      return arrow::timestamp(arrow::TimeUnit::MICRO);
    case 11:
      return arrow::timestamp(arrow::TimeUnit::MICRO, "UTC");
    case 12:
      return arrow::timestamp(arrow::TimeUnit::NANO);
    case 13:
      return arrow::binary();
    case 14:
      return arrow::fixed_size_binary(16);
    case 15:
      return arrow::int16();
    default:
      return arrow::utf8();
  }
}

std::shared_ptr<arrow::Field> RandomField(Random& random, const std::string& name, int& next_id,
                                          int depth) {
  const int id = next_id++;
  std::shared_ptr<arrow::DataType> type;
  switch (depth > 0 ? Below(random, 6) : 5) {
    case 0:
      type = arrow::list(RandomField(random, "element", next_id, depth - 1));
      break;
    case 1: {
      arrow::FieldVector fields;
      for (int64_t i = 0, n = 1 + Below(random, 3); i < n; ++i) {
        fields.push_back(RandomField(random, fmt::format("f{}", i), next_id, depth - 1));
      }
      type = arrow::struct_(fields);
      break;
    }
    case 2: {
      auto key = WithFieldId(arrow::field("key", arrow::utf8(), false), next_id++);
      auto value = RandomField(random, "value", next_id, depth - 1);
      type = std::make_shared<arrow::MapType>(std::move(key), std::move(value));
      break;
    }
    default:
      type = FlatType(random);
  }
  return WithFieldId(arrow::field(name, type, Chance(random, 0.7)), id);
}

}  // namespace

std::shared_ptr<arrow::Schema> RandomSchema(Random& random, int columns, bool with_nested) {
  arrow::FieldVector fields;
  int next_id = 1;
  for (int i = 0; i < columns; ++i) {
    const int depth = with_nested && Chance(random, 0.4) ? 2 : 0;
    fields.push_back(RandomField(random, fmt::format("c{}", i), next_id, depth));
  }
  return arrow::schema(fields);
}

std::shared_ptr<arrow::Array> RandomArray(Random& random,
                                          const std::shared_ptr<arrow::DataType>& type,
                                          int64_t length, bool nullable, RandomColumn column) {
  auto builder = arrow::MakeBuilder(type).ValueOrDie();
  Generator generator(random, column);
  for (int64_t i = 0; i < length; ++i) generator.Append(*builder, *type, nullable);
  auto array = builder->Finish().ValueOrDie();
  // Builders of nested types call inner fields as they like.
  return array->type()->Equals(*type) ? array : array->View(type).ValueOrDie();
}

std::shared_ptr<arrow::RecordBatch> RandomBatch(Random& random,
                                                const std::shared_ptr<arrow::Schema>& schema,
                                                int64_t rows) {
  arrow::ArrayVector columns;
  for (const auto& field : schema->fields()) {
    const uint64_t kind = random.Next();
    const RandomColumn column{
        .null_share = kind % 11 == 0  ? 1.0
                      : kind % 3 == 0 ? 0.0
                                      : 0.2,
        .distinct_max = kind % 5 < 2    ? 0
                        : kind % 5 == 2 ? 1
                                        : 20,
    };
    columns.push_back(RandomArray(random, field->type(), rows, field->nullable(), column));
  }
  return arrow::RecordBatch::Make(schema, rows, std::move(columns));
}

std::shared_ptr<arrow::Table> ToTable(
    const std::vector<std::shared_ptr<arrow::RecordBatch>>& batches) {
  return arrow::Table::FromRecordBatches(batches).ValueOrDie()->CombineChunks().ValueOrDie();
}

std::shared_ptr<arrow::Table> ReadAll(const Context& ctx, BatchSource& source) {
  std::vector<std::shared_ptr<arrow::RecordBatch>> batches;
  while (true) {
    auto batch = source.Next(ctx);
    if (!batch.ok()) {
      ADD_FAILURE() << batch.status().ToString();
      return nullptr;
    }
    if (*batch == nullptr) break;
    EXPECT_GT((*batch)->num_rows(), 0);
    const auto valid = (*batch)->ValidateFull();
    EXPECT_TRUE(valid.ok()) << valid.ToString();
    batches.push_back(std::move(*batch));
  }
  return arrow::Table::FromRecordBatches(source.schema(), batches)
      .ValueOrDie()
      ->CombineChunks()
      .ValueOrDie();
}

std::shared_ptr<arrow::Table> TakeRows(const arrow::Table& table,
                                       const std::vector<int64_t>& rows) {
  EXPECT_TRUE(EnsureArrowCompute().ok());
  arrow::Int64Builder builder;
  EXPECT_TRUE(builder.AppendValues(rows).ok());
  const auto indices = builder.Finish().ValueOrDie();
  return arrow::compute::Take(table.Slice(0), arrow::Datum(indices))
      .ValueOrDie()
      .table()
      ->CombineChunks()
      .ValueOrDie();
}

void ExpectSameRows(const arrow::Table& got, const arrow::Table& wanted) {
  ASSERT_EQ(got.num_columns(), wanted.num_columns());
  ASSERT_EQ(got.num_rows(), wanted.num_rows());
  const auto options = arrow::EqualOptions::Defaults().nans_equal(true).signed_zeros_equal(false);
  for (int i = 0; i < got.num_columns(); ++i) {
    if (got.column(i)->num_chunks() == 0 && wanted.num_rows() == 0) continue;
    const auto one = [](const arrow::ChunkedArray& column) {
      return arrow::Concatenate(column.chunks()).ValueOrDie();
    };
    const auto a = one(*got.column(i)), b = one(*wanted.column(i));
    ASSERT_TRUE(a->type()->Equals(*b->type(), /*check_metadata=*/false))
        << got.field(i)->name() << ": " << a->type()->ToString() << " against "
        << b->type()->ToString();
    if (a->Equals(*b, options)) continue;
    for (int64_t row = 0; row < a->length(); ++row) {
      if (a->RangeEquals(*b, row, row + 1, row, options)) continue;
      FAIL() << "column " << got.field(i)->name() << ", row " << row << ": "
             << a->Slice(row, 1)->ToString() << "\nwanted " << b->Slice(row, 1)->ToString();
    }
  }
}

}  // namespace partforge::data::testing
