#include "store/sigv4.h"

#include <gtest/gtest.h>

#include "base/hash.h"
#include "base/units.h"

// The worked examples of "Authenticating Requests: Using the Authorization Header (AWS Signature
// Version 4)", Amazon S3 API Reference.

namespace partforge {
namespace {

const AwsCredentials kExample{.access_key = "AKIAIOSFODNN7EXAMPLE",
                              .secret_key = Secret("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
                              .session_token = Secret()};

std::string SignatureOf(SigV4Request request) {
  request.headers.emplace_back("host", "examplebucket.s3.amazonaws.com");
  request.headers.emplace_back("x-amz-content-sha256", request.payload_hash);
  const Result<int64_t> time = ParseTimeMs("2013-05-24T00:00:00Z");
  const HttpHeaders headers =
      SignedHeaders(request, {.time_ms = *time, .region = "us-east-1", .service = "s3"}, kExample);
  const std::string& authorization = headers.back().second;
  return authorization.substr(authorization.find("Signature=") + 10);
}

TEST(SigV4, SignsTheGetObjectExample) {
  EXPECT_EQ(SignatureOf({.method = "GET",
                         .path = "/test.txt",
                         .query = {},
                         .headers = {{"Range", "bytes=0-9"}},
                         .payload_hash = std::string(kEmptyPayloadHash)}),
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
}

TEST(SigV4, SignsThePutObjectExample) {
  EXPECT_EQ(SignatureOf({.method = "PUT",
                         .path = EncodePath("/test$file.text"),
                         .query = {},
                         .headers = {{"Date", "Fri, 24 May 2013 00:00:00 GMT"},
                                     {"x-amz-storage-class", "REDUCED_REDUNDANCY"}},
                         .payload_hash = Sha256Hex("Welcome to Amazon S3.")}),
            "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd");
}

TEST(SigV4, SignsTheLifecycleExample) {
  EXPECT_EQ(SignatureOf({.method = "GET",
                         .path = "/",
                         .query = {{"lifecycle", ""}},
                         .headers = {},
                         .payload_hash = std::string(kEmptyPayloadHash)}),
            "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
}

TEST(SigV4, SignsTheListObjectsExample) {
  EXPECT_EQ(SignatureOf({.method = "GET",
                         .path = "/",
                         .query = {{"prefix", "J"}, {"max-keys", "2"}},
                         .headers = {},
                         .payload_hash = std::string(kEmptyPayloadHash)}),
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
}

TEST(SigV4, EncodesPathsAndQueriesOnce) {
  EXPECT_EQ(EncodePath("/b/a b/ä+%/x~y"), "/b/a%20b/%C3%A4%2B%25/x~y");
  EXPECT_EQ(EncodeQuery({{"b", "2 +/="}, {"a", "x"}, {"uploads", ""}}),
            "a=x&b=2%20%2B%2F%3D&uploads=");
}

TEST(SigV4, TokenIsSentAndSigned) {
  AwsCredentials temporary = kExample;
  temporary.session_token = Secret("token");
  const HttpHeaders headers = SignedHeaders({.method = "GET",
                                             .path = "/",
                                             .query = {},
                                             .headers = {{"host", "h"}},
                                             .payload_hash = std::string(kEmptyPayloadHash)},
                                            {}, temporary);
  EXPECT_NE(std::find(headers.begin(), headers.end(),
                      std::pair<std::string, std::string>("x-amz-security-token", "token")),
            headers.end());
  EXPECT_NE(headers.back().second.find("SignedHeaders=host;x-amz-date;x-amz-security-token,"),
            std::string::npos);
}

}  // namespace
}  // namespace partforge
