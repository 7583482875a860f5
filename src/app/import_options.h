#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "app/command.h"
#include "app/wire.h"
#include "clickhouse/ddl.h"
#include "clickhouse/import_job.h"

namespace partforge::app {

// Asks before --skip-schema-check; to be called before anything else is done.
Status ConfirmImport(const CommandInput& input);
// The options that import-finished and rewrite share, and the import itself with its summary.
std::vector<OptionSpec> ImportOptions();
Status ImportAndShow(const CommandInput& input, JobStore& state, Engine& server,
                     BucketStores& stores, const std::string& job,
                     const clickhouse::TableName& table, std::string_view command);

}  // namespace partforge::app
