#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "clickhouse/ddl.h"
#include "clickhouse/sql_cursor.h"

namespace partforge::clickhouse {
namespace {

// A keyword that begins a clause of a column, when it stands behind an operand.
bool BeginsColumnClause(const SqlCursor& at) {
  if (at.LooksAtWords({"COMMENT"}) || at.LooksAtWords({"COLLATE"})) {
    SqlCursor next = at;
    next.MoveTo(at.index() + 1);
    return next.LooksAtString() || (at.LooksAtWords({"COLLATE"}) && !next.at_end());
  }
  for (const std::string_view word : {"CODEC", "STATISTICS", "SETTINGS"}) {
    if (!at.LooksAtWords({word})) continue;
    SqlCursor next = at;
    next.MoveTo(at.index() + 1);
    return next.LooksAtSymbol("(");
  }
  return at.LooksAtWords({"TTL"}) || at.LooksAtWords({"PRIMARY", "KEY"});
}

bool BeginsDefault(const SqlCursor& at) {
  return at.LooksAtWords({"DEFAULT"}) || at.LooksAtWords({"MATERIALIZED"}) ||
         at.LooksAtWords({"EPHEMERAL"}) || at.LooksAtWords({"ALIAS"}) ||
         at.LooksAtWords({"AUTO_INCREMENT"});
}

bool BeginsNullModifier(const SqlCursor& at) {
  return at.LooksAtWords({"NULL"}) || at.LooksAtWords({"NOT", "NULL"});
}

// A keyword that begins a clause of the table.
bool BeginsTableClause(const SqlCursor& at) {
  if (at.LooksAtWords({"COMMENT"})) {
    SqlCursor next = at;
    next.MoveTo(at.index() + 1);
    return next.LooksAtString();
  }
  if (at.LooksAtWords({"SETTINGS"})) {
    SqlCursor next = at;
    next.MoveTo(at.index() + 1);
    return next.TakeName().ok() && next.LooksAtSymbol("=");
  }
  return at.LooksAtWords({"PARTITION", "BY"}) || at.LooksAtWords({"PRIMARY", "KEY"}) ||
         at.LooksAtWords({"ORDER", "BY"}) || at.LooksAtWords({"SAMPLE", "BY"}) ||
         at.LooksAtWords({"TTL"}) || at.LooksAtWords({"ENGINE"}) ||
         at.LooksAtWords({"AS", "SELECT"}) || at.LooksAtWords({"AS", "WITH"}) ||
         at.LooksAtWords({"EMPTY", "AS"});
}

class CreateParser {
 public:
  CreateParser(std::string_view sql, const std::vector<SqlToken>& tokens, size_t end)
      : tokens_(tokens), cursor_(sql, tokens, 0, end), sql_(sql), end_(end) {}

  Result<CreateTable> Run() {
    PF_TRY(ReadHead());
    PF_TRY(ReadColumns());
    while (!cursor_.at_end()) PF_TRY(ReadClause());
    if (table_.engine.empty()) return cursor_.Expected("ENGINE");
    return std::move(table_);
  }

 private:
  Status ReadHead() {
    table_.is_attach = cursor_.LooksAtWords({"ATTACH"});
    if (!cursor_.TakeWords({"CREATE"}) && !cursor_.TakeWords({"ATTACH"})) {
      return cursor_.Expected("CREATE TABLE");
    }
    if (!cursor_.TakeWords({"TABLE"})) return cursor_.Expected("TABLE");
    table_.if_not_exists = cursor_.TakeWords({"IF", "NOT", "EXISTS"});
    size_t index = cursor_.index();
    PF_ASSIGN(const SqlTableName name, ReadTableName(tokens_, index));
    table_.name = {.database = name.database, .table = name.table};
    cursor_.MoveTo(index);
    while (true) {
      if (cursor_.TakeWords({"UUID"})) {
        PF_ASSIGN(table_.uuid, cursor_.TakeString());
      } else if (cursor_.TakeWords({"ON", "CLUSTER"})) {
        PF_TRY(ReadCluster());
      } else {
        return {};
      }
    }
  }

