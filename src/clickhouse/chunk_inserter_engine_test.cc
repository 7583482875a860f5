#include <gtest/gtest.h>

#include <fmt/format.h>

#include <signal.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "clickhouse/chunk_inserter.h"
#include "clickhouse/ddl.h"
#include "clickhouse/rewrite_check.h"
#include "clickhouse/rewrite_rig.h"
#include "engine/sql_text.h"

namespace partforge::clickhouse {
namespace {

constexpr int64_t kRows = 25'003;

// Slots that notice when one is asked for its CPU time while another thread gets its engine.
class WatchedSlots final : public SlotEngines {
 public:
  explicit WatchedSlots(SlotEngines& slots) : slots_(slots) {}

  bool has_overlap() const { return has_overlap_; }

  Result<Engine*> Get(const Context& ctx, int slot, const EngineWish& wish) override {
    is_getting_ = true;
    for (int look = 0; look < kLooks && !has_overlap_; ++look) std::this_thread::yield();
    is_getting_ = false;
    return slots_.Get(ctx, slot, wish);
  }
  bool IsAlive(int slot) override { return slots_.IsAlive(slot); }
  void Stop(const Context& ctx, int slot) override { slots_.Stop(ctx, slot); }
  void Discard(const Context& ctx, int slot) override { slots_.Discard(ctx, slot); }
  int64_t CpuMs(int /*slot*/) override {
    if (is_getting_) has_overlap_ = true;
    return 0;
  }
  int64_t PeakMemoryBytes(int slot) override { return slots_.PeakMemoryBytes(slot); }

 private:
  static constexpr int kLooks = 20'000;
  SlotEngines& slots_;
  std::atomic<bool> is_getting_ = false, has_overlap_ = false;
};

// A clock on which no time passes: who polls on it polls all the time.
class HurriedClock final : public Clock {
 public:
  int64_t NowMs() override { return 0; }
  void SleepMs(int64_t, std::stop_token) override { std::this_thread::yield(); }
};

// A source table with one part of kRows rows, and what the INSERT made of it.
class ChunkInserterTest : public ::testing::Test {
 protected:
  ChunkInserterTest() { world_.UseFaults(faults_); }

  void Open(const std::string& source_sql, const std::string& destination_sql,
            const std::string& fill_select) {
    ctx_ = std::make_unique<Context>(world_.context());
    auto engine = slots_.Get(*ctx_, 0, dir_ / "engine");
    ASSERT_TRUE(engine.ok()) << engine.status().ToString();
    engine_ = *engine;
    auto source = NormalizeSource(source_sql, {});
    auto destination = NormalizeDestination(destination_sql, {});
    ASSERT_TRUE(source.ok()) << source.status().ToString();
    ASSERT_TRUE(destination.ok()) << destination.status().ToString();
    auto tables =
        LocalTables::Create(*ctx_, *engine_,
                            LocalTablesRequest{.source = std::move(source).value(),
                                               .destination = std::move(destination).value()});
    ASSERT_TRUE(tables.ok()) << tables.status().ToString();
    tables_ = std::make_unique<LocalTables>(std::move(tables).value());
    const TableName name = tables_->source();
    MustRun(*ctx_, *engine_,
            {fmt::format("INSERT INTO {} {} SETTINGS max_threads=1, max_insert_threads=1, "
                         "min_insert_block_size_rows=1000000, max_block_size=1000000",
                         QuoteTable(name.database, name.table), fill_select)});
  }

  InsertPlan ChunkedPlan(int64_t chunks) const {
    InsertPlan plan;
    plan.state =
        InsertState{.tier = InsertTier::kBlocksAndMerge, .block_rows = 1'000'000, .rung = {}};
    plan.ranges = SplitRange(RowRange{0, kRows}, chunks);
    return plan;
  }

