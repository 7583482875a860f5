#pragma once

#include <string>
#include <string_view>

#include "base/http_server.h"

namespace partforge::testing {

// What a signed request says about itself.
struct S3Signature {
  std::string access_key, date, region;
  bool is_valid = false;
  std::string expected_request;  // our canonical request, for the message
};

// Verifies the AWS4-HMAC-SHA256 signature of a request from the bytes on the wire. Shares no code
// with the client beyond the hash functions, so that one mistake is not made twice.
S3Signature CheckS3Signature(const HttpServerRequest& request, std::string_view body,
                             std::string_view secret_key);

}  // namespace partforge::testing
