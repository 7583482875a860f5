#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "data/arrow_edge.h"
#include "data/batch_source.h"
#include "data/scan_spec.h"
#include "store/object_store.h"

namespace partforge::data {

// What pruning left out and how much was asked of the object; for plans and tests.
struct ParquetReadCounts {
  int64_t row_groups_read = 0;
  int64_t row_groups_pruned = 0;
  int64_t rows_pruned_in_pages = 0;
  int64_t requests = 0;
};

// Reads a Parquet file row group by row group, fetching one ahead. Row groups are skipped by chunk
// statistics, then by bloom filters, then rows by the page index. One thread at a time.
class ParquetSource : public BatchSource {
 public:
  // Reads and checks the footer. `object` is taken over; `memory` must outlive the source and its
  // batches; the context's collaborators outlive the source, as it reads ahead on threads.
  // kCorruption for bytes that are no sound Parquet file, kRefused for an encrypted one.
  static Result<std::unique_ptr<ParquetSource>> Open(const Context& ctx,
                                                     std::unique_ptr<ByteSource> object,
                                                     std::string file_name, ScanSpec spec,
                                                     ArrowMemory& memory);
  virtual ParquetReadCounts counts() const = 0;
};

// The Arrow schema of all columns of a file, with ids in field metadata.
Result<std::shared_ptr<arrow::Schema>> ReadParquetSchema(const Context& ctx, ByteSource& source,
                                                         std::string_view file_name,
                                                         ArrowMemory& memory);

}  // namespace partforge::data
