#include "data/row_group_encoder.h"

#include <arrow/array.h>
#include <arrow/extension_type.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <arrow/util/float16.h>
#include <fmt/format.h>
#include <parquet/arrow/schema.h>
#include <parquet/arrow/writer.h>
#include <parquet/file_writer.h>
#include <parquet/properties.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <string_view>

#include "base/hash.h"
#include "data/block_stream.h"

namespace partforge::data {

using arrow::Type;

namespace {

void CollectLeaves(const std::shared_ptr<arrow::Array>& array, arrow::MemoryPool* pool,
                   std::vector<std::shared_ptr<arrow::Array>>& leaves) {
  switch (array->type_id()) {
    case Type::EXTENSION:
      CollectLeaves(static_cast<const arrow::ExtensionArray&>(*array).storage(), pool, leaves);
      return;
    case Type::STRUCT: {
      const auto& record = static_cast<const arrow::StructArray&>(*array);
      auto fields = record.Flatten(pool);
      for (int i = 0; i < record.num_fields(); ++i) {
        CollectLeaves(fields.ok() ? (*fields)[static_cast<size_t>(i)] : record.field(i), pool,
                      leaves);
      }
      return;
    }
    case Type::LIST: {
      const auto& list = static_cast<const arrow::ListArray&>(*array);
      auto values = list.Flatten(pool);
      CollectLeaves(values.ok() ? *values : list.values(), pool, leaves);
      return;
    }
    case Type::LARGE_LIST: {
      const auto& list = static_cast<const arrow::LargeListArray&>(*array);
      auto values = list.Flatten(pool);
      CollectLeaves(values.ok() ? *values : list.values(), pool, leaves);
      return;
    }
    case Type::FIXED_SIZE_LIST: {
      const auto& list = static_cast<const arrow::FixedSizeListArray&>(*array);
      auto values = list.Flatten(pool);
      CollectLeaves(values.ok() ? *values : list.values(), pool, leaves);
      return;
    }
    case Type::MAP: {
      const auto& map = static_cast<const arrow::MapArray&>(*array);
      auto flat = map.Flatten(pool);  // without what lies behind nulls
      const auto entries = flat.ok() ? *flat : map.values();
      CollectLeaves(static_cast<const arrow::StructArray&>(*entries).field(0), pool, leaves);
      CollectLeaves(static_cast<const arrow::StructArray&>(*entries).field(1), pool, leaves);
      return;
    }
    default:
      leaves.push_back(array);
  }
}

// The bytes of value i; empty for types that are not compared by bytes.
class ValueBytes {
 public:
  explicit ValueBytes(const arrow::Array& array) : array_(array) {
    switch (array.type_id()) {
      case Type::STRING:
      case Type::BINARY:
        kind_ = Kind::kBinary;
        return;
      case Type::LARGE_STRING:
      case Type::LARGE_BINARY:
        kind_ = Kind::kLargeBinary;
        return;
      default:
        break;
    }
    const auto* fixed = dynamic_cast<const arrow::FixedWidthType*>(array.type().get());
    if (fixed != nullptr && fixed->bit_width() % 8 == 0 && array.data()->buffers.size() == 2 &&
        array.type_id() != Type::DICTIONARY && array.data()->buffers[1] != nullptr) {
      kind_ = Kind::kFixed;
      width_ = fixed->bit_width() / 8;
      data_ =
          reinterpret_cast<const char*>(array.data()->buffers[1]->data()) + array.offset() * width_;
    }
  }
  bool is_known() const { return kind_ != Kind::kUnknown; }
  std::string_view Get(int64_t i) const {
    switch (kind_) {
      case Kind::kBinary:
        return static_cast<const arrow::BinaryArray&>(array_).GetView(i);
      case Kind::kLargeBinary:
        return static_cast<const arrow::LargeBinaryArray&>(array_).GetView(i);
      case Kind::kFixed:
        return {data_ + i * width_, static_cast<size_t>(width_)};
      case Kind::kUnknown:
        break;
    }
    return {};
  }

