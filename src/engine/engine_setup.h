#pragma once

#include <filesystem>
#include <map>
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

// What is taken over from the users file of a server's configuration: the settings profiles, and
// how the user `default` proves who he is. libchdb opens its connections as `default` without a
// password, so a file with one cannot be used as it is; the password is asked by the HTTP interface
// instead.
struct StandInUsers {
  std::string xml;                   // one user `default` without password, with their profiles
  Secret password = {};              // plain, or
  std::string password_sha256 = {};  // 64 hex digits; both empty = no password
};
// `leaves` of all users files in the order they are merged. kRefused when `default` proves himself
// in a way we cannot check.
Result<StandInUsers> ReadStandInUsers(const std::map<std::string, std::string>& leaves);

struct EngineSetup {
  std::vector<std::string> arguments;  // of the library: --path, --config-file
  Secret password = {};                // what requests must bring, as above
  std::string password_sha256 = {};
  std::string timezone = {};  // that the configuration names; empty = none
};
// Writes the folder. Errors of the file system, and kCorruption for a malformed users file.
Result<EngineSetup> WriteEngineSetup(const EngineServerOptions& options);

}  // namespace partforge
