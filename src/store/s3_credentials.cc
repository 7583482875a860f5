#include "store/s3_credentials.h"

#include <fmt/format.h>

#include <utility>

#include "base/files.h"
#include "store/remote_credentials.h"

namespace partforge {
namespace {

constexpr int64_t kRefreshAheadMs = int64_t{5} * 60 * 1000;
constexpr int64_t kTokenFileBytesMax = 64 << 10;
constexpr std::string_view kInstanceUrl = "http://169.254.169.254";
constexpr std::string_view kContainerHost = "http://169.254.170.2";

Status NoCredentials(std::string_view found) {
  return Status(Code::kRefused, fmt::format("no credentials for the object store: {}", found))
      .Explain(7005, "environment, shared files, web identity, container, instance",
               "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or give the "
               "machine a role");
}

// A token may only be sent where containers get their credentials, or over TLS (AWS SDKs,
// "Container credential provider": loopback, 169.254.170.2, 169.254.170.23, fd00:ec2::23).
bool IsAllowedContainerUrl(std::string_view url) {
  if (url.starts_with("https://")) return true;
  if (!url.starts_with("http://")) return false;
  std::string_view authority = url.substr(7);
  authority = authority.substr(0, authority.find_first_of("/?#"));
  if (authority.find('@') != std::string_view::npos) return false;
  const std::string_view host = authority.starts_with('[')
                                    ? authority.substr(0, authority.find(']') + 1)
                                    : authority.substr(0, authority.find(':'));
  return host == "localhost" || host == "127.0.0.1" || host == "[::1]" || host == "169.254.170.2" ||
         host == "169.254.170.23" || host == "[fd00:ec2::23]";
}

std::string TextOf(const AwsProfile& profile, std::string_view key) {
  const auto it = profile.find(key);
  return it == profile.end() ? std::string() : it->second;
}

}  // namespace

CredentialChain::CredentialChain(HttpClient& http, Options options)
    : http_(http), options_(std::move(options)), current_(options_.given) {}

Result<AwsCredentials> CredentialChain::Get(const Context& ctx) {
  {
    std::unique_lock lock(mutex_);
    while (true) {
      const int64_t left_ms = current_.expires_ms - ctx.clock.NowMs();
      const bool has_any = !current_.access_key.empty();
      if (has_any && (current_.expires_ms == 0 || left_ms > kRefreshAheadMs)) return current_;
      if (!is_fetching_) break;
      if (has_any && left_ms > 0) return current_;  // still good while another thread fetches
      if (!fetched_.wait(lock, ctx.stop, [this] { return !is_fetching_; })) {
        return Status(Code::kCancelled, "stopped while waiting for credentials");
      }
    }
    is_fetching_ = true;
  }
  Result<AwsCredentials> found = Find(ctx);
  if (found.ok()) {
    ctx.log.AddSecret(found->secret_key.Reveal());
    ctx.log.AddSecret(found->session_token.Reveal());
  }
  const std::lock_guard lock(mutex_);
  is_fetching_ = false;
  fetched_.notify_all();
  if (found.ok()) {
    current_ = *found;
    has_found_ = true;
  } else if (!current_.access_key.empty() && current_.expires_ms > ctx.clock.NowMs()) {
    return current_;  // some minutes are left to try again
  }
  return found;
}

bool CredentialChain::Reject(const AwsCredentials& credentials) {
  if (!options_.given.access_key.empty()) return false;
  const std::lock_guard lock(mutex_);
  if (current_.access_key == credentials.access_key &&
      current_.session_token.Reveal() == credentials.session_token.Reveal()) {
    current_ = AwsCredentials();
  }
  return true;
}

Result<AwsCredentials> CredentialChain::Find(const Context& ctx) {
  if (!options_.given.access_key.empty()) return options_.given;
  if (std::string access_key = Variable("AWS_ACCESS_KEY_ID"); !access_key.empty()) {
    std::string secret_key = Variable("AWS_SECRET_ACCESS_KEY");
    if (secret_key.empty())
      return NoCredentials("AWS_ACCESS_KEY_ID is set, AWS_SECRET_ACCESS_KEY is not");
    return AwsCredentials{.access_key = std::move(access_key),
                          .secret_key = Secret(std::move(secret_key)),
                          .session_token = Secret(Variable("AWS_SESSION_TOKEN"))};
  }
  PF_ASSIGN(const AwsProfile profile, ReadAwsProfile(options_.environment));
  Result<AwsCredentials> in_profile = FindInProfile(ctx, profile);
  if (in_profile.ok() || in_profile.status().code() != Code::kNotFound) return in_profile;
  return FindOnMachine(ctx);
}

// kNotFound when the profile holds none.
Result<AwsCredentials> CredentialChain::FindInProfile(const Context& ctx,
                                                      const AwsProfile& profile) {
  if (std::string access_key = TextOf(profile, "aws_access_key_id"); !access_key.empty()) {
    std::string secret_key = TextOf(profile, "aws_secret_access_key");
    if (secret_key.empty()) return NoCredentials("the profile has no aws_secret_access_key");
    return AwsCredentials{.access_key = std::move(access_key),
                          .secret_key = Secret(std::move(secret_key)),
                          .session_token = Secret(TextOf(profile, "aws_session_token"))};
  }
  const std::string role_arn = TextOf(profile, "role_arn");
  if (const std::string file = TextOf(profile, "web_identity_token_file");
      !file.empty() && !role_arn.empty()) {
    return FetchWebIdentity(ctx, http_,
                            {.token_file = file,
                             .role_arn = role_arn,
                             .session_name = TextOf(profile, "role_session_name"),
                             .sts_url = StsUrl()});
  }
  for (const std::string_view key :
       {"source_profile", "credential_process", "sso_session", "sso_start_url"}) {
    if (!TextOf(profile, key).empty()) {
      return NoCredentials(fmt::format("the profile uses {}, which is not supported", key));
    }
  }
  return Status(Code::kNotFound, "the profile holds no credentials");
}

Result<AwsCredentials> CredentialChain::FindOnMachine(const Context& ctx) {
  const std::string token_file = Variable("AWS_WEB_IDENTITY_TOKEN_FILE");
  const std::string role_arn = Variable("AWS_ROLE_ARN");
  if (!token_file.empty() && !role_arn.empty()) {
    return FetchWebIdentity(ctx, http_,
                            {.token_file = token_file,
                             .role_arn = role_arn,
                             .session_name = Variable("AWS_ROLE_SESSION_NAME"),
                             .sts_url = StsUrl()});
  }

  ContainerEndpoint container{.url = Variable("AWS_CONTAINER_CREDENTIALS_FULL_URI"),
                              .authorization = Variable("AWS_CONTAINER_AUTHORIZATION_TOKEN")};
  if (const std::string relative = Variable("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
      !relative.empty()) {
    container.url = std::string(kContainerHost) + relative;
  }
  if (!container.url.empty()) {
    if (!IsAllowedContainerUrl(container.url)) {
      return NoCredentials(
          "AWS_CONTAINER_CREDENTIALS_FULL_URI is neither https nor a known local address");
    }
    if (const std::string file = Variable("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
        !file.empty()) {
      PF_ASSIGN(container.authorization, ReadFile(file, kTokenFileBytesMax));
      while (!container.authorization.empty() && container.authorization.back() <= ' ') {
        container.authorization.pop_back();
      }
    }
    return FetchContainerCredentials(ctx, http_, container);
  }

  if (Variable("AWS_EC2_METADATA_DISABLED") == "true")
    return NoCredentials("none of the sources has any");
  const std::string endpoint = Variable("AWS_EC2_METADATA_SERVICE_ENDPOINT");
  Result<AwsCredentials> found =
      FetchInstanceCredentials(ctx, http_, endpoint.empty() ? std::string(kInstanceUrl) : endpoint);
  if (found.ok() || found.status().code() == Code::kCancelled) return found;
  // On a machine without metadata nothing answers; that is no reason to try again.
  const std::lock_guard lock(mutex_);
  if (has_found_) return found;
  return NoCredentials(
      fmt::format("none of the sources has any; the last said: {}", found.status().message()));
}

std::string CredentialChain::Variable(std::string_view name) const {
  return EnvironmentValue(options_.environment, name);
}

std::string CredentialChain::StsUrl() const {
  if (std::string url = Variable("AWS_ENDPOINT_URL_STS"); !url.empty()) {
    while (url.ends_with('/')) url.pop_back();
    return url;
  }
  const std::string_view suffix =
      options_.region.starts_with("cn-") ? ".amazonaws.com.cn" : ".amazonaws.com";
  return fmt::format("https://sts.{}{}", options_.region, suffix);
}

}  // namespace partforge
