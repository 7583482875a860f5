#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/error.h"

namespace partforge::app {

// What `partforge engine --help` prints.
std::string EngineHelp();

// `partforge engine …`, and the program started under the name of a ClickHouse server: serves the
// embedded engine until SIGTERM. Takes its own arguments (engine room, engine_arguments.h).
Status RunEngineCommand(const std::vector<std::string>& arguments,
                        const std::map<std::string, std::string>& environment);

}  // namespace partforge::app
