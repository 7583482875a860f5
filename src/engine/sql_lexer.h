#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "engine/sql_text.h"

namespace partforge {

// Cuts a text into tokens one by one, so that a reader can stop where data begins. Places are
// counted on the way. kInvalidArgument, with the place, on a quote, comment or heredoc that never
// ends. Refers to the text.
class SqlLexer {
 public:
  explicit SqlLexer(std::string_view sql) : sql_(sql) {}

  // The next token, empty at the end.
  Result<std::optional<SqlToken>> Next();

 private:
  char Peek(size_t ahead = 0) const { return at_ + ahead < sql_.size() ? sql_[at_ + ahead] : '\0'; }
  bool Looks(std::string_view text) const;

  // Places are asked in growing order, so each line feed is counted once.
  SqlPlace Place(size_t offset);

  Status NeverEnds(std::string_view what, size_t begin);
  Status SkipBlank();
  Status SkipBlockComment();
  Result<SqlTokenKind> Cut();
  bool EndsOperand() const;
  Result<SqlTokenKind> Quoted(SqlTokenKind kind, std::string_view what);
  Result<SqlTokenKind> Curly(std::string_view closing, SqlTokenKind kind, std::string_view what);
  // $tag$ … $tag$; a dollar that opens none is part of a word.
  Result<bool> Heredoc();
  Result<SqlTokenKind> Number(bool digits_only);
  Result<SqlTokenKind> Symbol();

  const std::string_view sql_;
  size_t at_ = 0;
  std::optional<SqlToken> before_;
  size_t counted_ = 0, line_begin_ = 0;
  int64_t line_ = 1;
};

}  // namespace partforge
