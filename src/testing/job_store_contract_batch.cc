#include <algorithm>
#include <set>

#include "testing/job_store_contract.h"

// Laws of compaction: batches, their outputs, and the end of waiting.
namespace partforge::testing {
namespace {

BatchRequest BatchOf(const std::string& output) {
  BatchRequest request;
  request.job = "j";
  request.worker = "c1";
  request.output = output;
  return request;
}

TaskEdit Take(const Task& task) {
  TaskEdit edit;
  edit.id = task.id;
  edit.from = TaskState::kCompactReady;
  edit.epoch = task.epoch;
  edit.to = TaskState::kCompacting;
  return edit;
}

std::vector<TaskEdit> TakeAllOfBatch(const Candidates& candidates) {
  std::vector<TaskEdit> edits;
  for (const Task& task : candidates.batch) edits.push_back(Take(task));
  return edits;
}

// An output of a batch of `inputs`, of generation 1.
Settlement SupersededBy(const Lease& lease, const std::string& output,
                        TaskState to = TaskState::kCompactReady) {
  Settlement settlement = EndOf(lease, lease.tasks.at(0).state, TaskState::kSuperseded);
  for (TaskEdit& edit : settlement.edits) edit.superseded_by = output;
  Task& added = settlement.added.emplace_back();
  added.id = output;
  added.kind = "test.copy";
  added.state = to;
  added.size_bytes = 30;
  added.generation = 1;
  TaskResult& result = settlement.added_results.emplace_back();
  result.outputs = R"({"prefix":"out"})";
  result.rows_out = 20;
  result.bytes_out = 150;
  result.group_key = "g";
  result.partition_id = "202401";
  result.parts_out = 1;
  result.parts_peak = 1;
  result.partitions_out = 1;
  return settlement;
}

ClaimRequest Gathering(const std::string& worker, GatherRule rule) {
  ClaimRequest request;
  request.worker = worker;
  request.kinds = {"test.copy"};
  request.tasks_max = 10;
  request.gathering["test.copy"] = std::move(rule);
  return request;
}

TEST_P(JobStoreContract, GatheredTasksAreOneLeaseAndEachHasAnEpochOfItsOwn) {
  MakeJob("j", {10, 20, 30, 40});
  ClaimOffer seen;
  const GatherRule rule{.task_bytes_max = 100, .offer_max = 3, .choose = [&](const auto& offer) {
                          seen = offer;
                          return std::vector<std::vector<size_t>>{{0, 2}, {1}};
                        }};
  const auto leases = store().Claim(ctx(), Gathering("w1", rule));
  ASSERT_EQ(CodeOf(leases), "OK");
  ASSERT_EQ(seen.tasks.size(), 3u);
  EXPECT_EQ(seen.tasks[0].size_bytes, 40);
  EXPECT_EQ(seen.ready_bytes, 100);
  ASSERT_EQ(leases->size(), 2u);
  ASSERT_EQ(leases->at(0).tasks.size(), 2u);
  EXPECT_EQ(leases->at(0).tasks[1].size_bytes, 20);
  EXPECT_EQ(leases->at(1).tasks.at(0).size_bytes, 30);
  std::set<uint64_t> serials;
  for (const Lease& lease : *leases) {
    serials.insert(lease.serial);
    for (const Task& task : lease.tasks) {
      EXPECT_EQ(task.epoch, 1u);
      EXPECT_EQ(task.state, TaskState::kInProgress);
      EXPECT_EQ(store().Attempts(ctx(), "j", task.id)->at(0).owner, "w1");
    }
    EXPECT_EQ(CodeOf(store().Renew(ctx(), lease, 60'000)), "OK");
  }
  EXPECT_EQ(serials.size(), 2u);
  EXPECT_EQ(CountOf("j", TaskState::kReady), 1);
  EXPECT_EQ(CountOf("j", TaskState::kInProgress), 3);
}

TEST_P(JobStoreContract, WhileALargeTaskWaitsTasksAreTakenOneByOne) {
  MakeJob("j", {10, 20, 300});
  const GatherRule rule{.task_bytes_max = 100, .choose = [](const ClaimOffer& offer) {
                          std::vector<size_t> all(offer.tasks.size());
                          for (size_t i = 0; i < all.size(); ++i) all[i] = i;
                          return std::vector<std::vector<size_t>>{all};
                        }};
  ClaimRequest request = Gathering("w1", rule);
  request.tasks_max = 1;
  auto leases = store().Claim(ctx(), request);
  ASSERT_TRUE(leases.ok() && leases->size() == 1);
  EXPECT_EQ(leases->at(0).tasks.size(), 1u);
  EXPECT_EQ(leases->at(0).tasks[0].size_bytes, 300);
  leases = store().Claim(ctx(), request);
  ASSERT_TRUE(leases.ok() && leases->size() == 1);
  EXPECT_EQ(leases->at(0).tasks.size(), 2u);
  leases = store().Claim(ctx(), request);
  ASSERT_TRUE(leases.ok());
  EXPECT_TRUE(leases->empty());
}

TEST_P(JobStoreContract, TasksOfAJobThatMayNotBeGatheredAreTakenOneByOne) {
  MakeJob("j", {10, 20, 30});
  bool is_offered = false;
  const GatherRule rule{.task_bytes_max = 100,
                        .may_gather = [](const Json&) { return false; },
                        .choose =
                            [&](const ClaimOffer&) {
                              is_offered = true;
                              return std::vector<std::vector<size_t>>{};
                            }};
  const auto leases = store().Claim(ctx(), Gathering("w1", rule));
  ASSERT_EQ(CodeOf(leases), "OK");
  EXPECT_FALSE(is_offered);
  ASSERT_EQ(leases->size(), 3u);
  for (const Lease& lease : *leases) EXPECT_EQ(lease.tasks.size(), 1u);
}

TEST_P(JobStoreContract, AChoiceOfNothingOrOfATaskTwiceTakesNothing) {
  MakeJob("j", {10, 20});
  const auto none = [](const ClaimOffer&) { return std::vector<std::vector<size_t>>{}; };
  const auto leases =
      store().Claim(ctx(), Gathering("w1", {.task_bytes_max = 100, .choose = none}));
  ASSERT_TRUE(leases.ok());
  EXPECT_TRUE(leases->empty());
  const auto twice = [](const ClaimOffer&) {
    return std::vector<std::vector<size_t>>{{0, 1}, {1}};
  };
  EXPECT_EQ(CodeOf(store().Claim(ctx(), Gathering("w1", {.task_bytes_max = 100, .choose = twice}))),
            "internal");
  EXPECT_EQ(CountOf("j", TaskState::kReady), 2);
}

// Tier T5b: source parts go from IN_PROGRESS to their output at once, or not at all.
TEST_P(JobStoreContract, GatheredInputsAreSupersededOnlyWhileEveryOneIsOurs) {
  MakeJob("j", {10, 20, 30});
  const auto all = [](const ClaimOffer&) { return std::vector<std::vector<size_t>>{{0, 1, 2}}; };
  auto leases = store().Claim(ctx(), Gathering("w1", {.task_bytes_max = 100, .choose = all}));
  ASSERT_TRUE(leases.ok() && leases->size() == 1);
  const Lease zombie = leases->front();
  Shift(120'000);
  ASSERT_EQ(*store().Reap(ctx(), ReapRules{}), 3);
  const Lease stranger = ClaimOne();  // one of the three
  const Settlement late = SupersededBy(zombie, "out", TaskState::kFinished);
  EXPECT_EQ(CodeOf(store().Settle(ctx(), zombie, late)), "lease_lost");
  EXPECT_EQ(CountOf("j", TaskState::kSuperseded), 0);
  EXPECT_EQ(CodeOf(store().GetTask(ctx(), "j", "out")), "not_found");
  ASSERT_EQ(CodeOf(store().Settle(ctx(), stranger,
                                  EndOf(stranger, TaskState::kInProgress, TaskState::kReady))),
            "OK");
  leases = store().Claim(ctx(), Gathering("w2", {.task_bytes_max = 100, .choose = all}));
  ASSERT_TRUE(leases.ok() && leases->size() == 1);
  const Settlement done = SupersededBy(leases->front(), "out", TaskState::kFinished);
  ASSERT_EQ(CodeOf(store().Settle(ctx(), leases->front(), done)), "OK");
  EXPECT_EQ(CountOf("j", TaskState::kSuperseded), 3);
  const Task output = Get("j", "out");
  EXPECT_EQ(output.state, TaskState::kFinished);
  EXPECT_EQ(output.generation, 1);
  EXPECT_EQ(output.winner, 1u);
  for (const Task& input : leases->front().tasks) {
    EXPECT_EQ(Get("j", input.id).superseded_by, "out");
    EXPECT_EQ(Get("j", input.id).winner, 0u);
  }
  // Its own reply may have been lost: the second time says so.
  EXPECT_EQ(CodeOf(store().Settle(ctx(), leases->front(), done)), "lease_lost");
  EXPECT_TRUE(ClaimMany("w3", 5).empty());  // what is superseded is never claimed
}

// A lease of several, and one of one, of the same claim.
std::vector<std::vector<size_t>> AllButTheLast(const ClaimOffer& offer) {
  std::vector<std::vector<size_t>> groups(1);
  for (size_t i = 0; i + 1 < offer.tasks.size(); ++i) groups[0].push_back(i);
  groups.push_back({offer.tasks.size() - 1});
  return groups;
}

TEST_P(JobStoreContract, ATokenNamesOneLease) {
  MakeJob("j", {10, 20, 30, 40, 50});
  const auto gathered = store().Claim(
      ctx(), Gathering("w1", {.task_bytes_max = 100, .offer_max = 3, .choose = AllButTheLast}));
  ASSERT_TRUE(gathered.ok() && gathered->size() == 2);
  const std::vector<Lease> single = ClaimMany("w1", 2);
  ASSERT_EQ(single.size(), 2u);
  std::set<std::string> tokens;
  for (const auto& leases : {*gathered, single}) {
    for (const Lease& lease : leases) {
      EXPECT_EQ(lease.token.size(), 32u);
      tokens.insert(lease.token);
      EXPECT_EQ(CodeOf(store().Renew(ctx(), lease, 60'000)), "OK");
    }
  }
  EXPECT_EQ(tokens.size(), 4u);
}

// Which of them brought its worker down is not known: none of them is poison for it.
TEST_P(JobStoreContract, AVanishedWorkerCountsNoCrashForTasksItHadTogether) {
  MakeJob("j", {10, 20, 30, 40});
  for (int kills = 0; kills < 5; ++kills) {
    const auto leases =
        store().Claim(ctx(), Gathering("w1", {.task_bytes_max = 100, .choose = AllButTheLast}));
    ASSERT_TRUE(leases.ok() && leases->size() == 2);
    ASSERT_EQ(leases->at(0).tasks.size(), 3u);
    Shift(120'000);
    ASSERT_EQ(*store().Reap(ctx(), ReapRules{.crashes_max = 9, .backoff_ms = 0}), 4);
    for (const Task& task : leases->at(0).tasks) {
      const Task now = Get("j", task.id);
      EXPECT_EQ(now.state, TaskState::kReady);
      EXPECT_EQ(now.crashes, 0);
      EXPECT_EQ(now.failure_class, "crash");
      EXPECT_EQ(now.failure_code, 3);
      EXPECT_EQ(AttemptStates("j", task.id).back(), "LOST");
    }
    const Task alone = Get("j", leases->at(1).tasks.at(0).id);
    EXPECT_EQ(alone.crashes, kills + 1);
    EXPECT_EQ(alone.failure_class, "");
    EXPECT_EQ(alone.failure_code, 0);
  }
  EXPECT_EQ(CountOf("j", TaskState::kReady), 4);
}

TEST_P(JobStoreContract, ALeaseOfManyIsReapedWhole) {
  MakeJob("j", std::vector<int64_t>(150, 5));
  const auto all = [](const ClaimOffer& offer) {
    std::vector<size_t> group(offer.tasks.size());
    for (size_t i = 0; i < group.size(); ++i) group[i] = i;
    return std::vector<std::vector<size_t>>{group};
  };
  const auto leases = store().Claim(ctx(), Gathering("w1", {.task_bytes_max = 9, .choose = all}));
  ASSERT_TRUE(leases.ok() && leases->size() == 1);
  Shift(120'000);
  int64_t reaped = 0, now = 0;
  while ((now = *store().Reap(ctx(), {})) > 0) reaped += now;
  EXPECT_EQ(reaped, 150);
  EXPECT_EQ(CountOf("j", TaskState::kReady), 150);
  EXPECT_EQ(Get("j", "t149").failure_code, 150);
}

// Of a lease that is lost because one of its tasks is, the others go back at once.
TEST_P(JobStoreContract, WhatIsStillOursOfALeaseIsReleasedWithoutBlame) {
  MakeJob("j", {10, 20, 30, 40});
  const auto leases =
      store().Claim(ctx(), Gathering("w1", {.task_bytes_max = 100, .choose = AllButTheLast}));
  ASSERT_TRUE(leases.ok() && leases->size() == 2);
  const Lease& lease = leases->at(0);
  Lease one = lease;
  one.tasks.resize(1);
  ASSERT_EQ(
      CodeOf(store().Settle(ctx(), one, EndOf(one, TaskState::kInProgress, TaskState::kReady))),
      "OK");
  const Lease stranger = ClaimOne();
  ASSERT_EQ(stranger.tasks[0].id, one.tasks[0].id);
  EXPECT_EQ(CodeOf(store().Renew(ctx(), lease, 60'000)), "lease_lost");
  EXPECT_EQ(*store().Release(ctx(), lease), 2);
  EXPECT_EQ(*store().Release(ctx(), lease), 0);
  for (size_t i = 1; i < 3; ++i) {
    const Task now = Get("j", lease.tasks[i].id);
    EXPECT_EQ(now.state, TaskState::kReady);
    EXPECT_EQ(now.crashes, 0);
    EXPECT_EQ(now.failure_class, "");
    EXPECT_EQ(AttemptStates("j", now.id), (std::vector<std::string>{"LOST"}));
  }
  EXPECT_EQ(CountOf("j", TaskState::kReady), 2);
  EXPECT_EQ(CountOf("j", TaskState::kInProgress), 2);
  EXPECT_EQ(ClaimMany("w2", 9).size(), 2u);  // no back-off
  EXPECT_EQ(CodeOf(store().Settle(ctx(), stranger, FinishOf(stranger))), "OK");
  EXPECT_EQ(CodeOf(store().Settle(ctx(), leases->at(1), FinishOf(leases->at(1)))), "OK");
}

TEST_P(JobStoreContract, ABatchThatIsReleasedGoesBackToWaiting) {
  MakeJob("j", {1, 2});
  MakeCompactReady(1);
  const Result<std::optional<Lease>> batch =
      store().ClaimBatch(ctx(), BatchOf("out"), TakeAllOfBatch);
  ASSERT_TRUE(batch.ok() && batch->has_value());
  EXPECT_EQ(*store().Release(ctx(), **batch), 2);
  EXPECT_EQ(CountOf("j", TaskState::kCompactReady), 2);
  EXPECT_EQ(Get("j", "t0").winner, 1u);
}

TEST_P(JobStoreContract, ABatchIsTakenWholeUnderOneToken) {
  MakeJob("j", {1, 2, 3});
  MakeCompactReady(1);
  const Result<std::optional<Lease>> batch =
      store().ClaimBatch(ctx(), BatchOf("out"), TakeAllOfBatch);
  ASSERT_TRUE(batch.ok() && batch->has_value());
  EXPECT_EQ((*batch)->tasks.size(), 3u);
  EXPECT_EQ((*batch)->output, "out");
  EXPECT_EQ(CountOf("j", TaskState::kCompacting), 3);
  for (const Task& task : (*batch)->tasks) EXPECT_EQ(task.epoch, 2u);
  EXPECT_FALSE(store().ClaimBatch(ctx(), BatchOf("out2"), TakeAllOfBatch)->has_value());
  EXPECT_EQ(CodeOf(store().Renew(ctx(), **batch, 60'000)), "OK");
}

TEST_P(JobStoreContract, AChooserSeesFragmentedOnesAndTheSmallestFamily) {
  MakeJob("j", {1, 2, 3, 4});
  std::vector<Lease> leases = ClaimMany("w", 4);
  ASSERT_EQ(leases.size(), 4u);
  ASSERT_EQ(
      CodeOf(store().Settle(ctx(), leases[0], FinishOf(leases[0], TaskState::kCompactReady, 6))),
      "OK");
  for (size_t i = 1; i < 4; ++i) {
    Settlement finish = FinishOf(leases[i], TaskState::kCompactReady, 1);
    finish.edits[0].result->bytes_out = static_cast<int64_t>(100 * i);
    if (i == 3) finish.edits[0].result->partition_id = "202402";  // alone in its partition
    ASSERT_EQ(CodeOf(store().Settle(ctx(), leases[i], finish)), "OK");
  }
  Candidates seen;
  const auto look = [&seen](const Candidates& candidates) {
    seen = candidates;
    return std::vector<TaskEdit>{};
  };
  EXPECT_FALSE(store().ClaimBatch(ctx(), BatchOf("out"), look)->has_value());
  ASSERT_EQ(seen.fragmented.size(), 1u);
  EXPECT_EQ(seen.fragmented[0].parts_out, 6);
  ASSERT_EQ(seen.batch.size(), 2u);
  EXPECT_EQ(seen.batch[0].bytes_out, 100);
  EXPECT_EQ(seen.batch[1].bytes_out, 200);
  EXPECT_GT(seen.window_from_ms, 0);
  EXPECT_GE(seen.now_ms, seen.window_from_ms);

  BatchRequest tight = BatchOf("out");
  tight.bytes_max = 299;  // the two together do not fit
  EXPECT_FALSE(store().ClaimBatch(ctx(), tight, look)->has_value());
  EXPECT_TRUE(seen.batch.empty());
  EXPECT_EQ(CountOf("j", TaskState::kCompactReady), 4);
}

TEST_P(JobStoreContract, ABatchOfAPausedJobIsNotTaken) {
  MakeJob("j", {1, 2});
  MakeCompactReady(1);
  ASSERT_EQ(CodeOf(store().SetPaused(ctx(), "j", true)), "OK");
  EXPECT_FALSE(store().ClaimBatch(ctx(), BatchOf("out"), TakeAllOfBatch)->has_value());
}

TEST_P(JobStoreContract, ABatchWithAMemberThatIsGoneIsNotTaken) {
  MakeJob("j", {1, 2});
  MakeCompactReady(1);
  const auto choose = [](const Candidates& candidates) {
    std::vector<TaskEdit> edits = TakeAllOfBatch(candidates);
    edits.back().epoch += 1;
    return edits;
  };
  EXPECT_FALSE(store().ClaimBatch(ctx(), BatchOf("out"), choose)->has_value());
  EXPECT_EQ(CountOf("j", TaskState::kCompactReady), 2);
}

TEST_P(JobStoreContract, TheOutputMayBeNamedByTheChooser) {
  MakeJob("j", {1, 2});
  MakeCompactReady(1);
  const auto choose = [](const Candidates& candidates) {
    std::vector<TaskEdit> edits = TakeAllOfBatch(candidates);
    for (TaskEdit& edit : edits) edit.superseded_by = "compact-1";
    return edits;
  };
  const Result<std::optional<Lease>> batch = store().ClaimBatch(ctx(), BatchOf(""), choose);
  ASSERT_TRUE(batch.ok() && batch->has_value());
  EXPECT_EQ((*batch)->output, "compact-1");
}

TEST_P(JobStoreContract, ABatchIsSupersededByItsOutputAllOrNothing) {
  MakeJob("j", {1, 2});
  MakeCompactReady(1);
  const int64_t window_ms = std::max(Get("j", "t0").ready_at_ms, Get("j", "t1").ready_at_ms);
  Shift(5000);
  const Result<std::optional<Lease>> batch =
      store().ClaimBatch(ctx(), BatchOf("out"), TakeAllOfBatch);
  ASSERT_TRUE(batch.ok() && batch->has_value());
  ASSERT_EQ(CodeOf(store().Settle(ctx(), **batch, SupersededBy(**batch, "out"))), "OK");
  for (const char* id : {"t0", "t1"}) {
    const Task input = Get("j", id);
    EXPECT_EQ(input.state, TaskState::kSuperseded);
    EXPECT_EQ(input.superseded_by, "out");
    EXPECT_EQ(input.winner, 1u);  // the rewrite's attempt stands
    EXPECT_EQ(AttemptStates("j", id), (std::vector<std::string>{"FINISHED", "ABORTED"}));
  }
  const Task output = Get("j", "out");
  EXPECT_EQ(output.state, TaskState::kCompactReady);
  EXPECT_EQ(output.generation, 1);
  EXPECT_EQ(output.winner, 1u);
  EXPECT_EQ(output.rows_out, 20);
  EXPECT_EQ(output.size_bytes, 30);
  EXPECT_EQ(output.ready_at_ms, window_ms);  // its window is its latest input's
  EXPECT_EQ(store().Attempts(ctx(), "j", "out")->at(0).result, R"({"prefix":"out"})");
  EXPECT_EQ(CodeOf(store().Settle(ctx(), **batch, SupersededBy(**batch, "out3"))), "lease_lost");
  EXPECT_EQ(CodeOf(store().GetTask(ctx(), "j", "out3")), "not_found");
}

TEST_P(JobStoreContract, AnOutputsEpochIsTheOneGiven) {
  MakeJob("j", {1, 2});
  const auto all = [](const ClaimOffer&) { return std::vector<std::vector<size_t>>{{0, 1}}; };
  const auto leases = store().Claim(ctx(), Gathering("w1", {.task_bytes_max = 9, .choose = all}));
  ASSERT_TRUE(leases.ok() && leases->size() == 1);
  Settlement done = SupersededBy(leases->front(), "out", TaskState::kFinished);
  done.added[0].epoch = 7;
  ASSERT_EQ(CodeOf(store().Settle(ctx(), leases->front(), done)), "OK");
  EXPECT_EQ(Get("j", "out").epoch, 7u);
  EXPECT_EQ(Get("j", "out").winner, 7u);
  EXPECT_EQ(store().Attempts(ctx(), "j", "out")->at(0).epoch, 7u);
}

TEST_P(JobStoreContract, AnOutputThatExistsRefusesTheBatch) {
  MakeJob("j", {1, 2});
  MakeCompactReady(1);
  const Result<std::optional<Lease>> batch =
      store().ClaimBatch(ctx(), BatchOf("out"), TakeAllOfBatch);
  ASSERT_TRUE(batch.ok() && batch->has_value());
  EXPECT_EQ(CodeOf(store().Settle(ctx(), **batch, SupersededBy(**batch, "t1"))), "conflict");
  EXPECT_EQ(CountOf("j", TaskState::kCompacting), 2);
}

TEST_P(JobStoreContract, PartsRewrittenTogetherAreSupersededFromInProgress) {
  MakeJob("j", {1, 2});
  const auto all = [](const ClaimOffer&) { return std::vector<std::vector<size_t>>{{0, 1}}; };
  const auto leases = store().Claim(ctx(), Gathering("w1", {.task_bytes_max = 9, .choose = all}));
  ASSERT_TRUE(leases.ok() && leases->size() == 1);
  const Lease& both = leases->front();
  ASSERT_EQ(CodeOf(store().Settle(ctx(), both, SupersededBy(both, "out"))), "OK");
  EXPECT_EQ(CountOf("j", TaskState::kSuperseded), 2);
  EXPECT_GT(Get("j", "out").ready_at_ms, 0);
  EXPECT_GT(Get("j", "t0").ready_at_ms, 0);
}

TEST_P(JobStoreContract, AnExpiredBatchGoesBackToWaiting) {
  MakeJob("j", {1, 2});
  MakeCompactReady(1);
  BatchRequest request = BatchOf("out");
  request.lease_ms = 1000;
  const Result<std::optional<Lease>> batch = store().ClaimBatch(ctx(), request, TakeAllOfBatch);
  ASSERT_TRUE(batch.ok() && batch->has_value());
  Shift(10'000);
  EXPECT_EQ(*store().Reap(ctx(), ReapRules{.crashes_max = 1, .backoff_ms = 0}), 2);
  EXPECT_EQ(CountOf("j", TaskState::kCompactReady), 2);
  EXPECT_EQ(Get("j", "t0").winner, 1u);
  EXPECT_EQ(CodeOf(store().Settle(ctx(), **batch, SupersededBy(**batch, "out"))), "lease_lost");
}

TEST_P(JobStoreContract, AReleasedBatchKeepsItsWindowAndResult) {
  MakeJob("j", {1, 2});
  MakeCompactReady(1);
  const Task before = Get("j", "t0");
  Shift(5000);
  const Result<std::optional<Lease>> batch =
      store().ClaimBatch(ctx(), BatchOf("out"), TakeAllOfBatch);
  ASSERT_TRUE(batch.ok() && batch->has_value());
  ASSERT_EQ(CodeOf(store().Settle(
                ctx(), **batch, EndOf(**batch, TaskState::kCompacting, TaskState::kCompactReady))),
            "OK");
  const Task after = Get("j", "t0");
  EXPECT_EQ(after.state, TaskState::kCompactReady);
  EXPECT_EQ(after.ready_at_ms, before.ready_at_ms);
  EXPECT_EQ(after.winner, before.winner);
  EXPECT_EQ(after.rows_out, before.rows_out);
}

TEST_P(JobStoreContract, AFailedBatchCanGoBackToWaiting) {
  MakeJob("j", {1, 2});
  MakeCompactReady(1);
  const Result<std::optional<Lease>> batch =
      store().ClaimBatch(ctx(), BatchOf("out"), TakeAllOfBatch);
  ASSERT_TRUE(batch.ok() && batch->has_value());
  const int64_t ready_at_ms = Get("j", "t0").ready_at_ms;
  ASSERT_EQ(
      CodeOf(store().Settle(
          ctx(), **batch, EndOf(**batch, TaskState::kCompacting, TaskState::kFailed, "resource"))),
      "OK");
  EXPECT_EQ(CountOf("j", TaskState::kFailed), 2);
  Settlement retry;
  for (const char* id : {"t0", "t1"}) {
    TaskEdit& edit = retry.edits.emplace_back();
    edit.id = id;
    edit.from = TaskState::kFailed;
    edit.epoch = 2;
    edit.to = TaskState::kCompactReady;
  }
  ASSERT_EQ(CodeOf(store().Amend(ctx(), "j", retry)), "OK");
  EXPECT_EQ(Get("j", "t0").ready_at_ms, ready_at_ms);
  EXPECT_EQ(Get("j", "t0").winner, 1u);
}

TEST_P(JobStoreContract, FinalizeEndsAllWaiting) {
  MakeJob("j", {1, 2, 3});
  MakeCompactReady(2);
  EXPECT_EQ(*store().Finalize(ctx(), "j"), 3);
  EXPECT_EQ(*store().Finalize(ctx(), "j"), 0);
  EXPECT_EQ(CountOf("j", TaskState::kFinished), 3);
}

TEST_P(JobStoreContract, SupersededInputsCanBeSentBackToWaiting) {
  MakeJob("j", {1, 2});
  MakeCompactReady(1);
  const Result<std::optional<Lease>> batch =
      store().ClaimBatch(ctx(), BatchOf("out"), TakeAllOfBatch);
  ASSERT_TRUE(batch.ok() && batch->has_value());
  ASSERT_EQ(CodeOf(store().Settle(ctx(), **batch, SupersededBy(**batch, "out"))), "OK");
  Settlement reset;
  TaskEdit& edit = reset.edits.emplace_back();
  edit.id = "t0";
  edit.from = TaskState::kSuperseded;
  edit.epoch = 2;
  edit.to = TaskState::kCompactReady;
  ASSERT_EQ(CodeOf(store().Amend(ctx(), "j", reset)), "OK");
  EXPECT_EQ(Get("j", "t0").superseded_by, "");
  EXPECT_EQ(Get("j", "t0").winner, 1u);
}

}  // namespace
}  // namespace partforge::testing
