#pragma once

#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "engine/sql_text.h"

namespace partforge::clickhouse {

// Walks the tokens of one statement. `sql` and the tokens must outlive it. One thread at a time.
class SqlCursor {
 public:
  SqlCursor(std::string_view sql, const std::vector<SqlToken>& tokens, size_t begin, size_t end)
      : sql_(sql), tokens_(tokens), at_(begin), end_(end) {}

  bool at_end() const { return at_ >= end_; }
  size_t index() const { return at_; }
  void MoveTo(size_t index) { at_ = index; }
  // Requires !at_end().
  const SqlToken& current() const { return tokens_[at_]; }

  // True, and behind them, when the next tokens are exactly these words.
  bool TakeWords(std::initializer_list<std::string_view> words);
  bool LooksAtWords(std::initializer_list<std::string_view> words) const;
  bool TakeSymbol(std::string_view symbol);
  bool LooksAtSymbol(std::string_view symbol) const;
  bool LooksAtString() const;
  Result<std::string> TakeName();
  // A string literal as written, quotes included.
  Result<std::string> TakeString();
  // The text between the bracket at the cursor and the one that closes it; behind it afterwards.
  Result<std::string> TakeBracketed();
  // Index of the closing bracket of the one at the cursor.
  Result<size_t> Closing() const;

  // Tokens [begin, end) as they stand in the statement; "" when there are none.
  std::string TextOf(size_t begin, size_t end) const;
  // "expected <what>, found <token> at <line:column>".
  Status Expected(std::string_view what) const;

 private:
  std::string_view sql_;
  const std::vector<SqlToken>& tokens_;
  size_t at_;
  size_t end_;
};

// True when an expression may end with this token, so that a keyword behind it begins a new clause.
bool EndsOperand(const SqlToken& token);

// Splits tokens [begin, end) at the commas that stand in no bracket. Empty for an empty range.
struct TokenRange {
  size_t begin = 0, end = 0;
};
Result<std::vector<TokenRange>> SplitAtCommas(const std::vector<SqlToken>& tokens, size_t begin,
                                              size_t end);

}  // namespace partforge::clickhouse
