#include "store/store_url.h"

#include <gtest/gtest.h>

#include "testing/test_world.h"

namespace partforge {
namespace {

class StoreUrlTest : public ::testing::Test {
 protected:
  Result<std::unique_ptr<ObjectStore>> Open(const StoreSettings& settings) {
    return OpenObjectStore(world_.context(), settings);
  }
  testing::TempDir folder_;
  testing::TestWorld world_;
};

TEST_F(StoreUrlTest, FileEndpointKeepsObjectsBelowTheBucket) {
  StoreSettings settings;
  settings.endpoint = "file://" + folder_.path().string() + "/with%20space";
  settings.bucket = "lake";
  const auto store = Open(settings);
  ASSERT_TRUE(store.ok()) << store.status().ToString();
  ASSERT_TRUE(WriteObject(world_.context(), **store, "a/b", "x").ok());
  EXPECT_TRUE(std::filesystem::exists(folder_.path() / "with space" / "lake" / "a" / "b"));
  EXPECT_EQ((*store)->url(), "file://" + (folder_.path() / "with space" / "lake").string());
}

TEST_F(StoreUrlTest, PlainHttpIsForLoopbackOnly) {
  StoreSettings settings;
  settings.bucket = "b";
  for (const std::string endpoint :
       {"http://localhost:9000", "http://127.0.0.1:9000/", "http://127.9.9.9", "http://[::1]:9000",
        "https://minio.example:9000", "http://x.localhost:1"}) {
    settings.endpoint = endpoint;
    EXPECT_TRUE(Open(settings).ok()) << endpoint;
  }
  for (const std::string endpoint :
       {"http://minio:9000", "http://10.0.0.1", "http://localhost.example",
        "http://127.0.0.1.example:9000", "http://[fe80::1]:9000"}) {
    settings.endpoint = endpoint;
    const auto store = Open(settings);
    ASSERT_FALSE(store.ok()) << endpoint;
    EXPECT_EQ(store.status().explanation().pf_number, 7002);
    settings.allow_http = true;
    EXPECT_TRUE(Open(settings).ok()) << endpoint;
    settings.allow_http = false;
  }
}

TEST_F(StoreUrlTest, RefusesSettingsThatMakeNoSense) {
  const auto refuses = [&](const auto& change) {
    StoreSettings settings;
    settings.endpoint = "https://s3.example";
    settings.bucket = "b";
    change(settings);
    const auto store = Open(settings);
    return !store.ok() && store.status().code() == Code::kInvalidArgument;
  };
  EXPECT_FALSE(refuses([](StoreSettings&) {}));
  EXPECT_TRUE(refuses([](StoreSettings& s) { s.bucket = ""; }));
  EXPECT_TRUE(refuses([](StoreSettings& s) { s.bucket = "a/b"; }));
  EXPECT_TRUE(refuses([](StoreSettings& s) { s.bucket = "a*"; }));
  EXPECT_TRUE(refuses([](StoreSettings& s) { s.bucket = ".."; }));
  EXPECT_TRUE(refuses([](StoreSettings& s) { s.endpoint = "minio:9000"; }));
  EXPECT_TRUE(refuses([](StoreSettings& s) { s.endpoint = "https://host/path"; }));
  EXPECT_TRUE(refuses([](StoreSettings& s) { s.endpoint = "https://user:pw@host"; }));
  EXPECT_TRUE(refuses([](StoreSettings& s) { s.endpoint = "https://"; }));
  EXPECT_TRUE(refuses([](StoreSettings& s) { s.endpoint = "file://relative"; }));
  EXPECT_TRUE(refuses([](StoreSettings& s) { s.endpoint = "file:///dir", s.bucket = "../x"; }));
  EXPECT_TRUE(refuses([](StoreSettings& s) { s.concurrency = 0; }));
  EXPECT_TRUE(refuses([](StoreSettings& s) { s.part_size_bytes = 1 << 20; }));
  EXPECT_TRUE(refuses([](StoreSettings& s) { s.access_key = "only"; }));
}

TEST(CheckEndpoint, TellsFromTheTextAloneWhatNoStoreIsReachedBy) {
  for (const char* good : {"", "https://s3.example", "http://10.0.0.1:9000", "file:///absent",
                           "file://localhost/dir"}) {
    EXPECT_TRUE(CheckEndpoint(good).ok()) << good;
  }
  for (const char* bad :
       {"ftp://x", "minio:9000", "file://relative/x", "https://host/path", "s3"}) {
    const Status status = CheckEndpoint(bad);
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << bad;
    EXPECT_EQ(status.explanation().pf_number, 1005) << bad;
    EXPECT_EQ(status.explanation().where, "--s3-endpoint") << bad;
  }
}

TEST(CheckBucketOf, KnowsFoldersAndBuckets) {
  EXPECT_TRUE(CheckBucketOf("https://s3.example", "my-bucket").ok());
  EXPECT_TRUE(CheckBucketOf("file:///dir", "a b").ok());
  for (const char* endpoint : {"https://s3.example", "file:///dir", ""}) {
    for (const char* bad : {"", ".", "..", "a/b", "forge/"}) {
      const Status status = CheckBucketOf(endpoint, bad);
      EXPECT_EQ(status.code(), Code::kInvalidArgument) << endpoint << " " << bad;
      EXPECT_EQ(status.explanation().pf_number, 1005) << endpoint << " " << bad;
      EXPECT_EQ(status.explanation().where, "--bucket") << endpoint << " " << bad;
    }
  }
}

}  // namespace
}  // namespace partforge
