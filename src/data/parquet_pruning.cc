#include "data/parquet_pruning.h"

#include <algorithm>

#include "data/page_index.h"
#include "data/parquet_metrics.h"

namespace partforge::data {
namespace {
using namespace parquet_field;  // NOLINT: names of parquet.thrift
}  // namespace

std::vector<RowRun> IntersectRuns(const std::vector<RowRun>& a, const std::vector<RowRun>& b) {
  std::vector<RowRun> runs;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const RowRun run{.begin = std::max(a[i].begin, b[j].begin),
                     .end = std::min(a[i].end, b[j].end)};
    if (run.begin < run.end) runs.push_back(run);
    if (a[i].end < b[j].end) {
      ++i;
    } else {
      ++j;
    }
  }
  return runs;
}

Result<ParquetPruner> ParquetPruner::Make(const ParquetFooter& footer, const SchemaMapping* mapping,
                                          const std::vector<ColumnRange>& ranges,
                                          std::string_view file_name) {
  ParquetPruner pruner;
  pruner.footer_ = &footer;
  pruner.file_name_ = std::string(file_name);
  PF_ASSIGN(pruner.columns_,
            LeafColumns(footer.tree.Find(file_metadata::kSchema)->items(), file_name));
  for (const ColumnRange& range : ranges) {
    std::optional<int> leaf;
    if (mapping != nullptr) {
      leaf = mapping->LeafOf(range.column);
    } else {
      for (size_t i = 0; i < pruner.columns_.size() && !leaf; ++i) {
        const LeafColumn& column = pruner.columns_[i];
        const bool is_it = range.column.id >= 0 ? column.field_id == range.column.id
                                                : column.dotted_path == range.column.name;
        if (is_it) leaf = static_cast<int>(i);
      }
    }
    if (!leaf || !pruner.columns_[static_cast<size_t>(*leaf)].is_flat_top_level) continue;
    pruner.bound_.push_back({.range = range, .leaf = *leaf});
  }
  return pruner;
}

bool ParquetPruner::MayMatch(const BoundRange& bound, const KnownValues& known) const {
  return data::MayMatch(bound.range, known, columns_[static_cast<size_t>(bound.leaf)].scalar);
}

Result<bool> ParquetPruner::MayMatch(const Context& ctx, ByteSource& source, int row_group) const {
  for (const BoundRange& bound : bound_) {
    PF_ASSIGN(const ColumnMetrics metrics,
              MetricsOfChunk(columns_[static_cast<size_t>(bound.leaf)],
                             footer_->chunk(row_group, bound.leaf),
                             BoundOrderOf(footer_->tree, bound.leaf), file_name_));
    KnownValues known;
    if (metrics.lower) known.lower = metrics.lower->value;
    if (metrics.upper) known.upper = metrics.upper->value;
    known.may_have_null = metrics.null_count != 0;
    known.may_have_value = !metrics.null_count || metrics.null_count != metrics.value_count;
    if (!MayMatch(bound, known)) return false;
  }
  for (const BoundRange& bound : bound_) {
    if (bound.range.equals.empty() || bound.range.null_is_wanted || bound.range.nan_is_wanted) {
      continue;
    }
    PF_ASSIGN(const bool may_match, BloomMayMatch(ctx, source, row_group, bound));
    if (!may_match) return false;
  }
  return true;
}

Result<bool> ParquetPruner::BloomMayMatch(const Context& ctx, ByteSource& source, int row_group,
                                          const BoundRange& bound) const {
  PF_ASSIGN(const ChunkView chunk, ViewChunk(footer_->chunk(row_group, bound.leaf), file_name_));
  if (chunk.bloom_filter.offset <= 0) return true;
  const LeafColumn& column = columns_[static_cast<size_t>(bound.leaf)];
  std::vector<std::string> plains;
  for (const Scalar& value : bound.range.equals) {
    // A float is stored as it was, and zero in two ways.
    const bool is_zero = IsFloat(value.type()) && value.AsDouble() == 0;
    const auto plain = is_zero ? std::nullopt : PlainOfScalar(column, value);
    if (!plain) {
      // An integer beyond the file's type cannot be there; all else we do not know.
      const bool is_too_large =
          IsInteger(value.type()) && column.scalar && *column.scalar == ScalarType::kInt32;
      if (is_too_large) continue;
      return true;
    }
    plains.push_back(*plain);
  }
  PF_ASSIGN(const auto filter, ReadBloomFilter(ctx, source, chunk, file_name_));
  if (!filter) return true;
  return std::any_of(plains.begin(), plains.end(),
                     [&](const std::string& plain) { return MayContain(*filter, plain); });
}

Result<std::vector<RowRun>> ParquetPruner::RowsToRead(const Context& ctx, ByteSource& source,
                                                      int row_group) const {
  const int64_t row_count = footer_->row_group(row_group).Find(row_group::kNumRows)->AsInt();
  std::vector<RowRun> rows{{.begin = 0, .end = static_cast<uint64_t>(row_count)}};
  for (const BoundRange& bound : bound_) {
    const LeafColumn& column = columns_[static_cast<size_t>(bound.leaf)];
    if (!BoundsHold(column, BoundOrderOf(footer_->tree, bound.leaf))) continue;
    PF_ASSIGN(const ChunkView chunk, ViewChunk(footer_->chunk(row_group, bound.leaf), file_name_));
    PF_ASSIGN(const auto offsets, ReadOffsetIndex(ctx, source, chunk, row_count, file_name_));
    if (!offsets) continue;
    PF_ASSIGN(const auto index,
              ReadColumnIndex(ctx, source, chunk, offsets->pages.size(), file_name_));
    if (!index) continue;
    std::vector<RowRun> kept;
    for (size_t i = 0; i < offsets->pages.size(); ++i) {
      KnownValues known;
      known.may_have_value = !index->null_pages[i];
      known.may_have_null = !index->null_counts || (*index->null_counts)[i] != 0;
      if (known.may_have_value) {
        const auto lower = ScalarOfPlain(column, index->min_values[i]);
        const auto upper = ScalarOfPlain(column, index->max_values[i]);
        if (lower) known.lower = *lower;
        if (upper) known.upper = *upper;
      }
      if (!MayMatch(bound, known)) continue;
      const RowRun run{.begin = static_cast<uint64_t>(offsets->pages[i].first_row),
                       .end = static_cast<uint64_t>(offsets->EndRow(i, row_count))};
      if (run.begin == run.end) continue;  // a page without a row
      if (!kept.empty() && kept.back().end == run.begin) {
        kept.back().end = run.end;
      } else {
        kept.push_back(run);
      }
    }
    rows = IntersectRuns(rows, kept);
  }
  return rows;
}

}  // namespace partforge::data
