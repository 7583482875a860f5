#include "testing/s3_signature.h"

#include <algorithm>
#include <vector>

#include "base/hash.h"
#include "base/http_client.h"

namespace partforge::testing {
namespace {

std::vector<std::string> Split(std::string_view text, char separator) {
  std::vector<std::string> pieces;
  while (true) {
    const size_t at = text.find(separator);
    pieces.emplace_back(text.substr(0, at));
    if (at == std::string_view::npos) return pieces;
    text.remove_prefix(at + 1);
  }
}

// The value behind "Name=" in "AWS4-HMAC-SHA256 Credential=…, SignedHeaders=…, Signature=…".
std::string Field(std::string_view authorization, std::string_view name) {
  const size_t at = authorization.find(std::string(name) + "=");
  if (at == std::string_view::npos) return {};
  const std::string_view rest = authorization.substr(at + name.size() + 1);
  return std::string(rest.substr(0, rest.find_first_of(", ")));
}

// As on the wire. The server library takes percent signs out of header values; the one header that
// has them is encoded again, by the rule that S3 gives for it.
std::string Header(const HttpServerRequest& request, const std::string& name) {
  const auto it = request.headers.find(name);
  if (it == request.headers.end()) return {};
  if (name != "x-amz-copy-source") return it->second;
  std::string encoded;
  for (const char c : it->second) encoded += c == '/' ? "/" : UrlEncode(std::string_view(&c, 1));
  return encoded;
}

}  // namespace

S3Signature CheckS3Signature(const HttpServerRequest& request, std::string_view body,
                             std::string_view secret_key) {
  S3Signature result;
  const std::string authorization = Header(request, "authorization");
  const std::vector<std::string> scope = Split(Field(authorization, "Credential"), '/');
  if (!authorization.starts_with("AWS4-HMAC-SHA256 ") || scope.size() != 5 || scope[3] != "s3" ||
      scope[4] != "aws4_request") {
    return result;
  }
  result.access_key = scope[0];
  result.date = scope[1];
  result.region = scope[2];

  const std::vector<std::string> target = Split(request.target, '?');
  std::vector<std::string> parameters;
  if (target.size() > 1) parameters = Split(target[1], '&');
  for (std::string& parameter : parameters) {
    if (parameter.find('=') == std::string::npos) parameter += '=';
  }
  std::sort(parameters.begin(), parameters.end());
  std::string query;
  for (const std::string& parameter : parameters) query += (query.empty() ? "" : "&") + parameter;

  const std::string signed_names = Field(authorization, "SignedHeaders");
  const std::vector<std::string> names = Split(signed_names, ';');
  std::string canonical = request.method + "\n" + target[0] + "\n" + query + "\n";
  for (const std::string& name : names) canonical += name + ":" + Header(request, name) + "\n";
  const std::string payload_hash = Header(request, "x-amz-content-sha256");
  canonical += "\n" + signed_names + "\n" + payload_hash;
  result.expected_request = canonical;

  // What must be signed: the host and everything that begins with x-amz-.
  const auto is_signed = [&names](const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  if (!is_signed("host")) return result;
  for (const auto& [name, value] : request.headers) {
    if (name.starts_with("x-amz-") && !is_signed(name)) return result;
  }
  if (payload_hash != "UNSIGNED-PAYLOAD" && payload_hash != Sha256Hex(body)) return result;

  const std::string time = Header(request, "x-amz-date");
  if (!time.starts_with(result.date)) return result;
  const std::string to_sign = "AWS4-HMAC-SHA256\n" + time + "\n" + scope[1] + "/" + scope[2] +
                              "/s3/aws4_request\n" + Sha256Hex(canonical);
  Sha256::Digest key = HmacSha256(AsBytes("AWS4" + std::string(secret_key)), scope[1]);
  for (const std::string_view step :
       {std::string_view(scope[2]), std::string_view("s3"), std::string_view("aws4_request")}) {
    key = HmacSha256(key, step);
  }
  result.is_valid = ToHex(HmacSha256(key, to_sign)) == Field(authorization, "Signature");
  return result;
}

}  // namespace partforge::testing