 private:
  enum class Kind : uint8_t { kUnknown, kBinary, kLargeBinary, kFixed };
  const arrow::Array& array_;
  Kind kind_ = Kind::kUnknown;
  int64_t width_ = 0;
  const char* data_ = nullptr;
};

template <class ArrayType>
int64_t CountNansOf(const arrow::Array& array) {
  const auto& typed = static_cast<const ArrayType&>(array);
  int64_t count = 0;
  for (int64_t i = 0; i < typed.length(); ++i) {
    if (std::isnan(typed.Value(i)) && typed.IsValid(i)) ++count;
  }
  return count;
}

}  // namespace

std::vector<std::shared_ptr<arrow::Array>> LeafArrays(const arrow::RecordBatch& batch,
                                                      ArrowMemory& memory) {
  std::vector<std::shared_ptr<arrow::Array>> leaves;
  for (const auto& column : batch.columns()) CollectLeaves(column, memory.pool(), leaves);
  return leaves;
}

bool WantsDictionary(const arrow::Array& leaf) {
  constexpr int64_t kSampleValues = 65'536;
  constexpr int64_t kShare = 4;
  if (leaf.type_id() == Type::DICTIONARY) return true;
  const ValueBytes values(leaf);
  if (!values.is_known()) return false;
  const int64_t count = std::min(leaf.length(), kSampleValues);
  // Open addressing over hashes; a rare collision does not matter for an estimate.
  std::vector<uint64_t> seen(std::bit_ceil(static_cast<size_t>(count / kShare + 2) * 2), 0);
  int64_t distinct = 0, valid = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (leaf.IsNull(i)) continue;
    ++valid;
    const uint64_t hash = XxHash64(AsBytes(values.Get(i))) | 1;
    size_t slot = (hash >> 1) & (seen.size() - 1);
    while (seen[slot] != 0 && seen[slot] != hash) slot = (slot + 1) & (seen.size() - 1);
    if (seen[slot] == hash) continue;
    seen[slot] = hash;
    if (++distinct > count / kShare + 1) return false;
  }
  return distinct <= valid / kShare || valid == 0;
}

std::optional<int64_t> CountNans(const arrow::Array& leaf) {
  if (leaf.type_id() == Type::FLOAT) return CountNansOf<arrow::FloatArray>(leaf);
  if (leaf.type_id() == Type::DOUBLE) return CountNansOf<arrow::DoubleArray>(leaf);
  return std::nullopt;
}

namespace {

namespace pq = ::parquet::arrow;

constexpr int64_t kRowGroupRowsUnlimited = INT64_MAX;
// libparquet leaves out statistics of longer values altogether; ours are cut to bounds afterwards.
constexpr size_t kStatisticsBytesMax = 16 << 20;

parquet::Compression::type CodecType(ParquetCodec codec) {
  switch (codec) {
    case ParquetCodec::kNone:
      return parquet::Compression::UNCOMPRESSED;
    case ParquetCodec::kSnappy:
      return parquet::Compression::SNAPPY;
    case ParquetCodec::kGzip:
      return parquet::Compression::GZIP;
    case ParquetCodec::kBrotli:
      return parquet::Compression::BROTLI;
    case ParquetCodec::kLz4Raw:
      return parquet::Compression::LZ4;
    case ParquetCodec::kZstd:
      return parquet::Compression::ZSTD;
  }
  return parquet::Compression::UNCOMPRESSED;
}

bool HasLevel(ParquetCodec codec) {
  return codec == ParquetCodec::kGzip || codec == ParquetCodec::kBrotli ||
         codec == ParquetCodec::kZstd;
}

std::optional<parquet::Encoding::type> EncodingType(ValueEncoding encoding,
                                                    parquet::Type::type type) {
  switch (encoding) {
    case ValueEncoding::kPlain:
      return std::nullopt;  // the writer's default: PLAIN, RLE for booleans
    case ValueEncoding::kDelta:
      if (type == parquet::Type::INT32 || type == parquet::Type::INT64) {
        return parquet::Encoding::DELTA_BINARY_PACKED;
      }
      if (type == parquet::Type::BYTE_ARRAY) return parquet::Encoding::DELTA_BYTE_ARRAY;
      return std::nullopt;
    case ValueEncoding::kByteStreamSplit:
      if (type == parquet::Type::BOOLEAN || type == parquet::Type::BYTE_ARRAY ||
          type == parquet::Type::INT96) {
        return std::nullopt;
      }
      return parquet::Encoding::BYTE_STREAM_SPLIT;
  }
  return std::nullopt;
}

// Hands out the row group writer, which parquet::arrow::FileWriter keeps to itself and which alone
// knows how many bytes were encoded.
class ObservedFile final : public parquet::ParquetFileWriter::Contents {
 public:
  explicit ObservedFile(std::unique_ptr<parquet::ParquetFileWriter> writer)
      : Contents(
            std::static_pointer_cast<parquet::schema::GroupNode>(writer->schema()->schema_root()),
            writer->key_value_metadata()),
        writer_(std::move(writer)) {}

