#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <fstream>
#include <set>
#include <string>
#include <thread>

#include "base/files.h"
#include "clickhouse/finished_job.h"
#include "clickhouse/piece_evidence.h"

// Imports of finished artifacts into a real engine.
namespace partforge::clickhouse {
namespace {

using ::testing::HasSubstr;

// What the command would end with.
Status OutcomeOf(const Result<ImportSummary>& imported) {
  return imported.ok() ? StatusOf(*imported) : imported.status();
}

void FlipByte(const std::filesystem::path& path, int64_t at) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(at);
  const int byte = file.get();
  file.seekp(at);
  file.put(static_cast<char>(byte ^ 1));
}

// check: PF-16
TEST(Import, ADestinationOfAnotherShapeIsRefusedBeforeAnythingIsFetched) {
  Finished job(1);
  const std::string others[] = {
      "(event_date Date, id UInt64, amount String) ENGINE = MergeTree PARTITION BY "
      "toYYYYMM(event_date) ORDER BY (id, event_date)",
      "(event_date Date, id UInt64, total String) ENGINE = MergeTree PARTITION BY "
      "toYYYYMM(event_date) ORDER BY (event_date, id)",
      "(event_date Date, id UInt64, amount UInt32) ENGINE = MergeTree PARTITION BY "
      "toYYYYMM(event_date) ORDER BY (event_date, id)",
      "(event_date Date, id UInt64) ENGINE = MergeTree PARTITION BY toYYYYMM(event_date) ORDER BY "
      "(event_date, id)",
      "(event_date Date, id UInt64, amount String) ENGINE = ReplacingMergeTree PARTITION BY "
      "toYYYYMM(event_date) ORDER BY (event_date, id)",
      "(event_date Date, id UInt64, amount String) ENGINE = MergeTree ORDER BY (event_date, id)"};
  // A fetch would fail for another reason.
  const auto objects = ListAll(job.rig.ctx(), job.rig.store(), "partforge/jobs/job-1/finished/");
  ASSERT_TRUE(objects.ok());
  for (const ObjectInfo& object : *objects)
    ASSERT_TRUE(job.rig.store().Delete(job.rig.ctx(), std::vector<std::string>{object.key}).ok());
  for (const std::string& other : others) {
    SCOPED_TRACE(other);
    job.rig.Run({"DROP TABLE shop2.orders_v2 SYNC", "CREATE TABLE shop2.orders_v2 " + other});
    const auto imported = job.rig.Import();
    ASSERT_FALSE(imported.ok());
    EXPECT_EQ(imported.status().code(), Code::kRefused);
    const int number = imported.status().explanation().pf_number;
    EXPECT_TRUE(number == 2121 || number == 2122) << imported.status().ToString();
    EXPECT_EQ(job.rig.Count(TaskState::kFinished), 1);
    EXPECT_EQ(job.DetachedNames(), std::set<std::string>());
  }
}

TEST(Import, PartsWithoutTtlFitATableWithOne) {
  Finished job(1);
  job.rig.Run({"ALTER TABLE shop2.orders_v2 MODIFY TTL event_date + INTERVAL 90 YEAR"});
  // The parts carry no TTL, so the table computes its own.
  const auto imported = job.rig.Import();
  ASSERT_TRUE(imported.ok()) << imported.status().ToString();
  job.ExpectAllThere();
}

TEST(Import, PartsWrittenUnderAnotherTtlAreRefused) {
  JobRig rig;
  const std::string destination = std::string(kDestination) + " TTL event_date + INTERVAL 80 YEAR";
  rig.Run({"CREATE DATABASE shop", "CREATE DATABASE shop2", kSource, destination,
           "INSERT INTO shop.orders VALUES (1, 2, '2024-01-01')"});
  ASSERT_TRUE(rig.Upload(rig.UploadRequest(destination, kInsert)).ok());
  rig.Work(rig.Settings());
  rig.Run({"ALTER TABLE shop2.orders_v2 MODIFY TTL event_date + INTERVAL 90 YEAR"});
  const auto refused = rig.Import();
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().explanation().pf_number, 2111) << refused.status().ToString();
  rig.Run({"ALTER TABLE shop2.orders_v2 MODIFY TTL event_date + toIntervalYear(80)"});
  const auto imported = rig.Import();
  ASSERT_TRUE(imported.ok()) << imported.status().ToString();
  EXPECT_EQ(imported->rows, 1);
}

