#include "data/parquet_source.h"

#include <arrow/io/interfaces.h>
#include <arrow/ipc/writer.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <arrow/util/base64.h>
#include <fmt/format.h>
#include <parquet/arrow/reader.h>
#include <parquet/file_reader.h>
#include <parquet/metadata.h>
#include <parquet/properties.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "data/field_rows.h"
#include "data/int96_check.h"
#include "data/page_rows.h"
#include "data/parquet_footer.h"
#include "data/parquet_pruning.h"
#include "data/type_mapping.h"

namespace partforge::data {
namespace {

namespace pq = ::parquet::arrow;

// Buffers of all columns that are decoded at once, and the least of one. What was fetched ahead is
// copied out of memory, so the size only matters for groups that are too large for that.
constexpr int64_t kStreamBytesMin = int64_t{64} << 10;
constexpr int64_t kStreamBytesMax = int64_t{8} << 20;
constexpr int64_t kTrailerBytes = 8;
constexpr int64_t kTailBytes = int64_t{64} << 10;

struct OpenedFile {
  ParquetFooter footer;
  std::shared_ptr<parquet::FileMetaData> metadata;
  MemoryGrant grant;  // for `metadata`, which takes about as much as our tree
};

// Our own check of the footer comes first, so that libparquet only sees sound offsets and counts.
Result<OpenedFile> OpenFooter(const Context& ctx, ByteSource& source, std::string_view file_name) {
  OpenedFile file;
  PF_ASSIGN(file.footer, ReadParquetFooter(ctx, source, file_name));
  const int64_t length = file.footer.file_size_bytes - kTrailerBytes - file.footer.footer_start;
  auto grant = ctx.memory.TryReserve(file.footer.charge->size_bytes());
  if (!grant.ok()) {
    return Status(grant.status())
        .With(fmt::format("read footer of {} (more memory: --memory)", file_name));
  }
  file.grant = std::move(grant).value();
  std::string bytes(static_cast<size_t>(length), '\0');
  PF_TRY(source.ReadAt(ctx, file.footer.footer_start, std::as_writable_bytes(std::span(bytes))));
  auto status = CatchParquet([&]() -> Status {
    file.metadata = parquet::FileMetaData::Make(bytes.data(), length);
    return {};
  });
  if (!status.ok()) return std::move(status).With(fmt::format("read footer of {}", file_name));
  return file;
}

Result<std::unique_ptr<pq::FileReader>> OpenReader(
    const std::shared_ptr<arrow::io::RandomAccessFile>& file,
    std::shared_ptr<parquet::FileMetaData> metadata, arrow::TimeUnit::type int96_unit,
    int64_t stream_bytes, ArrowMemory& memory) {
  const int64_t columns = std::max(metadata->num_columns(), 1);
  parquet::ReaderProperties properties(memory.pool());
  properties.enable_buffered_stream();
  properties.set_buffer_size(std::clamp(stream_bytes / columns, kStreamBytesMin, kStreamBytesMax));
  properties.set_page_checksum_verification(true);
  parquet::ArrowReaderProperties arrow_properties(/*use_threads=*/false);
  arrow_properties.set_pre_buffer(false);
  arrow_properties.set_coerce_int96_timestamp_unit(int96_unit);
  return CatchParquet([&]() -> Result<std::unique_ptr<pq::FileReader>> {
    pq::FileReaderBuilder builder;
    PF_ARROW_TRY(builder.Open(file, properties, std::move(metadata)));
    builder.memory_pool(memory.pool());
    builder.properties(arrow_properties);
    PF_ARROW_ASSIGN(auto reader, builder.Build());
    return reader;
  });
}

// What libparquet makes of a footer whose Arrow schema is another one.
Result<std::shared_ptr<parquet::FileMetaData>> MetadataWithSchema(ThriftValue tree,
                                                                  const arrow::Schema& schema) {
  using namespace parquet_field;  // NOLINT: names of parquet.thrift
  PF_ARROW_ASSIGN(const auto bytes, arrow::ipc::SerializeSchema(schema));
  ThriftValue pair = ThriftValue::Struct();
  pair.Set(key_value::kKey, ThriftValue::Binary("ARROW:schema"));
  pair.Set(key_value::kValue,
           ThriftValue::Binary(arrow::util::base64_encode(std::string_view(*bytes))));
  tree.Set(file_metadata::kKeyValues, ThriftValue::List(ThriftType::kStruct, {std::move(pair)}));
  const std::string footer = EncodeThriftStruct(tree);
  return CatchParquet([&]() -> Result<std::shared_ptr<parquet::FileMetaData>> {
    return parquet::FileMetaData::Make(footer.data(), static_cast<int64_t>(footer.size()));
  });
}

// A file opened for rows. The Arrow schema that a footer may carry says how its writer held the
// values; views are read as the plain layout of the same values.
struct OpenedReader {
  ParquetFooter footer;
  MemoryGrant grant;  // for the metadata of `reader`
  std::unique_ptr<pq::FileReader> reader;
  std::shared_ptr<arrow::Schema> schema;
};

Result<OpenedReader> OpenRows(const Context& ctx, ByteSource& source, std::string_view file_name,
                              arrow::TimeUnit::type int96_unit, int64_t stream_bytes,
                              ArrowMemory& memory) {
  PF_ASSIGN(OpenedFile file, OpenFooter(ctx, source, file_name));
  OpenedReader opened{.footer = std::move(file.footer),
                      .grant = std::move(file.grant),
                      .reader = nullptr,
                      .schema = nullptr};
  const auto open = [&](std::shared_ptr<parquet::FileMetaData> metadata) -> Status {
    PF_ASSIGN(opened.reader, OpenReader(OpenForArrow(ctx, source), std::move(metadata), int96_unit,
                                        stream_bytes, memory));
    return CatchParquet([&]() { return FromArrow(opened.reader->GetSchema(&opened.schema)); });
  };
  PF_TRY(open(std::move(file.metadata)));
  const auto plain = WithoutViews(opened.schema);
  if (plain == opened.schema) return opened;
  opened.reader.reset();
  PF_ASSIGN(auto metadata, MetadataWithSchema(opened.footer.tree, *plain));
  PF_TRY(open(std::move(metadata)));
  return opened;
}

// INT96 has nanoseconds, of which 64 bits hold 584 years; the table's unit is asked for at once, as
// other writers put dates far away there. One unit serves all such columns of a file, and values
// are checked against it.
arrow::TimeUnit::type Int96Unit(const arrow::Schema* wanted) {
  if (wanted == nullptr) return arrow::TimeUnit::MICRO;
  for (const auto& field : wanted->fields()) {
    if (field->type()->id() != arrow::Type::TIMESTAMP) continue;
    if (static_cast<const arrow::TimestampType&>(*field->type()).unit() == arrow::TimeUnit::NANO) {
      return arrow::TimeUnit::NANO;
    }
  }
  return arrow::TimeUnit::MICRO;
}

// Pages are picked when at least this share of a row group's rows is left out.
constexpr double kPageShare = 0.25;

// A field read whole, of which only chosen rows are handed out.
class WholeField final : public FieldCursor {
 public:
  WholeField(std::shared_ptr<arrow::RecordBatchReader> batches, int64_t row_count,
             ArrowMemory& memory)
      : batches_(std::move(batches)),
        memory_(memory),
        rows_({{.begin = 0, .end = static_cast<uint64_t>(row_count)}},
              [this]() { return NextArray(); }) {}
  Result<std::shared_ptr<arrow::Array>> Take(int64_t begin, int64_t count) override {
    return rows_.Take(begin, count, memory_);
  }

