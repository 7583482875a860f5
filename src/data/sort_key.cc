#include "data/sort_key.h"

#include <arrow/array.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <optional>
#include <type_traits>

namespace partforge::data {

using arrow::Type;

uint64_t KeyPrefix(std::string_view key) {
  uint64_t prefix = 0;
  if (key.size() >= sizeof prefix) {
    std::memcpy(&prefix, key.data(), sizeof prefix);
  } else if (!key.empty()) {
    std::memcpy(&prefix, key.data(), key.size());
  }
  if constexpr (std::endian::native == std::endian::little) prefix = __builtin_bswap64(prefix);
  return prefix;
}

namespace {

template <class T>
void PutBigEndian(T value, std::string& out) {
  std::array<char, sizeof(T)> bytes;
  for (size_t i = 0; i < sizeof(T); ++i) {
    bytes[i] = static_cast<char>(value >> (8 * (sizeof(T) - 1 - i)));
  }
  out.append(bytes.data(), bytes.size());
}

template <class T>
void PutSigned(T value, std::string& out) {
  using Unsigned = std::make_unsigned_t<T>;
  PutBigEndian(
      static_cast<Unsigned>(static_cast<Unsigned>(value) ^ (Unsigned{1} << (sizeof(T) * 8 - 1))),
      out);
}

// IEEE total order: the sign bit of positive numbers is set, all bits of negative ones are flipped.
template <class Bits>
void PutFloat(Bits bits, std::string& out) {
  constexpr Bits kSign = Bits{1} << (sizeof(Bits) * 8 - 1);
  PutBigEndian(static_cast<Bits>((bits & kSign) != 0 ? ~bits : bits | kSign), out);
}

// Zero bytes are escaped, so that the end (00 00) sorts below every continuation.
void PutText(std::string_view text, std::string& out) {
  for (size_t at = 0; at < text.size();) {
    const size_t zero = text.find('\0', at);
    if (zero == std::string_view::npos) {
      out.append(text.substr(at));
      break;
    }
    out.append(text.substr(at, zero - at));
    out.append("\x00\xff", 2);
    at = zero + 1;
  }
  out.append("\x00\x00", 2);
}

// Fixed-width two's complement, little-endian in memory.
void PutDecimal(const uint8_t* value, int width, std::string& out) {
  for (int i = width - 1; i >= 0; --i) {
    const auto byte = static_cast<uint8_t>(i == width - 1 ? value[i] ^ 0x80 : value[i]);
    out.push_back(static_cast<char>(byte));
  }
}

template <class ArrayType>
auto ValueAt(const arrow::Array& array, int64_t row) {
  return static_cast<const ArrayType&>(array).GetView(row);
}

// Appends one value that is not null.
void PutValue(const arrow::Array& array, int64_t row, std::string& out) {
  switch (array.type_id()) {
    case Type::DICTIONARY: {
      const auto& indices = static_cast<const arrow::DictionaryArray&>(array);
      return PutValue(*indices.dictionary(), indices.GetValueIndex(row), out);
    }
    case Type::BOOL:
      out.push_back(ValueAt<arrow::BooleanArray>(array, row) ? 1 : 0);
      return;
    case Type::INT8:
      return PutSigned(ValueAt<arrow::Int8Array>(array, row), out);
    case Type::INT16:
      return PutSigned(ValueAt<arrow::Int16Array>(array, row), out);
    case Type::INT32:
      return PutSigned(ValueAt<arrow::Int32Array>(array, row), out);
    case Type::INT64:
      return PutSigned(ValueAt<arrow::Int64Array>(array, row), out);
    case Type::UINT8:
      return PutBigEndian(ValueAt<arrow::UInt8Array>(array, row), out);
    case Type::UINT16:
      return PutBigEndian(ValueAt<arrow::UInt16Array>(array, row), out);
    case Type::UINT32:
      return PutBigEndian(ValueAt<arrow::UInt32Array>(array, row), out);
    case Type::UINT64:
      return PutBigEndian(ValueAt<arrow::UInt64Array>(array, row), out);
    case Type::DATE32:
      return PutSigned(ValueAt<arrow::Date32Array>(array, row), out);
    case Type::DATE64:
      return PutSigned(ValueAt<arrow::Date64Array>(array, row), out);
    case Type::TIME32:
      return PutSigned(ValueAt<arrow::Time32Array>(array, row), out);
    case Type::TIME64:
      return PutSigned(ValueAt<arrow::Time64Array>(array, row), out);
    case Type::TIMESTAMP:
      return PutSigned(ValueAt<arrow::TimestampArray>(array, row), out);
    case Type::FLOAT:
      return PutFloat(std::bit_cast<uint32_t>(ValueAt<arrow::FloatArray>(array, row)), out);
    case Type::DOUBLE:
      return PutFloat(std::bit_cast<uint64_t>(ValueAt<arrow::DoubleArray>(array, row)), out);
    case Type::STRING:
    case Type::BINARY:
      return PutText(ValueAt<arrow::BinaryArray>(array, row), out);
    case Type::LARGE_STRING:
    case Type::LARGE_BINARY:
      return PutText(ValueAt<arrow::LargeBinaryArray>(array, row), out);
    case Type::DECIMAL32:
    case Type::DECIMAL64:
    case Type::DECIMAL128:
    case Type::DECIMAL256: {
      const auto& fixed = static_cast<const arrow::FixedSizeBinaryArray&>(array);
      return PutDecimal(fixed.GetValue(row), fixed.byte_width(), out);
    }
    case Type::FIXED_SIZE_BINARY:
      out.append(ValueAt<arrow::FixedSizeBinaryArray>(array, row));
      return;
    default:
      return;
  }
}

bool IsKeyType(const arrow::DataType& type) {
  switch (type.id()) {
    case Type::DICTIONARY:
      return IsKeyType(*static_cast<const arrow::DictionaryType&>(type).value_type());
    case Type::BOOL:
    case Type::INT8:
    case Type::INT16:
    case Type::INT32:
    case Type::INT64:
    case Type::UINT8:
    case Type::UINT16:
    case Type::UINT32:
    case Type::UINT64:
    case Type::DATE32:
    case Type::DATE64:
    case Type::TIME32:
    case Type::TIME64:
    case Type::TIMESTAMP:
    case Type::FLOAT:
    case Type::DOUBLE:
    case Type::STRING:
    case Type::BINARY:
    case Type::LARGE_STRING:
    case Type::LARGE_BINARY:
    case Type::DECIMAL32:
    case Type::DECIMAL64:
    case Type::DECIMAL128:
    case Type::DECIMAL256:
    case Type::FIXED_SIZE_BINARY:
      return true;
    default:
      return false;
  }
}

class ColumnKeyEncoder final : public KeyEncoder {
 public:
  struct Column {
    int index = 0;
    bool may_be_null = true;  // a column without nulls needs no byte for them
    SortColumn order;
  };
  explicit ColumnKeyEncoder(std::vector<Column> columns) : columns_(std::move(columns)) {}