  void Close() override {
    writer_->Close();
    file_metadata_ = writer_->metadata();
    row_group_ = nullptr;
  }
  parquet::RowGroupWriter* AppendRowGroup() override {
    return row_group_ = writer_->AppendRowGroup();
  }
  parquet::RowGroupWriter* AppendBufferedRowGroup() override {
    return row_group_ = writer_->AppendBufferedRowGroup();
  }
  int64_t num_rows() const override { return writer_->num_rows(); }
  int num_columns() const override { return writer_->num_columns(); }
  int num_row_groups() const override { return writer_->num_row_groups(); }
  const std::shared_ptr<parquet::WriterProperties>& properties() const override {
    return writer_->properties();
  }
  void AddKeyValueMetadata(
      const std::shared_ptr<const arrow::KeyValueMetadata>& metadata) override {
    writer_->AddKeyValueMetadata(metadata);
  }

  const parquet::RowGroupWriter* row_group() const { return row_group_; }

 private:
  const std::unique_ptr<parquet::ParquetFileWriter> writer_;
  parquet::RowGroupWriter* row_group_ = nullptr;
};

class Encoder final : public RowGroupEncoder {
 public:
  Encoder(std::shared_ptr<arrow::Schema> schema, ArrowMemory& memory)
      : schema_(std::move(schema)), memory_(memory) {}

  Status Start(const ParquetSinkOptions& options, const arrow::RecordBatch* sample) {
    return CatchParquet([&]() -> Status {
      PF_ASSIGN(const auto properties, MakeProperties(options, sample));
      stream_ = std::make_shared<BlockStream>(memory_);
      auto file = parquet::ParquetFileWriter::Open(
          stream_, std::static_pointer_cast<parquet::schema::GroupNode>(descriptor_->schema_root()),
          properties);
      auto observed = std::make_unique<ObservedFile>(std::move(file));
      observed_ = observed.get();
      auto outer = std::make_unique<parquet::ParquetFileWriter>();
      outer->Open(std::move(observed));
      PF_ARROW_TRY(pq::FileWriter::Make(memory_.pool(), std::move(outer), schema_,
                                        arrow_properties_, &writer_));
      PF_ARROW_TRY(writer_->NewBufferedRowGroup());
      return {};
    });
  }

  Status Write(const arrow::RecordBatch& batch) override {
    const auto leaves = LeafArrays(batch, memory_);
    nan_counts_.resize(leaves.size());
    for (size_t i = 0; i < leaves.size(); ++i) {
      const auto count = CountNans(*leaves[i]);
      if (count) nan_counts_[i] = nan_counts_[i].value_or(0) + *count;
    }
    PF_TRY(CatchParquet([&]() -> Status { return FromArrow(writer_->WriteRecordBatch(batch)); }));
    row_count_ += batch.num_rows();
    return {};
  }

  int64_t row_count() const override { return row_count_; }

  int64_t bytes_estimated() const override {
    const parquet::RowGroupWriter* group = observed_->row_group();
    if (group == nullptr) return 0;
    const auto buffered = group->estimated_buffered_stats();
    return group->total_compressed_bytes() + group->total_compressed_bytes_written() +
           buffered.def_level_bytes + buffered.rep_level_bytes + buffered.value_bytes +
           buffered.dict_bytes;
  }

  Result<EncodedFile> Finish() override {
    EncodedFile file;
    PF_TRY(CatchParquet([&]() -> Status {
      PF_ARROW_TRY(writer_->Close());
      return {};
    }));
    file.nan_counts = std::move(nan_counts_);
    // Its length and the magic stand behind the footer.
    constexpr int64_t kEndBytes = 8;
    uint32_t footer_bytes = 0;
    const int64_t size = stream_->size_bytes();
    PF_TRY(stream_->CopyOut(size - kEndBytes, std::as_writable_bytes(std::span(&footer_bytes, 1))));
    std::string tail(footer_bytes + size_t{kEndBytes}, '\0');
    PF_TRY(stream_->CopyOut(size - static_cast<int64_t>(tail.size()),
                            std::as_writable_bytes(std::span(tail))));
    PF_ASSIGN(file.footer, ParseParquetFooter(AsBytes(tail), size, "the row group encoded"));
    file.bytes = stream_;
    return file;
  }