  Result<InsertOutcome> Insert(const std::string& sql, InsertPlan plan) {
    return InsertBy(slots_, *ctx_, sql, std::move(plan));
  }
  Result<InsertOutcome> InsertBy(SlotEngines& slots, const Context& ctx, const std::string& sql,
                                 InsertPlan plan) {
    const auto tuning = Tune(MachineLimits{.cpus = 2, .memory_bytes = int64_t{4} << 30}, 1);
    ChunkInserter inserter(slots, *tables_,
                           ChunkInsertRequest{.query_id_prefix = "partforge-job-part-e1",
                                              .insert_select = sql,
                                              .current_database = tables_->source().database,
                                              .plan = std::move(plan),
                                              .tuning = *tuning,
                                              .slot = 0,
                                              .engine_path = dir_ / "engine",
                                              .report = {},
                                              .silence_ms_max = silence_ms_max_});
    return inserter.Run(ctx);
  }

  std::string Sum(const TableName& table) {
    return Ask(*ctx_, *engine_,
               fmt::format("SELECT count(), sum(cityHash64(toString(tuple(*)))) FROM {}",
                           QuoteTable(table.database, table.table)));
  }

  int64_t silence_ms_max_ = 600'000;
  testing::TestWorld world_;
  FaultHooks faults_;
  testing::TempDir dir_;
  TestSlots slots_;
  std::unique_ptr<Context> ctx_;
  Engine* engine_ = nullptr;
  std::unique_ptr<LocalTables> tables_;
};

const char kSource[] =
    "CREATE TABLE shop.orders (id UInt64, amount UInt32, day Date) ENGINE = MergeTree ORDER BY id";
const char kDestination[] =
    "CREATE TABLE shop2.orders_v2 (day Date, id UInt64, amount String) ENGINE = MergeTree "
    "PARTITION BY toYYYYMM(day) ORDER BY (day, id)";
const char kFill[] =
    "SELECT number, number * 7 % 1000, toDate('2024-01-01') + number % 90 FROM numbers(25003)";
const char kInsert[] =
    "INSERT INTO shop2.orders_v2 SELECT day, id, toString(amount) FROM orders -- all of it";
const char kOracle[] =
    "SELECT count(), sum(cityHash64(toString(tuple(day, id, toString(amount))))) FROM shop.orders";

TEST_F(ChunkInserterTest, ChunksGiveWhatOneInsertGives) {
  Open(kSource, kDestination, kFill);
  const auto outcome = Insert(kInsert, ChunkedPlan(4));
  ASSERT_TRUE(outcome.ok()) << outcome.status().ToString();
  EXPECT_EQ(outcome->written_rows(), kRows);
  EXPECT_EQ(outcome->chunks.size(), 4u);
  EXPECT_EQ(Sum(tables_->destination()), Ask(*ctx_, *engine_, kOracle));
  EXPECT_EQ(Ask(*ctx_, *engine_, "SELECT count() FROM system.tables WHERE database = 'shop2'"),
            "1");
}

// clickhouse-parts §15 row 14.
TEST_F(ChunkInserterTest, AnInsertThatDoesNothingLosesItsEngine) {
  Open(kSource, kDestination, kFill);
  silence_ms_max_ = 1'500;
  const int64_t starts = slots_.starts();
  const auto outcome = Insert(
      "INSERT INTO shop2.orders_v2 SELECT day, id, toString(amount) FROM orders WHERE sleep(3) = 0 "
      "SETTINGS function_sleep_max_microseconds_per_block = 600000000, max_block_size = 65505",
      ChunkedPlan(1));
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.status().explanation().pf_number, 2139) << outcome.status().ToString();
  EXPECT_GE(slots_.starts(), starts + 2);
}

TEST_F(ChunkInserterTest, TheWatchNeverAsksASlotThatIsBeingStarted) {
  Open(kSource, kDestination, kFill);
  WatchedSlots slots(slots_);
  HurriedClock clock;
  const Context ctx{clock,         ctx_->random, ctx_->faults, ctx_->log,
                    ctx_->metrics, ctx_->memory, ctx_->stop};
  const auto outcome = InsertBy(slots, ctx, kInsert, ChunkedPlan(2));
  ASSERT_TRUE(outcome.ok()) << outcome.status().ToString();
  EXPECT_FALSE(slots.has_overlap());
}

TEST_F(ChunkInserterTest, OneBlockLeavesOnePartAPartition) {
  Open(kSource, kDestination, kFill);
  InsertPlan plan = ChunkedPlan(1);
  plan.state = InsertState{.tier = InsertTier::kOneBlock, .block_rows = kRows, .rung = {}};
  const auto outcome = Insert(kInsert, plan);
  ASSERT_TRUE(outcome.ok()) << outcome.status().ToString();
  const auto parts = tables_->ActiveParts(*ctx_, tables_->destination());
  ASSERT_TRUE(parts.ok());
  EXPECT_EQ(parts->size(), 3u);
  for (const auto& [id, stats] : *parts) EXPECT_EQ(stats.parts, 1) << id;
  EXPECT_EQ(Sum(tables_->destination()), Ask(*ctx_, *engine_, kOracle));
}

// check: PF-20
TEST_F(ChunkInserterTest, EveryReadOfTheSourceIsRestricted) {
  const std::string selects[] = {
      "SELECT day, id, toString(amount) FROM orders UNION ALL SELECT day, id + 1000000, 'twice' "
      "FROM "
      "shop.orders WHERE id % 3 = 0",
      "SELECT o.day, o.id, toString(o.amount) FROM shop.orders AS o WHERE o.id % 7 != 2",
      "SELECT day, id, toString(amount) FROM shop.amounts",
      "WITH x AS (SELECT * FROM orders), y AS (SELECT day, id, amount FROM x WHERE amount > 10) "
      "SELECT "
      "day, id, toString(amount) FROM y",
      "SELECT day, id, toString(amount) FROM (SELECT * FROM (SELECT * FROM `shop`.`orders`))",
      "SELECT day, id, tag FROM orders ARRAY JOIN ['a', toString(amount)] AS tag"};
  for (const std::string& select : selects) {
    SCOPED_TRACE(select);
    Open(kSource, kDestination, kFill);
    MustRun(*ctx_, *engine_,
            {"CREATE VIEW shop.amounts AS SELECT * FROM shop.orders WHERE amount % 2 = 0"});
    const std::string sql = "INSERT INTO shop2.orders_v2 " + select;
    const auto whole = Insert(sql, ChunkedPlan(1));
    ASSERT_TRUE(whole.ok()) << whole.status().ToString();
    const std::string expected = Sum(tables_->destination());
    EXPECT_TRUE(tables_->TruncateStaging(*ctx_).ok());
    const auto chunked = Insert(sql, ChunkedPlan(5));
    ASSERT_TRUE(chunked.ok()) << chunked.status().ToString();
    EXPECT_EQ(Sum(tables_->destination()), expected);
    EXPECT_EQ(chunked->written_rows(), whole->written_rows());
  }
}

TEST_F(ChunkInserterTest, OddNamesAreRestrictedToo) {
  Open(
      "CREATE TABLE `my db.x`.`t'1 \\\\ é.y` (`the ``id` UInt64, b String) ENGINE = MergeTree "
      "ORDER BY "
      "`the ``id`",
      "CREATE TABLE `my db.x`.`out \"put\"` (b String, `i.d` UInt64) ENGINE = MergeTree ORDER BY "
      "`i.d`",
      "SELECT number, toString(number) FROM numbers(25003)");
  const auto outcome =
      Insert("INSERT INTO `my db.x`.`out \"put\"` SELECT b, `the ``id` FROM `t'1 \\\\ é.y`;\n",
             ChunkedPlan(3));
  ASSERT_TRUE(outcome.ok()) << outcome.status().ToString();
  EXPECT_EQ(Ask(*ctx_, *engine_, "SELECT count(), uniqExact(`i.d`) FROM `my db.x`.`out \"put\"`"),
            "25003\t25003");
}

TEST_F(ChunkInserterTest, ContentIsComparedAfterTheInsertsOwnConversions) {
  Open("CREATE TABLE default.src (id UInt64, v Int32) ENGINE = MergeTree ORDER BY id",
       "CREATE TABLE default.dst (id String, v Nullable(Float64), d String DEFAULT 'x', m UInt64 "
       "MATERIALIZED length(id)) ENGINE = MergeTree ORDER BY id",
       "SELECT number, number FROM numbers(25003)");
  const auto outcome =
      Insert("INSERT INTO dst (v, id) SELECT if(v % 5 = 0, NULL, v), id FROM src", ChunkedPlan(2));
  ASSERT_TRUE(outcome.ok()) << outcome.status().ToString();
  ContentQuestion question{.select = "SELECT if(v % 5 = 0, NULL, v), id FROM src",
                           .current_database = "default",
                           .insert_columns = {"v", "id"},
                           .memory_bytes_max = 0};
  const auto equal = CheckContent(*ctx_, *engine_, *tables_, question);
  ASSERT_TRUE(equal.ok()) << equal.status().ToString();
  EXPECT_EQ(*equal, ContentAnswer::kEqual);
  question.select = "SELECT if(v % 5 = 0, NULL, v), id + (id = 77) FROM src";
  EXPECT_EQ(CheckContent(*ctx_, *engine_, *tables_, question).status().code(), Code::kCorruption);
  question.select = "SELECT if(v % 5 = 0, NULL, v), id FROM src WHERE id != 77";
  EXPECT_EQ(CheckContent(*ctx_, *engine_, *tables_, question).status().code(), Code::kCorruption);
  // Other values each time: only counts can be compared.
  question.select = "SELECT rand(), id FROM src";
  const auto counted = CheckContent(*ctx_, *engine_, *tables_, question);
  ASSERT_TRUE(counted.ok()) << counted.status().ToString();
  EXPECT_EQ(*counted, ContentAnswer::kNotComparable);
}

TEST_F(ChunkInserterTest, ContentIsComparedOfEveryWayToNameTheColumns) {
  const std::string select = "SELECT id, [toString(id)], [toUInt8(id % 7)], v FROM src";
  for (const std::string list :
       {"", "(id, n.k, n.v, eph)", "(* EXCEPT (d, z), eph)", "(id, `n.k`, `n`.`v`, eph)"}) {
    SCOPED_TRACE(list);
    const bool is_listed = !list.empty();
    Open("CREATE TABLE default.src (id UInt64, v Int32) ENGINE = MergeTree ORDER BY id",
         is_listed ? "CREATE TABLE default.dst (id UInt64, n Nested(k String, v UInt8), eph Int32 "
                     "EPHEMERAL, d Int64 DEFAULT eph * 2, z AggregateFunction(sum, UInt64), al "
                     "String ALIAS toString(id)) ENGINE = MergeTree ORDER BY id"
                   : "CREATE TABLE default.dst (id UInt64, n Nested(k String, v UInt8), d Int64) "
                     "ENGINE = MergeTree ORDER BY id",
         "SELECT number, number FROM numbers(25003)");
    const std::string insert = "INSERT INTO dst " + list + " " + select;
    const auto outcome = Insert(insert, ChunkedPlan(1));
    ASSERT_TRUE(outcome.ok()) << outcome.status().ToString();
    const auto target = ParseInsertSelect(insert);
    ASSERT_TRUE(target.ok());
    ContentQuestion question{.select = target->select,
                             .current_database = "default",
                             .insert_columns = target->columns,
                             .memory_bytes_max = 0};
    const auto equal = CheckContent(*ctx_, *engine_, *tables_, question);
    ASSERT_TRUE(equal.ok()) << equal.status().ToString();
    EXPECT_EQ(*equal, ContentAnswer::kEqual);
    question.select = "SELECT id, [toString(id)], [toUInt8(id % 7 + (id = 77))], v FROM src";
    EXPECT_EQ(CheckContent(*ctx_, *engine_, *tables_, question).status().code(), Code::kCorruption);
  }
}

TEST_F(ChunkInserterTest, AnEngineKilledAfterAnInsertGoesOnAtThatChunk) {
  Open(kSource, kDestination, kFill);
  faults_.Set("clickhouse.chunk_inserted", [&](int64_t hit) {
    if (hit == 3) slots_.Kill(0);
    return Status();
  });
  const auto outcome = Insert(kInsert, ChunkedPlan(5));
  ASSERT_TRUE(outcome.ok()) << outcome.status().ToString();
  EXPECT_EQ(outcome->engine_restarts, 1);
  EXPECT_EQ(slots_.starts(), 2);
  EXPECT_EQ(outcome->attempts(), 5);
  EXPECT_EQ(Sum(tables_->destination()), Ask(*ctx_, *engine_, kOracle));
}

TEST_F(ChunkInserterTest, AnEngineKilledBetweenMovesMovesTheRest) {
  Open(kSource, kDestination, kFill);
  faults_.Set("clickhouse.partition_moved", [&](int64_t hit) {
    if (hit == 4) slots_.Kill(0);
    return Status();
  });
  const auto outcome = Insert(kInsert, ChunkedPlan(5));
  ASSERT_TRUE(outcome.ok()) << outcome.status().ToString();
  EXPECT_EQ(outcome->engine_restarts, 1);
  EXPECT_EQ(outcome->attempts(), 5);
  EXPECT_EQ(Sum(tables_->destination()), Ask(*ctx_, *engine_, kOracle));
}

TEST_F(ChunkInserterTest, AnEngineKilledInTheExchangeFindsOutByUuid) {
  Open(kSource, kDestination, kFill);
  faults_.Set("clickhouse.tables_exchanged", [&](int64_t hit) {
    if (hit == 1) slots_.Kill(0);
    return Status();
  });
  const auto outcome = Insert(kInsert, ChunkedPlan(3));
  ASSERT_TRUE(outcome.ok()) << outcome.status().ToString();
  EXPECT_EQ(outcome->engine_restarts, 1);
  EXPECT_EQ(Sum(tables_->destination()), Ask(*ctx_, *engine_, kOracle));
}

TEST_F(ChunkInserterTest, TheThirdDeathIsPoison) {
  Open(kSource, kDestination, kFill);
  faults_.Set("clickhouse.chunk_inserted", [&](int64_t) {
    slots_.Kill(0);
    return Status();
  });
  const auto outcome = Insert(kInsert, ChunkedPlan(5));
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.status().explanation().pf_number, 2139);
}

