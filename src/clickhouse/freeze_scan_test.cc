#include "clickhouse/freeze_scan.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "clickhouse/frozen_parts.h"
#include "clickhouse/table_freeze.h"
#include "clickhouse/testdata.h"
#include "testing/fake_engine.h"
#include "testing/test_world.h"

namespace partforge::clickhouse {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kUuid = "1f2e3d4c-0000-4000-8000-00000000beef";
constexpr std::string_view kOtherUuid = "aaaa3d4c-0000-4000-8000-00000000beef";

class ScanFreezeTest : public ::testing::Test {
 protected:
  ScanFreezeTest() {
    location_.uuid = kUuid;
    location_.disks = {{"default", directory_ / "d1"}, {"second", directory_ / "d2"}};
    location_.data_paths = {
        (directory_ / "d1" / "store" / "1f2" / std::string(kUuid) / "").string()};
  }
  static std::string Folder(std::string_view uuid) {
    return "store/" + std::string(uuid.substr(0, 3)) + "/" + std::string(uuid);
  }
  fs::path Put(const std::string& disk, const std::string& freeze, const std::string& folder,
               const std::string& name, const std::string& golden) {
    const fs::path path = directory_ / disk / "shadow" / freeze / folder / name;
    fs::create_directories(path.parent_path());
    fs::copy(Golden(golden).directory(), path, fs::copy_options::recursive);
    return path;
  }
  Result<FreezeScan> Scan(CoveredParts covered = CoveredParts::kRefuse,
                          const std::vector<std::string>& freezes = {"f"}) {
    return ScanFreeze(world_.context(), location_, {"shop", "orders"}, freezes, covered);
  }
  int PfNumber(CoveredParts covered = CoveredParts::kRefuse,
               const std::vector<std::string>& freezes = {"f"}) {
    const auto scan = Scan(covered, freezes);
    return scan.ok() ? 0 : scan.status().explanation().pf_number;
  }

