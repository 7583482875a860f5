#include "clickhouse/leftovers.h"

#include <gtest/gtest.h>

#include <limits>
#include <set>

#include "clickhouse/rewrite_job.h"
#include "testing/memory_job_store.h"
#include "testing/memory_store.h"
#include "testing/moving_reader.h"
#include "testing/test_world.h"

namespace partforge::clickhouse {
namespace {

class LeftoversTest : public ::testing::Test {
 protected:
  LeftoversTest() : ctx_(world_.context()), state_(ctx_.clock) {
    Plan plan;
    plan.job.id = "job-1";
    plan.job.kind = kRewriteKind;
    plan.job.publish = PublishMode::kCommand;
    RewriteJobSpec spec;
    spec.prefix = "partforge";
    plan.job.spec = spec.ToJson();
    EXPECT_TRUE(state_.CreateJob(ctx_, plan).ok());
  }

  void AddTask(const std::string& id) {
    Task task;
    task.id = id;
    task.job = "job-1";
    task.kind = kRewriteKind;
    task.size_bytes = 10;
    task.payload = RewriteTaskSpec{}.ToJson();
    const Status added = state_.AddTasks(ctx_, "job-1", std::span(&task, 1));
    EXPECT_TRUE(added.ok()) << added.ToString();
  }
  Lease Claim() {
    ClaimRequest request;
    request.worker = "w";
    request.kinds = {std::string(kRewriteKind)};
    const auto leases = state_.Claim(ctx_, request);
    EXPECT_TRUE(leases.ok() && leases->size() == 1);
    return leases->at(0);
  }
  void Settle(const Lease& lease, TaskState to) {
    Settlement settlement;
    TaskEdit& edit = settlement.edits.emplace_back();
    edit.id = lease.tasks[0].id;
    edit.from = TaskState::kInProgress;
    edit.epoch = lease.tasks[0].epoch;
    edit.to = to;
    if (to == TaskState::kFinished) edit.result = TaskResult{};
    const Status settled = state_.Settle(ctx_, lease, settlement);
    EXPECT_TRUE(settled.ok()) << settled.ToString();
  }
  void Put(const std::string& key) { EXPECT_TRUE(WriteObject(ctx_, store_, key, "x").ok()); }
  std::set<std::string> Find(int64_t before_ms = std::numeric_limits<int64_t>::max()) {
    const auto leftovers = FindLeftovers(ctx_, state_, store_, "job-1", before_ms);
    EXPECT_TRUE(leftovers.ok()) << leftovers.status().ToString();
    std::set<std::string> keys;
    for (const Leftover& leftover : *leftovers) keys.insert(leftover.key);
    return keys;
  }

