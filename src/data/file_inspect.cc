#include "data/file_inspect.h"

#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "data/avro_report.h"
#include "data/bitmap.h"
#include "data/borrowed_source.h"
#include "data/orc_report.h"
#include "data/orc_source.h"
#include "data/page_index.h"
#include "data/parquet_footer.h"
#include "data/parquet_metrics.h"
#include "data/parquet_names.h"
#include "data/parquet_schema.h"
#include "data/parquet_source.h"
#include "data/puffin.h"

namespace partforge::data {
namespace {

using namespace parquet_field;  // NOLINT: names of parquet.thrift

std::string TextField(const ThriftValue& record, int16_t id) {
  return BytesField(record, id).value_or("");
}

void AddName(std::vector<std::string>& names, std::string_view name) {
  if (std::find(names.begin(), names.end(), name) == names.end()) names.emplace_back(name);
}

// Counts the rows that can be read.
Result<int64_t> CountRows(const Context& ctx, BatchSource& source) {
  int64_t rows = 0;
  while (true) {
    PF_ASSIGN(const auto batch, source.Next(ctx));
    if (batch == nullptr) return rows;
    rows += batch->num_rows();
  }
}

Status CheckRows(const FileReport& report, int64_t rows) {
  if (!report.row_count || rows == *report.row_count) return {};
  return Status(Code::kCorruption, fmt::format("inspect {}: {} rows were read, the footer says {}",
                                               report.file_name, rows, *report.row_count));
}

class ParquetInspector {
 public:
  ParquetInspector(FileReport& report, Inspection inspection)
      : report_(report), inspection_(inspection) {}

  Status Run(const Context& ctx, ByteSource& source) {
    PF_ASSIGN(const ParquetFooter footer, ReadParquetFooter(ctx, source, report_.file_name));
    const ThriftValue& tree = footer.tree;
    report_.row_count = footer.num_rows();
    report_.footer_bytes = footer.file_size_bytes - footer.footer_start;
    report_.written_by = TextField(tree, file_metadata::kCreatedBy);
    if (const ThriftValue* pairs = tree.Find(file_metadata::kKeyValues);
        pairs != nullptr && pairs->type() == ThriftType::kList) {
      for (const ThriftValue& pair : pairs->items()) {
        report_.properties.emplace_back(TextField(pair, key_value::kKey),
                                        TextField(pair, key_value::kValue));
      }
    }
    PF_TRY(AddColumns(footer));
    for (int g = 0; g < footer.row_group_count(); ++g) PF_TRY(AddGroup(ctx, source, footer, g));
    PF_ASSIGN(FileMetrics metrics, MetricsOfFooter(tree, {}, nullptr, report_.file_name));
    for (size_t i = 0; i < report_.columns.size(); ++i) {
      report_.columns[i].metrics = std::move(metrics.columns[i]);
    }
    return {};
  }

 private:
  Status AddColumns(const ParquetFooter& footer) {
    const auto& schema = footer.tree.Find(file_metadata::kSchema)->items();
    PF_ASSIGN(const auto leaves, SchemaLeaves(schema, report_.file_name));
    PF_ASSIGN(const auto columns, LeafColumns(schema, report_.file_name));
    for (size_t i = 0; i < columns.size(); ++i) {
      ColumnReport column;
      column.path = columns[i].dotted_path;
      column.field_id = columns[i].field_id;
      column.type = DescribeElement(schema[leaves[i].element]);
      column.physical_type = ParquetTypeName(static_cast<int64_t>(columns[i].type));
      column.is_required = columns[i].max_definition_level == 0;
      column.has_page_index = footer.row_group_count() > 0;
      report_.columns.push_back(std::move(column));
    }
    leaves_ = columns;
    return {};
  }

