#include "app/options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>
#include <set>

#include "app/reference_flags.h"
#include "base/http_client.h"
#include "base/json.h"
#include "base/units.h"

namespace partforge::app {
namespace {

const std::vector<OptionSpec>& SharedOptions() {
  static const std::vector<OptionSpec> kShared = {
      {.name = "config", .help = "settings file (JSON)", .group = "Where"},
      {.name = "json",
       .type = OptionType::kBool,
       .default_text = "false",
       .help = "results as JSON on stdout",
       .group = "Output"},
      {.name = "output",
       .default_text = "table",
       .help = "table, json, ndjson or csv",
       .group = "Output"},
      {.name = "quiet",
       .type = OptionType::kBool,
       .default_text = "false",
       .help = "only what was asked for; errors only on stderr",
       .group = "Output",
       .letter = 'q'},
      {.name = "verbose",
       .type = OptionType::kBool,
       .default_text = "false",
       .help = "log decisions too; twice: input and output",
       .group = "Output",
       .is_repeatable = true,
       .letter = 'v'},
      {.name = "log-level", .help = "trace, debug, info, warn or error", .group = "Output"},
      {.name = "log-format", .help = "text or json", .group = "Output"},
      {.name = "log-file",
       .help = "log lines go there instead of stderr; SIGHUP opens it again",
       .group = "Output",
       .refuses_empty = true},
      {.name = "nice",
       .type = OptionType::kInt,
       .default_text = "0",
       .help = "how much the program and its engines yield to others, 0 to 19",
       .group = "Limits"},
      {.name = "color", .default_text = "auto", .help = "auto, always or never", .group = "Output"},
      {.name = "yes",
       .type = OptionType::kBool,
       .default_text = "false",
       .help = "answer questions with yes",
       .group = "Output",
       .letter = 'y'},
      {.name = "allow-password-on-command-line",
       .type = OptionType::kBool,
       .default_text = "false",
       .help = "accept secrets where every user of the machine may read them",
       .group = "Where"},
      {.name = "fail-if-empty",
       .type = OptionType::kBool,
       .default_text = "false",
       .help = "exit 9 when there is nothing to do",
       .group = "Output"},
      {.name = "help",
       .type = OptionType::kBool,
       .default_text = "false",
       .help = "this text",
       .group = "Output",
       .letter = 'h'},
  };
  return kShared;
}

std::string Hyphens(std::string_view text) {
  std::string out(text);
  std::replace(out.begin(), out.end(), '_', '-');
  return out;
}

// `file inspect` is "file-inspect" in the settings file.
std::string SettingsName(std::string_view command) {
  std::string out(command);
  std::replace(out.begin(), out.end(), ' ', '-');
  return out;
}

std::string EnvironmentName(std::string_view option) {
  std::string out = "PARTFORGE_";
  for (const char c : option)
    out += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return out;
}

Status Usage(int pf_number, std::string message, std::string where, std::string what_to_do) {
  return Status(Code::kInvalidArgument, std::move(message))
      .Explain(pf_number, std::move(where), std::move(what_to_do));
}

Result<bool> ParseBool(std::string_view text) {
  if (text == "true" || text == "1" || text == "t" || text == "T" || text == "TRUE" ||
      text == "True")
    return true;
  if (text == "false" || text == "0" || text == "f" || text == "F" || text == "FALSE" ||
      text == "False")
    return false;
  return Status(Code::kInvalidArgument, fmt::format("not a truth value: {}", text));
}

template <class Number>
Result<Number> ParseNumber(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    return Status(Code::kInvalidArgument, fmt::format("not a number: {}", text));
  }
  return value;
}

Status CheckType(const OptionSpec& spec, std::string_view text) {
  switch (spec.type) {
    case OptionType::kString:
      return {};
    case OptionType::kBool:
      PF_TRY(ParseBool(text));
      return {};
    case OptionType::kInt:
      PF_TRY(ParseNumber<int64_t>(text));
      return {};
    case OptionType::kDouble:
      PF_TRY(ParseNumber<double>(text));
      return {};
    case OptionType::kSize:
      PF_TRY(ParseSize(text));
      return {};
    case OptionType::kDuration:
      PF_TRY(ParseDurationMs(text));
      return {};
    case OptionType::kTime:
      PF_TRY(ParseTimeMs(text));
      return {};
  }
  return {};
}

int EditDistance(std::string_view a, std::string_view b) {
  std::vector<int> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = static_cast<int>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    int diagonal = row[0];
    row[0] = static_cast<int>(i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const int above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

int LineOfKey(std::string_view text, std::string_view key) {
  const size_t at = text.find(fmt::format("\"{}\"", key));
  if (at == std::string_view::npos) return 1;
  return 1 + static_cast<int>(
                 std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
}

}  // namespace

std::vector<OptionSpec> AllOptions(const CommandSpec& command) {
  std::vector<OptionSpec> options = command.options;
  for (const OptionSpec& shared : SharedOptions()) {
    const bool is_taken = std::any_of(options.begin(), options.end(), [&](const OptionSpec& own) {
      return own.name == shared.name;
    });
    if (!is_taken) options.push_back(shared);
  }
  return options;
}

std::string_view PasswordInUrl(std::string_view url) {
  const size_t scheme = url.find("://");
  if (scheme == std::string_view::npos) return {};
  const std::string_view rest = url.substr(scheme + 3);
  std::string_view authority = rest.substr(0, rest.find_first_of("/?#"));
  const size_t port = authority.find(':');
  const bool ends_in_port =
      port == std::string_view::npos ||
      authority.find_first_not_of("0123456789", port + 1) == std::string_view::npos;
  // A password that should have been escaped: the URL is refused, and must not be shown.
  if (authority.find('@') == std::string_view::npos && !ends_in_port)
    authority = rest.substr(0, rest.rfind('@') + 1);
  const size_t at = authority.rfind('@');
  if (at == std::string_view::npos) return {};
  const size_t colon = authority.substr(0, at).find(':');
  if (colon == std::string_view::npos) return {};
  return authority.substr(colon + 1, at - colon - 1);
}

namespace {

// Values of password=… (also sslpassword=…), as they are written there.
std::vector<std::string_view> PasswordValues(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  std::vector<std::string_view> values;
  constexpr std::string_view kWord = "password";
  for (size_t at = lower.find(kWord); at != std::string::npos; at = lower.find(kWord, at + 1)) {
    size_t begin = lower.find_first_not_of(' ', at + kWord.size());
    if (begin == std::string::npos || text[begin] != '=') continue;
    begin = text.find_first_not_of(' ', begin + 1);
    if (begin == std::string_view::npos) continue;
    if (text[begin] != '\'') {
      values.push_back(text.substr(begin, text.find_first_of("&# \t\n", begin) - begin));
      continue;
    }
    size_t end = begin + 1;
    while (end < text.size() && text[end] != '\'') end += text[end] == '\\' ? 2 : 1;
    values.push_back(text.substr(begin + 1, std::min(end, text.size()) - begin - 1));
  }
  return values;
}

}  // namespace

std::vector<std::string> SecretsInUrl(std::string_view url) {
  std::set<std::string> found;
  const auto add = [&](std::string_view secret) {
    if (secret.empty()) return;
    found.emplace(secret);
    if (const Result<std::string> decoded = UrlDecode(secret); decoded.ok()) found.insert(*decoded);
  };
  std::string_view password = PasswordInUrl(url);
  add(password);
  while (password.find_first_of("/?#@:") != std::string_view::npos) {
    const size_t cut = password.find_first_of("/?#@:");
    add(password.substr(0, cut));
    password.remove_prefix(cut + 1);
    add(password);
  }
  for (const std::string_view value : PasswordValues(url)) add(value);
  std::vector<std::string> secrets(found.begin(), found.end());
  std::stable_sort(secrets.begin(), secrets.end(),
                   [](const std::string& a, const std::string& b) { return a.size() > b.size(); });
  return secrets;
}

std::string MaskPasswordInUrl(std::string_view url) {
  std::vector<std::string_view> secrets = PasswordValues(url);
  secrets.push_back(PasswordInUrl(url));
  std::sort(secrets.begin(), secrets.end(),
            [](std::string_view a, std::string_view b) { return a.data() > b.data(); });
  std::string masked(url);
  for (const std::string_view secret : secrets) {
    if (secret.empty()) continue;
    const auto place = static_cast<size_t>(secret.data() - url.data());
    if (place <= masked.size()) masked.replace(place, secret.size(), "***");
  }
  return masked;
}

std::vector<std::string> NearestNames(std::string_view wrong, std::span<const std::string> names) {
  std::vector<std::pair<int, std::string>> ranked;
  for (const std::string& name : names) {
    const int distance = EditDistance(wrong, name);
    if (distance <= 2) ranked.emplace_back(distance, name);
  }
  std::sort(ranked.begin(), ranked.end());
  std::vector<std::string> nearest;
  for (size_t i = 0; i < ranked.size() && i < 3; ++i) nearest.push_back(ranked[i].second);
  return nearest;
}

// Collects the layers one after the other, lowest first, so that a later one overwrites.
class OptionResolver {
 public:
  OptionResolver(const CommandSpec& command, std::span<const CommandSpec> all_commands,
                 const OptionInputs& inputs)
      : command_(command),
        all_commands_(all_commands),
        inputs_(inputs),
        specs_(AllOptions(command)) {}

  Result<ResolvedOptions> Run() {
    for (const OptionSpec& spec : specs_) {
      OptionValue& value = resolved_.values_[std::string(spec.name)];
      if (!spec.default_text.empty()) value.texts = {std::string(spec.default_text)};
    }
    PF_ASSIGN(const Flags flags, SplitArguments());
    PF_TRY(ReadConfigFile(flags));
    PF_TRY(ReadEnvironment());
    PF_TRY(RefuseSecretsOfFlags(flags));
    PF_TRY(RefuseEmptyFlags(flags));
    for (const auto& [name, texts] : flags.values)
      PF_TRY(Set(name, texts, "flag", fmt::format("--{}", name)));
    PF_TRY(ReadSecretFiles());
    PF_TRY(CheckRequired());
    CollectSecrets();
    WarnOfPassedFlags();
    return std::move(resolved_);
  }

 private:
  struct Flags {
    std::map<std::string, std::vector<std::string>> values;
  };

  const OptionSpec* FindSpec(std::string_view name) const {
    for (const OptionSpec& spec : specs_) {
      if (spec.name == name) return &spec;
    }
    return nullptr;
  }

  // Also finds NAME-file of a secret.
  const OptionSpec* FindSecretOfFile(std::string_view name) const {
    if (!name.ends_with("-file")) return nullptr;
    const OptionSpec* spec = FindSpec(name.substr(0, name.size() - 5));
    return spec != nullptr && TakesFile(*spec) ? spec : nullptr;
  }

  static bool TakesFile(const OptionSpec& spec) { return spec.is_secret || spec.may_hold_password; }

  // Only commands that work on jobs or their tables share flags with the reference program.
  const ReferenceFlag* ReferenceFlagOf(std::string_view name) const {
    const bool may_have = FindSpec("state-url") != nullptr || FindSpec("clickhouse-url") != nullptr;
    const ReferenceFlag* const flag = may_have ? FindReferenceFlag(name) : nullptr;
    if (flag != nullptr && !flag->command.empty() && flag->command != command_.name) return nullptr;
    const bool has_heir = flag != nullptr && flag->fate == ReferenceFlag::Fate::kRenamed;
    return has_heir && FindSpec(flag->text) == nullptr ? nullptr : flag;
  }

  // Remembers a flag that may be left out; refuses one that may not, unless it is switched off.
  Status PassReferenceFlag(const ReferenceFlag& flag, std::string_view value) {
    if (flag.is_switch) {
      if (const Result<bool> on = ParseBool(value); !on.ok() && !value.empty())
        return Usage(1005, fmt::format("--{}: {}", flag.name, on.status().message()),
                     fmt::format("--{}", flag.name), std::string(flag.text));
    }
    const bool is_off = flag.is_switch && !value.empty() && !ParseBool(value).value();
    const bool is_refused = flag.fate == ReferenceFlag::Fate::kRefused  ? !is_off
                            : flag.fate == ReferenceFlag::Fate::kAlways ? is_off
                                                                        : false;
    if (flag.is_secret && !value.empty()) resolved_.secrets_.emplace_back(value);
    if (is_refused)
      return Usage(1003, fmt::format("no such flag here: --{}", flag.name),
                   std::string(command_.name), std::string(flag.text));
    if (flag.fate == ReferenceFlag::Fate::kIgnored)
      passed_[std::string(flag.text)].insert(fmt::format("--{}", flag.name));
    return {};
  }

  void WarnOfPassedFlags() {
    std::vector<std::string> groups;
    for (const auto& [why, names] : passed_)
      groups.push_back(fmt::format("{}: {}", fmt::join(names, ", "), why));
    if (!groups.empty())
      resolved_.warnings_.push_back(
          fmt::format("flags without effect here ({})", fmt::join(groups, "; ")));
  }

  Status UnknownFlag(std::string_view name) const {
    std::vector<std::string> names;
    for (const OptionSpec& spec : specs_) names.emplace_back(spec.name);
    const auto nearest = NearestNames(name, names);
    const std::string advice =
        nearest.empty() ? fmt::format("partforge {} --help lists the flags", command_.name)
                        : fmt::format("did you mean --{}?", fmt::join(nearest, " or --"));
    return Usage(1003, fmt::format("unknown flag --{}", name), std::string(command_.name), advice);
  }

  Result<Flags> SplitArguments() {
    Flags flags;
    bool is_flag_allowed = true;
    for (size_t i = 0; i < inputs_.argv.size(); ++i) {
      const std::string& word = inputs_.argv[i];
      if (!is_flag_allowed || word.size() < 2 || word[0] != '-') {
        resolved_.arguments_.push_back(word);
        continue;
      }
      if (word == "--") {
        is_flag_allowed = false;
        continue;
      }
      std::string_view body = word;
      body.remove_prefix(body.starts_with("--") ? 2 : 1);
      const size_t equals = body.find('=');
      std::string name = Hyphens(body.substr(0, equals));
      std::optional<std::string> value;
      if (equals != std::string_view::npos) value = std::string(body.substr(equals + 1));
      if (word[1] != '-' && !name.empty() && name.find_first_not_of(name[0]) == std::string::npos) {
        if (const OptionSpec* spec = FindLetter(name[0]);
            spec != nullptr && (name.size() == 1 || spec->is_repeatable)) {
          for (size_t n = 1; n < name.size(); ++n)
            flags.values[std::string(spec->name)].emplace_back("true");
          name = spec->name;
        }
      }
      const OptionSpec* spec = FindSpec(name);
      if (spec == nullptr && name.starts_with("no-")) {
        const OptionSpec* positive = FindSpec(std::string_view(name).substr(3));
        const bool is_switch = positive != nullptr && positive->type == OptionType::kBool;
        if (!value && (is_switch || (positive != nullptr && !positive->no_text.empty()))) {
          flags.values[std::string(positive->name)] = {is_switch ? "false"
                                                                 : std::string(positive->no_text)};
          continue;
        }
      }
      if (const ReferenceFlag* reference = spec == nullptr ? ReferenceFlagOf(name) : nullptr) {
        if (!value && reference->is_switch) value = "true";
        if (reference->fate == ReferenceFlag::Fate::kRenamed) {
          name = reference->text;
          spec = FindSpec(name);
        } else {
          if (!value && i + 1 < inputs_.argv.size()) value = inputs_.argv[++i];
          PF_TRY(PassReferenceFlag(*reference, value.value_or("")));
          continue;
        }
      }
      const bool is_secret_file = spec == nullptr && FindSecretOfFile(name) != nullptr;
      if (spec == nullptr && !is_secret_file) return UnknownFlag(name);
      if (!value && spec != nullptr && spec->type == OptionType::kBool) value = "true";
      if (!value) {
        if (i + 1 >= inputs_.argv.size()) {
          return Usage(1004, fmt::format("--{} needs a value", name), std::string(command_.name),
                       fmt::format("--{}=VALUE", name));
        }
        value = inputs_.argv[++i];
      }
      auto& texts = flags.values[name];
      if (spec == nullptr || !spec->is_repeatable) texts.clear();
      texts.push_back(*value);
    }
    const auto count = static_cast<int>(resolved_.arguments_.size());
    const bool asks_for_help = flags.values.contains("help");
    if (!asks_for_help && count > command_.arguments_max) {
      return Usage(1007,
                   fmt::format("unexpected argument {}",
                               resolved_.arguments_[static_cast<size_t>(command_.arguments_max)]),
                   std::string(command_.name),
                   fmt::format("partforge {} --help shows the usage", command_.name));
    }
    if (!asks_for_help && count < command_.arguments_min) {
      return Usage(1006, fmt::format("{} is missing", command_.arguments),
                   std::string(command_.name),
                   fmt::format("partforge {} {}", command_.name, command_.arguments));
    }
    is_help_ = asks_for_help;
    return flags;
  }

  Status RefuseEmptyFlags(const Flags& flags) const {
    for (const auto& [name, texts] : flags.values) {
      const OptionSpec* spec = FindSpec(name);
      if (spec == nullptr || !spec->refuses_empty) continue;
      if (std::none_of(texts.begin(), texts.end(),
                       [](const std::string& text) { return text.empty(); }))
        continue;
      return Usage(1005, fmt::format("--{} is empty, as an unset shell variable leaves it", name),
                   fmt::format("--{}", name), fmt::format("--{}=VALUE, or leave it out", name));
    }
    return {};
  }

  const OptionSpec* FindLetter(char letter) const {
    for (const OptionSpec& spec : specs_) {
      if (spec.letter == letter) return &spec;
    }
    return nullptr;
  }

  Status Set(std::string_view name, std::vector<std::string> texts, std::string origin,
             std::string_view where) {
    if (const OptionSpec* secret = FindSecretOfFile(name);
        secret != nullptr && FindSpec(name) == nullptr) {
      secret_files_[std::string(secret->name)] = {texts.back(), std::move(origin)};
      return {};
    }
    const OptionSpec* spec = FindSpec(name);
    PF_CHECK(spec != nullptr, "Set of an unknown option");
    for (const std::string& text : texts) {
      if (const Status status = CheckType(*spec, text); !status.ok()) {
        return Usage(1005, fmt::format("{}: {}", where, status.message()), std::string(where),
                     fmt::format("{}: {}", spec->name, spec->help));
      }
    }
    if (TakesFile(*spec)) secret_files_.erase(std::string(name));
    resolved_.values_[std::string(name)] = OptionValue{std::move(texts), std::move(origin)};
    return {};
  }

  Status ReadConfigFile(const Flags& flags) {
    std::string path;
    if (const auto flag = flags.values.find("config"); flag != flags.values.end()) {
      path = flag->second.back();
    } else if (const auto env = inputs_.environment.find("PARTFORGE_CONFIG");
               env != inputs_.environment.end()) {
      path = env->second;
    }
    const bool is_explicit = !path.empty();
    if (!is_explicit) path = inputs_.default_config_path;
    if (path.empty() || (is_help_ && !is_explicit)) return {};
    const Result<std::string> text = inputs_.read_file(path);
    if (!text.ok()) {
      if (!is_explicit && text.status().code() == Code::kNotFound) return {};
      return Usage(1008, text.status().message(), path, "name a readable JSON file with --config");
    }
    const Result<JsonDoc> doc = ParseJson(*text);
    if (!doc.ok() || !doc->is_object()) {
      return Usage(
          1008, doc.ok() ? std::string("the top level is not an object") : doc.status().message(),
          path,
          "the file must hold one JSON object of flag names; partforge config init prints a "
          "template");
    }
    PF_TRY(ReadConfigObject(*doc, *text, path, false));
    if (const auto commands = doc->find("commands"); commands != doc->end()) {
      if (!commands->is_object())
        return Usage(1008, "commands is not an object", path, "commands: {\"worker\": {…}}");
      for (const auto& [name, object] : commands->items()) {
        std::string command_name = Hyphens(name);
        if (command_name == "finalise-compaction") command_name = "finalize-compaction";
        PF_TRY(CheckCommandName(name, command_name, *text, path));
        if (command_name == SettingsName(command_.name))
          PF_TRY(ReadConfigObject(object, *text, path, true));
      }
    }
    return {};
  }

  // A misspelt section would run the command with its defaults.
  Status CheckCommandName(const std::string& key, const std::string& name, const std::string& text,
                          const std::string& path) const {
    constexpr std::array<std::string_view, 2> kOfReference = {"finalize-compaction", "server"};
    if (key.starts_with("x-") ||
        std::find(kOfReference.begin(), kOfReference.end(), name) != kOfReference.end())
      return {};
    std::vector<std::string> names;
    for (const CommandSpec& command : all_commands_) names.push_back(SettingsName(command.name));
    if (std::find(names.begin(), names.end(), name) != names.end()) return {};
    const auto nearest = NearestNames(name, names);
    return Usage(1009, fmt::format("unknown command {}", key),
                 fmt::format("{}:{}", path, LineOfKey(text, key)),
                 nearest.empty()
                     ? "partforge help lists the commands; remove it, or begin it with x-"
                     : fmt::format("did you mean {}?", fmt::join(nearest, " or ")));
  }

  Status ReadConfigObject(const JsonDoc& object, const std::string& text, const std::string& path,
                          bool is_own) {
    if (!object.is_object())
      return Usage(1008, "not an object", path, "use an object of flag names");
    std::map<std::string, std::string> spellings;  // name → key
    for (const auto& [key, value] : object.items()) {
      if (key.starts_with("x-") || (!is_own && key == "commands")) continue;
      const std::string name = Hyphens(key);
      const std::string origin = fmt::format("{}:{}", path, LineOfKey(text, key));
      if (const auto [twin, is_new] = spellings.emplace(name, key); !is_new)
        return Usage(1008, fmt::format("key stands twice: {} and {}", twin->second, key), origin,
                     "keep one of them");
      if (FindSpec(name) == nullptr && FindSecretOfFile(name) == nullptr) {
        if (!is_own && IsOptionOfAnyCommand(name)) continue;
        if (const ReferenceFlag* flag = FindReferenceFlag(name);
            flag != nullptr && flag->fate == ReferenceFlag::Fate::kIgnored) {
          PF_TRY(PassReferenceFlag(*flag, ""));
          continue;
        }
        return UnknownKey(key, origin);
      }
      std::vector<std::string> texts;
      PF_TRY(AppendValue(value, origin, key, &texts));
      PF_TRY(Set(name, std::move(texts), origin, fmt::format("{} {}", origin, key)));
    }
    return {};
  }

  static Status AppendValue(const JsonDoc& value, const std::string& origin, const std::string& key,
                            std::vector<std::string>* texts) {
    if (value.is_string()) {
      texts->push_back(value.get<std::string>());
    } else if (value.is_boolean() || value.is_number()) {
      const bool is_whole =
          value.is_number_float() &&
          value.get<double>() == static_cast<double>(static_cast<int64_t>(value.get<double>()));
      texts->push_back(is_whole ? fmt::format("{}", static_cast<int64_t>(value.get<double>()))
                                : value.dump());
    } else if (value.is_array() && std::all_of(value.begin(), value.end(),
                                               [](const JsonDoc& v) { return v.is_string(); })) {
      for (const JsonDoc& item : value) texts->push_back(item.get<std::string>());
    } else {
      return Usage(1005, fmt::format("{} is neither text, number nor truth value", key), origin,
                   "write it as the flag would be written");
    }
    return {};
  }

  bool IsOptionOfAnyCommand(std::string_view name) const {
    for (const CommandSpec& command : all_commands_) {
      for (const OptionSpec& option : command.options) {
        if (option.name == name) return true;
        if (TakesFile(option) && name == std::string(option.name) + "-file") return true;
      }
    }
    return false;
  }

  std::vector<std::string> CommandsWith(std::string_view name) const {
    std::vector<std::string> owners;
    for (const CommandSpec& command : all_commands_) {
      const bool has_it =
          std::any_of(command.options.begin(), command.options.end(), [&](const OptionSpec& own) {
            return own.name == name || (TakesFile(own) && name == std::string(own.name) + "-file");
          });
      if (has_it) owners.emplace_back(command.name);
    }
    return owners;
  }

  Status UnknownKey(const std::string& key, const std::string& origin) const {
    std::set<std::string> names;
    for (const OptionSpec& spec : specs_) names.emplace(spec.name);
    for (const CommandSpec& command : all_commands_) {
      for (const OptionSpec& option : command.options) names.emplace(option.name);
    }
    const std::vector<std::string> list(names.begin(), names.end());
    if (IsOptionOfAnyCommand(Hyphens(key)))
      return Usage(1009, fmt::format("{} has no setting {}", command_.name, key), origin,
                   fmt::format("set it at the top level, or for a command that has it: {}",
                               fmt::join(CommandsWith(Hyphens(key)), ", ")));
    const auto nearest = NearestNames(Hyphens(key), list);
    return Usage(1009, fmt::format("unknown key {}", key), origin,
                 nearest.empty() ? "remove it, or begin it with x-"
                                 : fmt::format("did you mean {}?", fmt::join(nearest, " or ")));
  }

  std::string ForeignValue(const OptionSpec& spec) const {
    if (spec.env_value != nullptr) return spec.env_value(inputs_.environment);
    const auto it = inputs_.environment.find(std::string(spec.env_alias));
    return it == inputs_.environment.end() ? std::string() : it->second;
  }

  Status ReadEnvironment() {
    for (const OptionSpec& spec : specs_) {
      if (spec.env_alias.empty()) continue;
      const std::string text = ForeignValue(spec);
      if (text.empty() || resolved_.values_[std::string(spec.name)].origin != "default")
        continue;  // the file says more than a foreign name
      PF_TRY(Set(spec.name, {text}, fmt::format("env {}", spec.env_alias), spec.env_alias));
    }
    std::map<std::string, std::string> names;
    for (const OptionSpec& spec : specs_) {
      names[EnvironmentName(spec.name)] = spec.name;
      if (TakesFile(spec))
        names[EnvironmentName(spec.name) + "_FILE"] = std::string(spec.name) + "-file";
    }
    for (const auto& [variable, text] : inputs_.environment) {
      // An empty one is what a shell or a compose file makes of a variable that is not set.
      if (!variable.starts_with("PARTFORGE_") || variable == "PARTFORGE_CONFIG" || text.empty())
        continue;
      if (const auto it = names.find(variable); it != names.end()) {
        PF_TRY(Set(it->second, {text}, fmt::format("env {}", variable), variable));
      } else if (!IsKnownVariable(variable)) {
        resolved_.warnings_.push_back(
            fmt::format("environment variable matches no setting: {}", variable));
      }
    }
    return {};
  }

  bool IsKnownVariable(std::string_view variable) const {
    static const std::set<std::string_view> kOthers = {
        "PARTFORGE_FAULT",          "PARTFORGE_FAULT_TRACE", "PARTFORGE_ENGINE_LIBRARY",
        "PARTFORGE_ENGINE_KEY",     "PARTFORGE_DEPS_PREFIX", "PARTFORGE_SOURCE_DIR",
        "PARTFORGE_BINARY_DIR",     "PARTFORGE_CRASH_SHARE", "PARTFORGE_BINARY",
        "PARTFORGE_INTEROP_PYTHON", "PARTFORGE_INTEROP_IN"};
    if (kOthers.contains(variable) || variable.starts_with("PARTFORGE_TEST_")) return true;
    for (const CommandSpec& command : all_commands_) {
      for (const OptionSpec& option : command.options) {
        const std::string name = EnvironmentName(option.name);
        if (variable == name || (TakesFile(option) && variable == name + "_FILE")) return true;
      }
    }
    return false;
  }

  Status ReadSecretFiles() {
    for (const auto& [name, file] : secret_files_) {
      Result<std::string> text = inputs_.read_file(file.first);
      if (!text.ok()) {
        return Usage(1013, text.status().message(), fmt::format("--{}-file", name),
                     "name a file that this user can read");
      }
      std::string value = std::move(text).value();
      if (value.ends_with('\n')) value.pop_back();
      if (value.ends_with('\r')) value.pop_back();
      if (value.empty()) {
        return Usage(1013, "the file is empty", fmt::format("--{}-file", name),
                     "write the value into it, or leave the flag out");
      }
      resolved_.values_[name] = OptionValue{{std::move(value)}, file.second + " (file)"};
    }
    return {};
  }

  // Every user of the machine can read command lines (user-experience §10).
  Status RefuseSecretsOfFlags(const Flags& flags) const {
    const auto allowed = flags.values.find("allow-password-on-command-line");
    if (allowed != flags.values.end() && allowed->second.back() != "false") return {};
    for (const auto& [name, texts] : flags.values) {
      const OptionSpec* spec = FindSpec(name);
      if (spec == nullptr || !TakesFile(*spec)) continue;
      for (const std::string& text : texts) {
        if (text.empty() || (!spec->is_secret && SecretsInUrl(text).empty())) continue;
        return Usage(1014, fmt::format("--{} carries a secret", name), std::string(command_.name),
                     fmt::format("--{}-file=PATH, or {} in the environment\n"
                                 "or accept it with --allow-password-on-command-line",
                                 name, EnvironmentName(name)));
      }
    }
    return {};
  }

  void CollectSecrets() {
    for (const OptionSpec& spec : specs_) {
      for (const std::string& text : resolved_.values_[std::string(spec.name)].texts) {
        if (spec.is_secret && !text.empty()) resolved_.secrets_.push_back(text);
        if (!spec.may_hold_password) continue;
        for (std::string& secret : SecretsInUrl(text))
          resolved_.secrets_.push_back(std::move(secret));
      }
    }
  }

  Status CheckRequired() const {
    if (is_help_) return {};
    for (const OptionSpec& spec : specs_) {
      const OptionValue& value = resolved_.values_.find(spec.name)->second;
      if (!spec.is_required || (!value.texts.empty() && !value.texts.back().empty())) continue;
      return Usage(1006, fmt::format("--{} is required", spec.name), std::string(command_.name),
                   fmt::format("--{}=VALUE ({}), or {} in the environment", spec.name, spec.help,
                               EnvironmentName(spec.name)));
    }
    return {};
  }

  const CommandSpec& command_;
  const std::span<const CommandSpec> all_commands_;
  const OptionInputs& inputs_;
  const std::vector<OptionSpec> specs_;
  ResolvedOptions resolved_;
  std::map<std::string, std::set<std::string>> passed_;  // why ignored → flags
  std::map<std::string, std::pair<std::string, std::string>> secret_files_;  // name → path, origin
  bool is_help_ = false;
};

Result<ResolvedOptions> ResolveOptions(const CommandSpec& command,
                                       std::span<const CommandSpec> all_commands,
                                       const OptionInputs& inputs) {
  return OptionResolver(command, all_commands, inputs).Run();
}

const OptionValue& ResolvedOptions::Value(std::string_view name) const {
  const auto it = values_.find(name);
  PF_CHECK(it != values_.end(), "the command has no option " + std::string(name));
  return it->second;
}

bool ResolvedOptions::Has(std::string_view name) const {
  return values_.find(name) != values_.end();
}
bool ResolvedOptions::IsSet(std::string_view name) const {
  return Value(name).origin != "default";
}

std::string ResolvedOptions::String(std::string_view name) const {
  const OptionValue& value = Value(name);
  return value.texts.empty() ? std::string() : value.texts.back();
}

bool ResolvedOptions::Bool(std::string_view name) const {
  const std::string text = String(name);
  return !text.empty() && ParseBool(text).value();
}

int64_t ResolvedOptions::Int(std::string_view name) const {
  const std::string text = String(name);
  return text.empty() ? 0 : ParseNumber<int64_t>(text).value();
}

double ResolvedOptions::Double(std::string_view name) const {
  const std::string text = String(name);
  return text.empty() ? 0 : ParseNumber<double>(text).value();
}

int64_t ResolvedOptions::SizeBytes(std::string_view name) const {
  const std::string text = String(name);
  return text.empty() ? 0 : ParseSize(text).value();
}

int64_t ResolvedOptions::DurationMs(std::string_view name) const {
  const std::string text = String(name);
  return text.empty() ? 0 : ParseDurationMs(text).value();
}

std::vector<std::string> ResolvedOptions::List(std::string_view name) const {
  return Value(name).texts;
}
Secret ResolvedOptions::SecretValue(std::string_view name) const {
  return Secret(String(name));
}

}  // namespace partforge::app
