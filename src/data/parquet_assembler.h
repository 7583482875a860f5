#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/context.h"
#include "data/batch_sink.h"
#include "data/parquet_footer.h"
#include "data/parquet_metrics.h"
#include "data/parquet_schema.h"
#include "store/object_store.h"

namespace partforge::data {

// Metadata of one column chunk whose pages were appended.
struct EncodedChunk {
  ThriftValue chunk = ThriftValue::Struct();  // ColumnChunk
  // Where the chunk's first page stood when the offsets in `chunk` and `offset_index` were right.
  int64_t pages_began_at = 0;
  std::optional<ThriftValue> offset_index = std::nullopt;  // OffsetIndex
  std::string column_index = {};                           // ColumnIndex, encoded
  std::string bloom_filter = {};                           // header and bits
  MemoryGrant bloom_grant = {};                            // for it
  // NaNs among the values, where somebody counted them.
  std::optional<int64_t> nan_count = std::nullopt;
};

struct AssemblerOptions {
  std::vector<std::pair<std::string, std::string>> key_values = {};
  std::string created_by = {};
  std::string file_name = {};  // for messages
};

// Writes a Parquet file out of column chunks that are encoded already: pages, page indexes, bloom
// filters, footer. Everything the chunks' metadata says is kept but for places. One thread at a
// time; an error leaves the file unfit for anything but being dropped.
class ParquetAssembler {
 public:
  // The footer numbers row groups by 16 bits.
  static constexpr int kRowGroupsMax = 32'767;

  // The file gets the schema, and says that minima and maxima are ordered as types are: chunks with
  // bounds of another order lose them first. The sink outlives the assembler.
  static Result<ParquetAssembler> Make(ParquetSchema schema, AssemblerOptions options,
                                       ByteSink& sink);

  const ParquetSchema& schema() const { return schema_; }
  const std::vector<LeafColumn>& columns() const { return columns_; }

  // A row group is: BeginRowGroup, then for each column AppendPages any number of times and
  // EndChunk, then EndRowGroup. `row_group` gives the fields that are kept (sorting columns, what
  // we do not know); sizes, rows and columns are set here.
  Status BeginRowGroup(const Context& ctx, int64_t row_count,
                       ThriftValue row_group = ThriftValue::Struct());
  Status AppendPages(const Context& ctx, std::span<const std::byte> bytes);
  Status EndChunk(EncodedChunk chunk);
  Status EndRowGroup(const Context& ctx);
  // Forgets the open row group. Its pages stay in the file, and nothing refers to them.
  void AbandonRowGroup();

  int64_t row_count() const { return row_count_; }
  int row_group_count() const { return static_cast<int>(row_groups_.size()); }
  // Columns of the open row group that are complete.
  size_t open_chunk_count() const { return chunks_.size(); }
  int64_t bytes_written() const { return offset_; }
  // bytes_written and what Finish will add, about.
  int64_t bytes_estimated() const;

  // Writes indexes and footer, and reads the footer back from its own bytes. Does not close the
  // sink. `metrics` are those of the columns over all row groups.
  struct Finished {
    int64_t size_bytes = 0;
    FileMetrics metrics;
    std::vector<int64_t> split_offsets;
  };
  Result<Finished> Finish(const Context& ctx);

 private:
  ParquetAssembler(AssemblerOptions options, ByteSink& sink)
      : options_(std::move(options)), sink_(&sink) {}
  Status Append(const Context& ctx, std::span<const std::byte> bytes);
  Status WriteIndexes(const Context& ctx);
  ThriftValue TakeFooter();
  Status ChargeRowGroup(const Context& ctx);
  void ForgetBloomFilters();

  struct LateIndexes {
    std::optional<ThriftValue> offset_index;
    std::string column_index;
  };

  AssemblerOptions options_;
  ByteSink* sink_;
  ParquetSchema schema_;
  std::vector<LeafColumn> columns_;
  int64_t offset_ = 0;
  int64_t row_count_ = 0;

  // Of the row group being written.
  ThriftValue group_ = ThriftValue::Struct();
  std::vector<ThriftValue> chunks_;
  std::vector<std::string> bloom_filters_;
  std::vector<MemoryGrant> bloom_grants_;
  int64_t group_rows_ = 0;
  int64_t group_start_ = 0;
  int64_t chunk_start_ = 0;
  int64_t group_late_bytes_ = 0;  // late_bytes_ before it

  std::vector<ThriftValue> row_groups_;
  std::vector<MemoryGrant> grants_;                     // by row group: metadata and late indexes
  std::vector<std::vector<LateIndexes>> late_indexes_;  // by row group and column
  int64_t late_bytes_ = 0;
  NanCounts nan_counts_;
};

}  // namespace partforge::data
