#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"

namespace partforge {

// Value of an environment variable, empty when it is not set. Passed in, since only app reads the
// environment.
using EnvironmentLookup = std::function<std::optional<std::string>(std::string_view name)>;

// The settings of one profile of the shared AWS files.
using AwsProfile = std::map<std::string, std::string, std::less<>>;

// One section of a shared file: "[name]" followed by "key = value" lines; '#' and ';' start
// comments, indented lines belong to nested settings and are skipped. Empty when the section is
// absent.
std::optional<AwsProfile> ParseAwsSection(std::string_view text, std::string_view section);

// The profile that AWS_PROFILE names ("default" without it), read from ~/.aws/config and
// ~/.aws/credentials (AWS_CONFIG_FILE, AWS_SHARED_CREDENTIALS_FILE); the credentials file wins.
// Files that are absent count as empty. kInvalidArgument when AWS_PROFILE names a profile that
// neither holds.
Result<AwsProfile> ReadAwsProfile(const EnvironmentLookup& environment);

// AWS_REGION, AWS_DEFAULT_REGION, the profile's region, else us-east-1.
Result<std::string> ChooseAwsRegion(const EnvironmentLookup& environment);

// The variable's value, "" when unset or when `environment` is empty.
std::string EnvironmentValue(const EnvironmentLookup& environment, std::string_view name);

}  // namespace partforge
