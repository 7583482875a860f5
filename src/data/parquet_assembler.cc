#include "data/parquet_assembler.h"

#include <fmt/format.h>

#include <limits>

namespace partforge::data {
namespace {

using namespace parquet_field;  // NOLINT: names of parquet.thrift

constexpr std::string_view kMagic = "PAR1";
constexpr int32_t kFormatVersion = 2;
// What a footer takes for a column chunk, about; for deciding when to roll.
constexpr int64_t kFooterBytesPerChunk = 120;

int64_t SizeField(const ThriftValue& record, int16_t id) {
  const ThriftValue* field = record.Find(id);
  return field == nullptr ? 0 : field->AsInt();
}

// The order of every column as the format defines it for its type (union ColumnOrder, TYPE_ORDER).
ThriftValue TypeDefinedOrders(size_t columns) {
  ThriftValue order = ThriftValue::Struct();
  order.Set(1, ThriftValue::Struct());
  return ThriftValue::List(ThriftType::kStruct, std::vector<ThriftValue>(columns, order));
}

}  // namespace

Result<ParquetAssembler> ParquetAssembler::Make(ParquetSchema schema, AssemblerOptions options,
                                                ByteSink& sink) {
  ParquetAssembler assembler(std::move(options), sink);
  PF_ASSIGN(assembler.columns_, LeafColumns(schema, assembler.options_.file_name));
  if (assembler.columns_.empty()) {
    return Status(Code::kInvalidArgument, fmt::format("write {}: a Parquet file needs a column",
                                                      assembler.options_.file_name));
  }
  assembler.schema_ = std::move(schema);
  return assembler;
}

Status ParquetAssembler::Append(const Context& ctx, std::span<const std::byte> bytes) {
  PF_TRY(sink_->Append(ctx, bytes));
  offset_ += static_cast<int64_t>(bytes.size());
  return {};
}

Status ParquetAssembler::BeginRowGroup(const Context& ctx, int64_t row_count,
                                       ThriftValue row_group) {
  PF_CHECK(chunks_.empty(), "a row group is open");
  if (row_group_count() >= kRowGroupsMax) {
    return Status(Code::kInvalidArgument,
                  fmt::format("write {}: above {} row groups", options_.file_name, kRowGroupsMax));
  }
  if (offset_ == 0) PF_TRY(Append(ctx, std::as_bytes(std::span(kMagic))));
  group_ = std::move(row_group);
  group_rows_ = row_count;
  group_start_ = chunk_start_ = offset_;
  group_late_bytes_ = late_bytes_;
  late_indexes_.emplace_back();
  nan_counts_.emplace_back();
  ForgetBloomFilters();
  return {};
}

Status ParquetAssembler::AppendPages(const Context& ctx, std::span<const std::byte> bytes) {
  return Append(ctx, bytes);
}

Status ParquetAssembler::EndChunk(EncodedChunk encoded) {
  PF_CHECK(chunks_.size() < columns_.size(), "more chunks than columns");
  ThriftValue& chunk = encoded.chunk;
  const int64_t delta = chunk_start_ - encoded.pages_began_at;
  PF_TRY(ShiftChunk(chunk, delta, options_.file_name));
  chunk.Set(column_chunk::kFileOffset, ThriftValue::I64(0));  // deprecated, must be 0 when unused
  // Columns may have other names here than in the file they come from.
  std::vector<ThriftValue> path;
  for (const std::string& part : columns_[chunks_.size()].path) {
    path.push_back(ThriftValue::Binary(part));
  }
  chunk.Find(column_chunk::kMetaData)
      ->Set(column_metadata::kPathInSchema,
            ThriftValue::List(ThriftType::kBinary, std::move(path)));
  PF_TRY(PlaceBloomFilter(chunk, {}));
  PF_TRY(PlaceColumnIndex(chunk, {}));
  PF_TRY(PlaceOffsetIndex(chunk, {}));
  PF_ASSIGN(const ChunkView view, ViewChunk(chunk, options_.file_name));
  if (view.bytes.offset != chunk_start_ || view.bytes.end() != offset_) {
    return Status(Code::kInternal,
                  fmt::format("write {}: column {} says [{}, {}), its pages lie at [{}, {})",
                              options_.file_name, columns_[chunks_.size()].dotted_path,
                              view.bytes.offset, view.bytes.end(), chunk_start_, offset_));
  }
  LateIndexes late{.offset_index = std::nullopt, .column_index = std::move(encoded.column_index)};
  if (encoded.offset_index) {
    PF_ASSIGN([[maybe_unused]] const auto* pages,
              RequireList(*encoded.offset_index, offset_index::kPageLocations, ThriftType::kStruct,
                          options_.file_name));
    for (ThriftValue& page : encoded.offset_index->Find(offset_index::kPageLocations)->items()) {
      PF_ASSIGN(const int64_t offset, RequireInt(page, page_location::kOffset, options_.file_name));
      page.Set(page_location::kOffset, ThriftValue::I64(offset + delta));
    }
    late_bytes_ += static_cast<int64_t>(
        encoded.offset_index->Find(offset_index::kPageLocations)->items().size() * 8);
    late.offset_index = std::move(encoded.offset_index);
  }
  late_bytes_ += static_cast<int64_t>(late.column_index.size());
  late_indexes_.back().push_back(std::move(late));
  nan_counts_.back().push_back(encoded.nan_count);
  bloom_filters_.push_back(std::move(encoded.bloom_filter));
  bloom_grants_.push_back(std::move(encoded.bloom_grant));
  chunks_.push_back(std::move(chunk));
  chunk_start_ = offset_;
  return {};
}

void ParquetAssembler::ForgetBloomFilters() {
  bloom_filters_.clear();
  bloom_grants_.clear();
}

void ParquetAssembler::AbandonRowGroup() {
  chunks_.clear();
  ForgetBloomFilters();
  late_indexes_.pop_back();
  late_bytes_ = group_late_bytes_;
  nan_counts_.pop_back();
}

Status ParquetAssembler::EndRowGroup(const Context& ctx) {
  PF_CHECK(chunks_.size() == columns_.size(), "a row group lacks columns");
  const int64_t compressed = offset_ - group_start_;
  int64_t uncompressed = 0;
  for (const ThriftValue& chunk : chunks_) {
    uncompressed +=
        SizeField(*chunk.Find(column_chunk::kMetaData), column_metadata::kTotalUncompressedSize);
  }
  // Behind the group's pages and not at the end of the file: filters are large, and would have to
  // be held until then.
  for (size_t i = 0; i < chunks_.size(); ++i) {
    if (bloom_filters_[i].empty()) continue;
    PF_TRY(PlaceBloomFilter(
        chunks_[i], {.offset = offset_, .length = static_cast<int64_t>(bloom_filters_[i].size())}));
    PF_TRY(Append(ctx, std::as_bytes(std::span(bloom_filters_[i]))));
  }
  ForgetBloomFilters();
  group_.Set(row_group::kColumns, ThriftValue::List(ThriftType::kStruct, std::move(chunks_)));
  chunks_.clear();
  group_.Set(row_group::kTotalByteSize, ThriftValue::I64(uncompressed));
  group_.Set(row_group::kNumRows, ThriftValue::I64(group_rows_));
  group_.Set(row_group::kFileOffset, ThriftValue::I64(group_start_));
  group_.Set(row_group::kTotalCompressedSize, ThriftValue::I64(compressed));
  group_.Set(row_group::kOrdinal, ThriftValue::I16(static_cast<int16_t>(row_groups_.size())));
  row_groups_.push_back(std::move(group_));
  row_count_ += group_rows_;
  return ChargeRowGroup(ctx);
}

// What is held until the footer is written.
Status ParquetAssembler::ChargeRowGroup(const Context& ctx) {
  int64_t bytes = TreeBytes(row_groups_.back());
  for (const LateIndexes& late : late_indexes_.back()) {
    bytes += static_cast<int64_t>(late.column_index.capacity());
    if (late.offset_index) bytes += TreeBytes(*late.offset_index);
  }
  auto grant = ctx.memory.TryReserve(bytes);
  if (!grant.ok()) {
    return Status(Code::kExhausted,
                  fmt::format("write {}: no memory for the metadata of row group {}: {} bytes",
                              options_.file_name, row_groups_.size() - 1, bytes));
  }
  grants_.push_back(std::move(grant).value());
  return {};
}

int64_t ParquetAssembler::bytes_estimated() const {
  const auto chunks = static_cast<int64_t>(row_groups_.size() * columns_.size());
  return offset_ + late_bytes_ + chunks * kFooterBytesPerChunk;
}

// Column indexes of all chunks, then offset indexes: readers fetch each kind in one piece.
Status ParquetAssembler::WriteIndexes(const Context& ctx) {
  const auto chunk_of = [&](size_t group, size_t column) -> ThriftValue& {
    return row_groups_[group].Find(row_group::kColumns)->items()[column];
  };
  for (size_t g = 0; g < row_groups_.size(); ++g) {
    for (size_t c = 0; c < columns_.size(); ++c) {
      const LateIndexes& late = late_indexes_[g][c];
      // A column index without the places of its pages is of no use.
      if (late.column_index.empty() || !late.offset_index) continue;
      PF_TRY(PlaceColumnIndex(
          chunk_of(g, c),
          {.offset = offset_, .length = static_cast<int64_t>(late.column_index.size())}));
      PF_TRY(Append(ctx, std::as_bytes(std::span(late.column_index))));
    }
  }
  for (size_t g = 0; g < row_groups_.size(); ++g) {
    for (size_t c = 0; c < columns_.size(); ++c) {
      const LateIndexes& late = late_indexes_[g][c];
      if (!late.offset_index) continue;
      const std::string bytes = EncodeThriftStruct(*late.offset_index);
      PF_TRY(PlaceOffsetIndex(chunk_of(g, c),
                              {.offset = offset_, .length = static_cast<int64_t>(bytes.size())}));
      PF_TRY(Append(ctx, std::as_bytes(std::span(bytes))));
    }
  }
  return {};
}

// The row groups go with it.
ThriftValue ParquetAssembler::TakeFooter() {
  ThriftValue tree = ThriftValue::Struct();
  tree.Set(file_metadata::kVersion, ThriftValue::I32(kFormatVersion));
  tree.Set(file_metadata::kSchema, ThriftValue::List(ThriftType::kStruct, schema_));
  tree.Set(file_metadata::kNumRows, ThriftValue::I64(row_count_));
  tree.Set(file_metadata::kRowGroups,
           ThriftValue::List(ThriftType::kStruct, std::move(row_groups_)));
  if (!options_.key_values.empty()) {
    std::vector<ThriftValue> pairs;
    for (const auto& [key, value] : options_.key_values) {
      ThriftValue pair = ThriftValue::Struct();
      pair.Set(key_value::kKey, ThriftValue::Binary(key));
      pair.Set(key_value::kValue, ThriftValue::Binary(value));
      pairs.push_back(std::move(pair));
    }
    tree.Set(file_metadata::kKeyValues, ThriftValue::List(ThriftType::kStruct, std::move(pairs)));
  }
  tree.Set(file_metadata::kCreatedBy, ThriftValue::Binary(options_.created_by));
  tree.Set(file_metadata::kColumnOrders, TypeDefinedOrders(columns_.size()));
  return tree;
}

Result<ParquetAssembler::Finished> ParquetAssembler::Finish(const Context& ctx) {
  PF_CHECK(chunks_.empty(), "a row group is open");
  if (offset_ == 0) PF_TRY(Append(ctx, std::as_bytes(std::span(kMagic))));
  PF_TRY(WriteIndexes(ctx));
  PF_ASSIGN(const std::string footer, EncodeParquetFooter(TakeFooter()));
  PF_TRY(Append(ctx, std::as_bytes(std::span(footer))));
  late_indexes_.clear();
  grants_.clear();

  // What a reader will find is what is checked and reported.
  PF_ASSIGN(const ParquetFooter read_back,
            ParseParquetFooter(std::as_bytes(std::span(footer)), offset_, options_.file_name));
  Finished finished{.size_bytes = offset_, .metrics = {}, .split_offsets = {}};
  PF_ASSIGN(finished.metrics,
            MetricsOfFooter(read_back.tree, {}, &nan_counts_, options_.file_name));
  for (int i = 0; i < read_back.row_group_count(); ++i) {
    finished.split_offsets.push_back(read_back.row_group(i).Find(row_group::kFileOffset)->AsInt());
  }
  return finished;
}

}  // namespace partforge::data
