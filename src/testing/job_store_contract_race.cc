#include <fmt/format.h>

#include <atomic>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "testing/job_store_contract.h"

// Laws under concurrency: several clients, some of which stall and die, on handles of their own.
namespace partforge::testing {
namespace {

constexpr int kClients = 6;

// One client's own world and, where the store allows it, its own handle on the state.
struct Client {
  Client(StoreUnderTest& under_test, uint64_t seed) : random(seed) {
    if (under_test.open_another) own = under_test.open_another();
    store = own != nullptr ? own.get() : under_test.store.get();
  }
  SeededRandom random;
  std::unique_ptr<JobStore> own;
  JobStore* store = nullptr;
  bool Chance(uint64_t percent) { return RandomBelow(random, 100) < percent; }
};

// Runs `work` on kClients threads and waits for all.
void RunClients(StoreUnderTest& under_test, uint64_t seed,
                const std::function<void(Client&, int)>& work) {
  std::vector<std::jthread> threads;
  threads.reserve(kClients);
  for (int i = 0; i < kClients; ++i) {
    threads.emplace_back([&, i] {
      Client client(under_test, seed + static_cast<uint64_t>(i));
      work(client, i);
    });
  }
}

TEST_P(JobStoreContract, ParallelClaimsTakeEachTaskOnce) {
  MakeJob("j", std::vector<int64_t>(64, 1));
  std::mutex mutex;
  std::multiset<std::string> claimed;
  RunClients(under_test_, 1, [&](Client& client, int number) {
    ClaimRequest request;
    request.worker = fmt::format("w{}", number);
    request.kinds = {"test.copy"};
    while (true) {
      const Result<std::vector<Lease>> leases = client.store->Claim(ctx(), request);
      ASSERT_TRUE(leases.ok()) << leases.status().ToString();
      if (leases->empty()) return;
      const std::lock_guard lock(mutex);
      for (const Lease& lease : *leases) claimed.insert(lease.tasks[0].id);
    }
  });
  EXPECT_EQ(claimed.size(), 64u);
  EXPECT_EQ(std::set<std::string>(claimed.begin(), claimed.end()).size(), 64u);
}

TEST_P(JobStoreContract, ClaimSettleAndDieRaceFinishesEveryTaskOnce) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE(fmt::format("PARTFORGE_TEST_SEED={}", seed));
  constexpr int kTasks = 300;
  std::vector<int64_t> sizes;
  sizes.reserve(kTasks);
  for (int i = 0; i < kTasks; ++i) sizes.push_back(i % 17);
  MakeJob("j", sizes);
  std::atomic<int> finished = 0;
  std::mutex mutex;
  std::set<std::string> granted;  // (task, epoch)
  std::atomic<int> repeated = 0;
  RunClients(under_test_, seed, [&](Client& client, int number) {
    ClaimRequest request;
    request.worker = fmt::format("w{}", number);
    request.kinds = {"test.copy"};
    request.lease_ms = 20;
    while (finished < kTasks) {
      request.tasks_max = client.Chance(30) ? 4 : 1;
      const Result<std::vector<Lease>> leases = client.store->Claim(ctx(), request);
      ASSERT_TRUE(leases.ok()) << leases.status().ToString();
      if (leases->empty() || client.Chance(5)) {
        if (leases->empty()) Shift(25);
        const Result<int64_t> reaped =
            client.store->Reap(ctx(), ReapRules{.crashes_max = 1'000'000, .backoff_ms = 0});
        ASSERT_TRUE(reaped.ok()) << reaped.status().ToString();
      }
      for (const Lease& lease : *leases) {
        {
          const std::lock_guard lock(mutex);
          const std::string id = fmt::format("{}.{}", lease.tasks[0].id, lease.tasks[0].epoch);
          if (!granted.insert(id).second) ++repeated;
        }
        if (client.Chance(5)) continue;  // dies: its lease runs out
        const bool is_release = client.Chance(15);
        const Status settled = client.store->Settle(
            ctx(), lease,
            is_release ? EndOf(lease, TaskState::kInProgress, TaskState::kReady) : FinishOf(lease));
        if (settled.ok() && !is_release) ++finished;
        ASSERT_TRUE(settled.ok() || settled.code() == Code::kLeaseLost) << settled.ToString();
      }
    }
  });
  EXPECT_EQ(finished, kTasks);
  EXPECT_EQ(repeated, 0);
  EXPECT_EQ(CountOf("j", TaskState::kFinished), kTasks);
}

// Publishers that stall between any two steps. What the "target" sees is counted outside the store:
// an irreversible step may be repeated by protocol, but names are bound once and each piece is
// confirmed once.
TEST_P(JobStoreContract, PublishRaceBindsAndConfirmsEachCommitOnce) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE(fmt::format("PARTFORGE_TEST_SEED={}", seed));
  constexpr int kTasks = 60;
  MakeJob("j", std::vector<int64_t>(kTasks, 3));
  FinishAll();
  std::mutex mutex;
  std::map<std::string, int> decided, bound, confirmed, published;
  std::set<uint64_t> serials;
  std::atomic<int> cleaned = 0;
  const auto count = [&](std::map<std::string, int>& where, const std::string& id) {
    const std::lock_guard lock(mutex);
    ++where[id];
  };
  RunClients(under_test_, seed, [&](Client& client, int number) {
    const std::string owner = fmt::format("p{}", number);
    const auto is_expected = [](const Status& status) {
      return status.ok() || status.code() == Code::kLeaseLost || status.code() == Code::kConflict ||
             status.code() == Code::kNotFound;
    };
    int idle = 0;
    while (cleaned < kTasks && idle < 20'000) {
      ++idle;
      const int pick = static_cast<int>(RandomBelow(client.random, kTasks));
      const std::string task = fmt::format("t{}", pick);
      const std::string id = "c-" + task;
      // Two publishers propose the task under two ids: only one decision may stand.
      Commit proposal;
      proposal.id = client.Chance(50) ? id : id + "x";
      proposal.job = "j";
      proposal.kind = "test.copy";
      proposal.owner = owner;
      Chosen& chosen = proposal.chosen.emplace_back();
      chosen.task = task;
      Piece piece;
      piece.task = task;
      piece.epoch = 1;
      LockWish wish;
      wish.target = "table";
      wish.scope = fmt::format("{}", pick % 5);
      wish.is_exclusive = false;
      const Result<Commit> made =
          client.store->Decide(ctx(), proposal, std::span(&piece, 1), std::span(&wish, 1));
      if (!made.ok()) {
        ASSERT_EQ(made.status().code(), Code::kConflict) << made.status().ToString();
      }
      for (const std::string& commit_id : {id, id + "x"}) {
        const Result<Commit> fenced = client.store->Fence(
            ctx(), commit_id, owner, static_cast<int64_t>(RandomBelow(client.random, 50)));
        if (!fenced.ok()) {
          ASSERT_TRUE(is_expected(fenced.status())) << fenced.status().ToString();
          continue;
        }
        if (client.Chance(10)) Shift(60);  // stalls: somebody else may take over
        Commit commit = *fenced;
        std::vector<Piece> pieces = *client.store->Pieces(ctx(), commit_id);
        if (commit.state == CommitState::kDecided) {
          for (Piece& one : pieces) one.token = fmt::format("{}", commit.serial);
          const Status status =
              client.store->Advance(ctx(), commit, CommitState::kCommitting, "{}", pieces);
          ASSERT_TRUE(is_expected(status)) << status.ToString();
          if (!status.ok()) continue;
          count(bound, task);
          {
            const std::lock_guard lock(mutex);
            serials.insert(commit.serial);
          }
          commit.state = CommitState::kCommitting;
        }
        if (client.Chance(10)) continue;  // dies
        if (client.Chance(10)) Shift(60);
        if (commit.state == CommitState::kCommitting) {
          const Status sent = client.store->Mark(ctx(), commit, pieces, PieceState::kSent);
          ASSERT_TRUE(is_expected(sent)) << sent.ToString();
          if (!sent.ok() && sent.code() == Code::kLeaseLost) continue;
          if (client.Chance(10)) Shift(60);
          const Status confirm = client.store->Mark(ctx(), commit, pieces, PieceState::kConfirmed);
          ASSERT_TRUE(is_expected(confirm)) << confirm.ToString();
          if (!confirm.ok()) continue;
          count(confirmed, task);
          const Status done =
              client.store->Advance(ctx(), commit, CommitState::kPublished, "{}", {});
          ASSERT_TRUE(is_expected(done)) << done.ToString();
          if (!done.ok()) continue;
          count(published, task);
          commit.state = CommitState::kPublished;
        }
        if (commit.state != CommitState::kPublished) continue;
        const Status clean = client.store->Advance(ctx(), commit, CommitState::kCleaned, "{}", {});
        ASSERT_TRUE(is_expected(clean)) << clean.ToString();
        if (clean.ok()) ++cleaned;
      }
    }
  });
  EXPECT_EQ(cleaned, kTasks);
  EXPECT_EQ(bound.size(), static_cast<size_t>(kTasks));
  EXPECT_EQ(published.size(), static_cast<size_t>(kTasks));
  for (const auto& [task, times] : bound) EXPECT_EQ(times, 1) << task;
  for (const auto& [task, times] : published) EXPECT_EQ(times, 1) << task;
  EXPECT_EQ(serials.size(), static_cast<size_t>(kTasks));
  EXPECT_EQ(CountOf("j", TaskState::kImported), kTasks);
  // No lock is left.
  LockWish all;
  all.target = "table";
  all.scope = "*";
  EXPECT_EQ(CodeOf(store().Lock(ctx(), "j", "at-the-end", all)), "OK");
}

