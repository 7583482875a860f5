#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/http_client.h"
#include "base/log.h"

namespace partforge {

// AWS Signature Version 4 (docs.aws.amazon.com, "Authenticating Requests (AWS Signature Version
// 4)"). All pure.

// SHA-256 of no bytes, and the marker for a body that TLS alone protects (S3 only).
inline constexpr std::string_view kEmptyPayloadHash =
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
inline constexpr std::string_view kUnsignedPayload = "UNSIGNED-PAYLOAD";

struct AwsCredentials {
  std::string access_key;
  Secret secret_key;
  Secret session_token;    // empty for long-lived keys
  int64_t expires_ms = 0;  // 0 = never
};

using QueryParameters = std::vector<std::pair<std::string, std::string>>;

struct SigV4Request {
  std::string method;
  std::string path;          // as it stands in the URL: each segment encoded once, "/" at least
  QueryParameters query;     // plain text
  HttpHeaders headers;       // all are signed; "host" among them
  std::string payload_hash;  // hex SHA-256 of the body, or kUnsignedPayload
};

struct SigV4Scope {
  int64_t time_ms = 0;
  std::string region;
  std::string service = "s3";
};

// Percent-encodes everything but unreserved characters; '/' is kept.
std::string EncodePath(std::string_view path);
// "a=b&c=d", encoded, sorted as the signature wants it; also fit to be sent.
std::string EncodeQuery(const QueryParameters& query);
// "20130524T000000Z".
std::string FormatAmzTime(int64_t time_ms);

std::string CanonicalRequest(const SigV4Request& request);
// The request's headers and those that signing adds: x-amz-date, x-amz-security-token where there
// is a token, and authorization.
HttpHeaders SignedHeaders(const SigV4Request& request, const SigV4Scope& scope,
                          const AwsCredentials& credentials);

}  // namespace partforge
