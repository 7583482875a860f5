#include "engine/child_engine.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "base/files.h"
#include "base/http_client.h"
#include "engine/clickhouse_codes.h"
#include "engine/http_engine.h"
#include "testing/engine_child_fixture.h"

namespace partforge {
namespace {

using testing::EngineChildOptions;
using testing::ReadAll;
using testing::StringRows;
using testing::TempDir;
using testing::TestWorld;

// One engine for the tests that leave it as it was.
class ChildEngineTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    shared_world = std::make_unique<TestWorld>();
    shared_dir = std::make_unique<TempDir>();
    ChildEngineOptions options = EngineChildOptions(*shared_dir / "data");
    options.config["max_server_memory_usage"] = "2000000000";
    auto engine = ChildEngine::Start(shared_world->context(), options);
    ASSERT_TRUE(engine.ok()) << engine.status().ToString();
    shared_engine = std::move(engine).value();
  }
  static void TearDownTestSuite() {
    shared_engine.reset();
    shared_dir.reset();
    shared_world.reset();
  }

  Context ctx() { return shared_world->context(); }
  ChildEngine& engine() { return *shared_engine; }

  std::string Ask(const std::string& sql, const QueryOptions& options = {}) {
    const auto outcome = engine().Query(ctx(), sql, options);
    EXPECT_TRUE(outcome.ok()) << sql << "\n" << outcome.status().ToString();
    return outcome.ok() ? outcome->text : "";
  }
  Status Fail(const std::string& sql, const QueryOptions& options = {}) {
    auto outcome = engine().Query(ctx(), sql, options);
    EXPECT_FALSE(outcome.ok()) << sql;
    return outcome.ok() ? Status(Code::kInternal, "it worked") : std::move(outcome).status();
  }

  static std::unique_ptr<TestWorld> shared_world;
  static std::unique_ptr<TempDir> shared_dir;
  static std::unique_ptr<ChildEngine> shared_engine;
};
std::unique_ptr<TestWorld> ChildEngineTest::shared_world;
std::unique_ptr<TempDir> ChildEngineTest::shared_dir;
std::unique_ptr<ChildEngine> ChildEngineTest::shared_engine;

TEST_F(ChildEngineTest, AnswersWithVersionAndUtc) {
  EXPECT_EQ(Ask("SELECT timezone(), 1 + 1"), "UTC\t2\n");
  EXPECT_FALSE(engine().version().empty());
  EXPECT_EQ(engine().data_path(), *shared_dir / "data");
}

TEST_F(ChildEngineTest, ErrorsCarryNumberAndClass) {
  const Status unknown = Fail("SELECT * FROM no.such");
  EXPECT_EQ(ClickHouseNumber(unknown), 81);
  EXPECT_EQ(unknown.code(), Code::kNotFound);
  EXPECT_EQ(ClickHouseNumber(Fail("SELEC 1 FROM")), 62);
  EXPECT_EQ(FailureClassOf(Fail("SELECT throwIf(1)")), FailureClass::kData);
  EXPECT_EQ(ClickHouseNumber(Fail("SELECT 1", {.settings = {{"no_such_setting", "1"}}})), 115);
  EXPECT_EQ(Ask("SELECT 1"), "1\n");
}

TEST_F(ChildEngineTest, SeveralStatementsAreRefusedBeforeTheFirstRuns) {
  EXPECT_EQ(ClickHouseNumber(Fail("CREATE DATABASE several; SELECT 1")), 62);
  EXPECT_EQ(ClickHouseNumber(Fail("CREATE DATABASE several; not sql")), 62);
  EXPECT_EQ(Ask("SELECT count() FROM system.databases WHERE name = 'several'"), "0\n");
  EXPECT_EQ(Ask("SELECT 1; -- only a comment behind"), "1\n");
}

