#include "job/postgres_db.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <latch>
#include <mutex>
#include <set>
#include <thread>

#include "job/migrations.h"
#include "job/sql_job_store.h"
#include "job/sql_statements.h"
#include "job/state_url.h"
#include "testing/postgres_server.h"

namespace partforge {
namespace {

using testing::FailNth;
using testing::NewSchemaName;
using testing::PostgresServer;
using testing::TestWorld;

constexpr SqlStatement kPutMeta = {"test_put_meta", "INSERT INTO meta (k, v) VALUES (:k, :v)"};
constexpr SqlStatement kGetMeta = {"test_get_meta", "SELECT v FROM meta WHERE k = :k"};
constexpr SqlStatement kSetMeta = {"test_set_meta", "UPDATE meta SET v = v || :v WHERE k = :k"};
constexpr SqlStatement kKillMe = {"test_kill_me", "SELECT pg_terminate_backend(pg_backend_pid())"};
constexpr SqlStatement kKillOthers = {
    "test_kill_others",
    "SELECT count(pg_terminate_backend(pid, 5000)) FROM pg_stat_activity WHERE datname = "
    "current_database() AND pid <> "
    "pg_backend_pid() AND application_name = 'partforge'"};
constexpr SqlStatement kForgeVersion = {
    "test_forge_version",
    "INSERT INTO migrations (version, name, applied_at) VALUES (:version, 'later', 0)"};
constexpr SqlStatement kCountMigrations = {"test_count_migrations",
                                           "SELECT count(*) FROM migrations"};
constexpr SqlStatement kAnalyze = {"test_analyze", "ANALYZE tasks"};

class PostgresDbTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!PostgresServer::Shared().has_value())
      GTEST_SKIP() << "no PostgreSQL server can be had here";
    options_.url = PostgresServer::Shared()->url();
    options_.schema = NewSchemaName();
  }

  std::unique_ptr<PostgresDb> OpenBare() {
    Result<std::unique_ptr<PostgresDb>> db = PostgresDb::Open(ctx_, options_);
    EXPECT_TRUE(db.ok()) << db.status().ToString();
    return std::move(db).value();
  }
  std::unique_ptr<PostgresDb> Open() {
    auto db = OpenBare();
    const Result<int64_t> applied = ApplyMigrations(ctx_, *db, options_.schema);
    EXPECT_TRUE(applied.ok()) << applied.status().ToString();
    return db;
  }
  StateStoreOptions StoreOptions(SchemaUse use) const {
    StateStoreOptions options;
    options.url = options_.url;
    options.schema = options_.schema;
    options.use = use;
    return options;
  }
  // A job of kind "k" with tasks of sizes 0, 1, 2, …
  void MakeJob(SqlJobStore& store, int tasks, const std::string& id = "j") {
    Plan plan;
    plan.job.id = id;
    plan.job.kind = "k";
    for (int i = 0; i < tasks; ++i) {
      Task& task = plan.tasks.emplace_back();
      task.id = fmt::format("t{:05}", i);
      task.kind = "k";
      task.size_bytes = i;
      task.payload = R"({"files":["data/part-00000.parquet","data/part-00001.parquet"]})";
    }
    const Result<JobId> made = store.CreateJob(ctx_, plan);
    ASSERT_TRUE(made.ok()) << made.status().ToString();
  }
  ClaimRequest Request(const std::string& worker) {
    ClaimRequest request;
    request.worker = worker;
    request.kinds = {"k"};
    return request;
  }

  // The plan of the claim of one task, behind `explain`; with ANALYZE it also claims.
  Result<SqlRows> ExplainClaim(SqlJobStore& store, const std::string& explain,
                               const std::string& job, int64_t serial) {
    const std::string text = explain + std::string(statements::kClaimPostgres.text);
    return store.db().RunAlone(ctx_, SqlStatement{"test_explain_claim", text},
                               {{"job", job},
                                {"kind", "k"},
                                {"size_max", INT64_MAX},
                                {"limit", 1},
                                {"owner", "w"},
                                {"token", "t"},
                                {"serial", serial},
                                {"lease_ms", 1},
                                {"slot", 1}});
  }

  TestWorld world_;
  Context ctx_ = world_.context();
  PostgresOptions options_;
};

