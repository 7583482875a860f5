#include "store/s3_credentials.h"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <thread>

#include "base/files.h"
#include "base/http_server.h"
#include "base/units.h"
#include "testing/test_world.h"

namespace partforge {
namespace {

using testing::TempDir;
using testing::TestWorld;

// An environment of its own, and a server that plays STS, container endpoint and instance metadata.
class CredentialChainTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Result<std::unique_ptr<HttpServer>> server =
        HttpServer::Start({}, [this](const HttpServerRequest& request) { return Answer(request); });
    ASSERT_TRUE(server.ok());
    server_ = std::move(server).value();
    world_.UseClock(clock_);
    variables_ = {{"HOME", folder_.path().string()}, {"AWS_EC2_METADATA_DISABLED", "true"}};
  }

  std::string url() const { return "http://127.0.0.1:" + std::to_string(server_->port()); }
  std::unique_ptr<CredentialChain> MakeChain(AwsCredentials given = {}) {
    return std::make_unique<CredentialChain>(
        http_, CredentialChain::Options{
                   .given = std::move(given),
                   .environment = [this](std::string_view name) -> std::optional<std::string> {
                     const auto it = variables_.find(name);
                     if (it == variables_.end()) return std::nullopt;
                     return it->second;
                   }});
  }
  void WriteFile(const std::string& name, std::string_view text) {
    ASSERT_TRUE(MakeDirectories(folder_ / ".aws").ok());
    ASSERT_TRUE(WriteFileDurably(folder_ / name, text).ok());
  }
  std::string ExpiresIn(int64_t ms) { return FormatTime(clock_.NowMs() + ms); }
  std::string Json() {
    return "{\"Code\":\"Success\",\"AccessKeyId\":\"K" + std::to_string(++served_) +
           "\",\"SecretAccessKey\":\"secret\",\"Token\":\"token\",\"Expiration\":\"" +
           ExpiresIn(life_ms_) + "\"}";
  }

  HttpServerReply Answer(const HttpServerRequest& request) {
    HttpServerReply reply;
    if (is_down_) {
      reply.status = 500;
    } else if (request.path == "/latest/api/token" && request.method == "PUT") {
      reply.body = "imds-token";
    } else if (request.path.starts_with("/latest/meta-data/iam/security-credentials/")) {
      if (request.headers.at("x-aws-ec2-metadata-token") != "imds-token") reply.status = 401;
      reply.body = request.path.ends_with("/") ? "role one\n" : Json();
    } else if (request.path == "/container") {
      if (request.headers.at("authorization") != "container token") reply.status = 401;
      reply.body = Json();
    } else if (request.method == "POST" && request.path == "/") {
      sts_body_ = request.ReadWholeBody(1 << 20);
      reply.body =
          "<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials>"
          "<AccessKeyId>KSTS</AccessKeyId><SecretAccessKey>secret</SecretAccessKey>"
          "<SessionToken>token</SessionToken><Expiration>" +
          ExpiresIn(life_ms_) +
          "</Expiration></Credentials></AssumeRoleWithWebIdentityResult>"
          "</AssumeRoleWithWebIdentityResponse>";
    } else {
      reply.status = 404;
    }
    return reply;
  }

  TempDir folder_;
  testing::SimClock clock_;
  TestWorld world_;
  HttpClient http_;
  std::map<std::string, std::string, std::less<>> variables_;
  std::atomic<bool> is_down_ = false;
  std::atomic<int> served_ = 0;
  int64_t life_ms_ = 3'600'000;
  std::string sts_body_;
  std::unique_ptr<HttpServer> server_;
};

TEST_F(CredentialChainTest, GivenKeysWin) {
  variables_["AWS_ACCESS_KEY_ID"] = "env";
  variables_["AWS_SECRET_ACCESS_KEY"] = "secret";
  const auto chain =
      MakeChain({.access_key = "given", .secret_key = Secret("s"), .session_token = Secret()});
  const Result<AwsCredentials> found = chain->Get(world_.context());
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->access_key, "given");
  EXPECT_FALSE(chain->Reject(*found));
}

