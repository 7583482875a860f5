#include "data/sort_merge.h"

#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <fmt/format.h>

#include <algorithm>

#include "data/gather.h"
#include "data/scan_spec.h"

namespace partforge::data {
namespace {

using BatchRef = std::shared_ptr<arrow::RecordBatch>;

// Collects rows until a batch of them is full.
class OutputBuilder {
 public:
  // `places` are what rows are added by: each stands for one batch after another.
  OutputBuilder(size_t places, const MergeOptions& options, ArrowMemory& memory)
      : options_(options), memory_(memory), places_(places) {}

  void Add(size_t place, const BatchRef& batch, int64_t begin, int64_t count) {
    Place& known = places_[place];
    if (known.batch != batch.get()) {
      held_bytes_ += known.bytes;
      const int64_t bytes = BatchBytes(*batch);
      known = {.batch = batch.get(),
               .number = rows_.AddBatch(batch),
               .bytes = bytes,
               .row_bytes = static_cast<double>(bytes) /
                            static_cast<double>(std::max<int64_t>(batch->num_rows(), 1))};
    }
    bytes_ += known.row_bytes * static_cast<double>(count);
    rows_.Add(known.number, begin, count);
  }
  bool is_full() const {
    return rows_.row_count() >= options_.batch_rows_max ||
           bytes_ >= static_cast<double>(options_.batch_bytes_max) ||
           held_bytes_ >= kHeldShare * options_.batch_bytes_max;
  }
  int64_t room_rows() const {
    return std::max<int64_t>(options_.batch_rows_max - rows_.row_count(), 1);
  }
  bool is_empty() const { return rows_.row_count() == 0; }

  Result<BatchRef> Take(const std::shared_ptr<arrow::Schema>& schema) {
    PF_ASSIGN(BatchRef batch, Gather(schema, rows_, memory_));
    rows_.Clear();
    std::fill(places_.begin(), places_.end(), Place());
    bytes_ = 0;
    held_bytes_ = 0;
    return batch;
  }

 private:
  // A merge that leaves most rows out holds many batches for the few that come out.
  static constexpr int64_t kHeldShare = 4;
  // The batch that stands in a place, which `rows_` holds.
  struct Place {
    const arrow::RecordBatch* batch = nullptr;
    uint32_t number = 0;
    int64_t bytes = 0;
    double row_bytes = 0;  // about
  };
  const MergeOptions options_;
  ArrowMemory& memory_;
  std::vector<Place> places_;
  RowRuns rows_;
  double bytes_ = 0;
  int64_t held_bytes_ = 0;  // of batches that are through but for these rows
};

class Merge final : public BatchSource {
 public:
  Merge(std::vector<std::unique_ptr<BatchSource>> sources, MergeFunction* function,
        const MergeOptions& options, ArrowMemory& memory)
      : sources_(std::move(sources)),
        schema_(sources_[0]->schema()),
        function_(function),
        output_(sources_.size() + 1, options, memory) {}

  Status Start(const Context& ctx, const KeyEncoder& keys, const MergeOptions& options) {
    for (const auto& source : sources_) {
      if (!source->schema()->Equals(*schema_, /*check_metadata=*/false)) {
        return Status(Code::kInvalidArgument,
                      fmt::format("merge: schemas differ: {} and {}", schema_->ToString(),
                                  source->schema()->ToString()));
      }
    }
    PF_ASSIGN(LoserTree tree,
              LoserTree::Make(ctx, sources_, keys, options.ties, options.galloping));
    tree_.emplace(std::move(tree));
    return {};
  }

  const std::shared_ptr<arrow::Schema>& schema() const override { return schema_; }

