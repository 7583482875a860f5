#include "data/orc_sink.h"

#include <arrow/adapters/orc/adapter.h>
#include <arrow/adapters/orc/options.h>
#include <arrow/array.h>
#include <arrow/io/interfaces.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <arrow/util/bitmap_ops.h>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "data/arrow_edge.h"
#include "data/metrics_collector.h"
#include "data/scan_spec.h"

namespace partforge::data {

std::optional<OrcCodec> OrcCodecOf(std::string_view name) {
  std::string lower(name);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (lower == "none" || lower == "uncompressed") return OrcCodec::kNone;
  if (lower == "zlib") return OrcCodec::kZlib;
  if (lower == "snappy") return OrcCodec::kSnappy;
  if (lower == "lz4") return OrcCodec::kLz4;
  if (lower == "zstd") return OrcCodec::kZstd;
  return std::nullopt;
}

namespace {

namespace orc = arrow::adapters::orc;

arrow::Compression::type CodecType(OrcCodec codec) {
  switch (codec) {
    case OrcCodec::kNone:
      return arrow::Compression::UNCOMPRESSED;
    case OrcCodec::kZlib:
      return arrow::Compression::GZIP;
    case OrcCodec::kSnappy:
      return arrow::Compression::SNAPPY;
    case OrcCodec::kLz4:
      return arrow::Compression::LZ4;
    case OrcCodec::kZstd:
      return arrow::Compression::ZSTD;
  }
  return arrow::Compression::UNCOMPRESSED;
}

// The adapter's writer divides towards zero: of a time before 1970 it stores a negative part of a
// second. Readers built on the same library take that back; those in Java read the time one second
// early (measured, orc-core 2.1.2).
Status CheckTimes(const arrow::TimestampArray& times) {
  int64_t second = 1;
  switch (static_cast<const arrow::TimestampType&>(*times.type()).unit()) {
    case arrow::TimeUnit::SECOND:
      return {};
    case arrow::TimeUnit::MILLI:
      second = 1000;
      break;
    case arrow::TimeUnit::MICRO:
      second = 1'000'000;
      break;
    case arrow::TimeUnit::NANO:
      second = 1'000'000'000;
      break;
  }
  for (int64_t i = 0; i < times.length(); ++i) {
    if (times.Value(i) >= 0 || times.Value(i) % second == 0 || times.IsNull(i)) continue;
    return Status(Code::kRefused,
                  fmt::format("ORC cannot take a time before 1970 with a part of a second so that "
                              "others read it right (write Parquet instead): {} / {} s",
                              times.Value(i), second));
  }
  return {};
}

// The same values with the type that has the attributes. Fields of a struct are null wherever the
// struct is: the adapter's writer writes what a null struct hides as if it were there, and every
// value behind it moves.
Result<std::shared_ptr<arrow::Array>> ForOrc(const std::shared_ptr<arrow::Array>& array,
                                             const std::shared_ptr<arrow::DataType>& type) {
  auto data = array->data()->Copy();
  data->type = type;
  switch (type->id()) {
    case arrow::Type::STRUCT: {
      const auto& record = static_cast<const arrow::StructArray&>(*array);
      PF_ARROW_ASSIGN(const arrow::ArrayVector fields, record.Flatten());
      arrow::ArrayVector children;
      for (int i = 0; i < type->num_fields(); ++i) {
        PF_ASSIGN(auto child, ForOrc(fields[static_cast<size_t>(i)], type->field(i)->type()));
        children.push_back(std::move(child));
      }
      std::shared_ptr<arrow::Buffer> validity;
      if (array->null_count() > 0) {
        PF_ARROW_ASSIGN(validity, arrow::internal::CopyBitmap(arrow::default_memory_pool(),
                                                              array->null_bitmap_data(),
                                                              array->offset(), array->length()));
      }
      return std::shared_ptr<arrow::Array>(std::make_shared<arrow::StructArray>(
          type, array->length(), std::move(children), std::move(validity), array->null_count()));
    }
    case arrow::Type::LIST:
    case arrow::Type::LARGE_LIST: {
      PF_ASSIGN(const auto values,
                ForOrc(arrow::MakeArray(data->child_data[0]), type->field(0)->type()));
      data->child_data[0] = values->data();
      return arrow::MakeArray(data);
    }
    case arrow::Type::MAP: {
      auto entries = data->child_data[0]->Copy();
      entries->type = type->field(0)->type();
      for (size_t i = 0; i < 2; ++i) {
        PF_ASSIGN(const auto child, ForOrc(arrow::MakeArray(entries->child_data[i]),
                                           entries->type->field(static_cast<int>(i))->type()));
        entries->child_data[i] = child->data();
      }
      data->child_data[0] = std::move(entries);
      return arrow::MakeArray(data);
    }
    case arrow::Type::TIMESTAMP:
      PF_TRY(CheckTimes(static_cast<const arrow::TimestampArray&>(*array)));
      return arrow::MakeArray(std::move(data));
    default:
      return arrow::MakeArray(data);
  }
}

class OrcSink final : public BatchSink {
 public:
  OrcSink(std::unique_ptr<ByteSink> bytes, std::string file_name,
          std::shared_ptr<arrow::Schema> schema)
      : bytes_(std::move(bytes)),
        file_name_(std::move(file_name)),
        schema_(std::move(schema)),
        metrics_(*schema_) {}

