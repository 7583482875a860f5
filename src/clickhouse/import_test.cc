#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/files.h"
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

}  // namespace
}  // namespace partforge::clickhouse
