#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "engine/engine_arguments.h"

namespace partforge {

// The folder <data path>/partforge-engine that an engine process writes for the library before it
// opens it: configuration, users, and empty folders for user files and scripts. Written anew at
// every start.

// The configuration keys of an engine: defaults of ours, then what the options say.
Result<std::map<std::string, std::string>> EngineConfig(const EngineServerOptions& options,
                                                        const std::filesystem::path& folder);
// The users file: one user without access management, and without reads or writes outside the data
// path. Grants hold for table functions and engines; the scalar function file() and INTO OUTFILE
// know no grant (sql_check.h, query_handler.h).
std::string RestrictedUsersXml();

// Writes the folder and returns the library's arguments (--path, --config-file). kInternal and the
// like from the file system.
Result<std::vector<std::string>> WriteEngineSetup(const EngineServerOptions& options);

}  // namespace partforge
