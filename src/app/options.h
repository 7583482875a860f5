#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/log.h"

namespace partforge::app {

enum class OptionType : uint8_t { kString, kBool, kInt, kDouble, kSize, kDuration, kTime };

// One row of a command's option table. Flags, environment, settings file, --help, the reference
// page, completions and `config print` are all drawn from it.
struct OptionSpec {
  std::string_view name = "";  // "insert-chunk-min-rows"
  OptionType type = OptionType::kString;
  std::string_view default_text = "";  // in the form a user would write; empty = none
  std::string_view help = "";          // one line, no dot
  std::string_view group = "What";     // What | Where | Limits | Output
  std::string_view env_alias =
      "";  // the usual name of others, lowest environment layer: "AWS_REGION"
  // For a setting that others spread over several variables, of which `env_alias` is the first:
  // the value in our form, empty when they say nothing.
  std::string (*env_value)(const std::map<std::string, std::string>& environment) = nullptr;
  bool is_required = false;
  bool is_secret = false;  // may also be given as NAME-file / PARTFORGE_NAME_FILE; never printed
  bool may_hold_password = false;  // a URL; NAME-file works too, its password is never printed
  bool is_repeatable = false;
  std::string_view no_text = "";  // what --no-NAME means where the type is no kBool
  bool refuses_empty = false;     // an empty flag is an unset shell variable, never meant
  char letter = '\0';             // -v
};

struct CommandSpec {
  std::string_view name;       // "upload-freeze", "demo"
  std::string_view purpose;    // one line
  std::string_view arguments;  // "" or "CODE", "[PART]": what stands after the flags
  int arguments_min = 0, arguments_max = 0;
  std::vector<std::string_view> examples;
  std::vector<OptionSpec>
      options;  // its own; the ones that all commands share are added by AllOptions
  std::vector<std::string_view> related;
  // --json is one object a line as the work goes on, and the document without its list at the end
  // (user-experience §4.1); --output=json is the one document.
  bool is_streaming = false;
};

// One resolved setting. Origin: "flag", "env NAME", "PATH:line" or "default".
struct OptionValue {
  std::vector<std::string> texts;  // empty = not set and no default
  std::string origin = "default";
};

// Settings of one run: flags > environment > file > default. Immutable after ResolveOptions. The
// accessors abort on a name that the command does not have (a bug of ours); types were checked
// while resolving.
class ResolvedOptions {
 public:
  bool IsSet(std::string_view name) const;  // has a value from flag, environment or file
  bool Has(std::string_view name) const;    // the command has such an option
  std::string String(std::string_view name) const;
  bool Bool(std::string_view name) const;
  int64_t Int(std::string_view name) const;
  double Double(std::string_view name) const;
  int64_t SizeBytes(std::string_view name) const;
  int64_t DurationMs(std::string_view name) const;
  std::vector<std::string> List(std::string_view name) const;
  Secret SecretValue(std::string_view name) const;
  // Texts that no sink may show: values of secret options and passwords inside URLs.
  const std::vector<std::string>& secrets() const { return secrets_; }

  const std::vector<std::string>& arguments() const { return arguments_; }
  const std::map<std::string, OptionValue, std::less<>>& values() const { return values_; }
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  friend class OptionResolver;
  const OptionValue& Value(std::string_view name) const;
  std::map<std::string, OptionValue, std::less<>> values_;
  std::vector<std::string> arguments_;
  std::vector<std::string> warnings_;  // e.g. a PARTFORGE_ variable that matches no setting
  std::vector<std::string> secrets_;
};

// What ResolveOptions may look at; nothing else.
struct OptionInputs {
  std::vector<std::string> argv;                   // after the command's name
  std::map<std::string, std::string> environment;  // all of it
  std::function<Result<std::string>(const std::string& path)> read_file;
  std::string default_config_path = "/etc/partforge/config.json";  // absent is fine
};

// Pure but for `read_file`. Failures: kInvalidArgument with PF10xx (exit 2), all of the first kind
// met.
Result<ResolvedOptions> ResolveOptions(const CommandSpec& command,
                                       std::span<const CommandSpec> all_commands,
                                       const OptionInputs& inputs);

// The command's options and the shared ones (config, json, log-level, …).
std::vector<OptionSpec> AllOptions(const CommandSpec& command);

// The password of `scheme://user:password@host…`, as it is written there; empty when there is none.
// Also of a URL that does not parse for a password with / ? or # in it.
std::string_view PasswordInUrl(std::string_view url);
// Every text of the URL that no message may show, longest first: the password, its pieces where a
// parser may take it apart, and the values of password=… in a query or in libpq's keyword form.
std::vector<std::string> SecretsInUrl(std::string_view url);
// The URL with *** in place of its passwords.
std::string MaskPasswordInUrl(std::string_view url);

// Names within edit distance 2 of `wrong`, nearest first, at most three.
std::vector<std::string> NearestNames(std::string_view wrong, std::span<const std::string> names);

}  // namespace partforge::app