  Status ReadCluster() {
    if (cursor_.LooksAtString()) {
      PF_ASSIGN(table_.cluster, cursor_.TakeString());
      return {};
    }
    if (cursor_.LooksAtSymbol("{")) {  // a macro without quotes
      PF_ASSIGN(const size_t close, cursor_.Closing());
      table_.cluster = cursor_.TextOf(cursor_.index(), close + 1);
      cursor_.MoveTo(close + 1);
      return {};
    }
    PF_ASSIGN(table_.cluster, cursor_.TakeName());
    return {};
  }

  Status ReadColumns() {
    if (!cursor_.LooksAtSymbol("(")) return cursor_.Expected("the list of columns");
    PF_ASSIGN(const size_t close, cursor_.Closing());
    PF_ASSIGN(std::vector<TokenRange> entries, SplitAtCommas(tokens_, cursor_.index() + 1, close));
    // A comma after the last column is allowed.
    if (!entries.empty() && entries.back().begin == entries.back().end) entries.pop_back();
    for (const TokenRange& entry : entries) PF_TRY(ReadEntry(entry));
    if (table_.columns.empty()) return cursor_.Expected("at least one column");
    cursor_.MoveTo(close + 1);
    return {};
  }

  Status ReadEntry(const TokenRange& range) {
    SqlCursor at(sql_, tokens_, range.begin, range.end);
    if (at.at_end()) return cursor_.Expected("a column between two commas");
    PF_ASSIGN(const std::string kind, ElementKind(range));
    if (kind.empty()) return ReadColumn(at, range.end);
    NamedElement element{.kind = kind, .name = {}, .body = {}};
    at.MoveTo(range.begin + (kind.find(' ') == std::string::npos ? 1 : 2));
    if (kind == "INDEX" || kind == "PROJECTION" || kind == "CONSTRAINT") {
      PF_ASSIGN(element.name, at.TakeName());
    }
    element.body = at.TextOf(at.index(), range.end);
    table_.elements.push_back(std::move(element));
    return {};
  }

  // "" for a column. A column may be named `index`, so the words alone do not decide.
  Result<std::string> ElementKind(const TokenRange& range) {
    const SqlCursor at(sql_, tokens_, range.begin, range.end);
    SqlCursor third(sql_, tokens_, range.begin + 2, range.end);
    if (at.LooksAtWords({"FOREIGN", "KEY"})) return std::string("FOREIGN KEY");
    if (at.LooksAtWords({"PRIMARY", "KEY"})) return std::string("PRIMARY KEY");
    if (at.LooksAtWords({"CONSTRAINT"}) &&
        (third.LooksAtWords({"CHECK"}) || third.LooksAtWords({"ASSUME"}))) {
      return std::string("CONSTRAINT");
    }
    if (at.LooksAtWords({"PROJECTION"})) {
      if (third.LooksAtWords({"INDEX"})) return std::string("PROJECTION");
      if (third.LooksAtSymbol("(") && range.begin + 3 < range.end) {
        third.MoveTo(range.begin + 3);
        if (third.LooksAtWords({"SELECT"}) || third.LooksAtWords({"WITH"})) {
          return std::string("PROJECTION");
        }
      }
    }
    if (at.LooksAtWords({"INDEX"})) {
      for (size_t i = range.begin + 2; i < range.end; ++i) {
        if (tokens_[i].IsWord("TYPE")) return std::string("INDEX");
        if (tokens_[i].IsSymbol("(")) {
          PF_ASSIGN(i, ClosingBracket(tokens_, i));
        }
      }
    }
    return std::string();
  }

