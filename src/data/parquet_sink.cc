#include "data/parquet_sink.h"

#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "data/parquet_assembler.h"
#include "data/parquet_schema.h"
#include "data/row_group_copy.h"
#include "data/row_group_encoder.h"

namespace partforge::data {

using namespace parquet_field;  // NOLINT: names of parquet.thrift

std::optional<ParquetCodec> ParquetCodecOf(std::string_view name) {
  std::string lower(name);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (lower == "none" || lower == "uncompressed") return ParquetCodec::kNone;
  if (lower == "snappy") return ParquetCodec::kSnappy;
  if (lower == "gzip") return ParquetCodec::kGzip;
  if (lower == "brotli") return ParquetCodec::kBrotli;
  if (lower == "lz4" || lower == "lz4_raw") return ParquetCodec::kLz4Raw;
  if (lower == "zstd") return ParquetCodec::kZstd;
  return std::nullopt;
}

int32_t ParquetCodecNumber(ParquetCodec codec) {
  switch (codec) {
    case ParquetCodec::kNone:
      return 0;
    case ParquetCodec::kSnappy:
      return 1;
    case ParquetCodec::kGzip:
      return 2;
    case ParquetCodec::kBrotli:
      return 4;
    case ParquetCodec::kZstd:
      return 6;
    case ParquetCodec::kLz4Raw:
      return 7;
  }
  return 0;
}

ParquetCodec ParquetCodecOfNumber(int32_t number) {
  for (const ParquetCodec codec : {ParquetCodec::kNone, ParquetCodec::kSnappy, ParquetCodec::kGzip,
                                   ParquetCodec::kBrotli, ParquetCodec::kZstd}) {
    if (ParquetCodecNumber(codec) == number) return codec;
  }
  return ParquetCodec::kLz4Raw;
}

std::optional<std::pair<int, int>> LevelsOf(ParquetCodec codec) {
  using Levels = std::pair<int, int>;
  switch (codec) {
    case ParquetCodec::kGzip:
      return Levels(1, 9);
    case ParquetCodec::kBrotli:
      return Levels(0, 11);
    case ParquetCodec::kZstd:
      return Levels(1, 22);
    case ParquetCodec::kLz4Raw:
      return Levels(1, 12);
    case ParquetCodec::kNone:
    case ParquetCodec::kSnappy:
      break;
  }
  return std::nullopt;
}

Result<DecimalStorage> DecimalStorageFor(const std::shared_ptr<arrow::Schema>& schema,
                                         const ParquetFooter& file, ParquetSinkOptions options,
                                         std::string_view file_name, ArrowMemory& memory) {
  const ParquetSchema& target = file.tree.Find(file_metadata::kSchema)->items();
  std::string difference;
  for (const DecimalStorage decimals : {DecimalStorage::kIntegers, DecimalStorage::kFixed}) {
    options.decimals = decimals;
    PF_ASSIGN(const ParquetFooter own, ParquetSchemaOf(schema, options, memory));
    // The adopted schema may have other names inside, but its leaves must be what we encode.
    PF_ASSIGN(const LeafMapping mapping,
              MapParquetLeaves(own.tree.Find(file_metadata::kSchema)->items(), target,
                               MatchBy::kName, file_name));
    if (!mapping.difference && mapping.missing.empty() && mapping.is_identity()) return decimals;
    difference = mapping.difference.value_or("columns differ");
  }
  return Status(Code::kInvalidArgument,
                fmt::format("write {}: rows cannot be encoded to what the file has: {}", file_name,
                            difference));
}

Result<ParquetFooter> ParquetSchemaOf(const std::shared_ptr<arrow::Schema>& schema,
                                      const ParquetSinkOptions& options, ArrowMemory& memory) {
  PF_ASSIGN(const auto encoder, RowGroupEncoder::Open(schema, options, nullptr, memory));
  PF_ASSIGN(EncodedFile file, encoder->Finish());
  return std::move(file.footer);
}

namespace {

// A batch is cut so that a row group is not far above its limit before anybody looks.
constexpr int64_t kRowsBetweenLooks = 65'536;

class Sink final : public ParquetSink {
 public:
  Sink(std::unique_ptr<ByteSink> bytes, std::string file_name,
       std::shared_ptr<arrow::Schema> schema, ParquetSinkOptions options, ArrowMemory& memory)
      : bytes_(std::move(bytes)),
        file_name_(std::move(file_name)),
        schema_(std::move(schema)),
        options_(std::move(options)),
        memory_(memory) {}

  Status Start() {
    // Only rows that are encoded must fit: a file whose types we would write otherwise (INT96) can
    // still be copied from.
    if (options_.schema_of != nullptr) {
      const auto decimals =
          DecimalStorageFor(schema_, *options_.schema_of, options_, file_name_, memory_);
      if (decimals.ok()) options_.decimals = *decimals;
      fits_ = decimals.ok() ? Status() : decimals.status();
    }
    PF_ASSIGN(const ParquetFooter own, ParquetSchemaOf(schema_, options_, memory_));
    const ParquetFooter& chosen = options_.schema_of != nullptr ? *options_.schema_of : own;
    const ParquetSchema& target = chosen.tree.Find(file_metadata::kSchema)->items();
    PF_ASSIGN(ParquetAssembler assembler, ParquetAssembler::Make(target,
                                                                 {.key_values = options_.key_values,
                                                                  .created_by = options_.created_by,
                                                                  .file_name = file_name_},
                                                                 *bytes_));
    assembler_.emplace(std::move(assembler));
    options_.schema_of = nullptr;  // its owner need not outlive the sink
    return {};
  }

