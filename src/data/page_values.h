#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "data/arrow_edge.h"
#include "data/page_codec.h"
#include "data/parquet_schema.h"

namespace partforge::data {

// Values of Parquet pages in PLAIN encoding (Encodings.md): dictionaries, and picking values out.

// The entries of a dictionary page. Views lie in `plain`, which therefore stays where it is when
// this moves.
struct DictionaryValues {
  std::unique_ptr<std::string> plain = std::make_unique<std::string>();
  std::vector<std::string_view> entries;  // with the length in front for byte arrays
  // An entry without that length.
  std::string_view Bare(const LeafColumn& column, size_t index) const {
    return column.type == ParquetType::kByteArray ? entries[index].substr(4) : entries[index];
  }
};
// kCorruption when the bytes do not hold exactly the entries the header says.
Result<DictionaryValues> ParseDictionary(const Page& page, const LeafColumn& column,
                                         PageCompressor& compressor, std::string_view what);

// The values of a data page in PLAIN encoding; `encoding` is any but a dictionary's. PLAIN itself
// is checked and copied. kRefused for an encoding we do not know, kCorruption when the bytes do not
// hold `count` values.
Result<std::string> ToPlain(const LeafColumn& column, int encoding,
                            std::span<const std::byte> values, int64_t count, ArrowMemory& memory,
                            std::string_view what);
// Appends the values whose `keep` is not 0, one flag a value.
Status AppendKept(const LeafColumn& column, std::string_view plain, std::span<const uint8_t> keep,
                  std::string_view what, std::string& out);

}  // namespace partforge::data
