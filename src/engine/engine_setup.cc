#include "engine/engine_setup.h"

#include <array>
#include <system_error>

#include "base/files.h"
#include "engine/config_xml.h"

namespace partforge {
namespace {

constexpr std::string_view kFolder = "partforge-engine";

// Engines without a reach beyond the data path. (Null, View and MaterializedView need no grant.)
constexpr std::array kHarmlessEngines = {"MergeTree",
                                         "ReplacingMergeTree",
                                         "SummingMergeTree",
                                         "AggregatingMergeTree",
                                         "CollapsingMergeTree",
                                         "VersionedCollapsingMergeTree",
                                         "GraphiteMergeTree",
                                         "CoalescingMergeTree",
                                         "Memory",
                                         "Null",
                                         "Log",
                                         "TinyLog",
                                         "StripeLog",
                                         "Set",
                                         "Join",
                                         "View",
                                         "MaterializedView",
                                         "GenerateRandom",
                                         "Merge",
                                         "Buffer",
                                         "Atomic",
                                         "Ordinary"};

// The files of a server's configuration as links in the same layout, so that the library merges
// them, then ours, last.
Status LinkConfig(const std::filesystem::path& config_file, const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_symlink(std::filesystem::absolute(config_file), folder / "config.xml",
                                  error);
  if (error) return ErrnoStatus(error.value(), "link the configuration " + config_file.string());
  for (const char* name : {"config.d", "conf.d", "users.d"}) {
    const std::filesystem::path from = config_file.parent_path() / name;
    if (!std::filesystem::is_directory(from, error)) continue;
    PF_TRY(MakeDirectories(folder / name));
    for (const auto& entry : std::filesystem::directory_iterator(from, error)) {
      std::error_code failed;
      std::filesystem::create_symlink(std::filesystem::absolute(entry.path()),
                                      folder / name / entry.path().filename(), failed);
      if (failed)
        return ErrnoStatus(failed.value(), "link the configuration " + entry.path().string());
    }
  }
  const std::filesystem::path users = config_file.parent_path() / "users.xml";
  if (std::filesystem::exists(users, error)) {
    std::filesystem::create_symlink(std::filesystem::absolute(users), folder / "users.xml", error);
    if (error) return ErrnoStatus(error.value(), "link the configuration " + users.string());
  }
  return {};
}

}  // namespace

Result<std::map<std::string, std::string>> EngineConfig(const EngineServerOptions& options,
                                                        const std::filesystem::path& folder) {
  std::map<std::string, std::string> config = {
      {"max_partition_size_to_drop", "0"},
      {"max_table_size_to_drop", "0"},
      {"timezone", "UTC"},
      {"user_files_path", (folder / "user_files" / "").string()},
      {"user_scripts_path", (folder / "user_scripts" / "").string()},
      {"format_schema_path", (folder / "format_schemas" / "").string()},
  };
  if (!options.log_file.empty()) {
    config["logger.level"] = options.log_level;
    config["logger.log"] = options.log_file.string();
    if (!options.error_log_file.empty())
      config["logger.errorlog"] = options.error_log_file.string();
  }
  if (!options.allows_external_reads) {
    config["access_control_improvements.table_engines_require_grant"] = "true";
    config["remote_url_allow_hosts"] = "";  // an empty list: no host
    config["users_config"] = (folder / "restricted-users.xml").string();
  }
  for (const auto& [key, value] : options.config) config[key] = value;
  return config;
}

std::string RestrictedUsersXml() {
  std::string grants;
  const auto grant = [&grants](const std::string& query) {
    grants += "<query>" + query + "</query>\n";
  };
  grant("GRANT ALL ON *.*");
  for (const char* right :
       {"SOURCES", "ACCESS MANAGEMENT", "SYSTEM SHUTDOWN", "BACKUP", "INTROSPECTION", "CLUSTER"}) {
    grant(std::string("REVOKE ") + right + " ON *.*");
  }
  grant("REVOKE TABLE ENGINE ON *");
  for (const char* engine : kHarmlessEngines) grant(std::string("GRANT TABLE ENGINE ON ") + engine);
  return "<clickhouse><profiles><default></default></profiles><quotas><default></default></"
         "quotas>\n"
         "<users><default><password></password><networks><ip>::/0</ip></networks>\n"
         "<profile>default</profile><quota>default</quota><grants>\n" +
         grants + "</grants></default></users></clickhouse>\n";
}

Result<std::vector<std::string>> WriteEngineSetup(const EngineServerOptions& options) {
  const std::filesystem::path data_path = std::filesystem::absolute(options.data_path);
  const std::filesystem::path folder = data_path / kFolder;
  PF_TRY(RemoveTree(folder));
  for (const char* name : {"user_files", "user_scripts", "format_schemas", "config.d"}) {
    PF_TRY(MakeDirectories(folder / name));
  }
  PF_ASSIGN(const auto config, EngineConfig(options, folder));
  PF_ASSIGN(const std::string xml, WriteClickHouseXml(config));
  if (options.config_file.empty()) {
    PF_TRY(WriteFileDurably(folder / "config.xml", xml));
  } else {
    PF_TRY(LinkConfig(options.config_file, folder));
    PF_TRY(WriteFileDurably(folder / "config.d" / "zz-partforge-engine.xml", xml));
  }
  PF_TRY(WriteFileDurably(folder / "restricted-users.xml", RestrictedUsersXml()));
  return std::vector<std::string>{"--path=" + data_path.string(),
                                  "--config-file=" + (folder / "config.xml").string()};
}

}  // namespace partforge
