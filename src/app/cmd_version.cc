#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "app/commands.h"
#include "app/version.h"

namespace partforge::app {
namespace {

Status Run(const CommandInput& input) {
  input.out.Line(fmt::format("partforge {}", kVersion));
  input.out.Document("version", JsonDoc{{"version", kVersion}, {"compiler", __VERSION__}});
  return {};
}

}  // namespace

Command VersionCommand() {
  return {{.name = "version",
           .purpose = "Prints the version.",
           .arguments = "",
           .arguments_min = 0,
           .arguments_max = 0,
           .examples = {"partforge version", "partforge version --json"},
           .options = {},
           .related = {}},
          Run};
}

}  // namespace partforge::app
