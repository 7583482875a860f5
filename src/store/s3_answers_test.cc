#include <gtest/gtest.h>

#include "store/http_date.h"
#include "store/s3_listing.h"
#include "store/s3_reply.h"

namespace partforge {
namespace {

std::string Contents(std::string_view key) {
  return "<Contents><Key>" + std::string(key) +
         "</Key><LastModified>2024-01-02T03:04:05.000Z</LastModified><ETag>&quot;e&quot;</ETag>"
         "<Size>7</Size></Contents>";
}

std::string Listing(const std::string& contents, bool is_truncated = false) {
  return "<ListBucketResult><EncodingType>url</EncodingType>" + contents + "<IsTruncated>" +
         (is_truncated ? "true" : "false") + "</IsTruncated></ListBucketResult>";
}

TEST(ParseListing, DecodesKeysAndFields) {
  const Result<ListPage> page =
      ParseListing(Listing(Contents("p/a+b%2Bc%25") + Contents("p/b"), true), "p/", "");
  ASSERT_TRUE(page.ok()) << page.status().ToString();
  ASSERT_EQ(page->objects.size(), 2u);
  EXPECT_EQ(page->objects[0].key, "p/a b+c%");
  EXPECT_EQ(page->objects[0].size_bytes, 7);
  EXPECT_EQ(page->objects[0].modified_ms, 1'704'164'645'000);
  EXPECT_EQ(page->objects[0].etag, "\"e\"");
  EXPECT_EQ(page->next, "p/b");
}

TEST(ParseListing, FolderMarkersAreNoObjectsButCountAsProgress) {
  const Result<ListPage> page =
      ParseListing(Listing(Contents("p/a/") + Contents("p/b/"), true), "p/", "");
  ASSERT_TRUE(page.ok());
  EXPECT_TRUE(page->objects.empty());
  EXPECT_EQ(page->next, "p/b/");
}

// A listing that lies would let live files look like orphans.
TEST(ParseListing, RefusesAListingThatCannotBeTrusted) {
  for (const std::string& xml :
       {Listing(Contents("p/b") + Contents("p/a")), Listing(Contents("p/a") + Contents("p/a")),
        Listing(Contents("q/a")), Listing("", true), Listing(Contents("p/%zz")),
        Listing("<Contents><Key>p/a</Key><Size>-1</Size></Contents>"),
        Listing(
            "<Contents><Key>p/a</Key><Size>1</Size><LastModified>soon</LastModified></Contents>"),
        std::string("<Other/>"), std::string()}) {
    const Result<ListPage> page = ParseListing(xml, "p/", "");
    EXPECT_FALSE(page.ok()) << xml;
  }
  EXPECT_FALSE(ParseListing(Listing(Contents("p/a")), "p/", "p/a").ok());
}

TEST(StatusOfReply, CodeSaysWhatTheCallerShouldDo) {
  struct Case {
    int status;
    std::string code;
    Code wanted;
    int pf_number;
  };
  for (const Case& c :
       {Case{404, "NoSuchKey", Code::kNotFound, 2126},
        Case{404, "NoSuchBucket", Code::kInvalidArgument, 7004},
        Case{403, "AccessDenied", Code::kRefused, 7003}, Case{403, "", Code::kRefused, 7003},
        Case{400, "ExpiredToken", Code::kRefused, 7003},
        Case{403, "SignatureDoesNotMatch", Code::kRefused, 7003},
        Case{301, "PermanentRedirect", Code::kInvalidArgument, 7012},
        Case{403, "InvalidObjectState", Code::kRefused, 7013},
        Case{412, "PreconditionFailed", Code::kConflict, 0},
        Case{416, "InvalidRange", Code::kCorruption, 0},
        Case{503, "SlowDown", Code::kUnavailable, 7001}, Case{429, "", Code::kUnavailable, 7001},
        Case{507, "XMinioStorageFull", Code::kExhausted, 0},
        Case{501, "NotImplemented", Code::kInvalidArgument, 0},
        Case{400, "EntityTooSmall", Code::kInvalidArgument, 0}}) {
    S3Reply reply;
    reply.status = c.status;
    reply.headers["x-amz-request-id"] = "REQ1";
    if (!c.code.empty())
      reply.body = "<Error><Code>" + c.code + "</Code><Message>why</Message></Error>";
    reply.error = ReadS3Error(reply);
    const Status status = StatusOf(reply, "get s3://b/k");
    EXPECT_EQ(status.code(), c.wanted) << status.ToString();
    EXPECT_EQ(status.explanation().pf_number, c.pf_number) << status.ToString();
    EXPECT_NE(status.message().find("REQ1"), std::string::npos) << status.ToString();
    EXPECT_NE(status.message().find(std::to_string(c.status)), std::string::npos);
  }
}

TEST(HttpDate, ComesBack) {
  EXPECT_EQ(ParseHttpDate("Fri, 24 May 2013 00:00:01 GMT"), 1'369'353'601'000);
  EXPECT_EQ(FormatHttpDate(1'369'353'601'000), "Fri, 24 May 2013 00:00:01 GMT");
  for (const std::string_view text :
       {"", "Fri, 24 May 2013 00:00:01", "Fri, 32 May 2013 00:00:01 GMT",
        "Fri, 24 Mai 2013 00:00:01 GMT", "Fri, 24 May 2013 0x:00:01 GMT"}) {
    EXPECT_FALSE(ParseHttpDate(text).has_value()) << text;
  }
}

}  // namespace
}  // namespace partforge
