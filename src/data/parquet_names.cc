#include "data/parquet_names.h"

#include <fmt/format.h>

#include <array>

#include "data/parquet_footer.h"

namespace partforge::data {
namespace {

using namespace parquet_field;  // NOLINT: names of parquet.thrift

template <size_t kCount>
std::string_view NameIn(const std::array<std::string_view, kCount>& names, int64_t number) {
  return number >= 0 && number < static_cast<int64_t>(kCount) ? names[static_cast<size_t>(number)]
                                                              : "unknown";
}

// TimeUnit is a union of three empty structs.
std::string_view UnitOf(const ThriftValue& time) {
  const ThriftValue* unit = time.Find(2);
  if (unit == nullptr) return "?";
  return unit->Find(1) != nullptr   ? "ms"
         : unit->Find(2) != nullptr ? "us"
         : unit->Find(3) != nullptr ? "ns"
                                    : "?";
}

// Members of LogicalType.
std::string DescribeLogical(const ThriftValue& logical) {
  if (logical.type() != ThriftType::kStruct || logical.items().empty()) return "";
  const ThriftValue& member = logical.items()[0];
  switch (member.id()) {
    case 1:
      return "string";
    case 2:
      return "map";
    case 3:
      return "list";
    case 4:
      return "enum";
    case 5:
      return fmt::format("decimal({},{})", IntField(member, 2, 0), IntField(member, 1, 0));
    case 6:
      return "date";
    case 7:
      return fmt::format("time({}{})", UnitOf(member),
                         BoolField(member, 1).value_or(false) ? ", utc" : "");
    case 8:
      return fmt::format("timestamp({}{})", UnitOf(member),
                         BoolField(member, 1).value_or(false) ? ", utc" : "");
    case 10:
      return fmt::format("{}int{}", BoolField(member, 2).value_or(false) ? "" : "u",
                         IntField(member, 1, 0));
    case 12:
      return "json";
    case 13:
      return "bson";
    case 14:
      return "uuid";
    case 15:
      return "float16";
    case 16:
      return "variant";
    case 17:
      return "geometry";
    case 18:
      return "geography";
    default:
      return "";
  }
}

// Members of ConvertedType, for files that say nothing else.
std::string DescribeConverted(const ThriftValue& element) {
  constexpr std::array<std::string_view, 22> kNames = {
      "string", "map",      "key_value", "list",          "enum",          "decimal",
      "date",   "time(ms)", "time(us)",  "timestamp(ms)", "timestamp(us)", "uint8",
      "uint16", "uint32",   "uint64",    "int8",          "int16",         "int32",
      "int64",  "json",     "bson",      "interval"};
  const int64_t type = IntField(element, schema_element::kConvertedType, -1);
  if (type < 0 || type >= static_cast<int64_t>(kNames.size())) return "";
  if (type == 5) {
    return fmt::format("decimal({},{})", IntField(element, schema_element::kPrecision, 0),
                       IntField(element, schema_element::kScale, 0));
  }
  return std::string(kNames[static_cast<size_t>(type)]);
}

}  // namespace

std::string_view ParquetCodecName(int64_t codec) {
  constexpr std::array<std::string_view, 8> kNames = {"none",   "snappy", "gzip", "lzo",
                                                      "brotli", "lz4",    "zstd", "lz4_raw"};
  return NameIn(kNames, codec);
}

std::string_view ParquetEncodingName(int64_t encoding) {
  constexpr std::array<std::string_view, 10> kNames = {
      "plain",      "group_var_int",       "plain_dictionary",        "rle",
      "bit_packed", "delta_binary_packed", "delta_length_byte_array", "delta_byte_array",
      "dictionary", "byte_stream_split"};
  return NameIn(kNames, encoding);
}

std::string_view ParquetTypeName(int64_t type) {
  constexpr std::array<std::string_view, 8> kNames = {"boolean", "int32",  "int64",      "int96",
                                                      "float",   "double", "byte_array", "fixed"};
  return NameIn(kNames, type);
}

std::string DescribeElement(const ThriftValue& element) {
  if (const ThriftValue* logical = element.Find(schema_element::kLogicalType)) {
    if (std::string text = DescribeLogical(*logical); !text.empty()) return text;
  }
  if (std::string text = DescribeConverted(element); !text.empty()) return text;
  const int64_t type = IntField(element, schema_element::kType, -1);
  if (type < 0) return "struct";
  if (type == 7) {
    return fmt::format("fixed({})", IntField(element, schema_element::kTypeLength, 0));
  }
  return std::string(ParquetTypeName(type));
}

}  // namespace partforge::data
