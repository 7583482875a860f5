#include <gtest/gtest.h>

#include <fmt/format.h>

#include <memory>
#include <string>

#include "clickhouse/chunk_inserter.h"
#include "clickhouse/ddl.h"
#include "clickhouse/rewrite_check.h"
#include "clickhouse/rewrite_rig.h"
#include "engine/sql_text.h"

namespace partforge::clickhouse {
namespace {

constexpr int64_t kRows = 25'003;

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
    const auto tuning = Tune(MachineLimits{.cpus = 2, .memory_bytes = int64_t{4} << 30}, 1);
    ChunkInserter inserter(slots_, *tables_,
                           ChunkInsertRequest{.query_id_prefix = "partforge-job-part-e1",
                                              .insert_select = sql,
                                              .current_database = tables_->source().database,
                                              .plan = std::move(plan),
                                              .tuning = *tuning,
                                              .slot = 0,
                                              .engine_path = dir_ / "engine",
                                              .report = {}});
    return inserter.Run(*ctx_);
  }

  std::string Sum(const TableName& table) {
    return Ask(*ctx_, *engine_,
               fmt::format("SELECT count(), sum(cityHash64(toString(tuple(*)))) FROM {}",
                           QuoteTable(table.database, table.table)));
  }

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

TEST_F(ChunkInserterTest, AnEngineKilledInAChunkGoesOnAtThatChunk) {
  Open(kSource, kDestination, kFill);
  faults_.Set("clickhouse.chunk_inserted", [&](int64_t hit) {
    if (hit == 3) slots_.Kill(0);
    return Status();
  });
  const auto outcome = Insert(kInsert, ChunkedPlan(5));
  ASSERT_TRUE(outcome.ok()) << outcome.status().ToString();
  EXPECT_EQ(outcome->engine_restarts, 1);
  EXPECT_EQ(slots_.starts(), 2);
  EXPECT_EQ(Sum(tables_->destination()), Ask(*ctx_, *engine_, kOracle));
}

}  // namespace
}  // namespace partforge::clickhouse
