#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "data/thrift_compact.h"

namespace partforge::data {

// Names for people of what parquet.thrift numbers.
std::string_view ParquetCodecName(int64_t codec);        // CompressionCodec
std::string_view ParquetEncodingName(int64_t encoding);  // Encoding
std::string_view ParquetTypeName(int64_t type);          // Type
// The logical type of a schema element, or its physical one: "string", "timestamp(us, utc)",
// "decimal(9,2)".
std::string DescribeElement(const ThriftValue& element);

}  // namespace partforge::data
