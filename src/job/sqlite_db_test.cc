#include "job/sqlite_db.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <thread>

#include "job/migrations.h"
#include "job/sql_job_store.h"
#include "job/sql_statements.h"
#include "testing/test_world.h"

namespace partforge {
namespace {

using testing::FailNth;
using testing::SimClock;
using testing::TempDir;
using testing::TestWorld;

class SqliteDbTest : public ::testing::Test {
 protected:
  std::unique_ptr<SqliteDb> Open(int64_t busy_timeout_ms = 10'000) {
    SqliteOptions options;
    options.path = folder_ / "sub" / "state.db";
    options.busy_timeout_ms = busy_timeout_ms;
    Result<std::unique_ptr<SqliteDb>> db = SqliteDb::Open(ctx_, options);
    EXPECT_TRUE(db.ok()) << db.status().ToString();
    EXPECT_TRUE(ApplyMigrations(ctx_, **db, "").ok());
    return std::move(db).value();
  }

  TempDir folder_;
  TestWorld world_;
  Context ctx_ = world_.context();
};

constexpr SqlStatement kPutMeta = {"test_put_meta", "INSERT INTO meta (k, v) VALUES (:k, :v)"};
constexpr SqlStatement kGetMeta = {"test_get_meta", "SELECT v FROM meta WHERE k = :k"};
constexpr SqlStatement kPragma = {"test_pragma", "PRAGMA synchronous"};
constexpr SqlStatement kJournal = {"test_journal", "PRAGMA journal_mode"};

TEST_F(SqliteDbTest, WritesAreFlushedAndLoggedAhead) {
  const auto db = Open();
  EXPECT_EQ(db->RunAlone(ctx_, kPragma, {})->row(0).Text(0), "2");  // FULL
  EXPECT_EQ(db->RunAlone(ctx_, kJournal, {})->row(0).Text(0), "wal");
}

TEST_F(SqliteDbTest, AFreshStoreIsOfItsUserAlone) {
  const auto db = Open();
  const auto mode = [&](const char* name) {
    return static_cast<unsigned>(std::filesystem::status(folder_ / "sub" / name).permissions());
  };
  EXPECT_EQ(mode("."), 0700u);
  EXPECT_EQ(mode("state.db"), 0600u);
  EXPECT_EQ(mode("state.db-wal"), 0600u);
}

TEST_F(SqliteDbTest, AFailedBodyLeavesNothing) {
  const auto db = Open();
  const Status status = db->Write(ctx_, [](SqlSession& session) -> Status {
    PF_TRY(session.Run(kPutMeta, {{"k", "a"}, {"v", "1"}}));
    return Status(Code::kConflict, "no");
  });
  EXPECT_EQ(status.code(), Code::kConflict);
  EXPECT_TRUE(db->RunAlone(ctx_, kGetMeta, {{"k", "a"}})->empty());
}

TEST_F(SqliteDbTest, AUniqueIndexAnswersAlreadyExists) {
  const auto db = Open();
  ASSERT_TRUE(db->RunAlone(ctx_, kPutMeta, {{"k", "a"}, {"v", "1"}}).ok());
  const Result<SqlRows> again = db->RunAlone(ctx_, kPutMeta, {{"k", "a"}, {"v", "2"}});
  ASSERT_FALSE(again.ok());
  EXPECT_EQ(again.status().code(), Code::kAlreadyExists);
}

TEST_F(SqliteDbTest, TheStoresClockIsTheContextsAndCanBeMoved) {
  SimClock clock(1'000);
  world_.UseClock(clock);
  const Context ctx = world_.context();
  const auto db = Open();
  EXPECT_EQ(db->RunAlone(ctx, statements::kNow, {})->row(0).Int(0), 1'000);
  clock.Advance(5);
  db->ShiftClockMs(100);
  EXPECT_EQ(db->RunAlone(ctx, statements::kNow, {})->row(0).Int(0), 1'105);
}

TEST_F(SqliteDbTest, AReaderSeesOneSnapshotWhileAWriterWrites) {
  const auto db = Open();
  ASSERT_TRUE(db->RunAlone(ctx_, kPutMeta, {{"k", "a"}, {"v", "1"}}).ok());
  const Status status = db->Read(ctx_, [&](SqlSession& session) -> Status {
    PF_ASSIGN(const SqlRows before, session.Run(kGetMeta, {{"k", "b"}}));
    EXPECT_TRUE(before.empty());
    EXPECT_TRUE(db->RunAlone(ctx_, kPutMeta, {{"k", "b"}, {"v", "1"}}).ok());
    PF_ASSIGN(const SqlRows after, session.Run(kGetMeta, {{"k", "b"}}));
    EXPECT_TRUE(after.empty());
    return {};
  });
  EXPECT_TRUE(status.ok()) << status.ToString();
  EXPECT_EQ(db->RunAlone(ctx_, kGetMeta, {{"k", "b"}})->size(), 1u);
}

TEST_F(SqliteDbTest, AWriterThatWaitsTooLongIsUnavailable) {
  const auto first = Open();
  const auto second = Open(/*busy_timeout_ms=*/1);
  const Status outer = first->Write(ctx_, [&](SqlSession&) -> Status {
    const Status inner = second->Write(ctx_, [](SqlSession&) { return Status(); });
    EXPECT_FALSE(inner.ok());
    EXPECT_EQ(inner.code(), Code::kUnavailable);
    return {};
  });
  EXPECT_TRUE(outer.ok());
}

TEST_F(SqliteDbTest, ALostAnswerLeavesTheEffect) {
  const auto db = Open();
  FailNth lost(1, "job.sqlite_committed", Code::kUnknownOutcome);
  world_.UseFaults(lost);
  const Result<SqlRows> put = db->RunAlone(world_.context(), kPutMeta, {{"k", "a"}, {"v", "1"}});
  EXPECT_FALSE(put.ok());
  EXPECT_EQ(db->RunAlone(ctx_, kGetMeta, {{"k", "a"}})->size(), 1u);
}

// Draws the same number a few times, then goes on.
class StubbornRandom final : public Random {
 public:
  uint64_t Next() override { return ++calls_ <= 8 ? 12345 : 12345 + calls_; }

 private:
  uint64_t calls_ = 0;  // only one thread draws
};

TEST_F(SqliteDbTest, ASerialDrawnTwiceIsDrawnAgain) {
  SqlJobStore store(Open());
  StubbornRandom random;
  Context ctx = {ctx_.clock, random, ctx_.faults, ctx_.log, ctx_.metrics, ctx_.memory, ctx_.stop};
  Plan plan;
  plan.job.id = "j";
  plan.job.kind = "k";
  for (int i = 0; i < 3; ++i) {
    Task& task = plan.tasks.emplace_back();
    task.id = fmt::format("t{}", i);
    task.kind = "k";
  }
  ASSERT_TRUE(store.CreateJob(ctx, plan).ok());
  ClaimRequest request;
  request.worker = "w";
  request.kinds = {"k"};
  for (int i = 0; i < 3; ++i) {
    const Result<std::vector<Lease>> leases = store.Claim(ctx, request);
    ASSERT_TRUE(leases.ok()) << leases.status().ToString();
    EXPECT_EQ(leases->size(), 1u);
  }
}

TEST_F(SqliteDbTest, AClaimWalksItsIndexInOrder) {
  const auto db = Open();
  const std::string text = "EXPLAIN QUERY PLAN " + std::string(statements::kClaim.text);
  const SqlStatement explain = {"test_explain_claim", text};
  const Result<SqlRows> plan =
      db->RunAlone(ctx_, explain, {{"job", "j"}, {"kind", "k"}, {"size_max", 1}, {"limit", 1}});
  ASSERT_TRUE(plan.ok()) << plan.status().ToString();
  std::string lines;
  for (size_t i = 0; i < plan->size(); ++i) lines += plan->row(i).String(3) + "\n";
  EXPECT_NE(lines.find("INDEX tasks_claim"), std::string::npos) << lines;
  EXPECT_EQ(lines.find("TEMP B-TREE"), std::string::npos) << lines;
}

}  // namespace
}  // namespace partforge
