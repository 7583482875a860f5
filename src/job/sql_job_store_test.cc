#include "job/sql_job_store.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <list>
#include <map>

#include "job/state_url.h"
#include "testing/test_world.h"

namespace partforge {
namespace {

using testing::TempDir;
using testing::TestWorld;

class SqlJobStoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    StateStoreOptions options;
    options.url = "sqlite:" + (folder_ / "state.db").string();
    auto opened = OpenJobStore(ctx_, options);
    ASSERT_TRUE(opened.ok()) << opened.status().ToString();
    store_ = std::move(opened).value();
  }

  void MakeJob(const std::string& id, int tasks, const std::string& source_job = "") {
    Plan plan;
    plan.job.id = id;
    plan.job.kind = "k";
    for (int i = 0; i < tasks; ++i) {
      Task& task = plan.tasks.emplace_back();
      task.id = fmt::format("t{}", i);
      task.kind = "k";
      task.source_job = source_job;
      task.source_task = source_job.empty() ? "" : task.id;
    }
    const Result<JobId> made = store_->CreateJob(ctx_, plan);
    ASSERT_TRUE(made.ok()) << made.status().ToString();
  }

  Lease ClaimOne() {
    ClaimRequest request;
    request.worker = "w";
    request.kinds = {"k"};
    const Result<std::vector<Lease>> leases = store_->Claim(ctx_, request);
    EXPECT_TRUE(leases.ok() && leases->size() == 1);
    return leases->at(0);
  }

  Status Finish(const Lease& lease, TaskState to) {
    Settlement settlement;
    TaskEdit& edit = settlement.edits.emplace_back();
    edit.id = lease.tasks[0].id;
    edit.epoch = lease.tasks[0].epoch;
    edit.to = to;
    edit.result = TaskResult{};
    edit.result->parts_out = 1;
    edit.result->parts_peak = 1;
    return store_->Settle(ctx_, lease, settlement);
  }