// check: PF-54
TEST_F(ChunkInserterTest, AnEngineKilledInsideAMoveIsJudgedByCounts) {
  testing::SeededRandom random(testing::TestSeed());
  int lost = 0, resumed = 0;
  for (int64_t call = 1; call <= 9; ++call) {
    SCOPED_TRACE(call);
    Open(kSource, kDestination, kFill);
    // Small blocks: several parts in each of three partitions. A MOVE takes some milliseconds.
    InsertPlan plan = ChunkedPlan(4);
    plan.state.block_rows = 1'000;
    std::jthread killer;
    bool has_killed = false;
    const auto kill_soon = [&](int64_t hit) {
      if (hit != call || has_killed) return Status();
      has_killed = true;
      killer = std::jthread([pid = slots_.pid(0), ms = static_cast<int64_t>(random.Next() % 12)] {
        SystemClock().SleepMs(ms, {});
        kill(pid, SIGKILL);
      });
      return Status();
    };
    // Moves 1, 4, 7 … are the first of a chunk, the others follow a moved partition.
    int64_t moves = 0;
    faults_.Clear();
    faults_.Set("clickhouse.chunk_inserted", [&](int64_t) { return kill_soon(++moves); });
    faults_.Set("clickhouse.partition_moved", [&](int64_t) { return kill_soon(++moves); });
    auto outcome = Insert(kInsert, plan);
    EXPECT_TRUE(has_killed);
    if (!outcome.ok()) {
      ++lost;
      EXPECT_EQ(outcome.status().code(), Code::kUnavailable) << outcome.status().ToString();
      faults_.Clear();
      Open(kSource, kDestination, kFill);
      outcome = Insert(kInsert, plan);
      ASSERT_TRUE(outcome.ok()) << outcome.status().ToString();
    } else {
      resumed += outcome->engine_restarts > 0 ? 1 : 0;
    }
    EXPECT_EQ(Sum(tables_->destination()), Ask(*ctx_, *engine_, kOracle));
  }
  std::printf("attempts resumed: %d, lost: %d\n", resumed, lost);
  EXPECT_GT(lost + resumed, 0);
}

}  // namespace
}  // namespace partforge::clickhouse
