#include "store/sigv4.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/hash.h"
#include "base/units.h"

namespace partforge {
namespace {

constexpr std::string_view kAlgorithm = "AWS4-HMAC-SHA256";

// Lower-case names, values without space at the ends and with single spaces inside.
std::map<std::string, std::string> CanonicalHeaders(const HttpHeaders& headers) {
  std::map<std::string, std::string> canonical;
  for (const auto& [name, value] : headers) {
    std::string lower = name;
    std::transform(lower.begin(), lower.end(), lower.begin(), [](char c) {
      return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    });
    std::string trimmed;
    for (const char c : value) {
      if (c != ' ') {
        trimmed += c;
      } else if (!trimmed.empty() && trimmed.back() != ' ') {
        trimmed += ' ';
      }
    }
    if (trimmed.ends_with(' ')) trimmed.pop_back();
    std::string& joined = canonical[lower];
    joined += (joined.empty() ? "" : ",") + trimmed;
  }
  return canonical;
}

std::string NamesOf(const std::map<std::string, std::string>& canonical) {
  std::string names;
  for (const auto& [name, value] : canonical) names += (names.empty() ? "" : ";") + name;
  return names;
}

Sha256::Digest SigningKey(const AwsCredentials& credentials, std::string_view date,
                          const SigV4Scope& scope) {
  const std::string secret = "AWS4" + credentials.secret_key.Reveal();
  const Sha256::Digest date_key = HmacSha256(AsBytes(secret), date);
  const Sha256::Digest region_key = HmacSha256(date_key, scope.region);
  const Sha256::Digest service_key = HmacSha256(region_key, scope.service);
  return HmacSha256(service_key, "aws4_request");
}

}  // namespace

std::string EncodePath(std::string_view path) {
  std::string out;
  while (true) {
    const size_t slash = path.find('/');
    out += UrlEncode(path.substr(0, slash));
    if (slash == std::string_view::npos) return out;
    out += '/';
    path.remove_prefix(slash + 1);
  }
}

std::string EncodeQuery(const QueryParameters& query) {
  std::vector<std::pair<std::string, std::string>> encoded;
  encoded.reserve(query.size());
  for (const auto& [name, value] : query) encoded.emplace_back(UrlEncode(name), UrlEncode(value));
  std::sort(encoded.begin(), encoded.end());
  std::string out;
  for (const auto& [name, value] : encoded)
    out += fmt::format("{}{}={}", out.empty() ? "" : "&", name, value);
  return out;
}

std::string FormatAmzTime(int64_t time_ms) {
  // "2013-05-24T00:00:00.000Z" → "20130524T000000Z"
  const std::string text = FormatTime(time_ms);
  return text.substr(0, 4) + text.substr(5, 2) + text.substr(8, 5) + text.substr(14, 2) +
         text.substr(17, 2) + "Z";
}

std::string CanonicalRequest(const SigV4Request& request) {
  const std::map<std::string, std::string> headers = CanonicalHeaders(request.headers);
  std::string text =
      request.method + "\n" + request.path + "\n" + EncodeQuery(request.query) + "\n";
  for (const auto& [name, value] : headers) text += fmt::format("{}:{}\n", name, value);
  return text + "\n" + NamesOf(headers) + "\n" + request.payload_hash;
}

HttpHeaders SignedHeaders(const SigV4Request& request, const SigV4Scope& scope,
                          const AwsCredentials& credentials) {
  SigV4Request full = request;
  const std::string time = FormatAmzTime(scope.time_ms);
  const std::string date = time.substr(0, 8);
  full.headers.emplace_back("x-amz-date", time);
  if (!credentials.session_token.empty()) {
    full.headers.emplace_back("x-amz-security-token", credentials.session_token.Reveal());
  }
  const std::string scope_text =
      fmt::format("{}/{}/{}/aws4_request", date, scope.region, scope.service);
  const std::string to_sign = fmt::format("{}\n{}\n{}\n{}", kAlgorithm, time, scope_text,
                                          Sha256Hex(CanonicalRequest(full)));
  const std::string signature = ToHex(HmacSha256(SigningKey(credentials, date, scope), to_sign));
  const std::string authorization = fmt::format("{} Credential={}/{},SignedHeaders={},Signature={}",
                                                kAlgorithm, credentials.access_key, scope_text,
                                                NamesOf(CanonicalHeaders(full.headers)), signature);
  full.headers.emplace_back("authorization", authorization);
  return std::move(full.headers);
}

}  // namespace partforge
