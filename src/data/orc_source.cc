#include "data/orc_source.h"

#include <arrow/array.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "data/orc_pruning.h"
#include "data/orc_read_ahead.h"
#include "data/orc_tail.h"

namespace partforge::data {
namespace {

using arrow::Type;

bool HasLeaf(const std::vector<int>& leaves, int begin, int end) {
  const auto at = std::lower_bound(leaves.begin(), leaves.end(), begin);
  return at != leaves.end() && *at < end;
}

std::shared_ptr<arrow::ArrayData> KeepLeavesOf(const std::shared_ptr<arrow::ArrayData>& data,
                                               int first_leaf, const std::vector<int>& leaves) {
  auto kept = data->Copy();
  switch (data->type->id()) {
    case Type::STRUCT: {
      kept->child_data.clear();
      arrow::FieldVector fields;
      int leaf = first_leaf;
      for (int i = 0; i < data->type->num_fields(); ++i) {
        const auto& field = data->type->field(i);
        const int end = leaf + LeafCount(*field);
        if (HasLeaf(leaves, leaf, end)) {
          auto child = KeepLeavesOf(data->child_data[static_cast<size_t>(i)], leaf, leaves);
          fields.push_back(field->WithType(child->type));
          kept->child_data.push_back(std::move(child));
        }
        leaf = end;
      }
      kept->type = arrow::struct_(fields);
      return kept;
    }
    case Type::LIST:
      kept->child_data[0] = KeepLeavesOf(data->child_data[0], first_leaf, leaves);
      kept->type = arrow::list(data->type->field(0)->WithType(kept->child_data[0]->type));
      return kept;
    case Type::MAP: {
      const auto& map = static_cast<const arrow::MapType&>(*data->type);
      auto entries = data->child_data[0]->Copy();
      const int value_leaf = first_leaf + LeafCount(*map.key_field());
      entries->child_data[1] = KeepLeavesOf(entries->child_data[1], value_leaf, leaves);
      kept->type = std::make_shared<arrow::MapType>(
          map.key_field(), map.item_field()->WithType(entries->child_data[1]->type));
      entries->type = static_cast<const arrow::MapType&>(*kept->type).value_type();
      kept->child_data[0] = std::move(entries);
      return kept;
    }
    default:
      return kept;
  }
}

class Source final : public OrcSource {
 public:
  Source(std::unique_ptr<ByteSource> object, std::string file_name, ScanSpec spec,
         OrcAttributes attributes, ArrowMemory& memory)
      : file_name_(std::move(file_name)),
        spec_(std::move(spec)),
        attributes_(std::move(attributes)),
        memory_(memory),
        object_(std::move(object), spec_.read_ahead) {}

  Status Start(const Context& ctx, const OrcDecoderOptions& decoder) {
    FetchOrcTail(ctx, object_);
    PF_ASSIGN(file_, OrcFile::Open(ctx, windows_, file_name_, decoder, memory_));
    file_schema_ = FromOrcSchema(*file_->schema(), attributes_);
    PF_ASSIGN(output_, ScanOutput::Make(file_schema_, spec_, file_name_, memory_));
    int leaf = 0;
    for (int i = 0; i < file_schema_->num_fields(); ++i) {
      const int end = leaf + LeafCount(*file_schema_->field(i));
      if (HasLeaf(output_->leaves(), leaf, end)) {
        fields_.push_back(i);
        first_leaves_.push_back(leaf);
      }
      leaf = end;
    }
    tail_ = ReadTailOf(ctx);
    if (tail_ != nullptr) {
      const SchemaMapping* const mapping = output_->mapping();
      pruner_.emplace(*tail_, *file_schema_, mapping, spec_.ranges);
    }
    PF_TRY(PlanStripes());
    PlanReadAhead();
    return {};
  }

  const std::shared_ptr<arrow::Schema>& schema() const override { return output_->schema(); }

  OrcReadCounts counts() const override {
    OrcReadCounts counts = counts_;
    counts.requests = object_.request_count();
    return counts;
  }

