#include "data/page_rows.h"

#include <arrow/array.h>
#include <arrow/array/concatenate.h>
#include <arrow/io/interfaces.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <fmt/format.h>
#include <parquet/arrow/reader.h>
#include <parquet/properties.h>

#include <algorithm>

#include "base/hash.h"
#include "data/field_rows.h"
#include "data/memory_bytes.h"
#include "data/page_codec.h"
#include "data/page_index.h"
#include "data/parquet_schema.h"

namespace partforge::data {
namespace {

using namespace parquet_field;  // NOLINT: names of parquet.thrift

struct Selected {
  FileRange dictionary;
  std::vector<PagePlace> pages;
  std::vector<RowRun> rows;
};

Result<std::optional<Selected>> FindPages(const Context& ctx, ByteSource& source,
                                          const ParquetFooter& footer, int row_group, int leaf,
                                          const std::vector<RowRun>& rows,
                                          std::string_view file_name) {
  const int64_t row_count = footer.row_group(row_group).Find(row_group::kNumRows)->AsInt();
  PF_ASSIGN(const ChunkView chunk, ViewChunk(footer.chunk(row_group, leaf), file_name));
  PF_ASSIGN(const auto offsets, ReadOffsetIndex(ctx, source, chunk, row_count, file_name));
  if (!offsets || offsets->pages.empty()) return std::optional<Selected>();
  Selected selected;
  selected.dictionary = {.offset = chunk.bytes.offset,
                         .length = offsets->pages.front().bytes.offset - chunk.bytes.offset};
  size_t next = 0;
  for (size_t i = 0; i < offsets->pages.size(); ++i) {
    const RowRun page{.begin = static_cast<uint64_t>(offsets->pages[i].first_row),
                      .end = static_cast<uint64_t>(offsets->EndRow(i, row_count))};
    if (page.begin == page.end) continue;  // a page without a row
    while (next < rows.size() && rows[next].end <= page.begin) ++next;
    if (next == rows.size()) break;
    if (rows[next].begin >= page.end) continue;
    selected.pages.push_back(offsets->pages[i]);
    if (!selected.rows.empty() && selected.rows.back().end == page.begin) {
      selected.rows.back().end = page.end;
    } else {
      selected.rows.push_back(page);
    }
  }
  return std::optional(std::move(selected));
}

// The part of the schema that leads to one leaf which is the only one of its top-level field.
std::vector<ThriftValue> SchemaOfField(const std::vector<ThriftValue>& schema, size_t element) {
  std::vector<ThriftValue> part{schema[0]};
  part[0].Set(schema_element::kNumChildren, ThriftValue::I32(1));
  // From the leaf up: elements stand depth first, so a parent is the nearest one before whose
  // children reach it. For a chain of single children that is the element before.
  std::vector<size_t> chain{element};
  while (chain.back() > 1) {
    const ThriftValue& before = schema[chain.back() - 1];
    const ThriftValue* children = before.Find(schema_element::kNumChildren);
    if (before.Find(schema_element::kType) != nullptr || children == nullptr ||
        children->AsInt() != 1) {
      break;
    }
    chain.push_back(chain.back() - 1);
  }
  for (size_t i = chain.size(); i > 0; --i) part.push_back(schema[chain[i - 1]]);
  return part;
}

// True when the leaf's top-level field has no other leaf.
bool IsOnlyLeaf(const std::vector<LeafColumn>& columns, size_t leaf,
                const std::vector<ThriftValue>& part) {
  return part.size() == columns[leaf].path.size() + 1;
}

struct LeafSchema {
  std::vector<LeafColumn> columns;
  std::vector<ThriftValue> part;
  bool is_alone = false;
};

Result<LeafSchema> FindLeaf(const ParquetFooter& footer, int leaf, std::string_view file_name) {
  const auto& schema = footer.tree.Find(file_metadata::kSchema)->items();
  LeafSchema found;
  PF_ASSIGN(const auto leaves, SchemaLeaves(schema, file_name));
  PF_ASSIGN(found.columns, LeafColumns(schema, file_name));
  const auto at = static_cast<size_t>(leaf);
  found.part = SchemaOfField(schema, leaves[at].element);
  found.is_alone = IsOnlyLeaf(found.columns, at, found.part);
  return found;
}

}  // namespace

Result<std::optional<std::vector<FileRange>>> PageRanges(const Context& ctx, ByteSource& source,
                                                         const ParquetFooter& footer, int row_group,
                                                         int leaf, const std::vector<RowRun>& rows,
                                                         std::string_view file_name) {
  PF_ASSIGN(const LeafSchema schema, FindLeaf(footer, leaf, file_name));
  if (!schema.is_alone) return std::optional<std::vector<FileRange>>();
  PF_ASSIGN(const auto selected, FindPages(ctx, source, footer, row_group, leaf, rows, file_name));
  if (!selected) return std::optional<std::vector<FileRange>>();
  std::vector<FileRange> ranges;
  if (selected->dictionary.length > 0) ranges.push_back(selected->dictionary);
  for (const PagePlace& page : selected->pages) ranges.push_back(page.bytes);
  return std::optional(std::move(ranges));
}

Result<PageSelection> SelectPages(const Context& ctx, ByteSource& source,
                                  const ParquetFooter& footer, int row_group, int leaf,
                                  const std::vector<RowRun>& rows, std::string_view file_name) {
  PF_ASSIGN(const LeafSchema schema, FindLeaf(footer, leaf, file_name));
  PF_ASSIGN(auto selected, FindPages(ctx, source, footer, row_group, leaf, rows, file_name));
  PF_CHECK(schema.is_alone && selected, "pages of a column that has no page index");
  PageSelection selection{.file = "PAR1", .rows = std::move(selected->rows)};
  const auto start = static_cast<int64_t>(selection.file.size());
  constexpr int64_t kFooterBytes = 1024;
  int64_t bytes_held = start + selected->dictionary.length + kFooterBytes;
  for (const PagePlace& place : selected->pages) bytes_held += place.bytes.length;
  selection.file.reserve(static_cast<size_t>(bytes_held));
  PF_ASSIGN(const std::string dictionary, ReadRange(ctx, source, selected->dictionary, file_name));
  selection.file += dictionary;
  const auto first_page = static_cast<int64_t>(selection.file.size());
  int64_t num_values = 0, row_count = 0;
  for (const PagePlace& place : selected->pages) {
    PF_ASSIGN(const std::string page, ReadRange(ctx, source, place.bytes, file_name));
    PF_ASSIGN(const PageHeader header, ParsePageHeader(std::as_bytes(std::span(page)), file_name));
    if (!header.is_data() || header.header_bytes + header.compressed_bytes != place.bytes.length) {
      return Status(Code::kCorruption, fmt::format("read {}: the offset index names no page at {}",
                                                   file_name, place.bytes.offset));
    }
    num_values += header.num_values;
    selection.file += page;
  }
  for (const RowRun& run : selection.rows) row_count += static_cast<int64_t>(run.size());

  const auto bytes = static_cast<int64_t>(selection.file.size()) - start;
  ThriftValue chunk = footer.chunk(row_group, leaf);
  ThriftValue* metadata = chunk.Find(column_chunk::kMetaData);
  metadata->Set(column_metadata::kNumValues, ThriftValue::I64(num_values));
  metadata->Set(column_metadata::kTotalCompressedSize, ThriftValue::I64(bytes));
  metadata->Set(column_metadata::kDataPageOffset, ThriftValue::I64(first_page));
  metadata->Remove(column_metadata::kIndexPageOffset);
  metadata->Remove(column_metadata::kDictionaryPageOffset);
  metadata->Remove(column_metadata::kStatistics);
  if (!dictionary.empty()) {
    metadata->Set(column_metadata::kDictionaryPageOffset, ThriftValue::I64(start));
  }
  chunk.Set(column_chunk::kFileOffset, ThriftValue::I64(0));
  PF_TRY(PlaceBloomFilter(chunk, {}));
  PF_TRY(PlaceColumnIndex(chunk, {}));
  PF_TRY(PlaceOffsetIndex(chunk, {}));
  ThriftValue group = ThriftValue::Struct();
  group.Set(row_group::kColumns, ThriftValue::List(ThriftType::kStruct, {std::move(chunk)}));
  group.Set(row_group::kTotalByteSize, ThriftValue::I64(bytes));
  group.Set(row_group::kNumRows, ThriftValue::I64(row_count));
  ThriftValue tree = ThriftValue::Struct();
  tree.Set(file_metadata::kVersion, ThriftValue::I32(2));
  tree.Set(file_metadata::kSchema, ThriftValue::List(ThriftType::kStruct, schema.part));
  tree.Set(file_metadata::kNumRows, ThriftValue::I64(row_count));
  tree.Set(file_metadata::kRowGroups, ThriftValue::List(ThriftType::kStruct, {std::move(group)}));
  PF_ASSIGN(const std::string encoded, EncodeParquetFooter(tree));
  selection.file += encoded;
  return selection;
}

namespace {

namespace pq = ::parquet::arrow;

class PageCursor final : public FieldCursor {
 public:
  PageCursor(PageSelection pages, ArrowMemory& memory)
      : pages_(std::move(pages)), source_(AsBytes(pages_.file)), memory_(memory) {}

