#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <memory>

#include "base/files.h"
#include "base/hash.h"
#include "base/process.h"
#include "base/random.h"
#include "store/s3_store.h"
#include "testing/object_store_contract.h"

// The same promises, kept against a server that is not ours (scripts/services/s3.sh).

namespace partforge::testing {
namespace {

constexpr int64_t kStartTimeoutMs = 60'000;
constexpr int64_t kMiB = 1 << 20;

std::string FromEnvironment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// The server of this test binary. A test that cannot have it fails; it is never skipped.
class S3Service final : public ::testing::Environment {
 public:
  void SetUp() override {
    script_ = FromEnvironment("PARTFORGE_SOURCE_DIR") + "/scripts/services/s3.sh";
    if (!Run("start")) return;
    const Result<std::string> text = ReadFile(folder_ / "env");
    ASSERT_TRUE(text.ok()) << text.status().ToString();
    std::string_view rest = *text;
    while (!rest.empty()) {
      const std::string_view line = rest.substr(0, rest.find('\n'));
      rest.remove_prefix(std::min(rest.size(), line.size() + 1));
      const size_t equals = line.find('=');
      if (equals != std::string_view::npos)
        values_[std::string(line.substr(0, equals))] = line.substr(equals + 1);
    }
  }
  void TearDown() override { Run("stop"); }

  std::string Value(const std::string& name) const {
    const auto it = values_.find(name);
    return it == values_.end() ? "" : it->second;
  }

 private:
  bool Run(const std::string& action) {
    TestWorld world;
    const auto child =
        ChildProcess::Start({.argv = {"/bin/bash", script_, action, folder_.path().string()},
                             .environment = {},
                             .working_directory = {},
                             .stderr_path = folder_ / "stderr",
                             .captures_stdout = true,
                             .dies_with_parent = false});
    EXPECT_TRUE(child.ok()) << child.status().ToString();
    if (!child.ok()) return false;
    const Result<ExitState> end = (*child)->Wait(world.context(), kStartTimeoutMs);
    EXPECT_TRUE(end.ok()) << end.status().ToString();
    if (!end.ok()) return false;
    const Result<std::string> told = ReadFile(folder_ / "stderr");
    EXPECT_EQ(end->exit_code, 0) << script_ << " " << action << ": " << (told.ok() ? *told : "");
    return end->exit_code == 0;
  }

  TempDir folder_;
  std::string script_;
  std::map<std::string, std::string> values_;
};

S3Service& Service() {
  // Owned by googletest; made before main.
  static S3Service* const service = static_cast<S3Service*>(
      ::testing::AddGlobalTestEnvironment(std::make_unique<S3Service>().release()));
  return *service;
}
const S3Service& kStarted = Service();

// A bucket of its own for each test.
class MotoRig final : public StoreRig {
 public:
  MotoRig() {
    S3StoreOptions options;
    S3ClientOptions& client = options.client;
    std::string host = kStarted.Value("PARTFORGE_TEST_S3");
    EXPECT_TRUE(host.starts_with("http://")) << "the S3 service has not started";
    client.scheme = "http";
    client.host = host.substr(std::min<size_t>(7, host.size()));
    client.bucket = "t-" + RandomHex(world_.context().random, 8);
    client.region = kStarted.Value("AWS_REGION");
    client.credentials.given = {.access_key = kStarted.Value("AWS_ACCESS_KEY_ID"),
                                .secret_key = Secret(kStarted.Value("AWS_SECRET_ACCESS_KEY")),
                                .session_token = Secret()};
    options.copy_bytes_max = 11 * kMiB;
    options.copy_part_bytes = 5 * kMiB;
    options.part_bytes = 5 * kMiB;
    client_ = std::make_unique<S3Client>(client);
    const Result<S3Reply> made =
        client_->SendForSuccess(world_.context(), {.op = "put", .method = "PUT"});
    EXPECT_TRUE(made.ok()) << made.status().ToString();
    store_ = std::make_unique<S3Store>(options);
  }
  ObjectStore& store() override { return *store_; }

 private:
  TestWorld world_;
  std::unique_ptr<S3Client> client_;
  std::unique_ptr<S3Store> store_;
};

INSTANTIATE_TEST_SUITE_P(S3, ObjectStoreContract,
                         ::testing::Values(StoreCase{
                             .name = "Moto", .make = [] { return std::make_unique<MotoRig>(); }}),
                         StoreCaseName);

TEST(S3Moto, MultipartObjectsComeBackWhole) {
  TestWorld world;
  MotoRig rig;
  const std::string bytes = TestBytes(static_cast<size_t>(12 * kMiB + 17), 7);
  for (const int64_t hint : {int64_t{-1}, static_cast<int64_t>(bytes.size())}) {
    const auto sink = rig.store().Create(world.context(), "large", hint);
    ASSERT_TRUE(sink.ok()) << sink.status().ToString();
    for (size_t at = 0; at < bytes.size(); at += 1'000'000) {
      const Status status =
          (*sink)->Append(world.context(), AsBytes(std::string_view(bytes).substr(at, 1'000'000)));
      ASSERT_TRUE(status.ok()) << status.ToString();
    }
    const Result<ObjectInfo> info = (*sink)->Close(world.context());
    ASSERT_TRUE(info.ok()) << info.status().ToString();
    const Result<ObjectInfo> stat = rig.store().Stat(world.context(), "large");
    ASSERT_TRUE(stat.ok());
    EXPECT_EQ(info->etag, stat->etag);
    EXPECT_TRUE(info->etag.ends_with("-3\"")) << info->etag;
    const Result<std::string> back = ReadObject(world.context(), rig.store(), "large");
    ASSERT_TRUE(back.ok()) << back.status().ToString();
    EXPECT_TRUE(*back == bytes);
  }
  // 12 MiB are above this rig's limit for one copy.
  const Status linked = rig.store().Link(world.context(), "large", "copy of large");
  ASSERT_TRUE(linked.ok()) << linked.ToString();
  const Result<std::string> copy = ReadObject(world.context(), rig.store(), "copy of large");
  ASSERT_TRUE(copy.ok()) << copy.status().ToString();
  EXPECT_TRUE(*copy == bytes);
}

TEST(S3Moto, SweepsOpenUploadsOfDroppedSinksByAge) {
  TestWorld world;
  MotoRig rig;
  {
    const auto sink = rig.store().Create(world.context(), "dropped/x", -1);
    ASSERT_TRUE(sink.ok());
    ASSERT_TRUE((*sink)->Append(world.context(), AsBytes(TestBytes(6 * kMiB, 8))).ok());
  }
  const Result<int64_t> young = rig.store().SweepLeftovers(world.context(), "dropped/", 3'600'000);
  ASSERT_TRUE(young.ok()) << young.status().ToString();
  EXPECT_EQ(*young, 0);
}

TEST(S3Moto, NoSuchBucketIsSaidAsSuch) {
  TestWorld world;
  MotoRig rig;
  S3StoreOptions options;
  options.client.scheme = "http";
  options.client.host = kStarted.Value("PARTFORGE_TEST_S3").substr(7);
  options.client.bucket = "not-there";
  options.client.credentials.given = {
      .access_key = "a", .secret_key = Secret("b"), .session_token = Secret()};
  S3Store store(options);
  const Result<ListPage> page = store.List(world.context(), "", std::nullopt);
  ASSERT_FALSE(page.ok());
  EXPECT_EQ(page.status().code(), Code::kInvalidArgument) << page.status().ToString();
  EXPECT_EQ(page.status().explanation().pf_number, 7004);
}

}  // namespace
}  // namespace partforge::testing
