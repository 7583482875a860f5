#include "data/file_merge.h"

#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "data/loser_tree.h"

namespace partforge::data {
namespace {

// What is gathered for one batch holds batches that are through up to four times its size; one more
// is being gathered, and the caller has the one before.
constexpr int64_t kOutputBatches = 6;
constexpr int64_t kOutputShare = 32;
constexpr int64_t kBatchBytesMin = int64_t{64} << 10;
constexpr int64_t kRunBatchBytesMax = int64_t{512} << 10;

// A source whose first batch was read: what it holds of its file is taken from the budget by then.
class BegunSource final : public BatchSource {
 public:
  BegunSource(std::unique_ptr<BatchSource> source, std::shared_ptr<arrow::RecordBatch> first)
      : source_(std::move(source)), first_(std::move(first)), is_empty_(first_ == nullptr) {}
  const std::shared_ptr<arrow::Schema>& schema() const override { return source_->schema(); }
  Result<std::shared_ptr<arrow::RecordBatch>> Next(const Context& ctx) override {
    if (is_empty_ || first_ != nullptr) return std::exchange(first_, nullptr);
    return source_->Next(ctx);
  }

 private:
  const std::unique_ptr<BatchSource> source_;
  std::shared_ptr<arrow::RecordBatch> first_;
  const bool is_empty_;
};

class FileMerger {
 public:
  FileMerger(const KeyEncoder& keys, const FileMergeOptions& options, size_t file_count,
             SpillSpace& space, ArrowMemory& memory)
      : keys_(keys), merge_(options.merge), space_(space), memory_(memory) {
    merge_.batch_bytes_max = std::min(
        merge_.batch_bytes_max, std::max(options.memory_bytes / kOutputShare, kBatchBytesMin));
    const int64_t for_files =
        std::max<int64_t>(options.memory_bytes - kOutputBatches * merge_.batch_bytes_max, 0);
    share_bytes_ = for_files / static_cast<int64_t>(file_count);
    // Later pages may be larger than the first ones, and memory is taken in other pieces than it is
    // given back.
    held_bytes_max_ = for_files / 2;
  }

  Result<std::unique_ptr<BatchSource>> Run(const Context& ctx, std::vector<MergeFile> files,
                                           MergeFunction* function) {
    free_before_ = memory_.available_bytes();
    for (size_t i = 0; i < files.size(); ++i) {
      PF_TRY(Open(ctx, files[i]));
      const bool is_last = i + 1 == files.size();
      const int64_t held = free_before_ - memory_.available_bytes();
      if (!is_last && open_.size() > 1 && held > held_bytes_max_) PF_TRY(SpillOpen(ctx));
    }
    std::vector<std::unique_ptr<BatchSource>> sources;
    for (auto& run : runs_) {
      PF_ASSIGN(auto source, SpillFile::Read(std::move(run)));
      sources.push_back(std::move(source));
    }
    std::move(open_.begin(), open_.end(), std::back_inserter(sources));
    return MergeSorted(ctx, std::move(sources), keys_, function, merge_, memory_);
  }

 private:
  Status Open(const Context& ctx, const MergeFile& file) {
    auto source = Begin(ctx, file);
    if (!source.ok() && source.status().code() == Code::kExhausted && open_.size() > 1) {
      PF_TRY(SpillOpen(ctx));
      source = Begin(ctx, file);
    }
    if (!source.ok()) return source.status();
    open_.push_back(std::move(source).value());
    return {};
  }

  Result<std::unique_ptr<BatchSource>> Begin(const Context& ctx, const MergeFile& file) const {
    PF_ASSIGN(auto source, file.open(ctx, LimitedTo(file.scan, share_bytes_)));
    PF_ASSIGN(auto first, source->Next(ctx));
    return std::unique_ptr<BatchSource>(
        std::make_unique<BegunSource>(std::move(source), std::move(first)));
  }

  // Merges the files that are open into a run on disk, and closes them.
  Status SpillOpen(const Context& ctx) {
    MergeOptions options = merge_;
    options.batch_bytes_max = std::min(options.batch_bytes_max, kRunBatchBytesMax);
    const std::shared_ptr<arrow::Schema> schema = open_[0]->schema();
    PF_ASSIGN(const auto merged,
              MergeSorted(ctx, std::exchange(open_, {}), keys_, nullptr, options, memory_));
    PF_ASSIGN(auto run, SpillFile::Create(ctx, space_, schema, memory_));
    PF_TRY(run->AppendAll(ctx, *merged));
    runs_.push_back(std::move(run));
    return {};
  }

  const KeyEncoder& keys_;
  MergeOptions merge_;
  SpillSpace& space_;
  ArrowMemory& memory_;
  int64_t share_bytes_ = 0, held_bytes_max_ = 0, free_before_ = 0;
  std::vector<std::unique_ptr<SpillFile>> runs_;  // of files before those that are open
  std::vector<std::unique_ptr<BatchSource>> open_;
};

}  // namespace

Result<std::unique_ptr<BatchSource>> MergeFiles(const Context& ctx, std::vector<MergeFile> files,
                                                const KeyEncoder& keys, MergeFunction* function,
                                                const FileMergeOptions& options, SpillSpace& space,
                                                ArrowMemory& memory) {
  if (files.empty() || files.size() > LoserTree::kSourcesMax) {
    return Status(Code::kInvalidArgument, fmt::format("merge: of 1 to {} files, not {}",
                                                      LoserTree::kSourcesMax, files.size()));
  }
  FileMerger merger(keys, options, files.size(), space, memory);
  return merger.Run(ctx, std::move(files), function);
}

}  // namespace partforge::data