  Result<EncodedKeys> Encode(const arrow::RecordBatch& batch) const override {
    if (auto keys = EncodeNumbers(batch)) return std::move(*keys);
    EncodedKeys keys;
    const auto rows = static_cast<size_t>(batch.num_rows());
    keys.ends.reserve(rows);
    keys.bytes.reserve(rows * 9 * columns_.size());
    // Asking the batch for a column takes a mutex.
    arrow::ArrayVector arrays;
    for (const Column& column : columns_) arrays.push_back(batch.column(column.index));
    for (int64_t row = 0; row < batch.num_rows(); ++row) {
      for (size_t c = 0; c < columns_.size(); ++c) Put(columns_[c], *arrays[c], row, keys);
      if (keys.bytes.size() > std::numeric_limits<uint32_t>::max()) return TooLong(batch);
      keys.ends.push_back(static_cast<uint32_t>(keys.bytes.size()));
    }
    return keys;
  }

 private:
  static Status TooLong(const arrow::RecordBatch& batch) {
    return Status(Code::kExhausted,
                  fmt::format("encode sort keys: those of one batch of {} rows pass 4 GiB",
                              batch.num_rows()));
  }

  // Keys of whole numbers alone, none of them null: all are of one length, and a column is put in
  // one go. None for other keys.
  std::optional<EncodedKeys> EncodeNumbers(const arrow::RecordBatch& batch) const {
    const auto rows = static_cast<size_t>(batch.num_rows());
    size_t stride = 0;
    for (const Column& column : columns_) {
      const arrow::Array& array = *batch.column(column.index);
      const size_t width = NumberBytes(array.type_id());
      if (width == 0 || array.null_count() > 0) return std::nullopt;
      stride += width + (column.may_be_null ? 1 : 0);
    }
    if (rows * stride > std::numeric_limits<uint32_t>::max()) return std::nullopt;
    EncodedKeys keys;
    keys.bytes.resize(rows * stride);
    char* at = keys.bytes.data();
    for (const Column& column : columns_) {
      const arrow::Array& array = *batch.column(column.index);
      if (column.may_be_null) {
        const char is_there = column.order.nulls == NullOrder::kNullsFirst ? '\1' : '\0';
        for (size_t row = 0; row < rows; ++row) at[row * stride] = is_there;
        ++at;
      }
      const bool is_descending = column.order.direction == SortDirection::kDescending;
      const auto& buffer = array.data()->buffers[1];
      if (NumberBytes(array.type_id()) == 8) {
        PutNumbers<uint64_t>(buffer->data(), array.offset(), rows, is_descending, stride, at);
        at += 8;
      } else {
        PutNumbers<uint32_t>(buffer->data(), array.offset(), rows, is_descending, stride, at);
        at += 4;
      }
    }
    keys.ends.resize(rows);
    for (size_t row = 0; row < rows; ++row) {
      keys.ends[row] = static_cast<uint32_t>((row + 1) * stride);
    }
    return keys;
  }

