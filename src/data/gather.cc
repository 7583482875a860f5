#include "data/gather.h"

#include <arrow/array.h>
#include <arrow/array/builder_base.h>
#include <arrow/array/util.h>
#include <arrow/buffer.h>
#include <arrow/builder.h>
#include <arrow/extension_type.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <arrow/util/bit_util.h>
#include <arrow/util/bitmap_ops.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>

namespace partforge::data {
namespace {

using arrow::Type;

// How many runs ahead values are asked for: rows in a new order lie anywhere in memory.
constexpr size_t kRunsAhead = 12;

// One column of the rows.
class ColumnGatherer {
 public:
  ColumnGatherer(const RowRuns& rows, int column, ArrowMemory& memory)
      : runs_(rows.runs()), rows_(rows.row_count()), memory_(memory) {
    arrays_.reserve(rows.batches().size());
    for (const auto& batch : rows.batches()) {
      const arrow::Array* array = batch->column(column).get();
      while (array->type_id() == Type::EXTENSION) {
        array = static_cast<const arrow::ExtensionArray&>(*array).storage().get();
      }
      arrays_.push_back(array);
    }
  }

  Result<std::shared_ptr<arrow::Array>> Build(const std::shared_ptr<arrow::DataType>& type) const {
    switch (type->id()) {
      case Type::EXTENSION: {
        PF_ASSIGN(const auto storage,
                  Build(static_cast<const arrow::ExtensionType&>(*type).storage_type()));
        return arrow::ExtensionType::WrapArray(type, storage);
      }
      case Type::STRING:
      case Type::BINARY:
        return Texts(type);
      case Type::BOOL:
        return Booleans(type);
      case Type::DICTIONARY:
        break;
      default:
        if (const auto* fixed = dynamic_cast<const arrow::FixedWidthType*>(type.get());
            fixed != nullptr && fixed->bit_width() % 8 == 0 && type->num_fields() == 0) {
          return Fixed(type, fixed->bit_width() / 8);
        }
    }
    return ByBuilder(type);
  }

 private:
  using Run = RowRuns::Run;

  Result<std::shared_ptr<arrow::Buffer>> Allocate(int64_t bytes) const {
    PF_ARROW_ASSIGN(std::shared_ptr<arrow::Buffer> buffer,
                    arrow::AllocateBuffer(bytes, memory_.pool()));
    return buffer;
  }

  // Null when no source has a null.
  Result<std::shared_ptr<arrow::Buffer>> Validity() const {
    struct Bits {
      const uint8_t* bits = nullptr;  // null: all rows are there
      int64_t offset = 0;
    };
    std::vector<Bits> sources;
    bool has_null = false;
    for (const arrow::Array* array : arrays_) {
      const bool has_own = array->null_count() > 0;
      has_null = has_null || has_own;
      sources.push_back(
          {.bits = has_own ? array->null_bitmap_data() : nullptr, .offset = array->offset()});
    }
    if (!has_null) return std::shared_ptr<arrow::Buffer>();
    PF_ASSIGN(auto bits, Allocate(arrow::bit_util::BytesForBits(rows_)));
    std::memset(bits->mutable_data(), 0xFF, static_cast<size_t>(bits->size()));
    int64_t at = 0;
    for (const Run& run : runs_) {
      const Bits& source = sources[run.batch];
      if (source.bits != nullptr) {
        CopyBits(source.bits, source.offset + run.begin, run.count, bits->mutable_data(), at);
      }
      at += run.count;
    }
    return bits;
  }

  static void CopyBits(const uint8_t* from, int64_t from_bit, int64_t count, uint8_t* to,
                       int64_t to_bit) {
    if (count < 8) {
      for (int64_t i = 0; i < count; ++i) {
        arrow::bit_util::SetBitTo(to, to_bit + i, arrow::bit_util::GetBit(from, from_bit + i));
      }
      return;
    }
    arrow::internal::CopyBitmap(from, from_bit, count, to, to_bit);
  }

  Result<std::shared_ptr<arrow::Array>> Make(
      const std::shared_ptr<arrow::DataType>& type,
      std::vector<std::shared_ptr<arrow::Buffer>> buffers) const {
    return arrow::MakeArray(arrow::ArrayData::Make(type, rows_, std::move(buffers)));
  }

