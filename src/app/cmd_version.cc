#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "app/commands.h"
#include "app/version.h"
#include "base/library_versions.h"
#include "data/data_libraries.h"
#include "job/state_libraries.h"

namespace partforge::app {
namespace {

Status Run(const CommandInput& input) {
  LibraryVersions libraries = BaseLibraries();
  libraries.merge(StateLibraries());
  libraries.merge(data::DataLibraries());
  input.out.Line(fmt::format("partforge {} ({})", kVersion, Revision()));
  input.out.Answer(kVersion);
  input.out.Document("version", JsonDoc{{"version", kVersion},
                                        {"revision", Revision()},
                                        {"compiler", __VERSION__},
                                        {"libraries", JsonDoc(libraries)}});
  return {};
}

}  // namespace

Command VersionCommand() {
  return {{.name = "version",
           .purpose = "Prints the version; --json also those of the libraries.",
           .arguments = "",
           .arguments_min = 0,
           .arguments_max = 0,
           .examples = {"partforge version", "partforge version --json"},
           .options = {},
           .related = {}},
          Run};
}

}  // namespace partforge::app
