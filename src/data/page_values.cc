#include "data/page_values.h"

#include <fmt/format.h>
#include <parquet/encoding.h>
#include <parquet/schema.h>
#include <parquet/types.h>

#include <algorithm>
#include <cstring>
#include <limits>

namespace partforge::data {
namespace {

Status Corrupt(std::string_view what, std::string found) {
  return Status(Code::kCorruption, fmt::format("read values of {}: {}", what, found));
}

// The length of the byte array at the front of `rest`, with its own four bytes; 0 when it does not
// fit.
size_t ByteArraySize(std::string_view rest) {
  uint32_t length = 0;
  if (rest.size() < sizeof length) return 0;
  std::memcpy(&length, rest.data(), sizeof length);
  return length <= rest.size() - sizeof length ? length + sizeof length : 0;
}

void PutByteArray(std::string_view value, std::string& out) {
  const auto length = static_cast<uint32_t>(value.size());
  out.append(reinterpret_cast<const char*>(&length), sizeof length);
  out.append(value);
}

}  // namespace

Result<DictionaryValues> ParseDictionary(const Page& page, const LeafColumn& column,
                                         PageCompressor& compressor, std::string_view what) {
  const bool is_plain = page.header.encoding == static_cast<int>(PageEncoding::kPlain) ||
                        page.header.encoding == static_cast<int>(PageEncoding::kPlainDictionary);
  if (!is_plain || column.type == ParquetType::kBoolean) {
    return Status(Code::kRefused, fmt::format("read values of {}: a dictionary in encoding {}",
                                              what, page.header.encoding));
  }
  DictionaryValues values;
  PF_TRY(compressor.Decompress(page.body, page.header.uncompressed_bytes, what, *values.plain));
  const auto count = static_cast<size_t>(page.header.num_values);
  const auto width = static_cast<size_t>(column.value_bytes());
  const std::string_view plain = *values.plain;
  // Each entry takes at least its width, or its length.
  if (count > plain.size() / std::max<size_t>(width, width == 0 ? 4 : 1)) {
    return Corrupt(what, fmt::format("{} dictionary entries in {} bytes", count, plain.size()));
  }
  values.entries.reserve(count);
  size_t at = 0;
  for (size_t i = 0; i < count; ++i) {
    const size_t size = width > 0 ? width : ByteArraySize(plain.substr(at));
    if (size == 0) return Corrupt(what, "a dictionary entry passes the end of its page");
    values.entries.push_back(plain.substr(at, size));
    at += size;
  }
  if (at != plain.size()) return Corrupt(what, "bytes behind the last dictionary entry");
  return values;
}

namespace {

// libparquet's decoders know every encoding; the descriptor tells them about lengths.
class LibraryDecoder {
 public:
  LibraryDecoder(const LeafColumn& column, int encoding, ArrowMemory& memory)
      : column_(column),
        encoding_(static_cast<parquet::Encoding::type>(encoding)),
        memory_(memory),
        node_(parquet::schema::PrimitiveNode::Make(
            "v", parquet::Repetition::REQUIRED, parquet::LogicalType::None(),
            static_cast<parquet::Type::type>(column.type),
            column.type == ParquetType::kFixed ? column.fixed_length : -1)),
        descriptor_(node_, 0, 0) {}

  Status Decode(std::span<const std::byte> values, int64_t count, std::string_view what,
                std::string& out) {
    switch (column_.type) {
      case ParquetType::kInt32:
        return Fixed<parquet::Int32Type>(values, count, what, out);
      case ParquetType::kInt64:
        return Fixed<parquet::Int64Type>(values, count, what, out);
      case ParquetType::kFloat:
        return Fixed<parquet::FloatType>(values, count, what, out);
      case ParquetType::kDouble:
        return Fixed<parquet::DoubleType>(values, count, what, out);
      case ParquetType::kByteArray:
        return Each<parquet::ByteArrayType>(values, count, what, [&](const parquet::ByteArray& v) {
          PutByteArray({reinterpret_cast<const char*>(v.ptr), v.len}, out);
        });
      case ParquetType::kFixed:
        return Each<parquet::FLBAType>(values, count, what,
                                       [&](const parquet::FixedLenByteArray& v) {
                                         out.append(reinterpret_cast<const char*>(v.ptr),
                                                    static_cast<size_t>(column_.fixed_length));
                                       });
      case ParquetType::kBoolean:
      case ParquetType::kInt96:
        break;
    }
    return Status(Code::kRefused,
                  fmt::format("read values of {}: encoding {} of type {}", what,
                              static_cast<int>(encoding_), static_cast<int>(column_.type)));
  }

 private:
  template <class Type, class Take>
  Status Each(std::span<const std::byte> values, int64_t count, std::string_view what, Take take) {
    auto decoder = parquet::MakeTypedDecoder<Type>(encoding_, &descriptor_, memory_.pool());
    decoder->SetData(static_cast<int>(count), reinterpret_cast<const uint8_t*>(values.data()),
                     static_cast<int>(values.size()));
    std::vector<typename Type::c_type> piece(
        static_cast<size_t>(std::min<int64_t>(count, kPieceValues)));
    for (int64_t done = 0; done < count;) {
      const auto want = static_cast<int>(std::min<int64_t>(count - done, kPieceValues));
      const int got = decoder->Decode(piece.data(), want);
      if (got <= 0) return Corrupt(what, fmt::format("values end at {} of {}", done, count));
      for (int i = 0; i < got; ++i) take(piece[static_cast<size_t>(i)]);
      done += got;
    }
    return {};
  }
  template <class Type>
  Status Fixed(std::span<const std::byte> values, int64_t count, std::string_view what,
               std::string& out) {
    return Each<Type>(values, count, what, [&](const typename Type::c_type& value) {
      out.append(reinterpret_cast<const char*>(&value), sizeof value);
    });
  }

