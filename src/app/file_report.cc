#include "app/file_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>

#include "base/units.h"

namespace partforge::app {
namespace {

using data::ChunkReport;
using data::ColumnMetrics;
using data::ColumnReport;
using data::ConcatColumn;
using data::ConcatReport;
using data::FileFormat;
using data::FileReport;
using data::GroupReport;
using data::PageReport;
using data::RewriteStep;
using data::Scalar;
using data::ScalarType;
using data::StepKind;

constexpr size_t kGroupsShown = 12;
constexpr size_t kPropertyBytesShown = 60;
constexpr int64_t kExactInJsonMax = int64_t{1} << 53;

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

// Digits of 10^-scale behind a point.
std::string PlaceValue(std::string digits, size_t scale) {
  const bool is_negative = digits.starts_with('-');
  if (is_negative) digits.erase(0, 1);
  if (digits.size() <= scale) digits.insert(0, scale + 1 - digits.size(), '0');
  if (scale > 0) digits.insert(digits.size() - scale, 1, '.');
  return is_negative ? "-" + digits : digits;
}

std::string DecimalDigits(data::Int128 value) {
  const bool is_negative = value.high < 0;
  uint64_t high = static_cast<uint64_t>(value.high), low = value.low;
  if (is_negative) {
    low = ~low + 1;
    high = ~high + (low == 0 ? 1 : 0);
  }
  std::string digits;
  while (high != 0 || low != 0) {
    uint64_t rest = 0;
    uint64_t words[] = {high >> 32, high & 0xFFFFFFFF, low >> 32, low & 0xFFFFFFFF};
    for (uint64_t& word : words) {
      const uint64_t dividend = (rest << 32) | word;
      word = dividend / 10;
      rest = dividend % 10;
    }
    digits.push_back(static_cast<char>('0' + rest));
    high = (words[0] << 32) | words[1];
    low = (words[2] << 32) | words[3];
  }
  if (digits.empty()) digits = "0";
  if (is_negative) digits.push_back('-');
  std::reverse(digits.begin(), digits.end());
  return digits;
}

size_t DecimalScale(std::string_view type) {
  const size_t comma = type.find(',');
  size_t scale = 0;
  if (!type.starts_with("decimal(") || comma == std::string_view::npos) return 0;
  std::from_chars(type.data() + comma + 1, type.data() + type.size(), scale);
  return std::min<size_t>(scale, 76);
}

bool IsText(std::string_view bytes) {
  return Printable(bytes) == bytes;
}

// Whole units of 10^-digits seconds since 1970 as "2026-10-11T12:13:14.123456[Z]". Years that the
// calendar of ISO 8601 has no four digits for stay numbers.
std::string TimestampText(int64_t value, int64_t units_a_second, int digits, bool is_utc) {
  int64_t seconds = value / units_a_second, fraction = value % units_a_second;
  if (fraction < 0) {
    fraction += units_a_second;
    --seconds;
  }
  constexpr int64_t kYear0 = -62'167'219'200, kYear10000 = 253'402'300'800;
  if (seconds < kYear0 || seconds >= kYear10000) return fmt::format("{}", value);
  const std::string text = FormatTime(seconds * 1000);
  return fmt::format("{}.{:0{}}{}", text.substr(0, 19), fraction, digits, is_utc ? "Z" : "");
}

std::string BoundText(const std::optional<data::Bound>& bound, std::string_view type) {
  return bound ? ScalarText(bound->value, type) : "";
}

std::string CountOrNothing(const std::optional<int64_t>& count) {
  return count ? FormatCount(*count) : "";
}

// Foreign text: JSON must be UTF-8.
std::string Clean(std::string_view text) {
  return Printable(text);
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
  JsonDoc doc{{"path", Clean(column.path)},
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
  JsonDoc doc{{"type", Clean(blob.type)},
              {"fields", blob.fields},
              {"snapshot_id", fmt::format("{}", blob.snapshot_id)},
              {"sequence_number", blob.sequence_number},
              {"offset", group.offset},
              {"bytes", group.compressed_bytes},
              {"codec", Clean(blob.compression_codec)},
              {"properties", JsonDoc::object()}};
  for (const auto& [key, value] : blob.properties) doc["properties"][Clean(key)] = Clean(value);
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
  std::string text = fmt::format("{}   {}   {}", Clean(report.file_name),
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
  if (!report.written_by.empty()) text += fmt::format("written by  {}\n", Clean(report.written_by));
  for (const auto& [key, value] : report.properties) {
    const bool is_long = value.size() > kPropertyBytesShown || !IsText(value);
    text += fmt::format("property    {} = {}\n", Clean(key),
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

// Steps of one kind and reason, counted together.
struct StepSum {
  int64_t steps = 0, groups = 0, rows = 0, bytes = 0;
};

std::string WayOf(StepKind kind) {
  switch (kind) {
    case StepKind::kCopy:
      return "copied byte by byte";
    case StepKind::kStitch:
      return "joined page by page";
    case StepKind::kFilterPages:
      return "rows left out page by page";
    case StepKind::kDecode:
      return "decoded and encoded";
  }
  return "";
}

JsonDoc StepJson(const RewriteStep& step, const ConcatReport& report) {
  JsonDoc groups = JsonDoc::array();
  for (const data::GroupRef& group : step.groups) {
    groups.push_back(
        JsonDoc{{"input", Clean(report.inputs[group.input])}, {"row_group", group.row_group}});
  }
  return JsonDoc{{"way", std::string(data::StepName(step.kind))},
                 {"row_groups", groups},
                 {"rows", step.live_rows},
                 {"bytes", step.bytes},
                 {"reason", Clean(step.reason)}};
}

std::string StepsText(const ConcatReport& report, const OutputStyle& style) {
  std::map<std::pair<StepKind, std::string>, StepSum> sums;
  for (const RewriteStep& step : report.steps) {
    StepSum& sum = sums[{step.kind, step.reason}];
    ++sum.steps;
    sum.groups += static_cast<int64_t>(step.groups.size());
    sum.rows += step.live_rows;
    sum.bytes += step.bytes;
  }
  Table table{{{.title = "HOW"},
               {.title = "ROW GROUPS", .is_right_aligned = true},
               {.title = "INTO", .is_right_aligned = true},
               {.title = "ROWS", .is_right_aligned = true},
               {.title = "SIZE", .is_right_aligned = true},
               {.title = "WHY", .is_right_aligned = false, .may_be_cut = true}},
              {}};
  for (const auto& [key, sum] : sums) {
    const bool is_decoded = key.first == StepKind::kDecode;
    table.rows.push_back({WayOf(key.first), FormatCount(sum.groups),
                          is_decoded ? "" : FormatCount(sum.steps), FormatCount(sum.rows),
                          FormatBytes(sum.bytes),
                          key.first == StepKind::kCopy ? "nothing changes" : key.second});
  }
  return table.rows.empty() ? "" : RenderTable(table, style);
}

// Which verification ran and how far it looked.
std::string VerifiedText(const ConcatReport& report) {
  if (report.verify == data::VerifyMode::kNone) return "  not verified\n";
  const data::VerifyCounts& counts = report.verified;
  const bool is_full = report.verify == data::VerifyMode::kFull;
  std::string text =
      fmt::format("  verified {}: {} pages decoded, {} {} compared with the inputs   ✓",
                  data::VerifyModeName(report.verify), FormatCount(counts.pages),
                  FormatCount(counts.rows_compared), is_full ? "rows" : "rows of single columns");
  if (counts.pages_unread > 0) {
    text += fmt::format(" · {} pages that cannot be read alone left out",
                        FormatCount(counts.pages_unread));
  }
  return text + "\n";
}

std::string ConcatColumnsText(const ConcatReport& report, const OutputStyle& style) {
  Table table{{{.title = "COLUMN", .is_right_aligned = false, .may_be_cut = true},
               {.title = "CHUNKS COPIED", .is_right_aligned = true},
               {.title = "PAGES COPIED", .is_right_aligned = true},
               {.title = "PAGES CHANGED", .is_right_aligned = true},
               {.title = "ROWS DECODED", .is_right_aligned = true}},
              {}};
  const bool has_reason =
      std::any_of(report.columns.begin(), report.columns.end(),
                  [](const ConcatColumn& column) { return !column.decode_reason.empty(); });
  if (has_reason) {
    table.columns.push_back(
        {.title = "WHY DECODED", .is_right_aligned = false, .may_be_cut = true});
  }
  for (const ConcatColumn& column : report.columns) {
    auto& row = table.rows.emplace_back();
    row = {column.path, FormatCount(column.chunks_copied), FormatCount(column.pages.pages_copied),
           FormatCount(column.pages.pages_changed), FormatCount(column.rows_decoded)};
    if (has_reason) row.push_back(column.decode_reason);
  }
  return table.rows.empty() ? "" : "\n" + RenderTable(table, style);
}

}  // namespace

std::string ScalarText(const Scalar& value, std::string_view type) {
  switch (value.type()) {
    case ScalarType::kBoolean:
      return value.AsBoolean() ? "true" : "false";
    case ScalarType::kFloat:
      return fmt::format("{}", static_cast<float>(value.AsDouble()));
    case ScalarType::kDouble:
      return fmt::format("{}", value.AsDouble());
    case ScalarType::kDecimal:
      return PlaceValue(DecimalDigits(value.AsDecimal()), DecimalScale(type));
    case ScalarType::kString:
      return Clean(value.AsBytes());
    case ScalarType::kBytes: {
      std::string hex = "0x";
      for (const char c : value.AsBytes())
        hex += fmt::format("{:02x}", static_cast<unsigned char>(c));
      return hex;
    }
    default:
      break;
  }
  const int64_t number = value.AsInt();
  const bool is_instant = type == "timestamp with local time zone";  // ORC's names
  const bool is_utc = type.ends_with(", utc)") || is_instant;
  if (type == "date") {
    constexpr int64_t kYear0Days = -719'528, kYear10000Days = 2'932'897;
    if (number < kYear0Days || number >= kYear10000Days) return fmt::format("{}", number);
    return FormatTime(number * 86'400'000).substr(0, 10);
  }
  if (type.starts_with("timestamp(ms")) return TimestampText(number, 1000, 3, is_utc);
  if (type.starts_with("timestamp(us") || type == "timestamp" || is_instant)
    return TimestampText(number, 1'000'000, 6, is_utc);
  if (type.starts_with("timestamp(ns")) return TimestampText(number, 1'000'000'000, 9, is_utc);
  if (type.starts_with("decimal(")) {
    return PlaceValue(fmt::format("{}", number), DecimalScale(type));
  }
  return fmt::format("{}", number);
}

JsonDoc ScalarJson(const Scalar& value, std::string_view type) {
  const std::string text = ScalarText(value, type);
  switch (value.type()) {
    case ScalarType::kBoolean:
      return value.AsBoolean();
    case ScalarType::kInt8:
    case ScalarType::kInt16:
    case ScalarType::kInt32:
    case ScalarType::kInt64:
      // Numbers that others read as doubles stay exact as text.
      if (text != fmt::format("{}", value.AsInt())) return text;
      if (value.AsInt() > kExactInJsonMax || value.AsInt() < -kExactInJsonMax) return text;
      return value.AsInt();
    case ScalarType::kFloat:
    case ScalarType::kDouble:
      if (text == "inf" || text == "-inf" || text == "nan") return text;
      return value.AsDouble();
    default:
      return text;
  }
}

std::string InspectText(const FileReport& report, InspectView view, const OutputStyle& style) {
  std::string text = HeadText(report) + ColumnsText(report, style);
  text += GroupsText(report, view, style);
  if (view == InspectView::kDetails) text += ChunksText(report, style);
  if (HasPages(report)) text += PagesText(report, style);
  return text;
}

JsonDoc InspectDocument(const FileReport& report) {
  JsonDoc doc{{"file", Clean(report.file_name)},
              {"format", std::string(data::FormatName(report.format))},
              {"bytes", report.size_bytes},
              {"rows", nullptr},
              {"written_by", Clean(report.written_by)},
              {"codec", Clean(report.codec)},
              {"footer_bytes", report.footer_bytes},
              {"blocks", report.block_count}};
  if (report.row_count) doc["rows"] = *report.row_count;
  doc["properties"] = JsonDoc::array();
  for (const auto& [key, value] : report.properties)
    doc["properties"].push_back(JsonDoc{{"key", Clean(key)}, {"value", Clean(value)}});
  if (!report.schema_text.empty()) doc["schema_text"] = Clean(report.schema_text);
  const bool is_parquet = report.format == FileFormat::kParquet;
  doc["columns"] = JsonDoc::array();
  for (const ColumnReport& column : report.columns) {
    JsonDoc one{{"path", Clean(column.path)},
                {"field_id", nullptr},
                {"type", Clean(column.type)},
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
        one["attributes"][Clean(key)] = Clean(value);
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
      one["time_zone"] = Clean(group.writer_timezone);
      one["columns"] = JsonDoc::array();
      for (size_t c = 0; c < group.chunks.size(); ++c) {
        JsonDoc chunk{{"path", Clean(report.columns[c].path)}};
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

std::string ConcatText(const ConcatReport& report, std::string_view output, ConcatRun run,
                       const OutputStyle& style) {
  const bool is_dry_run = run == ConcatRun::kDry;
  std::string text =
      fmt::format("{}  {}\n", is_dry_run ? "would join into" : "joined into", Clean(output));
  const std::string in =
      fmt::format("{} → 1", FormatCount(static_cast<int64_t>(report.inputs.size())));
  text += fmt::format("  files    {}        bytes {}", in, FormatBytes(report.bytes_in));
  if (!is_dry_run) text += fmt::format(" → {}", FormatBytes(report.output.size_bytes));
  text += fmt::format("\n  rows     {} in", FormatCount(report.rows_in));
  if (!is_dry_run) {
    text += fmt::format(" · {} out   {} conserved", FormatCount(report.output.row_count),
                        report.output.row_count == report.rows_in ? "✓" : "✗");
  }
  text += "\n";
  if (!is_dry_run) text += VerifiedText(report);
  if (!report.dropped_keys.empty()) {
    std::vector<std::string> keys;
    for (const std::string& key : report.dropped_keys) keys.push_back(Clean(key));
    text += fmt::format("  left out properties that differ between the inputs: {}\n",
                        fmt::join(keys, ", "));
  }
  text += "\n" + StepsText(report, style);
  if (!is_dry_run) text += ConcatColumnsText(report, style);
  return text;
}

JsonDoc ConcatDocument(const ConcatReport& report, std::string_view output, ConcatRun run) {
  const bool is_dry_run = run == ConcatRun::kDry;
  JsonDoc doc{{"output", Clean(output)},
              {"dry_run", is_dry_run},
              {"files", static_cast<int64_t>(report.inputs.size())},
              {"bytes_in", report.bytes_in},
              {"rows_in", report.rows_in}};
  doc["dropped_properties"] = JsonDoc::array();
  for (const std::string& key : report.dropped_keys)
    doc["dropped_properties"].push_back(Clean(key));
  doc["steps"] = JsonDoc::array();
  for (const RewriteStep& step : report.steps) doc["steps"].push_back(StepJson(step, report));
  if (is_dry_run) return doc;
  const data::StitchCounts& pages = report.counts.pages;
  doc["bytes_out"] = report.output.size_bytes;
  doc["rows_out"] = report.output.row_count;
  doc["row_groups_out"] = static_cast<int64_t>(report.output.split_offsets.size());
  doc["row_groups_copied"] = report.counts.row_groups_copied;
  doc["pages"] = JsonDoc{{"copied", pages.pages_copied},
                         {"recompressed", pages.pages_recompressed},
                         {"remapped", pages.pages_remapped},
                         {"materialised", pages.pages_materialised}};
  doc["rows_decoded"] = report.counts.rows_decoded;
  doc["verified"] = JsonDoc{{"mode", std::string(data::VerifyModeName(report.verify))},
                            {"pages", report.verified.pages},
                            {"pages_compared", report.verified.pages_compared},
                            {"rows_compared", report.verified.rows_compared},
                            {"pages_unread", report.verified.pages_unread}};
  doc["columns"] = JsonDoc::array();
  for (const ConcatColumn& column : report.columns) {
    doc["columns"].push_back(JsonDoc{{"path", Clean(column.path)},
                                     {"chunks_copied", column.chunks_copied},
                                     {"pages_copied", column.pages.pages_copied},
                                     {"pages_changed", column.pages.pages_changed},
                                     {"rows_decoded", column.rows_decoded},
                                     {"decode_reason", Clean(column.decode_reason)}});
  }
  return doc;
}

}  // namespace partforge::app
