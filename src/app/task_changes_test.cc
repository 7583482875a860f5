#include "app/task_changes.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "job/migrations.h"
#include "job/sqlite_db.h"
#include "testing/test_world.h"

namespace partforge::app {
namespace {

class ChangeInTurnTest : public ::testing::Test {
 protected:
  void SetUp() override {
    SqliteOptions options;
    options.path = folder_ / "state.db";
    auto db = SqliteDb::Open(ctx_, options);
    ASSERT_TRUE(db.ok()) << db.status().ToString();
    ASSERT_TRUE(ApplyMigrations(ctx_, **db, "").ok());
    store_ = std::make_unique<SqlJobStore>(std::move(db).value());
    Plan plan;
    plan.job.id = "j";
    plan.job.kind = "k";
    for (const char* const id : {"a", "b", "c", "d"}) {
      Task& task = plan.tasks.emplace_back();
      task.id = id;
      task.kind = "k";
    }
    ASSERT_TRUE(store_->CreateJob(ctx_, plan).ok());
  }

  std::vector<Lease> Claim(int64_t leases_max, std::vector<std::vector<size_t>> groups = {}) {
    ClaimRequest request;
    request.worker = "w";
    request.kinds = {"k"};
    request.tasks_max = leases_max;
    if (!groups.empty())
      request.gathering["k"] = GatherRule{.choose = [groups](const ClaimOffer&) { return groups; }};
    auto leases = store_->Claim(ctx_, request);
    EXPECT_TRUE(leases.ok());
    return leases.ok() ? *leases : std::vector<Lease>{};
  }

  TaskState StateOf(const TaskId& id) { return store_->GetTask(ctx_, "j", id)->state; }

  static Result<bool> InProgress(const Task& task) { return task.state == TaskState::kInProgress; }

  testing::TestWorld world_;
  Context ctx_ = world_.context();
  testing::TempDir folder_;
  std::unique_ptr<SqlJobStore> store_;
};

TEST_F(ChangeInTurnTest, WhatWentBackWithItsLeaseCountsAsDone) {
  const std::vector<Lease> leases = Claim(4, {{0, 1, 2, 3}});
  ASSERT_EQ(leases.size(), 1u);
  std::vector<TaskEdit> edits;
  for (const Task& task : leases[0].tasks) edits.push_back(EditTo(task, TaskState::kReady));
  // As the second thousand of a lease sees it, once the first is done.
  ASSERT_TRUE(store_->ChangeTasks(ctx_, "j", std::span(edits).first(1), {}, OpenWork::kEnd).ok());
  const auto changed =
      ChangeInTurn(ctx_, *store_, "j", std::span(edits).subspan(1), OpenWork::kEnd, InProgress);
  ASSERT_TRUE(changed.ok()) << changed.status().ToString();
  EXPECT_EQ(changed->done.size(), 3u);
  EXPECT_TRUE(changed->left.empty());
}

TEST_F(ChangeInTurnTest, WhatMovedOnIsLeftAndTheOthersAreChanged) {
  const std::vector<Lease> leases = Claim(3);
  ASSERT_EQ(leases.size(), 3u);
  std::vector<TaskEdit> edits;
  for (const Lease& lease : leases) edits.push_back(EditTo(lease.tasks[0], TaskState::kReady));
  Settlement finish;
  finish.edits.push_back(EditTo(leases[1].tasks[0], TaskState::kFinished));
  finish.edits[0].result = TaskResult{};
  ASSERT_TRUE(store_->Settle(ctx_, leases[1], finish).ok());
  edits.emplace_back().id = "gone";
  const auto changed = ChangeInTurn(ctx_, *store_, "j", edits, OpenWork::kEnd, InProgress);
  ASSERT_TRUE(changed.ok()) << changed.status().ToString();
  EXPECT_EQ(changed->done.size(), 2u);
  EXPECT_EQ(changed->left, (std::vector<TaskId>{leases[1].tasks[0].id, "gone"}));
  EXPECT_EQ(StateOf(leases[1].tasks[0].id), TaskState::kFinished);
  EXPECT_EQ(StateOf(leases[0].tasks[0].id), TaskState::kReady);
}

// A worker that claimed the part anew has another epoch: it is taken from that one.
TEST_F(ChangeInTurnTest, WhatIsChosenStillIsChangedFromWhereItIsNow) {
  const TaskEdit old = EditTo(Claim(1).at(0).tasks[0], TaskState::kReady);
  ASSERT_TRUE(store_->ChangeTasks(ctx_, "j", std::span(&old, 1), {}, OpenWork::kEnd).ok());
  ASSERT_EQ(Claim(4).size(), 4u);
  const auto changed =
      ChangeInTurn(ctx_, *store_, "j", std::span(&old, 1), OpenWork::kEnd, InProgress);
  ASSERT_TRUE(changed.ok()) << changed.status().ToString();
  EXPECT_EQ(changed->done.size(), 1u);
  EXPECT_EQ(StateOf(old.id), TaskState::kReady);
}

// A worker that lives is not robbed by what ends expired leases only.
TEST_F(ChangeInTurnTest, ALivingLeaseIsAConflictInTheEnd) {
  const TaskEdit edit = EditTo(Claim(1).at(0).tasks[0], TaskState::kReady);
  const auto never = [](const Task&) -> Result<bool> { return false; };
  const auto changed =
      ChangeInTurn(ctx_, *store_, "j", std::span(&edit, 1), OpenWork::kEndExpired, never);
  ASSERT_TRUE(changed.ok());
  EXPECT_EQ(changed->left, std::vector<TaskId>{edit.id});
  EXPECT_EQ(ChangeInTurn(ctx_, *store_, "j", std::span(&edit, 1), OpenWork::kEndExpired, InProgress)
                .status()
                .code(),
            Code::kConflict);
  EXPECT_EQ(StateOf(edit.id), TaskState::kInProgress);
}

}  // namespace
}  // namespace partforge::app
