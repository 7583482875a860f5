#include "engine/sql_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "engine/sql_lexer.h"

namespace partforge {
namespace {

constexpr size_t kIdentifierBytesMax = 200;

bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}
char Lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

std::string Quote(std::string_view text, char quote) {
  std::string quoted(1, quote);
  for (const char c : text) {
    switch (c) {
      case '\0':
        quoted += "\\0";
        break;
      case '\n':
        quoted += "\\n";
        break;
      case '\r':
        quoted += "\\r";
        break;
      case '\t':
        quoted += "\\t";
        break;
      case '\\':
        quoted += "\\\\";
        break;
      default:
        if (c == quote) quoted += '\\';
        quoted += c;
    }
  }
  quoted += quote;
  return quoted;
}

std::optional<unsigned> HexDigit(char c) {
  if (IsDigit(c)) return static_cast<unsigned>(c - '0');
  const char low = Lower(c);
  if (low >= 'a' && low <= 'f') return static_cast<unsigned>(low - 'a' + 10);
  return std::nullopt;
}

// Resolves one escape; `at` stands on the byte after the backslash and is moved behind the escape.
Result<std::string> Unescape(std::string_view body, size_t& at) {
  if (at >= body.size())
    return Status(Code::kInvalidArgument, "SQL text: an escape without a character");
  const char c = body[at++];
  switch (c) {
    case 'a':
      return std::string("\a");
    case 'b':
      return std::string("\b");
    case 'e':
      return std::string("\x1B");
    case 'f':
      return std::string("\f");
    case 'n':
      return std::string("\n");
    case 'r':
      return std::string("\r");
    case 't':
      return std::string("\t");
    case 'v':
      return std::string("\v");
    case '0':
      return std::string(1, '\0');
    case 'N':
      return std::string();
    case 'x': {
      const auto high = at < body.size() ? HexDigit(body[at]) : std::nullopt;
      const auto low = at + 1 < body.size() ? HexDigit(body[at + 1]) : std::nullopt;
      if (!high || !low)
        return Status(Code::kInvalidArgument, "SQL text: \\x without two hexadecimal digits");
      at += 2;
      return std::string(1, static_cast<char>(*high * 16 + *low));
    }
    case '\\':
    case '\'':
    case '"':
    case '`':
    case '/':
    case '=':
      return std::string(1, c);
    default:
      return std::string("\\") + c;  // an unknown escape keeps its backslash
  }
}

}  // namespace

std::string QuoteIdentifier(std::string_view name) {
  return Quote(name, '`');
}

std::string QuoteTable(std::string_view database, std::string_view table) {
  if (database.empty()) return QuoteIdentifier(table);
  return QuoteIdentifier(database) + "." + QuoteIdentifier(table);
}

std::string QuoteString(std::string_view text) {
  return Quote(text, '\'');
}

Status CheckIdentifier(std::string_view name) {
  if (name.empty()) return Status(Code::kInvalidArgument, "name is empty");
  if (name.size() > kIdentifierBytesMax) {
    return Status(Code::kInvalidArgument,
                  fmt::format("name above {} bytes: {}", kIdentifierBytesMax, name.size()));
  }
  if (name.find('\0') != std::string_view::npos) {
    return Status(Code::kInvalidArgument,
                  fmt::format("name with a NUL byte: {}", QuoteIdentifier(name)));
  }
  return {};
}

std::string SqlPlace::ToString() const {
  return fmt::format("{}:{}", line, column);
}

bool SqlToken::IsWord(std::string_view word) const {
  if (kind != SqlTokenKind::kWord || text.size() != word.size()) return false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (Lower(text[i]) != Lower(word[i])) return false;
  }
  return true;
}

Result<std::vector<SqlToken>> TokenizeSql(std::string_view sql) {
  if (sql.size() > kSqlBytesMax) {
    return Status(Code::kInvalidArgument,
                  fmt::format("SQL text above {} bytes: {}", kSqlBytesMax, sql.size()));
  }
  std::vector<SqlToken> tokens;
  SqlLexer lexer(sql);
  while (true) {
    PF_ASSIGN(const std::optional<SqlToken> token, lexer.Next());
    if (!token) return tokens;
    tokens.push_back(*token);
  }
}

Result<std::string> TokenValue(const SqlToken& token) {
  if (token.kind == SqlTokenKind::kWord) return std::string(token.text);
  if (token.kind != SqlTokenKind::kQuotedName && token.kind != SqlTokenKind::kString) {
    return Status(Code::kInvalidArgument,
                  fmt::format("SQL text: expected a name or a string at {}, found {}",
                              token.place.ToString(), token.text));
  }
  if (token.text.starts_with('$')) {  // heredoc: taken as it stands
    const size_t tag = token.text.find('$', 1) + 1;
    return std::string(token.text.substr(tag, token.text.size() - 2 * tag));
  }
  if (token.text.starts_with('\xE2'))
    return std::string(token.text.substr(3, token.text.size() - 6));
  const char quote = token.text.front();
  const std::string_view body = token.text.substr(1, token.text.size() - 2);
  std::string value;
  for (size_t at = 0; at < body.size();) {
    const char c = body[at++];
    if (c == '\\') {
      PF_ASSIGN(const std::string resolved, Unescape(body, at));
      value += resolved;
    } else {
      if (c == quote) ++at;  // a doubled quote
      value += c;
    }
  }
  return value;
}

Result<size_t> ClosingBracket(const std::vector<SqlToken>& tokens, size_t open) {
  static constexpr std::array<std::array<std::string_view, 2>, 3> kPairs = {
      {{"(", ")"}, {"[", "]"}, {"{", "}"}}};
  for (const auto& [opening, closing] : kPairs) {
    if (open >= tokens.size() || !tokens[open].IsSymbol(opening)) continue;
    int64_t depth = 0;
    for (size_t i = open; i < tokens.size(); ++i) {
      if (tokens[i].IsSymbol(opening)) ++depth;
      if (tokens[i].IsSymbol(closing) && --depth == 0) return i;
    }
    return Status(Code::kInvalidArgument, fmt::format("SQL text: the bracket at {} never closes",
                                                      tokens[open].place.ToString()));
  }
  return Status(Code::kInvalidArgument, "SQL text: expected an opening bracket");
}

Result<SqlTableName> ReadTableName(const std::vector<SqlToken>& tokens, size_t& index) {
  if (index >= tokens.size() || !tokens[index].IsName()) {
    const std::string found = index < tokens.size() ? fmt::format("{} at {}", tokens[index].text,
                                                                  tokens[index].place.ToString())
                                                    : "the end";
    return Status(Code::kInvalidArgument,
                  fmt::format("SQL text: expected a table's name, found {}", found));
  }
  SqlTableName name;
  PF_ASSIGN(name.table, TokenValue(tokens[index++]));
  if (index + 1 < tokens.size() && tokens[index].IsSymbol(".") && tokens[index + 1].IsName()) {
    name.database = std::move(name.table);
    PF_ASSIGN(name.table, TokenValue(tokens[index + 1]));
    index += 2;
  }
  return name;
}

SqlPlace PlaceAt(std::string_view sql, size_t offset) {
  const std::string_view before = sql.substr(0, offset);
  const size_t line_feed = before.rfind('\n');
  const size_t line_begin = line_feed == std::string_view::npos ? 0 : line_feed + 1;
  return {.line = 1 + std::count(before.begin(), before.end(), '\n'),
          .column = static_cast<int64_t>(before.size() - line_begin) + 1};
}

}  // namespace partforge
