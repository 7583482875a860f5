#include "data/avro_source.h"

#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "data/avro_batches.h"
#include "data/read_ahead.h"

namespace partforge::data {
namespace {

constexpr int64_t kFirstBytes = int64_t{1} << 20;  // so that the header does not wait for more

class AvroSource final : public BatchSource {
 public:
  AvroSource(std::unique_ptr<ByteSource> object, std::string file_name, ScanSpec spec)
      : file_name_(std::move(file_name)),
        spec_(std::move(spec)),
        object_(std::move(object), spec_.read_ahead) {}

  Status Prepare(const Context& ctx, AvroTimestamps timestamps, ArrowMemory& memory) {
    if (!spec_.row_groups.empty()) {
      return Status(Code::kInvalidArgument,
                    fmt::format("read {}: an Avro file has no row groups", file_name_));
    }
    FetchPiece(ctx, kFirstBytes);
    PF_ASSIGN(reader_, AvroBatchReader::Open(ctx, object_, file_name_, timestamps, *memory.pool()));
    PF_ASSIGN(output_, ScanOutput::Make(reader_->file_schema(), spec_, file_name_, memory));
    return reader_->Select(output_->leaves());
  }

  const std::shared_ptr<arrow::Schema>& schema() const override { return output_->schema(); }

  Result<std::shared_ptr<arrow::RecordBatch>> Next(const Context& ctx) override {
    while (true) {
      if (auto batch = output_->Pop(); batch != nullptr) return batch;
      FetchAhead(ctx);
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
  // Begins to fetch the next bytes; false at the end, and without room: they are then read when
  // they are asked for.
  bool FetchPiece(const Context& ctx, int64_t length_max) {
    const int64_t length = std::min(length_max, object_.size_bytes() - fetched_end_);
    if (length <= 0 || !object_.Fetch(ctx, {{.offset = fetched_end_, .length = length}})) {
      return false;
    }
    fetched_end_ += length;
    return true;
  }

  // At least a piece is under way, at most two.
  void FetchAhead(const Context& ctx) {
    const int64_t at = reader_->next_offset();
    const int64_t piece = spec_.read_ahead.request_bytes_max;
    object_.DropBefore(at);
    fetched_end_ = std::max(fetched_end_, at);
    while (fetched_end_ - at < piece && FetchPiece(ctx, piece)) continue;
  }

  const std::string file_name_;
  const ScanSpec spec_;
  ReadAheadSource object_;
  int64_t fetched_end_ = 0;
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
