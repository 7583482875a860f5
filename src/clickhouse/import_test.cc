#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <stdio.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <iterator>

#include "base/files.h"
#include "base/hash.h"
#include "clickhouse/import_job.h"
#include "clickhouse/import_target.h"
#include "clickhouse/piece_evidence.h"
#include "testing/fake_engine.h"
#include "testing/test_world.h"

namespace partforge::clickhouse {
namespace {

namespace fs = std::filesystem;

class ImportUnit : public ::testing::Test {
 protected:
  testing::TestWorld world_;
  testing::TempDir directory_;
  testing::FakeEngine engine_;
};

// A retract that was turned back binds new tokens to directories of all states.
TEST_F(ImportUnit, ABoundDirectoryIsFoundUnderAnEarlierToken) {
  ImportTarget target;
  target.table = {"db", "t"};
  target.data_path = directory_.path();
  Piece piece;
  piece.partition = "all";
  const std::string earlier = PieceToken("all", 5, 0);
  piece.token = PieceToken("all", 6, 0);
  for (const std::string prefix : {"pftmp_", "pftrash_"}) {
    SCOPED_TRACE(prefix);
    const fs::path folder = target.detached() / (prefix + earlier);
    ASSERT_TRUE(MakeDirectories(folder, 0750).ok());
    const auto identity = IdentityOf(folder);
    ASSERT_TRUE(identity.ok());
    piece.dev = identity->dev;
    piece.ino = identity->ino;
    const auto seen = LookForPiece(world_.context(), engine_, target, piece);
    ASSERT_TRUE(seen.ok()) << seen.status().ToString();
    EXPECT_EQ(seen->place, PiecePlace::kStaged);
    EXPECT_EQ(seen->name, prefix + earlier);
    fs::rename(folder, target.detached() / ("other_" + earlier));
    // Whatever somebody called it: it is the bound directory all the same.
    EXPECT_EQ(LookForPiece(world_.context(), engine_, target, piece)->place, PiecePlace::kSetAside);
    fs::remove(target.detached() / ("other_" + earlier));
  }
}

// A living one holds the lock of its folder, whichever state store its import has.
TEST_F(ImportUnit, ProbesOfTheDeadAreRemovedAndOfTheLivingLeft) {
  ImportTarget target;
  target.table = {"db", "t"};
  target.data_path = directory_.path();
  target.owner_uid = geteuid();
  target.owner_gid = getegid();
  const fs::path living = target.detached() / "pftmp_probe_1",
                 dead = target.detached() / "pftmp_probe_2_renamed",
                 other = target.detached() / "pftmp_all_1_1_0";
  for (const fs::path& path : {living, dead, other}) ASSERT_TRUE(MakeDirectories(path, 0750).ok());
  const auto lock = FileLock::TryTakeDirectory(living);
  ASSERT_TRUE(lock.ok());
  const Status probed = ProbeDetached(world_.context(), target);
  EXPECT_TRUE(probed.ok()) << probed.ToString();
  EXPECT_TRUE(fs::exists(living));
  EXPECT_FALSE(fs::exists(dead));
  EXPECT_TRUE(fs::exists(other));
  EXPECT_EQ(std::distance(fs::directory_iterator(target.detached()), fs::directory_iterator()), 2);
}

// "Absent" after SENT means published: what cannot be read must never look absent.
TEST_F(ImportUnit, AnErrorInALookIsNotAbsence) {
  ImportTarget target;
  target.table = {"db", "t"};
  // So long that a long name below it cannot be looked at.
  target.data_path = directory_.path();
  while (target.data_path.native().size() < 3'700) target.data_path /= std::string(100, 'x');
  target.data_path /= std::string(3'900 - target.data_path.native().size(), 'x');
  ASSERT_TRUE(MakeDirectories(target.detached(), 0750).ok());
  Piece piece;
  piece.partition = "all";
  piece.token = PieceToken("all", 5, 0);
  const auto look = [&] { return LookForPiece(world_.context(), engine_, target, piece); };

  const fs::path elsewhere = directory_ / "elsewhere";
  ASSERT_TRUE(MakeDirectories(elsewhere, 0750).ok());
  const auto identity = IdentityOf(elsewhere);
  ASSERT_TRUE(identity.ok());
  piece.dev = identity->dev;
  piece.ino = identity->ino;
  EXPECT_EQ(look()->place, PiecePlace::kAbsent);

  const std::string long_name(250, 'p');
  for (const fs::path& folder : {target.data_path, target.detached()}) {
    const auto opened = OpenFile(folder, O_RDONLY | O_DIRECTORY);
    ASSERT_TRUE(opened.ok());
    ASSERT_EQ(renameat(AT_FDCWD, elsewhere.c_str(), opened->get(), long_name.c_str()), 0);
    EXPECT_EQ(look().status().code(), Code::kUnavailable);
    ASSERT_EQ(renameat(opened->get(), long_name.c_str(), AT_FDCWD, elsewhere.c_str()), 0);
  }

  // Its list of files cannot be read: it may be ours.
  piece.files_hash = Sha256Hex("list");
  fs::rename(elsewhere, target.detached() / "ignored_1");
  EXPECT_EQ(look()->place, PiecePlace::kAbsent) << "without a list it is a part being written";
  const fs::path list = target.detached() / "ignored_1" / "checksums.txt";
  fs::create_directory(list);
  EXPECT_EQ(look().status().code(), Code::kUnavailable);
  fs::remove(list);
  ASSERT_TRUE(WriteFileDurably(list, "list").ok());
  EXPECT_EQ(look()->place, PiecePlace::kSetAside);
  fs::remove_all(target.detached());
  EXPECT_EQ(look().status().code(), Code::kUnavailable);
}

TEST_F(ImportUnit, AnEncryptedDiskIsRefused) {
  engine_.Answer("SELECT toString(serverUUID())",
                 fmt::format("u\tv\tMergeTree\t{}\tdefault\n", directory_.path().string()));
  engine_.Answer("SHOW CREATE TABLE", "CREATE TABLE db.t (a UInt8) ENGINE = MergeTree ORDER BY a");
  engine_.AnswerOnce(
      "SELECT name, path, type, is_encrypted FROM system.disks",
      "default\t/\tLocal\t0\nsecret\t" + directory_.path().string() + "\tLocal\t1\n");
  const auto refused = ReadImportTarget(world_.context(), engine_, {"db", "t"});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().explanation().pf_number, 2103);
  engine_.AnswerOnce("SELECT name, path, type, is_encrypted FROM system.disks",
                     "default\t/\tLocal\t0\n");
  const auto target = ReadImportTarget(world_.context(), engine_, {"db", "t"});
  EXPECT_TRUE(target.ok()) << target.status().ToString();
}

TEST(ImportSummary, TellsWhatEndedItBeforeWhatFailed) {
  ImportSummary summary;
  EXPECT_TRUE(StatusOf(summary).ok());
  summary.failed.push_back({"p1", "bad", 0});
  EXPECT_EQ(StatusOf(summary).explanation().pf_number, 2148);  // nothing is published: exit 1
  summary.failed[0].pf_number = 2133;
  summary.failed[0].code = Code::kCorruption;
  EXPECT_EQ(StatusOf(summary).explanation().pf_number, 2133);
  EXPECT_EQ(StatusOf(summary).code(), Code::kCorruption);
  summary.imported = 1;
  EXPECT_EQ(StatusOf(summary).explanation().pf_number, 2149);
  summary.ended_early = Status(Code::kUnavailable, "the server is away");
  EXPECT_EQ(StatusOf(summary).code(), Code::kUnavailable);
  summary.rows_in_table = 5;
  summary.rows_published = 6;
  EXPECT_EQ(StatusOf(summary).code(), Code::kCorruption);
  summary.in_doubt.push_back({"p2", "lost", 0});
  EXPECT_EQ(StatusOf(summary).code(), Code::kUnknownOutcome);
}

// retry-failed touches FAILED parts only.
TEST(ImportSummary, TellsTheRemedyThatHelpsTheArtifact) {
  ImportSummary summary;
  summary.job_id = "job-1";
  summary.failed.push_back({.part_id = "p1",
                            .message = "placed by another store",
                            .pf_number = 2134,
                            .code = Code::kRefused,
                            .what_to_do = "use the state store that knows the import"});
  EXPECT_EQ(StatusOf(summary).explanation().what_to_do,
            "use the state store that knows the import");
  summary.failed.push_back({.part_id = "p2", .message = "damaged", .code = Code::kCorruption});
  const std::string both = StatusOf(summary).explanation().what_to_do;
  EXPECT_NE(both.find("retry-failed"), std::string::npos) << both;
  EXPECT_NE(both.find("use the state store"), std::string::npos) << both;
  summary.failed.erase(summary.failed.begin());
  EXPECT_EQ(StatusOf(summary).explanation().what_to_do,
            "partforge retry-failed --job-id=job-1 --all   runs all of them again");
}

}  // namespace
}  // namespace partforge::clickhouse