  // Calls `take` with each run, and asks for the memory of later ones: `place` says where the first
  // value of a run lies.
  template <class Place, class Take>
  void ForEachRun(Place place, Take take) const {
    const size_t ahead = std::min(kRunsAhead, runs_.size());
    for (size_t i = 0; i + ahead < runs_.size(); ++i) {
      __builtin_prefetch(place(runs_[i + ahead]));
      take(runs_[i]);
    }
    for (size_t i = runs_.size() - ahead; i < runs_.size(); ++i) take(runs_[i]);
  }

  // kWidth 0: the width is known only now.
  template <int64_t kWidth>
  void CopyFixed(int64_t any_width, uint8_t* out) const {
    const int64_t width = kWidth > 0 ? kWidth : any_width;
    std::vector<const uint8_t*> sources;
    for (const arrow::Array* array : arrays_) {
      const auto& buffer = array->data()->buffers[1];
      const uint8_t* const data = buffer == nullptr ? nullptr : buffer->data();
      sources.push_back(array->offset() == 0 ? data : data + array->offset() * width);
    }
    const auto place = [&](const Run& run) { return sources[run.batch] + run.begin * width; };
    ForEachRun(place, [&](const Run& run) {
      const uint8_t* const from = place(run);
      if (run.count == 1) {
        std::memcpy(out, from, static_cast<size_t>(width));
        out += width;
      } else {
        std::memcpy(out, from, static_cast<size_t>(run.count * width));
        out += run.count * width;
      }
    });
  }

  Result<std::shared_ptr<arrow::Array>> Fixed(const std::shared_ptr<arrow::DataType>& type,
                                              int64_t width) const {
    PF_ASSIGN(auto values, Allocate(rows_ * width));
    uint8_t* const out = values->mutable_data();
    switch (width) {
      case 4:
        CopyFixed<4>(width, out);
        break;
      case 8:
        CopyFixed<8>(width, out);
        break;
      case 16:
        CopyFixed<16>(width, out);
        break;
      default:
        CopyFixed<0>(width, out);
    }
    PF_ASSIGN(auto validity, Validity());
    return Make(type, {std::move(validity), std::move(values)});
  }

  Result<std::shared_ptr<arrow::Array>> Booleans(
      const std::shared_ptr<arrow::DataType>& type) const {
    PF_ASSIGN(auto values, Allocate(arrow::bit_util::BytesForBits(rows_)));
    std::memset(values->mutable_data(), 0, static_cast<size_t>(values->size()));
    int64_t at = 0;
    for (const Run& run : runs_) {
      const arrow::Array& source = *arrays_[run.batch];
      CopyBits(source.data()->buffers[1]->data(), source.offset() + run.begin, run.count,
               values->mutable_data(), at);
      at += run.count;
    }
    PF_ASSIGN(auto validity, Validity());
    return Make(type, {std::move(validity), std::move(values)});
  }

  Result<std::shared_ptr<arrow::Array>> Texts(const std::shared_ptr<arrow::DataType>& type) const {
    struct Source {
      const int32_t* offsets = nullptr;
      const uint8_t* data = nullptr;
    };
    std::vector<Source> sources;
    for (const arrow::Array* array : arrays_) {
      const auto& text = static_cast<const arrow::BinaryArray&>(*array);
      const auto& data = text.value_data();
      sources.push_back(
          {.offsets = text.raw_value_offsets(), .data = data == nullptr ? nullptr : data->data()});
    }
    PF_ASSIGN(auto offsets, Allocate((rows_ + 1) * static_cast<int64_t>(sizeof(int32_t))));
    auto* end_of = reinterpret_cast<int32_t*>(offsets->mutable_data());
    *end_of++ = 0;
    int64_t bytes = 0;
    ForEachRun(
        [&](const Run& run) { return sources[run.batch].offsets + run.begin; },
        [&](const Run& run) {
          const int32_t* const from = sources[run.batch].offsets + run.begin;
          // Beyond 32 bits nothing is read again.
          const auto shift =
              static_cast<int32_t>(static_cast<uint32_t>(bytes) - static_cast<uint32_t>(from[0]));
          for (uint32_t i = 1; i <= run.count; ++i) {
            *end_of++ =
                static_cast<int32_t>(static_cast<uint32_t>(from[i]) + static_cast<uint32_t>(shift));
          }
          bytes += from[run.count] - from[0];
        });
    if (bytes > std::numeric_limits<int32_t>::max()) {
      return Status(Code::kExhausted,
                    fmt::format("gather rows: a column of strings passes 2 GiB: {}", bytes));
    }
    PF_ASSIGN(auto values, Allocate(bytes));
    uint8_t* out = values->mutable_data();
    ForEachRun(
        [&](const Run& run) {
          const Source& source = sources[run.batch];
          return source.data + source.offsets[run.begin];
        },
        [&](const Run& run) {
          const Source& source = sources[run.batch];
          const int32_t begin = source.offsets[run.begin];
          const auto run_bytes = static_cast<size_t>(source.offsets[run.begin + run.count] - begin);
          if (run_bytes > 0) std::memcpy(out, source.data + begin, run_bytes);
          out += run_bytes;
        });
    PF_ASSIGN(auto validity, Validity());
    return Make(type, {std::move(validity), std::move(offsets), std::move(values)});
  }