TEST_F(PostgresDbTest, ASchemaNameThatIsNoNameIsRefused) {
  for (const char* name : {"", "A", "a-b", "a\"; DROP SCHEMA public; --", "1a"}) {
    options_.schema = name;
    const auto db = PostgresDb::Open(ctx_, options_);
    ASSERT_FALSE(db.ok()) << name;
    EXPECT_EQ(db.status().code(), Code::kInvalidArgument);
  }
}

TEST_F(PostgresDbTest, NoServerIsUnavailableAndAWrongDatabaseIsASetting) {
  options_.url = "postgresql://partforge@127.0.0.1:1/partforge";
  EXPECT_EQ(PostgresDb::Open(ctx_, options_).status().code(), Code::kUnavailable);
  const auto store = OpenJobStore(ctx_, StoreOptions(SchemaUse::kWrite));
  ASSERT_FALSE(store.ok());
  EXPECT_EQ(store.status().explanation().pf_number, 6001);
  options_.url = PostgresServer::Shared()->url() + "_that_is_not_there";
  EXPECT_EQ(PostgresDb::Open(ctx_, options_).status().code(), Code::kInvalidArgument);
}

// check: PF-6
TEST_F(PostgresDbTest, MigrateWorksOnAnEmptyAndOnAnUpToDateStore) {
  const Result<int64_t> first = MigrateStateStore(ctx_, StoreOptions(SchemaUse::kMigrate));
  ASSERT_TRUE(first.ok()) << first.status().ToString();
  EXPECT_EQ(*first, kSchemaVersion);
  EXPECT_EQ(*MigrateStateStore(ctx_, StoreOptions(SchemaUse::kMigrate)), 0);
}

TEST_F(PostgresDbTest, OnlyTheNamedCommandsMakeASchema) {
  for (const SchemaUse use : {SchemaUse::kRead, SchemaUse::kWrite}) {
    const auto store = OpenJobStore(ctx_, StoreOptions(use));
    ASSERT_FALSE(store.ok());
    EXPECT_EQ(store.status().code(), Code::kInvalidArgument);
    EXPECT_EQ(store.status().explanation().pf_number, 6003);
    EXPECT_NE(store.status().explanation().what_to_do.find("partforge migrate"), std::string::npos);
  }
  EXPECT_TRUE(OpenJobStore(ctx_, StoreOptions(SchemaUse::kCreate)).ok());
  EXPECT_TRUE(OpenJobStore(ctx_, StoreOptions(SchemaUse::kWrite)).ok());
}

TEST_F(PostgresDbTest, ANewerSchemaIsRefusedByEveryCommand) {
  const auto db = Open();
  ASSERT_TRUE(db->RunAlone(ctx_, kForgeVersion, {{"version", kSchemaVersion + 1}}).ok());
  for (const SchemaUse use :
       {SchemaUse::kRead, SchemaUse::kWrite, SchemaUse::kCreate, SchemaUse::kMigrate}) {
    const auto store = OpenJobStore(ctx_, StoreOptions(use));
    ASSERT_FALSE(store.ok());
    EXPECT_EQ(store.status().explanation().pf_number, 6002);
  }
}

// check: PF-7
TEST_F(PostgresDbTest, FourProcessesMigrateAtOnceAndEachMigrationIsAppliedOnce) {
  std::vector<pid_t> children;
  for (int i = 0; i < 4; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      TestWorld world;
      const Result<int64_t> applied =
          MigrateStateStore(world.context(), StoreOptions(SchemaUse::kMigrate));
      _exit(applied.ok() ? static_cast<int>(*applied) : 100);
    }
    children.push_back(child);
  }
  int applied = 0;
  for (const pid_t child : children) {
    int state = 0;
    ASSERT_EQ(waitpid(child, &state, 0), child);
    ASSERT_TRUE(WIFEXITED(state));
    EXPECT_NE(WEXITSTATUS(state), 100);
    applied += WEXITSTATUS(state);
  }
  EXPECT_EQ(applied, kSchemaVersion);
  EXPECT_EQ(OpenBare()->RunAlone(ctx_, kCountMigrations, {})->row(0).Int(0), kSchemaVersion);
}

