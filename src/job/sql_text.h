#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace partforge {

enum class SqlDialect : uint8_t { kSqlite, kPostgres };

// One statement of the state schema, written once for both databases: `:name` parameters and
// {macros} (specs state-schema §1, "Statements"). Constants only: drivers keep what they prepare by
// the address of `name`.
struct SqlStatement {
  std::string_view name;
  std::string_view text;
};

// Replaces the macros by what they mean to the database. Braces that are no macro of ours stay
// ('{}' is JSON).
std::string ExpandMacros(std::string_view text, SqlDialect dialect);

// The same statement with `$1`, `$2`, … and the parameters' names in that order; a name that stands
// twice is one parameter. Text in single quotes and casts (`::bigint`) are left alone.
struct PositionalSql {
  std::string sql;
  std::vector<std::string> names;
};
PositionalSql ToPositional(std::string_view sql);

}  // namespace partforge
