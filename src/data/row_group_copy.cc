#include "data/row_group_copy.h"

#include <fmt/format.h>

#include <algorithm>

#include "data/page_index.h"
#include "data/parquet_metrics.h"

namespace partforge::data {
namespace {

using namespace parquet_field;  // NOLINT: names of parquet.thrift

constexpr int64_t kPieceBytes = int64_t{8} << 20;
// A row group below this share of the target is worth joining with its neighbours.
constexpr int64_t kSmallShare = 8;
constexpr std::string_view kKeyPrefix = "_KEY_";  // key columns of files with keys apart

}  // namespace

const ParquetSchema& ParquetInput::schema() const {
  return footer.tree.Find(file_metadata::kSchema)->items();
}

int64_t ParquetInput::RowCount(int row_group) const {
  return footer.row_group(row_group).Find(row_group::kNumRows)->AsInt();
}

int64_t ParquetInput::CompressedBytes(int row_group) const {
  int64_t bytes = 0;
  for (size_t i = 0; i < columns.size(); ++i) {
    const auto view = ViewChunk(footer.chunk(row_group, static_cast<int>(i)), file_name);
    if (view.ok()) bytes += view->bytes.length;
  }
  return bytes;
}

Result<std::shared_ptr<ParquetInput>> OpenParquetInput(const Context& ctx,
                                                       std::unique_ptr<ByteSource> object,
                                                       std::string file_name,
                                                       const ReadAheadOptions& options) {
  auto input = std::make_shared<ParquetInput>();
  input->file_name = std::move(file_name);
  input->source = std::make_unique<ReadAheadSource>(std::move(object), options);
  PF_ASSIGN(input->footer, ReadParquetFooter(ctx, *input->source, input->file_name));
  PF_ASSIGN(input->columns, LeafColumns(input->schema(), input->file_name));
  int64_t row = 0;
  for (int i = 0; i < input->footer.row_group_count(); ++i) {
    input->first_rows.push_back(row);
    row += input->RowCount(i);
  }
  return input;
}

std::string CopyVerdict::Reason() const {
  const auto with_column = [&](std::string_view text) {
    return column.empty() ? std::string(text) : fmt::format("{}: {}", text, column);
  };
  switch (obstacle) {
    case CopyObstacle::kNone:
      return "";
    case CopyObstacle::kSchemaDiffers:
      return with_column("schema differs");
    case CopyObstacle::kNeedsProjection:
      return with_column("needs projection");
    case CopyObstacle::kDeletedRows:
      return "deleted rows";
    case CopyObstacle::kSort:
      return "sort";
    case CopyObstacle::kSmallRowGroups:
      return "small row groups";
    case CopyObstacle::kKeyColumns:
      return with_column("key columns differ");
  }
  return "";
}

Result<CopyVerdict> JudgeCopy(const ParquetInput& input, int row_group, const RowFilter* deleted,
                              const CopyTarget& target) {
  if (target.order_is_wanted) return CopyVerdict{.obstacle = CopyObstacle::kSort};
  PF_ASSIGN(const LeafMapping mapping,
            MapParquetLeaves(input.schema(), *target.schema, target.match, input.file_name));
  if (mapping.difference) {
    const bool is_key = mapping.difference->starts_with(kKeyPrefix);
    return CopyVerdict{
        .obstacle = is_key ? CopyObstacle::kKeyColumns : CopyObstacle::kSchemaDiffers,
        .column = *mapping.difference};
  }
  PF_ASSIGN(const std::vector<LeafColumn> wanted, LeafColumns(*target.schema, "the target"));
  for (const int leaf : mapping.missing) {
    const bool is_given =
        std::count(target.encoded_columns.begin(), target.encoded_columns.end(), leaf) > 0;
    if (is_given) continue;
    const std::string& column = wanted[static_cast<size_t>(leaf)].dotted_path;
    const bool is_key = column.starts_with(kKeyPrefix);
    return CopyVerdict{
        .obstacle = is_key ? CopyObstacle::kKeyColumns : CopyObstacle::kNeedsProjection,
        .column = column};
  }
  if (deleted != nullptr) {
    const auto begin = static_cast<uint64_t>(input.first_rows[static_cast<size_t>(row_group)]);
    const RowRun rows{.begin = begin,
                      .end = begin + static_cast<uint64_t>(input.RowCount(row_group))};
    if (deleted->LiveRows(rows) != rows.size()) {
      return CopyVerdict{.obstacle = CopyObstacle::kDeletedRows};
    }
  }
  if (!target.small_is_fine &&
      input.CompressedBytes(row_group) < target.row_group_bytes / kSmallShare) {
    return CopyVerdict{.obstacle = CopyObstacle::kSmallRowGroups};
  }
  return CopyVerdict{};
}

namespace {

// Cuts a minimum or maximum that is longer than the limit, in place; false when there is no shorter
// bound. `is_exact` is cleared when it was cut.
bool CutBound(const LeafColumn& column, bool is_lower, size_t bytes_max, std::string& value,
              bool& is_exact) {
  if (value.size() <= bytes_max) return true;
  const auto scalar = ScalarOfPlain(column, value);
  if (!scalar) return false;
  if (scalar->type() != ScalarType::kString && scalar->type() != ScalarType::kBytes) return true;
  is_exact = false;
  if (is_lower) {
    value = TruncateLower(*scalar, bytes_max).AsBytes();
    return true;
  }
  const auto upper = TruncateUpper(*scalar, bytes_max);
  if (!upper) return false;
  value = upper->AsBytes();
  return true;
}

void CutStatistics(const LeafColumn& column, size_t bytes_max, ThriftValue& chunk) {
  ThriftValue* stats = chunk.Find(column_chunk::kMetaData)->Find(column_metadata::kStatistics);
  if (stats == nullptr || stats->type() != ThriftType::kStruct ||
      column.type != ParquetType::kByteArray) {
    return;
  }
  // The deprecated pair would hold the same long values once more.
  stats->Remove(statistics::kMin);
  stats->Remove(statistics::kMax);
  const auto cut = [&](int16_t value_id, int16_t exact_id, bool is_lower) {
    const ThriftValue* field = stats->Find(value_id);
    if (field == nullptr || field->type() != ThriftType::kBinary) return;
    std::string value = field->AsBinary();
    bool is_exact = true;
    if (!CutBound(column, is_lower, bytes_max, value, is_exact)) {
      stats->Remove(value_id);
      stats->Remove(exact_id);
    } else if (!is_exact) {
      stats->Set(value_id, ThriftValue::Binary(std::move(value)));
      stats->Set(exact_id, ThriftValue::Bool(false));
    }
  };
  cut(statistics::kMinValue, statistics::kIsMinValueExact, true);
  cut(statistics::kMaxValue, statistics::kIsMaxValueExact, false);
}

// Counts that cannot be: more nulls or distinct values than values, or less than none.
void DropImpossibleCounts(const LeafColumn& column, int64_t num_values, ThriftValue& chunk) {
  ThriftValue* const stats =
      chunk.Find(column_chunk::kMetaData)->Find(column_metadata::kStatistics);
  if (stats == nullptr || stats->type() != ThriftType::kStruct) return;
  const auto keep_up_to = [&](int16_t id, int64_t count_max) {
    const ThriftValue* const count = stats->Find(id);
    if (count == nullptr) return;
    const bool is_count = count->type() == ThriftType::kI64 || count->type() == ThriftType::kI32;
    if (!is_count || count->AsInt() < 0 || count->AsInt() > count_max) stats->Remove(id);
  };
  keep_up_to(statistics::kNullCount, column.max_definition_level == 0 ? 0 : num_values);
  keep_up_to(statistics::kDistinctCount, num_values);
}

// The new file says that bounds are ordered as types are, and not who wrote them: those of another
// order, and the deprecated ones that were wrong in old writers, would be believed.
void DropUntrueBounds(const LeafColumn& column, BoundOrder order, ThriftValue& chunk) {
  ThriftValue* const stats =
      chunk.Find(column_chunk::kMetaData)->Find(column_metadata::kStatistics);
  if (stats == nullptr || stats->type() != ThriftType::kStruct) return;
  if (!DeprecatedBoundsHold(column)) {
    stats->Remove(statistics::kMin);
    stats->Remove(statistics::kMax);
  }
  if (BoundsHold(column, order)) return;
  for (const int16_t id : {statistics::kMinValue, statistics::kMaxValue,
                           statistics::kIsMinValueExact, statistics::kIsMaxValueExact}) {
    stats->Remove(id);
  }
}

// The bytes of an index with shorter bounds; as they are when none is too long. An index with a
// page whose bound cannot be cut is dropped: it has no way to say "unknown".
std::string CutColumnIndex(const LeafColumn& column, size_t bytes_max, ColumnIndex index,
                           std::string bytes) {
  if (column.type != ParquetType::kByteArray) return bytes;
  bool all_exact = true;
  for (size_t i = 0; i < index.null_pages.size(); ++i) {
    if (!CutBound(column, true, bytes_max, index.min_values[i], all_exact) ||
        !CutBound(column, false, bytes_max, index.max_values[i], all_exact)) {
      return std::string();
    }
  }
  return all_exact ? bytes : EncodeColumnIndex(index);
}

}  // namespace

Status CopyChunk(const Context& ctx, ByteSource& source, const ParquetFooter& footer, int row_group,
                 int leaf, std::string_view file_name, std::optional<int64_t> nan_count,
                 int64_t bound_bytes_max, ParquetAssembler& file) {
  const ThriftValue& chunk = footer.chunk(row_group, leaf);
  PF_ASSIGN(const ChunkView view, ViewChunk(chunk, file_name));
  const int64_t row_count = footer.row_group(row_group).Find(row_group::kNumRows)->AsInt();
  std::vector<std::byte> piece;
  for (int64_t done = 0; done < view.bytes.length;) {
    PF_TRY(ctx.CheckStop("copying a row group"));
    const int64_t count = std::min(kPieceBytes, view.bytes.length - done);
    piece.resize(static_cast<size_t>(count));
    PF_TRY(source.ReadAt(ctx, view.bytes.offset + done, piece));
    PF_TRY(file.AppendPages(ctx, piece));
    done += count;
  }
  EncodedChunk encoded{.chunk = chunk, .pages_began_at = view.bytes.offset, .nan_count = nan_count};
  if (!view.dictionary_page_offset) {
    // Some writers store 0 or the data page's own offset for "none".
    encoded.chunk.Find(column_chunk::kMetaData)->Remove(column_metadata::kDictionaryPageOffset);
  }
  const LeafColumn& column = file.columns()[file.open_chunk_count()];
  const BoundOrder order = BoundOrderOf(footer.tree, leaf);
  PF_ASSIGN(auto offsets, ReadOffsetIndex(ctx, source, view, row_count, file_name));
  std::optional<ColumnIndex> index;
  if (offsets) {
    // Checked before it is handed on: an index whose pages are not those of the chunk makes a file
    // that nobody can read. One of untrue bounds is not handed on.
    if (BoundsHold(column, order)) {
      PF_ASSIGN(index, ReadColumnIndex(ctx, source, view, offsets->pages.size(), file_name,
                                       &encoded.column_index));
    }
    encoded.offset_index = std::move(offsets->tree);
  }
  PF_ASSIGN(auto bloom, ReadBloomFilter(ctx, source, view, file_name));
  if (bloom) {
    // It is held until the pages of all columns are there.
    PF_ASSIGN(encoded.bloom_grant, ctx.memory.TryReserve(static_cast<int64_t>(bloom->bits.size())));
    encoded.bloom_filter = bloom->header + bloom->bits;
  }
  DropUntrueBounds(column, order, encoded.chunk);
  DropImpossibleCounts(column, view.num_values, encoded.chunk);
  if (bound_bytes_max > 0) {
    const auto limit = static_cast<size_t>(bound_bytes_max);
    CutStatistics(column, limit, encoded.chunk);
    if (index) {
      encoded.column_index =
          CutColumnIndex(column, limit, std::move(*index), std::move(encoded.column_index));
    }
  }
  return file.EndChunk(std::move(encoded));
}

Status CopyRowGroup(const Context& ctx, ByteSource& source, const ParquetFooter& footer,
                    int row_group, std::string_view file_name, const CopyOptions& options,
                    ParquetAssembler& file) {
  ThriftValue kept = footer.row_group(row_group);
  const int64_t row_count = kept.Find(row_group::kNumRows)->AsInt();
  kept.Remove(row_group::kColumns);
  // Sorting columns name leaves by number, which holds only where the leaves are the same.
  if (!options.leaves.empty()) kept.Remove(row_group::kSortingColumns);
  PF_TRY(file.BeginRowGroup(ctx, row_count, std::move(kept)));
  for (size_t i = 0; i < file.columns().size(); ++i) {
    const std::optional<int64_t> nan_count =
        i < options.nan_counts.size() ? options.nan_counts[i] : std::nullopt;
    const auto given =
        std::find_if(options.overrides.begin(), options.overrides.end(),
                     [&](const ChunkOverride& o) { return o.target_leaf == static_cast<int>(i); });
    if (given != options.overrides.end()) {
      PF_TRY(CopyChunk(ctx, *given->source, *given->footer, given->row_group, given->leaf,
                       file_name, nan_count, options.bound_bytes_max, file));
      continue;
    }
    const int leaf = options.leaves.empty() ? static_cast<int>(i) : options.leaves[i];
    PF_CHECK(leaf >= 0, "a column without a source");
    PF_TRY(CopyChunk(ctx, source, footer, row_group, leaf, file_name, nan_count,
                     options.bound_bytes_max, file));
  }
  return file.EndRowGroup(ctx);
}

Status CopiedRowGroup::WriteTo(const Context& ctx, ParquetAssembler& file) const {
  std::vector<FileRange> ranges;
  for (size_t i = 0; i < file.columns().size(); ++i) {
    const int leaf = options_.leaves.empty() ? static_cast<int>(i) : options_.leaves[i];
    if (leaf < 0) continue;
    PF_ASSIGN(const ChunkView view,
              ViewChunk(input_->footer.chunk(row_group_, leaf), input_->file_name));
    ranges.push_back(view.bytes);
  }
  input_->source->Fetch(ctx, ranges);
  Status status = CopyRowGroup(ctx, *input_->source, input_->footer, row_group_, input_->file_name,
                               options_, file);
  int64_t end = 0;
  for (const FileRange& range : ranges) end = std::max(end, range.end());
  input_->source->DropBefore(end);
  return std::move(status).With(
      fmt::format("copy row group {} of {}", row_group_, input_->file_name));
}

}  // namespace partforge::data
