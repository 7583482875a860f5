#include "clickhouse/manifest.h"

#include <gtest/gtest.h>

#include <functional>

#include "base/ids.h"
#include "testing/test_world.h"

namespace partforge::clickhouse {
namespace {

Manifest Sample() {
  Manifest m;
  m.job_id = "job-5f0e11aa22bb33cc";
  m.part_id = "part-d7cc35577e8617a6";
  m.freeze = "autumn_01";
  m.source_database = "shop";
  m.source_table = "orders";
  m.dest_database = "shop";
  m.dest_table = "orders_v2";
  m.part_disk = "default";
  m.part_name = "all_1_1_0";
  m.part_relative_path = "store/1f2/1f2e3d4c-0000-4000-8000-00000000beef/all_1_1_0";
  m.source_schema = "CREATE TABLE shop.orders …";
  m.destination_schema = "CREATE TABLE shop.orders_v2 …\n";
  m.insert_select = "INSERT INTO …";
  m.bucket = "forge";
  m.source_key = "partforge/jobs/job-5f0e11aa22bb33cc/source/part-d7cc35577e8617a6";
  m.finished_key = "partforge/jobs/job-5f0e11aa22bb33cc/finished/part-d7cc35577e8617a6";
  m.created_at_ns = ParseTimeNs("2026-11-30T09:52:22.87165128Z").value();
  return m;
}

constexpr std::string_view kAsTheReferenceWrites = R"({
  "version": 1,
  "job_id": "job-5f0e11aa22bb33cc",
  "part_id": "part-d7cc35577e8617a6",
  "freeze": "autumn_01",
  "source": {
    "database": "shop",
    "table": "orders"
  },
  "dest": {
    "database": "shop",
    "table": "orders_v2"
  },
  "part": {
    "disk": "default",
    "name": "all_1_1_0",
    "relative_path": "store/1f2/1f2e3d4c-0000-4000-8000-00000000beef/all_1_1_0"
  },
  "sql": {
    "source_schema": "CREATE TABLE shop.orders …",
    "destination_schema": "CREATE TABLE shop.orders_v2 …\n",
    "insert_select": "INSERT INTO …"
  },
  "s3": {
    "bucket": "forge",
    "source_key": "partforge/jobs/job-5f0e11aa22bb33cc/source/part-d7cc35577e8617a6",
    "finished_key": "partforge/jobs/job-5f0e11aa22bb33cc/finished/part-d7cc35577e8617a6"
  },
  "created_at": "2026-11-30T09:52:22.87165128Z"
})";

TEST(Manifest, WritesTheReferencesBytes) {
  EXPECT_EQ(FormatManifest(Sample()), kAsTheReferenceWrites);
}

TEST(Manifest, ReadsBackEverythingItWrote) {
  Manifest m = Sample();
  m.source_objects = {{"b", "bk/data/x/data.bin", "data.bin"}, {"b", "bk/y", "data.bin"}};
  m.files = {{"count.txt", 2, std::string(64, 'a')}, {"data.bin", 147, std::string(64, '0')}};
  m.part_rows = 12;
  m.part_bytes = 149;
  EXPECT_EQ(ParseManifest(FormatManifest(m)).value(), m);
}

TEST(Manifest, IgnoresUnknownFieldsAndEscapesOfTheReference) {
  std::string text(kAsTheReferenceWrites);
  text.replace(text.find("\"freeze\""), 8, "\"future\": {\"a\": [1]},\n  \"freeze\"");
  text.replace(text.find("INSERT INTO …"), std::string_view("INSERT INTO …").size(), "a \\u003c b");
  text += "\n";
  EXPECT_EQ(ParseManifest(text).value().insert_select, "a < b");
}

TEST(Manifest, RefusesAnotherVersionByName) {
  std::string text(kAsTheReferenceWrites);
  text.replace(text.find("\"version\": 1"), 12, "\"version\": 2");
  const Status status = ParseManifest(text).status();
  EXPECT_EQ(status.code(), Code::kRefused);
  EXPECT_NE(status.message().find("unsupported manifest version: 2"), std::string::npos);
}

TEST(Manifest, RefusesMissingBlankAndUnsafeFields) {
  const auto fails = [](const std::function<void(Manifest&)>& change) {
    Manifest m = Sample();
    change(m);
    return !ParseManifest(FormatManifest(m)).ok();
  };
  EXPECT_TRUE(fails([](Manifest& m) { m.job_id = ""; }));
  EXPECT_TRUE(fails([](Manifest& m) { m.insert_select = " \n\t"; }));
  EXPECT_TRUE(fails([](Manifest& m) { m.finished_key = ""; }));
  EXPECT_TRUE(fails([](Manifest& m) { m.files = {{"../x", 1, std::string(64, 'a')}}; }));
  EXPECT_TRUE(fails([](Manifest& m) { m.files = {{"x", -1, std::string(64, 'a')}}; }));
  EXPECT_TRUE(fails([](Manifest& m) { m.files = {{"x", 1, "abc"}}; }));
  EXPECT_TRUE(fails([](Manifest& m) {
    m.files = {{"x", 1, std::string(64, 'a')}, {"x", 1, std::string(64, 'a')}};
  }));
  EXPECT_TRUE(fails([](Manifest& m) { m.source_objects = {{"b", "k", "/etc/passwd"}}; }));
  EXPECT_FALSE(fails([](Manifest& m) { m.freeze = ""; }));
}