  testing::TestWorld world_;
  testing::TempDir directory_;
  TableLocation location_;
};

TEST_F(ScanFreezeTest, FindsPartsOnEveryDiskInOrder) {
  Put("d2", "f", Folder(kUuid), "all_3_3_0", "compact");
  Put("d1", "f", Folder(kUuid), "all_2_2_0", "wide");
  Put("d1", "f", Folder(kUuid), "all_1_1_0", "proj");
  const auto scan = Scan();
  ASSERT_TRUE(scan.ok()) << scan.status().ToString();
  ASSERT_EQ(scan->parts.size(), 3u);
  EXPECT_EQ(scan->parts[0].name.ToString(), "all_1_1_0");
  EXPECT_EQ(scan->parts[0].relative_path, Folder(kUuid) + "/all_1_1_0");
  EXPECT_EQ(scan->parts[0].rows, 40);
  EXPECT_EQ(scan->parts[1].name.ToString(), "all_2_2_0");
  EXPECT_EQ(scan->parts[2].disk, "second");
  EXPECT_EQ(scan->parts[2].directory,
            directory_ / "d2" / "shadow" / "f" / Folder(kUuid) / "all_3_3_0");
  EXPECT_EQ(scan->parts[2].freeze, "f");
}

// check: PF-46
TEST_F(ScanFreezeTest, OtherTablesUnderTheSameNameAreLeftOut) {
  Put("d1", "f", Folder(kUuid), "all_1_1_0", "compact");
  Put("d1", "f", Folder(kOtherUuid), "all_1_1_0", "wide");
  Put("d1", "f", "data/shop/orders_v2", "all_1_1_0", "ttl");
  Put("d1", "f", "data/shop/orders", "all_7_7_0", "old");  // of an Ordinary database
  const auto scan = Scan();
  ASSERT_TRUE(scan.ok()) << scan.status().ToString();
  ASSERT_EQ(scan->parts.size(), 2u);
  EXPECT_EQ(scan->parts[0].relative_path, "data/shop/orders/all_7_7_0");
  EXPECT_EQ(scan->parts[1].relative_path, Folder(kUuid) + "/all_1_1_0");
  EXPECT_EQ(scan->other_tables,
            (std::vector<std::string>{"data/shop/orders_v2", Folder(kOtherUuid)}));
}

TEST_F(ScanFreezeTest, ABrokenPartOfAnotherTableIsNoConcern) {
  Put("d1", "f", Folder(kUuid), "all_1_1_0", "compact");
  fs::remove(Put("d1", "f", Folder(kOtherUuid), "all_1_1_0", "wide") / "id.bin");
  EXPECT_TRUE(Scan().ok());
}

TEST_F(ScanFreezeTest, NothingFoundSaysWhereItLooked) {
  const auto scan = Scan();
  EXPECT_EQ(scan.status().code(), Code::kNotFound);
  EXPECT_EQ(scan.status().explanation().pf_number, 2102);
  Put("d1", "f", Folder(kOtherUuid), "all_1_1_0", "wide");
  EXPECT_EQ(PfNumber(), 2102);
  EXPECT_FALSE(Scan(CoveredParts::kRefuse, {"../f"}).ok());
}

// check: PF-47
TEST_F(ScanFreezeTest, ACoveredPartIsRefusedAndNamed) {
  Put("d1", "f", Folder(kUuid), "all_1_4_1", "compact");
  Put("d2", "f", Folder(kUuid), "all_2_2_0", "wide");
  const auto scan = Scan();
  EXPECT_EQ(scan.status().code(), Code::kRefused);
  EXPECT_EQ(scan.status().explanation().pf_number, 2136);
  EXPECT_NE(scan.status().message().find("all_1_4_1"), std::string::npos);
  EXPECT_NE(scan.status().message().find("all_2_2_0"), std::string::npos);
}

TEST_F(ScanFreezeTest, CoveredPartsCanBeSetAside) {
  Put("d1", "f", Folder(kUuid), "all_1_4_1", "compact");
  Put("d1", "f", Folder(kUuid), "all_2_2_0", "wide");
  Put("d1", "f", Folder(kUuid), "all_3_3_0", "old");
  Put("d1", "f", Folder(kUuid), "all_5_5_0", "ttl");
  const auto scan = Scan(CoveredParts::kSkip);
  ASSERT_TRUE(scan.ok()) << scan.status().ToString();
  ASSERT_EQ(scan->parts.size(), 2u);
  ASSERT_EQ(scan->skipped.size(), 2u);
  EXPECT_EQ(scan->skipped[0].name.ToString(), "all_2_2_0");
}

TEST_F(ScanFreezeTest, PartsThatCrossAreAlwaysRefused) {
  Put("d1", "f", Folder(kUuid), "all_1_4_1", "compact");
  Put("d1", "f", Folder(kUuid), "all_3_6_1", "wide");
  EXPECT_EQ(PfNumber(CoveredParts::kSkip), 2136);
}

TEST_F(ScanFreezeTest, PatchPartsAreRefused) {
  Put("d1", "f", Folder(kUuid), "all_1_1_0", "compact");
  Put("d1", "f", Folder(kUuid), "patch-7f0e-all_2_2_0", "wide");
  EXPECT_EQ(PfNumber(), 2107);
}

TEST_F(ScanFreezeTest, OnePartInTwoFreezesIsRefusedEqualInsertsAreNot) {
  // Two inserts of the same rows: equal files, other names, other inodes.
  const fs::path first = Put("d1", "f", Folder(kUuid), "all_1_1_0", "compact");
  Put("d1", "f", Folder(kUuid), "all_2_2_0", "compact");
  EXPECT_TRUE(Scan().ok());
  // The same part under a second freeze name: hard links of the same files.
  const fs::path second = directory_ / "d1" / "shadow" / "g" / Folder(kUuid) / "all_1_1_0";
  fs::create_directories(second);
  for (const auto& file : fs::directory_iterator(first)) {
    fs::create_hard_link(file.path(), second / file.path().filename());
  }
  EXPECT_EQ(PfNumber(CoveredParts::kRefuse, {"f", "g"}), 2119);
  EXPECT_TRUE(Scan(CoveredParts::kRefuse, {"g"}).ok());
}

TEST_F(ScanFreezeTest, AnIncompletePartIsRefusedBeforeAnythingIsSent) {
  const fs::path part = Put("d1", "f", Folder(kUuid), "all_1_1_0", "wide");
  fs::remove(part / "id.bin");
  EXPECT_EQ(PfNumber(), 2140);
}

// Its rows would be missing without a word.
TEST_F(ScanFreezeTest, APartThatLacksOneOfItsListsIsRefused) {
  Put("d1", "f", Folder(kUuid), "all_1_1_0", "compact");
  const fs::path part = Put("d1", "f", Folder(kUuid), "all_2_2_0", "wide");
  for (const char* list : {"columns.txt", "checksums.txt"}) {
    fs::rename(part / list, directory_ / list);
    EXPECT_EQ(PfNumber(), 2140) << list;
    fs::rename(directory_ / list, part / list);
  }
  EXPECT_EQ(Scan()->parts.size(), 2u);
  fs::remove_all(part);
  fs::create_directory(part);
  EXPECT_EQ(PfNumber(), 2140) << "a part without any file";
  fs::remove(part);
  const fs::path nameless = part.parent_path() / "copy";
  fs::create_directory(nameless);
  EXPECT_EQ(PfNumber(), 0);
  std::ofstream(nameless / "id.bin") << "x";
  EXPECT_EQ(PfNumber(), 2102) << "files of a part without its name";
  fs::remove_all(nameless);
  // Of another table, below a folder that looks like a part: no concern.
  Put("d1", "f", "data/shop/all_1_1_0", "all_1_1_0", "old");
  fs::remove(Put("d1", "f", Folder(kOtherUuid), "all_1_1_0", "wide") / "columns.txt");
  EXPECT_EQ(PfNumber(), 0);
}

// One would undo the other's freeze under a running upload.
TEST(FreezeNameOfJob, DiffersForIdsThatDifferInPunctuationOnly) {
  std::set<std::string> names;
  for (const char* id : {"a-b", "a_b", "a.b", "ab", "A-b"}) {
    const std::string name = FreezeNameOfJob(id);
    names.insert(name);
    EXPECT_EQ(EscapeForFileName(name), name);
    EXPECT_EQ(FreezeNameOfJob(id), name);
  }
  EXPECT_EQ(names.size(), 5u);
}

TEST_F(ScanFreezeTest, LinksAreNotFollowed) {
  Put("d1", "f", Folder(kUuid), "all_1_1_0", "compact");
  fs::create_directory_symlink(Golden("wide").directory(),
                               directory_ / "d1" / "shadow" / "f" / Folder(kUuid) / "all_9_9_0");
  EXPECT_EQ(Scan()->parts.size(), 1u);
}

TEST(EscapeForFileName, EscapesAllButWordBytes) {
  EXPECT_EQ(EscapeForFileName("orders_V2"), "orders_V2");
  EXPECT_EQ(EscapeForFileName("we ird.ö"), "we%20ird%2E%C3%B6");
}

class ReadLocation : public ::testing::Test {
 protected:
  ReadLocation() {
    engine_.Answer("SELECT toString(uuid)", "[\"1f2e\",\"tiered\"]\n");
    engine_.Answer("SELECT arrayJoin(data_paths)", "[\"\\/a\\/store\\/x\\/\"]\n[\"\\/b\\/\"]\n");
  }
  Result<TableLocation> Read() {
    return ReadTableLocation(world_.context(), engine_, {"shop", "it's"});
  }
  testing::TestWorld world_;
  testing::FakeEngine engine_;
};

TEST_F(ReadLocation, TakesTheDisksOfTheTablesPolicy) {
  engine_.Answer("SELECT name, path",
                 "[\"a\",\"\\/a\\/\",\"Local\",\"0\"]\n"
                 "[\"b\",\"\\/b\\/\",\"local\",\"0\"]\n");
  const auto location = Read();
  ASSERT_TRUE(location.ok()) << location.status().ToString();
  EXPECT_EQ(location->uuid, "1f2e");
  EXPECT_EQ(location->data_paths, (std::vector<std::string>{"/a/store/x/", "/b/"}));
  ASSERT_EQ(location->disks.size(), 2u);
  EXPECT_EQ(location->disks[1].path, "/b/");
  const auto asked = engine_.AskedFor("SELECT name, path");
  EXPECT_NE(asked[0].sql.find("'tiered'"), std::string::npos);
}

TEST_F(ReadLocation, RefusesDisksThatAreNotPlainFilesByName) {
  for (const char* row : {"[\"s3\",\"\\/x\\/\",\"ObjectStorage\",\"0\"]\n",
                          "[\"s3\",\"\\/x\\/\",\"Local\",\"1\"]\n"}) {
    testing::FakeEngine engine;
    engine.Answer("SELECT toString(uuid)", "[\"1f2e\",\"tiered\"]\n");
    engine.Answer("SELECT arrayJoin(data_paths)", "");
    engine.Answer("SELECT name, path", row);
    const auto location = ReadTableLocation(world_.context(), engine, {"shop", "orders"});
    EXPECT_EQ(location.status().code(), Code::kRefused);
    EXPECT_EQ(location.status().explanation().pf_number, 2103);
    EXPECT_NE(location.status().message().find("disk s3"), std::string::npos);
  }
}

TEST_F(ReadLocation, AnAbsentTableIsNotFound) {
  testing::FakeEngine engine;
  engine.Answer("SELECT toString(uuid)", "");
  EXPECT_EQ(ReadTableLocation(world_.context(), engine, {"a", "b"}).status().code(),
            Code::kNotFound);
}

TEST(CheckFreezeName, RefusesWhatNoUploadCouldRead) {
  for (const char* good : {"autumn_01", "a-b.c", "f 1", "ü"}) {
    EXPECT_TRUE(CheckFreezeName(good).ok()) << good;
  }
  for (const std::string& bad :
       {std::string(), std::string("../x"), std::string("x\\y"), std::string("a\nb"),
        std::string("\x01"), std::string("."), std::string(".."), std::string("increment.txt"),
        std::string(300, 'a'), std::string(90, '-')}) {
    const Status status = CheckFreezeName(bad);
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << bad;
    EXPECT_EQ(status.explanation().pf_number, 1005) << bad;
    EXPECT_EQ(status.explanation().where, "--freeze") << bad;
  }
}

}  // namespace
}  // namespace partforge::clickhouse
