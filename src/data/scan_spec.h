#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/arrow_edge.h"
#include "data/batch_source.h"
#include "data/bitmap.h"
#include "data/column_range.h"
#include "data/read_ahead.h"
#include "data/schema_mapping.h"

namespace partforge::data {

// What to read of one file, whatever its format.
struct ScanSpec {
  // Output columns with the table's types; ids in field metadata (kFieldIdKey). Null: all columns
  // as the file has them.
  std::shared_ptr<arrow::Schema> wanted = nullptr;
  MappingOptions mapping = {};
  std::vector<int> row_groups = {};  // Parquet row groups, ORC stripes; ascending; empty = all
  // Without `wanted`: only these leaf columns of the file, ascending; empty = all.
  std::vector<int> leaves = {};
  // Physical positions to leave out; may be null. Must outlive the source.
  const RowFilter* deleted = nullptr;
  // Name of an int64 column added last: the physical position in the file, counted before `deleted`
  // and whatever is pruned.
  std::optional<std::string> position_column = std::nullopt;
  // Rows outside of these ranges may be left out, by statistics alone: what is returned still has
  // to be filtered. All must hold.
  std::vector<ColumnRange> ranges = {};
  int64_t batch_rows_max = 65'536;
  int64_t batch_bytes_max = int64_t{8} << 20;  // of Arrow buffers; one row alone may be above
  ReadAheadOptions read_ahead = {};
  int64_t stream_bytes_max = int64_t{64} << 20;  // of chunks or streams not read ahead
};

// The same scan as one of several that are open at once, as a merge needs them: batches and what is
// read ahead together take about `share_bytes`, to which the pages of one row group come that are
// being decoded. Below a megabyte batches are small, and reading ahead ends.
ScanSpec LimitedTo(ScanSpec spec, int64_t share_bytes);

// The second half of every reader: turns decoded batches of a file into what a ScanSpec asks for,
// mapped, with positions, without deleted rows, cut by size. One thread at a time.
class ScanOutput {
 public:
  // `file_schema` is the schema of all columns of the file. The spec and `memory` must outlive the
  // object. Failures as of SchemaMapping::Make.
  static Result<ScanOutput> Make(const std::shared_ptr<arrow::Schema>& file_schema,
                                 const ScanSpec& spec, std::string file_name, ArrowMemory& memory);

  const std::shared_ptr<arrow::Schema>& schema() const { return schema_; }
  // Leaf columns of the file to decode, ascending. May be empty: only the number of rows matters.
  const std::vector<int>& leaves() const { return leaves_; }
  // Null when all columns are taken as they are.
  const SchemaMapping* mapping() const { return mapping_ ? &*mapping_ : nullptr; }

  // Takes a decoded batch whose first row has that position in the file.
  Status Push(const arrow::RecordBatch& decoded, int64_t first_row);
  // The same for rows of which no column is decoded.
  Status PushRows(int64_t row_count, int64_t first_row);
  // The next output batch; null when everything pushed was given out.
  std::shared_ptr<arrow::RecordBatch> Pop();
  // How many rows to decode next, so that the batch keeps to the limits; learned from what came.
  int64_t next_rows() const { return next_rows_; }

 private:
  ScanOutput(const ScanSpec& spec, ArrowMemory& memory) : spec_(&spec), memory_(&memory) {}
  Status Shape(std::shared_ptr<arrow::RecordBatch> batch, int64_t first_row);

  const ScanSpec* spec_;
  ArrowMemory* memory_;
  std::optional<SchemaMapping> mapping_;
  std::vector<int> leaves_;
  std::shared_ptr<arrow::Schema> schema_;
  std::deque<std::shared_ptr<arrow::RecordBatch>> ready_;
  int64_t next_rows_ = 0;
};

// Bytes of the rows a batch shows, not of the buffers behind them.
int64_t BatchBytes(const arrow::RecordBatch& batch);

}  // namespace partforge::data