TEST_P(JobStoreContract, SettleAndReapRaceNeverBothWin) {
  constexpr int kTasks = 60;
  MakeJob("j", std::vector<int64_t>(kTasks, 1));
  std::vector<Lease> leases;
  ClaimRequest request;
  request.worker = "w";
  request.kinds = {"test.copy"};
  request.lease_ms = 1000;
  request.tasks_max = kTasks;
  const Result<std::vector<Lease>> claimed = store().Claim(ctx(), request);
  ASSERT_TRUE(claimed.ok() && claimed->size() == kTasks);
  Shift(10'000);
  std::atomic<int> settled = 0;
  std::atomic<int> reaped = 0;
  RunClients(under_test_, 7, [&](Client& client, int number) {
    if (number % 2 == 0) {
      const Result<int64_t> count = client.store->Reap(ctx(), {});
      ASSERT_TRUE(count.ok()) << count.status().ToString();
      reaped += static_cast<int>(*count);
      return;
    }
    for (size_t i = static_cast<size_t>(number); i < claimed->size(); i += 2) {
      const Status status = client.store->Settle(ctx(), claimed->at(i), FinishOf(claimed->at(i)));
      ASSERT_TRUE(status.ok() || status.code() == Code::kLeaseLost) << status.ToString();
      settled += status.ok() ? 1 : 0;
    }
  });
  EXPECT_EQ(settled + reaped, kTasks);
  EXPECT_EQ(CountOf("j", TaskState::kFinished), settled);
  EXPECT_EQ(CountOf("j", TaskState::kReady), reaped);
}

TEST_P(JobStoreContract, AbortAndDecideRaceHasOneWinner) {
  for (int round = 0; round < 10; ++round) {
    const std::string job = fmt::format("j{}", round);
    MakeJob(job, {1});
    FinishAll();
    std::atomic<int> won = 0;
    RunClients(under_test_, 11, [&](Client& client, int number) {
      Commit proposal;
      proposal.id = "c-" + job;
      proposal.job = job;
      Chosen& chosen = proposal.chosen.emplace_back();
      chosen.task = "t0";
      const std::string code = number == 0   ? CodeOf(client.store->AbortJob(ctx(), job))
                               : number == 1 ? CodeOf(client.store->Decide(ctx(), proposal, {}, {}))
                                             : "conflict";
      ASSERT_TRUE(code == "OK" || code == "conflict") << code;
      won += code == "OK" ? 1 : 0;
    });
    EXPECT_EQ(won, 1) << job;
  }
}

}  // namespace
}  // namespace partforge::testing