TEST(Import, AConstraintThatTheRowsWereNotCheckedAgainstIsRefused) {
  JobRig rig;
  const std::string destination =
      "CREATE TABLE shop2.orders_v2 (event_date Date, id UInt64, amount String, CONSTRAINT "
      "positive CHECK id>0) ENGINE = MergeTree ORDER BY id";
  rig.Run({"CREATE DATABASE shop", "CREATE DATABASE shop2", kSource, destination,
           "INSERT INTO shop.orders VALUES (1, 2, '2024-01-01')",
           "ALTER TABLE shop2.orders_v2 ADD CONSTRAINT none CHECK id > 100"});
  ASSERT_TRUE(rig.Upload(rig.UploadRequest(destination, kInsert)).ok());
  rig.Work(rig.Settings());
  const auto refused = rig.Import();
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().explanation().pf_number, 2121) << refused.status().ToString();
  rig.Run({"ALTER TABLE shop2.orders_v2 DROP CONSTRAINT none"});
  const auto imported = rig.Import();
  ASSERT_TRUE(imported.ok()) << imported.status().ToString();
  EXPECT_EQ(imported->rows, 1);
}

TEST(Import, AFailureAtAnyStepIsMadeGoodByTheNextRun) {
  Finished job(2);
  std::set<std::string> points;
  int64_t number = 1;
  for (const char* prefix : {"clickhouse.", "publish."}) {
    for (int64_t nth = 1; nth < 100; ++nth) {
      testing::FailNth faults(nth, prefix, Code::kUnavailable);
      const Context& calm = job.rig.ctx();
      const Context ctx{calm.clock,   calm.random, faults,   calm.log,
                        calm.metrics, calm.memory, calm.stop};
      ImportRequest request = job.rig.MakeImport();
      request.artifacts_in_parallel = 1;
      const auto broken = RunImport(ctx, job.rig.state(), job.rig.server(), request);
      if (!faults.has_fired()) {
        ASSERT_TRUE(broken.ok()) << broken.status().ToString();
        job.ExpectAllThere();
        job.NextJob(++number);
        break;
      }
      SCOPED_TRACE(faults.fired_point());
      const auto later = job.ImportLater();
      ASSERT_TRUE(later.ok()) << later.status().ToString();
      ASSERT_TRUE(StatusOf(*later).ok()) << StatusOf(*later).ToString();
      job.ExpectAllThere();
      EXPECT_EQ(job.rig.Count(TaskState::kImported), 2);
      const bool is_new = points.insert(faults.fired_point()).second;
      job.NextJob(++number);
      // The second artifact passes the same points.
      if (!is_new && nth > 20) nth += 7;
    }
  }
  for (const char* point :
       {"clickhouse.piece_staged", "clickhouse.pieces_staged", "clickhouse.piece_sent",
        "clickhouse.piece_placed", "clickhouse.attach_sent", "clickhouse.piece_attached",
        "clickhouse.piece_confirmed", "clickhouse.receipt_written", "publish.decided",
        "publish.bound", "publish.published"}) {
    EXPECT_TRUE(points.contains(point)) << point;
  }
}

// check: PF-12
TEST(Import, AnAttachThatTheServerCompletedIsNotSentAgain) {
  Finished job(1);
  job.rig.faults().Set("clickhouse.attach_sent", [](int64_t hit) {
    return hit == 2 ? Status(Code::kInternal, "died") : Status();
  });
  EXPECT_FALSE(OutcomeOf(job.rig.Import()).ok());
  EXPECT_EQ(job.rig.Ask("SELECT count() FROM shop2.orders_v2"), "100");
  const auto later = job.ImportLater();
  ASSERT_TRUE(later.ok()) << later.status().ToString();
  EXPECT_TRUE(StatusOf(*later).ok()) << StatusOf(*later).ToString();
  EXPECT_EQ(job.rig.faults().hits("clickhouse.attach_sent"), 0);
  job.ExpectAllThere();
}