  Status Start(const Context& ctx, const std::shared_ptr<arrow::DataType>& type) {
    return CatchParquet([&]() -> Status {
      parquet::ReaderProperties properties(memory_.pool());
      parquet::ArrowReaderProperties arrow_properties(/*use_threads=*/false);
      arrow_properties.set_coerce_int96_timestamp_unit(Int96UnitOf(*type));
      pq::FileReaderBuilder builder;
      PF_ARROW_TRY(builder.Open(OpenForArrow(ctx, source_), properties));
      builder.memory_pool(memory_.pool());
      builder.properties(arrow_properties);
      PF_ARROW_ASSIGN(reader_, builder.Build());
      std::shared_ptr<arrow::Schema> schema;
      PF_ARROW_TRY(reader_->GetSchema(&schema));
      if (schema->num_fields() != 1 || !schema->field(0)->type()->Equals(*type)) {
        return Status(Code::kInvalidArgument, fmt::format("pages decode to {}, wanted {}",
                                                          schema->ToString(), type->ToString()));
      }
      PF_ARROW_ASSIGN(batches_, reader_->GetRecordBatchReader());
      rows_.emplace(pages_.rows, [this]() { return NextArray(); });
      return {};
    });
  }

  Result<std::shared_ptr<arrow::Array>> Take(int64_t begin, int64_t count) override {
    return rows_->Take(begin, count, memory_);
  }

