#include <fmt/format.h>

#include <set>

#include "testing/job_store_contract.h"

// Laws of commits: the decision, fences, publication, locks, and things outside the store.
namespace partforge::testing {
namespace {

LockWish WishOf(const std::string& scope, bool is_exclusive, int64_t lease_ms = 0) {
  LockWish wish;
  wish.target = "table";
  wish.scope = scope;
  wish.is_exclusive = is_exclusive;
  wish.lease_ms = lease_ms;
  return wish;
}

Thing DirOf(const std::string& name) {
  Thing thing;
  thing.kind = "dir";
  thing.name = name;
  return thing;
}

Actor CommitActor(const Commit& fenced) {
  Actor actor;
  actor.job = fenced.job;
  actor.commit = fenced.id;
  actor.epoch = fenced.epoch;
  return actor;
}

// Two processes that publish one job into two targets: what the first has decided stands.
TEST_P(JobStoreContract, AllDecisionsOfAJobNameOneTarget) {
  MakeJob("j", {1, 1, 1});
  FinishAll();
  ASSERT_EQ(CodeOf(DecideTasks("c1", "j", {"t0"})), "OK");
  Commit elsewhere;
  elsewhere.id = "c2";
  elsewhere.job = "j";
  elsewhere.kind = "test.copy";
  elsewhere.target = "another";
  elsewhere.protocol = "COPY";
  elsewhere.chosen.push_back(Chosen{.task = "t1", .epoch = 1, .result = {}});
  const Status refused = store().Decide(ctx_, elsewhere, {}, {}).status();
  EXPECT_EQ(refused.code(), Code::kConflict) << refused.ToString();
  EXPECT_EQ(refused.explanation().pf_number, 2134);
  EXPECT_EQ(Get("j", "t1").state, TaskState::kFinished);
  EXPECT_EQ(CodeOf(DecideTasks("c3", "j", {"t1"})), "OK");
  // Taken back, none of them stands.
  for (const char* const id : {"c1", "c3"}) {
    const Result<Commit> fenced = store().Fence(ctx_, id, "p1", 60'000);
    ASSERT_EQ(CodeOf(fenced), "OK");
    ASSERT_TRUE(store().Advance(ctx_, *fenced, CommitState::kAborted, "{}", {}).ok());
  }
  EXPECT_EQ(CodeOf(store().Decide(ctx_, elsewhere, {}, {})), "OK");
}

TEST_P(JobStoreContract, ADecisionTakesItsTasksAndRemembersTheChoice) {
  MakeJob("j", {1, 2});
  FinishAll();
  const Result<Commit> decided = DecideTasks("c1", "j", {"t1", "t0"});
  ASSERT_EQ(CodeOf(decided), "OK");
  EXPECT_EQ(decided->state, CommitState::kDecided);
  EXPECT_EQ(decided->job, "j");
  EXPECT_EQ(decided->target, "target-j");
  EXPECT_EQ(decided->protocol, "COPY");
  EXPECT_EQ(decided->intent, R"({"uuid":"u"})");
  EXPECT_EQ(decided->epoch, 0u);
  EXPECT_GT(decided->decided_at_ms, 0);
  ASSERT_EQ(decided->chosen.size(), 2u);
  EXPECT_EQ(decided->chosen[0].task, "t0");
  EXPECT_EQ(decided->chosen[0].epoch, 1u);
  const TaskResult& result = decided->chosen[0].result;
  EXPECT_EQ(result.outputs, R"({"prefix":"p"})");
  EXPECT_EQ(result.rows_in, 12);
  EXPECT_EQ(result.rows_out, 10);
  EXPECT_EQ(result.bytes_in, 120);
  EXPECT_EQ(result.bytes_out, 100);
  EXPECT_EQ(result.digest, "d1");
  EXPECT_EQ(result.partition_id, "202401");
  EXPECT_EQ(CountOf("j", TaskState::kImporting), 2);
  EXPECT_EQ(Get("j", "t0").commit, "c1");
  EXPECT_EQ(AttemptStates("j", "t0"), (std::vector<std::string>{"CHOSEN"}));
  EXPECT_EQ(store().Pieces(ctx(), "c1")->size(), 2u);
  const Result<JobView> view = store().View(ctx(), "j");
  ASSERT_EQ(view->live_commits.size(), 1u);
  EXPECT_EQ(view->live_commits[0].chosen.size(), 2u);
}

TEST_P(JobStoreContract, DecidingTheSameIdAgainReturnsTheFirstDecision) {
  MakeJob("j", {1, 2});
  FinishAll();
  const std::vector<LockWish> locks = {WishOf("*", true)};
  ASSERT_EQ(CodeOf(DecideTasks("c1", "j", {"t0"}, locks)), "OK");
  const Result<Commit> again = DecideTasks("c1", "j", {"t0", "t1"}, locks);
  ASSERT_EQ(CodeOf(again), "OK");
  EXPECT_EQ(again->chosen.size(), 1u);
  EXPECT_EQ(Get("j", "t1").state, TaskState::kFinished);
  // Also after everything is over, and then without taking the locks again.
  Publish(FenceAndBind("c1", "p"));
  EXPECT_EQ(DecideTasks("c1", "j", {"t0"}, locks)->state, CommitState::kPublished);
  EXPECT_EQ(CodeOf(store().Lock(ctx(), "j", "other", WishOf("*", true, 1000))), "OK");
}

TEST_P(JobStoreContract, ATakenTaskIsNotDecidedTwice) {
  MakeJob("j", {1, 2});
  FinishAll();
  ASSERT_EQ(CodeOf(DecideTasks("c1", "j", {"t0"})), "OK");
  EXPECT_EQ(CodeOf(DecideTasks("c2", "j", {"t0", "t1"})), "conflict");
  EXPECT_EQ(CodeOf(store().GetCommit(ctx(), "c2")), "not_found");
  EXPECT_EQ(Get("j", "t1").state, TaskState::kFinished);
  Settlement reset;  // a task that is being published can't be reset
  TaskEdit& edit = reset.edits.emplace_back();
  edit.id = "t0";
  edit.from = TaskState::kImporting;
  edit.epoch = 1;
  edit.to = TaskState::kReady;
  EXPECT_EQ(CodeOf(store().Amend(ctx(), "j", reset)), "conflict");
}

TEST_P(JobStoreContract, ATaskThatIsNotFinishedByTheChosenAttemptIsNotDecided) {
  MakeJob("j", {1, 2});
  const Lease lease = ClaimOne();
  EXPECT_EQ(CodeOf(DecideTasks("c1", "j", {lease.tasks[0].id})), "conflict");
  ASSERT_EQ(CodeOf(store().Settle(ctx(), lease, FinishOf(lease))), "OK");
  Commit proposal;
  proposal.id = "c1";
  proposal.job = "j";
  Chosen& chosen = proposal.chosen.emplace_back();
  chosen.task = lease.tasks[0].id;
  chosen.epoch = 9;
  EXPECT_EQ(CodeOf(store().Decide(ctx(), proposal, {}, {})), "conflict");
  proposal.chosen[0].epoch = 0;  // the winner
  EXPECT_EQ(CodeOf(store().Decide(ctx(), proposal, {}, {})), "OK");
  proposal.job = "nobody";
  EXPECT_EQ(CodeOf(store().Decide(ctx(), proposal, {}, {})), "not_found");
}

TEST_P(JobStoreContract, AJobOnlyForCommandsIsDecidedWhenSealed) {
  MakeOpenJob("j", {1}, PublishMode::kCommand);
  FinishAll();
  EXPECT_EQ(CodeOf(DecideTasks("c1", "j", {"t0"})), "conflict");
  ASSERT_EQ(CodeOf(store().Seal(ctx(), "j", 1)), "OK");
  EXPECT_EQ(CodeOf(DecideTasks("c1", "j", {"t0"})), "OK");
}

TEST_P(JobStoreContract, ALoadIsDecidedWhole) {
  MakeJob("j", {1, 2}, PublishMode::kAsked);
  FinishAll();
  EXPECT_EQ(CodeOf(DecideTasks("j", "j", {"t0"})), "conflict");
  EXPECT_EQ(CodeOf(DecideTasks("j", "j", {"t0", "t1"})), "OK");
}

TEST_P(JobStoreContract, AJobWithACommitIsNotAborted) {
  MakeJob("j", {1});
  FinishAll();
  ASSERT_EQ(CodeOf(DecideTasks("c1", "j", {"t0"})), "OK");
  EXPECT_EQ(CodeOf(store().AbortJob(ctx(), "j")), "conflict");
}

TEST_P(JobStoreContract, AFenceExcludesAnotherOwnerUntilItsLeaseEnds) {
  MakeJob("j", {1});
  FinishAll();
  ASSERT_EQ(CodeOf(DecideTasks("c1", "j", {"t0"})), "OK");
  const Result<Commit> first = store().Fence(ctx(), "c1", "p1", 1000);
  ASSERT_EQ(CodeOf(first), "OK");
  EXPECT_EQ(first->epoch, 1u);
  EXPECT_EQ(first->owner, "p1");
  EXPECT_EQ(first->chosen.size(), 1u);
  EXPECT_EQ(CodeOf(store().Fence(ctx(), "c1", "p2", 1000)), "conflict");
  EXPECT_EQ(store().Fence(ctx(), "c1", "p1", 1000)->epoch, 2u);  // its own
  Shift(10'000);
  EXPECT_EQ(store().Fence(ctx(), "c1", "p2", 1000)->epoch, 3u);
  EXPECT_EQ(CodeOf(store().Hold(ctx(), *first, 1000)), "lease_lost");
  EXPECT_EQ(CodeOf(store().Fence(ctx(), "nothing", "p1", 1000)), "not_found");
}

TEST_P(JobStoreContract, AHeldFenceIsNotTaken) {
  MakeJob("j", {1});
  FinishAll();
  ASSERT_EQ(CodeOf(DecideTasks("c1", "j", {"t0"})), "OK");
  const Result<Commit> fenced = store().Fence(ctx(), "c1", "p1", 1000);
  ASSERT_EQ(CodeOf(store().Hold(ctx(), *fenced, 60'000)), "OK");
  Shift(10'000);
  EXPECT_EQ(CodeOf(store().Fence(ctx(), "c1", "p2", 1000)), "conflict");
}

TEST_P(JobStoreContract, TheSerialIsNewWhileDecidedAndStandsAfterwards) {
  MakeJob("j", {1});
  FinishAll();
  const Result<Commit> decided = DecideTasks("c1", "j", {"t0"});
  ASSERT_EQ(CodeOf(decided), "OK");
  std::set<uint64_t> serials = {decided->serial};
  for (int i = 0; i < 3; ++i) serials.insert(store().Fence(ctx(), "c1", "p1", 1000)->serial);
  EXPECT_EQ(serials.size(), 4u);
  for (const uint64_t serial : serials) {
    EXPECT_GT(serial, 0u);
    EXPECT_LT(serial, uint64_t{1} << 42);
  }
  const Commit bound = FenceAndBind("c1", "p1");
  EXPECT_EQ(store().Fence(ctx(), "c1", "p1", 1000)->serial, bound.serial);
  EXPECT_EQ(store().Fence(ctx(), "c1", "p1", 1000)->serial, bound.serial);
}

TEST_P(JobStoreContract, AFencedPublisherBindsConfirmsAndAnnouncesNothing) {
  MakeJob("j", {1});
  FinishAll();
  ASSERT_EQ(CodeOf(DecideTasks("c1", "j", {"t0"})), "OK");
  const Result<Commit> old = store().Fence(ctx(), "c1", "p1", 1000);
  ASSERT_EQ(CodeOf(old), "OK");
  Shift(10'000);
  const Commit bound = FenceAndBind("c1", "p2");
  ASSERT_EQ(bound.state, CommitState::kCommitting);
  const Result<std::vector<Piece>> pieces = store().Pieces(ctx(), "c1");
  EXPECT_EQ(CodeOf(store().Advance(ctx(), *old, CommitState::kCommitting, "{}", *pieces)),
            "lease_lost");
  Commit zombie = *old;
  zombie.state = CommitState::kCommitting;
  EXPECT_EQ(CodeOf(store().Mark(ctx(), zombie, *pieces, PieceState::kSent)), "lease_lost");
  EXPECT_EQ(CodeOf(store().Advance(ctx(), zombie, CommitState::kPublished, "{}", {})),
            "lease_lost");
  EXPECT_EQ(CodeOf(store().Advance(ctx(), zombie, CommitState::kAborted, "{}", {})), "lease_lost");
  EXPECT_EQ(CodeOf(store().Doubt(ctx(), zombie, "?")), "lease_lost");
  EXPECT_EQ(CodeOf(store().Intend(ctx(), CommitActor(*old), DirOf("pftmp_1"))), "lease_lost");
  EXPECT_EQ(store().GetCommit(ctx(), "c1")->staged, R"({"names":"bound"})");
  EXPECT_EQ(store().Pieces(ctx(), "c1")->at(0).state, PieceState::kStaged);
}

TEST_P(JobStoreContract, ABindFixesTheNames) {
  MakeJob("j", {1});
  FinishAll();
  ASSERT_EQ(CodeOf(DecideTasks("c1", "j", {"t0"})), "OK");
  const Commit fenced = *store().Fence(ctx(), "c1", "p1", 60'000);
  std::vector<Piece> pieces = *store().Pieces(ctx(), "c1");
  pieces[0].token = "tok";
  pieces[0].dev = 0xFFFFFFFFFFFFFFFFu;
  pieces[0].ino = 12;
  ASSERT_EQ(CodeOf(store().Advance(ctx(), fenced, CommitState::kCommitting, R"({"n":1})", pieces)),
            "OK");
  // The same fence in its old state is not the commit any more.
  EXPECT_EQ(CodeOf(store().Advance(ctx(), fenced, CommitState::kCommitting, R"({"n":2})", pieces)),
            "lease_lost");
  const Result<Commit> bound = store().GetCommit(ctx(), "c1");
  EXPECT_EQ(bound->staged, R"({"n":1})");
  const Piece piece = store().Pieces(ctx(), "c1")->at(0);
  EXPECT_EQ(piece.token, "tok");
  EXPECT_EQ(piece.dev, 0xFFFFFFFFFFFFFFFFu);
  EXPECT_EQ(piece.ino, 12u);
  EXPECT_EQ(piece.partition, "202401");
  EXPECT_EQ(piece.rows, 10);
  EXPECT_EQ(piece.bytes, 100);
}

TEST_P(JobStoreContract, ARebindReplacesNamesAndCutsPiecesAnew) {
  MakeJob("j", {1});
  FinishAll();
  ASSERT_EQ(CodeOf(DecideTasks("c1", "j", {"t0"})), "OK");
  const Commit bound = FenceAndBind("c1", "p1");
  std::vector<Piece> pieces = *store().Pieces(ctx(), "c1");
  ASSERT_EQ(CodeOf(store().Mark(ctx(), bound, pieces, PieceState::kSent)), "OK");
  ASSERT_EQ(CodeOf(store().Mark(ctx(), bound, pieces, PieceState::kSuppressed)), "OK");
  pieces[0].state = PieceState::kReplaced;
  for (const int64_t number : {1, 2}) {
    Piece cut = pieces[0];
    cut.number = number;
    cut.state = PieceState::kStaged;
    cut.token = fmt::format("cut_{}", number);
    pieces.push_back(cut);
  }
  ASSERT_EQ(CodeOf(store().Advance(ctx(), bound, CommitState::kCommitting, R"({"names":"again"})",
                                   pieces)),
            "OK");
  const std::vector<Piece> now = *store().Pieces(ctx(), "c1");
  ASSERT_EQ(now.size(), 3u);
  EXPECT_EQ(now[0].state, PieceState::kReplaced);
  EXPECT_EQ(now[1].state, PieceState::kStaged);
  EXPECT_EQ(now[2].token, "cut_2");
  EXPECT_EQ(store().GetCommit(ctx(), "c1")->staged, R"({"names":"again"})");
  const std::vector<Piece> fresh(now.begin() + 1, now.end());
  ASSERT_EQ(CodeOf(store().Mark(ctx(), bound, fresh, PieceState::kSent)), "OK");
  // Pieces that were sent cannot be given other names.
  EXPECT_EQ(CodeOf(store().Advance(ctx(), bound, CommitState::kCommitting, "{}", fresh)),
            "conflict");
  ASSERT_EQ(CodeOf(store().Mark(ctx(), bound, fresh, PieceState::kConfirmed)), "OK");
  EXPECT_EQ(CodeOf(store().Advance(ctx(), bound, CommitState::kPublished, "{}", {})), "OK");
}

TEST_P(JobStoreContract, PiecesGoForwardOnly) {
  MakeJob("j", {1});
  FinishAll();
  ASSERT_EQ(CodeOf(DecideTasks("c1", "j", {"t0"})), "OK");
  const Result<Commit> fenced = store().Fence(ctx(), "c1", "p1", 60'000);
  const std::vector<Piece> pieces = *store().Pieces(ctx(), "c1");
  EXPECT_EQ(CodeOf(store().Mark(ctx(), *fenced, pieces, PieceState::kSent)),
            "conflict");  // nothing is bound
  const Commit bound = FenceAndBind("c1", "p1");
  EXPECT_EQ(CodeOf(store().Mark(ctx(), bound, pieces, PieceState::kSent)), "OK");
  EXPECT_EQ(CodeOf(store().Mark(ctx(), bound, pieces, PieceState::kSent)), "OK");  // said before
  EXPECT_EQ(CodeOf(store().Mark(ctx(), bound, pieces, PieceState::kConfirmed)), "OK");
  EXPECT_EQ(CodeOf(store().Mark(ctx(), bound, pieces, PieceState::kSent)), "conflict");
  EXPECT_EQ(CodeOf(store().Mark(ctx(), bound, pieces, PieceState::kReplaced)), "conflict");
  Piece unknown = pieces[0];
  unknown.number = 77;
  EXPECT_EQ(CodeOf(store().Mark(ctx(), bound, std::span(&unknown, 1), PieceState::kSent)),
            "conflict");
}

TEST_P(JobStoreContract, PublishingNeedsEveryPieceConfirmedAndMovesTheTasks) {
  MakeJob("j", {1, 2});
  FinishAll();
  const std::vector<LockWish> locks = {WishOf("202401", true)};
  ASSERT_EQ(CodeOf(DecideTasks("c1", "j", {"t0", "t1"}, locks)), "OK");
  const Commit bound = FenceAndBind("c1", "p1");
  const std::vector<Piece> pieces = *store().Pieces(ctx(), "c1");
  ASSERT_EQ(CodeOf(store().Mark(ctx(), bound, pieces, PieceState::kSent)), "OK");
  ASSERT_EQ(CodeOf(store().Mark(ctx(), bound, std::span(pieces).first(1), PieceState::kConfirmed)),
            "OK");
  EXPECT_EQ(CodeOf(store().Advance(ctx(), bound, CommitState::kPublished, "{}", {})), "conflict");
  EXPECT_EQ(CountOf("j", TaskState::kImporting), 2);
  EXPECT_EQ(CodeOf(store().Lock(ctx(), "j", "other", WishOf("202401", true, 1000))), "conflict");
  ASSERT_EQ(CodeOf(store().Mark(ctx(), bound, pieces, PieceState::kConfirmed)), "OK");
  ASSERT_EQ(CodeOf(store().Advance(ctx(), bound, CommitState::kPublished, R"({"rows":20})", {})),
            "OK");
  EXPECT_EQ(CountOf("j", TaskState::kImported), 2);
  const Result<Commit> published = store().GetCommit(ctx(), "c1");
  EXPECT_EQ(published->state, CommitState::kPublished);
  EXPECT_EQ(published->evidence, R"({"rows":20})");
  EXPECT_GT(published->published_at_ms, 0);
  EXPECT_EQ(CodeOf(store().Lock(ctx(), "j", "other", WishOf("202401", true, 1000))),
            "OK");  // released
}

TEST_P(JobStoreContract, CleanIsRefusedWhileAThingIsLeft) {
  MakeJob("j", {1});
  FinishAll();
  ASSERT_EQ(CodeOf(DecideTasks("c1", "j", {"t0"})), "OK");
  Commit commit = FenceAndBind("c1", "p1");
  const Result<Thing> dir = store().Intend(ctx(), CommitActor(commit), DirOf("pftmp_1"));
  ASSERT_EQ(CodeOf(dir), "OK");
  EXPECT_EQ(CodeOf(store().Advance(ctx(), commit, CommitState::kCleaned, "{}", {})), "conflict");
  Publish(commit);
  commit = *store().GetCommit(ctx(), "c1");
  EXPECT_EQ(CodeOf(store().Advance(ctx(), commit, CommitState::kCleaned, "{}", {})), "conflict");
  Thing gone = *dir;
  gone.state = "GONE";
  ASSERT_EQ(CodeOf(store().SetThing(ctx(), *dir, gone)), "OK");
  ASSERT_EQ(CodeOf(store().Advance(ctx(), commit, CommitState::kCleaned, "{}", {})), "OK");
  const Result<Commit> cleaned = store().GetCommit(ctx(), "c1");
  EXPECT_EQ(cleaned->state, CommitState::kCleaned);
  EXPECT_TRUE(cleaned->is_cleaned);
  EXPECT_TRUE(store().View(ctx(), "j")->live_commits.empty());
  EXPECT_EQ(CodeOf(store().Fence(ctx(), "c1", "p2", 1000)), "not_found");
  EXPECT_TRUE(store().OpenJobs(ctx())->empty());
}

TEST_P(JobStoreContract, AnAbortFromDecidedGivesTheTasksBack) {
  MakeJob("j", {1, 2});
  FinishAll();
  const std::vector<LockWish> locks = {WishOf("*", true)};
  ASSERT_EQ(CodeOf(DecideTasks("c1", "j", {"t0", "t1"}, locks)), "OK");
  const Result<Commit> fenced = store().Fence(ctx(), "c1", "p1", 60'000);
  ASSERT_EQ(
      CodeOf(store().Advance(ctx(), *fenced, CommitState::kAborted, R"({"why":"moved"})", {})),
      "OK");
  EXPECT_EQ(CountOf("j", TaskState::kFinished), 2);
  EXPECT_EQ(Get("j", "t0").commit, "");
  EXPECT_EQ(AttemptStates("j", "t0"), (std::vector<std::string>{"FINISHED"}));
  EXPECT_EQ(CodeOf(store().Lock(ctx(), "j", "other", WishOf("*", true, 1000))), "OK");
  Commit aborted = *store().GetCommit(ctx(), "c1");
  EXPECT_EQ(aborted.state, CommitState::kAborted);
  EXPECT_FALSE(aborted.is_cleaned);
  EXPECT_EQ(CodeOf(store().Advance(ctx(), aborted, CommitState::kAborted, "{}", {})), "conflict");
  ASSERT_EQ(CodeOf(store().Advance(ctx(), aborted, CommitState::kCleaned, "{}", {})), "OK");
  aborted = *store().GetCommit(ctx(), "c1");
  EXPECT_EQ(aborted.state, CommitState::kAborted);
  EXPECT_TRUE(aborted.is_cleaned);
  // The tasks can be decided again.
  ASSERT_EQ(CodeOf(store().Unlock(ctx(), "other")), "OK");
  EXPECT_EQ(CodeOf(DecideTasks("c2", "j", {"t0", "t1"}, locks)), "OK");
}

TEST_P(JobStoreContract, AnAbortForABadArtifactFailsItsTask) {
  MakeJob("j", {1});
  FinishAll();
  ASSERT_EQ(CodeOf(DecideTasks("c1", "j", {"t0"})), "OK");
  const Commit bound = FenceAndBind("c1", "p1");
  ASSERT_EQ(CodeOf(store().Advance(
                ctx(), bound, CommitState::kAborted,
                R"({"failure_class":"data","failure_code":246,"error":"bad bytes"})", {})),
            "OK");
  const Task failed = Get("j", "t0");
  EXPECT_EQ(failed.state, TaskState::kFailed);
  EXPECT_EQ(failed.failure_class, "data");
  EXPECT_EQ(failed.failure_code, 246);
  EXPECT_NE(failed.payload.find("bad bytes"), std::string::npos) << failed.payload;
  Settlement retry;
  TaskEdit& edit = retry.edits.emplace_back();
  edit.id = "t0";
  edit.from = TaskState::kFailed;
  edit.epoch = failed.epoch;
  edit.to = TaskState::kFinished;
  ASSERT_EQ(CodeOf(store().Amend(ctx(), "j", retry)), "OK");
  EXPECT_EQ(CodeOf(DecideTasks("c2", "j", {"t0"})), "OK");
}

TEST_P(JobStoreContract, ALoadIsNotAbortedAfterItsDecision) {
  MakeJob("j", {1}, PublishMode::kAsked);
  FinishAll();
  ASSERT_EQ(CodeOf(DecideTasks("j", "j", {"t0"})), "OK");
  const Result<Commit> fenced = store().Fence(ctx(), "j", "p1", 60'000);
  EXPECT_EQ(CodeOf(store().Advance(ctx(), *fenced, CommitState::kAborted, "{}", {})), "refused");
  EXPECT_EQ(CountOf("j", TaskState::kImporting), 1);
}

TEST_P(JobStoreContract, ADoubtIsKeptUntilTheNextStep) {
  MakeJob("j", {1});
  FinishAll();
  ASSERT_EQ(CodeOf(DecideTasks("c1", "j", {"t0"})), "OK");
  const Commit bound = FenceAndBind("c1", "p1");
  ASSERT_EQ(CodeOf(store().Doubt(ctx(), bound, "old statement still running")), "OK");
  EXPECT_EQ(store().GetCommit(ctx(), "c1")->in_doubt, "old statement still running");
  Publish(bound);
  EXPECT_EQ(store().GetCommit(ctx(), "c1")->in_doubt, "");
}

TEST_P(JobStoreContract, SharedLocksGoTogetherAndExclusiveOnesAlone) {
  MakeOpenJob("j", {});
  EXPECT_EQ(CodeOf(store().Lock(ctx(), "j", "a", WishOf("p1", false))), "OK");
  EXPECT_EQ(CodeOf(store().Lock(ctx(), "j", "b", WishOf("p1", false))), "OK");
  EXPECT_EQ(CodeOf(store().Lock(ctx(), "j", "c", WishOf("p1", true))), "conflict");
  EXPECT_EQ(CodeOf(store().Lock(ctx(), "j", "c", WishOf("p2", true))), "OK");  // another partition
  EXPECT_EQ(CodeOf(store().Lock(ctx(), "j", "d", WishOf("*", true))),
            "conflict");  // the whole table
  EXPECT_EQ(CodeOf(store().Lock(ctx(), "j", "d", WishOf("@import", true))),
            "OK");  // no partition at all
  EXPECT_EQ(CodeOf(store().Lock(ctx(), "j", "e", WishOf("@import", true))), "conflict");
  for (const char* holder : {"a", "b", "c"}) ASSERT_EQ(CodeOf(store().Unlock(ctx(), holder)), "OK");
  EXPECT_EQ(CodeOf(store().Lock(ctx(), "j", "e", WishOf("*", true))), "OK");
  EXPECT_EQ(CodeOf(store().Lock(ctx(), "j", "a", WishOf("p1", false))), "conflict");
  LockWish elsewhere = WishOf("p1", true);
  elsewhere.target = "another table";
  EXPECT_EQ(CodeOf(store().Lock(ctx(), "j", "a", elsewhere)), "OK");
}

TEST_P(JobStoreContract, ACommandsLockEndsWithItsLease) {
  MakeOpenJob("j", {});
  ASSERT_EQ(CodeOf(store().Lock(ctx(), "j", "a", WishOf("@import", true, 1000))), "OK");
  Shift(900);
  ASSERT_EQ(CodeOf(store().Lock(ctx(), "j", "a", WishOf("@import", true, 1000))), "OK");  // renews
  Shift(900);
  EXPECT_EQ(CodeOf(store().Lock(ctx(), "j", "b", WishOf("@import", true, 1000))), "conflict");
  Shift(1000);
  EXPECT_EQ(CodeOf(store().Lock(ctx(), "j", "b", WishOf("@import", true, 1000))), "OK");
}

TEST_P(JobStoreContract, ADecisionWhoseLockIsTakenChangesNothing) {
  MakeJob("j", {1, 2});
  FinishAll();
  const std::vector<LockWish> first = {WishOf("p2", true)};
  const std::vector<LockWish> second = {WishOf("p1", false), WishOf("p2", false)};
  ASSERT_EQ(CodeOf(DecideTasks("c1", "j", {"t0"}, first)), "OK");
  EXPECT_EQ(CodeOf(DecideTasks("c2", "j", {"t1"}, second)), "conflict");
  EXPECT_EQ(Get("j", "t1").state, TaskState::kFinished);
  EXPECT_EQ(CodeOf(store().Lock(ctx(), "j", "other", WishOf("p1", true))),
            "OK");  // not kept from the failed one
}

TEST_P(JobStoreContract, AThingIsAnnouncedOnceAndMovesByCompareAndSet) {
  MakeJob("j", {1});
  const Lease lease = ClaimOne();
  Actor actor;
  actor.job = "j";
  actor.task = "t0";
  actor.epoch = 1;
  actor.token = lease.token;
  Thing wish = DirOf("pfs_1");
  wish.shard = 2;
  const Result<Thing> intended = store().Intend(ctx(), actor, wish);
  ASSERT_EQ(CodeOf(intended), "OK");
  EXPECT_GT(intended->id, 0);
  EXPECT_EQ(intended->state, "INTENT");
  EXPECT_EQ(store().Intend(ctx(), actor, wish)->id, intended->id);  // its answer was lost
  Thing live = *intended;
  live.state = "LIVE";
  live.uuid = "u1";
  live.name = "pfz_1";  // a rename: the row follows
  ASSERT_EQ(CodeOf(store().SetThing(ctx(), *intended, live)), "OK");
  EXPECT_EQ(CodeOf(store().SetThing(ctx(), *intended, live)), "conflict");
  const Result<std::vector<Thing>> things = store().Things(ctx(), "j");
  ASSERT_EQ(things->size(), 1u);
  EXPECT_EQ(things->at(0).name, "pfz_1");
  EXPECT_EQ(things->at(0).uuid, "u1");
  EXPECT_EQ(things->at(0).state, "LIVE");
  EXPECT_EQ(things->at(0).shard, 2);
}

TEST_P(JobStoreContract, AThingOfAnotherActorIsNotAnnouncedAgain) {
  MakeJob("j", {1, 2});
  const std::vector<Lease> leases = ClaimMany("w", 2);
  ASSERT_EQ(leases.size(), 2u);
  std::vector<std::string> codes;
  for (const Lease& lease : leases) {
    Actor actor;
    actor.job = "j";
    actor.task = lease.tasks[0].id;
    actor.epoch = 1;
    actor.token = lease.token;
    codes.push_back(CodeOf(store().Intend(ctx(), actor, DirOf("same"))));
  }
  EXPECT_EQ(codes, (std::vector<std::string>{"OK", "already_exists"}));
}

TEST_P(JobStoreContract, ALostAttemptAnnouncesNothing) {
  MakeJob("j", {1});
  const Lease lease = ClaimOne();
  ASSERT_EQ(
      CodeOf(store().Settle(ctx(), lease, EndOf(lease, TaskState::kInProgress, TaskState::kReady))),
      "OK");
  Actor actor;
  actor.job = "j";
  actor.task = "t0";
  actor.epoch = 1;
  actor.token = lease.token;
  EXPECT_EQ(CodeOf(store().Intend(ctx(), actor, DirOf("pfs_1"))), "lease_lost");
  EXPECT_TRUE(store().Things(ctx(), "j")->empty());
}

}  // namespace
}  // namespace partforge::testing
