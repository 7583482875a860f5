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

#include <cstring>
#include <limits>

namespace partforge::data {
namespace {

using arrow::Type;

// One column of the runs.
class ColumnGatherer {
 public:
  ColumnGatherer(std::span<const BatchRun> runs, int column, int64_t rows, ArrowMemory& memory)
      : rows_(rows), memory_(memory) {
    pieces_.reserve(runs.size());
    for (const BatchRun& run : runs) {
      const arrow::Array* array = run.batch->column(column).get();
      while (array->type_id() == Type::EXTENSION) {
        array = static_cast<const arrow::ExtensionArray&>(*array).storage().get();
      }
      pieces_.push_back({.array = array, .begin = run.begin, .count = run.count});
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
  struct Piece {
    const arrow::Array* array = nullptr;
    int64_t begin = 0;
    int64_t count = 0;
  };

  Result<std::shared_ptr<arrow::Buffer>> Allocate(int64_t bytes) const {
    PF_ARROW_ASSIGN(std::shared_ptr<arrow::Buffer> buffer,
                    arrow::AllocateBuffer(bytes, memory_.pool()));
    return buffer;
  }

  // Null when no source has a null.
  Result<std::shared_ptr<arrow::Buffer>> Validity() const {
    bool has_null = false;
    for (const Piece& run : pieces_) has_null = has_null || run.array->null_count() > 0;
    if (!has_null) return std::shared_ptr<arrow::Buffer>();
    PF_ASSIGN(auto bits, Allocate(arrow::bit_util::BytesForBits(rows_)));
    std::memset(bits->mutable_data(), 0xFF, static_cast<size_t>(bits->size()));
    int64_t at = 0;
    for (const Piece& run : pieces_) {
      const arrow::Array& source = *run.array;
      if (source.null_count() > 0) {
        CopyBits(source.null_bitmap_data(), source.offset() + run.begin, run.count,
                 bits->mutable_data(), at);
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

  Result<std::shared_ptr<arrow::Array>> Fixed(const std::shared_ptr<arrow::DataType>& type,
                                              int64_t width) const {
    PF_ASSIGN(auto values, Allocate(rows_ * width));
    uint8_t* out = values->mutable_data();
    for (const Piece& run : pieces_) {
      const arrow::Array& source = *run.array;
      const uint8_t* from =
          source.data()->buffers[1]->data() + (source.offset() + run.begin) * width;
      const auto bytes = static_cast<size_t>(run.count * width);
      std::memcpy(out, from, bytes);
      out += bytes;
    }
    PF_ASSIGN(auto validity, Validity());
    return Make(type, {std::move(validity), std::move(values)});
  }

  Result<std::shared_ptr<arrow::Array>> Booleans(
      const std::shared_ptr<arrow::DataType>& type) const {
    PF_ASSIGN(auto values, Allocate(arrow::bit_util::BytesForBits(rows_)));
    std::memset(values->mutable_data(), 0, static_cast<size_t>(values->size()));
    int64_t at = 0;
    for (const Piece& run : pieces_) {
      const arrow::Array& source = *run.array;
      CopyBits(source.data()->buffers[1]->data(), source.offset() + run.begin, run.count,
               values->mutable_data(), at);
      at += run.count;
    }
    PF_ASSIGN(auto validity, Validity());
    return Make(type, {std::move(validity), std::move(values)});
  }

  Result<std::shared_ptr<arrow::Array>> Texts(const std::shared_ptr<arrow::DataType>& type) const {
    int64_t bytes = 0;
    for (const Piece& run : pieces_) {
      const auto& source = static_cast<const arrow::BinaryArray&>(*run.array);
      bytes += source.value_offset(run.begin + run.count) - source.value_offset(run.begin);
    }
    if (bytes > std::numeric_limits<int32_t>::max()) {
      return Status(Code::kExhausted,
                    fmt::format("gather rows: a column of strings passes 2 GiB: {}", bytes));
    }
    PF_ASSIGN(auto offsets, Allocate((rows_ + 1) * static_cast<int64_t>(sizeof(int32_t))));
    PF_ASSIGN(auto values, Allocate(bytes));
    auto* end_of = reinterpret_cast<int32_t*>(offsets->mutable_data());
    uint8_t* out = values->mutable_data();
    int32_t written = 0;
    *end_of++ = 0;
    for (const Piece& run : pieces_) {
      const auto& source = static_cast<const arrow::BinaryArray&>(*run.array);
      const int32_t* from = source.raw_value_offsets() + run.begin;
      const int32_t shift = written - from[0];
      const int32_t run_bytes = from[run.count] - from[0];
      if (run_bytes > 0) {
        std::memcpy(out + written, source.value_data()->data() + from[0],
                    static_cast<size_t>(run_bytes));
      }
      for (int64_t i = 1; i <= run.count; ++i) *end_of++ = from[i] + shift;
      written += run_bytes;
    }
    PF_ASSIGN(auto validity, Validity());
    return Make(type, {std::move(validity), std::move(offsets), std::move(values)});
  }

  // Nested and rare types.
  Result<std::shared_ptr<arrow::Array>> ByBuilder(
      const std::shared_ptr<arrow::DataType>& type) const {
    std::unique_ptr<arrow::ArrayBuilder> builder;
    PF_ARROW_TRY(arrow::MakeBuilder(memory_.pool(), type, &builder));
    PF_ARROW_TRY(builder->Reserve(rows_));
    for (const Piece& run : pieces_) {
      const arrow::ArraySpan span(*run.array->data());
      PF_ARROW_TRY(builder->AppendArraySlice(span, run.begin, run.count));
    }
    PF_ARROW_ASSIGN(auto built, builder->Finish());
    // Builders call inner fields as they like; the values are the same.
    if (built->type()->Equals(*type, /*check_metadata=*/true)) return built;
    auto data = built->data()->Copy();
    SetType(*data, type);
    return arrow::MakeArray(data);
  }

  static void SetType(arrow::ArrayData& data, const std::shared_ptr<arrow::DataType>& type) {
    data.type = type;
    for (size_t i = 0; i < data.child_data.size(); ++i) {
      data.child_data[i] = data.child_data[i]->Copy();
      SetType(*data.child_data[i], type->field(static_cast<int>(i))->type());
    }
  }

  std::vector<Piece> pieces_;
  const int64_t rows_;
  ArrowMemory& memory_;
};

}  // namespace

void AppendRun(std::vector<BatchRun>& runs, BatchRun run) {
  if (run.count == 0) return;
  if (!runs.empty()) {
    BatchRun& last = runs.back();
    if (last.batch == run.batch && last.begin + last.count == run.begin) {
      last.count += run.count;
      return;
    }
  }
  runs.push_back(std::move(run));
}

Result<std::shared_ptr<arrow::RecordBatch>> Gather(const std::shared_ptr<arrow::Schema>& schema,
                                                   std::span<const BatchRun> runs,
                                                   ArrowMemory& memory) {
  int64_t rows = 0;
  for (const BatchRun& run : runs) rows += run.count;
  if (runs.size() == 1) {
    const BatchRun& run = runs[0];
    if (run.begin == 0 && run.count == run.batch->num_rows()) return run.batch;
    return run.batch->Slice(run.begin, run.count);
  }
  arrow::ArrayVector columns;
  for (int i = 0; i < schema->num_fields(); ++i) {
    PF_ASSIGN(auto column, ColumnGatherer(runs, i, rows, memory).Build(schema->field(i)->type()));
    columns.push_back(std::move(column));
  }
  return arrow::RecordBatch::Make(schema, rows, std::move(columns));
}

}  // namespace partforge::data