TEST_F(PostgresDbTest, AConnectionLostInTheBodyIsUnavailableAndLeavesNothing) {
  const auto db = Open();
  const Status status = db->Write(ctx_, [](SqlSession& session) -> Status {
    PF_TRY(session.Run(kPutMeta, {{"k", "a"}, {"v", "1"}}));
    PF_TRY(session.Run(kKillMe, {}));
    return {};
  });
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.code(), Code::kUnavailable) << status.ToString();
  EXPECT_TRUE(db->RunAlone(ctx_, kGetMeta, {{"k", "a"}})->empty());  // on a new connection
}

TEST_F(PostgresDbTest, AConnectionLostAtCommitIsAnUnknownOutcome) {
  const auto db = Open();
  const Status status = db->Write(ctx_, [&](SqlSession& session) -> Status {
    PF_TRY(session.Run(kPutMeta, {{"k", "a"}, {"v", "1"}}));
    // Another session ends this one: it learns of that when it says COMMIT.
    const auto other = OpenBare();
    EXPECT_TRUE(other->RunAlone(ctx_, kKillOthers, {}).ok());
    return {};
  });
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.code(), Code::kUnknownOutcome) << status.ToString();
}

TEST_F(PostgresDbTest, ConnectionsThatDiedInThePoolAreReplaced) {
  const auto db = Open();
  ASSERT_TRUE(db->RunAlone(ctx_, kPutMeta, {{"k", "a"}, {"v", "1"}}).ok());
  ASSERT_TRUE(OpenBare()->RunAlone(ctx_, kKillOthers, {}).ok());
  const Status status = db->Write(ctx_, [](SqlSession& session) -> Status {
    PF_TRY(session.Run(kPutMeta, {{"k", "b"}, {"v", "1"}}));
    return {};
  });
  EXPECT_TRUE(status.ok()) << status.ToString();
}

TEST_F(PostgresDbTest, ADeadlockIsRunAgainWhole) {
  const auto db = Open();
  for (const char* key : {"a", "b"})
    ASSERT_TRUE(db->RunAlone(ctx_, kPutMeta, {{"k", key}, {"v", ""}}).ok());
  std::latch both_hold_one(2);
  std::vector<std::jthread> threads;
  for (const bool is_first : {true, false}) {
    threads.emplace_back([&, is_first] {
      bool is_first_try = true;
      const Status status = db->Write(ctx_, [&](SqlSession& session) -> Status {
        PF_TRY(session.Run(kSetMeta, {{"k", is_first ? "a" : "b"}, {"v", "x"}}));
        if (std::exchange(is_first_try, false)) both_hold_one.arrive_and_wait();
        PF_TRY(session.Run(kSetMeta, {{"k", is_first ? "b" : "a"}, {"v", "x"}}));
        return {};
      });
      EXPECT_TRUE(status.ok()) << status.ToString();
    });
  }
  threads.clear();
  EXPECT_EQ(db->RunAlone(ctx_, kGetMeta, {{"k", "a"}})->row(0).Text(0), "xx");
  EXPECT_EQ(db->RunAlone(ctx_, kGetMeta, {{"k", "b"}})->row(0).Text(0), "xx");
}

