#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/context.h"
#include "engine/engine.h"
#include "engine/sql_text.h"

namespace partforge {

// What the engine's own parser and analyser say about the INSERT SELECT of a rewrite job
// (clickhouse-parts §9.1, §9.2, §12.3). The engine must hold the source and the destination table
// (empty ones do), so that names resolve.

struct InsertSelectRules {
  SqlTableName source = {}, destination = {};  // both with their databases
  std::string database = {};           // current database of the statement; empty = the engine's
  bool allows_external_reads = false;  // --allow-external-reads
};

struct SqlFinding {
  enum class Effect : uint8_t {
    kRefused,       // the job is refused
    kNotChunkable,  // right for a whole part only (PF2114)
    kWarning,       // allowed, listed with the job
  };
  Effect effect = Effect::kRefused;
  int pf_number = 0;      // 2105, 2113, 2114, 2115; 0 for warnings
  std::string kind;       // "window_function", "group_by", "table_function", …: for machines
  std::string construct;  // "window function row_number()": for people
  SqlPlace place;         // where it stands in the user's text; 1:1 when it cannot be told
  std::string why;
};

struct SqlVerdict {
  SqlTableName target;                   // as the INSERT names it
  std::vector<std::string> tables_read;  // "db.table", resolved, sorted; views and what they read
  std::vector<SqlFinding> findings;      // in the order of the text
  std::string formatted;                 // the statement as the engine formats it
  std::string select;                    // its SELECT alone

  bool is_accepted() const;                   // no finding refuses
  bool is_chunkable() const;                  // accepted, and no finding forbids ranges
  std::vector<std::string> Warnings() const;  // "insert.sql:3:5 rand(): …"
};

// kInvalidArgument (PF2106) when the text does not parse or does not resolve against the tables;
// the engine's message is the cause. External reads are found before anything is evaluated: the
// analyser runs constant expressions.
Result<SqlVerdict> CheckInsertSelect(const Context& ctx, Engine& engine, std::string_view sql,
                                     const InsertSelectRules& rules);

// The verdict as what a command says: OK, or kRefused with the first finding's number and place,
// all findings in the message. `text_name` is the file or flag the SQL came from.
enum class Chunking : uint8_t { kOff, kOn };
Status RefusalOf(const SqlVerdict& verdict, std::string_view text_name, Chunking chunking);

// What kind of statement a text is, by the engine's parser.
enum class SqlKind : uint8_t {
  kRead,  // answers rows and changes nothing
  kInsert,
  kMutation,    // DELETE, UPDATE, TRUNCATE, OPTIMIZE, ALTER
  kDefinition,  // CREATE, DROP, ATTACH, DETACH, RENAME, EXCHANGE, UNDROP
  kControl,     // SET, USE, SYSTEM, KILL, GRANT, BACKUP and whatever else
};
struct SqlClass {
  SqlKind kind = SqlKind::kControl;
  std::string node;  // the root of EXPLAIN AST, e.g. "CreateQuery"
};
// kInvalidArgument (PF2106) when the text is not exactly one statement the engine parses.
Result<SqlClass> ClassifySql(const Context& ctx, Engine& engine, std::string_view sql);

// Functions and table functions of a statement that reach beyond the engine's tables (files,
// network, programs, dictionaries): their names, as written. For DDL texts, whose defaults may call
// them. kInvalidArgument as above.
Result<std::vector<std::string>> FindExternalFunctions(const Context& ctx, Engine& engine,
                                                       std::string_view sql);

}  // namespace partforge