 private:
  Result<std::shared_ptr<arrow::Array>> NextArray() {
    return CatchParquet([&]() -> Result<std::shared_ptr<arrow::Array>> {
      std::shared_ptr<arrow::RecordBatch> batch;
      PF_ARROW_TRY(batches_->ReadNext(&batch));
      return batch == nullptr ? nullptr : batch->column(0);
    });
  }
  const std::shared_ptr<arrow::RecordBatchReader> batches_;
  ArrowMemory& memory_;
  FieldRows rows_;
};

// A row group to be read.
struct GroupPlan {
  int index = 0;
  int64_t first_row = 0;
  int64_t row_count = 0;
  std::vector<FileRange> ranges;  // of the leaves
};

class Source final : public ParquetSource {
 public:
  Source(ScanSpec spec, std::string file_name, std::unique_ptr<ByteSource> object,
         ArrowMemory& memory)
      : spec_(std::move(spec)),
        file_name_(std::move(file_name)),
        memory_(memory),
        object_(std::move(object), spec_.read_ahead) {}

  Status Start(const Context& ctx) {
    // The footer is read by two parsers; one request serves both.
    const int64_t tail = std::min(kTailBytes, object_.size_bytes());
    object_.Fetch(ctx, {{.offset = object_.size_bytes() - tail, .length = tail}});
    int96_unit_ = Int96Unit(spec_.wanted.get());
    PF_ASSIGN(OpenedReader file,
              OpenRows(ctx, object_, file_name_, int96_unit_, spec_.stream_bytes_max, memory_));
    footer_ = std::move(file.footer);
    metadata_grant_ = std::move(file.grant);
    reader_ = std::move(file.reader);
    PF_ASSIGN(output_, ScanOutput::Make(file.schema, spec_, file_name_, memory_));
    PF_ASSIGN(pruner_, ParquetPruner::Make(footer_, output_->mapping(), spec_.ranges, file_name_));
    SplitFields(*file.schema);
    return PlanGroups();
  }