TEST_F(PostgresDbTest, TheStoresClockIsTheServersAndCanBeMoved) {
  const auto db = Open();
  const int64_t before_ms = db->RunAlone(ctx_, statements::kNow, {})->row(0).Int(0);
  EXPECT_LT(std::abs(before_ms - ctx_.clock.NowMs()), 60'000);
  db->ShiftClockMs(3'600'000);
  const int64_t after_ms = db->RunAlone(ctx_, statements::kNow, {})->row(0).Int(0);
  EXPECT_GE(after_ms - before_ms, 3'600'000);
  EXPECT_LT(after_ms - before_ms, 3'660'000);
}

// Draws the same number for each new serial, then others.
class StubbornRandom final : public Random {
 public:
  uint64_t Next() override { return ++calls_ <= 8 ? 12345 : 12345 + calls_; }

 private:
  uint64_t calls_ = 0;  // only one thread draws
};

TEST_F(PostgresDbTest, ASerialDrawnTwiceIsDrawnAgain) {
  SqlJobStore store(Open());
  MakeJob(store, 3);
  StubbornRandom random;
  const Context ctx = {ctx_.clock,   random,      ctx_.faults, ctx_.log,
                       ctx_.metrics, ctx_.memory, ctx_.stop};
  for (int i = 0; i < 3; ++i) {
    const Result<std::vector<Lease>> leases = store.Claim(ctx, Request("w"));
    ASSERT_TRUE(leases.ok()) << leases.status().ToString();
    EXPECT_EQ(leases->size(), 1u);
  }
}

// check: PF-8
TEST_F(PostgresDbTest, ClaimsPassALockedRowAndWaitForNothing) {
  const auto locker = Open();
  options_.connections_max = 32;
  SqlJobStore store(Open());
  MakeJob(store, 64);
  MakeJob(store, 3, "small");
  std::mutex mutex;
  std::vector<int64_t> sizes;
  std::vector<int64_t> took_ms;
  const Status status = locker->Write(ctx_, [&](SqlSession& session) -> Status {
    PF_TRY(session.Run(statements::kTaskForUpdate, {{"job", "j"}, {"task", "t00063"}}));
    PF_TRY(session.Run(statements::kTaskForUpdate, {{"job", "small"}, {"task", "t00002"}}));
    // The largest is locked: the next one is taken instead.
    ClaimRequest request = Request("first");
    request.only = {"small"};
    for (const int64_t size_bytes : {1, 0}) {
      const Result<std::vector<Lease>> next = store.Claim(ctx_, request);
      EXPECT_EQ(next->at(0).tasks[0].size_bytes, size_bytes);
    }
    EXPECT_TRUE(store.Claim(ctx_, request)->empty());
    std::vector<std::jthread> threads;
    for (int i = 0; i < 63; ++i) {
      threads.emplace_back([&, i] {
        ClaimRequest mine = Request(fmt::format("w{}", i));
        mine.only = {"j"};
        const int64_t start_ms = MonotonicMs();
        const Result<std::vector<Lease>> leases = store.Claim(ctx_, mine);
        const int64_t end_ms = MonotonicMs();
        ASSERT_TRUE(leases.ok()) << leases.status().ToString();
        ASSERT_EQ(leases->size(), 1u);
        const std::lock_guard lock(mutex);
        sizes.push_back(leases->at(0).tasks[0].size_bytes);
        took_ms.push_back(end_ms - start_ms);
      });
    }
    threads.clear();
    return {};
  });
  ASSERT_TRUE(status.ok()) << status.ToString();
  EXPECT_EQ(sizes.size(), 63u);
  const std::set<int64_t> distinct(sizes.begin(), sizes.end());
  EXPECT_EQ(distinct.size(), 63u);
  EXPECT_FALSE(distinct.contains(63));
  // A claim that waited for the row would have waited for the lock timeout of 10 s.
  EXPECT_LT(*std::max_element(took_ms.begin(), took_ms.end()), 9'000);
  EXPECT_EQ(store.Claim(ctx_, Request("last"))->at(0).tasks[0].size_bytes, 63);
}

// check: PF-51
TEST_F(PostgresDbTest, ClaimsOnTwentyThousandRowsWalkTheIndexWithoutASort) {
  SqlJobStore store(Open());
  MakeJob(store, 20'000);
  ASSERT_TRUE(store.db().RunAlone(ctx_, kAnalyze, {}).ok());
  const Result<SqlRows> plan = ExplainClaim(store, "EXPLAIN ", "j", 1);
  ASSERT_TRUE(plan.ok()) << plan.status().ToString();
  std::string pick;  // the part of the plan that chooses the rows
  bool is_pick = false;
  for (size_t i = 0; i < plan->size(); ++i) {
    const std::string line = plan->row(i).String(0);
    if (line.find("CTE ") != std::string::npos)
      is_pick = line.find("CTE pick") != std::string::npos;
    if (is_pick) pick += line + "\n";
  }
  EXPECT_NE(pick.find("Index Scan using tasks_claim"), std::string::npos) << pick;
  EXPECT_EQ(pick.find("Sort"), std::string::npos) << pick;

  // What a claim reads does not grow with the table: it visits the index from its end, and each of
  // 200 claims hands out the largest that is left.
  for (int64_t next_size = 20'000; next_size > 19'800;) {
    const Result<std::vector<Lease>> leases = store.Claim(ctx_, Request("w"));
    ASSERT_TRUE(leases.ok() && leases->size() == 1);
    EXPECT_EQ(leases->at(0).tasks[0].size_bytes, --next_size);
  }
}

// The rows and blocks that choosing one task reads, with `tasks` of them waiting.
struct PickWork {
  int64_t rows = 0, blocks = 0;
};
PickWork WorkOfPick(const SqlRows& plan) {
  // EXPLAIN (ANALYZE, BUFFERS) prints a node's line with "rows=…" twice, estimate and truth, and
  // below it "Buffers: shared hit=… read=…".
  PickWork work;
  bool is_scan = false;
  for (size_t i = 0; i < plan.size(); ++i) {
    const std::string line = plan.row(i).String(0);
    if (line.find("->") != std::string::npos)
      is_scan = line.find("Index Scan using tasks_claim") != std::string::npos;
    if (!is_scan) continue;
    if (const size_t at = line.find("actual "); at != std::string::npos)
      work.rows = std::stoll(line.substr(line.find("rows=", at) + 5));
    if (line.find("Buffers:") == std::string::npos) continue;
    for (const char* kind : {"hit=", "read="}) {
      if (const size_t at = line.find(kind); at != std::string::npos)
        work.blocks += std::stoll(line.substr(at + std::strlen(kind)));
    }
    is_scan = false;
  }
  return work;
}

TEST_F(PostgresDbTest, AClaimReadsTheSameFewBlocksOfATableTenTimesAsLarge) {
  const auto measure = [this](SqlJobStore& store, const std::string& job, int64_t serial) {
    EXPECT_TRUE(store.db().RunAlone(ctx_, kAnalyze, {}).ok());
    const Result<SqlRows> plan = ExplainClaim(store, "EXPLAIN (ANALYZE, BUFFERS) ", job, serial);
    EXPECT_TRUE(plan.ok()) << plan.status().ToString();
    return plan.ok() ? WorkOfPick(*plan) : PickWork();
  };
  SqlJobStore store(Open());
  MakeJob(store, 2'000);
  const PickWork small = measure(store, "j", 1);
  EXPECT_EQ(small.rows, 1);
  EXPECT_GE(small.blocks, 1);
  MakeJob(store, 20'000, "big");
  const PickWork large = measure(store, "big", 2);
  EXPECT_EQ(large.rows, 1);
  EXPECT_LE(large.blocks, small.blocks + 4);  // one more level of the index, not ten times as many
}

TEST_F(PostgresDbTest, ALostAnswerToAClaimLeavesALeaseThatRunsOut) {
  SqlJobStore store(Open());
  MakeJob(store, 1);
  FailNth lost(2, "job.postgres_ran_alone", Code::kUnknownOutcome);  // the first reads the heads
  world_.UseFaults(lost);
  const Context ctx = world_.context();
  EXPECT_EQ(store.Claim(ctx, Request("w")).status().code(), Code::kUnknownOutcome);
  EXPECT_EQ(store.GetTask(ctx_, "j", "t00000")->state, TaskState::kInProgress);
  store.db().ShiftClockMs(120'000);
  EXPECT_EQ(*store.Reap(ctx_, {}), 1);
  EXPECT_EQ(store.Claim(ctx_, Request("w"))->size(), 1u);
}

}  // namespace
}  // namespace partforge
