#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/context.h"
#include "data/file_range.h"
#include "data/thrift_compact.h"
#include "store/object_store.h"

namespace partforge::data {

// A Parquet footer as its Thrift tree, for what the metadata builders of libparquet cannot express:
// unknown fields survive, codecs may differ between chunks, row groups of several files join. Field
// ids are those of parquet.thrift (Apache Parquet format 2.11).

namespace parquet_field {
namespace file_metadata {
inline constexpr int16_t kVersion = 1, kSchema = 2, kNumRows = 3, kRowGroups = 4, kKeyValues = 5,
                         kCreatedBy = 6, kColumnOrders = 7, kEncryptionAlgorithm = 8,
                         kFooterSigningKey = 9;
}
namespace schema_element {
inline constexpr int16_t kType = 1, kTypeLength = 2, kRepetition = 3, kName = 4, kNumChildren = 5,
                         kConvertedType = 6, kScale = 7, kPrecision = 8, kFieldId = 9,
                         kLogicalType = 10;
}
namespace key_value {
inline constexpr int16_t kKey = 1, kValue = 2;
}
namespace row_group {
inline constexpr int16_t kColumns = 1, kTotalByteSize = 2, kNumRows = 3, kSortingColumns = 4,
                         kFileOffset = 5, kTotalCompressedSize = 6, kOrdinal = 7;
}
namespace column_chunk {
inline constexpr int16_t kFilePath = 1, kFileOffset = 2, kMetaData = 3, kOffsetIndexOffset = 4,
                         kOffsetIndexLength = 5, kColumnIndexOffset = 6, kColumnIndexLength = 7,
                         kCryptoMetadata = 8, kEncryptedMetadata = 9;
}
namespace column_metadata {
inline constexpr int16_t kType = 1, kEncodings = 2, kPathInSchema = 3, kCodec = 4, kNumValues = 5,
                         kTotalUncompressedSize = 6, kTotalCompressedSize = 7, kKeyValues = 8,
                         kDataPageOffset = 9, kIndexPageOffset = 10, kDictionaryPageOffset = 11,
                         kStatistics = 12, kEncodingStats = 13, kBloomFilterOffset = 14,
                         kBloomFilterLength = 15, kSizeStatistics = 16, kGeospatialStatistics = 17;
}
namespace statistics {  // kMax, kMin: deprecated, signed byte order
inline constexpr int16_t kMax = 1, kMin = 2, kNullCount = 3, kDistinctCount = 4, kMaxValue = 5,
                         kMinValue = 6, kIsMaxValueExact = 7, kIsMinValueExact = 8;
}
namespace encoding_stats {
inline constexpr int16_t kPageType = 1, kEncoding = 2, kCount = 3;
}
namespace offset_index {
inline constexpr int16_t kPageLocations = 1, kUnencodedByteArrayBytes = 2;
}
namespace page_location {
inline constexpr int16_t kOffset = 1, kCompressedPageSize = 2, kFirstRowIndex = 3;
}
namespace column_index {
inline constexpr int16_t kNullPages = 1, kMinValues = 2, kMaxValues = 3, kBoundaryOrder = 4,
                         kNullCounts = 5, kRepetitionHistograms = 6, kDefinitionHistograms = 7;
}
namespace page_header {
inline constexpr int16_t kType = 1, kUncompressedSize = 2, kCompressedSize = 3, kCrc = 4,
                         kDataPage = 5, kIndexPage = 6, kDictionaryPage = 7, kDataPageV2 = 8;
}
namespace data_page_header {
inline constexpr int16_t kNumValues = 1, kEncoding = 2, kDefinitionEncoding = 3,
                         kRepetitionEncoding = 4, kStatistics = 5;
}
namespace dictionary_page_header {
inline constexpr int16_t kNumValues = 1, kEncoding = 2, kIsSorted = 3;
}
namespace data_page_header_v2 {
inline constexpr int16_t kNumValues = 1, kNumNulls = 2, kNumRows = 3, kEncoding = 4,
                         kDefinitionLength = 5, kRepetitionLength = 6, kIsCompressed = 7,
                         kStatistics = 8;
}
}  // namespace parquet_field

// What copying a chunk needs, taken from its metadata and checked by CheckFooter.
struct ChunkView {
  FileRange bytes;  // dictionary page (if any) and data pages
  int64_t data_page_offset = 0;
  std::optional<int64_t> dictionary_page_offset;  // a stored 0, as old writers put it, is absent
  int64_t num_values = 0;                         // levels counted, nulls included
  int64_t uncompressed_bytes = 0;                 // with page headers
  int32_t codec = 0;                              // CompressionCodec of parquet.thrift
  FileRange offset_index, column_index;
  // length = 0 with an offset > 0: written by an old writer that left the length out.
  FileRange bloom_filter;
};

// The tree with the places it came from.
struct ParquetFooter {
  ThriftValue tree = ThriftValue::Struct();  // FileMetaData
  int64_t file_size_bytes = 0;
  int64_t footer_start = 0;  // offset of the first byte of the footer
  // What the tree takes of the memory budget, which must outlive it; null where the footer is one
  // of ours.
  std::shared_ptr<const MemoryGrant> charge = nullptr;