  testing::TestWorld world_;
  Context ctx_;
  testing::MemoryJobStore state_;
  testing::MemoryStore store_;
};

TEST_F(LeftoversTest, OnlyAttemptsThatNoRowNamesAreLeftovers) {
  const std::string root = "partforge/jobs/job-1/";
  AddTask("part-a");
  Settle(Claim(), TaskState::kReady);     // part-a.1 was handed back
  Settle(Claim(), TaskState::kFinished);  // part-a.2 stands
  AddTask("part-b");
  const Lease running = Claim();  // part-b.1 is under way
  for (const char* key : {"finished/part-a.1/all_1_1_0.tar", "finished/part-a.2/all_1_1_0.tar",
                          "finished/part-b.1/all_2_2_0.tar", "finished/part-c.1/all_3_3_0.tar",
                          "finished/part-a/all_1_1_0.tar", "meta/part-a.1.json",
                          "meta/part-a.2.json", "meta/part-b.1.json", "chunks/part-a.1/0/meta.json",
                          "source/part-z/data.bin", "imported/part-a.json"}) {
    Put(root + key);
  }
  EXPECT_EQ(Find(),
            (std::set<std::string>{
                root + "finished/part-a.1/all_1_1_0.tar", root + "finished/part-c.1/all_3_3_0.tar",
                root + "meta/part-a.1.json", root + "chunks/part-a.1/0/meta.json"}));
  EXPECT_EQ(Find(0), std::set<std::string>());
}

// The objects of several parts that were rewritten together lie under the name of one of their
// attempts, before and after the output has a row of its own.
TEST_F(LeftoversTest, AnOutputOfSeveralKeepsWhatLiesUnderTheNameOfAnInput) {
  const std::string root = "partforge/jobs/job-1/";
  AddTask("part-a");
  AddTask("part-b");
  ClaimRequest request;
  request.worker = "w";
  request.kinds = {std::string(kRewriteKind)};
  request.gathering[std::string(kRewriteKind)] =
      GatherRule{.task_bytes_max = 100, .choose = [](const ClaimOffer&) {
                   return std::vector<std::vector<size_t>>{{0, 1}};
                 }};
  const auto leases = state_.Claim(ctx_, request);
  ASSERT_TRUE(leases.ok() && leases->size() == 1);
  const Lease& lease = leases->front();
  const std::string kept = root + "finished/" + lease.tasks[0].id + ".1/all_1_1_0.tar";
  const std::string kept_meta = root + "meta/" + lease.tasks[0].id + ".1.json";
  for (const std::string& key : {kept, kept_meta, root + "finished/part-b.7/all_1_1_0.tar"})
    Put(key);
  EXPECT_EQ(Find(), (std::set<std::string>{root + "finished/part-b.7/all_1_1_0.tar"}));
  Settlement settlement;
  for (const Task& task : lease.tasks) {
    TaskEdit& edit = settlement.edits.emplace_back();
    edit.id = task.id;
    edit.epoch = task.epoch;
    edit.to = TaskState::kSuperseded;
    edit.superseded_by = "compact-1";
  }
  Task& output = settlement.added.emplace_back();
  output.id = "compact-1";
  output.kind = kRewriteKind;
  output.state = TaskState::kFinished;
  output.generation = 1;
  RewriteOutput result;
  result.finished_key = kept.substr(0, kept.rfind('/'));
  result.meta_key = kept_meta;
  settlement.added_results.emplace_back().outputs = result.ToJson();
  ASSERT_TRUE(state_.Settle(ctx_, lease, settlement).ok());
  EXPECT_EQ(Find(), (std::set<std::string>{root + "finished/part-b.7/all_1_1_0.tar"}));
}

// It goes IMPORTING → FINISHED while the states are read one after the other: on no page at all.
TEST_F(LeftoversTest, ATaskThatMovesWhileItIsReadKeepsItsArtifact) {
  AddTask("part-a");
  Settle(Claim(), TaskState::kFinished);
  Put("partforge/jobs/job-1/finished/part-a.1/all_1_1_0.tar");
  Put("partforge/jobs/job-1/meta/part-a.1.json");
  testing::MovingReader moving(state_);
  for (const int64_t pages : {9, 18}) {
    moving.Hide("part-a", pages);
    const auto leftovers =
        FindLeftovers(ctx_, moving, store_, "job-1", std::numeric_limits<int64_t>::max());
    ASSERT_TRUE(leftovers.ok()) << leftovers.status().ToString();
    EXPECT_TRUE(leftovers->empty()) << leftovers->at(0).key;
  }
}

TEST_F(LeftoversTest, DeletesExactlyThoseAndNothingOfAnotherJob) {
  Put("partforge/jobs/job-1/finished/part-x.1/all_1_1_0.tar");
  Put("partforge/jobs/job-1/source/part-x/data.bin");
  const auto found =
      FindLeftovers(ctx_, state_, store_, "job-1", std::numeric_limits<int64_t>::max());
  ASSERT_TRUE(found.ok());
  const Status deleted = DeleteLeftovers(ctx_, store_, "forge", "job-1", *found);
  EXPECT_TRUE(deleted.ok()) << deleted.ToString();
  EXPECT_EQ(Find(), std::set<std::string>());
  EXPECT_TRUE(store_.Stat(ctx_, "partforge/jobs/job-1/source/part-x/data.bin").ok());
  const Status foreign = DeleteLeftovers(
      ctx_, store_, "forge", "job-1", {Leftover{.key = "partforge/jobs/job-2/finished/p.1/x.tar"}});
  EXPECT_EQ(foreign.code(), Code::kRefused);
  EXPECT_EQ(foreign.explanation().pf_number, 8006);
}

}  // namespace
}  // namespace partforge::clickhouse
