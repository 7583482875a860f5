#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/error.h"
#include "data/arrow_edge.h"

namespace arrow {
class RecordBatch;
class Schema;
}  // namespace arrow

namespace partforge::data {

// Rows [begin, begin + count) of a batch.
struct BatchRun {
  std::shared_ptr<arrow::RecordBatch> batch;
  int64_t begin = 0;
  int64_t count = 0;
};

// One batch of the rows of the runs, in their order. All batches have the schema. A single run is
// handed on without a copy. kExhausted when a string column passes 2 GiB or memory ends.
Result<std::shared_ptr<arrow::RecordBatch>> Gather(const std::shared_ptr<arrow::Schema>& schema,
                                                   std::span<const BatchRun> runs,
                                                   ArrowMemory& memory);

// Appends a run, joining it to the last one where it goes on.
void AppendRun(std::vector<BatchRun>& runs, BatchRun run);

}  // namespace partforge::data
