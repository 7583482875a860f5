#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/context.h"
#include "data/file_range.h"
#include "data/orc_statistics.h"
#include "store/object_store.h"

namespace partforge::data {

// What the end of an ORC file says of it (ORC Specification v1, "File Tail"), read by a parser of
// our own: the library shows neither statistics nor where in a stripe the bytes of a column lie.
// Rows are decoded elsewhere (orc_file.h).

// Type.Kind of orc_proto.proto.
enum class OrcKind : uint8_t {
  kBoolean = 0,
  kByte = 1,
  kShort = 2,
  kInt = 3,
  kLong = 4,
  kFloat = 5,
  kDouble = 6,
  kString = 7,
  kBinary = 8,
  kTimestamp = 9,
  kList = 10,
  kMap = 11,
  kStruct = 12,
  kUnion = 13,
  kDecimal = 14,
  kDate = 15,
  kVarchar = 16,
  kChar = 17,
  kTimestampInstant = 18,
  kGeometry = 19,
  kGeography = 20,
};
inline constexpr uint64_t kOrcKindLast = 20;

// One node of the type tree, which is stored depth first: a node's number is its column's.
struct OrcType {
  OrcKind kind = OrcKind::kStruct;
  std::vector<uint32_t> children = {};
  std::vector<std::string> names = {};  // of a struct's children
  uint32_t end = 0;                     // one behind the last column below this one
  int precision = 0, scale = 0;         // kDecimal
  int64_t length_max = 0;               // kVarchar, kChar
  std::vector<std::pair<std::string, std::string>> attributes = {};
};

struct OrcStripePlace {
  int64_t offset = 0;
  int64_t index_bytes = 0, data_bytes = 0, footer_bytes = 0;
  int64_t first_row = 0, row_count = 0;
  int64_t length_bytes() const { return index_bytes + data_bytes + footer_bytes; }
  int64_t end() const { return offset + length_bytes(); }
  FileRange footer() const { return {.offset = end() - footer_bytes, .length = footer_bytes}; }
};

// CompressionKind of orc_proto.proto.
enum class OrcCompression : uint8_t { kNone, kZlib, kSnappy, kLzo, kLz4, kZstd, kBrotli };

struct OrcTail {
  int64_t size_bytes = 0;  // in the file
  int64_t row_count = 0;
  OrcCompression compression = OrcCompression::kNone;
  int64_t block_bytes_max = 0;  // of a compressed block, plain
  OrcWriter writer = {};
  std::vector<OrcType> types;  // at least the root
  std::vector<OrcStripePlace> stripes;
  std::vector<std::pair<std::string, std::string>> properties;  // user metadata, in file order
  bool is_encrypted = false;  // some columns: statistics may be those of masks
  std::string footer;         // plain bytes; the views below lie in them
  std::string metadata;
  std::vector<std::string_view> column_statistics;  // of the file, by column; may be empty
  std::vector<std::string_view> stripe_statistics;  // by stripe; may be empty
  std::shared_ptr<const MemoryGrant> charge;        // for the trees and bytes above

  // Statistics of the file, or of a stripe, by column; empty when the file has none for each column
  // or they are no messages.
  std::vector<OrcColumnStatistics> FileStatistics() const;
  std::vector<OrcColumnStatistics> StripeStatistics(size_t stripe) const;
};

// Reads and checks the tail. kCorruption for what is none, with file; kRefused for a codec we have
// not (LZO); kExhausted when the budget does not hold it.
Result<std::unique_ptr<OrcTail>> ReadOrcTail(const Context& ctx, ByteSource& source,
                                             std::string_view file_name);

// Stream.Kind of orc_proto.proto that matter here.
inline constexpr uint64_t kOrcBloomFilter = 7, kOrcBloomFilterUtf8 = 8;

// A run of bytes of one column in a stripe.
struct OrcStream {
  uint64_t kind = 0;
  uint32_t column = 0;
  FileRange bytes;
};
struct OrcStripeFooter {
  std::vector<OrcStream> streams;   // in file order, back to back from the stripe's beginning
  std::vector<uint64_t> encodings;  // ColumnEncoding.Kind by column; may be short
  std::string writer_timezone;
  MemoryGrant charge;  // for the above
};
// kCorruption for what is none, or has streams outside of the stripe.
Result<OrcStripeFooter> ReadOrcStripeFooter(const Context& ctx, ByteSource& source,
                                            const OrcTail& tail, size_t stripe,
                                            std::string_view file_name);

// "direct", "dictionary", "direct v2", "dictionary v2"; a number for what we do not know.
std::string OrcEncodingName(uint64_t encoding);
std::string_view OrcCompressionName(OrcCompression compression);

}  // namespace partforge::data
