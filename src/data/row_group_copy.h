#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/context.h"
#include "data/batch_sink.h"
#include "data/bitmap.h"
#include "data/field_ref.h"
#include "data/parquet_assembler.h"
#include "data/parquet_footer.h"
#include "data/parquet_schema.h"
#include "data/read_ahead.h"

namespace partforge::data {

// Copying row groups from Parquet files to another as bytes: pages, statistics, page indexes and
// bloom filters pass through; only places change.

// A file to copy from. The footer was checked. Share it between the steps of a plan.
struct ParquetInput {
  std::string file_name;
  std::unique_ptr<ReadAheadSource> source;
  ParquetFooter footer;
  std::vector<LeafColumn> columns;
  std::vector<int64_t> first_rows;  // by row group: position in the file

  const ParquetSchema& schema() const;
  int64_t RowCount(int row_group) const;
  int64_t CompressedBytes(int row_group) const;  // of its column chunks
};
// kRefused for an encrypted file, kCorruption for bytes that are no sound Parquet file.
Result<std::shared_ptr<ParquetInput>> OpenParquetInput(const Context& ctx,
                                                       std::unique_ptr<ByteSource> object,
                                                       std::string file_name,
                                                       const ReadAheadOptions& options = {});

enum class CopyObstacle : uint8_t {
  kNone,
  kSchemaDiffers,
  kNeedsProjection,  // a column the file lacks must be filled in
  kDeletedRows,
  kSort,
  kSmallRowGroups,
  kKeyColumns,
};
struct CopyVerdict {
  CopyObstacle obstacle = CopyObstacle::kNone;
  std::string column = {};  // the column concerned, where there is one
  bool can_copy() const { return obstacle == CopyObstacle::kNone; }
  // What a plan shows: "schema differs: price".
  std::string Reason() const;
};

// What the output wants of its row groups.
struct CopyTarget {
  const ParquetSchema* schema = nullptr;  // must outlive the target
  MatchBy match = MatchBy::kFieldId;
  bool order_is_wanted = false;  // another order than that of the inputs
  int64_t row_group_bytes = int64_t{128} << 20;
  bool small_is_fine = false;  // the caller takes row groups of any size
  // Columns of the target (by leaf) that the caller encodes itself for each row group.
  std::vector<int> encoded_columns = {};
};

// Says whether a row group may be copied whole. `deleted` are positions in the file; may be null.
// A row group all of whose rows are deleted should be left out before asking.
Result<CopyVerdict> JudgeCopy(const ParquetInput& input, int row_group, const RowFilter* deleted,
                              const CopyTarget& target);

// A chunk that takes the place of what the file has or lacks for a column of the target.
struct ChunkOverride {
  int target_leaf = 0;
  ByteSource* source = nullptr;  // must outlive the copy
  const ParquetFooter* footer = nullptr;
  int row_group = 0;
  int leaf = 0;
};

struct CopyOptions {
  // By target leaf; empty: the identity.
  std::vector<int> leaves = {};
  std::vector<ChunkOverride> overrides = {};
  // NaNs by target leaf, where they are known; may be empty.
  std::vector<std::optional<int64_t>> nan_counts = {};
  // Longer minima and maxima are cut, as bounds; 0 = left as they are.
  int64_t bound_bytes_max = 0;
};

// Copies one row group to the end of the file. The chunks must fit the assembler's schema
// (MapParquetLeaves). Page and offset indexes of the input are checked on the way: kCorruption.
Status CopyRowGroup(const Context& ctx, ByteSource& source, const ParquetFooter& footer,
                    int row_group, std::string_view file_name, const CopyOptions& options,
                    ParquetAssembler& file);

// Copies one column chunk; a piece of the above for row groups that are put together.
Status CopyChunk(const Context& ctx, ByteSource& source, const ParquetFooter& footer, int row_group,
                 int leaf, std::string_view file_name, std::optional<int64_t> nan_count,
                 int64_t bound_bytes_max, ParquetAssembler& file);

// A row group of an input as rows for a sink.
class CopiedRowGroup final : public EncodedRows {
 public:
  CopiedRowGroup(std::shared_ptr<ParquetInput> input, int row_group, CopyOptions options)
      : input_(std::move(input)), row_group_(row_group), options_(std::move(options)) {}
  int64_t row_count() const override { return input_->RowCount(row_group_); }
  int64_t bytes_estimated() const override { return input_->CompressedBytes(row_group_); }
  Status WriteTo(const Context& ctx, ParquetAssembler& file) const override;

 private:
  const std::shared_ptr<ParquetInput> input_;
  const int row_group_;
  const CopyOptions options_;
};

}  // namespace partforge::data