  const std::shared_ptr<arrow::Schema>& schema() const override { return schema_; }
  const std::vector<ThriftValue>& parquet_schema() const override { return assembler_->schema(); }
  ParquetWriteCounts counts() const override { return counts_; }

  Status Write(const Context& ctx, const arrow::RecordBatch& batch) override {
    if (!batch.schema()->Equals(*schema_, /*check_metadata=*/false)) {
      return Status(Code::kInvalidArgument, fmt::format("write {}: the batch has the schema {}",
                                                        file_name_, batch.schema()->ToString()));
    }
    for (int64_t begin = 0; begin < batch.num_rows();) {
      PF_TRY(ctx.CheckStop("writing Parquet"));
      const int64_t room =
          options_.row_group_rows - (encoder_ == nullptr ? 0 : encoder_->row_count());
      const int64_t count = std::min({batch.num_rows() - begin, kRowsBetweenLooks, room});
      const auto piece = batch.Slice(begin, count);
      if (encoder_ == nullptr) {
        PF_TRY(Status(fits_));
        PF_ASSIGN(encoder_, RowGroupEncoder::Open(schema_, options_, piece.get(), memory_));
      }
      Status status = encoder_->Write(*piece);
      if (!status.ok()) return std::move(status).With(fmt::format("write {}", file_name_));
      begin += count;
      if (encoder_->row_count() >= options_.row_group_rows ||
          encoder_->bytes_estimated() >= options_.row_group_bytes) {
        PF_TRY(EndRowGroup(ctx));
      }
    }
    return {};
  }

  Status AppendEncoded(const Context& ctx, const EncodedRows& rows) override {
    PF_TRY(EndRowGroup(ctx));
    PF_TRY(rows.WriteTo(ctx, *assembler_));
    ++counts_.row_groups_copied;
    counts_.rows_copied += rows.row_count();
    return {};
  }

  int64_t row_count() const override {
    return assembler_->row_count() + (encoder_ == nullptr ? 0 : encoder_->row_count());
  }
  int64_t bytes_estimated() const override {
    return assembler_->bytes_estimated() + (encoder_ == nullptr ? 0 : encoder_->bytes_estimated());
  }
  bool has_room() const override {
    return assembler_->row_group_count() < ParquetAssembler::kRowGroupsMax - 1;
  }

  Result<WrittenFile> Close(const Context& ctx) override {
    PF_TRY(EndRowGroup(ctx));
    PF_ASSIGN(auto finished, assembler_->Finish(ctx));
    PF_ASSIGN(const ObjectInfo info, bytes_->Close(ctx));
    PF_FAULT(ctx, "data.closed_parquet");
    if (info.size_bytes != finished.size_bytes) {
      return Status(Code::kCorruption,
                    fmt::format("write {}: {} bytes were written, the store has {}", file_name_,
                                finished.size_bytes, info.size_bytes));
    }
    WrittenFile file;
    file.size_bytes = finished.size_bytes;
    file.row_count = assembler_->row_count();
    file.metrics = std::move(finished.metrics);
    file.split_offsets = std::move(finished.split_offsets);
    return file;
  }

 private:
  Status EndRowGroup(const Context& ctx) {
    if (encoder_ == nullptr) return {};
    PF_ASSIGN(EncodedFile encoded, encoder_->Finish());
    counts_.rows_encoded += encoder_->row_count();
    encoder_.reset();
    for (int i = 0; i < encoded.footer.row_group_count(); ++i) {
      PF_TRY(CopyRowGroup(
          ctx, *encoded.bytes, encoded.footer, i, file_name_,
          {.nan_counts = encoded.nan_counts, .bound_bytes_max = options_.bound_bytes_max},
          *assembler_));
      ++counts_.row_groups_encoded;
    }
    return {};
  }

  const std::unique_ptr<ByteSink> bytes_;
  const std::string file_name_;
  const std::shared_ptr<arrow::Schema> schema_;
  ParquetSinkOptions options_;
  ArrowMemory& memory_;
  std::optional<ParquetAssembler> assembler_;
  Status fits_;  // whether rows that are encoded here fit the file's schema
  std::unique_ptr<RowGroupEncoder> encoder_;  // of the row group under way; may be null
  ParquetWriteCounts counts_;
};

}  // namespace

Result<std::unique_ptr<ParquetSink>> ParquetSink::Open(
    const Context& ctx, std::unique_ptr<ByteSink> bytes, std::string file_name,
    const std::shared_ptr<arrow::Schema>& schema, ParquetSinkOptions options, ArrowMemory& memory) {
  PF_TRY(ctx.CheckStop("writing Parquet"));
  auto sink = std::make_unique<Sink>(std::move(bytes), std::move(file_name), schema,
                                     std::move(options), memory);
  PF_TRY(sink->Start());
  return std::unique_ptr<ParquetSink>(std::move(sink));
}

}  // namespace partforge::data
