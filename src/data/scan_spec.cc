#include "data/scan_spec.h"

#include <arrow/array.h>
#include <arrow/buffer.h>
#include <arrow/compute/api_vector.h>
#include <arrow/compute/exec.h>
#include <arrow/datum.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <arrow/util/bit_util.h>
#include <arrow/util/bitmap_ops.h>
#include <arrow/util/byte_size.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace partforge::data {
namespace {

// The first batch tells how wide a row is; until then few rows are decoded.
constexpr int64_t kFirstRows = 4096;

using BatchRef = std::shared_ptr<arrow::RecordBatch>;

Result<BatchRef> AddPositions(const BatchRef& batch, int64_t first_row,
                              const std::shared_ptr<arrow::Schema>& schema, ArrowMemory& memory) {
  const int64_t count = batch->num_rows();
  PF_ARROW_ASSIGN(
      std::shared_ptr<arrow::Buffer> buffer,
      arrow::AllocateBuffer(count * static_cast<int64_t>(sizeof(int64_t)), memory.pool()));
  auto* positions = reinterpret_cast<int64_t*>(buffer->mutable_data());
  for (int64_t i = 0; i < count; ++i) positions[i] = first_row + i;
  arrow::ArrayVector columns = batch->columns();
  columns.push_back(std::make_shared<arrow::Int64Array>(count, std::move(buffer)));
  return arrow::RecordBatch::Make(schema, count, std::move(columns));
}

// Null when no row is left. A batch that stays whole is not copied.
Result<BatchRef> DropDeleted(const BatchRef& batch, int64_t first_row, const RowFilter& deleted,
                             ArrowMemory& memory) {
  const RowRun rows{.begin = static_cast<uint64_t>(first_row),
                    .end = static_cast<uint64_t>(first_row + batch->num_rows())};
  const uint64_t live = deleted.LiveRows(rows);
  if (live == rows.size()) return batch;
  if (live == 0) return BatchRef();
  const int64_t count = batch->num_rows();
  PF_ARROW_ASSIGN(std::shared_ptr<arrow::Buffer> bits,
                  arrow::AllocateBuffer(arrow::bit_util::BytesForBits(count), memory.pool()));
  std::memset(bits->mutable_data(), 0, static_cast<size_t>(bits->size()));
  for (auto run = deleted.NextRun(rows.begin, rows.end); run;
       run = deleted.NextRun(run->end, rows.end)) {
    arrow::bit_util::SetBitsTo(bits->mutable_data(), static_cast<int64_t>(run->begin - rows.begin),
                               static_cast<int64_t>(run->size()), true);
  }
  PF_TRY(EnsureArrowCompute());
  arrow::compute::ExecContext exec(memory.pool());
  exec.set_use_threads(false);
  const auto mask = std::make_shared<arrow::BooleanArray>(count, std::move(bits));
  PF_ARROW_ASSIGN(
      const arrow::Datum kept,
      arrow::compute::Filter(batch, mask, arrow::compute::FilterOptions::Defaults(), &exec));
  return kept.record_batch();
}

template <class Offset>
int64_t TextBytes(const arrow::ArrayData& data) {
  const auto* const offsets = data.GetValues<Offset>(1);
  if (offsets == nullptr) return 0;
  return (data.length + 1) * static_cast<int64_t>(sizeof(Offset)) + offsets[data.length] -
         offsets[0];
}

// What the values take, as Arrow's ReferencedBufferSize says, which makes a table of all ranges
// even for one column of numbers.
int64_t ColumnBytes(const arrow::Array& column) {
  const arrow::ArrayData& data = *column.data();
  const int64_t validity =
      data.buffers[0] == nullptr ? 0 : arrow::bit_util::BytesForBits(data.length);
  switch (column.type_id()) {
    case arrow::Type::STRING:
    case arrow::Type::BINARY:
      return validity + TextBytes<int32_t>(data);
    case arrow::Type::LARGE_STRING:
    case arrow::Type::LARGE_BINARY:
      return validity + TextBytes<int64_t>(data);
    default:
      break;
  }
  const int width = column.type()->bit_width();
  if (width > 0 && data.child_data.empty() && data.dictionary == nullptr) {
    return validity + arrow::bit_util::BytesForBits(data.length * width);
  }
  const auto bytes = arrow::util::ReferencedBufferSize(column);
  return bytes.ok() ? *bytes : arrow::util::TotalBufferSize(column);
}

}  // namespace

int64_t BatchBytes(const arrow::RecordBatch& batch) {
  int64_t bytes = 0;
  for (int i = 0; i < batch.num_columns(); ++i) bytes += ColumnBytes(*batch.column(i));
  return bytes;
}

