#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "data/arrow_edge.h"
#include "data/batch_sink.h"
#include "data/parquet_footer.h"
#include "store/object_store.h"

namespace partforge::data {

enum class ParquetCodec : uint8_t { kNone, kSnappy, kGzip, kBrotli, kLz4Raw, kZstd };
// Names as tables' properties have them: none, uncompressed, snappy, gzip, brotli, lz4_raw, lz4,
// zstd, in any case.
std::optional<ParquetCodec> ParquetCodecOf(std::string_view name);
// CompressionCodec of parquet.thrift.
int32_t ParquetCodecNumber(ParquetCodec codec);
// The other way; for what we do not write (LZO, the LZ4 of old writers) its nearest, LZ4_RAW.
ParquetCodec ParquetCodecOfNumber(int32_t number);

// The least and the highest level of compression; none for a codec without levels.
std::optional<std::pair<int, int>> LevelsOf(ParquetCodec codec);

enum class DictionaryChoice : uint8_t {
  kAuto,  // by the share of distinct values at the beginning of each row group
  kAlways,
  kNever,
};

// How values that are in no dictionary are encoded.
enum class ValueEncoding : uint8_t { kPlain, kDelta, kByteStreamSplit };

struct ParquetColumnOptions {
  std::string path;  // dotted, as in the Parquet schema
  std::optional<ParquetCodec> codec = std::nullopt;
  std::optional<int> codec_level = std::nullopt;
  DictionaryChoice dictionary = DictionaryChoice::kAuto;
  ValueEncoding encoding = ValueEncoding::kPlain;
  // A bloom filter for that many distinct values a row group; 0: as many as rows.
  std::optional<int64_t> bloom_distinct_count = std::nullopt;
  double bloom_false_positive_rate = 0.01;
};

// How decimals of up to 18 digits are stored; longer ones are always fixed.
enum class DecimalStorage : uint8_t {
  kIntegers,  // INT32 and INT64, as Iceberg and Paimon want them
  kFixed,     // byte arrays of fixed length, as Arrow writes them by default
};

struct ParquetSinkOptions {
  ParquetCodec codec = ParquetCodec::kZstd;
  std::optional<int> codec_level = std::nullopt;  // the codec's own default
  std::vector<ParquetColumnOptions> columns = {};
  int64_t row_group_bytes = int64_t{128} << 20;  // encoded
  int64_t row_group_rows = int64_t{1} << 20;
  int64_t page_bytes = int64_t{1} << 20;
  int64_t page_rows = 20'000;
  int64_t dictionary_bytes = int64_t{1} << 20;
  // Longer minima and maxima of strings and bytes are cut (in code points, bytes).
  int64_t bound_bytes_max = 256;
  std::vector<std::pair<std::string, std::string>> key_values = {};
  std::string created_by = "partforge";
  DecimalStorage decimals = DecimalStorage::kIntegers;
  // Write this file's schema, names of inner groups and all, so that its row groups can be copied.
  // `decimals` is then what fits it. May be null. Rows can be written only when its leaves are what
  // the Arrow schema encodes to
  // (kInvalidArgument from Write).
  const ParquetFooter* schema_of = nullptr;
};

// What was done with the rows of a file; for plans and reports.
struct ParquetWriteCounts {
  int64_t row_groups_encoded = 0, row_groups_copied = 0;
  int64_t rows_encoded = 0, rows_copied = 0;
};

// Writes one Parquet file. Rows are encoded a row group at a time in memory (its encoded size plus
// a page a column), then written like a row group of another file. One thread at a time.
class ParquetSink : public BatchSink {
 public:
  // `schema` has field ids as kFieldIdKey. `bytes` is taken over; `memory` outlives the sink.
  static Result<std::unique_ptr<ParquetSink>> Open(const Context& ctx,
                                                   std::unique_ptr<ByteSink> bytes,
                                                   std::string file_name,
                                                   const std::shared_ptr<arrow::Schema>& schema,
                                                   ParquetSinkOptions options, ArrowMemory& memory);
  // The schema that row groups must have to be appended.
  virtual const std::vector<ThriftValue>& parquet_schema() const = 0;
  virtual ParquetWriteCounts counts() const = 0;
};

// One row group encoded in memory as a file of its own.
struct EncodedFile {
  std::shared_ptr<ByteSource> bytes;
  ParquetFooter footer;
  // NaNs by leaf; none for columns that are no floats.
  std::vector<std::optional<int64_t>> nan_counts;
};

// The storage of decimals with which rows of an Arrow schema can be written to a file of that
// Parquet schema; kInvalidArgument, naming the column, when neither does.
Result<DecimalStorage> DecimalStorageFor(const std::shared_ptr<arrow::Schema>& schema,
                                         const ParquetFooter& file, ParquetSinkOptions options,
                                         std::string_view file_name, ArrowMemory& memory);

// The Parquet schema that libparquet makes of an Arrow schema, and its column orders.
Result<ParquetFooter> ParquetSchemaOf(const std::shared_ptr<arrow::Schema>& schema,
                                      const ParquetSinkOptions& options, ArrowMemory& memory);

}  // namespace partforge::data