 private:
  // Coerced INT96 has the unit of the type asked for.
  static arrow::TimeUnit::type Int96UnitOf(const arrow::DataType& type) {
    return type.id() == arrow::Type::TIMESTAMP
               ? static_cast<const arrow::TimestampType&>(type).unit()
               : arrow::TimeUnit::MICRO;
  }
  Result<std::shared_ptr<arrow::Array>> NextArray() {
    return CatchParquet([&]() -> Result<std::shared_ptr<arrow::Array>> {
      std::shared_ptr<arrow::RecordBatch> batch;
      PF_ARROW_TRY(batches_->ReadNext(&batch));
      return batch == nullptr ? nullptr : batch->column(0);
    });
  }

  const PageSelection pages_;
  MemorySource source_;
  ArrowMemory& memory_;
  std::unique_ptr<pq::FileReader> reader_;
  std::shared_ptr<arrow::RecordBatchReader> batches_;
  std::optional<FieldRows> rows_;
};

}  // namespace

Result<std::unique_ptr<FieldCursor>> OpenPages(const Context& ctx, PageSelection pages,
                                               const std::shared_ptr<arrow::DataType>& type,
                                               ArrowMemory& memory) {
  auto cursor = std::make_unique<PageCursor>(std::move(pages), memory);
  PF_TRY(cursor->Start(ctx, type));
  return std::unique_ptr<FieldCursor>(std::move(cursor));
}

}  // namespace partforge::data