  Status Start(const Context& ctx, const OrcSinkOptions& options) {
    orc_schema_ = ToOrcSchema(*schema_, options.attributes);
    orc::WriteOptions write;
    write.compression = CodecType(options.codec);
    write.stripe_size = options.stripe_bytes;
    write.row_index_stride = options.row_index_rows;
    write.dictionary_key_size_threshold = options.dictionary_share;
    stream_ = WriteForArrow(ctx, *bytes_);
    return CatchParquet([&]() -> Status {
      PF_ARROW_ASSIGN(writer_, orc::ORCFileWriter::Open(stream_.get(), write));
      return {};
    });
  }

  const std::shared_ptr<arrow::Schema>& schema() const override { return schema_; }

  Status Write(const Context& ctx, const arrow::RecordBatch& batch) override {
    PF_TRY(ctx.CheckStop("writing ORC"));
    if (!batch.schema()->Equals(*schema_, /*check_metadata=*/false)) {
      return Status(Code::kInvalidArgument, fmt::format("write {}: the batch has the schema {}",
                                                        file_name_, batch.schema()->ToString()));
    }
    if (batch.num_rows() == 0) return {};
    PF_TRY(metrics_.Add(batch));
    // Attributes sit in the types of the fields, nested ones too.
    arrow::ArrayVector columns;
    for (int i = 0; i < batch.num_columns(); ++i) {
      auto column = ForOrc(batch.column(i), orc_schema_->field(i)->type());
      if (!column.ok()) {
        return Status(column.status())
            .With(fmt::format("write {}, column {}", file_name_, schema_->field(i)->name()));
      }
      columns.push_back(*std::move(column));
    }
    const auto attributed = arrow::RecordBatch::Make(orc_schema_, batch.num_rows(), columns);
    Status status =
        CatchParquet([&]() -> Status { return FromArrow(writer_->Write(*attributed)); });
    if (!status.ok()) return std::move(status).With(fmt::format("write {}", file_name_));
    row_count_ += batch.num_rows();
    Learn(BatchBytes(batch));
    return {};
  }

  Status AppendEncoded(const Context&, const EncodedRows&) override {
    return Status(
        Code::kRefused,
        fmt::format("write {}: rows of Parquet cannot be copied into an ORC file", file_name_));
  }

  int64_t row_count() const override { return row_count_; }
  int64_t bytes_estimated() const override {
    return written_bytes_ + static_cast<int64_t>(static_cast<double>(pending_raw_bytes_) * ratio_);
  }

  Result<WrittenFile> Close(const Context& ctx) override {
    Status status = CatchParquet([&]() -> Status {
      if (row_count_ == 0) {
        // The writer learns the schema with the first batch.
        PF_ARROW_ASSIGN(const auto none, arrow::RecordBatch::MakeEmpty(orc_schema_));
        PF_ARROW_TRY(writer_->Write(*none));
      }
      return FromArrow(writer_->Close());
    });
    if (!status.ok()) return std::move(status).With(fmt::format("write {}", file_name_));
    PF_ARROW_ASSIGN(const int64_t size_bytes, stream_->Tell());
    PF_ASSIGN(const ObjectInfo info, bytes_->Close(ctx));
    PF_FAULT(ctx, "data.closed_orc");
    if (info.size_bytes != size_bytes) {
      return Status(Code::kCorruption,
                    fmt::format("write {}: {} bytes were written, the store has {}", file_name_,
                                size_bytes, info.size_bytes));
    }
    WrittenFile file;
    file.size_bytes = size_bytes;
    file.row_count = row_count_;
    file.metrics = metrics_.Metrics();
    return file;
  }

 private:
  // Bytes reach the stream a stripe at a time; until then they are estimated by what earlier
  // stripes became.
  void Learn(int64_t raw_bytes) {
    pending_raw_bytes_ += raw_bytes;
    const auto position = stream_->Tell();
    if (!position.ok() || *position == written_bytes_) return;
    ratio_ = static_cast<double>(*position - written_bytes_) /
             static_cast<double>(std::max<int64_t>(pending_raw_bytes_, 1));
    written_bytes_ = *position;
    pending_raw_bytes_ = 0;
  }

  const std::unique_ptr<ByteSink> bytes_;
  const std::string file_name_;
  const std::shared_ptr<arrow::Schema> schema_;
  std::shared_ptr<arrow::Schema> orc_schema_;  // with attributes
  MetricsCollector metrics_;
  std::shared_ptr<arrow::io::OutputStream> stream_;
  std::unique_ptr<orc::ORCFileWriter> writer_;
  int64_t row_count_ = 0;
  int64_t written_bytes_ = 0;
  int64_t pending_raw_bytes_ = 0;
  double ratio_ = 0.3;
};

}  // namespace

Result<std::unique_ptr<BatchSink>> OpenOrcSink(const Context& ctx, std::unique_ptr<ByteSink> bytes,
                                               std::string file_name,
                                               const std::shared_ptr<arrow::Schema>& schema,
                                               const OrcSinkOptions& options) {
  auto sink = std::make_unique<OrcSink>(std::move(bytes), std::move(file_name), schema);
  PF_TRY(sink->Start(ctx, options));
  return std::unique_ptr<BatchSink>(std::move(sink));
}

}  // namespace partforge::data
