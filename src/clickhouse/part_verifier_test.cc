#include "clickhouse/part_verifier.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "base/files.h"
#include "base/hash.h"
#include "clickhouse/testdata.h"
#include "testing/test_world.h"

namespace partforge::clickhouse {
namespace {

namespace fs = std::filesystem;

class VerifyPart : public ::testing::Test {
 protected:
  fs::path CopyOf(const std::string& table) {
    const fs::path copy = directory_ / table;
    fs::copy(Golden(table).directory(), copy, fs::copy_options::recursive);
    return copy;
  }
  Status Verify(const fs::path& part, VerifyLevel level = VerifyLevel::kContent) {
    return VerifyPartDirectory(world_.context(), part, level);
  }
  testing::TestWorld world_;
  testing::TempDir directory_;
};

void FlipByte(const fs::path& file, int64_t at) {
  std::fstream io(file, std::ios::in | std::ios::out | std::ios::binary);
  io.seekg(at);
  const char c = static_cast<char>(io.get() ^ 1);
  io.seekp(at);
  io.put(c);
}

TEST_F(VerifyPart, EveryGoldenPartAgreesWithItsOwnList) {
  for (const GoldenPart& part : GoldenParts()) {
    for (const VerifyLevel level : {VerifyLevel::kSizes, VerifyLevel::kContent}) {
      const Status status = Verify(part.directory(), level);
      EXPECT_TRUE(status.ok()) << part.table << ": " << status.ToString();
    }
  }
}

TEST_F(VerifyPart, AFlippedByteInAnyListedFileIsFound) {
  const fs::path part = CopyOf("proj");
  const PartChecksums sums = ParseChecksums(Golden("proj").Read("checksums.txt")).value();
  std::vector<std::string> files = {"by_g.proj/g.bin", "by_g.proj/checksums.txt"};
  for (const FileChecksum& file : sums.files) {
    if (!file.name.ends_with(".proj") && file.size_bytes > 0) files.push_back(file.name);
  }
  ASSERT_GT(files.size(), 10u);
  for (const std::string& file : files) {
    FlipByte(part / file, static_cast<int64_t>(fs::file_size(part / file)) / 2);
    const Status status = Verify(part);
    EXPECT_EQ(status.code(), Code::kCorruption) << file;
    FlipByte(part / file, static_cast<int64_t>(fs::file_size(part / file)) / 2);
  }
  EXPECT_TRUE(Verify(part).ok());
}

TEST_F(VerifyPart, SizesAloneFindShortMissingAndForeignFiles) {
  const fs::path part = CopyOf("wide");
  fs::resize_file(part / "id.bin", 10);
  EXPECT_EQ(Verify(part, VerifyLevel::kSizes).explanation().pf_number, 2133);
  fs::remove(part / "id.bin");
  EXPECT_EQ(Verify(part, VerifyLevel::kSizes).explanation().pf_number, 2140);
  fs::copy(Golden("wide").directory() / "id.bin", part / "id.bin");
  EXPECT_TRUE(Verify(part, VerifyLevel::kSizes).ok());

  std::ofstream(part / "stray.bin") << "x";
  EXPECT_EQ(Verify(part, VerifyLevel::kSizes).explanation().pf_number, 2133);
  fs::remove(part / "stray.bin");
  fs::create_directory(part / "sub");
  std::ofstream(part / "sub" / "x.bin") << "x";
  EXPECT_EQ(Verify(part, VerifyLevel::kSizes).explanation().pf_number, 2133);
}

TEST_F(VerifyPart, AMissingListIsAMissingFile) {
  const fs::path part = CopyOf("compact");
  fs::remove(part / "checksums.txt");
  EXPECT_EQ(Verify(part).explanation().pf_number, 2140);
  const fs::path with_projection = CopyOf("proj");
  fs::remove_all(with_projection / "by_g.proj");
  EXPECT_EQ(Verify(with_projection).explanation().pf_number, 2140);
}

TEST_F(VerifyPart, StreamingInAnyOrderAndPieceSizeGivesTheSameAnswer) {
  const GoldenPart golden = Golden("proj");
  std::vector<std::string> files;
  for (const FileEntry& entry : ListTree(golden.directory()).value()) {
    if (!entry.is_directory) files.push_back(entry.relative_path);
  }
  testing::SeededRandom random(testing::TestSeed());
  for (int round = 0; round < 20; ++round) {
    for (size_t i = files.size(); i > 1; --i) {
      std::swap(files[i - 1], files[RandomBelow(random, i)]);
    }
    PartStreamVerifier verifier("golden", VerifyLevel::kContent);
    for (const std::string& file : files) {
      const std::string bytes = golden.Read(file);
      ASSERT_TRUE(verifier.BeginFile(file, static_cast<int64_t>(bytes.size())).ok());
      for (size_t at = 0; at < bytes.size();) {
        const size_t n = std::min(bytes.size() - at, 1 + RandomBelow(random, 100));
        ASSERT_TRUE(verifier.Update(AsBytes(std::string_view(bytes).substr(at, n))).ok());
        at += n;
      }
      ASSERT_TRUE(verifier.EndFile().ok());
    }
    const Status status = verifier.Finish();
    EXPECT_TRUE(status.ok()) << status.ToString();
    EXPECT_EQ(verifier.checksums().HashOfAllFiles(), golden.hash_of_all_files);
    EXPECT_EQ(verifier.checksums_txt_sha256(), Sha256Hex(golden.Read("checksums.txt")));
  }
}

}  // namespace
}  // namespace partforge::clickhouse
