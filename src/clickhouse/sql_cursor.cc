#include "clickhouse/sql_cursor.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace partforge::clickhouse {

bool SqlCursor::LooksAtWords(std::initializer_list<std::string_view> words) const {
  size_t i = at_;
  for (const std::string_view word : words) {
    if (i >= end_ || !tokens_[i].IsWord(word)) return false;
    ++i;
  }
  return true;
}

bool SqlCursor::TakeWords(std::initializer_list<std::string_view> words) {
  if (!LooksAtWords(words)) return false;
  at_ += words.size();
  return true;
}

bool SqlCursor::LooksAtSymbol(std::string_view symbol) const {
  return at_ < end_ && tokens_[at_].IsSymbol(symbol);
}

bool SqlCursor::TakeSymbol(std::string_view symbol) {
  if (!LooksAtSymbol(symbol)) return false;
  ++at_;
  return true;
}

bool SqlCursor::LooksAtString() const {
  return at_ < end_ && tokens_[at_].kind == SqlTokenKind::kString;
}

Result<std::string> SqlCursor::TakeName() {
  if (at_end() || !current().IsName()) return Expected("a name");
  return TokenValue(tokens_[at_++]);
}

Result<std::string> SqlCursor::TakeString() {
  if (!LooksAtString()) return Expected("a string");
  return std::string(tokens_[at_++].text);
}

Result<size_t> SqlCursor::Closing() const {
  if (at_end()) return Expected("a bracket");
  PF_ASSIGN(const size_t close, ClosingBracket(tokens_, at_));
  if (close >= end_) return Expected("a bracket that closes");
  return close;
}

Result<std::string> SqlCursor::TakeBracketed() {
  if (!LooksAtSymbol("(")) return Expected("(");
  PF_ASSIGN(const size_t close, Closing());
  std::string text = TextOf(at_ + 1, close);
  at_ = close + 1;
  return text;
}

std::string SqlCursor::TextOf(size_t begin, size_t end) const {
  if (begin >= end) return "";
  const size_t from = tokens_[begin].offset;
  return std::string(sql_.substr(from, tokens_[end - 1].end() - from));
}

Status SqlCursor::Expected(std::string_view what) const {
  if (at_end()) {
    return Status(Code::kInvalidArgument,
                  fmt::format("SQL text: expected {}, found the end", what));
  }
  return Status(Code::kInvalidArgument,
                fmt::format("SQL text: expected {}, found {} at {}", what,
                            current().text.substr(0, 100), current().place.ToString()));
}

bool EndsOperand(const SqlToken& token) {
  if (token.kind == SqlTokenKind::kSymbol) {
    return token.text == ")" || token.text == "]" || token.text == "}" || token.text == "*";
  }
  // Operators that are words: an operand must follow.
  constexpr std::array kOperators = {"AND",  "OR",   "NOT",      "IN",   "LIKE",    "ILIKE",  "IS",
                                     "CASE", "WHEN", "THEN",     "ELSE", "BETWEEN", "GLOBAL", "DIV",
                                     "MOD",  "AS",   "INTERVAL", "BY",   "WHERE",   "SET"};
  return std::none_of(kOperators.begin(), kOperators.end(),
                      [&](const char* word) { return token.IsWord(word); });
}

Result<std::vector<TokenRange>> SplitAtCommas(const std::vector<SqlToken>& tokens, size_t begin,
                                              size_t end) {
  std::vector<TokenRange> ranges;
  if (begin >= end) return ranges;
  size_t from = begin;
  for (size_t i = begin; i < end; ++i) {
    const SqlToken& token = tokens[i];
    if (token.IsSymbol("(") || token.IsSymbol("[") || token.IsSymbol("{")) {
      PF_ASSIGN(i, ClosingBracket(tokens, i));
    } else if (token.IsSymbol(",")) {
      ranges.push_back({.begin = from, .end = i});
      from = i + 1;
    }
  }
  ranges.push_back({.begin = from, .end = end});
  return ranges;
}

}  // namespace partforge::clickhouse