TEST(Manifest, RowAndManifestMustAgree) {
  const Manifest m = Sample();
  ManifestOwner owner{m.job_id, m.part_id, m.bucket, m.source_key};
  EXPECT_TRUE(CheckManifest(m, owner).ok());
  owner.part_id = "part-00000000000000ff";
  const Status status = CheckManifest(m, owner);
  EXPECT_EQ(status.code(), Code::kCorruption);
  EXPECT_EQ(status.explanation().pf_number, 8001);
}

TEST(Manifest, SameUploadLooksPastTheTimeOnly) {
  Manifest later = Sample();
  later.created_at_ns += 5;
  EXPECT_TRUE(SameUpload(Sample(), later));
  later.part_relative_path += "x";
  EXPECT_FALSE(SameUpload(Sample(), later));
}

TEST(Manifest, TimesKeepNineDigitsAndNoTrailingZeros) {
  for (const char* text :
       {"2026-11-30T09:52:22.87165128Z", "1970-01-01T00:00:00Z", "2024-02-29T23:59:59.999999999Z",
        "1969-12-31T23:59:59.5Z", "2261-12-31T00:00:00.1Z"}) {
    EXPECT_EQ(FormatTimeNs(ParseTimeNs(text).value()), text);
  }
  EXPECT_EQ(ParseTimeNs("2026-11-30T11:52:22+02:00").value(),
            ParseTimeNs("2026-11-30T09:52:22Z").value());
  for (const char* text :
       {"", "2026-11-30", "2026-02-30T00:00:00Z", "2026-11-30T24:00:00Z", "2026-11-30T09:52:22",
        "2026-11-30T09:52:22.1234567890Z", "2026-11-30T09:52:22.Z", "9999-01-01T00:00:00Z",
        "-026-11-30T09:52:22Z"}) {
    EXPECT_FALSE(ParseTimeNs(text).ok()) << text;
  }
}

TEST(Manifest, MutatedTextNeverCrashes) {
  const uint64_t seed = testing::TestSeed();
  SCOPED_TRACE(seed);
  testing::SeededRandom random(seed);
  Manifest full = Sample();
  full.files = {{"data.bin", 147, std::string(64, '0')}};
  full.source_objects = {{"b", "k", "data.bin"}};
  const std::string golden = FormatManifest(full);
  for (int round = 0; round < 5000; ++round) {
    std::string broken = golden;
    for (uint64_t i = 1 + RandomBelow(random, 4); i > 0; --i) {
      const size_t at = RandomBelow(random, broken.size());
      if (RandomBelow(random, 2) == 0) {
        broken[at] = static_cast<char>(random.Next());
      } else {
        broken.erase(at, RandomBelow(random, 12));
      }
      if (broken.empty()) break;
    }
    const auto read = ParseManifest(broken);
    if (read.ok()) {
      EXPECT_FALSE(read->insert_select.empty());
    }
  }
}

// The worked examples of clickhouse-parts §6, through a manifest: what was stored gives the id
// again. check: PF-3
TEST(Manifest, PartIdsOfTheWorkedExamplesAgree) {
  const std::string source =
      "CREATE TABLE shop.orders\n(\n    `id` UInt64,\n    `amount` UInt32,\n    `day` "
      "Date\n)\nENGINE = MergeTree\nORDER BY id";
  Manifest m = Sample();
  m.source_schema = source;
  m.destination_schema =
      "CREATE TABLE shop.orders_v2 (id UInt64, amount String, day Date) ENGINE = MergeTree ORDER "
      "BY (day, id)\n";
  m.insert_select =
      "INSERT INTO shop.orders_v2 SELECT id, toString(amount), day FROM shop.orders\n";
  const Manifest read = ParseManifest(FormatManifest(m)).value();
  const auto id = [](const Manifest& x) {
    return MakePartId({.disk = x.part_disk,
                       .relative_path = x.part_relative_path,
                       .part_name = x.part_name,
                       .source_schema = x.source_schema,
                       .destination_schema = x.destination_schema,
                       .insert_select = x.insert_select});
  };
  EXPECT_EQ(id(read), "part-d7cc35577e8617a6");
  Manifest backup = read;
  backup.part_disk = "backup";
  backup.part_relative_path = "data/shop/orders/all_1_1_0";
  EXPECT_EQ(id(backup), "part-09599306ffb6de2d");
  EXPECT_EQ(MakeCompactId(1, {id(read), id(backup)}), "compact-b972f1407569617f");
  EXPECT_EQ(MakeCompactId(2, {"compact-b972f1407569617f", "part-00000000000000ff"}),
            "compact-cb28a937abdf1296");
}

}  // namespace
}  // namespace partforge::clickhouse
