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

namespace partforge::data {

// A file of a merge: what to read of it, and how a source of its format is opened with that.
struct MergeFile {
  ScanSpec scan = {};
  std::function<Result<std::unique_ptr<BatchSource>>(const Context& ctx, ScanSpec scan)> open;
};

struct FileMergeOptions {
  MergeOptions merge = {};
  // Of all files together and what comes out; they have equal shares. Below about two megabytes a
  // file, the pages that are being decoded go beyond it (scan_spec.h, LimitedTo).
  int64_t memory_bytes = int64_t{512} << 20;
};

// Opens files that are sorted by key each, so that all together keep to the memory, and merges them
// (sort_merge.h, MergeSorted). At most LoserTree::kSourcesMax. References must outlive the result.
Result<std::unique_ptr<BatchSource>> MergeFiles(const Context& ctx, std::vector<MergeFile> files,
                                                const KeyEncoder& keys, MergeFunction* function,
                                                const FileMergeOptions& options,
                                                ArrowMemory& memory);

}  // namespace partforge::data
