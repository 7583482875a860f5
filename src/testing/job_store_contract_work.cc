#include <fmt/format.h>

#include <set>

#include "testing/job_store_contract.h"

// Laws of jobs, claims, leases and settlements.
namespace partforge::testing {
namespace {

Plan PlanOf(const std::string& id, const std::string& key, const std::string& spec) {
  Plan plan;
  plan.job.id = id;
  plan.job.kind = "test.copy";
  plan.job.key = key;
  plan.job.spec = spec;
  return plan;
}

Task TaskOf(const std::string& id, int64_t size_bytes) {
  Task task;
  task.id = id;
  task.kind = "test.copy";
  task.size_bytes = size_bytes;
  return task;
}

NamedClaim LoadAttempt(const std::string& task, const std::string& label) {
  NamedClaim claim;
  claim.job = "j";
  claim.task = task;
  claim.label = label;
  claim.worker = "writer-" + label;
  return claim;
}

TEST_P(JobStoreContract, TheSameKeyAndRequestIsTheSameJob) {
  EXPECT_EQ(*store().CreateJob(ctx(), PlanOf("j1", "k", R"({"a":1})")), "j1");
  EXPECT_EQ(*store().CreateJob(ctx(), PlanOf("j2", "k", R"({"a":1})")), "j1");
  EXPECT_EQ(store().ListJobs(ctx())->size(), 1u);
}

TEST_P(JobStoreContract, TheSameKeyWithAnotherRequestIsAConflict) {
  ASSERT_EQ(CodeOf(store().CreateJob(ctx(), PlanOf("j1", "k", R"({"a":1})"))), "OK");
  EXPECT_EQ(CodeOf(store().CreateJob(ctx(), PlanOf("j2", "k", R"({"a":2})"))), "conflict");
  EXPECT_EQ(CodeOf(store().CreateJob(ctx(), PlanOf("j1", "other", R"({"a":1})"))), "conflict");
}

TEST_P(JobStoreContract, ATaskComesBackAsItWasPlanned) {
  MakeOpenJob("j", {});
  Task planned = TaskOf("t", 7);
  planned.number = 3;
  planned.group_key = "p=1/bucket-0";
  planned.payload = R"({"files":["a","ü"],"n":9007199254740993})";
  ASSERT_EQ(CodeOf(store().AddTasks(ctx(), "j", std::span(&planned, 1))), "OK");
  const Task found = Get("j", "t");
  EXPECT_EQ(found.job, "j");
  EXPECT_EQ(found.kind, "test.copy");
  EXPECT_EQ(found.number, 3);
  EXPECT_EQ(found.size_bytes, 7);
  EXPECT_EQ(found.group_key, "p=1/bucket-0");
  EXPECT_EQ(found.payload, planned.payload);
  EXPECT_EQ(found.state, TaskState::kReady);
  EXPECT_EQ(found.epoch, 0u);
  EXPECT_GT(found.created_at_ms, 0);
}

TEST_P(JobStoreContract, AddingATaskAgainIsFineAndACollisionIsNot) {
  MakeOpenJob("j", {});
  const std::vector<Task> tasks = {TaskOf("b", 2), TaskOf("a", 1)};
  ASSERT_EQ(CodeOf(store().AddTasks(ctx(), "j", tasks)), "OK");
  EXPECT_EQ(CodeOf(store().AddTasks(ctx(), "j", tasks)), "OK");
  EXPECT_EQ(CountOf("j", TaskState::kReady), 2);
  const std::vector<Task> other = {TaskOf("c", 3), TaskOf("a", 9)};
  EXPECT_EQ(CodeOf(store().AddTasks(ctx(), "j", other)), "corruption");
  EXPECT_EQ(CodeOf(store().GetTask(ctx(), "j", "c")), "not_found");  // all or nothing
  EXPECT_EQ(CodeOf(store().AddTasks(ctx(), "nobody", tasks)), "not_found");
}

TEST_P(JobStoreContract, SealCountsTheTasksAndClosesTheJob) {
  MakeOpenJob("j", {1, 2});
  EXPECT_EQ(CodeOf(store().Seal(ctx(), "j", 3)), "conflict");
  EXPECT_EQ(CodeOf(store().Seal(ctx(), "j", 2)), "OK");
  EXPECT_EQ(CodeOf(store().Seal(ctx(), "j", 2)), "OK");
  EXPECT_EQ(CodeOf(store().Seal(ctx(), "j", 1)), "conflict");
  const std::vector<Task> late = {TaskOf("late", 1)};
  EXPECT_EQ(CodeOf(store().AddTasks(ctx(), "j", late)), "conflict");
  const Result<JobView> view = store().View(ctx(), "j");
  ASSERT_EQ(CodeOf(view), "OK");
  EXPECT_EQ(view->state, "SEALED");
  EXPECT_EQ(view->tasks_expected, 2);
}

TEST_P(JobStoreContract, ClaimsGoLargestFirstOverAllJobs) {
  MakeJob("j1", {10, 30});
  MakeJob("j2", {20, 40});
  for (const int64_t size_bytes : {40, 30, 20, 10}) {
    EXPECT_EQ(ClaimOne().tasks[0].size_bytes, size_bytes);
  }
  EXPECT_TRUE(ClaimMany("w1", 1).empty());
}

TEST_P(JobStoreContract, AClaimGrantsOneLeaseATask) {
  MakeJob("j", {1, 2, 3});
  const std::vector<Lease> leases = ClaimMany("w1", 2);
  ASSERT_EQ(leases.size(), 2u);
  EXPECT_EQ(leases[0].tasks.at(0).id, "t2");
  EXPECT_EQ(leases[1].tasks.at(0).id, "t1");
  for (const Lease& lease : leases) {
    EXPECT_EQ(lease.owner, "w1");
    EXPECT_EQ(lease.token.size(), 32u);
    EXPECT_EQ(lease.tasks[0].epoch, 1u);
    EXPECT_EQ(lease.tasks[0].state, TaskState::kInProgress);
    EXPECT_EQ(lease.tasks[0].job, "j");
    EXPECT_EQ(CodeOf(store().Settle(ctx(), lease, FinishOf(lease))), "OK");
  }
  EXPECT_EQ(CountOf("j", TaskState::kReady), 1);
  EXPECT_EQ(CountOf("j", TaskState::kFinished), 2);
}

TEST_P(JobStoreContract, AClaimKeepsToKindsJobsAndSizesAskedFor) {
  MakeJob("j1", {100});
  MakeJob("j2", {50});
  ClaimRequest request;
  request.worker = "w";
  request.kinds = {"test.other"};
  EXPECT_TRUE(store().Claim(ctx(), request)->empty());
  request.kinds = {"test.other", "test.copy"};
  request.only = {"j2"};
  request.size_bytes_max = 49;
  EXPECT_TRUE(store().Claim(ctx(), request)->empty());
  request.size_bytes_max = 50;
  const Result<std::vector<Lease>> leases = store().Claim(ctx(), request);
  ASSERT_EQ(leases->size(), 1u);
  EXPECT_EQ(leases->at(0).tasks[0].job, "j2");
}

TEST_P(JobStoreContract, ManyJobsThatCannotBeClaimedDoNotHideOneThatCan) {
  for (int i = 0; i < 20; ++i) MakeJob(fmt::format("big{:02}", i), {1000 + i});
  MakeJob("small", {10});
  ClaimRequest request;
  request.worker = "w";
  request.kinds = {"test.copy"};
  request.size_bytes_max = 10;
  ASSERT_EQ(store().Claim(ctx(), request)->size(), 1u);
}

TEST_P(JobStoreContract, APausedJobIsNotClaimed) {
  MakeJob("j", {1});
  ASSERT_EQ(CodeOf(store().SetPaused(ctx(), "j", true)), "OK");
  EXPECT_TRUE(ClaimMany("w", 1).empty());
  EXPECT_TRUE(store().View(ctx(), "j")->is_paused);
  ASSERT_EQ(CodeOf(store().SetPaused(ctx(), "j", false)), "OK");
  EXPECT_EQ(ClaimMany("w", 1).size(), 1u);
  EXPECT_EQ(CodeOf(store().SetPaused(ctx(), "nobody", true)), "not_found");
}

TEST_P(JobStoreContract, EveryAttemptHasASerialOfItsOwn) {
  MakeJob("j", {1, 2, 3}, PublishMode::kAsked);
  std::set<uint64_t> serials;
  for (const Lease& lease : ClaimMany("w1", 2)) serials.insert(lease.serial);
  for (int i = 0; i < 2; ++i) {  // asked again, it is the same
    const Result<std::optional<Lease>> named = store().ClaimNamed(ctx(), LoadAttempt("t0", "a"));
    ASSERT_TRUE(named.ok() && named->has_value());
    serials.insert((*named)->serial);
  }
  EXPECT_EQ(serials.size(), 3u);
  EXPECT_GT(*serials.begin(), 0u);
  EXPECT_LT(*serials.rbegin(), uint64_t{1} << 42);
}

TEST_P(JobStoreContract, ASettledAttemptIsNotSettledAgain) {
  MakeJob("j", {5});
  const Lease lease = ClaimOne();
  ASSERT_EQ(CodeOf(store().Settle(ctx(), lease, FinishOf(lease))), "OK");
  EXPECT_EQ(CodeOf(store().Settle(ctx(), lease, FinishOf(lease))), "lease_lost");
  EXPECT_EQ(
      CodeOf(store().Settle(ctx(), lease, EndOf(lease, TaskState::kInProgress, TaskState::kReady))),
      "lease_lost");
  const Task task = Get("j", "t0");
  EXPECT_EQ(task.state, TaskState::kFinished);
  EXPECT_EQ(task.winner, 1u);
  EXPECT_EQ(task.rows_out, 10);
  EXPECT_EQ(task.bytes_out, 100);
  EXPECT_EQ(task.parts_out, 1);
}

TEST_P(JobStoreContract, ASettlementWithOneLostEditChangesNothing) {
  MakeJob("j", {5, 6});
  const std::vector<Lease> leases = ClaimMany("w", 2);
  ASSERT_EQ(leases.size(), 2u);
  ASSERT_EQ(CodeOf(store().Settle(ctx(), leases[1], FinishOf(leases[1]))), "OK");
  Settlement both = FinishOf(leases[0]);
  both.edits.push_back(FinishOf(leases[1]).edits[0]);
  EXPECT_EQ(CodeOf(store().Settle(ctx(), leases[0], both)), "lease_lost");
  EXPECT_EQ(Get("j", leases[0].tasks[0].id).state, TaskState::kInProgress);
}

TEST_P(JobStoreContract, AWrongTokenSettlesNothing) {
  MakeJob("j", {5});
  Lease lease = ClaimOne();
  const Lease right = lease;
  lease.token = std::string(32, '0');
  EXPECT_EQ(CodeOf(store().Settle(ctx(), lease, FinishOf(lease))), "lease_lost");
  EXPECT_EQ(CodeOf(store().Renew(ctx(), lease, 1000)), "lease_lost");
  EXPECT_EQ(CodeOf(store().Settle(ctx(), right, FinishOf(right))), "OK");
}

TEST_P(JobStoreContract, AnExpiredLeaseThatNobodyTookStillSettles) {
  MakeJob("j", {5});
  const Lease lease = ClaimOne("w1", 1000);
  Shift(10'000);
  EXPECT_EQ(CodeOf(store().Settle(ctx(), lease, FinishOf(lease))), "OK");
  EXPECT_EQ(Get("j", "t0").winner, 1u);
}

TEST_P(JobStoreContract, ATakenOverLeaseSettlesNothing) {
  MakeJob("j", {5});
  const Lease first = ClaimOne("w1", 1000);
  EXPECT_EQ(*store().Reap(ctx(), {}), 0);  // it still runs
  Shift(10'000);
  EXPECT_EQ(*store().Reap(ctx(), {}), 1);
  EXPECT_EQ(Get("j", "t0").state, TaskState::kReady);
  const Lease second = ClaimOne("w2");
  EXPECT_EQ(second.tasks[0].epoch, 2u);
  EXPECT_EQ(CodeOf(store().Settle(ctx(), first, FinishOf(first))), "lease_lost");
  EXPECT_EQ(CodeOf(store().Renew(ctx(), first, 1000)), "lease_lost");
  EXPECT_EQ(CodeOf(store().Report(ctx(), first, Progress{})), "lease_lost");
  EXPECT_EQ(CodeOf(store().Settle(ctx(), second, FinishOf(second))), "OK");
  EXPECT_EQ(Get("j", "t0").winner, 2u);
  EXPECT_EQ(AttemptStates("j", "t0"), (std::vector<std::string>{"LOST", "FINISHED"}));
}

TEST_P(JobStoreContract, ARenewedLeaseIsNotReaped) {
  MakeJob("j", {5});
  const Lease lease = ClaimOne("w1", 1000);
  Shift(900);
  ASSERT_EQ(CodeOf(store().Renew(ctx(), lease, 60'000)), "OK");
  Shift(30'000);
  EXPECT_EQ(*store().Reap(ctx(), {}), 0);
  EXPECT_EQ(CodeOf(store().Settle(ctx(), lease, FinishOf(lease))), "OK");
}

TEST_P(JobStoreContract, TheThirdExpiryIsPoison) {
  MakeJob("j", {5});
  for (int crash = 1; crash <= 3; ++crash) {
    ClaimOne("w", 1000);
    Shift(10'000);
    ASSERT_EQ(*store().Reap(ctx(), ReapRules{.crashes_max = 3, .backoff_ms = 0}), 1);
    EXPECT_EQ(Get("j", "t0").crashes, crash);
  }
  const Task task = Get("j", "t0");
  EXPECT_EQ(task.state, TaskState::kFailed);
  EXPECT_EQ(task.failure_class, "poison");
  EXPECT_NE(task.payload.find("PF2139"), std::string::npos) << task.payload;
  EXPECT_TRUE(ClaimMany("w", 1).empty());
}

TEST_P(JobStoreContract, BackOffDelaysTheNextClaim) {
  MakeJob("j", {5});
  ClaimOne("w", 1000);
  Shift(10'000);
  ASSERT_EQ(*store().Reap(ctx(), ReapRules{.crashes_max = 9, .backoff_ms = 60'000}), 1);
  EXPECT_TRUE(ClaimMany("w", 1).empty());
  Shift(61'000);
  const Lease lease = ClaimOne();
  Settlement release = EndOf(lease, TaskState::kInProgress, TaskState::kReady);
  release.edits[0].backoff_ms = 60'000;
  ASSERT_EQ(CodeOf(store().Settle(ctx(), lease, release)), "OK");
  EXPECT_TRUE(ClaimMany("w", 1).empty());
  Shift(61'000);
  EXPECT_EQ(ClaimMany("w", 1).size(), 1u);
}

TEST_P(JobStoreContract, AReleasedTaskIsReadyAndItsAttemptLost) {
  MakeJob("j", {5});
  const Lease lease = ClaimOne();
  ASSERT_EQ(
      CodeOf(store().Settle(ctx(), lease, EndOf(lease, TaskState::kInProgress, TaskState::kReady))),
      "OK");
  EXPECT_EQ(Get("j", "t0").state, TaskState::kReady);
  EXPECT_EQ(AttemptStates("j", "t0"), (std::vector<std::string>{"LOST"}));
  EXPECT_EQ(ClaimOne().tasks[0].epoch, 2u);
}

TEST_P(JobStoreContract, AFailureKeepsItsReasonUntilItIsRetried) {
  MakeJob("j", {5});
  const Lease lease = ClaimOne();
  Settlement failure = EndOf(lease, TaskState::kInProgress, TaskState::kFailed, "data");
  failure.edits[0].failure_code = 40;
  failure.edits[0].error = "digest \"9f\" expected";
  ASSERT_EQ(CodeOf(store().Settle(ctx(), lease, failure)), "OK");
  const Task failed = Get("j", "t0");
  EXPECT_EQ(failed.state, TaskState::kFailed);
  EXPECT_EQ(failed.failure_class, "data");
  EXPECT_EQ(failed.failure_code, 40);
  EXPECT_NE(failed.payload.find(R"("error":"digest \"9f\" expected")"), std::string::npos)
      << failed.payload;
  EXPECT_EQ(AttemptStates("j", "t0"), (std::vector<std::string>{"ABORTED"}));

  Settlement retry;
  TaskEdit& edit = retry.edits.emplace_back();
  edit.id = "t0";
  edit.from = TaskState::kFailed;
  edit.epoch = failed.epoch;
  edit.to = TaskState::kReady;
  ASSERT_EQ(CodeOf(store().Amend(ctx(), "j", retry)), "OK");
  const Task again = Get("j", "t0");
  EXPECT_EQ(again.state, TaskState::kReady);
  EXPECT_EQ(again.failure_class, "");
  EXPECT_EQ(again.payload, R"({"line":0})");
  EXPECT_EQ(again.epoch, failed.epoch + 1);
}

TEST_P(JobStoreContract, AmendCanFailATaskWithItsReason) {
  MakeJob("j", {5});
  FinishAll();
  Settlement failing;
  TaskEdit& edit = failing.edits.emplace_back();
  edit.id = "t0";
  edit.from = TaskState::kFinished;
  edit.epoch = Get("j", "t0").epoch;
  edit.to = TaskState::kFailed;
  edit.failure_class = "data";
  edit.failure_code = 7;
  edit.error = "the description is gone";
  ASSERT_EQ(CodeOf(store().Amend(ctx(), "j", failing)), "OK");
  const Task failed = Get("j", "t0");
  EXPECT_EQ(failed.state, TaskState::kFailed);
  EXPECT_EQ(failed.failure_class, "data");
  EXPECT_EQ(failed.failure_code, 7);
  EXPECT_NE(failed.payload.find("the description is gone"), std::string::npos) << failed.payload;
}

TEST_P(JobStoreContract, AmendRefusesAStaleEpochARunningAttemptAndTooManyEdits) {
  MakeJob("j", {5});
  const Lease lease = ClaimOne();
  Settlement reset;
  TaskEdit& edit = reset.edits.emplace_back();
  edit.id = "t0";
  edit.from = TaskState::kInProgress;
  edit.epoch = 1;
  edit.to = TaskState::kReady;
  EXPECT_EQ(CodeOf(store().Amend(ctx(), "j", reset)), "conflict");
  ASSERT_EQ(CodeOf(store().Settle(ctx(), lease, FinishOf(lease))), "OK");
  edit.from = TaskState::kFinished;
  edit.epoch = 7;
  EXPECT_EQ(CodeOf(store().Amend(ctx(), "j", reset)), "conflict");
  edit.epoch = 1;
  EXPECT_EQ(CodeOf(store().Amend(ctx(), "j", reset)), "OK");
  EXPECT_EQ(Get("j", "t0").winner, 0u);
  reset.edits.resize(1001);
  EXPECT_EQ(CodeOf(store().Amend(ctx(), "j", reset)), "invalid_argument");
}

TEST_P(JobStoreContract, AWorkerThatWasAmendedAwayLosesItsLease) {
  MakeJob("j", {5});
  const Lease first = ClaimOne("w1", 1000);
  Shift(10'000);
  ASSERT_EQ(*store().Reap(ctx(), {}), 1);
  Settlement finish;
  TaskEdit& edit = finish.edits.emplace_back();
  edit.id = "t0";
  edit.from = TaskState::kReady;
  edit.epoch = 1;
  edit.to = TaskState::kFailed;
  ASSERT_EQ(CodeOf(store().Amend(ctx(), "j", finish)), "OK");
  EXPECT_EQ(CodeOf(store().Settle(ctx(), first, FinishOf(first))), "lease_lost");
}

TEST_P(JobStoreContract, ATwinRunsBesideItsBrotherAndTheFirstToFinishWins) {
  MakeJob("j", {5});
  const Lease first = ClaimOne("w1");
  NamedClaim twin;
  twin.job = "j";
  twin.task = "t0";
  twin.worker = "w2";
  twin.twin = NamedClaim::Twin::kSpeculation;
  twin.epoch = 1;
  const Result<std::optional<Lease>> second = store().ClaimNamed(ctx(), twin);
  ASSERT_TRUE(second.ok() && second->has_value());
  EXPECT_EQ((*second)->tasks[0].epoch, 2u);
  twin.epoch = 2;
  EXPECT_FALSE(store().ClaimNamed(ctx(), twin)->has_value());  // two are enough
  ASSERT_EQ(CodeOf(store().Settle(ctx(), first, FinishOf(first))), "OK");
  EXPECT_EQ(CodeOf(store().Settle(ctx(), **second, FinishOf(**second))), "lease_lost");
  EXPECT_EQ(Get("j", "t0").winner, 1u);
  EXPECT_EQ(AttemptStates("j", "t0"), (std::vector<std::string>{"FINISHED", "LOST"}));
}

TEST_P(JobStoreContract, ATwinThatGivesUpLeavesTheTaskToItsBrother) {
  MakeJob("j", {5});
  const Lease first = ClaimOne("w1");
  NamedClaim twin;
  twin.job = "j";
  twin.task = "t0";
  twin.worker = "w2";
  twin.lease_ms = 1000;
  twin.twin = NamedClaim::Twin::kSpeculation;
  twin.epoch = 1;
  ASSERT_TRUE(store().ClaimNamed(ctx(), twin)->has_value());
  ASSERT_EQ(
      CodeOf(store().Settle(ctx(), first, EndOf(first, TaskState::kInProgress, TaskState::kReady))),
      "OK");
  EXPECT_EQ(Get("j", "t0").state, TaskState::kInProgress);
  Shift(10'000);
  EXPECT_EQ(*store().Reap(ctx(), {}), 1);  // the last one gone, the task is free
  EXPECT_EQ(Get("j", "t0").state, TaskState::kReady);
}

TEST_P(JobStoreContract, ProgressIsShownAndSaysNothingAboutTheLease) {
  MakeJob("j", {5});
  const Lease lease = ClaimOne("w1", 1000);
  Progress progress;
  progress.stage = "insert";
  progress.fraction = 0.25;
  progress.rows = 11;
  progress.bytes = 22;
  progress.detail = R"({"chunk":3})";
  const Result<bool> asked = store().Report(ctx(), lease, progress);
  ASSERT_EQ(CodeOf(asked), "OK");
  EXPECT_FALSE(*asked);
  const Result<std::vector<AttemptView>> attempts = store().Attempts(ctx(), "j", "t0");
  ASSERT_EQ(attempts->size(), 1u);
  EXPECT_EQ(attempts->at(0).stage, "insert");
  EXPECT_EQ(attempts->at(0).fraction, 0.25);
  EXPECT_EQ(attempts->at(0).rows_done, 11);
  EXPECT_EQ(attempts->at(0).progress, R"({"chunk":3})");
  Shift(10'000);
  EXPECT_EQ(*store().Reap(ctx(), {}), 1);
}

TEST_P(JobStoreContract, AnAttemptKeepsTheResultItSettledWith) {
  MakeJob("j", {5});
  const Lease lease = ClaimOne();
  ASSERT_EQ(CodeOf(store().Settle(ctx(), lease, FinishOf(lease))), "OK");
  const Result<std::vector<AttemptView>> attempts = store().Attempts(ctx(), "j", "t0");
  ASSERT_EQ(attempts->size(), 1u);
  const AttemptView& attempt = attempts->at(0);
  EXPECT_EQ(attempt.result, R"({"prefix":"p"})");
  EXPECT_EQ(attempt.rows_result, 10);
  EXPECT_EQ(attempt.bytes_result, 100);
  EXPECT_EQ(attempt.digest, "d1");
  EXPECT_GT(attempt.ended_at_ms, 0);
  EXPECT_GE(attempt.ended_at_ms, attempt.opened_at_ms);
}

TEST_P(JobStoreContract, ThreeAttemptsOfALoadsTaskMayFinishAndTheNamedOneCounts) {
  MakeJob("j", {5}, PublishMode::kAsked);
  std::vector<Lease> leases;
  for (const char* label : {"a", "b", "c"}) {
    const Result<std::optional<Lease>> lease = store().ClaimNamed(ctx(), LoadAttempt("t0", label));
    ASSERT_TRUE(lease.ok() && lease->has_value()) << label;
    leases.push_back(**lease);
  }
  EXPECT_EQ(CountOf("j", TaskState::kInProgress), 1);
  // The same label is the same attempt, with its secret.
  const Result<std::optional<Lease>> again = store().ClaimNamed(ctx(), LoadAttempt("t0", "b"));
  ASSERT_TRUE(again.ok() && again->has_value());
  EXPECT_EQ((*again)->token, leases[1].token);
  EXPECT_EQ((*again)->tasks[0].epoch, leases[1].tasks[0].epoch);

  for (const Lease& lease : leases) {
    Settlement finish = FinishOf(lease);
    finish.edits[0].result->rows_out = 10 + static_cast<int64_t>(lease.tasks[0].epoch);
    ASSERT_EQ(CodeOf(store().Settle(ctx(), lease, finish)), "OK");
  }
  EXPECT_EQ(Get("j", "t0").winner, 1u);
  EXPECT_EQ(Get("j", "t0").rows_out, 11);
  EXPECT_EQ(CodeOf(store().ClaimNamed(ctx(), LoadAttempt("t0", "b"))), "lease_lost");

  Commit proposal;
  proposal.id = "j";
  proposal.job = "j";
  proposal.kind = "test.copy";
  Chosen& chosen = proposal.chosen.emplace_back();
  chosen.task = "t0";
  chosen.epoch = 2;
  const Result<Commit> decided = store().Decide(ctx(), proposal, {}, {});
  ASSERT_EQ(CodeOf(decided), "OK");
  ASSERT_EQ(decided->chosen.size(), 1u);
  EXPECT_EQ(decided->chosen[0].epoch, 2u);
  EXPECT_EQ(decided->chosen[0].result.rows_out, 12);
  EXPECT_EQ(AttemptStates("j", "t0"), (std::vector<std::string>{"LOST", "CHOSEN", "LOST"}));
  EXPECT_EQ(Get("j", "t0").winner, 2u);
}

TEST_P(JobStoreContract, AnAttemptOfALoadThatFailsLeavesAFinishedTaskAlone) {
  MakeJob("j", {5}, PublishMode::kAsked);
  const Result<std::optional<Lease>> a = store().ClaimNamed(ctx(), LoadAttempt("t0", "a"));
  const Result<std::optional<Lease>> b = store().ClaimNamed(ctx(), LoadAttempt("t0", "b"));
  ASSERT_TRUE(a->has_value() && b->has_value());
  ASSERT_EQ(CodeOf(store().Settle(ctx(), **a, FinishOf(**a))), "OK");
  ASSERT_EQ(CodeOf(store().Settle(ctx(), **b,
                                  EndOf(**b, TaskState::kInProgress, TaskState::kFailed, "data"))),
            "OK");
  EXPECT_EQ(Get("j", "t0").state, TaskState::kFinished);
  EXPECT_EQ(AttemptStates("j", "t0"), (std::vector<std::string>{"FINISHED", "ABORTED"}));
}

TEST_P(JobStoreContract, ALoadsTaskThatIsNotThereIsNotFound) {
  MakeOpenJob("j", {5}, PublishMode::kAsked);
  EXPECT_EQ(CodeOf(store().ClaimNamed(ctx(), LoadAttempt("t9", "a"))), "not_found");
}

TEST_P(JobStoreContract, AbortingAJobEndsItsAttempts) {
  MakeJob("j", {5, 6}, PublishMode::kAsked);
  const Lease lease = ClaimOne();
  ASSERT_EQ(CodeOf(store().AbortJob(ctx(), "j")), "OK");
  EXPECT_EQ(store().View(ctx(), "j")->state, "ABORTED");
  EXPECT_EQ(CodeOf(store().Settle(ctx(), lease, FinishOf(lease))), "lease_lost");
  EXPECT_TRUE(ClaimMany("w", 1).empty());
  EXPECT_EQ(CodeOf(store().AbortJob(ctx(), "j")), "OK");
  EXPECT_TRUE(store().OpenJobs(ctx())->empty());
}

TEST_P(JobStoreContract, AnAbortedJobWaitsForItsThings) {
  MakeJob("j", {5});
  const Lease lease = ClaimOne();
  Actor actor;
  actor.job = "j";
  actor.task = lease.tasks[0].id;
  actor.epoch = 1;
  actor.token = lease.token;
  Thing table;
  table.kind = "stage_table";
  table.name = "pfs_1";
  const Result<Thing> intended = store().Intend(ctx(), actor, table);
  ASSERT_EQ(CodeOf(intended), "OK");
  ASSERT_EQ(CodeOf(store().AbortJob(ctx(), "j")), "OK");
  EXPECT_EQ(store().View(ctx(), "j")->state, "ABORTING");
  Thing gone = *intended;
  gone.state = "GONE";
  ASSERT_EQ(CodeOf(store().SetThing(ctx(), *intended, gone)), "OK");
  ASSERT_EQ(CodeOf(store().AbortJob(ctx(), "j")), "OK");
  EXPECT_EQ(store().View(ctx(), "j")->state, "ABORTED");
}

TEST_P(JobStoreContract, OpenJobsAreThoseWithSomethingToDo) {
  MakeJob("work", {5});
  MakeJob("empty", {});
  MakeOpenJob("growing", {});
  std::set<std::string> open;
  const Result<std::vector<JobSpec>> jobs = store().OpenJobs(ctx());
  ASSERT_EQ(CodeOf(jobs), "OK");
  for (const JobSpec& job : *jobs) open.insert(job.id);
  EXPECT_EQ(open, (std::set<std::string>{"work", "growing"}));
}

TEST_P(JobStoreContract, AJobComesBackAsItWasMade) {
  MakeOpenJob("j", {3, 4}, PublishMode::kCommand);
  const Result<JobView> view = store().View(ctx(), "j");
  ASSERT_EQ(CodeOf(view), "OK");
  EXPECT_EQ(view->job.id, "j");
  EXPECT_EQ(view->job.kind, "test.copy");
  EXPECT_EQ(view->job.key, "key-j");
  EXPECT_EQ(view->job.name, "j");
  EXPECT_EQ(view->job.publish, PublishMode::kCommand);
  EXPECT_EQ(view->job.target, "target-j");
  EXPECT_EQ(view->job.spec, R"({"from":"a"})");
  EXPECT_EQ(view->state, "OPEN");
  EXPECT_EQ(view->tasks_expected, -1);
  ASSERT_EQ(view->counts.size(), 1u);
  EXPECT_EQ(view->counts[0].tasks, 2);
  EXPECT_EQ(view->counts[0].bytes, 7);
  EXPECT_GT(view->now_ms, 0);
  EXPECT_EQ(CodeOf(store().View(ctx(), "nobody")), "not_found");
}

TEST_P(JobStoreContract, APageGoesOnAfterTheLastOne) {
  MakeJob("j", std::vector<int64_t>(5, 1));
  const Result<TaskPage> first = store().Page(ctx(), "j", TaskState::kReady, "", 2);
  ASSERT_EQ(CodeOf(first), "OK");
  ASSERT_EQ(first->tasks.size(), 2u);
  ASSERT_TRUE(first->next.has_value());
  const Result<TaskPage> second = store().Page(ctx(), "j", TaskState::kReady, *first->next, 10);
  EXPECT_EQ(second->tasks.size(), 3u);
  EXPECT_FALSE(second->next.has_value());
  EXPECT_EQ(CodeOf(store().GetTask(ctx(), "j", "t9")), "not_found");
}

TEST_P(JobStoreContract, TheHistoryTellsWhoDidWhat) {
  MakeJob("j", {5});
  const Lease lease = ClaimOne("w7");
  ASSERT_EQ(CodeOf(store().Settle(ctx(), lease, FinishOf(lease))), "OK");
  ASSERT_EQ(CodeOf(store().Note(ctx(), "j", "looked_at", R"({"by":"me"})")), "OK");
  const Result<std::vector<EventView>> of_task = store().Events(ctx(), "j", "t0", 0, 100);
  ASSERT_EQ(CodeOf(of_task), "OK");
  ASSERT_EQ(of_task->size(), 2u);
  EXPECT_EQ(of_task->at(0).from_state, "READY");
  EXPECT_EQ(of_task->at(0).to_state, "IN_PROGRESS");
  EXPECT_EQ(of_task->at(0).actor, "w7");
  EXPECT_EQ(of_task->at(1).to_state, "FINISHED");
  EXPECT_EQ(of_task->at(1).epoch, 1u);
  const Result<std::vector<EventView>> later =
      store().Events(ctx(), "j", "", of_task->at(1).seq, 100);
  ASSERT_EQ(later->size(), 1u);
  EXPECT_EQ(later->at(0).event, "looked_at");
  EXPECT_EQ(later->at(0).detail, R"({"by":"me"})");
  EXPECT_EQ(store().Events(ctx(), "j", "", 0, 1)->size(), 1u);
}

TEST_P(JobStoreContract, TextsOfAnyBytesAreOnlyTexts) {
  Plan plan = PlanOf("j'; DROP TABLE jobs; --", "k\"$1:job{for_update}", R"({"q":"a\\'b"})");
  plan.job.name = "ünïcode \xF0\x9F\x8E\x89 :name {}";
  ASSERT_EQ(CodeOf(store().CreateJob(ctx(), plan)), "OK");
  const Result<JobView> view = store().View(ctx(), plan.job.id);
  ASSERT_EQ(CodeOf(view), "OK");
  EXPECT_EQ(view->job.name, plan.job.name);
  EXPECT_EQ(view->job.spec, plan.job.spec);
}

}  // namespace
}  // namespace partforge::testing