// check: PF-13
TEST(Import, AnInterruptedAttachIsRenamedBackAndAttachedOnce) {
  Finished job(1);
  job.rig.faults().Set("clickhouse.piece_placed",
                       [](int64_t) { return Status(Code::kInternal, "died"); });
  EXPECT_FALSE(OutcomeOf(job.rig.Import()).ok());
  const std::filesystem::path placed = job.Only("2024");
  std::filesystem::rename(placed,
                          placed.parent_path() / ("attaching_" + placed.filename().string()));
  const auto later = job.ImportLater();
  ASSERT_TRUE(later.ok()) << later.status().ToString();
  EXPECT_TRUE(StatusOf(*later).ok()) << StatusOf(*later).ToString();
  EXPECT_EQ(job.rig.faults().hits("clickhouse.attach_sent"), 2);
  job.ExpectAllThere();
}

TEST(Import, APieceThatMergesSwallowedCountsAsAttached) {
  Finished job(1);
  job.rig.faults().Set("clickhouse.attach_sent",
                       [](int64_t) { return Status(Code::kInternal, "died"); });
  EXPECT_FALSE(OutcomeOf(job.rig.Import()).ok());
  // Merged away before anybody looked: neither the name nor the inode is anywhere. The server
  // itself removes the old part after minutes.
  job.rig.Run({"SYSTEM START MERGES shop2.orders_v2", "OPTIMIZE TABLE shop2.orders_v2 FINAL"});
  const std::filesystem::path old =
      job.Detached().parent_path() /
      job.rig.Ask("SELECT name FROM system.parts WHERE database = 'shop2' AND NOT active");
  ASSERT_TRUE(old.filename().string().starts_with("202401_")) << old;
  job.rig.Run({"DETACH TABLE shop2.orders_v2 SYNC"});
  std::filesystem::remove_all(old);
  job.rig.Run({"ATTACH TABLE shop2.orders_v2"});
  const auto later = job.ImportLater();
  ASSERT_TRUE(later.ok()) << later.status().ToString();
  EXPECT_TRUE(StatusOf(*later).ok()) << StatusOf(*later).ToString();
  job.ExpectAllThere();
}

// check: PF-14
TEST(Import, ABoundDirectoryThatVanishedIsInDoubt) {
  for (const bool is_table_new : {true, false}) {
    SCOPED_TRACE(is_table_new);
    Finished job(1);
    job.rig.faults().Set("publish.bound", [](int64_t) { return Status(Code::kInternal, "died"); });
    EXPECT_FALSE(OutcomeOf(job.rig.Import()).ok());
    if (is_table_new) {
      job.rig.Run({"DROP TABLE shop2.orders_v2 SYNC", kDestination});
    } else {
      std::filesystem::remove_all(job.Only("pftmp_202401"));
    }
    for (int run = 0; run < 2; ++run) {
      const auto later = job.ImportLater();
      ASSERT_TRUE(later.ok()) << later.status().ToString();
      EXPECT_EQ(later->in_doubt.size(), 1u);
      EXPECT_EQ(StatusOf(*later).code(), Code::kUnknownOutcome);
      EXPECT_EQ(StatusOf(*later).explanation().pf_number, 2138);
      EXPECT_NE(StatusOf(*later).explanation().what_to_do.find("new job"), std::string::npos);
      EXPECT_EQ(job.rig.faults().hits("clickhouse.attach_sent"), 0);
      EXPECT_EQ(job.rig.Ask("SELECT count() FROM shop2.orders_v2"), "0");
      EXPECT_EQ(job.rig.Count(TaskState::kImporting), 1);
    }
  }
}

