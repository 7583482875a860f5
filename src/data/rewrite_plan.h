#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/batch_sink.h"
#include "data/page_stitch.h"
#include "data/row_group_copy.h"
#include "data/scan_spec.h"

namespace partforge::data {

// How the rows of some Parquet files become those of others at the least cost: row groups copied,
// joined, robbed of rows page by page, or decoded and encoded.

struct RewriteInput {
  std::shared_ptr<ParquetInput> file;
  const RowFilter* deleted = nullptr;  // may be null; must outlive plan and run
  MappingOptions mapping = {};         // of rows that are decoded
};

struct RewriteTarget {
  CopyTarget copy;
  int64_t row_group_rows_max = int64_t{8} << 20;
  int64_t run_bytes_max = int64_t{1} << 30;  // no run is joined beyond
  // No chunk is made beyond: runs end before, and row groups that would pass it alone are decoded.
  int64_t chunk_bytes_max = kChunkBytesMax;
  // Steps of the first kind only where nothing else is to be done: what a dry run compares with.
  bool decodes_always = false;
  // CompressionCodec of parquet.thrift that row groups shall have: those with another one are
  // recompressed page by page. None: each keeps its own. Rows that are decoded get the sink's.
  std::optional<int32_t> codec = std::nullopt;
};

enum class StepKind : uint8_t {
  kCopy,         // one row group, as it is
  kStitch,       // several row groups into one, or one into another codec, page by page
  kFilterPages,  // one row group without its deleted rows, page by page
  kDecode,       // rows
};
std::string_view StepName(StepKind kind);

struct GroupRef {
  size_t input = 0;
  int row_group = 0;
  bool operator==(const GroupRef&) const = default;
};
struct RewriteStep {
  StepKind kind = StepKind::kCopy;
  std::vector<GroupRef> groups;  // in order; all rows come out in the order of the inputs
  int64_t live_rows = 0;
  int64_t bytes = 0;   // compressed, of the inputs
  std::string reason;  // why not a cheaper kind; empty for a copy
};

// Pure: looks at footers and deleted positions only. Row groups without a live row are left out.
// The run may degrade a column of a step to decoding, never skip rows.
Result<std::vector<RewriteStep>> PlanRewrite(const std::vector<RewriteInput>& inputs,
                                             const RewriteTarget& target);

// Where a row of a file stands after its deleted rows are gone: p − rank(D, p). The same for every
// kind of step, as all keep the order. The row itself must be live.
inline int64_t PositionWithout(const RowFilter& deleted, int64_t position) {
  return position - static_cast<int64_t>(deleted.deleted().Rank(static_cast<uint64_t>(position)));
}

struct RewriteCounts {
  int64_t row_groups_copied = 0;
  int64_t runs_stitched = 0;
  int64_t rows_decoded = 0;  // by kDecode; those of single columns are in `pages`
  StitchCounts pages;
};

// Carries the plan out. Rows that are decoded get the sink's schema; `sink` files must have the
// target's Parquet schema (ParquetSinkOptions::schema_of). The caller closes or aborts the sink.
Status RunRewrite(const Context& ctx, const std::vector<RewriteInput>& inputs,
                  const std::vector<RewriteStep>& steps, const RewriteTarget& target,
                  const std::shared_ptr<arrow::Schema>& schema, const StitchOptions& options,
                  RollingSink& sink, ArrowMemory& memory, RewriteCounts& counts);

}  // namespace partforge::data
