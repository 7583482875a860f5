#include "data/batch_source.h"

#include <arrow/record_batch.h>
#include <arrow/type.h>

namespace partforge::data {

MemoryBatches::MemoryBatches(std::shared_ptr<arrow::Schema> schema,
                             std::vector<std::shared_ptr<arrow::RecordBatch>> batches)
    : schema_(std::move(schema)), batches_(std::move(batches)) {}

Result<std::shared_ptr<arrow::RecordBatch>> MemoryBatches::Next(const Context& ctx) {
  PF_TRY(ctx.CheckStop("reading batches"));
  while (next_ < batches_.size()) {
    auto batch = std::move(batches_[next_++]);
    if (batch->num_rows() > 0) return batch;
  }
  return std::shared_ptr<arrow::RecordBatch>();
}

ConcatenatedBatches::ConcatenatedBatches(std::vector<std::unique_ptr<BatchSource>> sources)
    : sources_(std::move(sources)) {
  PF_CHECK(!sources_.empty(), "no source to concatenate");
}

const std::shared_ptr<arrow::Schema>& ConcatenatedBatches::schema() const {
  return sources_.front()->schema();
}

Result<std::shared_ptr<arrow::RecordBatch>> ConcatenatedBatches::Next(const Context& ctx) {
  for (; current_ < sources_.size(); ++current_) {
    PF_ASSIGN(auto batch, sources_[current_]->Next(ctx));
    if (batch != nullptr) return batch;
    // A source that is at its end holds buffers that nobody needs; the first keeps the schema.
    if (current_ > 0) sources_[current_].reset();
  }
  return std::shared_ptr<arrow::RecordBatch>();
}

}  // namespace partforge::data