TEST_F(ChildEngineTest, FilesNetworkAndProgramsAreOutOfReach) {
  EXPECT_EQ(ClickHouseNumber(Fail("SELECT * FROM file('/etc/hostname', LineAsString)")), 497);
  EXPECT_EQ(ClickHouseNumber(Fail("SELECT * FROM default.`/etc/hostname`")), 497);
  EXPECT_EQ(ClickHouseNumber(Fail("SELECT * FROM url('http://127.0.0.1:1/', LineAsString)")), 497);
  EXPECT_EQ(ClickHouseNumber(Fail("SELECT * FROM remote('127.0.0.1:1', system.one)")), 497);
  EXPECT_EQ(ClickHouseNumber(Fail("INSERT INTO FUNCTION file('/tmp/x', 'CSV', 'a Int8') SELECT 1")),
            497);
  EXPECT_EQ(ClickHouseNumber(Fail("SELECT 1 INTO OUTFILE '/tmp/x'")), 344);
  const auto refused = [this](const std::string& sql) {
    EXPECT_FALSE(engine().Query(ctx(), sql, {}).ok()) << sql;
  };
  refused("SELECT * FROM executable('x', 'TSV', 'a Int8')");
  refused("CREATE TABLE default.f (a Int8) ENGINE = File('CSV', '/tmp/x')");
  refused("CREATE TABLE default.f (a Int8) ENGINE = URL('http://127.0.0.1:1/', 'CSV')");
  refused("CREATE DATABASE f ENGINE = Filesystem('/')");
  refused("CREATE USER u");
  refused("SYSTEM SHUTDOWN");
}

TEST_F(ChildEngineTest, SettingsParametersAndDatabaseHoldForOneQuery) {
  EXPECT_EQ(Ask("SELECT getSetting('max_threads')", {.settings = {{"max_threads", "3"}}}), "3\n");
  EXPECT_NE(Ask("SELECT getSetting('max_threads')"), "3\n");
  EXPECT_EQ(Ask("SELECT {n:UInt8} + 1, {s:String}", {.parameters = {{"n", "41"}, {"s", "it's"}}}),
            "42\tit\\'s\n");
  EXPECT_EQ(Ask("SELECT currentDatabase()", {.database = "system"}), "system\n");
  EXPECT_EQ(ClickHouseNumber(Fail("SELECT 1", {.database = "none"})), 81);
}

TEST_F(ChildEngineTest, InsertAndSelectStreamWithBoundedMemory) {
  Ask("CREATE DATABASE IF NOT EXISTS s");
  Ask("CREATE TABLE s.t (a UInt64, b String) ENGINE = MergeTree ORDER BY a");
  class Rows final : public RowStream {
   public:
    Result<std::optional<std::string>> NextBlock(const Context&) override {
      if (next_ >= 4'000'000) return std::optional<std::string>();
      std::string block;
      for (const int64_t end = next_ + 10'000; next_ < end; ++next_) {
        block +=
            std::to_string(next_) + "\tsome text that takes its room, more than a number does\n";
      }
      return std::optional<std::string>(std::move(block));
    }

   private:
    int64_t next_ = 0;
  } rows;
  const auto outcome = engine().Insert(ctx(), "INSERT INTO s.t FORMAT TabSeparated", rows, {});
  ASSERT_TRUE(outcome.ok()) << outcome.status().ToString();
  EXPECT_EQ(outcome->written_rows, 4'000'000);

  auto stream = engine().Select(ctx(), "SELECT a, b FROM s.t", "RowBinary", {});
  ASSERT_TRUE(stream.ok()) << stream.status().ToString();
  int64_t bytes = 0;
  size_t largest = 0;
  while (true) {
    const auto block = (*stream)->NextBlock(ctx());
    ASSERT_TRUE(block.ok()) << block.status().ToString();
    if (!*block) break;
    bytes += static_cast<int64_t>((*block)->size());
    largest = std::max(largest, (*block)->size());
  }
  EXPECT_EQ(bytes, 4'000'000 * (8 + 1 + 54));
  EXPECT_LT(largest, size_t{4} << 20);
  EXPECT_LT(engine().PeakResidentBytes(), int64_t{1} << 30) << "240 MB went through twice";
  Ask("DROP DATABASE s SYNC");
}

