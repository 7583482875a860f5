#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <list>
#include <string>

#include "job/sql_job_store.h"
#include "testing/job_store_contract.h"

namespace partforge::testing {

// What SqlJobStore can do beyond JobStore, on both databases; each test program instantiates it for
// its own.
class SqlJobStoreTest : public ::testing::TestWithParam<NamedStore> {
 protected:
  void SetUp() override {
    under_test_ = GetParam().make(ctx_);
    if (under_test_.store == nullptr) GTEST_SKIP() << "this store cannot be had here";
    store_ = static_cast<SqlJobStore*>(under_test_.store.get());
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
    return leases.value().at(0);
  }

  // Three tasks as one lease, then one alone, of one claim.
  std::vector<Lease> ClaimThreeAndOne() {
    ClaimRequest request;
    request.worker = "w";
    request.kinds = {"k"};
    request.gathering["k"] = GatherRule{.task_bytes_max = 9, .choose = [](const ClaimOffer&) {
                                          return std::vector<std::vector<size_t>>{{0, 1, 2}, {3}};
                                        }};
    const Result<std::vector<Lease>> leases = store_->Claim(ctx_, request);
    EXPECT_TRUE(leases.ok() && leases->size() == 2);
    return leases.value();
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

  TestWorld world_;
  Context ctx_ = world_.context();
  std::list<std::string> name_pool_;
  bool clean_commits_ = true;
  StoreUnderTest under_test_;
  SqlJobStore* store_ = nullptr;
};

}  // namespace partforge::testing
