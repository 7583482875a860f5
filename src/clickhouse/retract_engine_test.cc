#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "base/files.h"
#include "clickhouse/finished_job.h"

// Artifacts that the server refuses, and importers that wake up while they are taken back.
namespace partforge::clickhouse {
namespace {

using ::testing::HasSubstr;

// The first or second piece of an artifact becomes one that no server attaches: a file is cut off
// after it was verified. Given back by Repair.
class BrokenPiece {
 public:
  explicit BrokenPiece(const std::filesystem::path& part) {
    for (const auto& entry : std::filesystem::directory_iterator(part)) {
      const std::string name = entry.path().filename();
      if (name == "data.bin" || name == "id.bin") name_ = name;
    }
    EXPECT_FALSE(name_.empty());
    std::ifstream file(part / name_, std::ios::binary);
    content_.assign(std::istreambuf_iterator<char>(file), {});
    std::filesystem::resize_file(part / name_, 1);
  }
  void Repair(const std::filesystem::path& part) const {
    std::ofstream(part / name_, std::ios::binary | std::ios::trunc) << content_;
  }

 private:
  std::string name_, content_;
};

// What an importer that stalled before its last two steps does when it wakes up.
void WakeUp(Finished& job, const std::string& token) {
  const std::filesystem::path detached = job.Detached();
  (void)RenameNoReplace(detached / ("pftmp_" + token), detached / token);
  (void)job.rig.Ask(fmt::format("ALTER TABLE shop2.orders_v2 ATTACH PART '{}'", token));
}

std::string TokenOf(Finished& job, const std::string& partition) {
  return job.Only("pftmp_" + partition).filename().string().substr(6);
}

// check: PF-57
TEST(Retract, ARefusedArtifactIsTakenBackWholeAndTheOthersArePublished) {
  // Without a second importer, and with one that wakes up at each step of the retract.
  const char* const steps[] = {"",
                               "clickhouse.attach_sent",
                               "clickhouse.retract_bound",
                               "clickhouse.piece_trashed",
                               "publish.retracted",
                               "publish.aborted"};
  for (const char* step : steps) {
    SCOPED_TRACE(step);
    Finished job(2);
    ImportRequest request = job.rig.MakeImport();
    request.artifacts_in_parallel = 1;
    std::string token;
    job.rig.faults().Set("publish.bound", [&](int64_t hit) {
      if (hit != 1) return Status();
      token = TokenOf(job, "202401");
      const BrokenPiece broken(job.Detached() / ("pftmp_" + token));
      return Status();
    });
    if (*step != '\0') {
      job.rig.faults().Set(step, [&](int64_t) {
        if (!token.empty()) WakeUp(job, token);
        return Status();
      });
    }
    const auto imported = RunImport(job.rig.ctx(), job.rig.state(), job.rig.server(), request);
    ASSERT_TRUE(imported.ok()) << imported.status().ToString();
    EXPECT_EQ(imported->imported, 1);
    ASSERT_EQ(imported->failed.size(), 1u);
    EXPECT_THAT(imported->failed[0].message, HasSubstr("Code: "));
    EXPECT_EQ(StatusOf(*imported).explanation().pf_number, 2149);  // exit 4
    EXPECT_EQ(job.rig.Count(TaskState::kFailed), 1);
    EXPECT_EQ(job.rig.Count(TaskState::kImported), 1);
    EXPECT_EQ(job.rig.Ask("SELECT count(), uniqExact(id) FROM shop2.orders_v2"), "100\t100");
    EXPECT_EQ(job.DetachedNames(), std::set<std::string>());
  }
}

TEST(Retract, AnImporterThatDiedInARetractIsSucceededByOneThatOnlyRetracts) {
  for (const char* step : {"clickhouse.retract_bound", "clickhouse.piece_trashed",
                           "publish.retracted", "publish.aborted"}) {
    SCOPED_TRACE(step);
    Finished job(1);
    job.rig.faults().Set("publish.bound", [&](int64_t) {
      const BrokenPiece broken(job.Only("pftmp_202401"));
      return Status();
    });
    job.rig.faults().Set(step, [](int64_t) { return Status(Code::kUnavailable, "died"); });
    (void)job.rig.Import();
    job.rig.faults().Clear();
    job.rig.ShiftStoreClockMs(60'000);
    ImportRequest request = job.rig.MakeImport();
    request.owner = "second";
    request.is_partial_allowed = true;
    const auto later = RunImport(job.rig.ctx(), job.rig.state(), job.rig.server(), request);
    ASSERT_TRUE(later.ok()) << later.status().ToString();
    EXPECT_EQ(job.rig.Count(TaskState::kFailed), 1);
    EXPECT_EQ(job.rig.Ask("SELECT count() FROM shop2.orders_v2"), "0");
    EXPECT_EQ(job.DetachedNames(), std::set<std::string>());
  }
}

TEST(Retract, APieceThatAStalledImporterAttachesMeanwhileRollsTheArtifactForward) {
  Finished job(1);
  std::string token;
  std::unique_ptr<BrokenPiece> broken;
  job.rig.faults().Set("publish.bound", [&](int64_t) {
    token = TokenOf(job, "202401");
    broken = std::make_unique<BrokenPiece>(job.Detached() / ("pftmp_" + token));
    return Status();
  });
  job.rig.faults().Set("clickhouse.retract_bound", [&](int64_t) {
    // What the server refused, it takes now.
    broken->Repair(job.Only(token));
    WakeUp(job, token);
    return Status();
  });
  const auto imported = job.rig.Import();
  ASSERT_TRUE(imported.ok()) << imported.status().ToString();
  EXPECT_TRUE(StatusOf(*imported).ok()) << StatusOf(*imported).ToString();
  EXPECT_EQ(job.rig.faults().hits("clickhouse.retract_undone"), 1);
  EXPECT_EQ(job.rig.Count(TaskState::kImported), 1);
  job.ExpectAllThere();
}

TEST(Retract, APieceThatWasMovedAsideIsFoundByItsIdentity) {
  Finished job(1);
  job.rig.faults().Set("clickhouse.piece_placed",
                       [](int64_t) { return Status(Code::kUnavailable, "died"); });
  EXPECT_FALSE(job.rig.Import().ok());
  std::filesystem::rename(job.Only("202401"), job.Detached() / "ignored_202401_1_1_0");
  const auto later = job.ImportLater();
  ASSERT_TRUE(later.ok()) << later.status().ToString();
  EXPECT_TRUE(StatusOf(*later).ok()) << StatusOf(*later).ToString();
  job.ExpectAllThere();
}

TEST(Retract, APieceRefusedAfterAnotherWasAttachedIsInDoubt) {
  Finished job(1);
  job.rig.faults().Set("publish.bound", [&](int64_t) {
    const BrokenPiece broken(job.Only("pftmp_202402"));
    return Status();
  });
  const auto imported = job.rig.Import();
  ASSERT_TRUE(imported.ok()) << imported.status().ToString();
  EXPECT_EQ(imported->in_doubt.size(), 1u);
  EXPECT_EQ(StatusOf(*imported).explanation().pf_number, 2138);
  EXPECT_EQ(job.rig.Count(TaskState::kImporting), 1);
}

TEST(Retract, AScratchTableFindsARefusedPieceBeforeAnyIsAttached) {
  Finished job(1);
  int64_t staged = 0;
  job.rig.faults().Set("clickhouse.piece_staged", [&](int64_t) {
    if (++staged == 2) const BrokenPiece broken(job.Only("pftmp_202402"));
    return Status();
  });
  ImportRequest request = job.rig.MakeImport();
  request.settings.checks_table = true;
  request.settings.files_in_parallel = 1;
  const auto imported = RunImport(job.rig.ctx(), job.rig.state(), job.rig.server(), request);
  ASSERT_TRUE(imported.ok()) << imported.status().ToString();
  EXPECT_EQ(imported->failed.size(), 1u);
  EXPECT_EQ(job.rig.Count(TaskState::kFailed), 1);
  EXPECT_EQ(job.rig.Ask("SELECT count() FROM shop2.orders_v2"), "0");
  EXPECT_EQ(job.DetachedNames(), std::set<std::string>());
}

}  // namespace
}  // namespace partforge::clickhouse
