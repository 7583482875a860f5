#include "engine/engine_setup.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <system_error>

#include "base/files.h"
#include "engine/config_files.h"
#include "engine/config_xml.h"

namespace partforge {
namespace {

constexpr std::string_view kFolder = "partforge-engine";
constexpr int64_t kConfigBytesMax = int64_t{16} << 20;

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
  for (const char* name : {"config.d", "conf.d"}) {
    const std::filesystem::path from = config_file.parent_path() / name;
    const Result<std::vector<std::string>> entries = ListNames(from);
    if (!entries.ok() && entries.status().code() == Code::kNotFound) continue;
    PF_TRY(entries);
    PF_TRY(MakeDirectories(folder / name));
    for (const std::string& entry : *entries) {
      std::filesystem::create_symlink(std::filesystem::absolute(from / entry),
                                      folder / name / entry, error);
      if (error)
        return ErrnoStatus(error.value(), "link the configuration " + (from / entry).string());
    }
  }
  return {};
}

// Puts the leaves of `file` and of the files merged into it over `leaves`.
Status MergeLeaves(const std::filesystem::path& file, const std::vector<std::string>& folders,
                   std::map<std::string, std::string>& leaves) {
  std::vector<std::filesystem::path> files = {file};
  for (const std::string& folder : folders) {
    PF_ASSIGN(const std::vector<std::filesystem::path> merged,
              ListConfigFiles(file.parent_path() / folder));
    files.insert(files.end(), merged.begin(), merged.end());
  }
  for (const auto& one : files) {
    PF_ASSIGN(const std::string text, ReadFile(one, kConfigBytesMax));
    auto read = ReadXmlLeaves(text);
    if (!read.ok()) return std::move(read).status().With("read " + one.string());
    for (auto& [key, value] : *read) leaves[key] = std::move(value);
  }
  return {};
}

// The keys of a server's configuration with the options over them; of the options alone when there
// is no file.
Result<std::map<std::string, std::string>> ConfigLeaves(const EngineServerOptions& options) {
  std::map<std::string, std::string> config;
  if (!options.config_file.empty())
    PF_TRY(MergeLeaves(options.config_file, {"config.d", "conf.d"}, config));
  for (const auto& [key, value] : options.config) config[key] = value;
  return config;
}

// The users of a server's configuration, from the file that it names, or users.xml beside it.
Result<StandInUsers> UsersOf(const EngineServerOptions& options,
                             const std::map<std::string, std::string>& config) {
  std::filesystem::path users = "users.xml";
  for (const char* key : {"users_config", "user_directories.users_xml.path"}) {
    if (const auto found = config.find(key); found != config.end()) users = found->second;
  }
  if (users.is_relative()) users = options.config_file.parent_path() / users;
  std::map<std::string, std::string> leaves;
  // One that is there and cannot be read must not be taken for "no password".
  const Result<UniqueFd> there = OpenFile(users, O_RDONLY);
  if (there.ok() || there.status().code() != Code::kNotFound)
    PF_TRY(MergeLeaves(users, {"users.d"}, leaves));
  return ReadStandInUsers(leaves);
}

}  // namespace

Result<StandInUsers> ReadStandInUsers(const std::map<std::string, std::string>& leaves) {
  constexpr std::string_view kUser = "users.default.";
  constexpr std::array kHarmless = {"profile",
                                    "quota",
                                    "networks",
                                    "access_management",
                                    "named_collection_control",
                                    "grants",
                                    "allow_databases",
                                    "default_database",
                                    "show_named_collections",
                                    "show_named_collections_secrets",
                                    "no_password"};
  StandInUsers users;
  std::map<std::string, std::string> kept = {{"quotas.default", ""},
                                             {"users.default.networks.ip", "::/0"},
                                             {"users.default.password", ""},
                                             {"users.default.profile", "default"},
                                             {"users.default.quota", "default"}};
  bool has_default_profile = false;
  for (const auto& [key, value] : leaves) {
    if (key.starts_with("profiles.")) kept[key] = value;
    has_default_profile = has_default_profile || key.starts_with("profiles.default");
    if (!key.starts_with(kUser)) continue;
    const std::string name = key.substr(kUser.size());
    if (name == "profile") kept[key] = value;
    if (name == "password") {
      users.password = Secret(value);
    } else if (name == "password_sha256_hex") {
      users.password_sha256 = value;
      std::transform(
          users.password_sha256.begin(), users.password_sha256.end(), users.password_sha256.begin(),
          [](char c) { return c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c; });
    } else if (std::none_of(kHarmless.begin(), kHarmless.end(), [&name](std::string_view harmless) {
                 return name.starts_with(harmless);
               })) {
      return Status(
          Code::kRefused,
          fmt::format("users file: the engine cannot check how `default` proves itself: {}", name));
    }
  }
  if (!has_default_profile) kept["profiles.default"] = "";
  PF_ASSIGN(users.xml, WriteClickHouseXml(kept));
  return users;
}

Result<std::map<std::string, std::string>> EngineConfig(const EngineServerOptions& options,
                                                        const std::filesystem::path& folder) {
  std::map<std::string, std::string> config = {
      {"max_partition_size_to_drop", "0"},
      {"max_table_size_to_drop", "0"},
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
  if (options.allows_external_reads && !options.config_file.empty()) {
    config["users_config"] = (folder / "users.xml").string();
    config.erase("user_directories.users_xml.path");
  }
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

Result<EngineSetup> WriteEngineSetup(const EngineServerOptions& options) {
  const std::filesystem::path data_path = std::filesystem::absolute(options.data_path);
  const std::filesystem::path folder = data_path / kFolder;
  PF_TRY(RemoveTree(folder));
  for (const char* name : {"user_files", "user_scripts", "format_schemas", "config.d"}) {
    PF_TRY(MakeDirectories(folder / name));
  }
  // A table's parts are in store/<xxx>/<uuid>/, frozen ones below shadow/<name>/. Modes as the
  // engine would give them: under a stand-in for a server other users look at its parts.
  constexpr int kMode = 0777;  // the umask decides
  for (const char* name : {"store", "shadow"}) {
    PF_TRY(MakeDirectories(data_path / name, kMode));
    SpreadSubfolders(data_path / name);
  }
  EngineSetup setup;
  setup.arguments = {"--path=" + data_path.string(),
                     "--config-file=" + (folder / "config.xml").string()};
  PF_ASSIGN(const auto leaves, ConfigLeaves(options));
  if (const auto zone = leaves.find("timezone"); zone != leaves.end())
    setup.timezone = zone->second;
  PF_ASSIGN(const auto config, EngineConfig(options, folder));
  PF_ASSIGN(const std::string xml, WriteClickHouseXml(config));
  PF_TRY(WriteFileDurably(folder / "restricted-users.xml", RestrictedUsersXml()));
  if (options.config_file.empty()) {
    PF_TRY(WriteFileDurably(folder / "config.xml", xml));
    return setup;
  }
  PF_TRY(LinkConfig(options.config_file, folder));
  PF_TRY(WriteFileDurably(folder / "config.d" / "zz-partforge-engine.xml", xml));
  PF_ASSIGN(StandInUsers users, UsersOf(options, leaves));
  PF_TRY(WriteFileDurably(folder / "users.xml", users.xml));
  setup.password = std::move(users.password);
  setup.password_sha256 = std::move(users.password_sha256);
  return setup;
}

}  // namespace partforge
