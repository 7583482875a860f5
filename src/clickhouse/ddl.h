#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace partforge::clickhouse {

struct TableName {
  std::string database;  // "" = not qualified
  std::string table;
  std::string ToSql() const;     // quoted where needed: db.`my table`
  std::string ToString() const;  // db.table, for labels and messages
  bool operator==(const TableName&) const = default;
};

// Texts are taken from the statement as they stand, without comments around them; "" = clause
// absent.
struct ColumnDefinition {
  std::string name;  // unquoted
  std::string type;
  std::string null_modifier;  // "NULL" or "NOT NULL"
  std::string default_kind;   // DEFAULT, MATERIALIZED, EPHEMERAL, ALIAS
  std::string default_expression;
  std::string comment;     // the literal with its quotes
  std::string codec;       // inside CODEC(…)
  std::string statistics;  // inside STATISTICS(…)
  std::string ttl;
  std::string collation;
  std::string settings;  // inside SETTINGS(…)
  bool has_primary_key = false;
};

// INDEX, PROJECTION, CONSTRAINT, FOREIGN KEY or PRIMARY KEY inside the column list.
struct NamedElement {
  std::string kind;  // "INDEX", "PROJECTION", "CONSTRAINT", "FOREIGN KEY", "PRIMARY KEY"
  std::string name;
  std::string body;  // the text after the name
};

struct EngineSetting {
  std::string name, value;  // value as written
};

// A CREATE (or ATTACH) TABLE of the MergeTree family, cut into its clauses.
struct CreateTable {
  bool is_attach = false, if_not_exists = false;
  TableName name;
  std::string uuid;  // literal with quotes
  std::string cluster;
  std::vector<ColumnDefinition> columns;
  std::vector<NamedElement> elements;
  std::string engine;  // "ReplacingMergeTree"
  std::vector<std::string> engine_args;
  bool has_engine_parentheses = false;
  std::string partition_by, primary_key, order_by, sample_by, ttl;
  std::vector<EngineSetting> settings;
  std::string comment;

  bool IsMergeTree() const;
  const ColumnDefinition* FindColumn(std::string_view column) const;
  // The statement again, canonical in layout; parses back to an equal value.
  std::string ToSql() const;
};

// Cuts one statement into clauses by the engine room's tokenizer: strings, quoted names, comments
// and nested brackets are respected. kInvalidArgument with line and column when it is not a CREATE
// TABLE with a column list and an engine (also for views, AS SELECT, AS other_table and column
// lists left out).
Result<CreateTable> ParseCreateTable(std::string_view sql);

// What the local engine knows, from its system tables; an empty list means "do not check".
struct EngineNames {
  std::vector<std::string> merge_tree_settings = {}, codecs = {}, functions = {},
                           index_types = {};  // sorted; functions with the type families
};

struct DdlOptions {
  bool has_encryption_keys = false;  // AES_* codecs are allowed
  EngineNames engine = {};
};

// A statement made fit for the local engine, and everything that was taken out of it, in words
// ("SETTINGS storage_policy").
struct LocalDdl {
  CreateTable table;
  std::string sql;
  std::vector<std::string> removals;
  // Columns whose DEFAULT was taken out because it calls what is unknown here: a part that lacks
  // one of them would read other values than on its server and must be refused.
  std::vector<std::string> columns_without_default;
  // Settings that were put in so that the local engine accepts what the table's own server
  // accepted: they switch off warnings about odd keys and change nothing in a part.
  std::vector<std::string> additions;
};
// clickhouse-parts §12.1: no UUID, cluster, replication, TTL, projections, constraints, or
// placement settings.
Result<LocalDdl> NormalizeSource(std::string_view sql, const DdlOptions& options);
// clickhouse-parts §12.2: the same for name, UUID, cluster, replication and placement; TTL,
// projections, indices and constraints stay.
Result<LocalDdl> NormalizeDestination(std::string_view sql, const DdlOptions& options);

// Settings of the query that makes a local table: what the table's own server once accepted is not
// questioned again here.
std::map<std::string, std::string> LenientCreateSettings();

// The target of an INSERT INTO … (SELECT …): kInvalidArgument when it is not one INSERT INTO a
// table, or has no SELECT.
struct InsertTarget {
  TableName table;
  std::vector<std::string> columns;  // empty = not listed
  std::string select;                // the text of the SELECT, without the trailing semicolon
};
Result<InsertTarget> ParseInsertSelect(std::string_view sql);

// The refusals of clickhouse-parts §12.3 that need no engine, kRefused each: PF2101 about the
// source (does not parse, is no table of the MergeTree family), PF2104 about the destination (the
// same; not qualified, equal to the source, partition key of foreign names), PF2105 about the
// INSERT (target is not the destination, SELECT does not read the source), PF2116 about codecs.
Status CheckRewriteStatements(std::string_view source_sql, std::string_view destination_sql,
                              std::string_view insert_sql);

// True when the SELECT names the table: by tokens, outside strings. Unqualified names count when
// `current_database` equals its database.
bool NamesTable(std::string_view select, const TableName& table, std::string_view current_database);

}  // namespace partforge::clickhouse
