#pragma once

#include <string>

#include "base/context.h"
#include "base/http_client.h"
#include "store/sigv4.h"

namespace partforge {

// Credentials that are handed out over HTTP and expire. Each function asks once; kUnavailable when
// nobody answered or the answer was a 5xx, kRefused when the answer was a refusal, kCorruption when
// it could not be read.

struct WebIdentity {
  std::string token_file;  // read at each call: the platform rotates it
  std::string role_arn;
  std::string session_name;  // "" = "partforge"
  std::string sts_url;       // "https://sts.eu-west-1.amazonaws.com"
};
// STS AssumeRoleWithWebIdentity, version 2011-06-15.
Result<AwsCredentials> FetchWebIdentity(const Context& ctx, HttpClient& http,
                                        const WebIdentity& from);

struct ContainerEndpoint {
  std::string url;
  std::string authorization;  // value of the Authorization header, "" = none
};
Result<AwsCredentials> FetchContainerCredentials(const Context& ctx, HttpClient& http,
                                                 const ContainerEndpoint& from);

// Instance metadata service, version 2 only (a token first). `url` is "http://169.254.169.254" but
// for tests.
Result<AwsCredentials> FetchInstanceCredentials(const Context& ctx, HttpClient& http,
                                                const std::string& url);

}  // namespace partforge
