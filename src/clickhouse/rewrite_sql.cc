#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "clickhouse/ddl.h"
#include "clickhouse/sql_cursor.h"

namespace partforge::clickhouse {
namespace {

constexpr int kSourcePf = 2101, kDestinationPf = 2104, kInsertPf = 2105;

Status BadInsert(Status status) {
  return std::move(status)
      .As(Code::kRefused)
      .Explain(kInsertPf, "the INSERT SELECT", "INSERT INTO <destination> SELECT … FROM <source>");
}

// The columns listed behind the table's name; something like (* EXCEPT (a)) is taken as one text.
Result<std::vector<std::string>> ReadColumnList(SqlCursor& at,
                                                const std::vector<SqlToken>& tokens) {
  std::vector<std::string> columns;
  PF_ASSIGN(const size_t close, at.Closing());
  PF_ASSIGN(const std::vector<TokenRange> entries, SplitAtCommas(tokens, at.index() + 1, close));
  for (const TokenRange& entry : entries) {
    const bool is_name = entry.end == entry.begin + 1 && tokens[entry.begin].IsName();
    if (is_name) {
      PF_ASSIGN(std::string name, TokenValue(tokens[entry.begin]));
      columns.push_back(std::move(name));
    } else {
      columns.push_back(at.TextOf(entry.begin, entry.end));
    }
  }
  at.MoveTo(close + 1);
  return columns;
}

// True when the bracket at the cursor opens a query, not a list of columns.
bool OpensQuery(SqlCursor at) {
  while (at.TakeSymbol("(")) {
  }
  return at.LooksAtWords({"SELECT"}) || at.LooksAtWords({"WITH"}) || at.LooksAtWords({"FROM"});
}

Result<InsertTarget> ReadInsert(std::string_view sql) {
  PF_ASSIGN(const std::vector<SqlToken> tokens, TokenizeSql(sql));
  size_t end = tokens.size();
  if (end > 0 && tokens[end - 1].IsSymbol(";")) --end;
  SqlCursor at(sql, tokens, 0, end);

  // WITH x AS (…) INSERT INTO … SELECT …
  std::string with;
  if (at.LooksAtWords({"WITH"})) {
    while (!at.at_end() && !at.LooksAtWords({"INSERT"})) {
      size_t next = at.index() + 1;
      if (at.LooksAtSymbol("(")) {
        PF_ASSIGN(const size_t close, at.Closing());
        next = close + 1;
      }
      at.MoveTo(next);
    }
    with = at.TextOf(0, std::min(at.index(), end)) + " ";
  }
  if (!at.TakeWords({"INSERT", "INTO"})) return at.Expected("INSERT INTO");
  if (at.LooksAtWords({"FUNCTION"}) || at.LooksAtWords({"TABLE", "FUNCTION"})) {
    return at.Expected("a table, not a table function");
  }
  at.TakeWords({"TABLE"});
  size_t index = at.index();
  PF_ASSIGN(const SqlTableName name, ReadTableName(tokens, index));
  at.MoveTo(index);
  InsertTarget target;
  target.table = {.database = name.database, .table = name.table};
  if (at.LooksAtSymbol("(") && !OpensQuery(at)) {
    PF_ASSIGN(target.columns, ReadColumnList(at, tokens));
  }
  const size_t body = at.index();
  if (at.TakeWords({"SETTINGS"})) {
    // Settings before the SELECT belong to the query all the same.
    while (!at.at_end() && !at.LooksAtWords({"SELECT"}) && !at.LooksAtWords({"WITH"}) &&
           !at.LooksAtSymbol("(")) {
      at.MoveTo(at.index() + 1);
    }
  }
  if (!OpensQuery(at)) return at.Expected("SELECT");
  target.select = with + at.TextOf(body, end);
  for (size_t i = at.index(); i < end; ++i) {
    if (tokens[i].IsSymbol(";")) {
      at.MoveTo(i);
      return at.Expected("one statement");
    }
  }
  return target;
}

// Words that stand in a key expression without being columns.
bool IsExpressionWord(const SqlToken& token) {
  constexpr std::array kWords = {"AND",      "OR",   "NOT",  "NULL",   "TRUE",  "FALSE",
                                 "INTERVAL", "IN",   "IS",   "LIKE",   "ILIKE", "BETWEEN",
                                 "CASE",     "WHEN", "THEN", "ELSE",   "END",   "DIV",
                                 "MOD",      "ASC",  "DESC", "GLOBAL", "INF",   "NAN"};
  return std::any_of(kWords.begin(), kWords.end(),
                     [&](const char* word) { return token.IsWord(word); });
}

// The DAY of INTERVAL 1 DAY; elsewhere a column may be named so.
bool IsIntervalUnit(const std::vector<SqlToken>& tokens, size_t i) {
  return i >= 2 && tokens[i - 2].IsWord("INTERVAL");
}

// A name in the partition key that is no column of the table; "" when all are.
Result<std::string> ForeignName(const CreateTable& table) {
  PF_ASSIGN(const std::vector<SqlToken> tokens, TokenizeSql(table.partition_by));
  for (size_t i = 0; i < tokens.size(); ++i) {
    // Lambdas and casts bring names of their own: the engine decides about those.
    if (tokens[i].IsSymbol("->") || tokens[i].IsSymbol("::") || tokens[i].IsWord("AS"))
      return std::string();
  }
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (!tokens[i].IsName() || IsExpressionWord(tokens[i]) || IsIntervalUnit(tokens, i)) continue;
    if (i + 1 < tokens.size() && tokens[i + 1].IsSymbol("(")) continue;  // a function
    PF_ASSIGN(std::string name, TokenValue(tokens[i]));
    const auto is_column = [&](const std::string& wanted) {
      return std::any_of(table.columns.begin(), table.columns.end(),
                         [&](const ColumnDefinition& c) {
                           return c.name == wanted || c.name.starts_with(wanted + ".");
                         });
    };
    const bool found = is_column(name);
    // n.a may be one column, a tuple's element or a subcolumn: the first piece must be known.
    while (i + 2 < tokens.size() && tokens[i + 1].IsSymbol(".") &&
           (tokens[i + 2].IsName() || tokens[i + 2].kind == SqlTokenKind::kNumber)) {
      i += 2;
    }
    if (!found) return name;
  }
  return std::string();
}

}  // namespace