  Status AddGroup(const Context& ctx, ByteSource& source, const ParquetFooter& footer, int index) {
    const int only[] = {index};
    PF_ASSIGN(FileMetrics metrics, MetricsOfFooter(footer.tree, only, nullptr, report_.file_name));
    GroupReport group;
    group.row_count = footer.row_group(index).Find(row_group::kNumRows)->AsInt();
    group.offset = INT64_MAX;
    for (size_t c = 0; c < report_.columns.size(); ++c) {
      const ThriftValue& chunk = footer.chunk(index, static_cast<int>(c));
      PF_ASSIGN(const ChunkView view, ViewChunk(chunk, report_.file_name));
      ColumnReport& column = report_.columns[c];
      column.compressed_bytes += view.bytes.length;
      column.uncompressed_bytes += view.uncompressed_bytes;
      AddName(column.codecs, ParquetCodecName(view.codec));
      ChunkReport own;
      own.offset = view.bytes.offset;
      own.compressed_bytes = view.bytes.length;
      own.uncompressed_bytes = view.uncompressed_bytes;
      own.value_count = view.num_values;
      own.codec = ParquetCodecName(view.codec);
      own.has_dictionary = view.dictionary_page_offset.has_value();
      own.has_bloom_filter = view.bloom_filter.offset > 0;
      own.has_offset_index = view.offset_index.length > 0;
      own.has_column_index = view.column_index.length > 0;
      own.metrics = std::move(metrics.columns[c]);
      const ThriftValue* encodings =
          chunk.Find(column_chunk::kMetaData)->Find(column_metadata::kEncodings);
      if (encodings != nullptr && encodings->type() == ThriftType::kList &&
          encodings->element_type() == ThriftType::kI32) {
        for (const ThriftValue& encoding : encodings->items()) {
          AddName(column.encodings, ParquetEncodingName(encoding.AsInt()));
          AddName(own.encodings, ParquetEncodingName(encoding.AsInt()));
        }
      }
      if (view.dictionary_page_offset) ++column.dictionary_chunks;
      if (view.bloom_filter.offset > 0) ++column.bloom_filter_chunks;
      column.has_page_index = column.has_page_index && view.column_index.length > 0;
      group.offset = std::min(group.offset, view.bytes.offset);
      group.compressed_bytes += view.bytes.length;
      group.uncompressed_bytes += view.uncompressed_bytes;
      if (inspection_ != Inspection::kFooter) {
        PF_TRY(AddPages(ctx, source, view, group.row_count, leaves_[c], own));
      }
      group.chunks.push_back(std::move(own));
    }
    if (group.chunks.empty()) group.offset = footer.footer_start;  // a file without a column
    report_.groups.push_back(std::move(group));
    return {};
  }

  Status AddPages(const Context& ctx, ByteSource& source, const ChunkView& view, int64_t row_count,
                  const LeafColumn& leaf, ChunkReport& chunk) {
    const std::string what = fmt::format("{}, column {}", report_.file_name, leaf.dotted_path);
    PF_ASSIGN(const auto offsets, ReadOffsetIndex(ctx, source, view, row_count, what));
    if (!offsets) return {};
    PF_ASSIGN(const auto index, ReadColumnIndex(ctx, source, view, offsets->pages.size(), what));
    for (size_t p = 0; p < offsets->pages.size(); ++p) {
      const PagePlace& place = offsets->pages[p];
      PageReport page;
      page.offset = place.bytes.offset;
      page.stored_bytes = place.bytes.length;
      page.first_row = place.first_row;
      page.row_count = offsets->EndRow(p, row_count) - place.first_row;
      if (index) {
        page.has_bounds = true;
        page.is_null_page = index->null_pages[p];
        if (index->null_counts) page.null_count = (*index->null_counts)[p];
        if (!page.is_null_page) {
          page.lower = ScalarOfPlain(leaf, index->min_values[p]);
          page.upper = ScalarOfPlain(leaf, index->max_values[p]);
        }
      }
      chunk.pages.push_back(std::move(page));
    }
    return {};
  }

