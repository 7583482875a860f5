#include "data/avro_sink.h"

#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <fmt/format.h>

#include <utility>

#include "data/avro_batches.h"
#include "data/metrics_collector.h"

namespace partforge::data {
namespace {

class AvroSink final : public BatchSink {
 public:
  AvroSink(std::unique_ptr<ByteSink> bytes, std::string file_name,
           std::shared_ptr<arrow::Schema> schema)
      : bytes_(std::move(bytes)),
        file_name_(std::move(file_name)),
        schema_(std::move(schema)),
        metrics_(*schema_) {}

  Status Begin(const Context& ctx, AvroSinkOptions options) {
    PF_ASSIGN(std::string avro_schema, AvroSchemaOf(*schema_, options.style));
    PF_ASSIGN(writer_, AvroBatchWriter::Open(ctx, schema_,
                                             {.schema = std::move(avro_schema),
                                              .metadata = std::move(options.metadata),
                                              .codec = options.codec,
                                              .level = options.level,
                                              .block_raw_bytes = options.block_raw_bytes},
                                             *bytes_));
    return {};
  }

  const std::shared_ptr<arrow::Schema>& schema() const override { return schema_; }

  Status Write(const Context& ctx, const arrow::RecordBatch& batch) override {
    Status status = writer_->Append(ctx, batch);
    if (!status.ok()) return std::move(status).With(fmt::format("write {}", file_name_));
    return metrics_.Add(batch);
  }

  Status AppendEncoded(const Context&, const EncodedRows&) override {
    return Status(
        Code::kRefused,
        fmt::format("write {}: rows of Parquet cannot be copied into an Avro file", file_name_));
  }

  int64_t row_count() const override { return writer_->record_count(); }
  int64_t bytes_estimated() const override { return writer_->bytes_estimated(); }

  Result<WrittenFile> Close(const Context& ctx) override {
    PF_TRY(writer_->Flush(ctx));
    const int64_t size_bytes = writer_->bytes_estimated();
    PF_ASSIGN(const ObjectInfo info, bytes_->Close(ctx));
    PF_FAULT(ctx, "data.closed_avro");
    if (info.size_bytes != size_bytes) {
      return Status(Code::kCorruption,
                    fmt::format("write {}: {} bytes were written, the store has {}", file_name_,
                                size_bytes, info.size_bytes));
    }
    WrittenFile file;
    file.size_bytes = size_bytes;
    file.row_count = writer_->record_count();
    file.metrics = metrics_.Metrics();
    return file;
  }

 private:
  const std::unique_ptr<ByteSink> bytes_;
  const std::string file_name_;
  const std::shared_ptr<arrow::Schema> schema_;
  MetricsCollector metrics_;
  std::unique_ptr<AvroBatchWriter> writer_;
};

}  // namespace

Result<std::unique_ptr<BatchSink>> OpenAvroSink(const Context& ctx, std::unique_ptr<ByteSink> bytes,
                                                std::string file_name,
                                                const std::shared_ptr<arrow::Schema>& schema,
                                                AvroSinkOptions options) {
  auto sink = std::make_unique<AvroSink>(std::move(bytes), std::move(file_name), schema);
  PF_TRY(sink->Begin(ctx, std::move(options)));
  return std::unique_ptr<BatchSink>(std::move(sink));
}

}  // namespace partforge::data
