#include "data/avro_report.h"

#include <fmt/format.h>

#include "data/avro_file.h"

namespace partforge::data {
namespace {

// Lists the fields of a record, each before those inside of it. Schemas that contain themselves are
// refused when they are parsed, and what a schema is when it is written out is bounded there.
class Columns {
 public:
  explicit Columns(std::vector<ColumnReport>& columns) : columns_(columns) {}

  Status AddFields(const AvroType& record, const std::string& path) {
    for (const AvroField& field : record.fields) {
      PF_TRY(Add(*field.type, path.empty() ? field.name : path + "." + field.name, field.id));
    }
    return {};
  }

 private:
  Status Add(const AvroType& type, const std::string& path, int32_t id) {
    PF_TRY(CountPath(path, path_bytes_));
    ColumnReport column;
    column.path = path;
    column.field_id = id;
    column.type = AvroTypeName(type);
    column.is_required = type.NullBranch() < 0 && type.kind != AvroKind::kNull;
    columns_.push_back(std::move(column));
    return AddInner(type, path);
  }

  Status AddInner(const AvroType& type, const std::string& path) {
    if (const AvroType* const other = type.OptionalOf()) return AddInner(*other, path);
    switch (type.kind) {
      case AvroKind::kRecord:
        return AddFields(type, path);
      case AvroKind::kArray:
        return Add(*type.element, path + ".element", type.element_id);
      case AvroKind::kMap:
        return Add(*type.element, path + ".value", type.value_id);
      case AvroKind::kUnion:
        for (size_t i = 0; i < type.branches.size(); ++i) {
          if (type.branches[i]->kind == AvroKind::kNull) continue;
          PF_TRY(Add(*type.branches[i], fmt::format("{}.{}", path, i), -1));
        }
        return {};
      default:
        return {};
    }
  }

  std::vector<ColumnReport>& columns_;
  size_t path_bytes_ = 0;
};

}  // namespace

std::string AvroTypeName(const AvroType& type) {
  if (const AvroType* const other = type.OptionalOf()) return AvroTypeName(*other);
  if (!type.logical_type.empty()) {
    return type.logical_type == "decimal"
               ? fmt::format("decimal({},{})", type.precision, type.scale)
               : type.logical_type;
  }
  switch (type.kind) {
    case AvroKind::kNull:
      return "null";
    case AvroKind::kBoolean:
      return "boolean";
    case AvroKind::kInt:
      return "int";
    case AvroKind::kLong:
      return "long";
    case AvroKind::kFloat:
      return "float";
    case AvroKind::kDouble:
      return "double";
    case AvroKind::kBytes:
      return "bytes";
    case AvroKind::kString:
      return "string";
    case AvroKind::kRecord:
      return fmt::format("record({} fields)", type.fields.size());
    case AvroKind::kEnum:
      return fmt::format("enum({} symbols)", type.symbols.size());
    case AvroKind::kArray:
      return "array";
    case AvroKind::kMap:
      return "map";
    case AvroKind::kUnion:
      return fmt::format("union({} types)", type.branches.size());
    case AvroKind::kFixed:
      return fmt::format("fixed({})", type.fixed_size_bytes);
  }
  return "";
}

Status ReportAvro(const Context& ctx, ByteSource& source, Inspection inspection,
                  FileReport& report) {
  PF_ASSIGN(const auto file, AvroFileReader::Open(ctx, source, report.file_name));
  const AvroHeader& header = file->header();
  report.schema_text = header.schema.text();
  report.codec = AvroCodecName(header.codec);
  for (const auto& [key, value] : header.metadata) {
    if (key != "avro.schema") report.properties.emplace_back(key, value);
  }
  if (const AvroType* record = header.schema.RootRecord()) {
    Status status = Columns(report.columns).AddFields(*record, "");
    if (!status.ok()) return std::move(status).With(fmt::format("inspect {}", report.file_name));
  }
  int64_t rows = 0;
  while (true) {
    PF_ASSIGN(const auto block, file->NextBlock(ctx));
    if (!block) break;
    ++report.block_count;
    rows += block->record_count;
    if (inspection != Inspection::kDecode) continue;
    // Every datum is gone over, whatever its type.
    AvroCursor cursor = file->CursorOf(*block);
    for (int64_t i = 0; i < block->record_count && cursor.ok(); ++i) {
      PF_TRY(ctx.CheckStop("reading Avro"));
      cursor.Skip(header.schema.root());
    }
    PF_TRY(file->CheckBlockEnd(*block, cursor));
  }
  report.row_count = rows;
  return {};
}

Status ForAvroRecords(const Context& ctx, ByteSource& source, std::string file_name, int64_t count,
                      const AvroRecordVisitor& visit) {
  PF_ASSIGN(const auto file, AvroFileReader::Open(ctx, source, std::move(file_name)));
  const AvroType& root = file->header().schema.root();
  int64_t left = count;
  while (left > 0) {
    PF_ASSIGN(const auto block, file->NextBlock(ctx));
    if (!block) return {};
    AvroCursor cursor = file->KeepingCursorOf(*block);
    for (int64_t i = 0; i < block->record_count; ++i, --left) {
      if (left == 0) return {};
      PF_TRY(ctx.CheckStop("reading Avro"));
      file->BeginRecord();
      const AvroValue record = DecodeAvroValue(root, cursor);
      if (!cursor.ok()) return file->CheckBlockEnd(*block, cursor);
      PF_TRY(visit(root, record));
    }
    PF_TRY(file->CheckBlockEnd(*block, cursor));
  }
  return {};
}

}  // namespace partforge::data