  Result<BatchRef> Next(const Context& ctx) override {
    PF_TRY(ctx.CheckStop("merging"));
    while (!output_.is_full()) {
      PF_ASSIGN(const SortedRun* const run, tree_->Next(ctx, output_.room_rows()));
      if (run == nullptr) {
        if (function_ != nullptr) PF_TRY(EndGroup(ctx));
        break;
      }
      if (function_ == nullptr) {
        output_.Add(run->source, run->batch, run->begin, run->count);
      } else {
        PF_TRY(AddGroups(ctx, *run));
      }
    }
    if (output_.is_empty()) return BatchRef();
    return output_.Take(schema_);
  }

 private:
  // Cuts a run into groups of one key. The last key stays open: the next run may have it too.
  Status AddGroups(const Context& ctx, const SortedRun& run) {
    const EncodedKeys& keys = *run.keys;
    const auto key_at = [&](int64_t i) { return keys[static_cast<size_t>(i)]; };
    const int64_t end = run.begin + run.count;
    const bool singles_pass = !function_->sees_single_rows();
    for (int64_t i = run.begin; i < end;) {
      if (!group_.empty() && key_at(i) != (*group_keys_)[group_row_]) PF_TRY(EndGroup(ctx));
      if (group_.empty() && singles_pass) {
        // Rows whose key differs from the next one's are alone.
        int64_t alone = i;
        while (alone + 1 < end && key_at(alone) != key_at(alone + 1)) ++alone;
        if (alone > i) output_.Add(run.source, run.batch, i, alone - i);
        i = alone;
      }
      if (group_.empty()) {
        group_keys_ = run.keys;
        group_row_ = static_cast<size_t>(i);
      }
      group_.push_back({.source = run.source, .batch = run.batch, .row = i});
      ++i;
    }
    return {};
  }

  // A row of an input goes with its source's others; those that were made have a place of their
  // own.
  size_t PlaceOf(const BatchRef& batch) const {
    const auto own = std::find_if(group_.begin(), group_.end(),
                                  [&](const RowAt& row) { return row.batch == batch; });
    return own == group_.end() ? sources_.size() : own->source;
  }

  Status EndGroup(const Context& ctx) {
    if (group_.empty()) return {};
    if (group_.size() == 1 && !function_->sees_single_rows()) {
      output_.Add(group_[0].source, group_[0].batch, group_[0].row, 1);
    } else {
      PF_ASSIGN(const Reduced reduced, function_->Reduce(ctx, group_));
      if (reduced.kind == Reduced::Kind::kRow) {
        output_.Add(PlaceOf(reduced.at.batch), reduced.at.batch, reduced.at.row, 1);
      }
    }
    group_.clear();
    return {};
  }

  const std::vector<std::unique_ptr<BatchSource>> sources_;
  const std::shared_ptr<arrow::Schema> schema_;
  MergeFunction* const function_;
  OutputBuilder output_;
  std::optional<LoserTree> tree_;
  std::vector<RowAt> group_;  // rows of the key at group_row_ of group_keys_, so far
  std::shared_ptr<const EncodedKeys> group_keys_;
  size_t group_row_ = 0;
};

}  // namespace

Result<std::unique_ptr<BatchSource>> MergeSorted(const Context& ctx,
                                                 std::vector<std::unique_ptr<BatchSource>> sources,
                                                 const KeyEncoder& keys, MergeFunction* function,
                                                 const MergeOptions& options, ArrowMemory& memory) {
  if (sources.empty()) return Status(Code::kInvalidArgument, "merge: no source");
  auto merge = std::make_unique<Merge>(std::move(sources), function, options, memory);
  PF_TRY(merge->Start(ctx, keys, options));
  return std::unique_ptr<BatchSource>(std::move(merge));
}

namespace {

// Rows that fit in memory, in the order of their keys.
class SortedRows final : public BatchSource {
 public:
  SortedRows(std::shared_ptr<arrow::Schema> schema, std::vector<BatchRef> batches,
             std::vector<EncodedKeys> keys, std::vector<MemoryGrant> grants,
             const MergeOptions& options, ArrowMemory& memory)
      : schema_(std::move(schema)),
        batches_(std::move(batches)),
        grants_(std::move(grants)),
        output_(batches_.size(), options, memory) {
    // The order needs the keys only here.
    size_t rows = 0;
    for (const EncodedKeys& own : keys) rows += own.count();
    order_.reserve(rows);
    for (size_t b = 0; b < keys.size(); ++b) {
      for (size_t r = 0; r < keys[b].count(); ++r) {
        const std::string_view key = keys[b][r];
        order_.push_back({.prefix = KeyPrefix(key),
                          .second = key.size() > 8 ? KeyPrefix(key.substr(8)) : 0,
                          .batch = static_cast<uint32_t>(b),
                          .row = static_cast<uint32_t>(r)});
      }
    }
    std::sort(order_.begin(), order_.end(), [&](const Entry& a, const Entry& b) {
      if (a.prefix != b.prefix) return a.prefix < b.prefix;
      if (a.second != b.second) return a.second < b.second;
      const int order = keys[a.batch][a.row].compare(keys[b.batch][b.row]);
      if (order != 0) return order < 0;
      // Rows of equal keys keep their order.
      return a.batch != b.batch ? a.batch < b.batch : a.row < b.row;
    });
  }

