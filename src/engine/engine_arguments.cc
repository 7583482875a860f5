#include "engine/engine_arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "engine/config_files.h"
#include "engine/config_xml.h"

namespace partforge {
namespace {

constexpr int kDefaultHttpPort = 8123;
constexpr int64_t kConfigBytesMax = int64_t{16} << 20;

Result<int> ParseNumber(std::string_view flag, std::string_view text, int least, int most) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < least || number > most) {
    return Status(Code::kInvalidArgument,
                  fmt::format("--{} must be from {} to {}: {}", flag, least, most, text))
        .Explain(1005, fmt::format("engine --{}", flag), "give a number in that range");
  }
  return number;
}

// One word of the line cut into flag and value.
struct Flag {
  std::string name;
  std::optional<std::string> value;
};
Result<Flag> CutFlag(std::string_view word) {
  const std::string_view whole = word;
  if (!word.starts_with('-')) {
    return Status(Code::kInvalidArgument, fmt::format("engine takes no such argument: {}", whole))
        .Explain(1007, "engine", "flags begin with --");
  }
  word.remove_prefix(word.starts_with("--") ? 2 : 1);
  const size_t equals = word.find('=');
  Flag flag{.name = std::string(word.substr(0, equals)), .value = std::nullopt};
  if (equals != std::string_view::npos) flag.value = std::string(word.substr(equals + 1));
  return flag;
}

class ArgumentReader {
 public:
  explicit ArgumentReader(std::span<const std::string> arguments) : arguments_(arguments) {}

  Result<EngineServerOptions> Read() {
    if (!arguments_.empty() && arguments_.front() == "server") ++at_;
    for (; at_ < arguments_.size(); ++at_) {
      if (arguments_[at_] == "--") {
        is_override_ = true;
        continue;
      }
      PF_ASSIGN(Flag flag, CutFlag(arguments_[at_]));
      if (is_override_) {
        PF_TRY(Override(std::move(flag)));
      } else {
        PF_TRY(Take(std::move(flag)));
      }
    }
    if (options_.data_path.empty()) {
      return Status(Code::kInvalidArgument, "engine needs a data path")
          .Explain(1006, "engine --path", "name a folder with --path=DIR");
    }
    PF_TRY(AskConfigFile());
    return std::move(options_);
  }

 private:
  Result<std::string> Value(Flag& flag) {
    if (flag.value) return std::move(*flag.value);
    if (at_ + 1 >= arguments_.size()) {
      return Status(Code::kInvalidArgument, fmt::format("flag lacks its value: --{}", flag.name))
          .Explain(1004, "engine --" + flag.name, fmt::format("write --{}=VALUE", flag.name));
    }
    return arguments_[++at_];
  }