  const std::shared_ptr<arrow::Schema>& schema() const override { return output_->schema(); }

  ParquetReadCounts counts() const override {
    ParquetReadCounts counts = counts_;
    counts.requests = object_.request_count();
    return counts;
  }

  Result<std::shared_ptr<arrow::RecordBatch>> Next(const Context& ctx) override {
    while (true) {
      if (auto batch = output_->Pop(); batch != nullptr) return batch;
      PF_TRY(ctx.CheckStop("reading Parquet"));
      if (!group_) {
        if (next_group_ == groups_.size()) return std::shared_ptr<arrow::RecordBatch>();
        PF_TRY(OpenGroup(ctx));
        continue;
      }
      Status status = DecodeNext();
      if (!status.ok()) {
        return std::move(status).With(
            fmt::format("read {}, row group {}", file_name_, group_->index));
      }
    }
  }

 private:
  Status PlanGroups() {
    const int count = footer_.row_group_count();
    std::vector<int> chosen = spec_.row_groups;
    if (chosen.empty()) {
      for (int i = 0; i < count; ++i) chosen.push_back(i);
    }
    std::vector<int64_t> first_rows;
    int64_t row = 0;
    for (int i = 0; i < count; ++i) {
      first_rows.push_back(row);
      row += RowsOf(i);
    }
    for (const int index : chosen) {
      if (index < 0 || index >= count) {
        return Status(Code::kInvalidArgument, fmt::format("read {}: it has {} row groups, not {}",
                                                          file_name_, count, index));
      }
      GroupPlan group{.index = index,
                      .first_row = first_rows[static_cast<size_t>(index)],
                      .row_count = RowsOf(index),
                      .ranges = {}};
      for (const int leaf : output_->leaves()) {
        PF_ASSIGN(const ChunkView view, ViewChunk(footer_.chunk(index, leaf), file_name_));
        group.ranges.push_back(view.bytes);
      }
      if (group.row_count > 0) groups_.push_back(std::move(group));
    }
    return {};
  }

  int64_t RowsOf(int index) const {
    return footer_.row_group(index).Find(parquet_field::row_group::kNumRows)->AsInt();
  }

  // The leaves to read, by top-level field.
  void SplitFields(const arrow::Schema& schema) {
    int begin = 0;
    for (const auto& field : schema.fields()) {
      const int end = begin + LeafCount(*field);
      std::vector<int> leaves;
      for (const int leaf : output_->leaves()) {
        if (leaf >= begin && leaf < end) leaves.push_back(leaf);
      }
      if (!leaves.empty()) fields_.push_back(std::move(leaves));
      begin = end;
    }
  }

  // Opens the next row group, or passes over it: group_ is empty then.
  Status OpenGroup(const Context& ctx) {
    group_ = std::move(groups_[next_group_++]);
    decoded_rows_ = 0;
    is_selective_ = false;
    if (pruner_->has_ranges()) {
      PF_ASSIGN(const bool may_match, pruner_->MayMatch(ctx, object_, group_->index));
      if (may_match) {
        PF_ASSIGN(selected_, pruner_->RowsToRead(ctx, object_, group_->index));
      }
      if (!may_match || selected_.empty()) {
        ++counts_.row_groups_pruned;
        group_.reset();
        return {};
      }
      int64_t rows = 0;
      for (const RowRun& run : selected_) rows += static_cast<int64_t>(run.size());
      const int64_t left_out = group_->row_count - rows;
      // INT96 is checked whole, which is cheap only where it was fetched ahead.
      const bool is_worth_it =
          static_cast<double>(left_out) >= kPageShare * static_cast<double>(group_->row_count);
      if (is_worth_it && !HasInt96()) {
        PF_ASSIGN(const bool has_room, OpenPagesOfGroup(ctx));
        if (has_room) {
          ++counts_.row_groups_read;
          counts_.rows_pruned_in_pages += left_out;
          return {};
        }
      }
    }
    ++counts_.row_groups_read;
    if (output_->leaves().empty()) return {};
    if (next_group_ == 1) object_.Fetch(ctx, group_->ranges);
    if (next_group_ < groups_.size()) object_.Fetch(ctx, groups_[next_group_].ranges);
    PF_TRY(CheckInt96());
    reader_->set_batch_size(output_->next_rows());
    return CatchParquet([&]() -> Status {
      PF_ARROW_ASSIGN(batches_, reader_->GetRecordBatchReader({group_->index}, output_->leaves()));
      return {};
    });
  }

