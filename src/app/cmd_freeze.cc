#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "app/commands.h"
#include "app/option_groups.h"
#include "app/rewrite_preview.h"
#include "app/wire.h"
#include "clickhouse/source_checks.h"
#include "clickhouse/table_freeze.h"

namespace partforge::app {
namespace {

Status Run(const CommandInput& input) {
  const std::string name = input.options.String("freeze");
  PF_TRY(clickhouse::CheckFreezeName(name));
  PF_ASSIGN(const std::unique_ptr<Engine> server, OpenServer(input));
  PF_ASSIGN(const clickhouse::TableName table, TableFrom(input));
  const bool is_dry = input.options.Bool("dry-run");
  bool was_there = false;
  std::vector<std::string> notes;
  if (is_dry) {
    PF_ASSIGN(notes, CheckSourceOnly(input, *server, table));
  } else {
    PF_TRY(clickhouse::CheckSourceTable(
        input.ctx, *server, table,
        {.applies_patches = input.options.Bool("apply-patches"),
         .wait_mutations_ms = input.options.DurationMs("wait-mutations")}));
    PF_ASSIGN(const clickhouse::FreezeEnd end,
              clickhouse::FreezeTable(input.ctx, *server, table, name));
    was_there = end == clickhouse::FreezeEnd::kWasThere;
  }
  input.out.Line(fmt::format(
      "{} {} as {}{}", is_dry ? "would freeze" : "frozen", table.ToString(), name,
      was_there ? "   (it was there already, with the parts that the table has now)" : ""));
  for (const std::string& note : notes) input.out.Line("note   " + note);
  input.out.Answer(name);
  input.out.Document("freeze", JsonDoc{{"table", table.ToString()},
                                       {"freeze", name},
                                       {"dry_run", is_dry},
                                       {"was_there", was_there},
                                       {"notes", notes}});
  return {};
}

}  // namespace

Command FreezeCommand() {
  return {
      {.name = "freeze",
       .purpose = "Checks a source table and makes hard links of its parts (ALTER TABLE … "
                  "FREEZE WITH NAME).",
       .arguments = "",
       .arguments_min = 0,
       .arguments_max = 0,
       .examples = {"partforge freeze --database=shop --table=orders --freeze=autumn_01",
                    "partforge freeze --database=shop --table=orders --freeze=autumn_01 --dry-run"},
       .options =
           Join({{{.name = "database", .help = "database of the source table", .is_required = true},
                  {.name = "table", .help = "source table", .is_required = true},
                  {.name = "freeze", .help = "name of the freeze", .is_required = true},
                  {.name = "apply-patches",
                   .type = OptionType::kBool,
                   .default_text = "false",
                   .help = "apply lightweight updates first"},
                  {.name = "wait-mutations",
                   .type = OptionType::kDuration,
                   .default_text = "0",
                   .help = "wait so long for unfinished mutations",
                   .group = "Limits"},
                  DryRunOption("only check")},
                 ServerOptions()}),
       .related = {"upload-freeze", "rewrite"}},
      Run};
}

}  // namespace partforge::app