Result<InsertTarget> ParseInsertSelect(std::string_view sql) {
  Result<InsertTarget> target = ReadInsert(sql);
  if (!target.ok()) return std::move(target).status().With("read an INSERT SELECT");
  return target;
}

bool NamesTable(std::string_view select, const TableName& table,
                std::string_view current_database) {
  const Result<std::vector<SqlToken>> tokens = TokenizeSql(select);
  if (!tokens.ok()) return false;
  for (size_t i = 0; i < tokens->size(); ++i) {
    if (!(*tokens)[i].IsName()) continue;
    const bool follows_dot = i > 0 && (*tokens)[i - 1].IsSymbol(".");
    if (follows_dot) continue;
    size_t index = i;
    const Result<SqlTableName> name = ReadTableName(*tokens, index);
    if (!name.ok() || name->table != table.table) continue;
    const std::string_view database =
        name->database.empty() ? current_database : std::string_view(name->database);
    if (database == table.database) return true;
  }
  return false;
}

Status CheckRewriteStatements(std::string_view source_sql, std::string_view destination_sql,
                              std::string_view insert_sql) {
  PF_ASSIGN(const LocalDdl source, NormalizeSource(source_sql, {}));
  PF_ASSIGN(const LocalDdl destination, NormalizeDestination(destination_sql, {}));
  const TableName& from = source.table.name;
  const TableName& to = destination.table.name;
  const auto refuse = [](int pf_number, std::string where, std::string message,
                         std::string remedy) {
    return Status(Code::kRefused, std::move(message))
        .Explain(pf_number, std::move(where), std::move(remedy));
  };
  if (from.database.empty()) {
    return refuse(kSourcePf, from.ToString(), "the source table's name has no database",
                  "SHOW CREATE TABLE gives the full name");
  }
  if (to.database.empty()) {
    return refuse(kDestinationPf, to.ToString(), "the destination table's name has no database",
                  fmt::format("write CREATE TABLE <database>.{}", to.table));
  }
  if (from == to) {
    return refuse(kDestinationPf, to.ToString(), "source and destination are the same table",
                  "give the destination another name");
  }
  PF_ASSIGN(const std::string foreign, ForeignName(destination.table));
  if (!foreign.empty()) {
    return refuse(kDestinationPf, to.ToString(),
                  fmt::format("PARTITION BY names what is no column of the table: {}", foreign),
                  "use columns of the destination table");
  }

  Result<InsertTarget> insert = ParseInsertSelect(insert_sql);
  if (!insert.ok()) return BadInsert(std::move(insert).status());
  TableName target = insert->table;
  // The workers run the statement with the source's database as the current one.
  if (target.database.empty()) target.database = from.database;
  if (target != to) {
    return refuse(
        kInsertPf, insert->table.ToString(),
        fmt::format("the INSERT writes to another table than the destination, {}", to.ToString()),
        fmt::format("INSERT INTO {} SELECT …", to.ToSql()));
  }
  if (!NamesTable(insert->select, from, from.database)) {
    return refuse(kInsertPf, from.ToString(), "the SELECT does not read the source table",
                  fmt::format("SELECT … FROM {}", from.ToSql()));
  }
  return {};
}

}  // namespace partforge::clickhouse
