#include "app/file_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "app/scalar_text.h"
#include "base/units.h"

namespace partforge::app {
namespace {

using data::ChunkReport;
using data::ColumnMetrics;
using data::ColumnReport;
using data::FileFormat;
using data::FileReport;
using data::GroupReport;
using data::PageReport;
using data::Scalar;

constexpr size_t kGroupsShown = 12;
constexpr size_t kPropertyBytesShown = 60;

std::string_view GroupWord(FileFormat format) {
  switch (format) {
    case FileFormat::kParquet:
      return "row group";
    case FileFormat::kOrc:
      return "stripe";
    case FileFormat::kAvro:
      return "block";
    case FileFormat::kPuffin:
      return "blob";
  }
  return "";
}

// "1 blob", "4 row groups".
std::string Counted(int64_t count, std::string_view word) {
  return fmt::format("{} {}{}", FormatCount(count), word, count == 1 ? "" : "s");
}

bool IsText(std::string_view bytes) {
  return Printable(bytes) == bytes;
}

std::string BoundText(const std::optional<data::Bound>& bound, std::string_view type) {
  return bound ? ScalarText(bound->value, type) : "";
}

std::string CountOrNothing(const std::optional<int64_t>& count) {
  return count ? FormatCount(*count) : "";
}

void AddMetrics(const std::optional<ColumnMetrics>& metrics, std::string_view type, JsonDoc& doc) {
  doc["null_count"] = nullptr;
  doc["min"] = nullptr;
  doc["max"] = nullptr;
  if (!metrics) return;
  if (metrics->null_count) doc["null_count"] = *metrics->null_count;
  if (metrics->lower) {
    doc["min"] = ScalarJson(metrics->lower->value, type);
    doc["min_is_exact"] = metrics->lower->is_exact;
  }
  if (metrics->upper) {
    doc["max"] = ScalarJson(metrics->upper->value, type);
    doc["max_is_exact"] = metrics->upper->is_exact;
  }
}

JsonDoc PageJson(const PageReport& page, std::string_view type) {
  JsonDoc doc{{"offset", page.offset},
              {"bytes", page.stored_bytes},
              {"first_row", page.first_row},
              {"rows", page.row_count}};
  if (!page.has_bounds) return doc;
  doc["is_null_page"] = page.is_null_page;
  if (page.null_count) doc["null_count"] = *page.null_count;
  if (page.lower) doc["min"] = ScalarJson(*page.lower, type);
  if (page.upper) doc["max"] = ScalarJson(*page.upper, type);
  return doc;
}

// What ORC says of a column's values, in a stripe or in the file.
template <class Report>
JsonDoc OrcValuesJson(const Report& report, const ColumnReport& column) {
  JsonDoc doc{{"bytes", report.compressed_bytes},
              {"encodings", report.encodings},
              {"values", nullptr},
              {"has_null", nullptr}};
  if (report.present_count) doc["values"] = *report.present_count;
  if (report.has_null) doc["has_null"] = *report.has_null;
  AddMetrics(report.metrics, column.type, doc);
  return doc;
}

JsonDoc ChunkJson(const ChunkReport& chunk, const ColumnReport& column, bool has_pages) {
  JsonDoc doc{{"path", Printable(column.path)},
              {"offset", chunk.offset},
              {"bytes", chunk.compressed_bytes},
              {"raw_bytes", chunk.uncompressed_bytes},
              {"values", chunk.value_count},
              {"codec", chunk.codec},
              {"encodings", chunk.encodings},
              {"has_dictionary", chunk.has_dictionary},
              {"has_offset_index", chunk.has_offset_index},
              {"has_column_index", chunk.has_column_index},
              {"has_bloom_filter", chunk.has_bloom_filter}};
  AddMetrics(chunk.metrics, column.type, doc);
  if (!has_pages) return doc;
  doc["pages"] = JsonDoc::array();
  for (const PageReport& page : chunk.pages) doc["pages"].push_back(PageJson(page, column.type));
  return doc;
}

JsonDoc BlobJson(const GroupReport& group) {
  const data::PuffinBlob& blob = *group.blob;
  JsonDoc doc{{"type", Printable(blob.type)},
              {"fields", blob.fields},
              {"snapshot_id", fmt::format("{}", blob.snapshot_id)},
              {"sequence_number", blob.sequence_number},
              {"offset", group.offset},
              {"bytes", group.compressed_bytes},
              {"codec", Printable(blob.compression_codec)},
              {"properties", JsonDoc::object()}};
  for (const auto& [key, value] : blob.properties)
    doc["properties"][Printable(key)] = Printable(value);
  if (group.position_count) doc["positions"] = *group.position_count;
  return doc;
}

bool HasPages(const FileReport& report) {
  return std::any_of(report.groups.begin(), report.groups.end(), [](const GroupReport& group) {
    return std::any_of(group.chunks.begin(), group.chunks.end(),
                       [](const ChunkReport& chunk) { return !chunk.pages.empty(); });
  });
}

std::string HeadText(const FileReport& report) {
  std::string text = fmt::format("{}   {}   {}", Printable(report.file_name),
                                 data::FormatName(report.format), FormatBytes(report.size_bytes));
  const bool has_blocks = report.format == FileFormat::kAvro;
  const auto groups = has_blocks ? report.block_count : static_cast<int64_t>(report.groups.size());
  const std::string parts = Counted(groups, GroupWord(report.format));
  text += report.row_count ? fmt::format("   {} in {}", Counted(*report.row_count, "row"), parts)
                           : "   " + parts;
  if (!report.codec.empty()) text += fmt::format("   codec {}", report.codec);
  if (report.footer_bytes > 0)
    text += fmt::format("   footer {}", FormatBytes(report.footer_bytes));
  text += "\n";
  if (!report.written_by.empty())
    text += fmt::format("written by  {}\n", Printable(report.written_by));
  for (const auto& [key, value] : report.properties) {
    const bool is_long = value.size() > kPropertyBytesShown || !IsText(value);
    text += fmt::format("property    {} = {}\n", Printable(key),
                        is_long ? FormatBytes(static_cast<int64_t>(value.size())) : value);
  }
  return text;
}

// How many nulls, or whether there are any where they cannot be counted (below lists).
template <class Report>
std::string NullsText(const Report& report) {
  if (report.metrics && report.metrics->null_count) return FormatCount(*report.metrics->null_count);
  if (!report.has_null) return "";
  return *report.has_null ? "some" : "0";
}

std::string IndexWord(const ColumnReport& column, const FileReport& report) {
  std::string text = column.has_page_index ? "pages" : "";
  if (column.bloom_filter_chunks > 0) {
    const bool all = column.bloom_filter_chunks == static_cast<int64_t>(report.groups.size());
    text += fmt::format("{}{}", text.empty() ? "" : ", ", all ? "bloom" : "bloom in some");
  }
  return text;
}

std::string ColumnsText(const FileReport& report, const OutputStyle& style) {
  if (report.columns.empty()) return "";
  const bool is_parquet = report.format == FileFormat::kParquet;
  const bool is_orc = report.format == FileFormat::kOrc;
  const bool has_ids = std::any_of(report.columns.begin(), report.columns.end(),
                                   [](const ColumnReport& column) { return column.field_id >= 0; });
  Table table{{{.title = "COLUMN", .is_right_aligned = false, .may_be_cut = true}}, {}};
  if (has_ids) table.columns.push_back({.title = "ID", .is_right_aligned = true});
  table.columns.push_back({.title = "TYPE", .is_right_aligned = false, .may_be_cut = true});
  table.columns.push_back({.title = "NULL"});
  if (is_parquet || is_orc) {
    table.columns.push_back({.title = "SIZE", .is_right_aligned = true});
    if (is_parquet) {
      table.columns.push_back({.title = "RAW", .is_right_aligned = true});
      table.columns.push_back({.title = "CODEC"});
    }
    table.columns.push_back({.title = "ENCODINGS"});
    if (is_parquet) table.columns.push_back({.title = "INDEX"});
    table.columns.push_back({.title = "NULLS", .is_right_aligned = true});
    for (const char* title : {"MIN", "MAX"})
      table.columns.push_back({.title = title, .is_right_aligned = false, .may_be_cut = true});
  }
  for (const ColumnReport& column : report.columns) {
    auto& row = table.rows.emplace_back();
    row.push_back(column.path);
    if (has_ids) row.push_back(column.field_id < 0 ? "" : fmt::format("{}", column.field_id));
    row.push_back(column.type);
    row.push_back(column.is_required ? "no" : "yes");
    if (!is_parquet && !is_orc) continue;
    row.push_back(FormatBytes(column.compressed_bytes));
    if (is_parquet) {
      row.push_back(FormatBytes(column.uncompressed_bytes));
      row.push_back(fmt::format("{}", fmt::join(column.codecs, ",")));
    }
    row.push_back(fmt::format("{}", fmt::join(column.encodings, ",")));
    if (is_parquet) row.push_back(IndexWord(column, report));
    row.push_back(NullsText(column));
    row.push_back(column.metrics ? BoundText(column.metrics->lower, column.type) : "");
    row.push_back(column.metrics ? BoundText(column.metrics->upper, column.type) : "");
  }
  return "\n" + RenderTable(table, style);
}

std::string BlobsText(const FileReport& report, const OutputStyle& style) {
  Table table{{{.title = "BLOB", .is_right_aligned = true},
               {.title = "TYPE", .is_right_aligned = false, .may_be_cut = true},
               {.title = "FIELDS"},
               {.title = "SNAPSHOT", .is_right_aligned = true},
               {.title = "OFFSET", .is_right_aligned = true},
               {.title = "SIZE", .is_right_aligned = true},
               {.title = "CODEC"},
               {.title = "POSITIONS", .is_right_aligned = true},
               {.title = "PROPERTIES", .is_right_aligned = false, .may_be_cut = true}},
              {}};
  for (size_t i = 0; i < report.groups.size(); ++i) {
    const GroupReport& group = report.groups[i];
    const data::PuffinBlob& blob = *group.blob;
    std::string properties;
    for (const auto& [key, value] : blob.properties) {
      properties += fmt::format("{}{}={}", properties.empty() ? "" : " ", key, value);
    }
    table.rows.push_back({fmt::format("{}", i), blob.type,
                          fmt::format("{}", fmt::join(blob.fields, ",")),
                          fmt::format("{}", blob.snapshot_id), FormatCount(group.offset),
                          FormatBytes(group.compressed_bytes), blob.compression_codec,
                          CountOrNothing(group.position_count), properties});
  }
  return table.rows.empty() ? "" : "\n" + RenderTable(table, style);
}

std::string GroupsText(const FileReport& report, InspectView view, const OutputStyle& style) {
  if (report.format == FileFormat::kPuffin) return BlobsText(report, style);
  if (report.groups.empty()) return "";
  std::string title(GroupWord(report.format));
  std::transform(title.begin(), title.end(), title.begin(), [](char c) {
    return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  });
  Table table{{{.title = title, .is_right_aligned = true},
               {.title = "ROWS", .is_right_aligned = true},
               {.title = "OFFSET", .is_right_aligned = true},
               {.title = "SIZE", .is_right_aligned = true}},
              {}};
  const bool is_parquet = report.format == FileFormat::kParquet;
  const bool is_orc = report.format == FileFormat::kOrc;
  if (is_parquet) table.columns.push_back({.title = "RAW", .is_right_aligned = true});
  if (is_orc) {
    for (const char* part : {"INDEX", "DATA", "FOOTER"})
      table.columns.push_back({.title = part, .is_right_aligned = true});
    table.columns.push_back({.title = "TIME ZONE"});
  }
  const size_t shown = view == InspectView::kDetails ? report.groups.size()
                                                     : std::min(kGroupsShown, report.groups.size());
  for (size_t i = 0; i < shown; ++i) {
    const GroupReport& group = report.groups[i];
    auto& row = table.rows.emplace_back();
    row = {fmt::format("{}", i), FormatCount(group.row_count), FormatCount(group.offset),
           FormatBytes(group.compressed_bytes)};
    if (is_parquet) row.push_back(FormatBytes(group.uncompressed_bytes));
    if (!is_orc) continue;
    for (const int64_t part : {group.index_bytes, group.data_bytes, group.footer_bytes})
      row.push_back(FormatBytes(part));
    row.push_back(group.writer_timezone);
  }
  std::string text = "\n" + RenderTable(table, style);
  if (shown < report.groups.size())
    text += fmt::format("and {} more   (--details shows all)\n", report.groups.size() - shown);
  return text;
}

std::string ChunksText(const FileReport& report, const OutputStyle& style) {
  const bool is_orc = report.format == FileFormat::kOrc;
  Table table{{{.title = is_orc ? "STRIPE" : "ROW GROUP", .is_right_aligned = true},
               {.title = "COLUMN", .is_right_aligned = false, .may_be_cut = true}},
              {}};
  if (!is_orc) table.columns.push_back({.title = "OFFSET", .is_right_aligned = true});
  for (const char* title : {"SIZE", "VALUES"})
    table.columns.push_back({.title = title, .is_right_aligned = true});
  if (!is_orc) table.columns.push_back({.title = "CODEC"});
  table.columns.push_back({.title = "ENCODINGS"});
  table.columns.push_back({.title = "NULLS", .is_right_aligned = true});
  for (const char* title : {"MIN", "MAX"})
    table.columns.push_back({.title = title, .is_right_aligned = false, .may_be_cut = true});
  for (size_t g = 0; g < report.groups.size(); ++g) {
    for (size_t c = 0; c < report.groups[g].chunks.size(); ++c) {
      const ChunkReport& chunk = report.groups[g].chunks[c];
      const ColumnReport& column = report.columns[c];
      const ColumnMetrics metrics = chunk.metrics.value_or(ColumnMetrics());
      auto& row = table.rows.emplace_back();
      row = {fmt::format("{}", g), column.path};
      if (!is_orc) row.push_back(FormatCount(chunk.offset));
      row.push_back(FormatBytes(chunk.compressed_bytes));
      row.push_back(is_orc ? CountOrNothing(chunk.present_count) : FormatCount(chunk.value_count));
      if (!is_orc) row.push_back(chunk.codec);
      row.push_back(fmt::format("{}", fmt::join(chunk.encodings, ",")));
      row.push_back(NullsText(chunk));
      row.push_back(BoundText(metrics.lower, column.type));
      row.push_back(BoundText(metrics.upper, column.type));
    }
  }
  return table.rows.empty() ? "" : "\n" + RenderTable(table, style);
}

std::string PagesText(const FileReport& report, const OutputStyle& style) {
  Table table{{{.title = "ROW GROUP", .is_right_aligned = true},
               {.title = "COLUMN", .is_right_aligned = false, .may_be_cut = true},
               {.title = "PAGE", .is_right_aligned = true},
               {.title = "OFFSET", .is_right_aligned = true},
               {.title = "SIZE", .is_right_aligned = true},
               {.title = "FIRST ROW", .is_right_aligned = true},
               {.title = "ROWS", .is_right_aligned = true},
               {.title = "NULLS", .is_right_aligned = true},
               {.title = "MIN", .is_right_aligned = false, .may_be_cut = true},
               {.title = "MAX", .is_right_aligned = false, .may_be_cut = true}},
              {}};
  for (size_t g = 0; g < report.groups.size(); ++g) {
    for (size_t c = 0; c < report.groups[g].chunks.size(); ++c) {
      const auto& pages = report.groups[g].chunks[c].pages;
      const ColumnReport& column = report.columns[c];
      for (size_t p = 0; p < pages.size(); ++p) {
        const PageReport& page = pages[p];
        const auto bound = [&](const std::optional<Scalar>& value) {
          return value ? ScalarText(*value, column.type) : std::string();
        };
        table.rows.push_back({fmt::format("{}", g), column.path, fmt::format("{}", p),
                              FormatCount(page.offset), FormatBytes(page.stored_bytes),
                              FormatCount(page.first_row), FormatCount(page.row_count),
                              CountOrNothing(page.null_count), bound(page.lower),
                              bound(page.upper)});
      }
    }
  }
  return table.rows.empty() ? "" : "\n" + RenderTable(table, style);
}

}  // namespace

std::string InspectText(const FileReport& report, InspectView view, const OutputStyle& style) {
  std::string text = HeadText(report) + ColumnsText(report, style);
  text += GroupsText(report, view, style);
  if (view == InspectView::kDetails) text += ChunksText(report, style);
  if (HasPages(report)) text += PagesText(report, style);
  return text;
}

JsonDoc InspectDocument(const FileReport& report) {
  JsonDoc doc{{"file", Printable(report.file_name)},
              {"format", std::string(data::FormatName(report.format))},
              {"bytes", report.size_bytes},
              {"rows", nullptr},
              {"written_by", Printable(report.written_by)},
              {"codec", Printable(report.codec)},
              {"footer_bytes", report.footer_bytes},
              {"blocks", report.block_count}};
  if (report.row_count) doc["rows"] = *report.row_count;
  doc["properties"] = JsonDoc::array();
  for (const auto& [key, value] : report.properties)
    doc["properties"].push_back(JsonDoc{{"key", Printable(key)}, {"value", Printable(value)}});
  if (!report.schema_text.empty()) doc["schema_text"] = Printable(report.schema_text);
  const bool is_parquet = report.format == FileFormat::kParquet;
  doc["columns"] = JsonDoc::array();
  for (const ColumnReport& column : report.columns) {
    JsonDoc one{{"path", Printable(column.path)},
                {"field_id", nullptr},
                {"type", Printable(column.type)},
                {"is_required", column.is_required}};
    if (column.field_id >= 0) one["field_id"] = column.field_id;
    if (is_parquet) {
      one["physical_type"] = column.physical_type;
      one["bytes"] = column.compressed_bytes;
      one["raw_bytes"] = column.uncompressed_bytes;
      one["codecs"] = column.codecs;
      one["encodings"] = column.encodings;
      one["dictionary_chunks"] = column.dictionary_chunks;
      one["has_page_index"] = column.has_page_index;
      one["bloom_filter_chunks"] = column.bloom_filter_chunks;
      AddMetrics(column.metrics, column.type, one);
    }
    if (report.format == FileFormat::kOrc) {
      one["attributes"] = JsonDoc::object();
      for (const auto& [key, value] : column.attributes)
        one["attributes"][Printable(key)] = Printable(value);
      one.update(OrcValuesJson(column, column));
    }
    doc["columns"].push_back(std::move(one));
  }
  if (report.format == FileFormat::kPuffin) {
    doc["blobs"] = JsonDoc::array();
    for (const GroupReport& group : report.groups) doc["blobs"].push_back(BlobJson(group));
    return doc;
  }
  const bool has_pages = HasPages(report);
  JsonDoc groups = JsonDoc::array();
  for (const GroupReport& group : report.groups) {
    JsonDoc one{
        {"rows", group.row_count}, {"offset", group.offset}, {"bytes", group.compressed_bytes}};
    if (is_parquet) {
      one["raw_bytes"] = group.uncompressed_bytes;
      one["columns"] = JsonDoc::array();
      for (size_t c = 0; c < group.chunks.size(); ++c)
        one["columns"].push_back(ChunkJson(group.chunks[c], report.columns[c], has_pages));
    }
    if (report.format == FileFormat::kOrc) {
      one["index_bytes"] = group.index_bytes;
      one["data_bytes"] = group.data_bytes;
      one["footer_bytes"] = group.footer_bytes;
      one["time_zone"] = Printable(group.writer_timezone);
      one["columns"] = JsonDoc::array();
      for (size_t c = 0; c < group.chunks.size(); ++c) {
        JsonDoc chunk{{"path", Printable(report.columns[c].path)}};
        chunk.update(OrcValuesJson(group.chunks[c], report.columns[c]));
        one["columns"].push_back(std::move(chunk));
      }
    }
    groups.push_back(std::move(one));
  }
  if (report.format != FileFormat::kAvro)
    doc[report.format == FileFormat::kOrc ? "stripes" : "row_groups"] = std::move(groups);
  return doc;
}

}  // namespace partforge::app
