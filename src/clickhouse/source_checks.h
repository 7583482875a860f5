#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/context.h"
#include "clickhouse/ddl.h"
#include "engine/engine.h"

namespace partforge::clickhouse {

struct SourceCheckOptions {
  bool applies_patches = false;   // --apply-patches: ALTER TABLE … APPLY PATCHES, and wait
  int64_t wait_mutations_ms = 0;  // --wait-mutations
  // When set, nothing is applied or waited for: that it would be is added here.
  std::vector<std::string>* foreseen = nullptr;
};

// What forbids freezing a table now (user-experience §2.3): no MergeTree (PF2101), patch parts that
// FREEZE would leave out (PF2107), mutations that are not finished (PF2108). Writes nothing unless
// told to apply patches.
Status CheckSourceTable(const Context& ctx, Engine& engine, const TableName& table,
                        const SourceCheckOptions& options);

// SHOW CREATE TABLE as the server prints it, trimmed. kNotFound (PF2101) when the table is absent.
Result<std::string> ReadCreateTable(const Context& ctx, Engine& engine, const TableName& table);

}  // namespace partforge::clickhouse