  // Moves to the first token in [cursor, end), outside of brackets, behind an operand (or anywhere
  // when `from_start`) where `stops` says so.
  template <class Stop>
  Status MoveToClause(SqlCursor& at, size_t end, bool from_start, const Stop& stops) {
    bool may_stop = from_start;
    while (at.index() < end) {
      if (may_stop && stops(at)) return {};
      const SqlToken& token = at.current();
      for (const std::string_view odd : {";", ")", "]", "}"}) {
        if (token.IsSymbol(odd)) return at.Expected("an expression");
      }
      size_t next = at.index() + 1;
      if (token.IsSymbol("(") || token.IsSymbol("[") || token.IsSymbol("{")) {
        PF_ASSIGN(const size_t close, at.Closing());
        next = close + 1;
      }
      may_stop = EndsOperand(tokens_[next - 1]);
      at.MoveTo(next);
    }
    return {};
  }

  Status ReadColumn(SqlCursor at, size_t end) {
    ColumnDefinition column;
    PF_ASSIGN(column.name, at.TakeName());
    while (at.TakeSymbol(".")) {  // n.a Array(UInt8), unquoted
      PF_ASSIGN(const std::string piece, at.TakeName());
      column.name += "." + piece;
    }
    const size_t type_begin = at.index();
    PF_TRY(MoveToClause(at, end, true, [](const SqlCursor& c) {
      return BeginsDefault(c) || BeginsNullModifier(c) || BeginsColumnClause(c);
    }));
    column.type = at.TextOf(type_begin, at.index());
    if (BeginsNullModifier(at)) TakeNullModifier(at, column);
    if (BeginsDefault(at)) PF_TRY(ReadDefault(at, end, column));
    while (!at.at_end()) PF_TRY(ReadColumnClause(at, end, column));
    if (column.type.empty() && column.default_kind.empty()) return at.Expected("a column's type");
    if (table_.FindColumn(column.name) != nullptr) {
      return Status(Code::kInvalidArgument,
                    fmt::format("SQL text: column stands twice: {}", column.name));
    }
    table_.columns.push_back(std::move(column));
    return {};
  }

  static void TakeNullModifier(SqlCursor& at, ColumnDefinition& column) {
    column.null_modifier = at.LooksAtWords({"NULL"}) ? "NULL" : "NOT NULL";
    at.MoveTo(at.index() + (column.null_modifier == "NULL" ? 1 : 2));
  }

  Status ReadDefault(SqlCursor& at, size_t end, ColumnDefinition& column) {
    column.default_kind = at.current().text;
    std::transform(
        column.default_kind.begin(), column.default_kind.end(), column.default_kind.begin(),
        [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; });
    at.MoveTo(at.index() + 1);
    const size_t begin = at.index();
    // EPHEMERAL may stand without an expression, so the clause may follow at once.
    const bool may_be_empty =
        column.default_kind == "EPHEMERAL" || column.default_kind == "AUTO_INCREMENT";
    PF_TRY(MoveToClause(at, end, may_be_empty, [&](const SqlCursor& c) {
      return BeginsColumnClause(c) || (c.index() > begin && BeginsNullModifier(c));
    }));
    column.default_expression = at.TextOf(begin, at.index());
    if (column.default_expression.empty() && !may_be_empty) return at.Expected("an expression");
    if (BeginsNullModifier(at)) TakeNullModifier(at, column);
    return {};
  }

