#include "data/page_stitch.h"

#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <fmt/format.h>

#include <algorithm>

#include "data/borrowed_source.h"
#include "data/column_stitcher.h"
#include "data/parquet_source.h"
#include "data/row_group_encoder.h"

namespace partforge::data {
namespace {

using namespace parquet_field;  // NOLINT: names of parquet.thrift

int LeafOf(const StitchPart& part, int target_leaf) {
  return part.leaves.empty() ? target_leaf : part.leaves[static_cast<size_t>(target_leaf)];
}

// Decodes one top-level column of the run, without its deleted rows, and encodes it by the ordinary
// writer: what is left when pages cannot be joined. All its leaves are decoded at once, as a map or
// list is none without them.
class ColumnReencoder {
 public:
  ColumnReencoder(const std::vector<StitchPart>& parts, const std::vector<LeafColumn>& columns,
                  const StitchOptions& options, ArrowMemory& memory, StitchCounts& counts)
      : parts_(parts), columns_(columns), options_(options), memory_(memory), counts_(counts) {}

  // Copies the chunk of one leaf.
  Status CopyTo(const Context& ctx, size_t target_leaf, ParquetAssembler& file) {
    const LeafColumn& column = columns_[target_leaf];
    PF_TRY(Encode(ctx, target_leaf));
    // Which of the leaves that were encoded it is: they stand in the order of the file.
    const auto leaves = FileLeaves(parts_[0], target_leaf);
    const auto place = std::lower_bound(leaves.begin(), leaves.end(),
                                        LeafOf(parts_[0], static_cast<int>(target_leaf)));
    const auto at = static_cast<size_t>(place - leaves.begin());
    PF_TRY(CheckLeaf(column, at));
    ++counts_.columns_decoded;
    return CopyChunk(ctx, *encoded_->bytes, encoded_->footer, 0, static_cast<int>(at),
                     column.dotted_path,
                     at < encoded_->nan_counts.size() ? encoded_->nan_counts[at] : std::nullopt,
                     kBoundBytesMax, file);
  }

 private:
  static constexpr int64_t kBoundBytesMax = 256;

  // Target leaves of the same top-level column: [begin, end).
  std::pair<size_t, size_t> Siblings(size_t target_leaf) const {
    const std::string& name = columns_[target_leaf].path[0];
    size_t begin = target_leaf, end = target_leaf + 1;
    while (begin > 0 && columns_[begin - 1].path[0] == name) --begin;
    while (end < columns_.size() && columns_[end].path[0] == name) ++end;
    return {begin, end};
  }

  std::vector<int> FileLeaves(const StitchPart& part, size_t target_leaf) const {
    const auto [begin, end] = Siblings(target_leaf);
    std::vector<int> leaves;
    for (size_t i = begin; i < end; ++i) leaves.push_back(LeafOf(part, static_cast<int>(i)));
    std::sort(leaves.begin(), leaves.end());
    return leaves;
  }

  Status Encode(const Context& ctx, size_t target_leaf) {
    const size_t begin = Siblings(target_leaf).first;
    if (encoded_ && encoded_begin_ == begin) return {};
    encoded_.reset();
    schema_.reset();
    encoder_.reset();
    for (const StitchPart& part : parts_) PF_TRY(AddPart(ctx, part, target_leaf));
    if (encoder_ == nullptr) {
      return Status(Code::kInternal,
                    fmt::format("stitch {}: no row is left", columns_[target_leaf].dotted_path));
    }
    PF_ASSIGN(encoded_, encoder_->Finish());
    for (int leaf = 0; leaf < encoded_->footer.leaf_count(); ++leaf) {
      PF_ASSIGN(const ChunkView view,
                ViewChunk(encoded_->footer.chunk(0, leaf), "what was encoded"));
      PF_TRY(CheckSize(view.bytes.length, target_leaf));
    }
    encoder_.reset();
    encoded_begin_ = begin;
    return {};
  }

