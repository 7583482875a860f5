#include "data/file_merge.h"

#include <fmt/format.h>

#include <algorithm>

#include "data/loser_tree.h"

namespace partforge::data {
namespace {

// What is gathered for one batch holds batches that are through up to four times its size, and the
// caller has the one before.
constexpr int64_t kOutputShare = 32;
constexpr int64_t kOutputBytesMin = int64_t{64} << 10;

MergeOptions OutputOptions(const FileMergeOptions& options) {
  MergeOptions merge = options.merge;
  merge.batch_bytes_max = std::min(merge.batch_bytes_max,
                                   std::max(options.memory_bytes / kOutputShare, kOutputBytesMin));
  return merge;
}

}  // namespace

Result<std::unique_ptr<BatchSource>> MergeFiles(const Context& ctx, std::vector<MergeFile> files,
                                                const KeyEncoder& keys, MergeFunction* function,
                                                const FileMergeOptions& options,
                                                ArrowMemory& memory) {
  if (files.empty() || files.size() > LoserTree::kSourcesMax) {
    return Status(Code::kInvalidArgument, fmt::format("merge: of 1 to {} files, not {}",
                                                      LoserTree::kSourcesMax, files.size()));
  }
  const MergeOptions merge = OutputOptions(options);
  constexpr int64_t kOutputBatches = 6;  // four held, one gathered, one of the caller
  const int64_t for_files =
      std::max<int64_t>(options.memory_bytes - kOutputBatches * merge.batch_bytes_max, 0);
  const int64_t share_bytes = for_files / static_cast<int64_t>(files.size());
  std::vector<std::unique_ptr<BatchSource>> sources;
  for (MergeFile& file : files) {
    PF_ASSIGN(auto source, file.open(ctx, LimitedTo(std::move(file.scan), share_bytes)));
    sources.push_back(std::move(source));
  }
  return MergeSorted(ctx, std::move(sources), keys, function, merge, memory);
}

}  // namespace partforge::data