  bool IsInt96(int leaf) const {
    const parquet::FileMetaData& metadata = *reader_->parquet_reader()->metadata();
    return metadata.schema()->Column(leaf)->physical_type() == parquet::Type::INT96;
  }
  bool HasInt96() const {
    const std::vector<int>& leaves = output_->leaves();
    return std::any_of(leaves.begin(), leaves.end(), [&](int leaf) { return IsInt96(leaf); });
  }

  Status CheckInt96() {
    parquet::ParquetFileReader& file = *reader_->parquet_reader();
    for (const int leaf : output_->leaves()) {
      if (!IsInt96(leaf)) continue;
      // Where no type is asked for, a time is shown as far as microseconds show it.
      const DigitsOfTimes digits =
          spec_.wanted == nullptr ? DigitsOfTimes::kMayBeCut : spec_.mapping.digits;
      Status status =
          CheckInt96Values(file, group_->index, leaf, int96_unit_, digits, group_->first_row);
      if (!status.ok()) return std::move(status).With(fmt::format("read {}", file_name_));
    }
    return {};
  }

  // The pages of all columns are held at once: false, and nothing is open, where memory has no room
  // for them.
  Result<bool> OpenPagesOfGroup(const Context& ctx) {
    const auto in_group = [&](Status status) {
      return std::move(status).With(
          fmt::format("read {}, row group {}", file_name_, group_->index));
    };
    is_selective_ = true;
    next_run_ = 0;
    run_done_ = 0;
    if (output_->leaves().empty()) return true;
    reader_->set_batch_size(output_->next_rows());
    // The schema of exactly the leaves that are read.
    Status status = CatchParquet([&]() -> Status {
      PF_ARROW_ASSIGN(const auto all,
                      reader_->GetRecordBatchReader({group_->index}, output_->leaves()));
      read_schema_ = all->schema();
      return {};
    });
    if (!status.ok()) return in_group(std::move(status));
    std::vector<FileRange> wanted;
    std::vector<bool> by_pages;
    for (const auto& leaves : fields_) {
      PF_ASSIGN(const auto ranges, RangesOfField(ctx, leaves));
      by_pages.push_back(ranges.has_value());
      if (ranges) wanted.insert(wanted.end(), ranges->begin(), ranges->end());
    }
    int64_t bytes = 0;
    for (const FileRange& range : wanted) bytes += range.length;
    auto grant = ctx.memory.TryReserve(bytes);
    if (!grant.ok()) {
      is_selective_ = false;
      read_schema_.reset();
      return false;
    }
    pages_grant_ = std::move(grant).value();
    object_.Fetch(ctx, wanted);
    for (size_t i = 0; i < fields_.size(); ++i) {
      status =
          OpenField(ctx, fields_[i], by_pages[i], read_schema_->field(static_cast<int>(i))->type());
      if (!status.ok()) return in_group(std::move(status));
    }
    return true;
  }

  Result<std::optional<std::vector<FileRange>>> RangesOfField(const Context& ctx,
                                                              const std::vector<int>& leaves) {
    if (leaves.size() != 1) return std::optional<std::vector<FileRange>>();
    return PageRanges(ctx, object_, footer_, group_->index, leaves[0], selected_, file_name_);
  }

  Status OpenField(const Context& ctx, const std::vector<int>& leaves, bool by_pages,
                   const std::shared_ptr<arrow::DataType>& type) {
    if (by_pages) {
      PF_ASSIGN(PageSelection pages, SelectPages(ctx, object_, footer_, group_->index, leaves[0],
                                                 selected_, file_name_));
      auto cursor = OpenPages(ctx, std::move(pages), type, memory_);
      if (cursor.ok()) {
        cursors_.push_back(std::move(cursor).value());
        return {};
      }
      if (cursor.status().code() != Code::kInvalidArgument) return cursor.status();
    }
    return CatchParquet([&]() -> Status {
      PF_ARROW_ASSIGN(auto batches, reader_->GetRecordBatchReader({group_->index}, leaves));
      cursors_.push_back(
          std::make_unique<WholeField>(std::move(batches), group_->row_count, memory_));
      return {};
    });
  }

