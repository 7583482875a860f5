#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "clickhouse/fingerprint.h"

namespace partforge::clickhouse {
namespace {

constexpr int64_t kVersion = 1;
constexpr int kShapePf = 2121, kRenamePf = 2122;

Status Refuse(int pf_number, std::string_view where, std::string message) {
  return Status(Code::kRefused, std::move(message))
      .Explain(pf_number, std::string(where),
               "rebuild the job with the destination's schema: partforge check --dest-schema …");
}

const FingerprintColumn* Find(const std::vector<FingerprintColumn>& columns,
                              std::string_view name) {
  const auto found = std::find_if(columns.begin(), columns.end(),
                                  [&](const FingerprintColumn& c) { return c.name == name; });
  return found == columns.end() ? nullptr : &*found;
}

std::string Shown(const std::vector<std::string>& elements) {
  return fmt::format("({})", fmt::join(elements, ", "));
}

std::string ShownDefault(const FingerprintColumn& column) {
  return column.default_kind.empty()
             ? "none"
             : fmt::format("{} {}", column.default_kind, column.default_expression);
}

// A column of the part that the table lacks: renamed when a column of its type, unknown to the
// part, stands at its place.
Status MissingColumn(const SchemaShape& artifact, const SchemaShape& target, size_t index,
                     std::string_view where) {
  const FingerprintColumn& missing = artifact.columns[index];
  const auto is_new = [&](const FingerprintColumn& column) {
    return column.type == missing.type && Find(artifact.columns, column.name) == nullptr;
  };
  const FingerprintColumn* heir = nullptr;
  if (index < target.columns.size() && is_new(target.columns[index])) {
    heir = &target.columns[index];
  } else if (artifact.columns.size() == target.columns.size()) {
    const auto found = std::find_if(target.columns.begin(), target.columns.end(), is_new);
    if (found != target.columns.end()) heir = &*found;
  }
  if (heir != nullptr) {
    return Refuse(kRenamePf, where,
                  fmt::format("column {} of the part is named {} in the table: its values would "
                              "read as defaults",
                              missing.name, heir->name));
  }
  return Refuse(kShapePf, where,
                fmt::format("the table has no column {} {}", missing.name, missing.type));
}

Status CompareColumns(const SchemaShape& artifact, const SchemaShape& target,
                      std::string_view where) {
  for (size_t i = 0; i < artifact.columns.size(); ++i) {
    const FingerprintColumn& ours = artifact.columns[i];
    const FingerprintColumn* theirs = Find(target.columns, ours.name);
    if (theirs == nullptr) return MissingColumn(artifact, target, i, where);
    if (theirs->type != ours.type) {
      return Refuse(
          kShapePf, where,
          fmt::format("column {}: part has {}, table has {}", ours.name, ours.type, theirs->type));
    }
    if (*theirs != ours) {
      return Refuse(kShapePf, where,
                    fmt::format("default of column {}: part has {}, table has {}", ours.name,
                                ShownDefault(ours), ShownDefault(*theirs)));
    }
  }
  for (const FingerprintColumn& theirs : target.columns) {
    if (Find(artifact.columns, theirs.name) != nullptr) continue;
    return Refuse(kShapePf, where,
                  fmt::format("the part has no column {} {}", theirs.name, theirs.type));
  }
  if (artifact.columns != target.columns) {
    return Refuse(kShapePf, where, "the columns stand in another order in the table");
  }
  return {};
}

}  // namespace

std::string FormatShape(const SchemaShape& shape) {
  JsonDoc columns = JsonDoc::array();
  for (const FingerprintColumn& column : shape.columns) {
    columns.push_back(JsonDoc{{"name", column.name},
                              {"type", column.type},
                              {"default_kind", column.default_kind},
                              {"default_expression", column.default_expression}});
  }
  JsonDoc doc{{"version", kVersion},
              {"columns", std::move(columns)},
              {"engine", shape.engine},
              {"engine_args", shape.engine_args},
              {"partition_by", shape.partition_by},
              {"order_by", shape.order_by},
              {"primary_key", shape.primary_key},
              {"sample_by", shape.sample_by}};
  // Only what differs from the engine's defaults, so that most tables keep the fingerprint they had
  // before these were compared.
  if (shape.allows_nullable_key) doc["allows_nullable_key"] = true;
  if (!shape.has_adaptive_granularity) doc["has_adaptive_granularity"] = false;
  return DumpJson(doc);
}

Result<SchemaShape> ParseShape(std::string_view canonical_json) {
  PF_ASSIGN(const JsonDoc doc, ParseJson(canonical_json));
  JsonReader reader(doc, "schema shape");
  PF_ASSIGN(const int64_t version, reader.Int("version"));
  if (version != kVersion) {
    return Status(Code::kRefused, fmt::format("unsupported schema shape version: {}", version));
  }
  SchemaShape shape;
  PF_ASSIGN(const JsonDoc* columns, reader.Array("columns"));
  for (const JsonDoc& item : *columns) {
    JsonReader column_reader(item, "schema shape: columns");
    FingerprintColumn column;
    PF_ASSIGN(column.name, column_reader.String("name"));
    PF_ASSIGN(column.type, column_reader.String("type"));
    PF_ASSIGN(column.default_kind, column_reader.String("default_kind"));
    PF_ASSIGN(column.default_expression, column_reader.String("default_expression"));
    PF_TRY(column_reader.Finish());
    shape.columns.push_back(std::move(column));
  }
  PF_ASSIGN(shape.engine, reader.String("engine"));
  PF_ASSIGN(shape.engine_args, reader.Strings("engine_args"));
  PF_ASSIGN(shape.partition_by, reader.Strings("partition_by"));
  PF_ASSIGN(shape.order_by, reader.Strings("order_by"));
  PF_ASSIGN(shape.primary_key, reader.Strings("primary_key"));
  PF_ASSIGN(shape.sample_by, reader.String("sample_by"));
  PF_ASSIGN(shape.allows_nullable_key, reader.BoolOr("allows_nullable_key", false));
  PF_ASSIGN(shape.has_adaptive_granularity, reader.BoolOr("has_adaptive_granularity", true));
  PF_TRY(reader.Finish());
  return shape;
}

Status CompareShapes(const SchemaShape& artifact, const SchemaShape& target,
                     std::string_view where) {
  const auto compare = [&](std::string_view what, const std::vector<std::string>& ours,
                           const std::vector<std::string>& theirs) {
    if (ours == theirs) return Status();
    return Refuse(kShapePf, where,
                  fmt::format("{}: part has {}, table has {}", what, Shown(ours), Shown(theirs)));
  };
  PF_TRY(compare("sorting key", artifact.order_by, target.order_by));
  PF_TRY(compare("partition key", artifact.partition_by, target.partition_by));
  PF_TRY(compare("primary key", artifact.primary_key, target.primary_key));
  PF_TRY(CompareColumns(artifact, target, where));
  PF_TRY(compare("engine", {artifact.engine}, {target.engine}));
  PF_TRY(compare("arguments of the engine", artifact.engine_args, target.engine_args));
  PF_TRY(compare("sampling key", {artifact.sample_by}, {target.sample_by}));
  const auto granularity = [](const SchemaShape& shape) {
    return std::vector<std::string>{shape.has_adaptive_granularity ? "by rows and bytes"
                                                                   : "by rows"};
  };
  PF_TRY(compare("index granularity", granularity(artifact), granularity(target)));
  const auto nullable_key = [](const SchemaShape& shape) {
    return std::vector<std::string>{shape.allows_nullable_key ? "1" : "0"};
  };
  return compare("allow_nullable_key", nullable_key(artifact), nullable_key(target));
}

}  // namespace partforge::clickhouse
