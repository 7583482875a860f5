#include "store/aws_config.h"

#include <fmt/format.h>

#include <cstdint>
#include <filesystem>

#include "base/files.h"

namespace partforge {
namespace {

constexpr int64_t kFileBytesMax = 1 << 20;

std::string_view Trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r";
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

// "[profile  x]" → "profile x".
std::string SectionName(std::string_view line) {
  const std::string_view inside = Trim(line.substr(1, line.find(']') - 1));
  if (!inside.starts_with("profile ") && !inside.starts_with("profile\t"))
    return std::string(inside);
  return "profile " + std::string(Trim(inside.substr(8)));
}

Result<std::string> ReadSharedFile(const EnvironmentLookup& environment, std::string_view variable,
                                   std::string_view name) {
  std::filesystem::path path = EnvironmentValue(environment, variable);
  if (path.empty()) {
    const std::string home = EnvironmentValue(environment, "HOME");
    if (home.empty()) return std::string();
    path = std::filesystem::path(home) / ".aws" / name;
  }
  Result<std::string> text = ReadFile(path, kFileBytesMax);
  if (!text.ok() && text.status().code() == Code::kNotFound) return std::string();
  return text;
}

}  // namespace

std::string EnvironmentValue(const EnvironmentLookup& environment, std::string_view name) {
  return environment ? environment(name).value_or("") : "";
}

std::optional<AwsProfile> ParseAwsSection(std::string_view text, std::string_view section) {
  std::optional<AwsProfile> profile;
  bool is_inside = false;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    const std::string_view trimmed = Trim(line);
    if (trimmed.empty() || trimmed.front() == '#' || trimmed.front() == ';') continue;
    if (trimmed.front() == '[') {
      is_inside = trimmed.find(']') != std::string_view::npos && SectionName(trimmed) == section;
      if (is_inside && !profile.has_value()) profile.emplace();
      continue;
    }
    const size_t equals = trimmed.find('=');
    const bool is_nested = line.front() == ' ' || line.front() == '\t';
    if (!is_inside || is_nested || equals == std::string_view::npos) continue;
    (*profile)[std::string(Trim(trimmed.substr(0, equals)))] = Trim(trimmed.substr(equals + 1));
  }
  return profile;
}

Result<AwsProfile> ReadAwsProfile(const EnvironmentLookup& environment) {
  std::string name = EnvironmentValue(environment, "AWS_PROFILE");
  if (name.empty()) name = EnvironmentValue(environment, "AWS_DEFAULT_PROFILE");
  const bool is_named = !name.empty();
  if (!is_named) name = "default";

  PF_ASSIGN(const std::string config, ReadSharedFile(environment, "AWS_CONFIG_FILE", "config"));
  PF_ASSIGN(const std::string credentials,
            ReadSharedFile(environment, "AWS_SHARED_CREDENTIALS_FILE", "credentials"));
  std::optional<AwsProfile> profile = ParseAwsSection(config, "profile " + name);
  if (!profile.has_value() && name == "default") profile = ParseAwsSection(config, name);
  const std::optional<AwsProfile> secrets = ParseAwsSection(credentials, name);
  if (!profile.has_value() && !secrets.has_value() && is_named) {
    return Status(
               Code::kInvalidArgument,
               fmt::format("AWS_PROFILE names a profile that neither shared file holds: {}", name))
        .Explain(7005, "AWS_PROFILE=" + name, "aws configure --profile " + name);
  }
  AwsProfile merged = profile.value_or(AwsProfile());
  if (secrets.has_value()) {
    for (const auto& [key, value] : *secrets) merged[key] = value;
  }
  return merged;
}

Result<std::string> ChooseAwsRegion(const EnvironmentLookup& environment) {
  for (const std::string_view name : {"AWS_REGION", "AWS_DEFAULT_REGION"}) {
    if (std::string value = EnvironmentValue(environment, name); !value.empty()) return value;
  }
  PF_ASSIGN(const AwsProfile profile, ReadAwsProfile(environment));
  const auto it = profile.find("region");
  return it == profile.end() || it->second.empty() ? std::string("us-east-1") : it->second;
}

}  // namespace partforge