TEST(Import, RowsOfOneJobDoNotGoIntoTwoTables) {
  Finished job(2);
  job.rig.faults().Set("publish.bound", [](int64_t) { return Status(Code::kInternal, "died"); });
  EXPECT_FALSE(OutcomeOf(job.rig.Import()).ok());
  job.rig.faults().Clear();
  job.rig.Run({"CREATE TABLE shop2.other AS shop2.orders_v2"});
  job.rig.ShiftStoreClockMs(60'000);
  ImportRequest other = job.rig.MakeImport();
  other.table.table = "other";
  other.owner = "other";
  const auto imported = RunImport(job.rig.ctx(), job.rig.state(), job.rig.server(), other);
  ASSERT_TRUE(imported.ok()) << imported.status().ToString();
  EXPECT_EQ(imported->imported, 0);
  const Status told = StatusOf(*imported);
  EXPECT_EQ(told.code(), Code::kUnknownOutcome) << told.ToString();
  EXPECT_NE(told.explanation().what_to_do.find("--table=orders_v2"), std::string::npos)
      << told.explanation().what_to_do;
  EXPECT_EQ(job.rig.Ask("SELECT count() FROM shop2.other"), "0");
}

// check: PF-15
TEST(Import, ASecondImporterWaitsOrIsToldSo) {
  Finished job(2);
  Result<ImportSummary> impatient = Status(Code::kInternal, "not run");
  Result<ImportSummary> patient = Status(Code::kInternal, "not run");
  std::jthread waiting;
  job.rig.faults().Set("clickhouse.pieces_staged", [&](int64_t hit) {
    if (hit != 1) return Status();
    ImportRequest request = job.rig.MakeImport();
    request.owner = "impatient";
    impatient = RunImport(job.rig.ctx(), job.rig.state(), job.rig.server(), request);
    request.owner = "patient";
    request.wait_lock_ms = 60'000;
    waiting = std::jthread([&, request] {
      patient = RunImport(job.rig.ctx(), job.rig.state(), job.rig.server(), request);
    });
    SystemClock().SleepMs(500, {});
    return Status();
  });
  const auto first = job.rig.Import();
  waiting.join();
  ASSERT_TRUE(first.ok()) << first.status().ToString();
  EXPECT_EQ(first->imported, 2);
  ASSERT_FALSE(impatient.ok());
  EXPECT_EQ(impatient.status().code(), Code::kConflict);
  EXPECT_EQ(impatient.status().explanation().pf_number, 2135);
  ASSERT_TRUE(patient.ok()) << patient.status().ToString();
  EXPECT_EQ(patient->imported, 0);
  job.ExpectAllThere();
}

TEST(Import, AChangedByteInATarFailsItsRowAndStopsNoOther) {
  Finished job(2);
  const auto objects = ListAll(job.rig.ctx(), job.rig.store(), "partforge/jobs/job-1/finished/");
  ASSERT_TRUE(objects.ok() && !objects->empty());
  FlipByte(job.rig.dir() / "objects" / objects->front().key, objects->front().size_bytes / 2);
  const auto imported = job.rig.Import();
  ASSERT_TRUE(imported.ok()) << imported.status().ToString();
  EXPECT_EQ(imported->imported, 1);
  ASSERT_EQ(imported->failed.size(), 1u);
  EXPECT_EQ(StatusOf(*imported).explanation().pf_number, 2149);
  const std::vector<Task> failed = job.rig.Tasks(TaskState::kFailed);
  ASSERT_EQ(failed.size(), 1u);
  EXPECT_EQ(failed[0].failure_class, "data");
  EXPECT_EQ(job.rig.Ask("SELECT count() FROM shop2.orders_v2"), "100");
  EXPECT_EQ(job.DetachedNames(), std::set<std::string>());
}

TEST(Import, AStopTakesBackWhatIsNotBound) {
  Finished job(1);
  job.rig.faults().Set("clickhouse.piece_staged", [&](int64_t) {
    job.rig.world().RequestStop();
    return Status();
  });
  const auto stopped = job.rig.Import();
  ASSERT_FALSE(stopped.ok());
  EXPECT_EQ(stopped.status().code(), Code::kCancelled);
}

TEST(Import, RowsOfOthersForbidAnImportIntoAnEmptyTable) {
  Finished job(1);
  job.rig.Run({"INSERT INTO shop2.orders_v2 VALUES ('2024-01-01', 1, 'mine')"});
  const auto refused = job.rig.Import();
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().explanation().pf_number, 2123);
  ImportRequest request = job.rig.MakeImport();
  request.requires_empty = false;
  const auto imported = RunImport(job.rig.ctx(), job.rig.state(), job.rig.server(), request);
  ASSERT_TRUE(imported.ok()) << imported.status().ToString();
  EXPECT_EQ(job.rig.Ask("SELECT count() FROM shop2.orders_v2"), "101");
}

