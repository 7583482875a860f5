#include "data/rewrite_plan.h"

#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <fmt/format.h>

#include <algorithm>

#include "data/borrowed_source.h"
#include "data/page_codec.h"
#include "data/parquet_source.h"

namespace partforge::data {
namespace {

using namespace parquet_field;  // NOLINT: names of parquet.thrift

// A dictionary of more than this share of its chunk's bytes holds mostly values that occur once:
// joining such chunks turns indices into values. That costs less than decoding and encoding them,
// but the chunks grow.
constexpr double kUniqueDictionaryShare = 0.4;
constexpr int64_t kUniqueRowsPerByte = 2;
// Where they are joined each entry stands for four values at most (ColumnStitcher unites the
// dictionaries of others).
constexpr int64_t kUniqueGrowth = 4;
constexpr int64_t kSizeBelievedMax = int64_t{1} << 40;  // of what footers say and no file shows
constexpr int32_t kUncompressed = 0;                    // CompressionCodec of parquet.thrift
// Rows that leave nested columns have those columns decoded: above this share of the bytes all are.
constexpr double kNestedShareMax = 0.5;

// What the plan needs to know of one row group.
struct Group {
  GroupRef ref;
  int64_t rows = 0, live_rows = 0, bytes = 0;
  // Of its largest chunk, and of all together, at most, in the codec wanted; `joined` where
  // dictionaries of unique values have become values.
  int64_t chunk_bytes = 0, joined_chunk_bytes = 0, joined_bytes = 0;
  double nested_share = 0;       // of bytes in nested columns
  bool has_other_codec = false;  // than the target wants
  CopyVerdict verdict;
};

class Planner {
 public:
  Planner(const std::vector<RewriteInput>& inputs, const RewriteTarget& target)
      : inputs_(inputs), target_(target) {}

  Result<std::vector<RewriteStep>> Plan() {
    PF_TRY(CollectGroups());
    int64_t rows = 0, bytes = 0;
    for (const Group& group : groups_) {
      rows += group.rows;
      bytes += group.bytes;
    }
    const double row_bytes =
        rows == 0 ? 1 : std::max(1.0, static_cast<double>(bytes) / static_cast<double>(rows));
    rows_max_ = std::clamp<int64_t>(
        static_cast<int64_t>(static_cast<double>(target_.copy.row_group_bytes) / row_bytes), 1,
        target_.row_group_rows_max);
    for (const Group& group : groups_) Place(group);
    EndRun();
    return std::move(steps_);
  }

 private:
  Status CollectGroups() {
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const ParquetInput& file = *inputs_[i].file;
      if (file.footer.row_group_count() == 0) continue;
      // Deleted rows and small sizes are handled below; the rest, which forbids both, is the same
      // for all row groups of a file.
      CopyTarget copy = target_.copy;
      copy.small_is_fine = true;
      PF_ASSIGN(const CopyVerdict verdict, JudgeCopy(file, 0, nullptr, copy));
      for (int g = 0; g < file.footer.row_group_count(); ++g) {
        const StitchPart part{
            .input = inputs_[i].file, .row_group = g, .deleted = inputs_[i].deleted};
        Group group;
        group.ref = {.input = i, .row_group = g};
        group.rows = file.RowCount(g);
        group.live_rows = part.LiveRows();
        if (group.live_rows == 0) continue;
        PF_TRY(Measure(file, group));
        group.verdict = verdict;
        groups_.push_back(std::move(group));
      }
    }
    return {};
  }

  Status Measure(const ParquetInput& file, Group& group) const {
    double nested = 0;
    for (size_t c = 0; c < file.columns.size(); ++c) {
      PF_ASSIGN(
          const ChunkView view,
          ViewChunk(file.footer.chunk(group.ref.row_group, static_cast<int>(c)), file.file_name));
      group.bytes += view.bytes.length;
      const auto bytes = static_cast<double>(view.bytes.length);
      const int64_t dictionary_bytes =
          view.dictionary_page_offset ? view.data_page_offset - *view.dictionary_page_offset : 0;
      int64_t growth = 1;
      // A column of few values may be nothing but its dictionary: there it takes next to no bytes a
      // row.
      if (static_cast<double>(dictionary_bytes) > kUniqueDictionaryShare * bytes &&
          dictionary_bytes * kUniqueRowsPerByte > view.num_values) {
        growth = kUniqueGrowth;
      }
      // What another codec makes of a page lies between the two; without one it is known.
      const bool has_other_codec = target_.codec && *target_.codec != view.codec;
      const int64_t recoded_bytes = has_other_codec
                                        ? std::clamp(view.uncompressed_bytes, view.bytes.length,
                                                     std::max(view.bytes.length, kSizeBelievedMax))
                                        : view.bytes.length;
      group.has_other_codec = group.has_other_codec || has_other_codec;
      group.chunk_bytes = std::max(group.chunk_bytes, recoded_bytes);
      group.joined_chunk_bytes = std::max(group.joined_chunk_bytes, growth * recoded_bytes);
      const bool is_unpacked = has_other_codec && *target_.codec == kUncompressed;
      group.joined_bytes += growth * (is_unpacked ? recoded_bytes : view.bytes.length);
      if (file.columns[c].max_repetition_level > 0) nested += bytes;
    }
    const double total = std::max(1.0, static_cast<double>(group.bytes));
    group.nested_share = nested / total;
    return {};
  }