  // The next rows of the selection.
  Status DecodeSelected() {
    const RowRun& run = selected_[next_run_];
    const int64_t begin = static_cast<int64_t>(run.begin) + run_done_;
    const int64_t limit = output_->leaves().empty() ? spec_.batch_rows_max : output_->next_rows();
    const int64_t count = std::min(limit, static_cast<int64_t>(run.end) - begin);
    if (cursors_.empty()) {
      PF_TRY(output_->PushRows(count, group_->first_row + begin));
    } else {
      arrow::ArrayVector columns;
      for (const auto& cursor : cursors_) {
        PF_ASSIGN(auto column, cursor->Take(begin, count));
        columns.push_back(std::move(column));
      }
      PF_TRY(output_->Push(*arrow::RecordBatch::Make(read_schema_, count, std::move(columns)),
                           group_->first_row + begin));
    }
    run_done_ += count;
    if (run_done_ == static_cast<int64_t>(run.size())) {
      run_done_ = 0;
      ++next_run_;
    }
    if (next_run_ == selected_.size()) CloseGroup();
    return {};
  }

  Status DecodeNext() {
    if (is_selective_) return DecodeSelected();
    if (output_->leaves().empty()) {
      const int64_t count = std::min(spec_.batch_rows_max, group_->row_count - decoded_rows_);
      PF_TRY(output_->PushRows(count, group_->first_row + decoded_rows_));
      decoded_rows_ += count;
      if (decoded_rows_ == group_->row_count) CloseGroup();
      return {};
    }
    // The reader asks for the size anew with each batch.
    reader_->set_batch_size(output_->next_rows());
    std::shared_ptr<arrow::RecordBatch> batch;
    PF_TRY(CatchParquet([&]() -> Status { return FromArrow(batches_->ReadNext(&batch)); }));
    if (batch == nullptr) {
      if (decoded_rows_ != group_->row_count) {
        return Status(Code::kCorruption, fmt::format("the footer says {} rows, the pages hold {}",
                                                     group_->row_count, decoded_rows_));
      }
      CloseGroup();
      return {};
    }
    PF_TRY(output_->Push(*batch, group_->first_row + decoded_rows_));
    decoded_rows_ += batch->num_rows();
    if (decoded_rows_ > group_->row_count) {
      return Status(
          Code::kCorruption,
          fmt::format("the pages hold more rows than the footer says: {}", decoded_rows_));
    }
    return {};
  }

  void CloseGroup() {
    batches_.reset();
    cursors_.clear();
    pages_grant_.Release();
    read_schema_.reset();
    selected_.clear();
    int64_t end = 0;
    for (const FileRange& range : group_->ranges) end = std::max(end, range.end());
    object_.DropBefore(end);
    group_.reset();
  }

  const ScanSpec spec_;
  const std::string file_name_;
  ArrowMemory& memory_;
  ReadAheadSource object_;
  ParquetFooter footer_;
  MemoryGrant metadata_grant_;
  std::unique_ptr<pq::FileReader> reader_;
  arrow::TimeUnit::type int96_unit_ = arrow::TimeUnit::MICRO;
  std::optional<ScanOutput> output_;
  std::optional<ParquetPruner> pruner_;
  std::vector<std::vector<int>> fields_;
  std::vector<GroupPlan> groups_;
  size_t next_group_ = 0;
  std::optional<GroupPlan> group_;  // being read
  std::shared_ptr<arrow::RecordBatchReader> batches_;
  int64_t decoded_rows_ = 0;  // of the group, when it is read whole
  // When only some pages are read: rows, what hands them out, and how far we are.
  bool is_selective_ = false;
  std::vector<RowRun> selected_;
  std::shared_ptr<arrow::Schema> read_schema_;
  std::vector<std::unique_ptr<FieldCursor>> cursors_;
  MemoryGrant pages_grant_;  // for what they hold
  size_t next_run_ = 0;
  int64_t run_done_ = 0;
  ParquetReadCounts counts_;
};

}  // namespace

Result<std::unique_ptr<ParquetSource>> ParquetSource::Open(const Context& ctx,
                                                           std::unique_ptr<ByteSource> object,
                                                           std::string file_name, ScanSpec spec,
                                                           ArrowMemory& memory) {
  auto source =
      std::make_unique<Source>(std::move(spec), std::move(file_name), std::move(object), memory);
  PF_TRY(source->Start(ctx));
  return std::unique_ptr<ParquetSource>(std::move(source));
}

Result<std::shared_ptr<arrow::Schema>> ReadParquetSchema(const Context& ctx, ByteSource& source,
                                                         std::string_view file_name,
                                                         ArrowMemory& memory) {
  PF_ASSIGN(OpenedReader file, OpenRows(ctx, source, file_name, arrow::TimeUnit::MICRO,
                                        ScanSpec().stream_bytes_max, memory));
  return file.schema;
}

}  // namespace partforge::data