TEST_F(CredentialChainTest, EnvironmentThenFiles) {
  WriteFile(".aws/credentials",
            "# mine\n[default]\naws_access_key_id = FILE\naws_secret_access_key=file secret \n"
            "[other]\n aws_access_key_id = nested\naws_access_key_id = "
            "OTHER\naws_secret_access_key = o\n");
  Result<AwsCredentials> found = MakeChain()->Get(world_.context());
  ASSERT_TRUE(found.ok()) << found.status().ToString();
  EXPECT_EQ(found->access_key, "FILE");
  EXPECT_EQ(found->secret_key.Reveal(), "file secret");

  variables_["AWS_PROFILE"] = "other";
  found = MakeChain()->Get(world_.context());
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->access_key, "OTHER");

  variables_["AWS_PROFILE"] = "absent";
  EXPECT_EQ(MakeChain()->Get(world_.context()).status().code(), Code::kInvalidArgument);

  variables_["AWS_ACCESS_KEY_ID"] = "ENV";
  variables_["AWS_SECRET_ACCESS_KEY"] = "env secret";
  variables_["AWS_SESSION_TOKEN"] = "t";
  found = MakeChain()->Get(world_.context());
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->access_key, "ENV");
  EXPECT_EQ(found->session_token.Reveal(), "t");
}

TEST_F(CredentialChainTest, WebIdentityAsksStsWithTheTokenInTheBody) {
  WriteFile("token", "jwt.token\n");
  variables_["AWS_WEB_IDENTITY_TOKEN_FILE"] = folder_ / "token";
  variables_["AWS_ROLE_ARN"] = "arn:aws:iam::1:role/r";
  variables_["AWS_ENDPOINT_URL_STS"] = url() + "/";
  const Result<AwsCredentials> found = MakeChain()->Get(world_.context());
  ASSERT_TRUE(found.ok()) << found.status().ToString();
  EXPECT_EQ(found->access_key, "KSTS");
  EXPECT_EQ(found->session_token.Reveal(), "token");
  EXPECT_NE(sts_body_.find("WebIdentityToken=jwt.token"), std::string::npos);
  EXPECT_NE(sts_body_.find("RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fr"), std::string::npos);
}

TEST_F(CredentialChainTest, WebIdentityOfAProfile) {
  WriteFile("token", "jwt");
  WriteFile(".aws/config", "[profile p]\nrole_arn = arn:r\nweb_identity_token_file = " +
                               (folder_ / "token").string() + "\nregion = eu-west-3\n");
  variables_["AWS_PROFILE"] = "p";
  variables_["AWS_ENDPOINT_URL_STS"] = url();
  const Result<AwsCredentials> found = MakeChain()->Get(world_.context());
  ASSERT_TRUE(found.ok()) << found.status().ToString();
  EXPECT_EQ(found->access_key, "KSTS");
}