  Status ReadColumnClause(SqlCursor& at, size_t end, ColumnDefinition& column) {
    if (at.TakeWords({"COMMENT"})) {
      PF_ASSIGN(column.comment, at.TakeString());
    } else if (at.TakeWords({"CODEC"})) {
      PF_ASSIGN(column.codec, at.TakeBracketed());
    } else if (at.TakeWords({"STATISTICS"})) {
      PF_ASSIGN(column.statistics, at.TakeBracketed());
    } else if (at.TakeWords({"SETTINGS"})) {
      PF_ASSIGN(column.settings, at.TakeBracketed());
    } else if (at.TakeWords({"COLLATE"})) {
      column.collation = at.TextOf(at.index(), at.index() + 1);
      at.MoveTo(at.index() + 1);
    } else if (at.TakeWords({"PRIMARY", "KEY"})) {
      column.has_primary_key = true;
    } else if (at.TakeWords({"TTL"})) {
      const size_t begin = at.index();
      PF_TRY(MoveToClause(at, end, false, BeginsColumnClause));
      column.ttl = at.TextOf(begin, at.index());
    } else {
      return at.Expected("a clause of a column");
    }
    return {};
  }

  Status ReadClause() {
    if (cursor_.TakeWords({"ENGINE"})) return ReadEngine();
    if (cursor_.TakeWords({"SETTINGS"})) return ReadSettings();
    if (cursor_.LooksAtWords({"COMMENT"})) {
      cursor_.MoveTo(cursor_.index() + 1);
      PF_ASSIGN(table_.comment, cursor_.TakeString());
      return {};
    }
    std::string* target = nullptr;
    if (cursor_.TakeWords({"PARTITION", "BY"})) {
      target = &table_.partition_by;
    } else if (cursor_.TakeWords({"PRIMARY", "KEY"})) {
      target = &table_.primary_key;
    } else if (cursor_.TakeWords({"ORDER", "BY"})) {
      target = &table_.order_by;
    } else if (cursor_.TakeWords({"SAMPLE", "BY"})) {
      target = &table_.sample_by;
    } else if (cursor_.TakeWords({"TTL"})) {
      target = &table_.ttl;
    } else {
      return cursor_.Expected("a clause of CREATE TABLE");
    }
    if (!target->empty()) return cursor_.Expected("each clause once");
    const size_t begin = cursor_.index();
    PF_TRY(MoveToClause(cursor_, end_, false, BeginsTableClause));
    *target = cursor_.TextOf(begin, cursor_.index());
    return target->empty() ? cursor_.Expected("an expression") : Status();
  }

  Status ReadEngine() {
    if (!table_.engine.empty()) return cursor_.Expected("ENGINE once");
    cursor_.TakeSymbol("=");
    PF_ASSIGN(table_.engine, cursor_.TakeName());
    if (!cursor_.LooksAtSymbol("(")) return {};
    table_.has_engine_parentheses = true;
    PF_ASSIGN(const size_t close, cursor_.Closing());
    PF_ASSIGN(const std::vector<TokenRange> args,
              SplitAtCommas(tokens_, cursor_.index() + 1, close));
    for (const TokenRange& arg : args) {
      table_.engine_args.push_back(cursor_.TextOf(arg.begin, arg.end));
    }
    cursor_.MoveTo(close + 1);
    return {};
  }

  Status ReadSettings() {
    do {
      EngineSetting setting;
      PF_ASSIGN(setting.name, cursor_.TakeName());
      if (!cursor_.TakeSymbol("=")) return cursor_.Expected("=");
      const size_t begin = cursor_.index();
      PF_TRY(MoveToClause(cursor_, end_, false, [](const SqlCursor& c) {
        return c.LooksAtSymbol(",") || BeginsTableClause(c);
      }));
      setting.value = cursor_.TextOf(begin, cursor_.index());
      if (setting.value.empty()) return cursor_.Expected("the value of a setting");
      table_.settings.push_back(std::move(setting));
    } while (cursor_.TakeSymbol(","));
    return {};
  }