ScanSpec LimitedTo(ScanSpec spec, int64_t share_bytes) {
  constexpr int64_t kBatchBytesMin = int64_t{64} << 10;
  // A merge holds a batch that is being used up, the next one while it is decoded, and keys.
  const int64_t batch_bytes = std::max(share_bytes / 16, kBatchBytesMin);
  spec.batch_bytes_max = std::min(spec.batch_bytes_max, batch_bytes);
  spec.read_ahead.held_bytes_max = std::min(spec.read_ahead.held_bytes_max, share_bytes / 4);
  spec.read_ahead.request_bytes_max =
      std::min(spec.read_ahead.request_bytes_max, std::max(share_bytes / 8, kBatchBytesMin));
  spec.stream_bytes_max = std::min(spec.stream_bytes_max, share_bytes / 8);
  return spec;
}

Result<ScanOutput> ScanOutput::Make(const std::shared_ptr<arrow::Schema>& file_schema,
                                    const ScanSpec& spec, std::string file_name,
                                    ArrowMemory& memory) {
  ScanOutput output(spec, memory);
  output.schema_ = file_schema;
  if (spec.wanted != nullptr) {
    PF_ASSIGN(output.mapping_,
              SchemaMapping::Make(file_schema, spec.wanted, spec.mapping, std::move(file_name)));
    output.leaves_ = output.mapping_->leaves();
    output.schema_ = spec.wanted;
  } else {
    int count = 0;
    for (const auto& field : file_schema->fields()) count += LeafCount(*field);
    for (int leaf = 0; leaf < count && spec.leaves.empty(); ++leaf) output.leaves_.push_back(leaf);
    for (const int leaf : spec.leaves) {
      if (leaf < 0 || leaf >= count) {
        return Status(Code::kInvalidArgument, fmt::format("read {}: it has {} leaf columns, not {}",
                                                          file_name, count, leaf));
      }
      output.leaves_.push_back(leaf);
    }
  }
  if (spec.position_column) {
    PF_ARROW_ASSIGN(output.schema_,
                    output.schema_->AddField(
                        output.schema_->num_fields(),
                        arrow::field(*spec.position_column, arrow::int64(), /*nullable=*/false)));
  }
  output.next_rows_ = std::clamp<int64_t>(kFirstRows, 1, std::max<int64_t>(spec.batch_rows_max, 1));
  return output;
}

Status ScanOutput::Push(const arrow::RecordBatch& decoded, int64_t first_row) {
  if (decoded.num_rows() == 0) return {};
  if (mapping_) {
    PF_ASSIGN(auto batch, mapping_->Apply(decoded, first_row, *memory_));
    return Shape(std::move(batch), first_row);
  }
  return Shape(arrow::RecordBatch::Make(decoded.schema(), decoded.num_rows(), decoded.columns()),
               first_row);
}

Status ScanOutput::PushRows(int64_t row_count, int64_t first_row) {
  const auto none = arrow::RecordBatch::Make(arrow::schema({}), row_count, arrow::ArrayVector{});
  return Push(*none, first_row);
}

Status ScanOutput::Shape(BatchRef batch, int64_t first_row) {
  const int64_t bytes = std::max<int64_t>(BatchBytes(*batch), 1);
  const int64_t rows_that_fit = std::max<int64_t>(
      1, static_cast<int64_t>(static_cast<double>(spec_->batch_bytes_max) /
                              static_cast<double>(bytes) * static_cast<double>(batch->num_rows())));
  const int64_t limit =
      std::clamp<int64_t>(rows_that_fit, 1, std::max<int64_t>(spec_->batch_rows_max, 1));
  // Wider rows may follow: growing slowly keeps the surprise small.
  next_rows_ = std::min(limit, batch->num_rows() * 4);
  if (spec_->position_column) {
    PF_ASSIGN(batch, AddPositions(batch, first_row, schema_, *memory_));
  }
  for (int64_t begin = 0; begin < batch->num_rows(); begin += limit) {
    BatchRef piece = batch->num_rows() <= limit ? batch : batch->Slice(begin, limit);
    if (spec_->deleted != nullptr) {
      PF_ASSIGN(piece, DropDeleted(piece, first_row + begin, *spec_->deleted, *memory_));
    }
    if (piece != nullptr) ready_.push_back(std::move(piece));
  }
  return {};
}

BatchRef ScanOutput::Pop() {
  if (ready_.empty()) return nullptr;
  BatchRef batch = std::move(ready_.front());
  ready_.pop_front();
  return batch;
}

}  // namespace partforge::data