  Result<std::shared_ptr<arrow::RecordBatch>> Next(const Context& ctx) override {
    while (true) {
      if (auto batch = output_->Pop(); batch != nullptr) return batch;
      PF_TRY(ctx.CheckStop("reading ORC"));
      if (next_stripe_ == stripes_.size()) return std::shared_ptr<arrow::RecordBatch>();
      PF_TRY(DecodeNext(ctx));
    }
  }

 private:
  struct Stripe {
    int index = 0;
    int64_t first_row = 0;
    int64_t row_count = 0;
  };

  // The tail as our own parser reads it; null, and neither pruning nor reading ahead of single
  // columns, when it does not see what the library sees.
  std::unique_ptr<OrcTail> ReadTailOf(const Context& ctx) {
    auto tail = ReadOrcTail(ctx, object_, file_name_);
    if (!tail.ok()) {
      Ignore(ctx, tail.status(), "statistics of an ORC file are only needed for speed");
      return nullptr;
    }
    const std::vector<OrcStripe>& theirs = file_->stripes();
    const bool is_same =
        std::equal(theirs.begin(), theirs.end(), (*tail)->stripes.begin(), (*tail)->stripes.end(),
                   [](const OrcStripe& a, const OrcStripePlace& b) {
                     return a.offset == b.offset && a.length_bytes == b.length_bytes() &&
                            a.first_row == b.first_row && a.row_count == b.row_count;
                   });
    return is_same ? std::move(*tail) : nullptr;
  }

  void PlanReadAhead() {
    std::vector<FileRange> stripes;
    std::vector<size_t> indices;
    for (const Stripe& stripe : stripes_) {
      const OrcStripe& place = file_->stripes()[static_cast<size_t>(stripe.index)];
      stripes.push_back({.offset = place.offset, .length = place.length_bytes});
      indices.push_back(static_cast<size_t>(stripe.index));
    }
    ahead_.emplace(object_, windows_, file_name_, std::move(stripes), spec_.stream_bytes_max);
    if (tail_ == nullptr) return;
    const bool has_all = fields_.size() == static_cast<size_t>(file_schema_->num_fields());
    ahead_->ChooseColumns(*tail_, std::move(indices), fields_,
                          has_all ? OrcReadAhead::Columns::kAll : OrcReadAhead::Columns::kSome);
  }

  Status PlanStripes() {
    const auto count = static_cast<int>(file_->stripes().size());
    std::vector<int> chosen = spec_.row_groups;
    if (chosen.empty()) {
      for (int i = 0; i < count; ++i) chosen.push_back(i);
    }
    for (const int index : chosen) {
      if (index < 0 || index >= count) {
        return Status(Code::kInvalidArgument, fmt::format("read ORC {}: it has {} stripes, not {}",
                                                          file_name_, count, index));
      }
      const OrcStripe& stripe = file_->stripes()[static_cast<size_t>(index)];
      if (stripe.row_count == 0) continue;
      if (pruner_ && !pruner_->MayMatch(static_cast<size_t>(index))) {
        ++counts_.stripes_pruned;
        continue;
      }
      ++counts_.stripes_read;
      stripes_.push_back(
          {.index = index, .first_row = stripe.first_row, .row_count = stripe.row_count});
    }
    return {};
  }