  // Of the signed numbers that EncodeNumbers knows; 0 for other types.
  static size_t NumberBytes(Type::type id) {
    switch (id) {
      case Type::INT32:
      case Type::DATE32:
      case Type::TIME32:
        return 4;
      case Type::INT64:
      case Type::DATE64:
      case Type::TIME64:
      case Type::TIMESTAMP:
        return 8;
      default:
        return 0;
    }
  }

  template <class Bits>
  static void PutNumbers(const uint8_t* values, int64_t offset, size_t rows, bool is_descending,
                         size_t stride, char* at) {
    constexpr Bits kSign = Bits{1} << (sizeof(Bits) * 8 - 1);
    const Bits flip = is_descending ? static_cast<Bits>(~kSign) : kSign;
    values += static_cast<size_t>(offset) * sizeof(Bits);
    for (size_t row = 0; row < rows; ++row, at += stride) {
      Bits value = 0;
      std::memcpy(&value, values + row * sizeof(Bits), sizeof value);
      value ^= flip;
      if constexpr (std::endian::native == std::endian::little) {
        value = sizeof(Bits) == 8
                    ? static_cast<Bits>(__builtin_bswap64(value))
                    : static_cast<Bits>(__builtin_bswap32(static_cast<uint32_t>(value)));
      }
      std::memcpy(at, &value, sizeof value);
    }
  }

  // A dictionary may have null as one of its values.
  static bool IsNull(const arrow::Array& array, int64_t row) {
    if (array.IsNull(row)) return true;
    if (array.type_id() != Type::DICTIONARY) return false;
    const auto& indices = static_cast<const arrow::DictionaryArray&>(array);
    return IsNull(*indices.dictionary(), indices.GetValueIndex(row));
  }

  static void Put(const Column& column, const arrow::Array& array, int64_t row, EncodedKeys& keys) {
    const bool is_null = column.may_be_null && IsNull(array, row);
    if (column.may_be_null) {
      const bool is_low = is_null == (column.order.nulls == NullOrder::kNullsFirst);
      keys.bytes.push_back(is_low ? '\0' : '\1');
    }
    if (is_null) return;
    const size_t begin = keys.bytes.size();
    PutValue(array, row, keys.bytes);
    if (column.order.direction == SortDirection::kAscending) return;
    for (size_t i = begin; i < keys.bytes.size(); ++i) {
      keys.bytes[i] = static_cast<char>(~keys.bytes[i]);
    }
  }

  const std::vector<Column> columns_;
};

}  // namespace

Result<std::unique_ptr<KeyEncoder>> MakeKeyEncoder(const std::shared_ptr<arrow::Schema>& schema,
                                                   const std::vector<SortColumn>& columns) {
  std::vector<ColumnKeyEncoder::Column> bound;
  for (const SortColumn& column : columns) {
    const int index = schema->GetFieldIndex(column.name);
    if (index < 0) {
      return Status(Code::kInvalidArgument,
                    fmt::format("sort: there is no one column of that name: {}", column.name));
    }
    const auto& field = schema->field(index);
    if (!IsKeyType(*field->type())) {
      return Status(Code::kInvalidArgument, fmt::format("sort: column {} cannot be a key: {}",
                                                        column.name, field->type()->ToString()));
    }
    bound.push_back({.index = index, .may_be_null = field->nullable(), .order = column});
  }
  return std::unique_ptr<KeyEncoder>(std::make_unique<ColumnKeyEncoder>(std::move(bound)));
}

}  // namespace partforge::data