  static constexpr int64_t kPieceValues = 4096;
  const LeafColumn& column_;
  const parquet::Encoding::type encoding_;
  ArrowMemory& memory_;
  const parquet::schema::NodePtr node_;
  const parquet::ColumnDescriptor descriptor_;
};

Result<std::string> CheckedPlain(const LeafColumn& column, std::span<const std::byte> values,
                                 int64_t count, std::string_view what) {
  std::string plain(reinterpret_cast<const char*>(values.data()), values.size());
  size_t needed = 0;
  if (column.type == ParquetType::kBoolean) {
    needed = static_cast<size_t>((count + 7) / 8);
  } else if (const int width = column.value_bytes(); width > 0) {
    needed = static_cast<size_t>(count) * static_cast<size_t>(width);
  } else {
    for (int64_t i = 0; i < count; ++i) {
      const size_t size = ByteArraySize(std::string_view(plain).substr(needed));
      if (size == 0) return Corrupt(what, fmt::format("values end at {} of {}", i, count));
      needed += size;
    }
  }
  if (needed > plain.size())
    return Corrupt(what, fmt::format("{} values in {} bytes", count, plain.size()));
  plain.resize(needed);
  return plain;
}

// Booleans in the hybrid, behind their length.
Result<std::string> PlainOfRleBooleans(std::span<const std::byte> values, int64_t count,
                                       std::string_view what) {
  uint32_t length = 0;
  if (count == 0) return std::string();
  if (values.size() < sizeof length) return Corrupt(what, "booleans without their length");
  std::memcpy(&length, values.data(), sizeof length);
  if (length > values.size() - sizeof length) return Corrupt(what, "booleans end too early");
  std::vector<uint32_t> bits;
  PF_TRY(DecodeHybrid(values.subspan(sizeof length, length), 1, count, 1, what, bits));
  std::string plain((bits.size() + 7) / 8, '\0');
  for (size_t i = 0; i < bits.size(); ++i) {
    plain[i / 8] = static_cast<char>(static_cast<uint8_t>(plain[i / 8]) | bits[i] << (i % 8));
  }
  return plain;
}

}  // namespace

Result<std::string> ToPlain(const LeafColumn& column, int encoding,
                            std::span<const std::byte> values, int64_t count, ArrowMemory& memory,
                            std::string_view what) {
  // Delta encodings hold any number of equal steps in no byte.
  if (count > kPageValuesMax) {
    return Status(Code::kRefused,
                  fmt::format("read values of {}: a page of {} values", what, count));
  }
  switch (encoding) {
    case static_cast<int>(PageEncoding::kPlain):
      return CheckedPlain(column, values, count, what);
    case static_cast<int>(PageEncoding::kRle):
      if (column.type == ParquetType::kBoolean) return PlainOfRleBooleans(values, count, what);
      break;
    case static_cast<int>(PageEncoding::kDeltaBinaryPacked):
    case static_cast<int>(PageEncoding::kDeltaLengthByteArray):
    case static_cast<int>(PageEncoding::kDeltaByteArray):
    case static_cast<int>(PageEncoding::kByteStreamSplit): {
      std::string plain;
      if (count == 0) return plain;
      if (values.size() > static_cast<size_t>(std::numeric_limits<int>::max())) break;
      Status status = CatchParquet([&]() -> Status {
        return LibraryDecoder(column, encoding, memory).Decode(values, count, what, plain);
      });
      if (!status.ok()) return std::move(status).With(fmt::format("decode a page of {}", what));
      return plain;
    }
    default:
      break;
  }
  return Status(Code::kRefused, fmt::format("read values of {}: encoding {} of type {}", what,
                                            encoding, static_cast<int>(column.type)));
}

Status AppendKept(const LeafColumn& column, std::string_view plain, std::span<const uint8_t> keep,
                  std::string_view what, std::string& out) {
  if (column.type == ParquetType::kBoolean) {
    // Bits are packed anew: `out` begins at a byte.
    size_t kept = 0;
    const size_t begin = out.size();
    for (size_t i = 0; i < keep.size(); ++i) {
      if (i / 8 >= plain.size()) return Corrupt(what, "booleans end too early");
      if (keep[i] == 0) continue;
      if (kept % 8 == 0) out.push_back('\0');
      const auto bit = (static_cast<uint8_t>(plain[i / 8]) >> (i % 8)) & 1;
      auto& byte = out[begin + kept / 8];
      byte = static_cast<char>(static_cast<uint8_t>(byte) | bit << (kept % 8));
      ++kept;
    }
    return {};
  }
  if (const auto width = static_cast<size_t>(column.value_bytes()); width > 0) {
    if (keep.size() * width > plain.size()) return Corrupt(what, "values end too early");
    for (size_t i = 0; i < keep.size();) {
      if (keep[i] == 0) {
        ++i;
        continue;
      }
      size_t end = i;
      while (end < keep.size() && keep[end] != 0) ++end;
      out.append(plain.substr(i * width, (end - i) * width));
      i = end;
    }
    return {};
  }
  size_t at = 0;
  for (const uint8_t flag : keep) {
    const size_t size = ByteArraySize(plain.substr(at));
    if (size == 0) return Corrupt(what, "values end too early");
    if (flag != 0) out.append(plain.substr(at, size));
    at += size;
  }
  return {};
}

}  // namespace partforge::data
