#include "engine/sql_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

namespace partforge {
namespace {

constexpr size_t kIdentifierBytesMax = 200;

bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}
bool IsWordChar(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || IsDigit(c);
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

// Bytes of a white space that is not ASCII, as the engine's lexer skips them; 0 when there is none
// at `at`.
size_t UnicodeSpaceBytes(std::string_view sql, size_t at) {
  static constexpr std::array<std::string_view, 18> kSpaces = {
      "\xC2\x85",     "\xC2\xA0",     "\xE1\xA0\x8E", "\xE2\x80\x80", "\xE2\x80\x81",
      "\xE2\x80\x82", "\xE2\x80\x83", "\xE2\x80\x84", "\xE2\x80\x85", "\xE2\x80\x86",
      "\xE2\x80\x87", "\xE2\x80\x88", "\xE2\x80\x89", "\xE2\x80\x8A", "\xE2\x80\xAF",
      "\xE2\x81\x9F", "\xE3\x80\x80", "\xEF\xBB\xBF"};
  for (const std::string_view space : kSpaces) {
    if (sql.substr(at).starts_with(space)) return space.size();
  }
  return 0;
}

class Lexer {
 public:
  explicit Lexer(std::string_view sql) : sql_(sql) {}

  // The next token, empty at the end.
  Result<std::optional<SqlToken>> Next() {
    PF_TRY(SkipBlank());
    if (at_ >= sql_.size()) return std::optional<SqlToken>();
    const size_t begin = at_;
    const SqlPlace place = Place(begin);
    PF_ASSIGN(const SqlTokenKind kind, Cut());
    before_ = SqlToken{
        .kind = kind, .text = sql_.substr(begin, at_ - begin), .offset = begin, .place = place};
    return before_;
  }

 private:
  char Peek(size_t ahead = 0) const { return at_ + ahead < sql_.size() ? sql_[at_ + ahead] : '\0'; }
  bool Looks(std::string_view text) const { return sql_.substr(at_).starts_with(text); }

  // Places are asked in growing order, so each line feed is counted once.
  SqlPlace Place(size_t offset) {
    for (; counted_ < offset; ++counted_) {
      if (sql_[counted_] != '\n') continue;
      ++line_;
      line_begin_ = counted_ + 1;
    }
    return {.line = line_, .column = static_cast<int64_t>(offset - line_begin_) + 1};
  }

  Status NeverEnds(std::string_view what, size_t begin) {
    return Status(Code::kInvalidArgument, fmt::format("SQL text: {} that begins at {} never ends",
                                                      what, PlaceAt(sql_, begin).ToString()));
  }

  Status SkipBlank() {
    while (at_ < sql_.size()) {
      const char c = sql_[at_];
      if (c == ' ' || (c >= '\t' && c <= '\r')) {
        ++at_;
      } else if (Looks("--") || Looks("# ") || Looks("#!")) {
        at_ = std::min(sql_.find('\n', at_), sql_.size());
      } else if (Looks("/*")) {
        PF_TRY(SkipBlockComment());
      } else if (const size_t bytes = UnicodeSpaceBytes(sql_, at_); bytes > 0) {
        at_ += bytes;
      } else {
        break;
      }
    }
    return {};
  }

  Status SkipBlockComment() {
    const size_t begin = at_;
    int64_t depth = 0;
    while (at_ < sql_.size()) {
      if (Looks("/*")) {
        ++depth;
        at_ += 2;
      } else if (Looks("*/")) {
        at_ += 2;
        if (--depth == 0) return {};
      } else {
        ++at_;
      }
    }
    return NeverEnds("a comment", begin);
  }

  Result<SqlTokenKind> Cut() {
    const char c = Peek();
    if (c == '\'') return Quoted(SqlTokenKind::kString, "a string");
    if (c == '`' || c == '"') return Quoted(SqlTokenKind::kQuotedName, "a quoted name");
    if (Looks("\xE2\x80\x98")) return Curly("\xE2\x80\x99", SqlTokenKind::kString, "a string");
    if (Looks("\xE2\x80\x9C"))
      return Curly("\xE2\x80\x9D", SqlTokenKind::kQuotedName, "a quoted name");
    if (c == '$') {
      PF_ASSIGN(const bool is_heredoc, Heredoc());
      if (is_heredoc) return SqlTokenKind::kString;
    }
    // After a name and a dot a digit is a tuple element or a name such as t.1: the engine's lexer
    // takes digits only.
    const bool follows_dot = before_ && before_->IsSymbol(".") && before_->end() == at_;
    if (IsDigit(c) || (c == '.' && IsDigit(Peek(1)) && !EndsOperand())) return Number(follows_dot);
    if (IsWordChar(c) || c == '$') {
      while (IsWordChar(Peek()) || Peek() == '$') ++at_;
      return SqlTokenKind::kWord;
    }
    return Symbol();
  }

  bool EndsOperand() const {
    if (!before_ || before_->end() != at_) return false;
    return before_->kind != SqlTokenKind::kSymbol || before_->text == ")" || before_->text == "]";
  }

  Result<SqlTokenKind> Quoted(SqlTokenKind kind, std::string_view what) {
    const size_t begin = at_;
    const char quote = sql_[at_++];
    while (at_ < sql_.size()) {
      const char c = sql_[at_++];
      if (c == '\\') {
        ++at_;
      } else if (c == quote) {
        if (Peek() != quote) return kind;
        ++at_;
      }
    }
    return NeverEnds(what, begin);
  }

  Result<SqlTokenKind> Curly(std::string_view closing, SqlTokenKind kind, std::string_view what) {
    const size_t found = sql_.find(closing, at_ + 3);
    if (found == std::string_view::npos) return NeverEnds(what, at_);
    at_ = found + closing.size();
    return kind;
  }

  // $tag$ … $tag$; a dollar that opens none is part of a word.
  Result<bool> Heredoc() {
    size_t end = at_ + 1;
    while (end < sql_.size() && IsWordChar(sql_[end])) ++end;
    if (end >= sql_.size() || sql_[end] != '$') return false;
    const std::string_view tag = sql_.substr(at_, end + 1 - at_);
    const size_t found = sql_.find(tag, end + 1);
    if (found == std::string_view::npos) return false;
    at_ = found + tag.size();
    return true;
  }

  Result<SqlTokenKind> Number(bool digits_only) {
    const size_t begin = at_;
    if (digits_only) {
      while (IsDigit(Peek())) ++at_;
    } else if (Peek() == '0' && (Lower(Peek(1)) == 'x' || Lower(Peek(1)) == 'b')) {
      at_ += 2;
      while (IsWordChar(Peek())) ++at_;
    } else {
      while (IsDigit(Peek()) || (Peek() == '_' && IsDigit(Peek(1)))) ++at_;
      if (Peek() == '.') {
        ++at_;
        while (IsDigit(Peek()) || (Peek() == '_' && IsDigit(Peek(1)))) ++at_;
      }
      if (Lower(Peek()) == 'e') {
        const size_t sign = Peek(1) == '+' || Peek(1) == '-' ? 1 : 0;
        if (IsDigit(Peek(1 + sign))) {
          at_ += 1 + sign;
          while (IsDigit(Peek())) ++at_;
        }
      }
    }
    // 1abc is a word to the engine (a name may begin with digits).
    if (!IsWordChar(Peek())) return SqlTokenKind::kNumber;
    if (sql_.substr(begin, at_ - begin).find('.') != std::string_view::npos)
      return SqlTokenKind::kNumber;
    while (IsWordChar(Peek()) || Peek() == '$') ++at_;
    return SqlTokenKind::kWord;
  }

  Result<SqlTokenKind> Symbol() {
    static constexpr std::array<std::string_view, 12> kLong = {
        "<=>", "::", "->", "<=", ">=", "!=", "<>", "==", "||", "@@", "\\G", "\xE2\x88\x92"};
    for (const std::string_view symbol : kLong) {
      if (!Looks(symbol)) continue;
      at_ += symbol.size();
      return SqlTokenKind::kSymbol;
    }
    ++at_;
    while (at_ < sql_.size() && (static_cast<unsigned char>(sql_[at_]) & 0xC0U) == 0x80U)
      ++at_;  // whole code points
    return SqlTokenKind::kSymbol;
  }

  const std::string_view sql_;
  size_t at_ = 0;
  std::optional<SqlToken> before_;
  size_t counted_ = 0, line_begin_ = 0;
  int64_t line_ = 1;
};

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

// Reads the head of an INSERT token by token, never looking behind FORMAT x or VALUES.
class InsertHeadReader {
 public:
  explicit InsertHeadReader(std::string_view text) : text_(text), lexer_(text) { Step(); }

  std::optional<InsertHead> Read() {
    if (!Takes("INSERT") || !Takes("INTO")) return std::nullopt;
    Takes("TABLE");
    if (!token_ || !token_->IsName() || token_->IsWord("FUNCTION")) return std::nullopt;
    Step();
    if (token_ && token_->IsSymbol(".")) {
      Step();
      if (!token_ || !token_->IsName()) return std::nullopt;
      Step();
    }
    if (token_ && token_->IsSymbol("(") && !SkipBrackets()) return std::nullopt;
    if (token_ && token_->IsWord("SETTINGS") && !SkipSettings()) return std::nullopt;
    if (is_broken_) return std::nullopt;
    return End();
  }

 private:
  void Step() {
    if (token_) end_ = token_->end();
    auto next = lexer_.Next();
    is_broken_ = is_broken_ || !next.ok();
    token_ = next.ok() ? *next : std::nullopt;
  }
  bool Takes(std::string_view word) {
    const bool is_it = token_ && token_->IsWord(word);
    if (is_it) Step();
    return is_it;
  }
  // False for the bracket of a SELECT, or one that does not close.
  bool SkipBrackets() {
    int64_t depth = 0;
    for (; token_; Step()) {
      if (token_->IsSymbol("(")) ++depth;
      if (token_->IsSymbol(")") && --depth == 0) {
        Step();
        return true;
      }
      if (token_->IsWord("SELECT") || token_->IsWord("WITH")) return false;
    }
    return false;
  }
  bool SkipSettings() {
    Step();
    for (; token_; Step()) {
      if (token_->IsWord("FORMAT") || token_->IsWord("VALUES")) return true;
      if (token_->IsWord("SELECT") || token_->IsWord("WITH")) return false;
    }
    return true;
  }

  std::optional<InsertHead> End() {
    InsertHead head{.head = text_.substr(0, end_), .format = "", .data_offset = text_.size()};
    if (!token_ || token_->IsSymbol(";")) return head;
    if (token_->IsWord("VALUES")) {
      head.format = "Values";
      head.data_offset = token_->end();
      return head;
    }
    if (!Takes("FORMAT") || !token_ || token_->kind != SqlTokenKind::kWord) return std::nullopt;
    head.format = token_->text;
    size_t at = token_->end();
    while (at < text_.size() && (text_[at] == ' ' || text_[at] == '\t' || text_[at] == '\f')) ++at;
    if (at < text_.size() && text_[at] == ';') ++at;
    if (at < text_.size() && text_[at] == '\r') ++at;
    if (at < text_.size() && text_[at] == '\n') ++at;
    head.data_offset = at;
    return head;
  }

  const std::string_view text_;
  Lexer lexer_;
  std::optional<SqlToken> token_;
  size_t end_ = 0;  // of the token before
  bool is_broken_ = false;
};

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
  Lexer lexer(sql);
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

Result<std::vector<std::string_view>> SplitStatements(std::string_view sql) {
  PF_ASSIGN(const std::vector<SqlToken> tokens, TokenizeSql(sql));
  std::vector<std::string_view> statements;
  size_t begin = 0, end = 0;  // equal while a statement has no token yet
  for (const SqlToken& token : tokens) {
    if (!token.IsSymbol(";")) {
      if (begin == end) begin = token.offset;
      end = token.end();
      continue;
    }
    if (begin < end) statements.push_back(sql.substr(begin, end - begin));
    begin = end;
  }
  if (begin < end) statements.push_back(sql.substr(begin, end - begin));
  return statements;
}

std::optional<InsertHead> FindInsertHead(std::string_view text) {
  return InsertHeadReader(text).Read();
}

SqlPlace PlaceAt(std::string_view sql, size_t offset) {
  const std::string_view before = sql.substr(0, offset);
  const size_t line_feed = before.rfind('\n');
  const size_t line_begin = line_feed == std::string_view::npos ? 0 : line_feed + 1;
  return {.line = 1 + std::count(before.begin(), before.end(), '\n'),
          .column = static_cast<int64_t>(before.size() - line_begin) + 1};
}

}  // namespace partforge
