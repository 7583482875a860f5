#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/context.h"
#include "data/arrow_edge.h"
#include "data/batch_sink.h"
#include "data/bitmap.h"
#include "data/row_group_copy.h"

namespace partforge::data {

// Joining row groups into one, and leaving rows out of them, page by page: a page that loses no row
// and whose dictionary does not change is copied as it is, others are changed without building
// columns of values where their encoding allows it.

// A row group of the run.
struct StitchPart {
  std::shared_ptr<ParquetInput> input;
  int row_group = 0;
  std::vector<int> leaves = {};        // by target leaf (MapParquetLeaves); empty: the identity
  const RowFilter* deleted = nullptr;  // positions in the file; may be null; outlives the run
  std::vector<std::optional<int64_t>> nan_counts = {};  // by target leaf, where known; may be empty

  int64_t LiveRows() const;
};

// Most compressed bytes of a chunk that we make: some readers hold the size in 32 bits.
inline constexpr int64_t kChunkBytesMax = INT32_MAX;

struct StitchOptions {
  int64_t chunk_bytes_max = kChunkBytesMax;         // a run that grows beyond is kRefused
  int64_t dictionary_bytes_max = int64_t{2} << 20;  // of a union of dictionaries
  // CompressionCodec of parquet.thrift that all pages shall have; none: that of the first chunk.
  std::optional<int32_t> codec = std::nullopt;
  std::optional<int> codec_level = std::nullopt;  // of pages that are compressed anew
  double bloom_false_positive_rate = 0.01;        // of filters that are built anew
};

// What became of one column; added up over runs.
struct ColumnStitchCounts {
  int64_t pages_copied = 0;
  int64_t pages_changed = 0;  // recompressed, remapped, materialised or filtered
  int64_t rows_decoded = 0;
  std::string decode_reason = {};  // of the first run that had to
};

// What was done with pages; added up over runs.
struct StitchCounts {
  int64_t pages_copied = 0;
  int64_t pages_recompressed = 0;  // another codec or page version
  int64_t pages_remapped = 0;      // indices into a joined dictionary
  int64_t pages_materialised = 0;  // dictionary indices became values
  int64_t pages_filtered = 0;      // lost some rows
  int64_t pages_dropped = 0;       // lost all rows
  int64_t columns_decoded = 0;
  int64_t rows_decoded = 0;
  std::vector<ColumnStitchCounts> columns = {};  // by leaf of the target

  int64_t pages_changed() const {
    return pages_recompressed + pages_remapped + pages_materialised + pages_filtered;
  }
};

// One row group out of several, in their order. All parts must fit the schema of the file they are
// written to, with a leaf for every column. Failures: kRefused when a column can be neither
// stitched nor decoded and encoded to what the file says: nothing was written, and the caller
// decodes the rows; kCorruption for pages that break a rule; kExhausted when a column of the run
// does not fit the memory budget.
class StitchedRun final : public EncodedRows {
 public:
  // `counts` and `memory` must outlive the run.
  StitchedRun(std::vector<StitchPart> parts, StitchOptions options, ArrowMemory& memory,
              StitchCounts& counts)
      : parts_(std::move(parts)), options_(options), memory_(memory), counts_(counts) {}

  int64_t row_count() const override;
  int64_t bytes_estimated() const override;
  Status WriteTo(const Context& ctx, ParquetAssembler& file) const override;

 private:
  const std::vector<StitchPart> parts_;
  const StitchOptions options_;
  ArrowMemory& memory_;
  StitchCounts& counts_;
};

}  // namespace partforge::data
