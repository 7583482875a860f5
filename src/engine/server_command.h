#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"

namespace partforge {

// How a `clickhouse` binary of the user is started as a worker's engine (clickhouse-parts §20).
struct ServerCommand {
  std::filesystem::path binary = {};
  std::filesystem::path data_path = {};  // absolute
  int http_port = 0;
  std::string password = {};                       // of the user `default`
  std::map<std::string, std::string> config = {};  // further configuration keys, dots nest
  std::string timezone = "UTC";
};

// The words of the command line. `server` is left out when the binary's name already says
// clickhouse-server.
std::vector<std::string> ServerCommandLine(const ServerCommand& command);

// Writes <data path>/partforge-server/{config.xml,users.xml}, the files the command line names.
Status WriteServerConfig(const ServerCommand& command);

}  // namespace partforge