  Status Take(Flag flag) {
    if (flag.name == "allow-external-reads") {
      options_.allows_external_reads = flag.value.value_or("true") == "true";
      has_external_flag_ = true;
      return {};
    }
    const std::map<std::string_view, std::filesystem::path*> paths = {
        {"path", &options_.data_path},
        {"config-file", &options_.config_file},
        {"pid-file", &options_.pid_file},
        {"log-file", &options_.log_file},
        {"errorlog-file", &options_.error_log_file},
        {"engine-library", &options_.library}};
    if (const auto found = paths.find(flag.name); found != paths.end()) {
      PF_ASSIGN(*found->second, Value(flag));
      return {};
    }
    if (flag.name == "host") {
      PF_ASSIGN(options_.host, Value(flag));
      has_host_ = true;
      return {};
    }
    if (flag.name == "log-level") {
      PF_ASSIGN(options_.log_level, Value(flag));
      return {};
    }
    if (flag.name == "port") {
      PF_ASSIGN(const std::string text, Value(flag));
      PF_ASSIGN(options_.port, ParseNumber("port", text, 0, 65'535));
      has_port_ = true;
      return {};
    }
    if (flag.name == "threads") {
      PF_ASSIGN(const std::string text, Value(flag));
      PF_ASSIGN(options_.threads, ParseNumber("threads", text, 2, 1'024));
      return {};
    }
    return Status(Code::kInvalidArgument, fmt::format("engine has no such flag: --{}", flag.name))
        .Explain(1003, "engine", "partforge engine --help lists the flags");
  }

  // Behind the lonely "--": keys of the server's configuration.
  Status Override(Flag flag) {
    PF_ASSIGN(std::string value, Value(flag));
    if (flag.name == "path") {
      options_.data_path = std::move(value);
    } else if (flag.name == "http_port") {
      PF_ASSIGN(options_.port, ParseNumber("http_port", value, 0, 65'535));
      has_port_ = true;
    } else if (flag.name == "listen_host") {
      options_.host = std::move(value);
      has_host_ = true;
    } else if (!flag.name.starts_with("prometheus.") && flag.name != "prometheus") {
      options_.config[flag.name] =
          std::move(value);  // the page of metrics is the parent's (§20: optional)
    }
    return {};
  }

  // Takes port and address from the configuration and what is merged into it (config.d, conf.d;
  // later files win).
  Status AskConfigFile() {
    if (options_.config_file.empty()) return {};
    if (!has_external_flag_) options_.allows_external_reads = true;
    std::optional<std::string> port;
    std::vector<std::string> hosts;
    PF_TRY(ReadConfig(options_.config_file, port, hosts));
    const std::filesystem::path directory = options_.config_file.parent_path();
    for (const char* name : {"config.d", "conf.d"}) {
      PF_ASSIGN(const std::vector<std::filesystem::path> files, ListConfigFiles(directory / name));
      for (const auto& file : files) PF_TRY(ReadConfig(file, port, hosts));
    }
    if (!has_port_) {
      options_.port = kDefaultHttpPort;
      if (port) {
        PF_ASSIGN(options_.port, ParseNumber("http_port", *port, 0, 65'535));
      }
    }
    if (!has_host_ && !hosts.empty()) options_.host = ChooseHost(hosts);
    return {};
  }

  static Status ReadConfig(const std::filesystem::path& file, std::optional<std::string>& port,
                           std::vector<std::string>& hosts) {
    PF_ASSIGN(const std::string text, ReadFile(file, kConfigBytesMax));
    auto leaves = ReadXmlLeaves(text);
    if (!leaves.ok()) return std::move(leaves).status().With(fmt::format("read {}", file.string()));
    std::vector<std::string> own_hosts;
    for (const auto& [key, value] : *leaves) {
      if (key == "http_port") port = value;
      if (key == "listen_host") own_hosts.push_back(value);
    }
    if (!own_hosts.empty()) hosts = std::move(own_hosts);
    return {};
  }

  // One listener serves one address: all of them if one says so, else loopback before anything
  // else.
  static std::string ChooseHost(const std::vector<std::string>& hosts) {
    const auto has = [&hosts](std::string_view host) {
      return std::find(hosts.begin(), hosts.end(), host) != hosts.end();
    };
    if (has("::") || has("0.0.0.0")) return "0.0.0.0";
    if (has("127.0.0.1") || has("localhost") || has("::1")) return "127.0.0.1";
    return hosts.front();
  }

  const std::span<const std::string> arguments_;
  size_t at_ = 0;
  bool is_override_ = false, has_port_ = false, has_host_ = false, has_external_flag_ = false;
  EngineServerOptions options_;
};

}  // namespace

Result<EngineServerOptions> ParseEngineArguments(std::span<const std::string> arguments) {
  return ArgumentReader(arguments).Read();
}

Result<std::filesystem::path> FindEngineLibrary(const EngineLibraryPlaces& places) {
  std::vector<std::filesystem::path> candidates;
  if (!places.flag.empty())
    candidates.push_back(places.flag);  // what was asked for is not replaced
  if (candidates.empty() && !places.environment.empty()) candidates.push_back(places.environment);
  if (candidates.empty()) {
    if (!places.self.empty()) {
      candidates.push_back(places.self.parent_path().parent_path() / "lib" / "libchdb.so");
      candidates.push_back(places.self.parent_path() / "libchdb.so");
    }
    if (!places.deps.empty()) candidates.push_back(places.deps / "libchdb.so");
  }
  std::string asked;
  for (const auto& candidate : candidates) {
    std::error_code error;
    if (std::filesystem::exists(candidate, error)) return candidate;
    asked += (asked.empty() ? "" : ", ") + candidate.string();
  }
  return Status(Code::kNotFound, fmt::format("engine library is not found: {}", asked))
      .Explain(7010, asked, "run scripts/setup, or name the file with --engine-library");
}

}  // namespace partforge