  const std::shared_ptr<arrow::Schema>& schema() const override { return schema_; }

  Result<BatchRef> Next(const Context& ctx) override {
    PF_TRY(ctx.CheckStop("sorting"));
    if (next_ == order_.size()) return BatchRef();
    for (; next_ < order_.size() && !output_.is_full(); ++next_) {
      const Entry& entry = order_[next_];
      output_.Add(entry.batch, batches_[entry.batch], entry.row, 1);
    }
    return output_.Take(schema_);
  }

 private:
  struct Entry {
    uint64_t prefix = 0, second = 0;  // the first sixteen bytes of the key
    uint32_t batch = 0, row = 0;
  };
  const std::shared_ptr<arrow::Schema> schema_;
  const std::vector<BatchRef> batches_;
  const std::vector<MemoryGrant> grants_;  // for the order
  OutputBuilder output_;
  std::vector<Entry> order_;
  size_t next_ = 0;
};

class Sorter {
 public:
  Sorter(BatchSource& input, const KeyEncoder& keys, const SortOptions& options, SpillSpace& space,
         ArrowMemory& memory)
      : input_(input), keys_(keys), options_(options), space_(space), memory_(memory) {}

  Result<std::unique_ptr<BatchSource>> Run(const Context& ctx) {
    while (true) {
      PF_ASSIGN(BatchRef batch, input_.Next(ctx));
      if (batch == nullptr) break;
      PF_TRY(Add(ctx, std::move(batch)));
    }
    std::unique_ptr<BatchSource> last = TakeSorted();
    if (files_.empty()) return last;
    if (last != nullptr) PF_TRY(Spill(ctx, std::move(last)));
    // Neighbours are joined, never others, so that equal keys keep the order of the input.
    while (files_.size() > options_.fan_in_max) PF_TRY(MergePass(ctx));
    PF_ASSIGN(auto sources, OpenFiles(0, files_.size()));
    files_.clear();
    return MergeSorted(ctx, std::move(sources), keys_, nullptr, options_.merge, memory_);
  }

 private:
  Status Add(const Context& ctx, BatchRef batch) {
    PF_ASSIGN(EncodedKeys keys, keys_.Encode(*batch));
    constexpr int64_t kEntryBytes = 24;
    const int64_t bytes = BatchBytes(*batch) + static_cast<int64_t>(keys.bytes.size()) +
                          batch->num_rows() * (kEntryBytes + 4);
    // Keys and order are not Arrow's: they are charged here.
    const int64_t own = bytes - BatchBytes(*batch);
    auto grant = ctx.memory.TryReserve(own);
    const bool is_full = bytes_ > 0 && (bytes_ + bytes > options_.run_bytes || !grant.ok());
    if (is_full) {
      PF_TRY(Spill(ctx, TakeSorted()));
      if (!grant.ok()) grant = ctx.memory.TryReserve(own);
    }
    if (!grant.ok()) return grant.status();
    grants_.push_back(std::move(grant).value());
    bytes_ += bytes;
    batches_.push_back(std::move(batch));
    batch_keys_.push_back(std::move(keys));
    return {};
  }