  // Nested and rare types.
  Result<std::shared_ptr<arrow::Array>> ByBuilder(
      const std::shared_ptr<arrow::DataType>& type) const {
    std::unique_ptr<arrow::ArrayBuilder> builder;
    PF_ARROW_TRY(arrow::MakeBuilder(memory_.pool(), type, &builder));
    PF_ARROW_TRY(builder->Reserve(rows_));
    for (const Run& run : runs_) {
      const arrow::ArraySpan span(*arrays_[run.batch]->data());
      PF_ARROW_TRY(builder->AppendArraySlice(span, run.begin, run.count));
    }
    PF_ARROW_ASSIGN(auto built, builder->Finish());
    if (HasOtherIndices(*built->type(), *type)) {
      return Status(Code::kRefused,
                    fmt::format("gather rows: the distinct values together are too many for {}",
                                type->ToString()));
    }
    // Builders call inner fields as they like; the values are the same.
    if (built->type()->Equals(*type, /*check_metadata=*/true)) return built;
    auto data = built->data()->Copy();
    SetType(*data, type);
    return arrow::MakeArray(data);
  }

  // A builder of dictionaries widens its indices when they need it.
  static bool HasOtherIndices(const arrow::DataType& built, const arrow::DataType& wanted) {
    if (built.id() == Type::DICTIONARY && wanted.id() == Type::DICTIONARY) {
      return !static_cast<const arrow::DictionaryType&>(built).index_type()->Equals(
          static_cast<const arrow::DictionaryType&>(wanted).index_type());
    }
    for (int i = 0; i < std::min(built.num_fields(), wanted.num_fields()); ++i) {
      if (HasOtherIndices(*built.field(i)->type(), *wanted.field(i)->type())) return true;
    }
    return false;
  }

  static void SetType(arrow::ArrayData& data, const std::shared_ptr<arrow::DataType>& type) {
    data.type = type;
    for (size_t i = 0; i < data.child_data.size(); ++i) {
      data.child_data[i] = data.child_data[i]->Copy();
      SetType(*data.child_data[i], type->field(static_cast<int>(i))->type());
    }
  }

  const std::span<const Run> runs_;
  std::vector<const arrow::Array*> arrays_;  // by batch
  const int64_t rows_;
  ArrowMemory& memory_;
};

}  // namespace

uint32_t RowRuns::AddBatch(std::shared_ptr<arrow::RecordBatch> batch) {
  PF_CHECK(batch->num_rows() <= std::numeric_limits<uint32_t>::max(), "a batch of 2^32 rows");
  batches_.push_back(std::move(batch));
  return static_cast<uint32_t>(batches_.size() - 1);
}

void RowRuns::Clear() {
  batches_.clear();
  runs_.clear();
  row_count_ = 0;
}

Result<std::shared_ptr<arrow::RecordBatch>> Gather(const std::shared_ptr<arrow::Schema>& schema,
                                                   const RowRuns& rows, ArrowMemory& memory) {
  if (rows.runs().size() == 1) {
    const RowRuns::Run& run = rows.runs()[0];
    const auto& batch = rows.batches()[run.batch];
    return run.count == batch->num_rows() ? batch : batch->Slice(run.begin, run.count);
  }
  arrow::ArrayVector columns;
  for (int i = 0; i < schema->num_fields(); ++i) {
    PF_ASSIGN(auto column, ColumnGatherer(rows, i, memory).Build(schema->field(i)->type()));
    columns.push_back(std::move(column));
  }
  return arrow::RecordBatch::Make(schema, rows.row_count(), std::move(columns));
}

}  // namespace partforge::data
