#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/context.h"
#include "data/arrow_edge.h"
#include "data/batch_source.h"
#include "data/scan_spec.h"
#include "data/sort_merge.h"
#include "data/spill.h"

namespace partforge::data {

// A file of a merge: what to read of it, and how a source of its format is opened with that. It may
// be opened a second time when memory was short the first time.
struct MergeFile {
  ScanSpec scan = {};
  std::function<Result<std::unique_ptr<BatchSource>>(const Context& ctx, ScanSpec scan)> open;
};

struct FileMergeOptions {
  MergeOptions merge = {};
  // Of all files together and what comes out.
  int64_t memory_bytes = int64_t{512} << 20;
};

// Merges files that are sorted by key each (sort_merge.h, MergeSorted), at most
// LoserTree::kSourcesMax. Each reads as much ahead and in as large batches as its share of the
// memory allows; where the pages that all of them hold at once are still too many, those opened so
// far are merged into a run in `space` first, neighbours with neighbours, so that rows of one key
// keep the order of the files. A merge function sees all rows of a key at once; `RowAt::source`
// then counts runs, not files. References must outlive the result. kRefused when the indices of a
// dictionary column have no room for the distinct values that come together in a batch.
Result<std::unique_ptr<BatchSource>> MergeFiles(const Context& ctx, std::vector<MergeFile> files,
                                                const KeyEncoder& keys, MergeFunction* function,
                                                const FileMergeOptions& options, SpillSpace& space,
                                                ArrowMemory& memory);

}  // namespace partforge::data