  // A merge holds a batch of every run: those of spilled runs are small, so that all of them take
  // no more than half of what a run took.
  MergeOptions SpillOptions() const {
    constexpr int64_t kBytesMin = int64_t{64} << 10;
    MergeOptions options = options_.merge;
    const auto runs = static_cast<int64_t>(2 * options_.fan_in_max);
    options.batch_bytes_max =
        std::min(options.batch_bytes_max, std::max(options_.run_bytes / runs, kBytesMin));
    return options;
  }

  // The rows in memory as a sorted source. Null when there are none and some were spilled.
  std::unique_ptr<BatchSource> TakeSorted() {
    if (batches_.empty() && !files_.empty()) return nullptr;
    auto sorted =
        std::make_unique<SortedRows>(input_.schema(), std::move(batches_), std::move(batch_keys_),
                                     std::move(grants_), SpillOptions(), memory_);
    batches_.clear();
    batch_keys_.clear();
    grants_.clear();
    bytes_ = 0;
    return sorted;
  }

  Status Spill(const Context& ctx, std::unique_ptr<BatchSource> rows) {
    PF_ASSIGN(auto file, SpillFile::Create(ctx, space_, input_.schema(), memory_));
    PF_TRY(file->AppendAll(ctx, *rows));
    files_.push_back(std::move(file));
    return {};
  }

  Result<std::vector<std::unique_ptr<BatchSource>>> OpenFiles(size_t begin, size_t end) {
    std::vector<std::unique_ptr<BatchSource>> sources;
    for (size_t i = begin; i < end; ++i) {
      PF_ASSIGN(auto source, SpillFile::Read(std::move(files_[i])));
      sources.push_back(std::move(source));
    }
    return sources;
  }

  Status MergePass(const Context& ctx) {
    std::vector<std::unique_ptr<SpillFile>> joined;
    for (size_t begin = 0; begin < files_.size(); begin += options_.fan_in_max) {
      const size_t end = std::min(begin + options_.fan_in_max, files_.size());
      if (end - begin == 1) {
        joined.push_back(std::move(files_[begin]));
        continue;
      }
      PF_ASSIGN(auto sources, OpenFiles(begin, end));
      PF_ASSIGN(const auto merged,
                MergeSorted(ctx, std::move(sources), keys_, nullptr, SpillOptions(), memory_));
      PF_ASSIGN(auto file, SpillFile::Create(ctx, space_, input_.schema(), memory_));
      PF_TRY(file->AppendAll(ctx, *merged));
      joined.push_back(std::move(file));
    }
    files_ = std::move(joined);
    return {};
  }

  BatchSource& input_;
  const KeyEncoder& keys_;
  const SortOptions options_;
  SpillSpace& space_;
  ArrowMemory& memory_;
  std::vector<BatchRef> batches_;
  std::vector<EncodedKeys> batch_keys_;
  std::vector<MemoryGrant> grants_;
  int64_t bytes_ = 0;
  std::vector<std::unique_ptr<SpillFile>> files_;
};

}  // namespace

Result<std::unique_ptr<BatchSource>> Sort(const Context& ctx, BatchSource& input,
                                          const KeyEncoder& keys, const SortOptions& options,
                                          SpillSpace& space, ArrowMemory& memory) {
  if (options.fan_in_max < 2 || options.fan_in_max > LoserTree::kSourcesMax) {
    return Status(Code::kInvalidArgument, fmt::format("sort: a fan-in of 2 to {}, not {}",
                                                      LoserTree::kSourcesMax, options.fan_in_max));
  }
  return Sorter(input, keys, options, space, memory).Run(ctx);
}

}  // namespace partforge::data