  Status AddPart(const Context& ctx, const StitchPart& part, size_t target_leaf) {
    ScanSpec spec;
    spec.row_groups = {part.row_group};
    spec.leaves = FileLeaves(part, target_leaf);
    const auto leaf_count = static_cast<int64_t>(spec.leaves.size());
    spec.deleted = part.deleted;
    PF_ASSIGN(const auto source,
              ParquetSource::Open(ctx, std::make_unique<BorrowedSource>(*part.input->source),
                                  part.input->file_name, std::move(spec), memory_));
    while (true) {
      PF_ASSIGN(auto batch, source->Next(ctx));
      if (batch == nullptr) return {};
      if (schema_ == nullptr) {
        schema_ = batch->schema();
        PF_ASSIGN(encoder_,
                  RowGroupEncoder::Open(schema_, Options(part, target_leaf), batch.get(), memory_));
      }
      // Renamed since: the values are the same.
      if (!batch->schema()->field(0)->type()->Equals(*schema_->field(0)->type())) {
        return Status(Code::kRefused,
                      fmt::format("stitch {}: {} has it as {}, others as {}",
                                  columns_[target_leaf].dotted_path, part.input->file_name,
                                  batch->schema()->field(0)->type()->ToString(),
                                  schema_->field(0)->type()->ToString()));
      }
      counts_.rows_decoded += batch->num_rows();
      PF_TRY(
          encoder_->Write(*arrow::RecordBatch::Make(schema_, batch->num_rows(), batch->columns())));
      // One leaf has at least the mean of all.
      PF_TRY(CheckSize(encoder_->bytes_estimated() / leaf_count, target_leaf));
    }
  }

  Status CheckSize(int64_t chunk_bytes, size_t target_leaf) const {
    if (chunk_bytes <= options_.chunk_bytes_max) return {};
    return Status(Code::kRefused,
                  fmt::format("stitch {}: its chunk would pass {} bytes",
                              columns_[target_leaf].dotted_path, options_.chunk_bytes_max));
  }

  ParquetSinkOptions Options(const StitchPart& part, size_t target_leaf) const {
    ParquetSinkOptions options;
    const ThriftValue& chunk =
        part.input->footer.chunk(part.row_group, LeafOf(part, static_cast<int>(target_leaf)));
    const auto view = ViewChunk(chunk, part.input->file_name);
    if (view.ok()) options.codec = ParquetCodecOfNumber(options_.codec.value_or(view->codec));
    options.codec_level = options_.codec_level;
    const auto [begin, end] = Siblings(target_leaf);
    // Those of more than 18 digits have no integer to be stored in, whatever the writer prefers.
    constexpr int32_t kIntegerBytesMax = 8;
    const bool has_fixed = std::any_of(
        columns_.begin() + static_cast<std::ptrdiff_t>(begin),
        columns_.begin() + static_cast<std::ptrdiff_t>(end), [](const LeafColumn& column) {
          return column.type == ParquetType::kFixed && column.scalar == ScalarType::kDecimal &&
                 column.fixed_length <= kIntegerBytesMax;
        });
    options.decimals = has_fixed ? DecimalStorage::kFixed : DecimalStorage::kIntegers;
    return options;
  }

  // The writer may choose another physical type than the file has (INT96, old decimals).
  Status CheckLeaf(const LeafColumn& column, size_t at) const {
    PF_ASSIGN(const auto encoded,
              LeafColumns(encoded_->footer.tree.Find(file_metadata::kSchema)->items(),
                          column.dotted_path));
    const bool fits = at < encoded.size() && encoded[at].type == column.type &&
                      encoded[at].fixed_length == column.fixed_length &&
                      encoded[at].max_definition_level == column.max_definition_level &&
                      encoded[at].max_repetition_level == column.max_repetition_level &&
                      encoded_->footer.row_group_count() == 1;
    if (fits) return {};
    return Status(Code::kRefused, fmt::format("stitch {}: it can only be encoded to another type "
                                              "than the file says",
                                              column.dotted_path));
  }

