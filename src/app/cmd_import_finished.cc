#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "app/commands.h"
#include "app/import_options.h"
#include "app/option_groups.h"
#include "app/wire.h"

namespace partforge::app {
namespace {

Status Run(const CommandInput& input) {
  const bool is_dry = input.options.Bool("dry-run");
  if (!is_dry) PF_TRY(ConfirmImport(input));
  PF_ASSIGN(const std::unique_ptr<SqlJobStore> state,
            OpenState(input, is_dry ? SchemaUse::kRead : SchemaUse::kWrite));
  PF_ASSIGN(const std::unique_ptr<Engine> server, OpenServer(input));
  BucketStores stores(input);
  const std::string job = input.options.String("job-id");
  PF_ASSIGN(const clickhouse::TableName table, TableFrom(input));
  if (is_dry) return ShowImportPlan(input, *state, *server, stores, job, table);
  PF_ASSIGN(const RowFlow flow, ConservedFlow(input.ctx, *state, job));
  return ImportAndShow(input, *state, *server, stores, job, flow, table, "import-finished");
}

}  // namespace

Command ImportFinishedCommand() {
  return {
      {.name = "import-finished",
       .purpose =
           "Publishes the finished parts of a job into its destination table, each exactly once.",
       .arguments = "",
       .arguments_min = 0,
       .arguments_max = 0,
       .examples = {"partforge import-finished --job-id=job-5f0e11aa22bb33cc --database=shop "
                    "--table=orders_v2",
                    "partforge import-finished … --partial   publishes what is finished so far"},
       .options = Join(
           {{{.name = "job-id", .help = "job", .is_required = true},
             {.name = "database", .help = "database of the destination table", .is_required = true},
             {.name = "table", .help = "destination table", .is_required = true},
             {.name = "part-id", .help = "one part only", .refuses_empty = true},
             DryRunOption("check, print what would be published, write nothing")},
            ImportOptions(),
            ServerOptions(),
            StateOptions(),
            StoreOptions()}),
       .related = {"worker", "job-status", "verify"}},
      Run};
}

}  // namespace partforge::app
