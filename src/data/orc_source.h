#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/arrow_edge.h"
#include "data/batch_source.h"
#include "data/orc_attributes.h"
#include "data/orc_file.h"
#include "data/scan_spec.h"
#include "store/object_store.h"

namespace arrow {
class Array;
}  // namespace arrow

namespace partforge::data {

// What pruning left out and how much was asked of the object; for plans and tests.
struct OrcReadCounts {
  int64_t stripes_read = 0;
  int64_t stripes_pruned = 0;
  int64_t requests = 0;
};

class OrcSource : public BatchSource {
 public:
  virtual OrcReadCounts counts() const = 0;
};

// Reads an ORC file in a process of its own (orc_file.h); `row_groups` of the spec are stripes.
// Stripes are left out by their statistics (orc_statistics.h), as far as the file tells the truth;
// what the columns wanted need of the next stripe is fetched while one is decoded. `object` is
// taken over; `memory` must outlive the source and its batches; the context's collaborators outlive
// the source, as it reads ahead on threads. Timestamps between 1677 and 2262 only, as Arrow reads
// them in nanoseconds; a finer value than the wanted type holds is kCorruption.
Result<std::unique_ptr<OrcSource>> OpenOrcSource(const Context& ctx,
                                                 std::unique_ptr<ByteSource> object,
                                                 std::string file_name, ScanSpec spec,
                                                 OrcAttributes attributes, ArrowMemory& memory,
                                                 const OrcDecoderOptions& decoder = {});

// The part of an array that the chosen leaves are in: struct fields without any are left out, a map
// keeps its keys. `first_leaf` is the number of the array's first leaf, `leaves` ascend.
std::shared_ptr<arrow::Array> KeepLeaves(const std::shared_ptr<arrow::Array>& array, int first_leaf,
                                         const std::vector<int>& leaves);

}  // namespace partforge::data