TEST_F(ChildEngineTest, AnInsertWhoseRowsFailWritesNothing) {
  Ask("CREATE TABLE IF NOT EXISTS default.half (a UInt64) ENGINE = MergeTree ORDER BY a");
  class Rows final : public RowStream {
   public:
    Result<std::optional<std::string>> NextBlock(const Context&) override {
      if (has_given_) return Status(Code::kCorruption, "the source broke");
      has_given_ = true;
      return std::optional<std::string>("1\n2\n");
    }

   private:
    bool has_given_ = false;
  } rows;
  const auto outcome = engine().Insert(ctx(), "INSERT INTO default.half FORMAT TSV", rows, {});
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.status().code(), Code::kCorruption);
  StringRows bad({"1\nnot a number\n"});
  const auto refused = engine().Insert(ctx(), "INSERT INTO default.half FORMAT TSV", bad, {});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(FailureClassOf(refused.status()), FailureClass::kData) << refused.status().ToString();
  StringRows none({"1\n"});
  EXPECT_EQ(ClickHouseNumber(
                engine().Insert(ctx(), "INSERT INTO default.nope FORMAT TSV", none, {}).status()),
            60);
  EXPECT_EQ(Ask("SELECT count() FROM default.half"), "0\n");
  Ask("DROP TABLE default.half SYNC");
}

