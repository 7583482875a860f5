#include "engine/sql_lexer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace partforge {
namespace {

bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}
bool IsWordChar(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || IsDigit(c);
}
char Lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
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

}  // namespace

Result<std::optional<SqlToken>> SqlLexer::Next() {
  PF_TRY(SkipBlank());
  if (at_ >= sql_.size()) return std::optional<SqlToken>();
  const size_t begin = at_;
  const SqlPlace place = Place(begin);
  PF_ASSIGN(const SqlTokenKind kind, Cut());
  before_ = SqlToken{
      .kind = kind, .text = sql_.substr(begin, at_ - begin), .offset = begin, .place = place};
  return before_;
}

bool SqlLexer::Looks(std::string_view text) const {
  return sql_.substr(at_).starts_with(text);
}

SqlPlace SqlLexer::Place(size_t offset) {
  for (; counted_ < offset; ++counted_) {
    if (sql_[counted_] != '\n') continue;
    ++line_;
    line_begin_ = counted_ + 1;
  }
  return {.line = line_, .column = static_cast<int64_t>(offset - line_begin_) + 1};
}

Status SqlLexer::NeverEnds(std::string_view what, size_t begin) {
  return Status(Code::kInvalidArgument, fmt::format("SQL text: {} that begins at {} never ends",
                                                    what, PlaceAt(sql_, begin).ToString()));
}

Status SqlLexer::SkipBlank() {
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

Status SqlLexer::SkipBlockComment() {
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

Result<SqlTokenKind> SqlLexer::Cut() {
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
  const bool follows_dot = IsDigit(c) && before_ && before_->IsSymbol(".") && before_->end() == at_;
  if (IsDigit(c) || (c == '.' && IsDigit(Peek(1)) && !EndsOperand())) return Number(follows_dot);
  if (IsWordChar(c) || c == '$') {
    while (IsWordChar(Peek()) || Peek() == '$') ++at_;
    return SqlTokenKind::kWord;
  }
  return Symbol();
}

bool SqlLexer::EndsOperand() const {
  if (!before_ || before_->end() != at_) return false;
  return before_->kind != SqlTokenKind::kSymbol || before_->text == ")" || before_->text == "]";
}

Result<SqlTokenKind> SqlLexer::Quoted(SqlTokenKind kind, std::string_view what) {
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

Result<SqlTokenKind> SqlLexer::Curly(std::string_view closing, SqlTokenKind kind,
                                     std::string_view what) {
  const size_t found = sql_.find(closing, at_ + 3);
  if (found == std::string_view::npos) return NeverEnds(what, at_);
  at_ = found + closing.size();
  return kind;
}

Result<bool> SqlLexer::Heredoc() {
  size_t end = at_ + 1;
  while (end < sql_.size() && IsWordChar(sql_[end])) ++end;
  if (end >= sql_.size() || sql_[end] != '$') return false;
  const std::string_view tag = sql_.substr(at_, end + 1 - at_);
  const size_t found = sql_.find(tag, end + 1);
  if (found == std::string_view::npos) return false;
  at_ = found + tag.size();
  return true;
}

Result<SqlTokenKind> SqlLexer::Number(bool digits_only) {
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

Result<SqlTokenKind> SqlLexer::Symbol() {
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

}  // namespace partforge
