#include "job/sql_job_store_test.h"

#include <array>
#include <map>

namespace partforge::testing {
namespace {

constexpr std::array kTables = {"events",  "counters", "pieces", "objects", "locks",
                                "commits", "attempts", "tasks",  "jobs"};

TEST_P(SqlJobStoreTest, DeleteJobLeavesNoOrphanAndTouchesNoOtherJob) {
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

TEST_P(SqlJobStoreTest, DeleteJobIsRefusedWhileWorkOrACommitIsUnderWay) {
  MakeJob("working", 1);
  ClaimOne();
  EXPECT_EQ(store_->DeleteJob(ctx_, "working", {}).status().code(), Code::kRefused);
  clean_commits_ = false;
  MakeBusyJob("committing");
  EXPECT_EQ(store_->DeleteJob(ctx_, "committing", {}).status().code(), Code::kRefused);
}

TEST_P(SqlJobStoreTest, DeleteJobIsRefusedWhileACopyBorrowsFromIt) {
  MakeJob("source", 1);
  MakeJob("copy", 1, "source");
  EXPECT_EQ(store_->DeleteJob(ctx_, "source", {}).status().code(), Code::kRefused);
  ASSERT_TRUE(store_->DeleteJob(ctx_, "copy", {}).ok());
  EXPECT_TRUE(store_->DeleteJob(ctx_, "source", {}).ok());
}

TEST_P(SqlJobStoreTest, DeleteJobKeepsTheRowsWhenTheObjectsDoNotGo) {
  MakeJob("j", 2);
  const Result<int64_t> deleted = store_->DeleteJob(
      ctx_, "j", [] { return Status(Code::kUnavailable, "the store of objects is away"); });
  EXPECT_EQ(deleted.status().code(), Code::kUnavailable);
  EXPECT_EQ(RowsOf("tasks"), 2);
}

TEST_P(SqlJobStoreTest, ATaskIsNotBorrowedFromAJobThatIsNotThere) {
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

TEST_P(SqlJobStoreTest, AnOperatorsForceEndsTheWorkAndNothingElseDoes) {
  MakeJob("j", 1);
  const Lease lease = ClaimOne();
  TaskEdit reset;
  reset.id = "t0";
  reset.epoch = 1;
  EXPECT_EQ(store_->ChangeTasks(ctx_, "j", std::span(&reset, 1), {}, OpenWork::kRefuse).code(),
            Code::kConflict);
  ASSERT_TRUE(store_->ChangeTasks(ctx_, "j", std::span(&reset, 1), {}, OpenWork::kEnd).ok());
  EXPECT_EQ(store_->GetTask(ctx_, "j", "t0")->state, TaskState::kReady);
  EXPECT_EQ(Finish(lease, TaskState::kFinished).code(), Code::kLeaseLost);
  EXPECT_EQ(*store_->RepairCounters(ctx_, "j"), 0);
}

TEST_P(SqlJobStoreTest, ALeaseFromWhichATaskIsTakenEndsAsAWhole) {
  MakeJob("j", 5);
  const std::vector<Lease> leases = ClaimThreeAndOne();
  TaskEdit taken = EditTo(leases[0].tasks[1], TaskState::kReady);
  ASSERT_TRUE(store_->ChangeTasks(ctx_, "j", std::span(&taken, 1), {}, OpenWork::kEnd).ok());
  for (const Task& task : leases[0].tasks) {
    const Result<Task> now = store_->GetTask(ctx_, "j", task.id);
    EXPECT_EQ(now->state, TaskState::kReady);
    EXPECT_EQ(now->crashes, 0);
    EXPECT_EQ(now->failure_class, "");
    EXPECT_EQ(store_->Attempts(ctx_, "j", task.id)->front().state, "LOST");
  }
  EXPECT_EQ(store_->Renew(ctx_, leases[0], 60'000).code(), Code::kLeaseLost);
  EXPECT_TRUE(store_->Renew(ctx_, leases[1], 60'000).ok());  // of the same claim, and its own
  EXPECT_TRUE(Finish(leases[1], TaskState::kFinished).ok());
  EXPECT_EQ(*store_->RepairCounters(ctx_, "j"), 0);
  // Several of one lease, and a deletion.
  const std::vector<Lease> again = ClaimThreeAndOne();
  const std::vector<TaskEdit> edits = {EditTo(again[0].tasks[2], TaskState::kReady),
                                       EditTo(again[1].tasks[0], TaskState::kReady)};
  const std::vector<TaskId> gone = {again[0].tasks[0].id};
  ASSERT_TRUE(store_->ChangeTasks(ctx_, "j", edits, gone, OpenWork::kEnd).ok());
  EXPECT_EQ(store_->GetTask(ctx_, "j", again[0].tasks[1].id)->state, TaskState::kReady);
  EXPECT_EQ(*store_->RepairCounters(ctx_, "j"), 0);
}

TEST_P(SqlJobStoreTest, OnlyLeasesThatHaveRunOutAreEndedWhereThatIsAsked) {
  MakeJob("j", 4);
  const std::vector<Lease> leases = ClaimThreeAndOne();
  TaskEdit taken = EditTo(leases[0].tasks[0], TaskState::kReady);
  const auto change = [&] {
    return store_->ChangeTasks(ctx_, "j", std::span(&taken, 1), {}, OpenWork::kEndExpired);
  };
  EXPECT_EQ(change().code(), Code::kConflict);
  EXPECT_TRUE(store_->Renew(ctx_, leases[0], 60'000).ok());  // nothing of it happened
  store_->db().ShiftClockMs(61'000);
  ASSERT_TRUE(store_->Renew(ctx_, leases[1], 60'000).ok());
  ASSERT_TRUE(change().ok());
  for (const Task& task : leases[0].tasks)
    EXPECT_EQ(store_->GetTask(ctx_, "j", task.id)->state, TaskState::kReady);
  EXPECT_TRUE(store_->Renew(ctx_, leases[1], 60'000).ok());
  EXPECT_EQ(*store_->RepairCounters(ctx_, "j"), 0);
}

TEST_P(SqlJobStoreTest, DeletedTasksGoWithTheirAttemptsAndCounts) {
  MakeJob("j", 3);
  ASSERT_TRUE(Finish(ClaimOne(), TaskState::kFinished).ok());
  const Lease open = ClaimOne();
  const std::vector<TaskId> two = {"t1", "t0"};
  EXPECT_EQ(store_->ChangeTasks(ctx_, "j", {}, two, OpenWork::kRefuse).code(), Code::kConflict);
  EXPECT_EQ(RowsOf("tasks"), 3);  // all or nothing
  ASSERT_TRUE(store_->ChangeTasks(ctx_, "j", {}, two, OpenWork::kEnd).ok());
  EXPECT_EQ(RowsOf("tasks"), 1);
  EXPECT_EQ(RowsOf("attempts"), 0);
  EXPECT_EQ(Finish(open, TaskState::kFinished).code(), Code::kLeaseLost);
  EXPECT_EQ(*store_->RepairCounters(ctx_, "j"), 0);
  MakeJob("copy", 3, "j");
  const std::vector<TaskId> lent = {"t2"};
  EXPECT_EQ(store_->ChangeTasks(ctx_, "j", {}, lent, OpenWork::kEnd).code(), Code::kRefused);
}

TEST_P(SqlJobStoreTest, APublishedTaskIsNeverDeleted) {
  MakeJob("j", 1);
  ASSERT_TRUE(Finish(ClaimOne(), TaskState::kFinished).ok());
  TaskEdit published;
  published.id = "t0";
  published.epoch = 1;
  published.from = TaskState::kFinished;
  published.to = TaskState::kImported;
  ASSERT_TRUE(store_->ChangeTasks(ctx_, "j", std::span(&published, 1), {}, OpenWork::kRefuse).ok());
  const std::vector<TaskId> one = {"t0"};
  EXPECT_EQ(store_->ChangeTasks(ctx_, "j", {}, one, OpenWork::kEnd).code(), Code::kConflict);
  EXPECT_EQ(RowsOf("tasks"), 1);
}

TEST_P(SqlJobStoreTest, AnOutputIsNotDeletedWithoutWhatItWasMadeOf) {
  MakeJob("j", 2);
  const Lease lease = ClaimOne();
  ASSERT_TRUE(Finish(lease, TaskState::kFinished).ok());
  const TaskId output = lease.tasks.front().id;
  TaskEdit input;
  input.id = output == "t0" ? "t1" : "t0";
  input.from = TaskState::kReady;
  input.to = TaskState::kSuperseded;
  input.superseded_by = output;
  const Status superseded =
      store_->ChangeTasks(ctx_, "j", std::span(&input, 1), {}, OpenWork::kRefuse);
  ASSERT_TRUE(superseded.ok()) << superseded.ToString();
  const std::vector<TaskId> one = {output};
  EXPECT_EQ(store_->ChangeTasks(ctx_, "j", {}, one, OpenWork::kRefuse).code(), Code::kConflict);
  input.epoch = 1;
  input.from = TaskState::kSuperseded;
  input.to = TaskState::kReady;
  input.superseded_by = "";
  EXPECT_TRUE(store_->ChangeTasks(ctx_, "j", std::span(&input, 1), one, OpenWork::kRefuse).ok());
  EXPECT_EQ(RowsOf("tasks"), 1);
}

TEST_P(SqlJobStoreTest, CountersThatWentWrongAreRepaired) {
  MakeJob("j", 3);
  ASSERT_TRUE(Finish(ClaimOne(), TaskState::kFinished).ok());
  constexpr SqlStatement kSpoil = {
      "test_spoil", "UPDATE counters SET n = n + 5, bytes = 7 WHERE state = 'READY'"};
  ASSERT_TRUE(store_->db().RunAlone(ctx_, kSpoil, {}).ok());
  EXPECT_EQ(*store_->RepairCounters(ctx_, "j"), 1);
  EXPECT_EQ(*store_->RepairCounters(ctx_, "j"), 0);
  const Result<JobView> view = store_->View(ctx_, "j");
  ASSERT_EQ(view->counts.size(), 2u);
  for (const StateCount& count : view->counts) {
    EXPECT_EQ(count.tasks, count.state == TaskState::kReady ? 2 : 1);
    EXPECT_EQ(count.bytes, 0);
  }
}

TEST_P(SqlJobStoreTest, ABatchLearnsThatSomebodyAskedItToEnd) {
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
}  // namespace partforge::testing