  // A job with a row in every table: attempts, a cleaned commit with a piece and a thing, locks,
  // events.
  void MakeBusyJob(const std::string& id) {
    MakeJob(id, 1);
    ASSERT_TRUE(Finish(ClaimOne(), TaskState::kFinished).ok());
    Commit proposal;
    proposal.id = "c-" + id;
    proposal.job = id;
    Chosen& chosen = proposal.chosen.emplace_back();
    chosen.task = "t0";
    Piece piece;
    piece.task = "t0";
    piece.epoch = 1;
    ASSERT_TRUE(store_->Decide(ctx_, proposal, std::span(&piece, 1), {}).ok());
    Commit commit = *store_->Fence(ctx_, proposal.id, "p", 60'000);
    Actor actor;
    actor.job = id;
    actor.commit = commit.id;
    actor.epoch = commit.epoch;
    Thing thing;
    thing.kind = "dir";
    thing.name = "d";
    thing = *store_->Intend(ctx_, actor, thing);
    ASSERT_TRUE(store_->Advance(ctx_, commit, CommitState::kAborted, "{}", {}).ok());
    Thing gone = thing;
    gone.state = "GONE";
    ASSERT_TRUE(store_->SetThing(ctx_, thing, gone).ok());
    LockWish wish;
    wish.target = "t";
    wish.scope = id;
    ASSERT_TRUE(store_->Lock(ctx_, id, "run-" + id, wish).ok());
    if (clean_commits_) {
      commit.state = CommitState::kAborted;
      ASSERT_TRUE(store_->Advance(ctx_, commit, CommitState::kCleaned, "{}", {}).ok());
    }
  }

  int64_t RowsOf(std::string_view table) {
    const std::string text = fmt::format("SELECT count(*) FROM {}", table);
    const std::string name = fmt::format("test_rows_{}", table);
    const Result<SqlRows> rows =
        store_->db().RunAlone(ctx_, SqlStatement{name_pool_.emplace_back(name), text}, {});
    EXPECT_TRUE(rows.ok()) << rows.status().ToString();
    return rows.ok() ? rows->row(0).Int(0) : -1;
  }

  TempDir folder_;
  TestWorld world_;
  Context ctx_ = world_.context();
  std::list<std::string> name_pool_;
  bool clean_commits_ = true;
  std::unique_ptr<SqlJobStore> store_;
};

constexpr std::array kTables = {"events",  "counters", "pieces", "objects", "locks",
                                "commits", "attempts", "tasks",  "jobs"};

TEST_F(SqlJobStoreTest, DeleteJobLeavesNoOrphanAndTouchesNoOtherJob) {
  MakeBusyJob("keep");
  std::map<std::string, int64_t> before;
  for (const char* table : kTables) before[table] = RowsOf(table);
  MakeBusyJob("drop");
  for (const char* table : kTables) EXPECT_GT(RowsOf(table), before[table]) << table;
  int deletions = 0;
  const Result<int64_t> deleted = store_->DeleteJob(ctx_, "drop", [&deletions] {
    ++deletions;
    return Status();
  });
  ASSERT_TRUE(deleted.ok()) << deleted.status().ToString();
  EXPECT_EQ(*deleted, 1);
  EXPECT_EQ(deletions, 1);
  for (const char* table : kTables) EXPECT_EQ(RowsOf(table), before[table]) << table;
  EXPECT_EQ(store_->DeleteJob(ctx_, "drop", {}).status().code(), Code::kNotFound);
}

TEST_F(SqlJobStoreTest, DeleteJobIsRefusedWhileWorkOrACommitIsUnderWay) {
  MakeJob("working", 1);
  ClaimOne();
  EXPECT_EQ(store_->DeleteJob(ctx_, "working", {}).status().code(), Code::kRefused);
  clean_commits_ = false;
  MakeBusyJob("committing");
  EXPECT_EQ(store_->DeleteJob(ctx_, "committing", {}).status().code(), Code::kRefused);
}

TEST_F(SqlJobStoreTest, DeleteJobIsRefusedWhileACopyBorrowsFromIt) {
  MakeJob("source", 1);
  MakeJob("copy", 1, "source");
  EXPECT_EQ(store_->DeleteJob(ctx_, "source", {}).status().code(), Code::kRefused);
  ASSERT_TRUE(store_->DeleteJob(ctx_, "copy", {}).ok());
  EXPECT_TRUE(store_->DeleteJob(ctx_, "source", {}).ok());
}

TEST_F(SqlJobStoreTest, DeleteJobKeepsTheRowsWhenTheObjectsDoNotGo) {
  MakeJob("j", 2);
  const Result<int64_t> deleted = store_->DeleteJob(
      ctx_, "j", [] { return Status(Code::kUnavailable, "the store of objects is away"); });
  EXPECT_EQ(deleted.status().code(), Code::kUnavailable);
  EXPECT_EQ(RowsOf("tasks"), 2);
}

TEST_F(SqlJobStoreTest, ATaskIsNotBorrowedFromAJobThatIsNotThere) {
  Plan plan;
  plan.job.id = "copy";
  plan.job.kind = "k";
  Task& task = plan.tasks.emplace_back();
  task.id = "t";
  task.kind = "k";
  task.source_job = "nobody";
  EXPECT_EQ(store_->CreateJob(ctx_, plan).status().code(), Code::kNotFound);
  EXPECT_EQ(RowsOf("jobs"), 0);
}

TEST_F(SqlJobStoreTest, ABatchLearnsThatSomebodyAskedItToEnd) {
  MakeJob("j", 2);
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(Finish(ClaimOne(), TaskState::kCompactReady).ok());
  BatchRequest request;
  request.job = "j";
  request.worker = "c";
  request.output = "out";
  const Result<std::optional<Lease>> batch =
      store_->ClaimBatch(ctx_, request, [](const Candidates& candidates) {
        std::vector<TaskEdit> edits;
        for (const Task& task : candidates.batch) {
          TaskEdit& edit = edits.emplace_back();
          edit.id = task.id;
          edit.epoch = task.epoch;
        }
        return edits;
      });
  ASSERT_TRUE(batch.ok() && batch->has_value());
  EXPECT_FALSE(*store_->Report(ctx_, **batch, Progress{}));
  EXPECT_EQ(store_->AskFinalize(ctx_, "j", "other").code(), Code::kNotFound);
  ASSERT_TRUE(store_->AskFinalize(ctx_, "j", "out").ok());
  EXPECT_TRUE(*store_->Report(ctx_, **batch, Progress{}));
}

}  // namespace
}  // namespace partforge
