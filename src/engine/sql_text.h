#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace partforge {

// Text of ClickHouse SQL, cut the way the engine's own lexer cuts it. Nothing here understands SQL:
// what a statement means is asked from the engine (sql_check.h); rewriting a DDL text works on
// these tokens. All pure.

// The name between backquotes, for any bytes: `a`, `we\`ird`.
std::string QuoteIdentifier(std::string_view name);
// `db`.`table`, or only the table when `database` is empty.
std::string QuoteTable(std::string_view database, std::string_view table);
// The text between single quotes, for any bytes: 'a', 'it\'s'.
std::string QuoteString(std::string_view text);
// kInvalidArgument for a name we never send: empty, above 200 bytes, or with a NUL (user-experience
// §10).
Status CheckIdentifier(std::string_view name);

struct SqlPlace {
  int64_t line = 1, column = 1;  // both from 1; columns count bytes
  std::string ToString() const;  // "7:3"
};

enum class SqlTokenKind : uint8_t {
  kWord,        // bare word: keyword, name, function
  kQuotedName,  // `x` or "x"
  kString,      // 'x', or a heredoc $tag$x$tag$
  kNumber,
  kSymbol,  // one operator or bracket; "::", "->", "<=", "||" and the like are one token
};

// A piece of the text it was cut from, which must outlive it.
struct SqlToken {
  SqlTokenKind kind = SqlTokenKind::kSymbol;
  std::string_view text;  // as written, quotes included
  size_t offset = 0;      // of its first byte
  SqlPlace place;

  size_t end() const { return offset + text.size(); }
  // True for a bare word equal to `word` (ASCII, any case). A quoted name is never a keyword.
  bool IsWord(std::string_view word) const;
  bool IsSymbol(std::string_view symbol) const {
    return kind == SqlTokenKind::kSymbol && text == symbol;
  }
  bool IsName() const { return kind == SqlTokenKind::kWord || kind == SqlTokenKind::kQuotedName; }
};

// Cuts a text into tokens; white space and comments (-- … , # …, /* … */, nested) are left out.
// kInvalidArgument, with the place, on a quote, comment or heredoc that never ends; at most
// kSqlBytesMax bytes.
inline constexpr size_t kSqlBytesMax = size_t{64} << 20;
Result<std::vector<SqlToken>> TokenizeSql(std::string_view sql);

// The value of a name (bare or quoted) or of a string literal: quotes taken off, escapes and
// doubled quotes resolved. kInvalidArgument for another kind of token or a broken escape.
Result<std::string> TokenValue(const SqlToken& token);

// Index of the bracket that closes the one at `open` ("(", "[" or "{"), counting only brackets of
// its own kind. kInvalidArgument when it never closes or `open` is no bracket.
Result<size_t> ClosingBracket(const std::vector<SqlToken>& tokens, size_t open);

// Reads `name` or `database.name` at `*index` and moves the index behind it. kInvalidArgument
// elsewhere.
struct SqlTableName {
  std::string database, table;  // database is empty when not given
  bool operator==(const SqlTableName&) const = default;
  std::string ToString() const {
    return database.empty() ? table : database + "." + table;
  }  // for people
};
Result<SqlTableName> ReadTableName(const std::vector<SqlToken>& tokens, size_t& index);

// The place of a byte offset in `sql`.
SqlPlace PlaceAt(std::string_view sql, size_t offset);

}  // namespace partforge
