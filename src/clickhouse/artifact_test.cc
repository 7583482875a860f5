#include "clickhouse/artifact.h"

#include <gtest/gtest.h>

#include "testing/test_world.h"

namespace partforge::clickhouse {
namespace {

ArtifactMeta Sample() {
  ArtifactMeta meta;
  meta.job_id = "job-1";
  meta.part_id = "part-1";
  meta.epoch = 3;
  meta.engine = "26.7.2.1";
  meta.schema_fingerprint = "sha256:ab";
  meta.codec = "ZSTD(5)";
  meta.source_rows = 4'000'000;
  meta.source_rows_visible = 3'999'000;
  meta.source_bytes = 123;
  meta.source_manifest_sha256 = std::string(64, 'e');
  meta.chunks = {{.begin = 0, .end = 2'000'000, .attempts = 1, .selected = 5, .written = 5}};
  meta.selected = 5;
  meta.written = 5;
  meta.inputs = {{.part_id = "part-0", .epoch = 1, .meta_sha256 = "m"}};
  meta.parts = {{.name = "202401_1_1_0",
                 .partition_id = "202401",
                 .rows = 5,
                 .bytes_on_disk = 99,
                 .tar_size_bytes = 1234,
                 .tar_sha256 = std::string(64, 'a'),
                 .checksums_txt_sha256 = std::string(64, 'b'),
                 .hash_of_all_files = std::string(32, 'c')}};
  return meta;
}

TEST(JobKeys, FollowTheLayout) {
  const JobKeys keys = JobKeys::Make("/a//b/", "job-1").value();
  EXPECT_EQ(keys.root(), "a/b/jobs/job-1");
  EXPECT_EQ(keys.SourceKey("part-1").value(), "a/b/jobs/job-1/source/part-1");
  EXPECT_EQ(keys.FinishedKey("part-1").value(), "a/b/jobs/job-1/finished/part-1");
  EXPECT_EQ(keys.FinishedPrefix("part-1", 7).value(), "a/b/jobs/job-1/finished/part-1.7");
  EXPECT_EQ(keys.MetaKey("part-1", 7).value(), "a/b/jobs/job-1/meta/part-1.7.json");
  EXPECT_EQ(keys.ReceiptKey("part-1").value(), "a/b/jobs/job-1/imported/part-1.json");
  EXPECT_EQ(TarKey("p/x.1", "all_1_1_0"), "p/x.1/all_1_1_0.tar");
  EXPECT_EQ(JobKeys::Make("", "job-1")->root(), "jobs/job-1");
}

TEST(JobKeys, RefusesIdsThatAreNoSegment) {
  for (const char* id : {"", "..", ".", "a/b", "a*", "a b"}) {
    EXPECT_EQ(JobKeys::Make("p", id).status().explanation().pf_number, 8006) << id;
    EXPECT_FALSE(JobKeys::Make("p", "j")->SourceKey(id).ok()) << id;
  }
  for (const char* prefix : {"p/../q", "./p", "p*", "p/[a]"}) {
    EXPECT_EQ(JobKeys::Make(prefix, "j").status().explanation().pf_number, 8006) << prefix;
  }
}

TEST(DeletionRoot, IsTheJobsOwnRootOrNothing) {
  EXPECT_EQ(DeletionRoot("b", "p/jobs/job-1/finished/x.1", "job-1").value(), "p/jobs/job-1");
  EXPECT_EQ(DeletionRoot("b", "jobs/job-1/source/x", "job-1").value(), "jobs/job-1");
  // The pair of segments must stand there as such.
  EXPECT_FALSE(DeletionRoot("b", "p/jobs/job-12/finished/x", "job-1").ok());
  EXPECT_FALSE(DeletionRoot("b", "p/myjobs/job-1/finished/x", "job-1").ok());
  EXPECT_FALSE(DeletionRoot("b", "p/job-1/jobs/x", "job-1").ok());
  EXPECT_FALSE(DeletionRoot("b", "backup/data/shop/orders", "job-1").ok());
  for (const char* bad : {"", "a/b", "a*", "a?", "a[1]", "a{b}"}) {
    EXPECT_EQ(DeletionRoot(bad, "jobs/job-1/x", "job-1").status().code(), Code::kRefused) << bad;
    EXPECT_FALSE(DeletionRoot("b", std::string("p/jobs/") + bad + "/x", bad).ok()) << bad;
  }
  EXPECT_FALSE(DeletionRoot("b", "p*/jobs/job-1/x", "job-1").ok());
  EXPECT_FALSE(DeletionRoot("b", "p/../jobs/job-1/x", "job-1").ok());
}

TEST(ArtifactMeta, ReadsBackWhatItWrote) {
  EXPECT_EQ(ParseArtifactMeta(FormatArtifactMeta(Sample())).value(), Sample());
  ArtifactMeta empty = Sample();
  empty.kind = ArtifactKind::kCompact;
  empty.parts.clear();
  empty.chunks.clear();
  EXPECT_EQ(ParseArtifactMeta(FormatArtifactMeta(empty)).value(), empty);
}

TEST(ArtifactMeta, IsStrict) {
  const std::string good = FormatArtifactMeta(Sample());
  const auto with = [&](std::string_view from, std::string_view to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    return ParseArtifactMeta(text).status();
  };
  EXPECT_EQ(with("\"version\": 1", "\"version\": 2").code(), Code::kRefused);
  EXPECT_EQ(with("\"rewrite\"", "\"load\"").code(), Code::kRefused);
  EXPECT_EQ(with("\"codec\"", "\"kodec\"").code(), Code::kCorruption);
  EXPECT_EQ(with("\"epoch\": 3", "\"epoch\": 3, \"x\": 1").code(), Code::kCorruption);
  EXPECT_EQ(with("\"rows\": 5", "\"rows\": -5").code(), Code::kCorruption);
  EXPECT_EQ(with("202401_1_1_0", "../../x").code(), Code::kCorruption);
  EXPECT_EQ(with("\"partition_id\": \"202401\"", "\"partition_id\": \"202402\"").code(),
            Code::kCorruption);
}

TEST(ArtifactMeta, MutatedTextNeverCrashes) {
  const uint64_t seed = testing::TestSeed();
  SCOPED_TRACE(seed);
  testing::SeededRandom random(seed);
  const std::string golden = FormatArtifactMeta(Sample());
  for (int round = 0; round < 5000; ++round) {
    std::string broken = golden;
    for (uint64_t i = 1 + RandomBelow(random, 3); i > 0; --i) {
      broken[RandomBelow(random, broken.size())] = static_cast<char>(random.Next());
    }
    (void)ParseArtifactMeta(broken);
  }
}

}  // namespace
}  // namespace partforge::clickhouse
