#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "app/commands.h"
#include "app/option_groups.h"
#include "app/wire.h"

namespace partforge::app {
namespace {

Status Run(const CommandInput& input) {
  if (input.options.Bool("dry-run")) {
    PF_ASSIGN(const int64_t pending, PendingMigrations(input));
    input.out.Line(fmt::format("would apply {} migration(s)", pending));
    input.out.Document("migrate", JsonDoc{{"applied", 0}, {"pending", pending}, {"dry_run", true}});
    return {};
  }
  PF_ASSIGN(const int64_t applied, Migrate(input));
  input.out.Line(fmt::format("applied {} migration(s)", applied));
  input.out.Document("migrate", JsonDoc{{"applied", applied}, {"pending", 0}, {"dry_run", false}});
  return {};
}

}  // namespace

Command MigrateCommand() {
  return {{.name = "migrate",
           .purpose = "Makes or upgrades the schema of the state store.",
           .arguments = "",
           .arguments_min = 0,
           .arguments_max = 0,
           .examples = {"partforge migrate --state-url=postgres://db.example.org/forge",
                        "partforge migrate --state-url=sqlite:/var/lib/partforge/state.db"},
           .options = Join(
               {{DryRunOption("print how many would be applied, write nothing")}, StateOptions()}),
           .related = {"upload-freeze"}},
          Run};
}

}  // namespace partforge::app