  // Why the rows of a group must be decoded; empty when they need not be.
  std::string DecodeReason(const Group& group) const {
    if (!group.verdict.can_copy()) return group.verdict.Reason();
    if (target_.decodes_always) return "asked for";
    const bool is_changed = group.live_rows < group.rows || group.has_other_codec;
    if (is_changed && group.chunk_bytes > target_.chunk_bytes_max) {
      return "a chunk too large to change";
    }
    if (group.live_rows == group.rows) return "";
    return group.nested_share > kNestedShareMax ? "deleted rows in nested columns" : "";
  }

  void Place(const Group& group) {
    if (std::string reason = DecodeReason(group); !reason.empty()) {
      EndRun();
      AddDecode(group, std::move(reason));
      return;
    }
    const bool is_small =
        !target_.copy.small_is_fine && group.bytes < target_.copy.row_group_bytes / kSmallShare;
    if (!is_small) {
      EndRun();
      run_.push_back(&group);
      EndRun();
      return;
    }
    int64_t rows = group.live_rows, bytes = group.bytes, joined_bytes = group.joined_bytes;
    int64_t chunk_bytes = group.joined_chunk_bytes;
    for (const Group* other : run_) {
      rows += other->live_rows;
      bytes += other->bytes;
      joined_bytes += other->joined_bytes;
      chunk_bytes += other->joined_chunk_bytes;
    }
    if (!run_.empty() &&
        (rows > rows_max_ || bytes > target_.copy.row_group_bytes ||
         joined_bytes > target_.run_bytes_max || chunk_bytes > target_.chunk_bytes_max)) {
      EndRun();
    }
    run_.push_back(&group);
  }

  static constexpr int64_t kSmallShare = 8;

  void EndRun() {
    if (run_.empty()) return;
    RewriteStep step;
    bool has_deletes = false;
    for (const Group* group : run_) {
      step.groups.push_back(group->ref);
      step.live_rows += group->live_rows;
      step.bytes += group->bytes;
      has_deletes = has_deletes || group->live_rows < group->rows;
    }
    if (run_.size() == 1) {
      step.kind = StepKind::kCopy;
      if (has_deletes) {
        step.kind = StepKind::kFilterPages;
        step.reason = "deleted rows";
      } else if (run_[0]->has_other_codec) {
        step.kind = StepKind::kStitch;
        step.reason = "another codec";
      }
    } else {
      step.kind = StepKind::kStitch;
      step.reason = "small row groups";
    }
    steps_.push_back(std::move(step));
    run_.clear();
  }

  void AddDecode(const Group& group, std::string reason) {
    const bool joins = !steps_.empty() && steps_.back().kind == StepKind::kDecode &&
                       steps_.back().reason == reason;
    if (!joins) {
      steps_.push_back({.kind = StepKind::kDecode, .groups = {}, .reason = std::move(reason)});
    }
    RewriteStep& step = steps_.back();
    step.groups.push_back(group.ref);
    step.live_rows += group.live_rows;
    step.bytes += group.bytes;
  }

  const std::vector<RewriteInput>& inputs_;
  const RewriteTarget& target_;
  std::vector<Group> groups_;
  int64_t rows_max_ = 0;
  std::vector<const Group*> run_;
  std::vector<RewriteStep> steps_;
};

}  // namespace

std::string_view StepName(StepKind kind) {
  switch (kind) {
    case StepKind::kCopy:
      return "copy";
    case StepKind::kStitch:
      return "stitch";
    case StepKind::kFilterPages:
      return "filter pages";
    case StepKind::kDecode:
      return "decode";
  }
  return "";
}

Result<std::vector<RewriteStep>> PlanRewrite(const std::vector<RewriteInput>& inputs,
                                             const RewriteTarget& target) {
  return Planner(inputs, target).Plan();
}

