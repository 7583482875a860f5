#include "engine/sql_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "base/json.h"
#include "engine/clickhouse_codes.h"
#include "engine/explain_tree.h"
#include "engine/sql_words.h"

namespace partforge {
namespace {

using Effect = SqlFinding::Effect;

constexpr int kViewDepthMax = 8;
constexpr int kFitsNot = 2105, kParsesNot = 2106, kReserved = 2113, kNotRowLocal = 2114,
              kOutside = 2115;

// The statement's own words, for places.
class SqlPlaces {
 public:
  explicit SqlPlaces(std::string_view sql) {
    if (auto cut = TokenizeSql(sql); cut.ok()) tokens_ = std::move(cut).value();
  }
  // Of these words one behind the other.
  SqlPlace Words(const std::vector<std::string_view>& words) const {
    for (size_t i = 0; i + words.size() <= tokens_.size(); ++i) {
      bool matches = true;
      for (size_t k = 0; matches && k < words.size(); ++k)
        matches = tokens_[i + k].IsWord(words[k]);
      if (matches) return tokens_[i].place;
    }
    return {};
  }
  // Of a function's name before its bracket; "a.b" may be spelt with blanks.
  SqlPlace Function(std::string_view name) const {
    for (size_t i = 0; i + 1 < tokens_.size(); ++i) {
      if (tokens_[i].IsWord(name) && tokens_[i + 1].IsSymbol("(")) return tokens_[i].place;
    }
    return Words({name});  // an operator or keyword that stands for it
  }
  SqlPlace Table(std::string_view full_name) const {
    for (size_t i = 0; i < tokens_.size(); ++i) {
      size_t index = i;
      const auto name = ReadTableName(tokens_, index);
      const bool is_it = name.ok() && !name->database.empty() && name->ToString() == full_name;
      const bool is_short =
          name.ok() && name->database.empty() && full_name.ends_with("." + name->table);
      if (is_it || is_short) return tokens_[i].place;
    }
    return {};
  }

