#include "engine/server_command.h"

#include <fmt/format.h>

#include "base/files.h"
#include "engine/config_xml.h"

namespace partforge {
namespace {

std::filesystem::path FolderOf(const ServerCommand& command) {
  return command.data_path / "partforge-server";
}

}  // namespace

std::vector<std::string> ServerCommandLine(const ServerCommand& command) {
  const std::filesystem::path folder = FolderOf(command);
  const std::string data = (command.data_path / "").string();
  std::vector<std::string> argv = {command.binary.string()};
  if (command.binary.filename().string().find("clickhouse-server") == std::string::npos)
    argv.emplace_back("server");
  argv.push_back("--config-file=" + (folder / "config.xml").string());
  argv.push_back("--log-file=" + (folder / "server.log").string());
  argv.push_back("--errorlog-file=" + (folder / "server.err.log").string());
  argv.push_back("--pid-file=" + (folder / "server.pid").string());
  argv.emplace_back("--");
  for (const char* key :
       {"path", "tmp_path", "user_files_path", "format_schema_path",
        "custom_cached_disks_base_directory", "filesystem_caches_path",
        "custom_local_disks_base_directory", "user_directories.local_directory.path"}) {
    argv.push_back("--" + std::string(key) + "=" + data);
  }
  for (const auto& [key, value] : command.config)
    argv.push_back(fmt::format("--{}={}", key, value));
  return argv;
}

Status WriteServerConfig(const ServerCommand& command) {
  const std::filesystem::path folder = FolderOf(command);
  PF_TRY(MakeDirectories(folder));
  const std::map<std::string, std::string> config = {
      {"http_port", std::to_string(command.http_port)},
      {"listen_host", "127.0.0.1"},
      {"logger.level", "warning"},
      {"timezone", command.timezone},
      {"max_table_size_to_drop", "0"},
      {"max_partition_size_to_drop", "0"},
      {"user_directories.users_xml.path", (folder / "users.xml").string()}};
  PF_ASSIGN(const std::string xml, WriteClickHouseXml(config));
  PF_TRY(WriteFileDurably(folder / "config.xml", xml));
  const std::string users =
      "<clickhouse><profiles><default></default></profiles><quotas><default></default></quotas>\n"
      "<users><default><password>" +
      EscapeConfigXml(command.password) +
      "</password>\n"
      "<networks><ip>127.0.0.1</ip><ip>::1</ip></networks><profile>default</"
      "profile><quota>default</quota>\n"
      "</default></users></clickhouse>\n";
  return WriteFileDurably(folder / "users.xml", users);
}

}  // namespace partforge