  const std::vector<SqlToken>& tokens_;
  SqlCursor cursor_;
  const std::string_view sql_;
  const size_t end_;
  CreateTable table_;
};

void AppendClause(std::string& sql, std::string_view keyword, std::string_view text) {
  if (!text.empty()) sql += fmt::format("\n{} {}", keyword, text);
}

std::string ColumnSql(const ColumnDefinition& column) {
  std::string sql = QuoteIdentifier(column.name);
  const auto append = [&](std::string_view before, std::string_view text, std::string_view after) {
    if (!text.empty()) sql += fmt::format(" {}{}{}", before, text, after);
  };
  append("", column.type, "");
  append("", column.null_modifier, "");
  append("", column.default_kind, "");
  append("", column.default_expression, "");
  append("COMMENT ", column.comment, "");
  append("CODEC(", column.codec, ")");
  append("STATISTICS(", column.statistics, ")");
  append("TTL ", column.ttl, "");
  append("COLLATE ", column.collation, "");
  if (column.has_primary_key) sql += " PRIMARY KEY";
  append("SETTINGS (", column.settings, ")");
  return sql;
}

std::string ElementSql(const NamedElement& element) {
  std::string sql = element.kind;
  if (!element.name.empty()) sql += " " + QuoteIdentifier(element.name);
  return sql + " " + element.body;
}

std::string EngineSql(const CreateTable& table) {
  if (!table.has_engine_parentheses) return table.engine;
  return fmt::format("{}({})", table.engine, fmt::join(table.engine_args, ", "));
}

std::string SettingsSql(const std::vector<EngineSetting>& settings) {
  std::string sql;
  for (const EngineSetting& setting : settings) {
    if (!sql.empty()) sql += ", ";
    sql += fmt::format("{} = {}", setting.name, setting.value);
  }
  return sql;
}

}  // namespace

std::string TableName::ToSql() const {
  return QuoteTable(database, table);
}

std::string TableName::ToString() const {
  return database.empty() ? table : database + "." + table;
}

bool CreateTable::IsMergeTree() const {
  return engine.ends_with("MergeTree");
}

const ColumnDefinition* CreateTable::FindColumn(std::string_view column) const {
  const auto found = std::find_if(columns.begin(), columns.end(),
                                  [&](const ColumnDefinition& c) { return c.name == column; });
  return found == columns.end() ? nullptr : &*found;
}

std::string CreateTable::ToSql() const {
  std::string sql = fmt::format("{} TABLE {}{}", is_attach ? "ATTACH" : "CREATE",
                                if_not_exists ? "IF NOT EXISTS " : "", name.ToSql());
  if (!uuid.empty()) sql += " UUID " + uuid;
  if (!cluster.empty()) {
    const bool is_plain = cluster.starts_with('\'') || cluster.starts_with('{');
    sql += " ON CLUSTER " + (is_plain ? cluster : QuoteIdentifier(cluster));
  }
  std::string entries;
  const auto append = [&](const std::string& entry) {
    entries += fmt::format("{}\n    {}", entries.empty() ? "" : ",", entry);
  };
  for (const ColumnDefinition& column : columns) append(ColumnSql(column));
  for (const NamedElement& element : elements) append(ElementSql(element));
  sql += fmt::format("\n({}\n)\nENGINE = {}", entries, EngineSql(*this));
  AppendClause(sql, "PARTITION BY", partition_by);
  AppendClause(sql, "PRIMARY KEY", primary_key);
  AppendClause(sql, "ORDER BY", order_by);
  AppendClause(sql, "SAMPLE BY", sample_by);
  AppendClause(sql, "TTL", ttl);
  AppendClause(sql, "SETTINGS", SettingsSql(settings));
  AppendClause(sql, "COMMENT", comment);
  return sql;
}

Result<CreateTable> ParseCreateTable(std::string_view sql) {
  PF_ASSIGN(const std::vector<SqlToken> tokens, TokenizeSql(sql));
  size_t end = tokens.size();
  if (end > 0 && tokens[end - 1].IsSymbol(";")) --end;
  Result<CreateTable> table = CreateParser(sql, tokens, end).Run();
  if (!table.ok()) return std::move(table).status().With("read a CREATE TABLE");
  return table;
}

}  // namespace partforge::clickhouse