namespace {

class Runner {
 public:
  Runner(const std::vector<RewriteInput>& inputs, const RewriteTarget& target,
         const std::shared_ptr<arrow::Schema>& schema, const StitchOptions& options,
         RollingSink& sink, ArrowMemory& memory, RewriteCounts& counts)
      : inputs_(inputs),
        target_(target),
        schema_(schema),
        options_(OptionsFor(options, target)),
        sink_(sink),
        memory_(memory),
        counts_(counts) {}

  Status Run(const Context& ctx, const RewriteStep& step) {
    switch (step.kind) {
      case StepKind::kCopy: {
        const RewriteInput& input = inputs_[step.groups[0].input];
        PF_ASSIGN(std::vector<int> leaves, LeavesOf(input));
        ++counts_.row_groups_copied;
        return sink_.AppendEncoded(ctx, CopiedRowGroup(input.file, step.groups[0].row_group,
                                                       {.leaves = std::move(leaves)}));
      }
      case StepKind::kStitch:
      case StepKind::kFilterPages: {
        std::vector<StitchPart> parts;
        for (const GroupRef& group : step.groups) {
          const RewriteInput& input = inputs_[group.input];
          PF_ASSIGN(std::vector<int> leaves, LeavesOf(input));
          parts.push_back({.input = input.file,
                           .row_group = group.row_group,
                           .leaves = std::move(leaves),
                           .deleted = input.deleted});
        }
        const StitchCounts before = counts_.pages;
        Status status = sink_.AppendEncoded(
            ctx, StitchedRun(std::move(parts), options_, memory_, counts_.pages));
        if (status.ok() || status.code() != Code::kRefused) {
          ++counts_.runs_stitched;
          return status;
        }
        // One of its columns can be written only together with its row: the last resort.
        ctx.log.Info("rows are decoded", {{"why", status.message()}});
        counts_.pages = before;
        for (const GroupRef& group : step.groups) PF_TRY(Decode(ctx, group));
        return {};
      }
      case StepKind::kDecode:
        for (const GroupRef& group : step.groups) PF_TRY(Decode(ctx, group));
        return {};
    }
    return {};
  }

 private:
  static StitchOptions OptionsFor(StitchOptions options, const RewriteTarget& target) {
    if (target.codec) options.codec = target.codec;
    options.chunk_bytes_max = target.chunk_bytes_max;
    return options;
  }

  // Empty for the identity.
  Result<std::vector<int>> LeavesOf(const RewriteInput& input) const {
    PF_ASSIGN(LeafMapping mapping, MapParquetLeaves(input.file->schema(), *target_.copy.schema,
                                                    target_.copy.match, input.file->file_name));
    if (mapping.difference || !mapping.missing.empty()) {
      return Status(Code::kInternal,
                    fmt::format("rewrite: {} was planned to be copied", input.file->file_name));
    }
    const bool is_whole = mapping.leaves.size() == input.file->columns.size();
    if (is_whole && mapping.is_identity()) return std::vector<int>();
    return std::move(mapping.leaves);
  }

  Status Decode(const Context& ctx, const GroupRef& group) {
    const RewriteInput& input = inputs_[group.input];
    ScanSpec spec;
    spec.wanted = schema_;
    spec.mapping = input.mapping;
    spec.row_groups = {group.row_group};
    spec.deleted = input.deleted;
    PF_ASSIGN(const auto source,
              ParquetSource::Open(ctx, std::make_unique<BorrowedSource>(*input.file->source),
                                  input.file->file_name, std::move(spec), memory_));
    while (true) {
      PF_ASSIGN(const auto batch, source->Next(ctx));
      if (batch == nullptr) return {};
      counts_.rows_decoded += batch->num_rows();
      PF_TRY(sink_.Write(ctx, *batch));
    }
  }

  const std::vector<RewriteInput>& inputs_;
  const RewriteTarget& target_;
  const std::shared_ptr<arrow::Schema>& schema_;
  const StitchOptions options_;
  RollingSink& sink_;
  ArrowMemory& memory_;
  RewriteCounts& counts_;
};

}  // namespace

Status RunRewrite(const Context& ctx, const std::vector<RewriteInput>& inputs,
                  const std::vector<RewriteStep>& steps, const RewriteTarget& target,
                  const std::shared_ptr<arrow::Schema>& schema, const StitchOptions& options,
                  RollingSink& sink, ArrowMemory& memory, RewriteCounts& counts) {
  Runner runner(inputs, target, schema, options, sink, memory, counts);
  for (const RewriteStep& step : steps) {
    PF_TRY(ctx.CheckStop("rewriting files"));
    PF_TRY(runner.Run(ctx, step));
  }
  return {};
}

}  // namespace partforge::data