  FileReport& report_;
  const Inspection inspection_;
  std::vector<LeafColumn> leaves_;
};

Status ReadBlob(const Context& ctx, ByteSource& source, const std::string& file_name,
                GroupReport& group) {
  PF_ASSIGN(const std::string bytes, ReadPuffinBlob(ctx, source, *group.blob, file_name));
  group.uncompressed_bytes = static_cast<int64_t>(bytes.size());
  if (group.blob->type != "deletion-vector-v1") return {};  // Iceberg, "Deletion Vectors"
  PF_ASSIGN(const PositionVector vector,
            ParseVector(std::as_bytes(std::span(bytes)),
                        fmt::format("{}, blob at {}", file_name, group.blob->offset)));
  group.position_count = static_cast<int64_t>(vector.positions.cardinality());
  const auto said = group.blob->Property("cardinality");
  if (said && *said != std::to_string(*group.position_count)) {
    return Status(Code::kCorruption,
                  fmt::format("read {}: the blob at {} holds {} positions, its property says {}",
                              file_name, group.blob->offset, *group.position_count, *said));
  }
  return {};
}

Status InspectPuffin(const Context& ctx, ByteSource& source, Inspection inspection,
                     FileReport& report) {
  PF_ASSIGN(const PuffinFooter footer, ReadPuffinFooter(ctx, source, report.file_name));
  report.properties = footer.properties;
  report.footer_bytes = footer.footer_size_bytes;
  for (const PuffinBlob& blob : footer.blobs) {
    GroupReport group;
    group.offset = blob.offset;
    group.compressed_bytes = blob.length;
    group.blob = blob;
    if (inspection == Inspection::kDecode) PF_TRY(ReadBlob(ctx, source, report.file_name, group));
    report.groups.push_back(std::move(group));
  }
  return {};
}

}  // namespace

std::string_view FormatName(FileFormat format) {
  switch (format) {
    case FileFormat::kParquet:
      return "parquet";
    case FileFormat::kOrc:
      return "orc";
    case FileFormat::kAvro:
      return "avro";
    case FileFormat::kPuffin:
      return "puffin";
  }
  return "";
}

Result<FileFormat> DetectFormat(const Context& ctx, ByteSource& source,
                                std::string_view file_name) {
  std::array<char, 4> head{};
  if (source.size_bytes() == 0) {
    return Status(Code::kCorruption, fmt::format("inspect: the file is empty: {}", file_name));
  }
  if (source.size_bytes() >= static_cast<int64_t>(head.size())) {
    PF_TRY(source.ReadAt(ctx, 0, std::as_writable_bytes(std::span(head))));
  }
  const std::string_view magic(head.data(), head.size());
  if (magic == "PAR1" || magic == "PARE") return FileFormat::kParquet;
  if (magic.starts_with("ORC")) return FileFormat::kOrc;
  if (magic == std::string_view("Obj\x01", 4)) return FileFormat::kAvro;
  if (magic == "PFA1") return FileFormat::kPuffin;
  return Status(Code::kRefused,
                fmt::format("inspect: the first bytes are of no format we read (Parquet, ORC, "
                            "Avro, Puffin): {}",
                            file_name));
}

Status CountPath(std::string_view path, size_t& path_bytes) {
  constexpr size_t kPathBytesMax = size_t{16} << 20;
  path_bytes += path.size();
  if (path_bytes <= kPathBytesMax) return {};
  return Status(Code::kCorruption, fmt::format("names of columns above {} bytes", kPathBytesMax));
}

Result<FileReport> InspectFile(const Context& ctx, ByteSource& source, std::string file_name,
                               Inspection inspection, ArrowMemory& memory) {
  FileReport report;
  report.file_name = std::move(file_name);
  report.size_bytes = source.size_bytes();
  PF_ASSIGN(report.format, DetectFormat(ctx, source, report.file_name));
  const bool decodes = inspection == Inspection::kDecode;
  switch (report.format) {
    case FileFormat::kParquet: {
      PF_TRY(ParquetInspector(report, inspection).Run(ctx, source));
      if (!decodes) return report;
      PF_ASSIGN(const auto rows, ParquetSource::Open(ctx, std::make_unique<BorrowedSource>(source),
                                                     report.file_name, {}, memory));
      PF_ASSIGN(const int64_t count, CountRows(ctx, *rows));
      PF_TRY(CheckRows(report, count));
      return report;
    }
    case FileFormat::kOrc: {
      Status status = ReportOrc(ctx, source, report, memory);
      if (!status.ok()) return std::move(status).With(fmt::format("inspect {}", report.file_name));
      if (!decodes) return report;
      PF_ASSIGN(const auto rows, OpenOrcSource(ctx, std::make_unique<BorrowedSource>(source),
                                               report.file_name, {}, {}, memory));
      PF_ASSIGN(const int64_t count, CountRows(ctx, *rows));
      PF_TRY(CheckRows(report, count));
      return report;
    }
    case FileFormat::kAvro:
      PF_TRY(ReportAvro(ctx, source, inspection, report));
      return report;
    case FileFormat::kPuffin:
      PF_TRY(InspectPuffin(ctx, source, inspection, report));
      return report;
  }
  return report;
}

}  // namespace partforge::data
