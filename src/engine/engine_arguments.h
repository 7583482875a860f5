#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>

#include "base/error.h"
#include "base/log.h"

namespace partforge {

// What an engine process is started with: by ChildEngine, or by a program that thinks it starts
// `clickhouse server`.
struct EngineServerOptions {
  std::filesystem::path library = {};    // libchdb.so
  std::filesystem::path data_path = {};  // one process a path
  std::string host = "127.0.0.1";
  int port = 0;  // 0 = any free one, told by the ready line
  std::filesystem::path config_file =
      {};  // a server's configuration, taken over below ours; empty = none
  std::map<std::string, std::string> config =
      {};  // configuration keys, dots nest: {"background_pool_size", "1"}
  std::filesystem::path pid_file = {}, log_file = {}, error_log_file = {};  // empty = none
  std::string log_level = "warning";
  // Table functions and engines that read or write outside the data path (files, network,
  // programs).
  bool allows_external_reads = false;
  int threads = 32;  // requests at once
  // Asked from every request (X-ClickHouse-Key or a basic password) when set: other users of the
  // machine can reach a loopback port too.
  Secret access_key = {};
};

// Parses the words behind `partforge engine` (or behind the name of a `clickhouse` binary):
//   --path=DIR [--host --port --config-file --pid-file --log-file --log-level --engine-library
//   --threads --allow-external-reads] [-- --KEY=VALUE …] [server] --config-file=XML --log-file=F
//   --errorlog-file=F --pid-file=F -- --path=DIR/ --KEY=VALUE …   (clickhouse-parts §20)
// Flags may have one dash or two, and their value behind `=` or as the next word. kInvalidArgument
// (PF1003, PF1004, PF1006). With a configuration file and no --port, port and host come from that
// file (http_port, else 8123; listen_host, else loopback), and what the file's users may do is left
// to it. Reads the configuration file, and nothing else.
Result<EngineServerOptions> ParseEngineArguments(std::span<const std::string> arguments);

// Where libchdb.so is looked for, first found wins: the flag, the environment's value, beside the
// program, a folder of dependencies.
struct EngineLibraryPlaces {
  // Empty = not asked; `self` is the program, `deps` a folder.
  std::filesystem::path flag = {}, environment = {}, self = {}, deps = {};
};
// kNotFound (PF7010) lists the places.
Result<std::filesystem::path> FindEngineLibrary(const EngineLibraryPlaces& places);

}  // namespace partforge