TEST(Import, AScratchTableChecksPartsBeforeTheyAreBound) {
  Finished job(1);
  ImportRequest request = job.rig.MakeImport();
  request.settings.checks_table = true;
  const auto imported = RunImport(job.rig.ctx(), job.rig.state(), job.rig.server(), request);
  ASSERT_TRUE(imported.ok()) << imported.status().ToString();
  EXPECT_TRUE(StatusOf(*imported).ok()) << StatusOf(*imported).ToString();
  job.ExpectAllThere();
  EXPECT_EQ(job.rig.Ask("SELECT count() FROM system.tables WHERE database = 'shop2'"), "1");
}

// chattr +a, which root may take back.
class AppendOnly {
 public:
  explicit AppendOnly(const std::filesystem::path& path) : fd_(open(path.c_str(), O_RDONLY)) {
    int flags = 0;
    is_set_ = ioctl(fd_, FS_IOC_GETFLAGS, &flags) == 0;
    flags |= FS_APPEND_FL;
    is_set_ = is_set_ && ioctl(fd_, FS_IOC_SETFLAGS, &flags) == 0;
  }
  ~AppendOnly() {
    int flags = 0;
    if (ioctl(fd_, FS_IOC_GETFLAGS, &flags) == 0) {
      flags &= ~FS_APPEND_FL;
      EXPECT_TRUE(!is_set_ || ioctl(fd_, FS_IOC_SETFLAGS, &flags) == 0);
    }
    close(fd_);
  }
  bool is_set() const { return is_set_; }

 private:
  const int fd_;
  bool is_set_ = false;
};

// The directory may not be written, or its files not be given away, or nothing be renamed in it.
class Unprivileged {
 public:
  explicit Unprivileged(uid_t uid) { EXPECT_EQ(seteuid(uid), 0); }
  ~Unprivileged() { EXPECT_EQ(seteuid(0), 0); }
};

// check: PF-53
TEST(Import, ADetachedFolderThatCannotBeUsedIsRefusedBeforeAnyDecision) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root: it takes the part of other users";
  constexpr uid_t kNobody = 65'534;
  Finished job(1);
  const std::filesystem::path detached = job.Detached();
  const auto expect_refused = [&](const Result<ImportSummary>& refused, std::string_view owner) {
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.status().code(), Code::kRefused) << refused.status().ToString();
    EXPECT_EQ(refused.status().explanation().pf_number, 2124);
    EXPECT_EQ(refused.status().explanation().where, detached.string());
    EXPECT_THAT(refused.status().explanation().what_to_do, HasSubstr(owner));
    EXPECT_EQ(job.rig.faults().hits("publish.decided"), 0);
    EXPECT_EQ(job.rig.Count(TaskState::kFinished), 1);
    EXPECT_EQ(job.DetachedNames(), std::set<std::string>());
  };
  // Everything else stays open to the other user.
  std::vector<std::filesystem::path> opened;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(job.rig.dir().path()))
    opened.push_back(entry.path());
  opened.push_back(job.rig.dir().path());
  for (const auto& path : opened) std::filesystem::permissions(path, std::filesystem::perms::all);
  {
    SCOPED_TRACE("not writable");
    std::filesystem::permissions(detached, static_cast<std::filesystem::perms>(0755));
    Result<ImportSummary> refused = Status(Code::kInternal, "not run");
    {
      const Unprivileged nobody(kNobody);
      refused = job.rig.Import();
    }
    expect_refused(refused, "0:0");
  }
  {
    SCOPED_TRACE("owner cannot be set");
    std::filesystem::permissions(detached, std::filesystem::perms::all);
    Result<ImportSummary> refused = Status(Code::kInternal, "not run");
    {
      const Unprivileged nobody(kNobody);
      refused = job.rig.Import();
    }
    expect_refused(refused, "0:0");
  }
  {
    SCOPED_TRACE("nothing can be renamed");
    // An append-only folder takes new files and neither renames nor removes any.
    const AppendOnly fixed(detached);
    if (!fixed.is_set()) {
      GTEST_SKIP() << "this file system knows no append-only folders";
    }
    const auto refused = job.rig.Import();
    EXPECT_EQ(refused.status().explanation().pf_number, 2124) << refused.status().ToString();
    EXPECT_EQ(job.rig.faults().hits("publish.decided"), 0);
  }
}

}  // namespace
}  // namespace partforge::clickhouse
