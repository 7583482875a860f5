#pragma once

#include <string>
#include <vector>

#include "base/context.h"
#include "clickhouse/ddl.h"
#include "clickhouse/freeze_scan.h"
#include "engine/engine.h"

namespace partforge::clickhouse {

// Refuses frozen parts whose columns do not mean what the table's schema of now says, before they
// are uploaded (PF2147): a column that the table lacks, one of another type, and parts that are
// older than a RENAME or DROP COLUMN of the table, whose names may stand for other values. `source`
// is the server; `local` an engine that formats types. The server remembers its last mutations only
// (finished_mutations_to_keep): docs/limits.md says what remains.
Status CheckFrozenColumns(const Context& ctx, Engine& source, Engine& local, const TableName& table,
                          const std::string& source_schema, const std::vector<FrozenPart>& parts);

}  // namespace partforge::clickhouse
