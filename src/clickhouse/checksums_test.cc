#include "clickhouse/checksums.h"

#include <gtest/gtest.h>

#include "clickhouse/frame.h"
#include "clickhouse/sip_hash.h"
#include "clickhouse/testdata.h"
#include "testing/test_world.h"

namespace partforge::clickhouse {
namespace {

PartChecksums Sample() {
  PartChecksums sums;
  sums.files = {
      {.name = "count.txt", .size_bytes = 2, .hash = {.low = 7, .high = 8}},
      {.name = "id.bin",
       .size_bytes = 1234567,
       .hash = {.low = UINT64_MAX, .high = 1},
       .is_compressed = true,
       .uncompressed_size_bytes = 9999999,
       .uncompressed_hash = {.low = 3, .high = UINT64_MAX}},
  };
  return sums;
}

TEST(Checksums, AgreesWithSystemPartsOnEveryGoldenPart) {
  ASSERT_EQ(GoldenParts().size(), 8u);
  for (const GoldenPart& part : GoldenParts()) {
    SCOPED_TRACE(part.table);
    const auto sums = ParseChecksums(part.Read("checksums.txt"));
    ASSERT_TRUE(sums.ok()) << sums.status().ToString();
    EXPECT_EQ(sums->HashOfAllFiles(), part.hash_of_all_files);
    EXPECT_EQ(sums->total_size_bytes(), part.bytes_on_disk);
  }
}

TEST(Checksums, ProjectionEntryIsTheTotalOfItsOwnList) {
  const GoldenPart part = Golden("proj");
  const PartChecksums outer = ParseChecksums(part.Read("checksums.txt")).value();
  const PartChecksums inner = ParseChecksums(part.Read("by_g.proj/checksums.txt")).value();
  const FileChecksum* entry = outer.Find("by_g.proj");
  ASSERT_NE(entry, nullptr);
  EXPECT_EQ(entry->size_bytes, inner.total_size_bytes());
  EXPECT_EQ(entry->hash, inner.TotalChecksum());
}

TEST(Checksums, EveryVersionReadsBackWhatItWrote) {
  for (const int version : {2, 3, 4}) {
    const std::string text = FormatChecksums(Sample(), version).value();
    const auto read = ParseChecksums(text);
    ASSERT_TRUE(read.ok()) << read.status().ToString();
    EXPECT_EQ(*read, Sample());
  }
  EXPECT_FALSE(FormatChecksums(Sample(), 1).ok());
}

TEST(Checksums, TextVersionIsTheServersForm) {
  PartChecksums sums = Sample();
  sums.files.erase(sums.files.begin());
  EXPECT_EQ(FormatChecksums(sums, 2).value(),
            "checksums format version: 2\n1 files:\nid.bin\n\tsize: 1234567\n"
            "\thash: 18446744073709551615 1\n\tcompressed: 1\n\tuncompressed size: 9999999\n"
            "\tuncompressed hash: 3 18446744073709551615\n");
}

TEST(Checksums, RefusesAnotherVersionAndBrokenLists) {
  EXPECT_EQ(ParseChecksums("checksums format version: 5\n").status().code(), Code::kRefused);
  EXPECT_EQ(ParseChecksums("").status().code(), Code::kCorruption);
  EXPECT_EQ(ParseChecksums("checksums format version: 3\n").status().code(), Code::kCorruption);
  const std::string good = FormatChecksums(Sample(), 3).value();
  EXPECT_EQ(ParseChecksums(good + "x").status().code(), Code::kCorruption);
  EXPECT_EQ(ParseChecksums(good.substr(0, good.size() - 1)).status().explanation().pf_number, 8003);
  PartChecksums twice = Sample();
  twice.files.push_back(twice.files[0]);
  EXPECT_FALSE(ParseChecksums(FormatChecksums(twice, 4).value()).ok());
  for (const char* name : {"", "..", "a/b", "a\\b", "/etc/passwd"}) {
    PartChecksums odd = Sample();
    odd.files[0].name = name;
    EXPECT_FALSE(ParseChecksums(FormatChecksums(odd, 4).value()).ok()) << name;
  }
}

TEST(Checksums, MutatedListsNeverCrashAndNeverLieAboutTheirSize) {
  const uint64_t seed = testing::TestSeed();
  SCOPED_TRACE(seed);
  testing::SeededRandom random(seed);
  const std::string golden = Golden("wide").Read("checksums.txt");
  const PartChecksums parsed = ParseChecksums(golden).value();
  for (const int version : {2, 3, 4}) {
    const std::string text = version == 4 ? golden : FormatChecksums(parsed, version).value();
    for (int round = 0; round < 4000; ++round) {
      std::string broken = text;
      const uint64_t edits = 1 + RandomBelow(random, 5);
      for (uint64_t i = 0; i < edits && !broken.empty(); ++i) {
        const size_t at = RandomBelow(random, broken.size());
        switch (RandomBelow(random, 4)) {
          case 0:
            broken[at] = static_cast<char>(random.Next());
            break;
          case 1:
            broken.erase(at, RandomBelow(random, 40));
            break;
          case 2:
            broken.insert(at, broken.substr(at, RandomBelow(random, 40)));
            break;
          default:
            broken.resize(at);
        }
      }
      const auto read = ParseChecksums(broken);
      if (read.ok()) {
        EXPECT_LE(read->files.size(), broken.size() / 18);
      }
    }
  }
}

// The compressed form needs a right checksum to get further: mutate what is inside it.
TEST(Checksums, MutatedListInsideAFreshFrameNeverCrashes) {
  const uint64_t seed = testing::TestSeed();
  SCOPED_TRACE(seed);
  testing::SeededRandom random(seed);
  const std::string plain =
      FormatChecksums(ParseChecksums(Golden("json").Read("checksums.txt")).value(), 3)
          .value()
          .substr(std::string_view("checksums format version: 3\n").size());
  for (int round = 0; round < 4000; ++round) {
    std::string broken = plain;
    broken[RandomBelow(random, broken.size())] = static_cast<char>(random.Next());
    (void)ParseChecksums("checksums format version: 4\n" +
                         EncodeFrame(AsBytes(broken), FrameMethod::kLz4).value());
  }
}

TEST(SipHash, LongFileNamesHashAsTheServerDoes) {
  std::string stem;
  for (int i = 0; i < 6; ++i) stem += "very_long_column_name_";
  EXPECT_EQ(HashedFileStem(stem + "x"), "15256b82fd0f7623b7239a9fea799e2a");
}

}  // namespace
}  // namespace partforge::clickhouse
