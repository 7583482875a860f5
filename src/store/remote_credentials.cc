#include "store/remote_credentials.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "base/files.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/units.h"
#include "store/xml.h"

namespace partforge {
namespace {

constexpr int64_t kLocalConnectTimeoutMs = 1000;  // metadata lies on the same link, or nowhere
constexpr int64_t kLocalIdleTimeoutMs = 5000;
constexpr int64_t kStsIdleTimeoutMs = 20'000;
constexpr int64_t kAnswerBytesMax = 1 << 20;
constexpr int64_t kTokenBytesMax = 64 << 10;
constexpr std::string_view kTokenSeconds = "21600";
constexpr size_t kRoleNameBytesMax = 256;

Result<std::string> BodyOf(Result<HttpReply> reply, std::string_view doing) {
  if (!reply.ok()) {
    if (reply.status().code() == Code::kCancelled) return std::move(reply).status();
    // Asking for credentials changes nothing anywhere, so an unknown outcome is just no answer.
    return std::move(reply).status().As(Code::kUnavailable).With(doing);
  }
  if (reply->status >= 200 && reply->status < 300) return std::move(reply->body);
  const Code code =
      reply->status >= 500 || reply->status == 429 ? Code::kUnavailable : Code::kRefused;
  return Status(code, fmt::format("{}: HTTP status {}", doing, reply->status));
}

std::string JsonText(const JsonDoc& doc, std::string_view field) {
  const auto it = doc.find(std::string(field));
  return it != doc.end() && it->is_string() ? it->get<std::string>() : std::string();
}

Result<AwsCredentials> Checked(std::string access_key, std::string secret_key, std::string token,
                               const std::string& expires, std::string_view doing) {
  if (access_key.empty() || secret_key.empty()) {
    return Status(Code::kCorruption, fmt::format("{}: the answer holds no keys", doing));
  }
  AwsCredentials credentials{.access_key = std::move(access_key),
                             .secret_key = Secret(std::move(secret_key)),
                             .session_token = Secret(std::move(token))};
  if (!expires.empty()) {
    PF_ASSIGN(credentials.expires_ms, ParseTimeMs(expires));
  }
  return credentials;
}

// The form that container endpoints and instance metadata share.
Result<AwsCredentials> FromJson(std::string_view body, std::string_view doing) {
  PF_ASSIGN(const JsonDoc doc, ParseJson(body));
  if (!doc.is_object()) {
    return Status(Code::kCorruption, fmt::format("{}: the answer is no JSON object", doing));
  }
  if (const std::string code = JsonText(doc, "Code"); !code.empty() && code != "Success") {
    return Status(Code::kRefused, fmt::format("{}: answered code {}", doing, code));
  }
  return Checked(JsonText(doc, "AccessKeyId"), JsonText(doc, "SecretAccessKey"),
                 JsonText(doc, "Token"), JsonText(doc, "Expiration"), doing);
}

HttpRequest LocalRequest(std::string method, std::string url, HttpHeaders headers) {
  HttpRequest request;
  request.method = std::move(method);
  request.url = std::move(url);
  request.headers = std::move(headers);
  request.connect_timeout_ms = kLocalConnectTimeoutMs;
  request.idle_timeout_ms = kLocalIdleTimeoutMs;
  request.body_bytes_max = kAnswerBytesMax;
  return request;
}

std::string FirstLine(const std::string& text) {
  std::string line = text.substr(0, text.find('\n'));
  while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
  return line;
}

}  // namespace

Result<AwsCredentials> FetchWebIdentity(const Context& ctx, HttpClient& http,
                                        const WebIdentity& from) {
  constexpr std::string_view kDoing = "ask STS for web identity credentials";
  PF_ASSIGN(const std::string token_text, ReadFile(from.token_file, kTokenBytesMax));
  const std::string token = FirstLine(token_text);
  if (token.empty()) {
    return Status(Code::kInvalidArgument,
                  "the web identity token file is empty: " + from.token_file);
  }
  ctx.log.AddSecret(token);
  // In the body, so that the token stands in no access log.
  const std::string body =
      EncodeQuery({{"Action", "AssumeRoleWithWebIdentity"},
                   {"Version", "2011-06-15"},
                   {"RoleArn", from.role_arn},
                   {"RoleSessionName", from.session_name.empty() ? "partforge" : from.session_name},
                   {"WebIdentityToken", token}});
  HttpRequest request;
  request.method = "POST";
  request.url = from.sts_url + "/";
  request.headers = {{"content-type", "application/x-www-form-urlencoded"}};
  request.body = AsBytes(body);
  request.idle_timeout_ms = kStsIdleTimeoutMs;
  request.body_bytes_max = kAnswerBytesMax;
  PF_ASSIGN(const std::string answer, BodyOf(http.Send(ctx, request), kDoing));
  PF_ASSIGN(const XmlElement root, ParseXml(answer));
  const XmlElement* result = root.Child("AssumeRoleWithWebIdentityResult");
  const XmlElement* found = result == nullptr ? nullptr : result->Child("Credentials");
  if (found == nullptr) {
    return Status(Code::kCorruption, fmt::format("{}: the answer holds no credentials", kDoing));
  }
  return Checked(std::string(found->ChildText("AccessKeyId")),
                 std::string(found->ChildText("SecretAccessKey")),
                 std::string(found->ChildText("SessionToken")),
                 std::string(found->ChildText("Expiration")), kDoing);
}

Result<AwsCredentials> FetchContainerCredentials(const Context& ctx, HttpClient& http,
                                                 const ContainerEndpoint& from) {
  constexpr std::string_view kDoing = "ask the container endpoint for credentials";
  HttpHeaders headers;
  if (!from.authorization.empty()) headers.emplace_back("authorization", from.authorization);
  PF_ASSIGN(const std::string body,
            BodyOf(http.Send(ctx, LocalRequest("GET", from.url, headers)), kDoing));
  return FromJson(body, kDoing);
}

Result<AwsCredentials> FetchInstanceCredentials(const Context& ctx, HttpClient& http,
                                                const std::string& url) {
  constexpr std::string_view kDoing = "ask the instance metadata for credentials";
  const HttpHeaders wish = {{"x-aws-ec2-metadata-token-ttl-seconds", std::string(kTokenSeconds)}};
  PF_ASSIGN(const std::string token,
            BodyOf(http.Send(ctx, LocalRequest("PUT", url + "/latest/api/token", wish)), kDoing));
  const HttpHeaders proof = {{"x-aws-ec2-metadata-token", token}};
  const std::string folder = url + "/latest/meta-data/iam/security-credentials/";
  PF_ASSIGN(const std::string roles,
            BodyOf(http.Send(ctx, LocalRequest("GET", folder, proof)), kDoing));
  const std::string role = FirstLine(roles);
  if (role.empty() || role.size() > kRoleNameBytesMax) {
    return Status(Code::kRefused, fmt::format("{}: the instance has no role", kDoing));
  }
  PF_ASSIGN(const std::string body,
            BodyOf(http.Send(ctx, LocalRequest("GET", folder + UrlEncode(role), proof)), kDoing));
  return FromJson(body, kDoing);
}

}  // namespace partforge
