#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/context.h"
#include "clickhouse/ddl.h"
#include "engine/engine.h"

namespace partforge::clickhouse {

struct FingerprintColumn {
  std::string name, type, default_kind, default_expression;
  bool operator==(const FingerprintColumn&) const = default;
};

// What two tables must share so that parts of one can be attached to the other (clickhouse-parts
// §12.4). Expressions and types are as the engine formats them; a key of one element and a tuple of
// one are the same. Lists are empty where the clause is absent.
struct SchemaShape {
  std::vector<FingerprintColumn> columns;  // stored ones: without ALIAS and EPHEMERAL, in order
  std::string engine;                      // without Replicated or Shared
  std::vector<std::string> engine_args;
  std::vector<std::string> partition_by, order_by, primary_key;
  std::string sample_by;
  // Settings that decide how a part's index is written: as the statement says them, since what the
  // server's configuration says is not shown.
  bool allows_nullable_key = false;      // allow_nullable_key
  bool has_adaptive_granularity = true;  // index_granularity_bytes is not 0
  bool operator==(const SchemaShape&) const = default;
};

struct Fingerprint {
  SchemaShape shape;
  std::string canonical_json;
  std::string id;  // "sha256:<64 hex>" of canonical_json
};

// The fingerprint of a table that is made from `sql`, the user's CREATE: a Nested column counts as
// its arrays, as ClickHouse stores it by default. Asks the engine for the spelling of types and
// expressions, with plain SELECTs only. kRefused (PF2104) when `sql` is no MergeTree table.
Result<Fingerprint> ComputeFingerprint(const Context& ctx, Engine& engine, std::string_view sql);
// The same of a table that exists, from its SHOW CREATE TABLE: a Nested column it still shows is
// one that the server does not store as arrays (flatten_nested = 0), and counts as such.
Result<Fingerprint> FingerprintOfTable(const Context& ctx, Engine& engine,
                                       std::string_view show_create);
std::string FormatShape(const SchemaShape& shape);  // the canonical JSON
Result<SchemaShape> ParseShape(std::string_view canonical_json);

// kRefused naming the first difference: PF2122 when a column seems renamed, else PF2121. `where`
// names the target.
Status CompareShapes(const SchemaShape& artifact, const SchemaShape& target,
                     std::string_view where);

// Names of settings, codecs, functions and index types that the engine knows, for DdlOptions.
Result<EngineNames> ReadEngineNames(const Context& ctx, Engine& engine);

// TTL texts (table, then columns in order) as the engine formats them, for PF2111: equal vectors
// mean equal TTL.
Result<std::vector<std::string>> FormattedTtl(const Context& ctx, Engine& engine,
                                              const CreateTable& table);

// Conditions of CONSTRAINTs ("CHECK id > 0") as the engine formats them, without their names.
Result<std::vector<std::string>> FormattedConstraints(const Context& ctx, Engine& engine,
                                                      const CreateTable& table);

}  // namespace partforge::clickhouse
