#include "clickhouse/part_files.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "clickhouse/testdata.h"
#include "testing/test_world.h"

namespace partforge::clickhouse {
namespace {

namespace fs = std::filesystem;

class ReadPartTest : public ::testing::Test {
 protected:
  Result<PartInfo> Read(const fs::path& directory) { return ReadPart(world_.context(), directory); }
  fs::path CopyOf(const std::string& table) {
    const fs::path copy = directory_ / (table + std::to_string(++copies_));
    fs::copy(Golden(table).directory(), copy, fs::copy_options::recursive);
    return copy;
  }
  int PfNumber(const fs::path& directory) {
    const auto part = Read(directory);
    return part.ok() ? 0 : part.status().explanation().pf_number;
  }
  testing::TestWorld world_;
  testing::TempDir directory_;
  int copies_ = 0;
};

TEST_F(ReadPartTest, AgreesWithSystemPartsOnEveryGoldenPart) {
  for (const GoldenPart& golden : GoldenParts()) {
    SCOPED_TRACE(golden.table);
    const auto part = Read(golden.directory());
    ASSERT_TRUE(part.ok()) << part.status().ToString();
    EXPECT_EQ(part->name, golden.name);
    EXPECT_EQ(part->layout == PartLayout::kCompact ? "Compact" : "Wide", golden.part_type);
    EXPECT_EQ(part->rows, golden.rows);
    EXPECT_EQ(part->bytes_on_disk, golden.bytes_on_disk);
    EXPECT_EQ(part->data_compressed_bytes, golden.data_compressed_bytes);
    EXPECT_EQ(part->data_uncompressed_bytes, golden.data_uncompressed_bytes);
    EXPECT_EQ(part->has_lightweight_delete, golden.has_lightweight_delete);
    EXPECT_EQ(part->default_codec, "CODEC(LZ4)");
    EXPECT_EQ(part->metadata_version, 0);
    int64_t bytes = 0;
    for (const auto& file : fs::recursive_directory_iterator(golden.directory())) {
      if (file.is_regular_file()) bytes += static_cast<int64_t>(file.file_size());
    }
    EXPECT_EQ(part->size_bytes, bytes);
  }
}

TEST_F(ReadPartTest, SeesProjectionsTtlAndPartition) {
  EXPECT_EQ(Read(Golden("proj").directory())->projections, std::vector<std::string>{"by_g"});
  EXPECT_TRUE(Read(Golden("ttl").directory())->has_ttl_file);
  EXPECT_TRUE(Read(Golden("wide").directory())->has_partition_file);
  EXPECT_FALSE(Read(Golden("compact").directory())->has_partition_file);
  EXPECT_EQ(Read(Golden("sparse").directory())->sparse_columns, std::vector<std::string>{"s"});
  EXPECT_TRUE(Read(Golden("wide").directory())->sparse_columns.empty());
  EXPECT_FALSE(ParseSparseColumns("{}").ok());
  EXPECT_FALSE(ParseSparseColumns("{\"columns\":[{}]}").ok());
  EXPECT_EQ(Read(Golden("mask").directory())->columns.back(), (PartColumn{"_row_exists", "UInt8"}));
}

TEST_F(ReadPartTest, MissingAndEmptyFilesAreNamed) {
  for (const char* file : {"checksums.txt", "columns.txt", "count.txt", "id.bin", "id.cmrk2",
                           "partition.dat", "serialization.json"}) {
    const fs::path missing = CopyOf("wide");
    fs::remove(missing / file);
    EXPECT_EQ(PfNumber(missing), 2140) << file;
    const fs::path empty = CopyOf("wide");
    fs::resize_file(empty / file, 0);
    EXPECT_EQ(PfNumber(empty), 2140) << file;
  }
}

TEST_F(ReadPartTest, AStreamThatNoChecksumCoversIsRefused) {
  const fs::path part = CopyOf("wide");
  std::string text = Golden("wide").Read("columns_substreams.txt");
  text.replace(text.find("\tamount\n"), 8, "\tother\n");
  std::ofstream(part / "columns_substreams.txt", std::ios::binary) << text;
  EXPECT_EQ(PfNumber(part), 2140);
}

TEST_F(ReadPartTest, FilesThatAreLegallyEmptyPass) {
  // JSON and Dynamic write streams of no bytes, and list them so.
  EXPECT_EQ(fs::file_size(Golden("json").directory() / "d.SharedVariant.bin"), 0u);
  EXPECT_TRUE(Read(Golden("json").directory()).ok());
}

TEST_F(ReadPartTest, TheReferencesManifestIsNotOfThePart) {
  const fs::path part = CopyOf("compact");
  const int64_t before = Read(part)->size_bytes;
  std::ofstream(part / "manifest.json") << "{}";
  EXPECT_EQ(Read(part)->size_bytes, before);
}

TEST_F(ReadPartTest, ALinkIsRefused) {
  const fs::path part = CopyOf("compact");
  fs::remove(part / "count.txt");
  fs::create_symlink("/etc/hostname", part / "count.txt");
  EXPECT_EQ(Read(part).status().code(), Code::kRefused);
}

TEST(ColumnsTxt, ReadsEveryGoldenList) {
  for (const GoldenPart& golden : GoldenParts()) {
    const std::string text = golden.Read("columns.txt");
    const auto columns = ParseColumnsTxt(text);
    ASSERT_TRUE(columns.ok()) << columns.status().ToString();
    EXPECT_EQ(std::ssize(*columns), std::count(text.begin(), text.end(), '\n') - 2);
    EXPECT_TRUE(ParseColumnsSubstreams(golden.Read("columns_substreams.txt")).ok());
  }
  const std::vector<PartColumn> odd = {{"a`b\\c\nd", "Enum8('x y' = 1)"}};
  const std::string text =
      "columns format version: 1\n1 columns:\n`a\\`b\\\\c\\nd` Enum8('x y' = 1)\n";
  EXPECT_EQ(ParseColumnsTxt(text).value(), odd);
}

TEST(ColumnsTxt, SaysWhereItBreaks) {
  const auto message = [](std::string_view text) {
    return ParseColumnsTxt(text).status().message();
  };
  EXPECT_NE(message("columns format version: 2\n").find("header"), std::string::npos);
  EXPECT_NE(message("columns format version: 1\n2 columns:\n`a` Int8\n").find("line 2"),
            std::string::npos);
  EXPECT_FALSE(ParseColumnsTxt("columns format version: 1\n-1 columns:\n").ok());
  EXPECT_FALSE(ParseColumnsTxt("columns format version: 1\n1 columns:\na Int8\n").ok());
  EXPECT_FALSE(ParseColumnsTxt("columns format version: 1\n1 columns:\n`a\\` Int8\n").ok());
  EXPECT_FALSE(ParseColumnsTxt("columns format version: 1\n0 columns:\nx\n").ok());
}

TEST(ColumnsTxt, MutatedListsNeverCrash) {
  const uint64_t seed = testing::TestSeed();
  SCOPED_TRACE(seed);
  testing::SeededRandom random(seed);
  const std::string columns = Golden("json").Read("columns.txt");
  const std::string streams = Golden("json").Read("columns_substreams.txt");
  for (int round = 0; round < 5000; ++round) {
    for (const std::string* golden : {&columns, &streams}) {
      std::string broken = *golden;
      for (uint64_t i = 1 + RandomBelow(random, 4); i > 0; --i) {
        const size_t at = RandomBelow(random, broken.size());
        if (RandomBelow(random, 2) == 0) {
          broken[at] = static_cast<char>(random.Next());
        } else {
          broken.erase(at, RandomBelow(random, 20));
        }
      }
      (void)ParseColumnsTxt(broken);
      (void)ParseColumnsSubstreams(broken);
      (void)ParseCountTxt(broken);
      (void)ParseSparseColumns(broken);
    }
  }
}

TEST_F(ReadPartTest, ColumnsMustFitTheTable) {
  const PartInfo part = Read(Golden("mask").directory()).value();
  const auto check = [&](std::vector<PartColumn> table) {
    return CheckPartColumns(part, table, "shop.mask");
  };
  EXPECT_TRUE(check({{"id", "UInt64"}, {"v", "String"}}).ok());
  EXPECT_EQ(check({{"id", "UInt64"}, {"v", "String"}, {"w", "Int8"}}).value(),
            std::vector<std::string>{"w"});
  const auto other_type = check({{"id", "UInt32"}, {"v", "String"}});
  EXPECT_EQ(other_type.status().code(), Code::kCorruption);
  EXPECT_EQ(other_type.status().explanation().pf_number, 2147);
  EXPECT_FALSE(check({{"id", "UInt64"}}).ok());
  const PartInfo wide = Read(Golden("wide").directory()).value();
  std::vector<PartColumn> table = wide.columns;
  table.back().type = "Decimal(10,2)";
  EXPECT_TRUE(CheckPartColumns(wide, table, "shop.wide").ok());
  PartInfo empty_tuple;
  empty_tuple.columns = {{"a", "Map(String, Tuple())"}};
  EXPECT_TRUE(CheckPartColumns(empty_tuple, {{"a", "Map(String, Tuple)"}}, "shop.wide").ok());
  EXPECT_FALSE(CheckPartColumns(empty_tuple, {{"a", "Tuple"}}, "shop.wide").ok());
}

}  // namespace
}  // namespace partforge::clickhouse