 private:
  Result<std::shared_ptr<parquet::WriterProperties>> MakeProperties(
      const ParquetSinkOptions& options, const arrow::RecordBatch* sample) {
    parquet::ArrowWriterProperties::Builder arrow_builder;
    arrow_builder.enable_compliant_nested_types();
    arrow_builder.set_use_threads(false);
    arrow_properties_ = arrow_builder.build();
    parquet::WriterProperties::Builder builder;
    builder.memory_pool(memory_.pool());
    builder.created_by(options.created_by);
    builder.version(parquet::ParquetVersion::PARQUET_2_6);
    builder.data_page_version(parquet::ParquetDataPageVersion::V1);
    builder.compression(CodecType(options.codec));
    if (options.codec_level && HasLevel(options.codec)) {
      builder.compression_level(*options.codec_level);
    }
    builder.data_pagesize(options.page_bytes);
    builder.max_rows_per_page(options.page_rows);
    builder.dictionary_pagesize_limit(options.dictionary_bytes);
    builder.max_row_group_length(kRowGroupRowsUnlimited);
    builder.max_statistics_size(kStatisticsBytesMax);
    builder.enable_write_page_index();
    builder.enable_page_checksum();
    // Iceberg and Paimon: decimals of up to 9 and 18 digits are INT32 and INT64.
    if (options.decimals == DecimalStorage::kIntegers) builder.enable_store_decimal_as_integer();
    builder.disable_dictionary();

    PF_ARROW_TRY(
        pq::ToParquetSchema(schema_.get(), *builder.build(), *arrow_properties_, &descriptor_));
    const auto leaves = sample == nullptr ? arrow::ArrayVector() : LeafArrays(*sample, memory_);
    for (int i = 0; i < descriptor_->num_columns(); ++i) {
      const auto path = descriptor_->Column(i)->path();
      const std::string dotted = path->ToDotString();
      const auto found =
          std::find_if(options.columns.begin(), options.columns.end(),
                       [&](const ParquetColumnOptions& column) { return column.path == dotted; });
      ParquetColumnOptions column =
          found != options.columns.end() ? *found : ParquetColumnOptions{.path = dotted};
      const bool is_boolean = descriptor_->Column(i)->physical_type() == parquet::Type::BOOLEAN;
      const auto leaf = static_cast<size_t>(i);
      if (column.dictionary == DictionaryChoice::kAuto) {
        column.dictionary = leaf < leaves.size() && WantsDictionary(*leaves[leaf])
                                ? DictionaryChoice::kAlways
                                : DictionaryChoice::kNever;
      }
      if (column.dictionary == DictionaryChoice::kAlways && !is_boolean) {
        builder.enable_dictionary(path);
      }
      const ParquetCodec codec = column.codec.value_or(options.codec);
      if (column.codec) builder.compression(path, CodecType(*column.codec));
      if (column.codec_level && HasLevel(codec)) {
        builder.compression_level(path, *column.codec_level);
      } else if (column.codec && !HasLevel(codec)) {
        builder.compression_level(path, arrow::util::kUseDefaultCompressionLevel);
      }
      if (const auto encoding =
              EncodingType(column.encoding, descriptor_->Column(i)->physical_type())) {
        builder.encoding(path, *encoding);
      }
      if (column.bloom_distinct_count && !is_boolean) {
        parquet::BloomFilterOptions bloom;
        bloom.ndv = *column.bloom_distinct_count > 0 ? *column.bloom_distinct_count
                                                     : options.row_group_rows;
        bloom.fpp = column.bloom_false_positive_rate;
        bloom.fold = *column.bloom_distinct_count == 0;
        builder.enable_bloom_filter(path, bloom);
      }
    }
    return builder.build();
  }

  const std::shared_ptr<arrow::Schema> schema_;
  ArrowMemory& memory_;
  std::shared_ptr<parquet::ArrowWriterProperties> arrow_properties_;
  std::shared_ptr<parquet::SchemaDescriptor> descriptor_;
  std::shared_ptr<BlockStream> stream_;
  ObservedFile* observed_ = nullptr;  // owned by writer_
  std::unique_ptr<pq::FileWriter> writer_;
  int64_t row_count_ = 0;
  std::vector<std::optional<int64_t>> nan_counts_;
};

}  // namespace

Result<std::unique_ptr<RowGroupEncoder>> RowGroupEncoder::Open(
    const std::shared_ptr<arrow::Schema>& schema, const ParquetSinkOptions& options,
    const arrow::RecordBatch* sample, ArrowMemory& memory) {
  auto encoder = std::make_unique<Encoder>(schema, memory);
  PF_TRY(encoder->Start(options, sample));
  return std::unique_ptr<RowGroupEncoder>(std::move(encoder));
}

}  // namespace partforge::data
