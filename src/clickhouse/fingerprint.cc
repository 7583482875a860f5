#include "clickhouse/fingerprint.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>

#include "base/hash.h"
#include "base/json.h"
#include "clickhouse/sql_cursor.h"

namespace partforge::clickhouse {
namespace {

constexpr int kDestinationPf = 2104;

enum class Nested : uint8_t { kFlatten, kKeep };

Result<std::string> QueryLine(const Context& ctx, Engine& engine, const std::string& sql) {
  PF_ASSIGN(const QueryOutcome outcome, engine.Query(ctx, sql + " FORMAT TSVRaw", {}));
  std::string text = outcome.text;
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

// The statement as the engine spells it.
Result<CreateTable> Formatted(const Context& ctx, Engine& engine, const CreateTable& table) {
  PF_ASSIGN(const std::string sql,
            QueryLine(ctx, engine,
                      fmt::format("SELECT formatQuerySingleLine({})", QuoteString(table.ToSql()))));
  return ParseCreateTable(sql);
}

// Only what the fingerprint is made of.
CreateTable Essence(CreateTable table) {
  std::erase_if(table.columns, [](const ColumnDefinition& column) {
    return column.default_kind == "ALIAS" || column.default_kind == "EPHEMERAL";
  });
  for (ColumnDefinition& column : table.columns) {
    column.comment.clear();
    column.codec.clear();
    column.statistics.clear();
    column.ttl.clear();
    column.collation.clear();
    column.settings.clear();
    if (column.default_kind == "AUTO_INCREMENT") column.default_kind.clear();
  }
  std::erase_if(table.elements,
                [](const NamedElement& element) { return element.kind != "PRIMARY KEY"; });
  table.ttl.clear();
  table.settings.clear();
  table.comment.clear();
  return table;
}

// The type without white space where it means nothing, so that printing in one line or many is one.
std::string SqueezedType(const std::string& type) {
  const Result<std::vector<SqlToken>> tokens = TokenizeSql(type);
  if (!tokens.ok()) return type;
  std::string squeezed;
  bool was_word = false;
  for (const SqlToken& token : *tokens) {
    const bool is_word = token.kind != SqlTokenKind::kSymbol;
    if (is_word && was_word) squeezed += ' ';
    squeezed += token.text;
    if (token.IsSymbol(",")) squeezed += ' ';
    was_word = is_word;
  }
  return squeezed;
}

// The question for one column's type: resolves aliases (INT, VARCHAR(20), Enum('a')), and infers
// the type of a column that has only a DEFAULT.
std::string TypeQuestion(const ColumnDefinition& column) {
  if (column.type.empty()) return fmt::format("toTypeName({})", column.default_expression);
  std::string type = column.type;
  if (column.null_modifier == "NULL" && !type.starts_with("Nullable(")) {
    type = fmt::format("Nullable({})", type);
  }
  return fmt::format("toTypeName(defaultValueOfTypeName({}))", QuoteString(type));
}

// One answer a question, asked together.
Result<std::vector<std::string>> AskTypes(const Context& ctx, Engine& engine,
                                          std::span<const std::string> questions) {
  PF_ASSIGN(const QueryOutcome outcome,
            engine.Query(ctx,
                         fmt::format("SELECT {} FORMAT JSONCompactStringsEachRow",
                                     fmt::join(questions, ", ")),
                         {}));
  PF_ASSIGN(const JsonDoc row, ParseJson(outcome.text));
  std::vector<std::string> types;
  for (const JsonDoc& cell : row) {
    if (cell.is_string()) types.push_back(cell.get<std::string>());
  }
  if (types.size() == questions.size()) return types;
  return Status(Code::kInternal, "the engine did not answer every question about types");
}

Result<std::vector<std::string>> ResolvedTypes(const Context& ctx, Engine& engine,
                                               const std::vector<ColumnDefinition>& columns) {
  std::vector<std::string> questions;
  questions.reserve(columns.size());
  for (const ColumnDefinition& column : columns) questions.push_back(TypeQuestion(column));
  Result<std::vector<std::string>> all = AskTypes(ctx, engine, questions);
  if (all.ok() || all.status().code() != Code::kInvalidArgument) return all;
  // One of them has no default value (Nothing) or is unknown here: ask one by one; such a type
  // keeps its spelling.
  std::vector<std::string> types;
  for (size_t i = 0; i < columns.size(); ++i) {
    const Result<std::vector<std::string>> one =
        AskTypes(ctx, engine, std::span(questions).subspan(i, 1));
    if (one.ok()) {
      types.push_back(one->front());
    } else if (one.status().code() != Code::kInvalidArgument) {
      return one.status();
    } else if (columns[i].type.empty()) {
      return Status(Code::kRefused, fmt::format("column {} has no type: {}", columns[i].name,
                                                one.status().message()))
          .Explain(kDestinationPf, columns[i].name,
                   "write the column's type into the CREATE TABLE");
    } else {
      types.push_back(columns[i].type);
    }
  }
  return types;
}

// Nested(a A, b B) named n → n.a Array(A), n.b Array(B); other types as they are.
Result<std::vector<FingerprintColumn>> Flattened(FingerprintColumn column, Nested nested) {
  constexpr std::string_view kNested = "Nested(";
  if (nested == Nested::kKeep || !column.type.starts_with(kNested)) return std::vector{column};
  PF_ASSIGN(const std::vector<SqlToken> tokens, TokenizeSql(column.type));
  PF_ASSIGN(const std::vector<TokenRange> items, SplitAtCommas(tokens, 2, tokens.size() - 1));
  std::vector<FingerprintColumn> columns;
  for (const TokenRange& item : items) {
    SqlCursor at(column.type, tokens, item.begin, item.end);
    PF_ASSIGN(const std::string name, at.TakeName());
    FingerprintColumn flat = column;
    flat.name = fmt::format("{}.{}", column.name, name);
    flat.type = SqueezedType(fmt::format("Array({})", at.TextOf(at.index(), item.end)));
    columns.push_back(std::move(flat));
  }
  return columns;
}

// The elements of a key: "(a, b)" and "tuple(a, b)" → a, b; "(a)" and "a" → a; "tuple()" → none.
Result<std::vector<std::string>> KeyElements(const std::string& text) {
  if (text.empty()) return std::vector<std::string>();
  PF_ASSIGN(const std::vector<SqlToken> tokens, TokenizeSql(text));
  size_t open = 0;
  if (tokens.size() > 1 && tokens[0].IsWord("tuple") && tokens[1].IsSymbol("(")) open = 1;
  if (!tokens[open].IsSymbol("(")) return std::vector{text};
  PF_ASSIGN(const size_t close, ClosingBracket(tokens, open));
  if (close + 1 != tokens.size()) return std::vector{text};
  PF_ASSIGN(const std::vector<TokenRange> items, SplitAtCommas(tokens, open + 1, close));
  const SqlCursor at(text, tokens, 0, tokens.size());
  if (items.size() == 1) return KeyElements(at.TextOf(items[0].begin, items[0].end));
  std::vector<std::string> elements;
  elements.reserve(items.size());
  for (const TokenRange& item : items) elements.push_back(at.TextOf(item.begin, item.end));
  return elements;
}

// The primary key as written in any of its three places; "" when there is none.
std::string PrimaryKeyText(const CreateTable& table) {
  if (!table.primary_key.empty()) return table.primary_key;
  for (const NamedElement& element : table.elements) {
    if (element.kind == "PRIMARY KEY") return element.body;
  }
  std::string names;
  for (const ColumnDefinition& column : table.columns) {
    if (!column.has_primary_key) continue;
    names += (names.empty() ? "" : ", ") + QuoteIdentifier(column.name);
  }
  return names.empty() ? "" : fmt::format("({})", names);
}

Result<SchemaShape> ShapeOf(const Context& ctx, Engine& engine, const CreateTable& table,
                            Nested nested) {
  CreateTable essence = Essence(table);
  essence.primary_key = PrimaryKeyText(essence);
  essence.elements.clear();
  for (ColumnDefinition& column : essence.columns) column.has_primary_key = false;
  if (essence.order_by.empty()) essence.order_by = essence.primary_key;
  PF_ASSIGN(const CreateTable formatted, Formatted(ctx, engine, essence));
  SchemaShape shape;
  PF_ASSIGN(const std::vector<std::string> types, ResolvedTypes(ctx, engine, formatted.columns));
  for (size_t i = 0; i < types.size(); ++i) {
    const ColumnDefinition& definition = formatted.columns[i];
    FingerprintColumn column;
    column.name = definition.name;
    column.default_kind = definition.default_kind;
    column.default_expression = definition.default_expression;
    column.type = SqueezedType(types[i]);
    PF_ASSIGN(const std::vector<FingerprintColumn> flat, Flattened(std::move(column), nested));
    shape.columns.insert(shape.columns.end(), flat.begin(), flat.end());
  }
  shape.engine = formatted.engine;
  shape.engine_args = formatted.engine_args;
  PF_ASSIGN(shape.partition_by, KeyElements(formatted.partition_by));
  PF_ASSIGN(shape.order_by, KeyElements(formatted.order_by));
  // Without a clause of its own the primary key is the sorting key.
  PF_ASSIGN(shape.primary_key, KeyElements(formatted.primary_key.empty() ? formatted.order_by
                                                                         : formatted.primary_key));
  shape.sample_by = formatted.sample_by;
  return shape;
}

Result<Fingerprint> Compute(const Context& ctx, Engine& engine, std::string_view sql,
                            Nested nested) {
  // The same rules as for the local table: replication and placement are no part of a schema.
  PF_ASSIGN(const LocalDdl ddl, NormalizeDestination(sql, {.has_encryption_keys = true}));
  Result<SchemaShape> shape = ShapeOf(ctx, engine, ddl.table, nested);
  if (!shape.ok()) {
    return std::move(shape).status().With("read the schema of " + ddl.table.name.ToString());
  }
  Fingerprint fingerprint;
  fingerprint.shape = std::move(shape).value();
  // From the statement itself: the local form has settings put in.
  PF_ASSIGN(const CreateTable written, ParseCreateTable(sql));
  for (const EngineSetting& setting : written.settings) {
    if (setting.name == "allow_nullable_key")
      fingerprint.shape.allows_nullable_key = setting.value == "1" || setting.value == "true";
    if (setting.name == "index_granularity_bytes")
      fingerprint.shape.has_adaptive_granularity = setting.value != "0";
  }
  fingerprint.canonical_json = FormatShape(fingerprint.shape);
  fingerprint.id = "sha256:" + Sha256Hex(fingerprint.canonical_json);
  return fingerprint;
}

}  // namespace

Result<Fingerprint> ComputeFingerprint(const Context& ctx, Engine& engine, std::string_view sql) {
  return Compute(ctx, engine, sql, Nested::kFlatten);
}

Result<Fingerprint> FingerprintOfTable(const Context& ctx, Engine& engine,
                                       std::string_view show_create) {
  return Compute(ctx, engine, show_create, Nested::kKeep);
}

Result<std::vector<std::string>> FormattedTtl(const Context& ctx, Engine& engine,
                                              const CreateTable& table) {
  CreateTable bare = table;
  for (ColumnDefinition& column : bare.columns) {
    ColumnDefinition plain;
    plain.name = column.name;
    plain.type = "UInt8";
    plain.ttl = column.ttl;
    column = std::move(plain);
  }
  bare.elements.clear();
  bare.settings.clear();
  bare.comment.clear();
  PF_ASSIGN(const CreateTable formatted, Formatted(ctx, engine, bare));
  std::vector<std::string> texts = {formatted.ttl};
  for (const ColumnDefinition& column : formatted.columns) {
    if (!column.ttl.empty()) texts.push_back(fmt::format("{}: {}", column.name, column.ttl));
  }
  return texts;
}

Result<std::vector<std::string>> FormattedConstraints(const Context& ctx, Engine& engine,
                                                      const CreateTable& table) {
  CreateTable bare = table;
  std::erase_if(bare.elements,
                [](const NamedElement& element) { return element.kind != "CONSTRAINT"; });
  if (bare.elements.empty()) return std::vector<std::string>();
  for (ColumnDefinition& column : bare.columns) {
    ColumnDefinition plain;
    plain.name = column.name;
    plain.type = "UInt8";
    column = std::move(plain);
  }
  bare.ttl.clear();
  bare.settings.clear();
  bare.comment.clear();
  PF_ASSIGN(const CreateTable formatted, Formatted(ctx, engine, bare));
  std::vector<std::string> bodies;
  for (const NamedElement& element : formatted.elements) bodies.push_back(element.body);
  return bodies;
}

}  // namespace partforge::clickhouse