TEST_F(ChildEngineTest, AnInsertThatFailsEarlyDoesNotWaitForAllRows) {
  Ask("CREATE TABLE default.early (a UInt64) ENGINE = MergeTree ORDER BY a");
  class Endless final : public RowStream {
   public:
    explicit Endless(std::string block) : block_(std::move(block)) {}
    Result<std::optional<std::string>> NextBlock(const Context&) override {
      if (++blocks_ > 100'000)
        return std::optional<std::string>();  // 13 GB: must never come so far
      return std::optional<std::string>(block_);
    }
    int64_t blocks_ = 0;

   private:
    const std::string block_;
  };
  std::string good, bad;
  for (int i = 0; i < 16'384; ++i) good += "1234567\n";
  bad = good + "not a number\n";
  Endless to_nowhere(good);
  EXPECT_EQ(
      ClickHouseNumber(
          engine().Insert(ctx(), "INSERT INTO default.nope FORMAT TSV", to_nowhere, {}).status()),
      60);
  EXPECT_LT(to_nowhere.blocks_, 1'000);
  Endless broken(bad);
  const auto outcome = engine().Insert(ctx(), "INSERT INTO default.early FORMAT TSV", broken, {});
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(FailureClassOf(outcome.status()), FailureClass::kData) << outcome.status().ToString();
  EXPECT_LT(broken.blocks_, 10'000);
  EXPECT_EQ(Ask("SELECT 1"), "1\n") << "and the next statement finds a working connection";
  Ask("DROP TABLE default.early SYNC");
}

TEST_F(ChildEngineTest, AnErrorAfterTheFirstRowsIsAnError) {
  auto stream = engine().Select(
      ctx(), "SELECT number, throwIf(number = 3000000) FROM numbers(5000000)", "TabSeparated", {});
  ASSERT_TRUE(stream.ok()) << stream.status().ToString();
  const auto rows = ReadAll(ctx(), **stream);
  ASSERT_FALSE(rows.ok());
  EXPECT_EQ(ClickHouseNumber(rows.status()), 395) << rows.status().ToString();
}

TEST_F(ChildEngineTest, TextThatLooksLikeAnErrorStaysText) {
  auto stream = engine().Select(
      ctx(), "SELECT '\\r\\n__exception__\\r\\nCode: 1. DB::Exception: x'", "TSVRaw", {});
  ASSERT_TRUE(stream.ok());
  const auto rows = ReadAll(ctx(), **stream);
  ASSERT_TRUE(rows.ok()) << rows.status().ToString();
  EXPECT_EQ(*rows, "\r\n__exception__\r\nCode: 1. DB::Exception: x\n");
}

TEST_F(ChildEngineTest, AMemoryLimitIsExhaustedAndTheEngineLivesOn) {
  const std::string heavy =
      "SELECT count() FROM (SELECT DISTINCT toString(number) FROM numbers(50000000))";
  const Status query = Fail(heavy, {.settings = {{"max_memory_usage", "50000000"}}});
  EXPECT_EQ(ClickHouseNumber(query), 241);
  EXPECT_EQ(query.code(), Code::kExhausted);
  EXPECT_EQ(FailureClassOf(query), FailureClass::kResource);
  EXPECT_EQ(Ask("SELECT 1"), "1\n");
}

TEST_F(ChildEngineTest, KillEndsAQueryByItsId) {
  for (const std::string sql :
       {"SELECT count() FROM numbers(100000000000) WHERE NOT ignore(sipHash64(number))",
        "INSERT INTO FUNCTION null('a UInt64') SELECT number FROM numbers(100000000000)"}) {
    Status status;
    std::jthread query([&] {
      const auto outcome = engine().Query(ctx(), sql, {.query_id = "to-be-killed"});
      if (!outcome.ok()) status = outcome.status();
    });
    for (int i = 0; i < 1000; ++i) {
      if (Ask("SELECT count() FROM system.processes WHERE Settings['log_comment'] = "
              "'to-be-killed'") == "1\n")
        break;
    }
    const Status killed = engine().Kill(ctx(), "to-be-killed");
    EXPECT_TRUE(killed.ok()) << killed.ToString();
    query.join();
    EXPECT_EQ(status.code(), Code::kCancelled) << status.ToString();
    EXPECT_EQ(ClickHouseNumber(status), 394);
  }
  EXPECT_TRUE(engine().Kill(ctx(), "never-was").ok());
}

TEST_F(ChildEngineTest, AStopEndsTheQueryOnTheEngineToo) {
  TestWorld world;
  Status status;
  std::jthread query([&] {
    const auto outcome = engine().Query(
        world.context(),
        "SELECT count() FROM numbers(100000000000) WHERE NOT ignore(sipHash64(number))",
        {.query_id = "to-be-stopped"});
    if (!outcome.ok()) status = outcome.status();
  });
  const std::string running =
      "SELECT count() FROM system.processes WHERE Settings['log_comment'] = 'to-be-stopped'";
  for (int i = 0; i < 1000 && Ask(running) == "0\n"; ++i) {
  }
  world.RequestStop();
  query.join();
  EXPECT_EQ(status.code(), Code::kCancelled);
  EXPECT_EQ(Ask(running), "0\n");
}

TEST_F(ChildEngineTest, AClientThatGoesAwayEndsItsSelect) {
  {
    auto stream = engine().Select(ctx(), "SELECT number FROM numbers(100000000000)", "RowBinary",
                                  {.query_id = "abandoned"});
    ASSERT_TRUE(stream.ok());
    ASSERT_TRUE((*stream)->NextBlock(ctx()).ok());
  }
  const std::string running =
      "SELECT count() FROM system.processes WHERE Settings['log_comment'] = 'abandoned'";
  const int64_t begin_ms = MonotonicMs();
  while (Ask(running) != "0\n" && MonotonicMs() - begin_ms < 10'000) {
  }
  EXPECT_EQ(Ask(running), "0\n");
}

TEST_F(ChildEngineTest, ProgressIsReported) {
  std::atomic<int64_t> most = 0;
  QueryOptions options;
  options.on_progress = [&most](int64_t read_rows, int64_t) {
    most = std::max(most.load(), read_rows);
  };
  options.settings = {{"max_threads", "1"}, {"max_block_size", "1"}};
  Ask("SELECT sum(sleepEachRow(0.25)) FROM numbers(10)", options);
  EXPECT_GT(most.load(), 0);
}

TEST_F(ChildEngineTest, SameQueryIdTwiceIsAConflict) {
  std::jthread query(
      [&] { (void)engine().Query(ctx(), "SELECT sleep(2)", {.query_id = "twice"}); });
  for (int i = 0; i < 1000; ++i) {
    if (Ask("SELECT count() FROM system.processes WHERE Settings['log_comment'] = 'twice'") ==
        "1\n")
      break;
  }
  const Status second = Fail("SELECT 1", {.query_id = "twice"});
  EXPECT_EQ(second.code(), Code::kConflict) << second.ToString();
  EXPECT_EQ(ClickHouseNumber(second), 216);
}

TEST_F(ChildEngineTest, TheLogsOfAServerExistAndAreEmpty) {
  Ask("SYSTEM FLUSH LOGS");
  EXPECT_EQ(Ask("SELECT query_id, type, event_time_microseconds, read_rows, read_bytes, "
                "total_rows_approx, "
                "written_rows, written_bytes FROM system.query_log WHERE type = 'QueryFinish'"),
            "");
  EXPECT_EQ(Ask("SELECT database, table, table_uuid, event_type, error, exception, "
                "event_time_microseconds FROM "
                "system.part_log WHERE event_type = 'MergeParts'"),
            "");
}

TEST_F(ChildEngineTest, PartsCanBeFrozenAttachedMovedAndExchanged) {
  Ask("CREATE DATABASE p ENGINE = Atomic");
  Ask("CREATE TABLE p.a (d Date, n UInt64) ENGINE = MergeTree PARTITION BY toYYYYMM(d) ORDER BY n");
  Ask("CREATE TABLE p.b AS p.a");
  Ask("SYSTEM STOP MERGES p.a");
  Ask("INSERT INTO p.a SELECT toDate('2024-01-01') + number, number FROM numbers(40)");
  Ask("ALTER TABLE p.a FREEZE WITH NAME 'f1'");
  EXPECT_TRUE(std::filesystem::exists(*shared_dir / "data" / "shadow" / "f1" / "store"));
  Ask("ALTER TABLE p.a MOVE PARTITION ID '202401' TO TABLE p.b");
  EXPECT_EQ(Ask("SELECT count() FROM p.b"), "31\n");
  Ask("ALTER TABLE p.b DETACH PART '" +
      Ask("SELECT name FROM system.parts WHERE database = 'p' AND table = 'b' AND active FORMAT "
          "TSVRaw")
          .substr(0, 12) +
      "'");
  EXPECT_EQ(Ask("SELECT count() FROM p.b"), "0\n");
  Ask("ALTER TABLE p.b ATTACH PART '202401_1_1_0'");
  EXPECT_EQ(Ask("SELECT count() FROM p.b"), "31\n");
  Ask("EXCHANGE TABLES p.a AND p.b");
  EXPECT_EQ(Ask("SELECT count() FROM p.a"), "31\n");
  Ask("DROP DATABASE p SYNC");
}

TEST_F(ChildEngineTest, StrangersWithoutTheKeyAreRefused) {
  auto stranger = HttpEngine::Open({.url = engine().url()});
  ASSERT_TRUE(stranger.ok());
  const auto outcome = (*stranger)->Query(ctx(), "SELECT 1", {});
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.status().code(), Code::kRefused);
  EXPECT_EQ(outcome.status().explanation().pf_number, 7009);
}

// A child of its own for each of the following.

std::unique_ptr<ChildEngine> StartOn(TestWorld& world, const TempDir& dir) {
  auto engine = ChildEngine::Start(world.context(), EngineChildOptions(dir / "data"));
  EXPECT_TRUE(engine.ok()) << engine.status().ToString();
  return engine.ok() ? std::move(engine).value() : nullptr;
}

TEST(ChildEngineLife, DeathIsAnOrdinaryErrorAndARestartFindsTheSameData) {
  TestWorld world;
  const TempDir dir;
  const auto engine = StartOn(world, dir);
  ASSERT_NE(engine, nullptr);
  ASSERT_TRUE(engine->Query(world.context(), "CREATE DATABASE k", {}).ok());
  ASSERT_TRUE(
      engine
          ->Query(world.context(), "CREATE TABLE k.t (a UInt64) ENGINE = MergeTree ORDER BY a", {})
          .ok());
  ASSERT_TRUE(
      engine->Query(world.context(), "INSERT INTO k.t SELECT number FROM numbers(1000)", {}).ok());
  Status under_way;
  {
    std::jthread query([&] {
      const auto outcome = engine->Query(world.context(), "SELECT sleep(3), sleep(3)", {});
      if (!outcome.ok()) under_way = outcome.status();
    });
    while (engine->Query(world.context(), "SELECT count() FROM system.processes", {})->text !=
           "2\n") {
    }
    kill(engine->pid(), SIGKILL);
  }
  EXPECT_EQ(under_way.code(), Code::kUnavailable) << under_way.ToString();
  EXPECT_NE(under_way.message().find("signal 9"), std::string::npos) << under_way.ToString();
  EXPECT_EQ(under_way.explanation().pf_number, 2142);
  const auto after = engine->Query(world.context(), "SELECT 1", {});
  ASSERT_FALSE(after.ok());
  EXPECT_EQ(after.status().code(), Code::kUnavailable);

  ASSERT_TRUE(engine->Restart(world.context()).ok());
  const auto count = engine->Query(world.context(), "SELECT count(), sum(a) FROM k.t", {});
  ASSERT_TRUE(count.ok()) << count.status().ToString();
  EXPECT_EQ(count->text, "1000\t499500\n");
}

TEST(ChildEngineLife, TermEndsAChildWithARunningQueryInSeconds) {
  TestWorld world;
  const TempDir dir;
  const auto engine = StartOn(world, dir);
  ASSERT_NE(engine, nullptr);
  std::jthread query([&] {
    (void)engine->Query(
        world.context(),
        "SELECT count() FROM numbers(100000000000) WHERE NOT ignore(sipHash64(number))", {});
  });
  while (engine->Query(world.context(), "SELECT count() FROM system.processes", {})->text !=
         "2\n") {
  }
  const int64_t begin_ms = MonotonicMs();
  const auto ended = engine->Stop(world.context());
  ASSERT_TRUE(ended.ok());
  EXPECT_EQ(ended->exit_code, 0) << ended->ToString();
  EXPECT_LT(MonotonicMs() - begin_ms, 5'000);
}

TEST(ChildEngineLife, AHungChildIsKilledWhenItsStatementIsStopped) {
  TestWorld world;
  const TempDir dir;
  ChildEngineOptions options = EngineChildOptions(dir / "data");
  options.kill_wait_on_stop_ms = 300;
  auto engine = ChildEngine::Start(world.context(), std::move(options));
  ASSERT_TRUE(engine.ok()) << engine.status().ToString();
  TestWorld caller;
  Status status;
  std::jthread query([&] {
    const auto outcome = (*engine)->Query(
        caller.context(),
        "SELECT count() FROM numbers(100000000000) WHERE NOT ignore(sipHash64(number))", {});
    if (!outcome.ok()) status = outcome.status();
  });
  while ((*engine)->Query(world.context(), "SELECT count() FROM system.processes", {})->text !=
         "2\n") {
  }
  kill((*engine)->pid(), SIGSTOP);
  caller.RequestStop();
  query.join();
  EXPECT_EQ(status.code(), Code::kCancelled) << status.ToString();
  const auto ended = (*engine)->Ended();
  ASSERT_TRUE(ended.has_value());
  EXPECT_EQ(ended->signal_number, SIGKILL) << ended->ToString();
}

TEST(ChildEngineLife, ASecondChildOnTheSamePathDoesNotStart) {
  TestWorld world;
  const TempDir dir;
  const auto engine = StartOn(world, dir);
  ASSERT_NE(engine, nullptr);
  ChildEngineOptions options = EngineChildOptions(dir / "data");
  options.stderr_path = dir / "stderr";
  const auto second = ChildEngine::Start(world.context(), options);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.status().code(), Code::kUnavailable);
}

TEST(ChildEngineLife, AServerWideMemoryLimitIsHeldAndSurvived) {
  TestWorld world;
  const TempDir dir;
  ChildEngineOptions options = EngineChildOptions(dir / "data");
  options.config["max_server_memory_usage"] = "500000000";
  const auto engine = ChildEngine::Start(world.context(), options);
  ASSERT_TRUE(engine.ok()) << engine.status().ToString();
  const auto heavy = (*engine)->Query(
      world.context(),
      "SELECT count() FROM (SELECT DISTINCT toString(number) FROM numbers(50000000))", {});
  ASSERT_FALSE(heavy.ok());
  EXPECT_EQ(heavy.status().code(), Code::kExhausted) << heavy.status().ToString();
  EXPECT_NE(heavy.status().message().find("total"), std::string::npos);
  EXPECT_TRUE((*engine)->Query(world.context(), "SELECT 1", {}).ok());
}

// The test program stands in for a `clickhouse` binary: the worker's own way to start one is the
// caller.
TEST(ChildEngineLife, TheEngineStandsInForAClickHouseServer) {
  TestWorld world;
  const TempDir dir;
  ChildEngineOptions options;
  options.server_binary = SelfPath().parent_path() / "engine_child";
  options.data_path = dir / "data";
  options.config = {
      {"background_pool_size", "1"},
      {"background_merges_mutations_concurrency_ratio", "1"},
      {"background_merges_mutations_scheduling_policy", "round_robin"},
      {"merge_tree.number_of_free_entries_in_pool_to_lower_max_size_of_merge", "1"},
      {"merge_tree.number_of_free_entries_in_pool_to_execute_mutation", "1"},
      {"merge_tree.number_of_free_entries_in_pool_to_execute_optimize_entire_partition", "1"},
      {"prometheus.port", "9363"}};
  const auto engine = ChildEngine::Start(world.context(), options);
  ASSERT_TRUE(engine.ok()) << engine.status().ToString();
  const auto ask = [&](const std::string& sql) {
    const auto outcome = (*engine)->Query(world.context(), sql, {});
    EXPECT_TRUE(outcome.ok()) << sql << outcome.status().ToString();
    return outcome.ok() ? outcome->text : "";
  };
  EXPECT_EQ(ask("SELECT value FROM system.server_settings WHERE name = 'background_pool_size'"),
            "1\n");
  EXPECT_EQ(ask("SELECT name, path, type FROM system.disks FORMAT CSV"),
            "\"default\",\"" + (dir / "data/").string() + "\",\"Local\"\n");
  ask("SYSTEM FLUSH LOGS");
  EXPECT_EQ(ask("SELECT count() FROM system.query_log"), "0\n");
  const auto stranger = HttpEngine::Open({.url = (*engine)->url()});
  EXPECT_EQ((*stranger)->Query(world.context(), "SELECT 1", {}).status().code(), Code::kRefused);

  // The pid file is locked by fcntl while the server lives; another process sees the lock.
  const std::filesystem::path pid_file = dir / "data/partforge-server/server.pid";
  EXPECT_EQ(*ReadFile(pid_file), std::to_string((*engine)->pid()) + "\n");
  const auto is_locked = [&pid_file] {
    const auto fd = OpenFile(pid_file, O_RDWR);
    struct flock lock = {};
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    return fd.ok() && fcntl(fd->get(), F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
  };
  EXPECT_TRUE(is_locked());
  const auto ended = (*engine)->Stop(world.context());
  ASSERT_TRUE(ended.ok());
  EXPECT_EQ(ended->exit_code, 0);
  EXPECT_FALSE(is_locked());
}

// Starts a process that starts an engine and waits; killing it must end the engine.
TEST(ChildEngineLife, AChildDiesWithItsParent) {
  TestWorld world;
  const TempDir dir;
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t parent = fork();
  if (parent == 0) {
    execl(SelfPath().c_str(), SelfPath().c_str(), "--start-engine-and-wait", (dir / "data").c_str(),
          std::to_string(ends[1]).c_str(), nullptr);
    _exit(127);
  }
  close(ends[1]);
  pid_t child = 0;
  ASSERT_EQ(read(ends[0], &child, sizeof(child)), static_cast<ssize_t>(sizeof(child)));
  ASSERT_EQ(kill(child, 0), 0);
  kill(parent, SIGKILL);
  waitpid(parent, nullptr, 0);
  // Whoever adopted the child reaps it; the pipe's other end is held by the child's parent only, so
  // its path lock tells.
  const int64_t begin_ms = MonotonicMs();
  bool is_gone = false;
  while (!is_gone && MonotonicMs() - begin_ms < 20'000) {
    const auto status = ReadFile("/proc/" + std::to_string(child) + "/stat", 4096);
    is_gone = !status.ok() || status->find(") Z ") != std::string::npos;
  }
  EXPECT_TRUE(is_gone) << "engine process " << child << " outlived its parent";
  close(ends[0]);
}

}  // namespace

// The helper process of AChildDiesWithItsParent.
int StartEngineAndWait(const char* data_path, int fd) {
  testing::TestWorld world;
  const auto engine = ChildEngine::Start(world.context(), testing::EngineChildOptions(data_path));
  if (!engine.ok()) return 1;
  const pid_t pid = (*engine)->pid();
  if (write(fd, &pid, sizeof(pid)) != static_cast<ssize_t>(sizeof(pid))) return 1;
  pause();
  return 0;
}

}  // namespace partforge

int main(int argc, char** argv) {
  if (argc == 4 && std::string_view(argv[1]) == "--start-engine-and-wait") {
    return partforge::StartEngineAndWait(argv[2], std::stoi(argv[3]));
  }
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