  Status DecodeNext(const Context& ctx) {
    const Stripe& stripe = stripes_[next_stripe_];
    if (fields_.empty()) {
      const int64_t count = std::min(spec_.batch_rows_max, stripe.row_count - decoded_rows_);
      PF_TRY(output_->PushRows(count, stripe.first_row + decoded_rows_));
      return Advance(count, stripe);
    }
    // A stripe's reader has one batch size; going to a row within a stripe does not work for all
    // encodings in the adapter, so that it is kept to the stripe's end.
    if (!is_started_) {
      ahead_->Start(ctx, next_stripe_);
      PF_TRY(file_->StartStripe(ctx, stripe.index, output_->next_rows(), fields_));
      is_started_ = true;
    }
    PF_ASSIGN(auto batch, file_->Next(ctx));
    if (batch == nullptr || batch->num_rows() == 0 ||
        batch->num_rows() > stripe.row_count - decoded_rows_) {
      return Status(
          Code::kCorruption,
          fmt::format("read ORC {}, stripe {}: {} rows are there where the footer says {}",
                      file_name_, stripe.index, batch == nullptr ? 0 : batch->num_rows(),
                      stripe.row_count - decoded_rows_));
    }
    PF_ASSIGN(batch, WithFileSchema(*batch));
    PF_TRY(output_->Push(*batch, stripe.first_row + decoded_rows_));
    PF_TRY(Advance(batch->num_rows(), stripe));
    // Rows beyond those of the footer must not pass for the next stripe's.
    if (decoded_rows_ == 0) {
      PF_ASSIGN(const auto more, file_->Next(ctx));
      if (more != nullptr) {
        return Status(
            Code::kCorruption,
            fmt::format("read ORC {}, stripe {}: more rows are there than the footer says",
                        file_name_, stripe.index));
      }
      is_started_ = false;
    }
    return {};
  }

  Status Advance(int64_t rows, const Stripe& stripe) {
    decoded_rows_ += rows;
    if (decoded_rows_ == stripe.row_count) {
      decoded_rows_ = 0;
      ++next_stripe_;
    }
    return {};
  }

  // The columns as the mapping expects them: with ids, without inner fields that nobody wants.
  Result<std::shared_ptr<arrow::RecordBatch>> WithFileSchema(
      const arrow::RecordBatch& batch) const {
    if (batch.num_columns() != static_cast<int>(fields_.size())) {
      return Status(Code::kCorruption, fmt::format("{} columns are there, {} were asked for",
                                                   batch.num_columns(), fields_.size()));
    }
    arrow::FieldVector fields;
    arrow::ArrayVector columns;
    for (size_t i = 0; i < fields_.size(); ++i) {
      auto column =
          KeepLeaves(batch.column(static_cast<int>(i)), first_leaves_[i], output_->leaves());
      fields.push_back(file_schema_->field(fields_[i])->WithType(column->type()));
      columns.push_back(std::move(column));
    }
    return arrow::RecordBatch::Make(arrow::schema(fields), batch.num_rows(), std::move(columns));
  }

  const std::string file_name_;
  const ScanSpec spec_;
  const OrcAttributes attributes_;
  ArrowMemory& memory_;
  ReadAheadSource object_;
  StreamWindows windows_{object_};  // what the decoder reads
  std::unique_ptr<OrcFile> file_;
  std::unique_ptr<OrcTail> tail_;  // may be null
  std::optional<OrcPruner> pruner_;
  std::optional<OrcReadAhead> ahead_;
  OrcReadCounts counts_;
  std::shared_ptr<arrow::Schema> file_schema_;
  std::optional<ScanOutput> output_;
  std::vector<int> fields_;        // top-level, that are read
  std::vector<int> first_leaves_;  // of each
  std::vector<Stripe> stripes_;
  size_t next_stripe_ = 0;
  int64_t decoded_rows_ = 0;  // of the stripe
  bool is_started_ = false;   // the stripe
};

}  // namespace

std::shared_ptr<arrow::Array> KeepLeaves(const std::shared_ptr<arrow::Array>& array, int first_leaf,
                                         const std::vector<int>& leaves) {
  if (array->type()->num_fields() == 0) return array;
  return arrow::MakeArray(KeepLeavesOf(array->data(), first_leaf, leaves));
}

Result<std::unique_ptr<OrcSource>> OpenOrcSource(const Context& ctx,
                                                 std::unique_ptr<ByteSource> object,
                                                 std::string file_name, ScanSpec spec,
                                                 OrcAttributes attributes, ArrowMemory& memory,
                                                 const OrcDecoderOptions& decoder) {
  auto source = std::make_unique<Source>(std::move(object), std::move(file_name), std::move(spec),
                                         std::move(attributes), memory);
  PF_TRY(source->Start(ctx, decoder));
  return std::unique_ptr<OrcSource>(std::move(source));
}

}  // namespace partforge::data