  int64_t num_rows() const;
  int row_group_count() const;
  int leaf_count() const;  // columns of a row group
  // Valid for row groups and columns below the counts; requires a footer that CheckFooter accepted.
  const ThriftValue& row_group(int index) const;
  const ThriftValue& chunk(int row_group_index, int column) const;
  std::string column_path(int column) const;  // dotted; "" when there is no row group
};

// Largest footer that is read, in bytes.
inline constexpr int64_t kParquetFooterBytesMax = int64_t{1} << 30;

// Reads the footer at the end of a file and checks it. kCorruption with the offset. An encrypted
// footer (magic PARE) is kRefused; kExhausted when its tree, some twenty times its size, does not
// fit the memory budget.
Result<ParquetFooter> ReadParquetFooter(const Context& ctx, ByteSource& source,
                                        std::string_view file_name);
// The same over the last bytes of a file of `file_size_bytes`; `tail` must hold the whole footer.
Result<ParquetFooter> ParseParquetFooter(std::span<const std::byte> tail, int64_t file_size_bytes,
                                         std::string_view file_name);

// Says kCorruption unless: all fields needed are there with their types; every chunk, index and
// bloom filter lies inside [4, footer start); chunks do not overlap; every row group has the leaf
// columns of the schema in its order; counts are not negative and add up; codecs are known. A copy
// without this check could publish a file nobody can read. An encrypted column is kRefused.
Status CheckFooter(const ParquetFooter& footer, std::string_view file_name);

// kCorruption when a field is missing, negative or of another type.
Result<ChunkView> ViewChunk(const ThriftValue& chunk, std::string_view file_name);
// Moves all page offsets of a chunk by `delta` bytes; index and bloom filter places are not
// touched, as those move on their own.
Status ShiftChunk(ThriftValue& chunk, int64_t delta, std::string_view file_name);
// Sets (or, when the range is empty, removes) the places of the chunk's page indexes and bloom
// filter. The Thrift fields of lengths are 32 bits wide: kInvalidArgument above.
Status PlaceOffsetIndex(ThriftValue& chunk, FileRange range);
Status PlaceColumnIndex(ThriftValue& chunk, FileRange range);
Status PlaceBloomFilter(ThriftValue& chunk, FileRange range);

// FileMetaData bytes, their length (32 bits little-endian) and PAR1: what a file ends with.
Result<std::string> EncodeParquetFooter(const ThriftValue& tree);

// A leaf of the schema: what a column chunk is one of.
struct SchemaLeaf {
  std::vector<std::string> path;  // without the root's name
  size_t element = 0;             // index into the schema list of the footer
  int max_definition_level = 0;
  int max_repetition_level = 0;  // 0: flat, one value a row
};
// The leaves below the root of a schema list, in order. kCorruption when the child counts do not
// add up or the tree is deeper than kThriftDepthMax.
Result<std::vector<SchemaLeaf>> SchemaLeaves(const std::vector<ThriftValue>& schema,
                                             std::string_view file_name);

}  // namespace partforge::data