 private:
  std::vector<SqlToken> tokens_;
};

// The engine's refusal to parse or resolve, with the place in the user's text when the message
// tells one.
Status NotUnderstood(Status status, std::string_view sql) {
  const Code code = status.code();
  if (code != Code::kInvalidArgument && code != Code::kNotFound && code != Code::kRefused)
    return status;
  std::string message = status.message();
  if (const size_t scope = message.find(": In scope SELECT formatQuery(");
      scope != std::string::npos)
    message.resize(scope);
  std::string where = "the SQL";
  constexpr std::string_view kPosition = "failed at position ";
  if (const size_t at = message.find(kPosition); at != std::string::npos) {
    const char* digits = message.data() + at + kPosition.size();
    size_t position = 0;
    std::from_chars(digits, message.data() + message.size(), position);
    if (position > 0) where = fmt::format("the SQL, {}", PlaceAt(sql, position - 1).ToString());
  }
  return Status(Code::kInvalidArgument, message)
      .Explain(kParsesNot, where, "correct the statement");
}

Result<std::string> AskEngine(const Context& ctx, Engine& engine, const std::string& question,
                              std::string_view database, std::string_view sql) {
  // Raw: the default format escapes quotes and backslashes, and names are compared.
  auto answer =
      engine.Query(ctx, question,
                   {.settings = {{"default_format", "TSVRaw"}}, .database = std::string(database)});
  if (!answer.ok()) return NotUnderstood(std::move(answer).status(), sql);
  return std::move(answer->text);
}

// One statement, formatted by the engine. Several statements do not parse.
Result<std::string> FormatSql(const Context& ctx, Engine& engine, std::string_view sql) {
  PF_ASSIGN(std::string text,
            AskEngine(ctx, engine, "SELECT formatQuery(" + QuoteString(sql) + ") FORMAT TSVRaw", "",
                      sql));
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

// "Function" nodes of an AST, split into what stands in FROM or as INSERT's target and the rest.
struct AstFunctions {
  std::set<std::string> scalar, table;
};
AstFunctions FunctionsOf(const std::vector<ExplainNode>& ast) {
  AstFunctions functions;
  for (const ExplainNode& node : ast) {
    if (node.Kind() != "Function" || node.parent < 0) continue;
    const std::string_view above = ast[static_cast<size_t>(node.parent)].Kind();
    const bool is_table = above == "TableExpression" || above == "InsertQuery";
    // Engines and codecs in a DDL are "Function" too; they hang below a storage definition or a
    // data type.
    if (above == "Storage" || above == "DataType") continue;
    (is_table ? functions.table : functions.scalar).emplace(node.AstName());
  }
  return functions;
}

std::vector<std::string> ExternalOf(const AstFunctions& functions) {
  std::vector<std::string> external;
  for (const std::string& name : functions.table) {
    if (!IsHarmlessTableFunction(name)) external.push_back(name);
  }
  for (const std::string& name : functions.scalar) {
    if (IsExternalFunction(name)) external.push_back(name);
  }
  return external;
}

// Collects the findings of one INSERT SELECT.
class InsertSelectCheck {
 public:
  InsertSelectCheck(const Context& ctx, Engine& engine, std::string_view sql,
                    const InsertSelectRules& rules)
      : ctx_(ctx), engine_(engine), sql_(sql), rules_(rules), places_(sql) {}

  Result<SqlVerdict> Run() {
    CheckFileClauses();
    if (!verdict_.findings.empty()) return std::move(verdict_);
    PF_ASSIGN(verdict_.formatted, FormatSql(ctx_, engine_, sql_));
    PF_ASSIGN(formatted_tokens_, TokenizeSql(verdict_.formatted));
    PF_ASSIGN(const bool is_insert_select, ReadInsertHead());
    if (!is_insert_select) return std::move(verdict_);
    CheckSettings(formatted_tokens_, "");
    PF_TRY(CheckAst(verdict_.formatted, ""));
    const bool may_evaluate =
        std::none_of(verdict_.findings.begin(), verdict_.findings.end(),
                     [](const SqlFinding& finding) { return finding.pf_number == kOutside; });
    if (may_evaluate) {
      PF_TRY(CheckQueryTree(verdict_.select, "", 0));
      CheckTables();
      PF_TRY(CheckPartNames());
    }
    std::stable_sort(
        verdict_.findings.begin(), verdict_.findings.end(), [](const auto& a, const auto& b) {
          return std::pair(a.place.line, a.place.column) < std::pair(b.place.line, b.place.column);
        });
    return std::move(verdict_);
  }

 private:
  void Add(SqlFinding finding) {
    const bool is_known =
        std::any_of(verdict_.findings.begin(), verdict_.findings.end(), [&](const auto& known) {
          return known.kind == finding.kind && known.construct == finding.construct;
        });
    if (!is_known) verdict_.findings.push_back(std::move(finding));
  }
  void Refuse(int pf_number, std::string kind, std::string construct, SqlPlace place,
              std::string why) {
    Add({.effect = Effect::kRefused,
         .pf_number = pf_number,
         .kind = std::move(kind),
         .construct = std::move(construct),
         .place = place,
         .why = std::move(why)});
  }
  void Unchunk(std::string kind, std::string construct, SqlPlace place, std::string why) {
    Add({.effect = Effect::kNotChunkable,
         .pf_number = kNotRowLocal,
         .kind = std::move(kind),
         .construct = std::move(construct),
         .place = place,
         .why = std::move(why)});
  }

  // Before the engine sees the text: these clauses act where the statement runs.
  void CheckFileClauses() {
    const auto tokens = TokenizeSql(sql_);
    if (!tokens.ok()) return;
    for (size_t i = 0; i + 1 < tokens->size(); ++i) {
      const bool writes = (*tokens)[i].IsWord("INTO") && (*tokens)[i + 1].IsWord("OUTFILE");
      const bool reads = (*tokens)[i].IsWord("FROM") && (*tokens)[i + 1].IsWord("INFILE");
      if (!writes && !reads) continue;
      Refuse(kOutside, "file_clause", writes ? "INTO OUTFILE" : "FROM INFILE", (*tokens)[i].place,
             "a job reads its source table and writes its destination table, nothing else");
    }
  }

  // INSERT INTO name [(columns)] [SETTINGS …] SELECT …, as the engine formats it. False after a
  // refusal.
  Result<bool> ReadInsertHead() {
    const std::vector<SqlToken>& tokens = formatted_tokens_;
    const auto not_it = [this](std::string why) {
      Refuse(kFitsNot, "statement", "not an INSERT SELECT", {}, std::move(why));
      return false;
    };
    if (tokens.size() < 3 || !tokens[0].IsWord("INSERT") || !tokens[1].IsWord("INTO")) {
      return not_it("the statement must be INSERT INTO " + rules_.destination.ToString() +
                    " SELECT …");
    }
    if (tokens[2].IsWord("FUNCTION"))
      return not_it("the target must be the destination table, not a table function");
    size_t at = 2;
    PF_ASSIGN(verdict_.target, ReadTableName(tokens, at));
    const auto begins_select = [&tokens](size_t index) {
      while (index < tokens.size() && tokens[index].IsSymbol("(")) ++index;
      return index < tokens.size() &&
             (tokens[index].IsWord("SELECT") || tokens[index].IsWord("WITH"));
    };
    if (at < tokens.size() && tokens[at].IsSymbol("(") && !begins_select(at)) {  // columns
      PF_ASSIGN(at, ClosingBracket(tokens, at));
      ++at;
    }
    while (at < tokens.size() && !begins_select(at)) {
      if (tokens[at].IsWord("FORMAT") || tokens[at].IsWord("VALUES"))
        return not_it("the rows must come from a SELECT, not from data");
      ++at;
    }
    if (at == tokens.size()) return not_it("the rows must come from a SELECT");
    verdict_.select = verdict_.formatted.substr(tokens[at].offset);
    const size_t last = tokens.size() - 1;
    if (last > at && tokens[last - 1].IsWord("FORMAT") && tokens[last - 1].text == "FORMAT" &&
        tokens[last].kind == SqlTokenKind::kWord) {
      Refuse(kFitsNot, "format", "FORMAT " + std::string(tokens[last].text),
             places_.Words({"FORMAT", tokens[last].text}), "an INSERT SELECT answers no rows");
      return false;
    }
    SqlTableName target = verdict_.target;
    if (target.database.empty()) target.database = rules_.database;
    if (target == rules_.destination) return true;
    Refuse(kFitsNot, "target", "INSERT INTO " + verdict_.target.ToString(),
           places_.Table(verdict_.target.ToString()),
           "the job's destination is " + rules_.destination.ToString());
    return true;
  }

  // Names of every SETTINGS clause, at any level: SETTINGS name = value, name = value …
  void CheckSettings(const std::vector<SqlToken>& tokens, std::string_view view) {
    for (size_t i = 0; i + 2 < tokens.size(); ++i) {
      if (tokens[i].text != "SETTINGS" || !tokens[i].IsWord("SETTINGS") ||
          !tokens[i + 2].IsSymbol("="))
        continue;
      size_t at = i + 1;
      while (at + 2 < tokens.size() && tokens[at].IsName() && tokens[at + 1].IsSymbol("=")) {
        JudgeSetting(tokens[at], view);
        at = BehindValue(tokens, at + 2);
        if (at >= tokens.size() || !tokens[at].IsSymbol(",")) break;
        ++at;
      }
    }
  }
  // A value is a literal, maybe signed, or a bracketed one.
  static size_t BehindValue(const std::vector<SqlToken>& tokens, size_t at) {
    for (; at < tokens.size(); ++at) {
      const SqlToken& token = tokens[at];
      if (token.IsSymbol("[") || token.IsSymbol("(") || token.IsSymbol("{")) {
        const auto closing = ClosingBracket(tokens, at);
        return closing.ok() ? *closing + 1 : tokens.size();
      }
      if (!token.IsSymbol("-") && !token.IsSymbol("+")) return at + 1;
    }
    return at;
  }
  void JudgeSetting(const SqlToken& name, std::string_view view) {
    const Result<std::string> value = TokenValue(name);
    const std::string setting = value.ok() ? *value : std::string(name.text);
    const std::string construct = Named("SETTINGS " + setting, view);
    const SqlPlace place = view.empty() ? places_.Words({name.text}) : places_.Table(view);
    switch (JudgeJobSetting(setting)) {
      case SettingVerdict::kFree:
        return;
      case SettingVerdict::kReserved:
        return Refuse(
            kReserved, "setting", construct, place,
            "the job sets it itself; the statement's own clause would win over the job's");
      case SettingVerdict::kRowSet:
        return Unchunk("setting", construct, place,
                       "it changes which rows of the whole table are taken");
      case SettingVerdict::kWarned:
        return Add({.effect = Effect::kWarning,
                    .pf_number = 0,
                    .kind = "setting",
                    .construct = construct,
                    .place = place,
                    .why = "it replaces the block size the job would choose"});
    }
  }

  // What the syntax alone shows, before anything is resolved or evaluated.
  Status CheckAst(const std::string& statement, std::string_view view) {
    PF_ASSIGN(const std::string answer,
              AskEngine(ctx_, engine_, "EXPLAIN AST " + statement, rules_.database, sql_));
    PF_ASSIGN(const std::vector<ExplainNode> ast, ParseExplain(answer, ExplainKind::kAst));
    const AstFunctions functions = FunctionsOf(ast);
    if (!rules_.allows_external_reads) {
      for (const std::string& name : ExternalOf(functions)) {
        Refuse(kOutside, "external_function", Named(fmt::format("function {}()", name), view),
               Place(name, view), "it reads or writes outside the source and destination table");
      }
    }
    for (const std::string& name : functions.table) {
      Unchunk("table_function", Named(fmt::format("table function {}()", name), view),
              Place(name, view), "its rows are not restricted to a range of the source");
    }
    for (const std::string& name : functions.scalar) {
      if (!IsNonDeterministicFunction(name)) continue;
      Add({.effect = Effect::kWarning,
           .pf_number = 0,
           .kind = "non_deterministic",
           .construct = Named(fmt::format("function {}()", name), view),
           .place = Place(name, view),
           .why = "its value differs from run to run, so a repeated attempt gives other rows"});
    }
    for (size_t i = 0; i < ast.size(); ++i) CheckAstNode(ast, i, view);
    return {};
  }

  void CheckAstNode(const std::vector<ExplainNode>& ast, size_t index, std::string_view view) {
    const ExplainNode& node = ast[index];
    const std::string_view above =
        node.parent < 0 ? "" : ast[static_cast<size_t>(node.parent)].Kind();
    if (node.Kind() == "QueryParameter") {
      Refuse(kFitsNot, "parameter", "{" + std::string(node.AstName()) + "}", {},
             "a job gives no values for parameters");
    } else if (node.Kind() == "SelectIntersectExceptQuery") {
      Unchunk("set_operation", Named("INTERSECT or EXCEPT", view),
              view.empty() ? places_.Words({"INTERSECT"}) : places_.Table(view),
              "it chooses among the rows of the whole table");
    } else if (node.Kind() == "Subquery" && above != "TableExpression" && above != "WithElement") {
      Unchunk("subquery", Named("scalar or IN subquery", view), places_.Words({"SELECT"}),
              "its value depends on rows of other ranges");
    } else if (node.Kind() == "Set" && (!view.empty() || !IsTopSettings(ast, index))) {
      Unchunk("inner_settings", Named("SETTINGS inside a subquery", view),
              places_.Words({"SETTINGS"}), "it replaces the settings that restrict the range");
    }
  }

  // The clause behind the last SELECT of the statement, which the parser also hangs below the
  // INSERT.
  static bool IsTopSettings(const std::vector<ExplainNode>& ast, size_t index) {
    const int parent = ast[index].parent;
    if (parent < 0) return true;
    const ExplainNode& above = ast[static_cast<size_t>(parent)];
    if (above.Kind() == "InsertQuery") return true;
    if (above.Kind() != "SelectQuery") return false;
    int subqueries = 0;
    for (int up = above.parent; up >= 0; up = ast[static_cast<size_t>(up)].parent) {
      const std::string_view kind = ast[static_cast<size_t>(up)].Kind();
      if (kind == "Subquery" || kind == "TableExpression" || kind == "Function") ++subqueries;
    }
    if (subqueries > 0) return false;
    // Of several branches only the last one's clause is the statement's.
    for (size_t i = index + 1; i < ast.size(); ++i) {
      if (ast[i].Kind() == "SelectQuery" && ast[i].depth <= above.depth) return false;
    }
    return true;
  }

  // What the resolved query shows. Views are followed into their own SELECT.
  Status CheckQueryTree(const std::string& select, std::string_view view, int depth) {
    PF_ASSIGN(const std::string answer,
              AskEngine(ctx_, engine_, "EXPLAIN QUERY TREE " + select, rules_.database, sql_));
    PF_ASSIGN(const std::vector<ExplainNode> tree, ParseExplain(answer, ExplainKind::kQueryTree));
    std::set<std::string> tables;
    for (size_t i = 0; i < tree.size(); ++i) {
      // Names and types of columns, which may look like anything.
      const int parent = tree[i].parent;
      if (parent >= 0 && tree[static_cast<size_t>(parent)].text == "PROJECTION COLUMNS") continue;
      CheckTreeNode(tree, i, view);
      if (tree[i].Kind() == "TABLE") tables.emplace(tree[i].Attribute("table_name"));
    }
    for (const std::string& table : tables) PF_TRY(FollowTable(table, view, depth));
    return {};
  }

  void CheckTreeNode(const std::vector<ExplainNode>& tree, size_t index, std::string_view view) {
    const ExplainNode& node = tree[index];
    const std::string_view kind = node.Kind();
    constexpr const char* kOthers = "its value depends on rows of other ranges";
    constexpr const char* kWhole = "it chooses among the rows of the whole table";
    if (kind == "FUNCTION") {
      const std::string_view type = node.Attribute("function_type");
      if (type != "aggregate" && type != "window") return;
      const std::string_view name = node.Attribute("function_name");
      Unchunk(fmt::format("{}_function", type),
              Named(fmt::format("{} function {}()", type, name), view), Place(name, view), kOthers);
    } else if (kind == "QUERY") {
      if (node.Attribute("is_distinct") == "1") Clause(view, "distinct", {"DISTINCT"}, kWhole);
      if (node.Attribute("is_recursive_with") == "1")
        Clause(view, "recursive", {"WITH", "RECURSIVE"}, kOthers);
    } else if (kind == "UNION") {
      const std::string_view mode = node.Attribute("union_mode");
      if (mode == "UNION_ALL") return;
      const bool is_union = mode.starts_with("UNION");
      const std::string_view word = is_union ? "UNION" : mode.substr(0, mode.find('_'));
      Unchunk("set_operation", Named(is_union ? "UNION DISTINCT" : std::string(word), view),
              view.empty() ? places_.Words({word}) : places_.Table(view), kWhole);
    } else if (kind == "JOIN" || kind == "CROSS JOIN" || kind == "CROSS_JOIN") {
      Clause(view, "join", {"JOIN"}, "rows of one range would meet only rows of the same range");
    } else if (kind == "TABLE") {
      CheckTableNode(tree, index, view);
    } else if (kind == "COLUMN") {
      const std::string_view name = node.Attribute("column_name");
      if (IsPartNameColumn(name)) part_name_columns_.emplace(name, view);
    } else if (kind == "SORT") {
      if (node.Attribute("with_fill") == "1")
        Clause(view, "with_fill", {"WITH", "FILL"}, "every range would be filled on its own");
    } else if (kind == "GROUP BY") {
      Clause(view, "group_by", {"GROUP", "BY"}, "groups go across ranges");
    } else if (kind == "HAVING") {
      Clause(view, "having", {"HAVING"}, "groups go across ranges");
    } else if (kind == "QUALIFY") {
      Clause(view, "qualify", {"QUALIFY"}, kOthers);
    } else if (kind == "LIMIT BY") {
      Clause(view, "limit_by", {"LIMIT"}, kWhole);
    } else if (kind == "LIMIT") {
      Clause(view, "limit", {"LIMIT"}, kWhole);
    } else if (kind == "OFFSET") {
      Clause(view, "offset", {"OFFSET"}, kWhole);
    }
  }

  void CheckTableNode(const std::vector<ExplainNode>& tree, size_t index, std::string_view view) {
    const ExplainNode& node = tree[index];
    constexpr const char* kWhole = "it chooses among the rows of the whole table";
    if (node.Attribute("final") == "1") Clause(view, "final", {"FINAL"}, kWhole);
    if (!node.Attribute("sample_size").empty()) Clause(view, "sample", {"SAMPLE"}, kWhole);
    const std::string name(node.Attribute("table_name"));
    if (name == "system.one") {
      Unchunk("constant_select", Named("SELECT without a table", view), places_.Words({"SELECT"}),
              "its row would be written once for every range");
      return;
    }
    if (node.parent >= 0 && !HasAbove(tree, index, "JOIN TREE")) {
      Unchunk("subquery", Named("table " + name + " in an expression", view), places_.Table(name),
              "its value depends on rows of other ranges");
    }
  }

  Status FollowTable(const std::string& name, std::string_view view, int depth) {
    if (name == "system.one" || name.empty() || name.starts_with("_temporary_and_external_tables."))
      return {};
    const bool is_new = tables_.insert(name).second;
    if (name == rules_.source.ToString() || !is_new) return {};
    PF_ASSIGN(
        const std::string answer,
        AskEngine(
            ctx_, engine_,
            "SELECT engine, as_select FROM system.tables WHERE concat(database, '.', name) = " +
                QuoteString(name) + " FORMAT JSONCompactEachRow",
            "", sql_));
    std::string engine_name, as_select;
    if (!answer.empty()) {
      PF_ASSIGN(const JsonDoc row, ParseJson(answer.substr(0, answer.find('\n'))));
      if (row.is_array() && row.size() == 2 && row[0].is_string() && row[1].is_string()) {
        engine_name = row[0].get<std::string>();
        as_select = row[1].get<std::string>();
      }
    }
    if (engine_name == "View" && !as_select.empty()) {
      if (depth >= kViewDepthMax) {
        return Status(Code::kRefused,
                      fmt::format("views nest above {} levels: {}", kViewDepthMax, name))
            .Explain(kFitsNot, name, "name the source table itself");
      }
      PF_ASSIGN(const std::vector<SqlToken> tokens, TokenizeSql(as_select));
      CheckSettings(tokens, name);
      PF_TRY(CheckAst(as_select, name));
      return CheckQueryTree(as_select, name, depth + 1);
    }
    Refuse(kFitsNot, "other_table", Named("table " + name, view),
           view.empty() ? places_.Table(name) : places_.Table(view),
           "workers have the source table only: " + rules_.source.ToString());
    return {};
  }

  void CheckTables() {
    verdict_.tables_read.assign(tables_.begin(), tables_.end());
    if (tables_.contains(rules_.source.ToString())) return;
    Refuse(kFitsNot, "source", "SELECT that does not read " + rules_.source.ToString(),
           places_.Words({"FROM"}), "the job's source must be read, or nothing of it would arrive");
  }

  // Virtual columns that say which part a row lies in: a worker attaches every part under one name
  // of its own, so they would have other values there than on the server.
  Status CheckPartNames() {
    if (part_name_columns_.empty()) return {};
    // A table may have a column of its own by that name.
    PF_ASSIGN(const std::string answer,
              AskEngine(ctx_, engine_,
                        fmt::format("SELECT name FROM system.columns WHERE database = {} AND "
                                    "table = {} FORMAT TSVRaw",
                                    QuoteString(rules_.source.database),
                                    QuoteString(rules_.source.table)),
                        "", sql_));
    std::set<std::string> own;
    for (size_t begin = 0; begin < answer.size();) {
      const size_t end = std::min(answer.find('\n', begin), answer.size());
      own.insert(answer.substr(begin, end - begin));
      begin = end + 1;
    }
    for (const auto& [name, view] : part_name_columns_) {
      if (own.contains(name)) continue;
      Refuse(kFitsNot, "virtual_column", Named("virtual column " + name, view),
             view.empty() ? places_.Words({name}) : places_.Table(view),
             "parts have other names where they are rewritten; choose rows by columns of "
             "the table");
    }
    return {};
  }

  // A clause named by its words; in a view the view's name is the place.
  void Clause(std::string_view view, std::string kind, const std::vector<std::string_view>& words,
              const char* why) {
    std::string construct;
    for (const std::string_view word : words)
      construct += (construct.empty() ? "" : " ") + std::string(word);
    if (kind == "limit_by") construct = "LIMIT BY";
    Unchunk(std::move(kind), Named(std::move(construct), view),
            view.empty() ? places_.Words(words) : places_.Table(view), why);
  }
  SqlPlace Place(std::string_view function, std::string_view view) const {
    return view.empty() ? places_.Function(function) : places_.Table(view);
  }
  static std::string Named(std::string construct, std::string_view view) {
    return view.empty() ? construct : fmt::format("{} (in view {})", construct, view);
  }

  const Context& ctx_;
  Engine& engine_;
  const std::string_view sql_;
  const InsertSelectRules& rules_;
  const SqlPlaces places_;
  SqlVerdict verdict_;
  std::vector<SqlToken> formatted_tokens_;  // refers to verdict_.formatted
  std::set<std::string> tables_;
  std::map<std::string, std::string> part_name_columns_;  // name → view that reads it, or ""
};

bool HasEffect(const SqlVerdict& verdict, Effect effect) {
  return std::any_of(verdict.findings.begin(), verdict.findings.end(),
                     [effect](const SqlFinding& finding) { return finding.effect == effect; });
}

Result<std::vector<ExplainNode>> AstOf(const Context& ctx, Engine& engine, std::string_view sql) {
  PF_ASSIGN(const std::string formatted, FormatSql(ctx, engine, sql));
  PF_ASSIGN(const std::string answer, AskEngine(ctx, engine, "EXPLAIN AST " + formatted, "", sql));
  return ParseExplain(answer, ExplainKind::kAst);
}

}  // namespace

bool SqlVerdict::is_accepted() const {
  return !HasEffect(*this, Effect::kRefused);
}
bool SqlVerdict::is_chunkable() const {
  return is_accepted() && !HasEffect(*this, Effect::kNotChunkable);
}

std::vector<std::string> SqlVerdict::Warnings() const {
  std::vector<std::string> warnings;
  for (const SqlFinding& finding : findings) {
    if (finding.effect != Effect::kWarning) continue;
    warnings.push_back(
        fmt::format("{} {}: {}", finding.place.ToString(), finding.construct, finding.why));
  }
  return warnings;
}

Result<SqlVerdict> CheckInsertSelect(const Context& ctx, Engine& engine, std::string_view sql,
                                     const InsertSelectRules& rules) {
  return InsertSelectCheck(ctx, engine, sql, rules).Run();
}

Status RefusalOf(const SqlVerdict& verdict, std::string_view text_name, Chunking chunking) {
  const SqlFinding* first = nullptr;
  std::string all;
  for (const Effect effect : {Effect::kRefused, Effect::kNotChunkable}) {
    if (effect == Effect::kNotChunkable && chunking == Chunking::kOff) continue;
    for (const SqlFinding& finding : verdict.findings) {
      if (finding.effect != effect) continue;
      if (first == nullptr) first = &finding;
      all += fmt::format("{}{} at {}: {}", all.empty() ? "" : "; ", finding.construct,
                         finding.place.ToString(), finding.why);
    }
  }
  if (first == nullptr) return {};
  std::string remedy;
  switch (first->pf_number) {
    case kNotRowLocal:
      remedy =
          "--chunk-unsafe=single runs each part whole; across parts the result would still differ";
      break;
    case kOutside:
      remedy = "take it out, or allow it with --allow-external-reads";
      break;
    case kReserved:
      remedy = "take the setting out of the statement; the job has flags for it";
      break;
    default:
      remedy = "correct the statement";
  }
  return Status(Code::kRefused, all)
      .Explain(first->pf_number,
               fmt::format("{}:{}, {}", text_name, first->place.ToString(), first->construct),
               remedy);
}

Result<SqlClass> ClassifySql(const Context& ctx, Engine& engine, std::string_view sql) {
  PF_ASSIGN(const std::vector<ExplainNode> ast, AstOf(ctx, engine, sql));
  const std::string node(ast.front().Kind());
  return SqlClass{.kind = KindOfRootNode(node), .node = node};
}

Result<std::vector<std::string>> FindExternalFunctions(const Context& ctx, Engine& engine,
                                                       std::string_view sql) {
  PF_ASSIGN(const std::vector<ExplainNode> ast, AstOf(ctx, engine, sql));
  return ExternalOf(FunctionsOf(ast));
}

}  // namespace partforge
