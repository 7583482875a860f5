#include "data/orc_report.h"

#include <arrow/type.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "data/orc_file.h"
#include "data/orc_tail.h"
#include "data/schema_mapping.h"

namespace partforge::data {
namespace {

std::string TypeName(const OrcType& type) {
  switch (type.kind) {
    case OrcKind::kBoolean:
      return "boolean";
    case OrcKind::kByte:
      return "tinyint";
    case OrcKind::kShort:
      return "smallint";
    case OrcKind::kInt:
      return "int";
    case OrcKind::kLong:
      return "bigint";
    case OrcKind::kFloat:
      return "float";
    case OrcKind::kDouble:
      return "double";
    case OrcKind::kString:
      return "string";
    case OrcKind::kBinary:
      return "binary";
    case OrcKind::kTimestamp:
      return "timestamp";
    case OrcKind::kList:
      return "array";
    case OrcKind::kMap:
      return "map";
    case OrcKind::kStruct:
      return fmt::format("struct({} fields)", type.children.size());
    case OrcKind::kUnion:
      return fmt::format("uniontype({} types)", type.children.size());
    case OrcKind::kDecimal:
      return fmt::format("decimal({},{})", type.precision, type.scale);
    case OrcKind::kDate:
      return "date";
    case OrcKind::kVarchar:
      return fmt::format("varchar({})", type.length_max);
    case OrcKind::kChar:
      return fmt::format("char({})", type.length_max);
    case OrcKind::kTimestampInstant:
      return "timestamp with local time zone";
    case OrcKind::kGeometry:
      return "geometry";
    case OrcKind::kGeography:
      return "geography";
  }
  return "";
}

std::string WriterName(const OrcWriter& writer) {
  constexpr std::array<std::string_view, 6> kNames = {"ORC Java",      "ORC C++", "Presto",
                                                      "Scritchley Go", "Trino",   "CUDF"};
  std::string name = writer.id < kNames.size() ? std::string(kNames[writer.id])
                                               : fmt::format("writer {}", writer.id);
  if (!writer.software.empty()) name += " " + writer.software;
  return name;
}

std::string ChildName(const OrcType& parent, size_t child) {
  switch (parent.kind) {
    case OrcKind::kStruct:
      return parent.names[child];
    case OrcKind::kList:
      return "element";
    case OrcKind::kMap:
      return child == 0 ? "key" : "value";
    default:
      return fmt::format("{}", child);
  }
}

// Table formats keep ids and nullability in attributes of their own names (iceberg.id,
// iceberg.required, paimon.id).
void ReadAttributes(const OrcType& type, ColumnReport& column) {
  column.attributes = type.attributes;
  for (const auto& [key, value] : type.attributes) {
    if (key.ends_with(".required")) column.is_required = value == "true";
    if (!key.ends_with(".id")) continue;
    int32_t id = -1;
    const char* const end = value.data() + value.size();
    if (std::from_chars(value.data(), end, id).ptr == end) column.field_id = id;
  }
}

// The tree without its root, by number of the type less one.
Result<std::vector<ColumnReport>> ColumnsOf(const OrcTail& tail) {
  std::vector<ColumnReport> columns(tail.types.size() - 1);
  size_t path_bytes = 0;
  for (size_t i = 0; i < tail.types.size(); ++i) {
    const OrcType& type = tail.types[i];
    if (i > 0) {
      columns[i - 1].type = TypeName(type);
      ReadAttributes(type, columns[i - 1]);
    }
    for (size_t c = 0; c < type.children.size(); ++c) {
      std::string path = i > 0 ? columns[i - 1].path + "." : "";
      path += ChildName(type, c);
      PF_TRY(CountPath(path, path_bytes));
      columns[type.children[c] - 1].path = std::move(path);
    }
  }
  return columns;
}

// Copies statistics into columns or chunks. A column whose ancestors are structs has a value or a
// null for each row that they have.
template <class Report>
void AddStatistics(const OrcTail& tail, const std::vector<OrcColumnStatistics>& statistics,
                   int64_t row_count, const std::vector<ColumnReport>& columns,
                   std::vector<Report>& reports) {
  if (statistics.empty()) return;
  // Values that are no null and could have a child each; none where that is not known.
  std::vector<std::optional<int64_t>> slots(tail.types.size());
  slots[0] = row_count;
  for (size_t i = 0; i < tail.types.size(); ++i) {
    const OrcColumnStatistics& own = statistics[i];
    const std::optional<int64_t> values = i == 0 ? slots[0] : own.value_count;
    if (i > 0) {
      const ColumnReport& column = columns[i - 1];
      ColumnMetrics metrics{.field_id = column.field_id,
                            .path = column.path,
                            .is_repeated = !slots[i],
                            .compressed_bytes = std::nullopt,
                            .value_count = slots[i],
                            .null_count = std::nullopt,
                            .nan_count = std::nullopt,
                            .lower = own.lower,
                            .upper = own.upper};
      if (slots[i] && values && *values <= *slots[i]) metrics.null_count = *slots[i] - *values;
      reports[i - 1].metrics = std::move(metrics);
      reports[i - 1].present_count = own.value_count;
      reports[i - 1].has_null = own.has_null;
    }
    if (tail.types[i].kind != OrcKind::kStruct) continue;
    for (const uint32_t child : tail.types[i].children) slots[child] = values;
  }
}

Status AddStripe(const Context& ctx, ByteSource& source, const OrcTail& tail, size_t index,
                 FileReport& report) {
  const OrcStripePlace& place = tail.stripes[index];
  PF_ASSIGN(const OrcStripeFooter footer,
            ReadOrcStripeFooter(ctx, source, tail, index, report.file_name));
  GroupReport group;
  group.row_count = place.row_count;
  group.offset = place.offset;
  group.compressed_bytes = place.length_bytes();
  group.index_bytes = place.index_bytes;
  group.data_bytes = place.data_bytes;
  group.footer_bytes = place.footer_bytes;
  group.writer_timezone = footer.writer_timezone;
  group.chunks.resize(report.columns.size());
  for (const OrcStream& stream : footer.streams) {
    if (stream.column == 0) continue;
    group.chunks[stream.column - 1].compressed_bytes += stream.bytes.length;
    report.columns[stream.column - 1].compressed_bytes += stream.bytes.length;
  }
  for (size_t i = 1; i < std::min(footer.encodings.size(), tail.types.size()); ++i) {
    const std::string name = OrcEncodingName(footer.encodings[i]);
    group.chunks[i - 1].encodings = {name};
    auto& all = report.columns[i - 1].encodings;
    if (std::find(all.begin(), all.end(), name) == all.end()) all.push_back(name);
  }
  AddStatistics(tail, tail.StripeStatistics(index), place.row_count, report.columns, group.chunks);
  report.groups.push_back(std::move(group));
  return {};
}

// What the library tells.
Status ReportByDecoder(const Context& ctx, ByteSource& source, FileReport& report,
                       ArrowMemory& memory) {
  PF_ASSIGN(const auto file, OrcFile::Open(ctx, source, report.file_name, {}, memory));
  for (const auto& field : file->schema()->fields()) {
    ColumnReport column;
    column.path = field->name();
    column.type = field->type()->ToString();
    report.columns.push_back(std::move(column));
  }
  report.row_count = file->row_count();
  report.written_by = file->written_by();
  report.codec = file->codec();
  for (const OrcStripe& stripe : file->stripes()) {
    GroupReport group;
    group.row_count = stripe.row_count;
    group.offset = stripe.offset;
    group.compressed_bytes = stripe.length_bytes;
    report.groups.push_back(std::move(group));
  }
  return {};
}

}  // namespace

Status ReportOrc(const Context& ctx, ByteSource& source, FileReport& report, ArrowMemory& memory) {
  const auto read = ReadOrcTail(ctx, source, report.file_name);
  if (!read.ok() && read.status().code() == Code::kRefused) {
    return ReportByDecoder(ctx, source, report, memory);
  }
  if (!read.ok()) return read.status();
  const OrcTail& tail = **read;
  report.row_count = tail.row_count;
  report.written_by = WriterName(tail.writer);
  report.codec = OrcCompressionName(tail.compression);
  report.properties = tail.properties;
  report.footer_bytes = tail.size_bytes;
  PF_ASSIGN(report.columns, ColumnsOf(tail));
  for (size_t i = 0; i < tail.stripes.size(); ++i) {
    PF_TRY(AddStripe(ctx, source, tail, i, report));
  }
  const std::vector<ColumnReport> named = report.columns;
  AddStatistics(tail, tail.FileStatistics(), tail.row_count, named, report.columns);
  return {};
}

}  // namespace partforge::data
