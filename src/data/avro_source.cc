#include "data/avro_source.h"

#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <fmt/format.h>

#include <optional>
#include <utility>

#include "data/avro_batches.h"

namespace partforge::data {
namespace {

class AvroSource final : public BatchSource {
 public:
  AvroSource(std::unique_ptr<ByteSource> object, std::string file_name, ScanSpec spec)
      : object_(std::move(object)), file_name_(std::move(file_name)), spec_(std::move(spec)) {}

  Status Prepare(const Context& ctx, AvroTimestamps timestamps, ArrowMemory& memory) {
    if (!spec_.row_groups.empty()) {
      return Status(Code::kInvalidArgument,
                    fmt::format("read {}: an Avro file has no row groups", file_name_));
    }
    PF_ASSIGN(reader_,
              AvroBatchReader::Open(ctx, *object_, file_name_, timestamps, *memory.pool()));
    PF_ASSIGN(output_, ScanOutput::Make(reader_->file_schema(), spec_, file_name_, memory));
    return reader_->Select(output_->leaves());
  }

  const std::shared_ptr<arrow::Schema>& schema() const override { return output_->schema(); }

  Result<std::shared_ptr<arrow::RecordBatch>> Next(const Context& ctx) override {
    while (true) {
      if (auto batch = output_->Pop(); batch != nullptr) return batch;
      PF_ASSIGN(const auto decoded,
                reader_->Next(ctx, output_->next_rows(), spec_.batch_bytes_max));
      if (decoded == nullptr) return std::shared_ptr<arrow::RecordBatch>();
      Status status = output_->leaves().empty() ? output_->PushRows(decoded->num_rows(), next_row_)
                                                : output_->Push(*decoded, next_row_);
      if (!status.ok()) return std::move(status).With(fmt::format("read {}", file_name_));
      next_row_ += decoded->num_rows();
    }
  }

 private:
  const std::unique_ptr<ByteSource> object_;
  const std::string file_name_;
  const ScanSpec spec_;
  std::unique_ptr<AvroBatchReader> reader_;
  std::optional<ScanOutput> output_;
  int64_t next_row_ = 0;
};

}  // namespace

Result<std::unique_ptr<BatchSource>> OpenAvroSource(const Context& ctx,
                                                    std::unique_ptr<ByteSource> object,
                                                    std::string file_name, ScanSpec spec,
                                                    AvroTimestamps timestamps,
                                                    ArrowMemory& memory) {
  auto source =
      std::make_unique<AvroSource>(std::move(object), std::move(file_name), std::move(spec));
  PF_TRY(source->Prepare(ctx, timestamps, memory));
  return std::unique_ptr<BatchSource>(std::move(source));
}

}  // namespace partforge::data