  const std::vector<StitchPart>& parts_;
  const std::vector<LeafColumn>& columns_;
  const StitchOptions& options_;
  ArrowMemory& memory_;
  StitchCounts& counts_;
  std::shared_ptr<arrow::Schema> schema_;
  std::unique_ptr<RowGroupEncoder> encoder_;
  std::optional<EncodedFile> encoded_;
  size_t encoded_begin_ = 0;  // first target leaf of the column that is encoded
};

void AddPages(StitchCounts& into, const StitchCounts& done) {
  into.pages_copied += done.pages_copied;
  into.pages_recompressed += done.pages_recompressed;
  into.pages_remapped += done.pages_remapped;
  into.pages_materialised += done.pages_materialised;
  into.pages_filtered += done.pages_filtered;
  into.pages_dropped += done.pages_dropped;
}

// One request list for each file, however many of its row groups are in the run.
Status FetchAhead(const Context& ctx, const std::vector<StitchPart>& parts, size_t columns) {
  for (size_t begin = 0, end = 0; begin < parts.size(); begin = end) {
    const ParquetInput& input = *parts[begin].input;
    std::vector<FileRange> ranges;
    for (; end < parts.size() && parts[end].input.get() == &input; ++end) {
      for (size_t i = 0; i < columns; ++i) {
        const int leaf = LeafOf(parts[end], static_cast<int>(i));
        PF_CHECK(leaf >= 0, "a column without a source");
        PF_ASSIGN(const ChunkView view,
                  ViewChunk(input.footer.chunk(parts[end].row_group, leaf), input.file_name));
        ranges.push_back(view.bytes);
      }
    }
    input.source->Fetch(ctx, ranges);
  }
  return {};
}

}  // namespace

int64_t StitchPart::LiveRows() const {
  const int64_t rows = input->RowCount(row_group);
  if (deleted == nullptr) return rows;
  const auto begin = static_cast<uint64_t>(input->first_rows[static_cast<size_t>(row_group)]);
  return static_cast<int64_t>(
      deleted->LiveRows({.begin = begin, .end = begin + static_cast<uint64_t>(rows)}));
}

int64_t StitchedRun::row_count() const {
  int64_t rows = 0;
  for (const StitchPart& part : parts_) rows += part.LiveRows();
  return rows;
}

int64_t StitchedRun::bytes_estimated() const {
  double bytes = 0;
  for (const StitchPart& part : parts_) {
    const int64_t rows = part.input->RowCount(part.row_group);
    if (rows == 0) continue;
    bytes += static_cast<double>(part.input->CompressedBytes(part.row_group)) *
             static_cast<double>(part.LiveRows()) / static_cast<double>(rows);
  }
  return static_cast<int64_t>(bytes);
}

Status StitchedRun::WriteTo(const Context& ctx, ParquetAssembler& file) const {
  std::vector<StitchPart> parts;
  for (const StitchPart& part : parts_) {
    if (part.LiveRows() > 0) parts.push_back(part);
  }
  if (parts.empty()) return {};
  PF_TRY(FetchAhead(ctx, parts, file.columns().size()));
  const auto drop_fetched = [&] {
    for (const StitchPart& part : parts) part.input->source->DropBefore(INT64_MAX);
  };
  PF_TRY(file.BeginRowGroup(ctx, row_count()));
  ColumnReencoder reencoder(parts, file.columns(), options_, memory_, counts_);
  counts_.columns.resize(file.columns().size());
  for (size_t i = 0; i < file.columns().size(); ++i) {
    const LeafColumn& column = file.columns()[i];
    StitchCounts done;
    ColumnStitcher stitcher(parts, static_cast<int>(i), column, options_, memory_, done);
    const Status joined = stitcher.JoinTo(ctx, file);
    ColumnStitchCounts& own = counts_.columns[i];
    if (joined.ok()) {
      own.pages_copied += done.pages_copied;
      own.pages_changed += done.pages_changed();
      AddPages(counts_, done);
      continue;
    }
    if (joined.code() != Code::kRefused) return joined;
    if (Status encoded = reencoder.CopyTo(ctx, i, file); !encoded.ok()) {
      if (encoded.code() == Code::kRefused) {
        // Its rows are decoded instead, which takes the memory.
        drop_fetched();
        file.AbandonRowGroup();
      }
      return encoded;
    }
    own.rows_decoded += row_count();
    if (own.decode_reason.empty()) own.decode_reason = joined.message();
  }
  drop_fetched();
  return file.EndRowGroup(ctx);
}

}  // namespace partforge::data
