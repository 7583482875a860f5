#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "app/command.h"
#include "app/row_flow.h"
#include "app/wire.h"
#include "clickhouse/ddl.h"
#include "clickhouse/import_job.h"

namespace partforge::app {

// Asks before --skip-schema-check; to be called before anything else is done.
Status ConfirmImport(const CommandInput& input);
// The options that import-finished and rewrite share, and the import itself with its summary.
std::vector<OptionSpec> ImportOptions();
// What --dry-run prints: the checks of the import and what it would publish.
Status ShowImportPlan(const CommandInput& input, JobStore& state, Engine& server,
                      BucketStores& stores, const std::string& job,
                      const clickhouse::TableName& table);
// `flow` is that of the job, conserved.
Status ImportAndShow(const CommandInput& input, JobStore& state, Engine& server,
                     BucketStores& stores, const std::string& job, const RowFlow& flow,
                     const clickhouse::TableName& table, std::string_view command);

}  // namespace partforge::app