TEST_F(CredentialChainTest, ContainerEndpointGetsItsToken) {
  WriteFile("auth", "container token\n");
  variables_["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = url() + "/container";
  variables_["AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"] = folder_ / "auth";
  const Result<AwsCredentials> found = MakeChain()->Get(world_.context());
  ASSERT_TRUE(found.ok()) << found.status().ToString();
  EXPECT_EQ(found->access_key, "K1");
}

TEST_F(CredentialChainTest, ContainerTokenIsNotSentToStrangers) {
  for (const std::string uri : {"http://example.com/x", "http://127.0.0.1@example.com/",
                                "ftp://127.0.0.1/", "http://127.0.0.1.example.com/"}) {
    variables_["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = uri;
    const Result<AwsCredentials> found = MakeChain()->Get(world_.context());
    ASSERT_FALSE(found.ok()) << uri;
    EXPECT_EQ(found.status().explanation().pf_number, 7005);
  }
}

TEST_F(CredentialChainTest, InstanceMetadataNeedsItsToken) {
  variables_.erase("AWS_EC2_METADATA_DISABLED");
  variables_["AWS_EC2_METADATA_SERVICE_ENDPOINT"] = url();
  const Result<AwsCredentials> found = MakeChain()->Get(world_.context());
  ASSERT_TRUE(found.ok()) << found.status().ToString();
  EXPECT_EQ(found->access_key, "K1");
  EXPECT_EQ(found->expires_ms, clock_.NowMs() + life_ms_);
}

TEST_F(CredentialChainTest, RefreshesBeforeTheEndAndOutlivesAShortOutage) {
  variables_.erase("AWS_EC2_METADATA_DISABLED");
  variables_["AWS_EC2_METADATA_SERVICE_ENDPOINT"] = url();
  const auto chain = MakeChain();
  EXPECT_EQ(chain->Get(world_.context())->access_key, "K1");
  EXPECT_EQ(chain->Get(world_.context())->access_key, "K1");
  clock_.Advance(life_ms_ - 4 * 60'000);  // four minutes are left
  is_down_ = true;
  EXPECT_EQ(chain->Get(world_.context())->access_key, "K1");
  is_down_ = false;
  EXPECT_EQ(chain->Get(world_.context())->access_key, "K2");
  clock_.Advance(2 * life_ms_);
  is_down_ = true;
  EXPECT_EQ(chain->Get(world_.context()).status().code(), Code::kUnavailable);
}

TEST_F(CredentialChainTest, RejectedKeysAreFetchedAgainOnce) {
  variables_.erase("AWS_EC2_METADATA_DISABLED");
  variables_["AWS_EC2_METADATA_SERVICE_ENDPOINT"] = url();
  const auto chain = MakeChain();
  const Result<AwsCredentials> first = chain->Get(world_.context());
  ASSERT_TRUE(first.ok());
  EXPECT_TRUE(chain->Reject(*first));
  const Result<AwsCredentials> second = chain->Get(world_.context());
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(second->access_key, "K2");
  EXPECT_TRUE(chain->Reject(*first));  // too late: these are gone already
  EXPECT_EQ(chain->Get(world_.context())->access_key, "K2");
}

TEST_F(CredentialChainTest, ManyThreadsFetchOnce) {
  variables_.erase("AWS_EC2_METADATA_DISABLED");
  variables_["AWS_EC2_METADATA_SERVICE_ENDPOINT"] = url();
  const auto chain = MakeChain();
  std::atomic<int> wrong = 0;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([&] {
        const Result<AwsCredentials> found = chain->Get(world_.context());
        if (!found.ok() || found->access_key != "K1") ++wrong;
      });
    }
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(served_, 1);
}

TEST_F(CredentialChainTest, NothingFoundSaysWhereItLooked) {
  const Result<AwsCredentials> found = MakeChain()->Get(world_.context());
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.status().code(), Code::kRefused);
  EXPECT_EQ(found.status().explanation().pf_number, 7005);
  WriteFile(".aws/config", "[default]\nsso_session = corp\n");
  const Result<AwsCredentials> sso = MakeChain()->Get(world_.context());
  ASSERT_FALSE(sso.ok());
  EXPECT_NE(sso.status().message().find("sso_session"), std::string::npos);
}

TEST_F(CredentialChainTest, RegionComesFromEnvironmentThenProfile) {
  const EnvironmentLookup lookup = [this](std::string_view name) -> std::optional<std::string> {
    const auto it = variables_.find(name);
    return it == variables_.end() ? std::nullopt : std::optional(it->second);
  };
  EXPECT_EQ(*ChooseAwsRegion(lookup), "us-east-1");
  EXPECT_EQ(*ChooseAwsRegion(nullptr), "us-east-1");
  WriteFile(".aws/config", "[default]\nregion=eu-north-1\n");
  EXPECT_EQ(*ChooseAwsRegion(lookup), "eu-north-1");
  variables_["AWS_DEFAULT_REGION"] = "ap-south-1";
  EXPECT_EQ(*ChooseAwsRegion(lookup), "ap-south-1");
  variables_["AWS_REGION"] = "sa-east-1";
  EXPECT_EQ(*ChooseAwsRegion(lookup), "sa-east-1");
}

}  // namespace
}  // namespace partforge
