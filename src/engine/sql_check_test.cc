#include "engine/sql_check.h"

#include <gtest/gtest.h>

#include <map>

#include "engine/child_engine.h"
#include "testing/engine_child_fixture.h"

namespace partforge {
namespace {

using testing::EngineChildOptions;
using testing::TempDir;
using testing::TestWorld;

class SqlCheckTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    world_ = std::make_unique<TestWorld>();
    dir_ = std::make_unique<TempDir>();
    auto engine = ChildEngine::Start(world_->context(), EngineChildOptions(*dir_ / "data"));
    ASSERT_TRUE(engine.ok()) << engine.status().ToString();
    engine_ = std::move(engine).value();
    for (const char* sql :
         {"CREATE DATABASE src", "CREATE DATABASE dst",
          "CREATE TABLE src.e (id UInt64, d Date, s String, arr Array(Int32)) ENGINE = "
          "ReplacingMergeTree "
          "ORDER BY id SAMPLE BY id",
          "CREATE TABLE dst.e (id UInt64, d Date, s String) ENGINE = MergeTree ORDER BY id",
          "CREATE TABLE src.other (id UInt64) ENGINE = MergeTree ORDER BY id",
          "CREATE VIEW src.v AS SELECT id, d, s FROM src.e WHERE id > 0",
          "CREATE VIEW src.vv AS SELECT * FROM src.v",
          "CREATE VIEW src.vg AS SELECT id, max(d) AS d, any(s) AS s FROM src.e GROUP BY id",
          "CREATE VIEW src.vo AS SELECT id, toDate(0) AS d, '' AS s FROM src.other",
          "CREATE FUNCTION plus_one AS (x) -> x + 1"}) {
      const auto made = engine_->Query(world_->context(), sql, {});
      ASSERT_TRUE(made.ok()) << made.status().ToString();
    }
  }
  static void TearDownTestSuite() {
    engine_.reset();
    dir_.reset();
    world_.reset();
  }

  Context ctx() { return world_->context(); }
  static InsertSelectRules Rules() {
    return {.source = {.database = "src", .table = "e"},
            .destination = {.database = "dst", .table = "e"}};
  }
  SqlVerdict Check(const std::string& sql, const InsertSelectRules& rules = Rules()) {
    const auto verdict = CheckInsertSelect(ctx(), *engine_, sql, rules);
    EXPECT_TRUE(verdict.ok()) << sql << "\n" << verdict.status().ToString();
    return verdict.ok() ? *verdict : SqlVerdict{};
  }
  static std::string Kinds(const SqlVerdict& verdict) {
    std::string kinds;
    for (const SqlFinding& finding : verdict.findings)
      kinds += (kinds.empty() ? "" : " ") + finding.kind;
    return kinds;
  }
  static bool Has(const SqlVerdict& verdict, std::string_view kind) {
    for (const SqlFinding& finding : verdict.findings) {
      if (finding.kind == kind) return true;
    }
    return false;
  }

  static std::unique_ptr<TestWorld> world_;
  static std::unique_ptr<TempDir> dir_;
  static std::unique_ptr<ChildEngine> engine_;
};
std::unique_ptr<TestWorld> SqlCheckTest::world_;
std::unique_ptr<TempDir> SqlCheckTest::dir_;
std::unique_ptr<ChildEngine> SqlCheckTest::engine_;

TEST_F(SqlCheckTest, RowLocalStatementsAreChunkable) {
  for (const std::string sql :
       {"INSERT INTO dst.e SELECT id, d, s FROM src.e",
        "insert into dst.e (id, d, s) select id + 1, d, upper(s) from src.e as t where id % 2 = 0;",
        "INSERT INTO dst.e SELECT id, d, s FROM src.e UNION ALL SELECT id + 100, d, s FROM src.e",
        "INSERT INTO dst.e WITH c AS (SELECT id, d, s FROM src.e) SELECT * FROM c",
        "WITH c AS (SELECT id, d, s FROM src.e) INSERT INTO dst.e SELECT * FROM c",
        "INSERT INTO dst.e SELECT id, d, s FROM src.v",
        "INSERT INTO dst.e SELECT id, d, s FROM src.vv AS x",
        "INSERT INTO dst.e SELECT id, d, toString(a) FROM src.e ARRAY JOIN arr AS a",
        "INSERT INTO dst.e SELECT id, d, toString(arrayJoin(arr)) FROM src.e",
        "INSERT INTO dst.e SELECT plus_one(id), d, arrayStringConcat(arrayMap(x -> toString(x), "
        "arr)) FROM src.e",
        "INSERT INTO dst.e SELECT id, d, s FROM (SELECT * FROM src.e ORDER BY s) WHERE id IN (1, "
        "2, 3)",
        "INSERT INTO dst.e SELECT id, d, s FROM src.e ORDER BY id",
        "INSERT INTO dst.e SELECT id AS `LIMIT`, d AS `GROUP BY`, s AS `FINAL` FROM src.e",
        "INSERT INTO dst.e SELECT id, d, 'DISTINCT GROUP BY x LIMIT 1 -- ' FROM src.e /* FINAL */",
        "INSERT INTO dst.e SELECT id, d, s FROM src.e SETTINGS max_bytes_before_external_sort = 1",
        "INSERT INTO dst.e SELECT arraySum(arr), d, s FROM src.e"}) {
    const SqlVerdict verdict = Check(sql);
    EXPECT_TRUE(verdict.is_chunkable()) << sql << "\n" << Kinds(verdict);
    EXPECT_TRUE(RefusalOf(verdict, "insert.sql", Chunking::kOn).ok());
    EXPECT_EQ(verdict.target, (SqlTableName{.database = "dst", .table = "e"}));
  }
}

TEST_F(SqlCheckTest, WhatIsNotRowLocalIsNamedAndRefusedWhenChunking) {
  const std::map<std::string, std::string> cases = {
      {"SELECT id, d, s FROM merge('src', '^e$')", "table_function"},
      {"SELECT * FROM (SELECT id, d, s FROM src.e SETTINGS max_bytes_before_external_sort = 0)",
       "inner_settings"},
      {"SELECT id, d, s FROM src.e SETTINGS max_rows_to_group_by = 0 UNION ALL SELECT id, d, s "
       "FROM src.e",
       "inner_settings"},
      {"SELECT id, max(d), any(s) FROM src.e GROUP BY id", "group_by"},
      {"SELECT count(), max(d), any(s) FROM src.e", "aggregate_function"},
      {"SELECT id, max(d), any(s) FROM src.e GROUP BY id HAVING count() > 1", "having"},
      {"SELECT id, d, s FROM src.e LIMIT 10", "limit"},
      {"SELECT id, d, s FROM src.e LIMIT 10 OFFSET 5", "offset"},
      {"SELECT id, d, s FROM src.e OFFSET 5", "offset"},
      {"SELECT id, d, s FROM src.e LIMIT 1 BY id", "limit_by"},
      {"SELECT id, d, s FROM src.e ORDER BY id LIMIT 10 WITH TIES", "limit"},
      {"SELECT id, d, s FROM src.e SETTINGS limit = 10", "setting"},
      {"SELECT row_number() OVER (ORDER BY id), d, s FROM src.e", "window_function"},
      {"SELECT id, d, s FROM src.e QUALIFY rank() OVER (ORDER BY id) = 1", "qualify"},
      {"SELECT id, d, s FROM src.e FINAL", "final"},
      {"SELECT id, d, s FROM src.e SAMPLE 1/2", "sample"},
      {"SELECT DISTINCT id, d, s FROM src.e", "distinct"},
      {"SELECT * FROM (SELECT id, d, s FROM src.e UNION DISTINCT SELECT id, d, s FROM src.e)",
       "set_operation"},
      {"SELECT id, d, s FROM src.e INTERSECT SELECT id, d, s FROM src.v", "set_operation"},
      {"SELECT id, d, s FROM src.e EXCEPT SELECT id, d, s FROM src.v", "set_operation"},
      {"(SELECT id, d, s FROM src.e LIMIT 1)", "limit"},
      {"((SELECT id, d, s FROM src.e)) UNION ALL (SELECT id, d, s FROM src.e LIMIT 1)", "limit"},
      {"SELECT a.id, b.d, b.s FROM src.e AS a JOIN src.e AS b ON a.id = b.id", "join"},
      {"SELECT a.id, b.d, b.s FROM src.e AS a, src.e AS b", "join"},
      {"SELECT id, d, s FROM src.e WHERE id IN (SELECT max(id) FROM src.e)", "subquery"},
      {"SELECT id, d, s FROM src.e WHERE id IN src.e", "subquery"},
      {"SELECT id, (SELECT max(d) FROM src.e), s FROM src.e", "subquery"},
      {"WITH (SELECT max(id) FROM src.e) AS m SELECT id + m, d, s FROM src.e", "subquery"},
      {"SELECT id, d, s FROM src.e ORDER BY id WITH FILL", "with_fill"},
      {"SELECT id, d, s FROM src.e UNION ALL SELECT 1, toDate(0), ''", "constant_select"},
      {"SELECT number, toDate(0), '' FROM numbers(3) UNION ALL SELECT id, d, s FROM src.e",
       "table_function"},
      {"SELECT id, d, s FROM src.vg", "group_by"},
      {"SELECT id, any(d), any(s) FROM src.e GROUP BY GROUPING SETS ((id), ())", "group_by"},
  };
  for (const auto& [select, kind] : cases) {
    const SqlVerdict verdict = Check("INSERT INTO dst.e " + select);
    EXPECT_TRUE(Has(verdict, kind)) << select << "\n" << Kinds(verdict);
    EXPECT_FALSE(verdict.is_chunkable()) << select;
    const Status refusal = RefusalOf(verdict, "insert.sql", Chunking::kOn);
    ASSERT_FALSE(refusal.ok()) << select;
    EXPECT_EQ(refusal.code(), Code::kRefused);
    if (verdict.is_accepted()) {
      EXPECT_EQ(refusal.explanation().pf_number, 2114) << select;
      EXPECT_TRUE(RefusalOf(verdict, "insert.sql", Chunking::kOff).ok()) << select;
    }
  }
  for (const std::string select :
       {"SELECT * FROM (SELECT id, d, s FROM src.e SETTINGS additional_table_filters = {})",
        "SELECT id, d, s FROM src.e SETTINGS force_optimize_projection = 1"}) {
    const SqlVerdict verdict = Check("INSERT INTO dst.e " + select);
    EXPECT_FALSE(verdict.is_accepted()) << select;
    const Status refusal = RefusalOf(verdict, "insert.sql", Chunking::kOn);
    EXPECT_EQ(refusal.explanation().pf_number, 2113) << select << Kinds(verdict);
    EXPECT_NE(refusal.message().find("SETTINGS"), std::string::npos);
  }
}

TEST_F(SqlCheckTest, TheConstructIsNamedWithItsPlace) {
  const SqlVerdict verdict =
      Check("INSERT INTO dst.e\nSELECT id, d,\n  row_number() OVER () AS s\nFROM src.e");
  const Status refusal = RefusalOf(verdict, "insert.sql", Chunking::kOn);
  EXPECT_EQ(refusal.explanation().where, "insert.sql:3:3, window function row_number()");
}

TEST_F(SqlCheckTest, WhatReachesOutsideIsRefusedBeforeItIsEvaluated) {
  for (const std::string select :
       {"SELECT id, d, file('/etc/hostname') FROM src.e",
        "SELECT 1, toDate(0), * FROM url('http://127.0.0.1:1/x')",
        "SELECT 1, toDate(0), * FROM file('/etc/hostname', LineAsString)",
        "SELECT 1, toDate(0), * FROM remote('127.0.0.1:1', system.one)",
        "SELECT 1, toDate(0), * FROM executable('x.sh', 'TSV', 's String')",
        "SELECT 1, toDate(0), * FROM mysql('127.0.0.1:1', 'a', 'b', 'c', 'd')",
        "SELECT id, d, dictGet('a', 'b', id) FROM src.e",
        "SELECT id, d, s FROM src.e INTO OUTFILE '/tmp/x'",
        "SELECT if(id = 0, FILE('/etc/hostname'), s), d, s FROM src.e"}) {
    const SqlVerdict verdict = Check("INSERT INTO dst.e " + select);
    EXPECT_FALSE(verdict.is_accepted()) << select << "\n" << Kinds(verdict);
    EXPECT_EQ(RefusalOf(verdict, "x", Chunking::kOff).explanation().pf_number, 2115) << select;
  }
  InsertSelectRules open = Rules();
  open.allows_external_reads = true;
  EXPECT_TRUE(Check("INSERT INTO dst.e SELECT id, d, file('/etc/hostname') FROM src.e", open)
                  .is_accepted());
}

TEST_F(SqlCheckTest, TargetSourceAndFormMustFitTheJob) {
  for (const std::string sql :
       {"SELECT id, d, s FROM src.e", "INSERT INTO dst.e VALUES (1, '2024-01-01', 'x')",
        "INSERT INTO dst.e FORMAT TSV", "INSERT INTO dst.other SELECT id, d, s FROM src.e",
        "INSERT INTO src.e SELECT id, d, s, [] FROM src.e",
        "INSERT INTO e SELECT id, d, s FROM src.e", "INSERT INTO dst.e SELECT id, d, s FROM dst.e",
        "INSERT INTO dst.e SELECT id, toDate(0), '' FROM src.other",
        "INSERT INTO dst.e SELECT id, d, s FROM src.vo", "CREATE TABLE x (a Int8) ENGINE = Memory",
        "INSERT INTO dst.e SELECT id, d, s FROM src.e WHERE id IN (SELECT id FROM src.other)",
        "INSERT INTO FUNCTION null('a Int8') SELECT id FROM src.e",
        "INSERT INTO dst.e SELECT id, d, {x:String} FROM src.e",
        "INSERT INTO dst.e SELECT 1, toDate(0), ''"}) {
    const auto verdict = CheckInsertSelect(ctx(), *engine_, sql, Rules());
    if (!verdict.ok()) {
      EXPECT_EQ(verdict.status().explanation().pf_number, 2106)
          << sql << verdict.status().ToString();
      continue;
    }
    EXPECT_FALSE(verdict->is_accepted()) << sql;
    EXPECT_EQ(RefusalOf(*verdict, "x", Chunking::kOff).explanation().pf_number, 2105)
        << sql << Kinds(*verdict);
  }
}

TEST_F(SqlCheckTest, TextThatDoesNotParseOrResolveSaysWhere) {
  const auto broken =
      CheckInsertSelect(ctx(), *engine_, "INSERT INTO dst.e\nSELECT id,, d FROM src.e", Rules());
  ASSERT_FALSE(broken.ok());
  EXPECT_EQ(broken.status().code(), Code::kInvalidArgument);
  EXPECT_EQ(broken.status().explanation().pf_number, 2106);
  EXPECT_EQ(broken.status().explanation().where, "the SQL, 2:13");
  const auto unknown =
      CheckInsertSelect(ctx(), *engine_, "INSERT INTO dst.e SELECT nope, d, s FROM src.e", Rules());
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.status().explanation().pf_number, 2106);
  const auto several = CheckInsertSelect(
      ctx(), *engine_, "INSERT INTO dst.e SELECT id, d, s FROM src.e; SELECT 1", Rules());
  EXPECT_FALSE(several.ok());
}

TEST_F(SqlCheckTest, ChanceTimeAndBlockSizeAreWarnings) {
  const SqlVerdict verdict = Check(
      "INSERT INTO dst.e SELECT rand(), today(), toString(rowNumberInAllBlocks()) FROM src.e "
      "SETTINGS max_block_size = 1000");
  EXPECT_TRUE(verdict.is_chunkable()) << Kinds(verdict);
  EXPECT_EQ(verdict.Warnings().size(), 4U);
}

TEST_F(SqlCheckTest, ReservedSettingsAreRefusedAtEveryLevel) {
  for (const std::string setting :
       {"additional_table_filters = {'src.e': 'id > 1'}", "max_threads = 4",
        "max_insert_threads = 4", "max_memory_usage = 1", "optimize_use_projections = 1",
        "readonly = 1", "log_comment = 'x'"}) {
    for (const std::string& sql :
         {"INSERT INTO dst.e SETTINGS " + setting + " SELECT id, d, s FROM src.e",
          "INSERT INTO dst.e SELECT id, d, s FROM src.e SETTINGS max_rows_to_read = 0, " + setting,
          "INSERT INTO dst.e SELECT * FROM (SELECT id, d, s FROM src.e SETTINGS " + setting +
              ")"}) {
      const SqlVerdict verdict = Check(sql);
      EXPECT_EQ(RefusalOf(verdict, "x", Chunking::kOff).explanation().pf_number, 2113)
          << sql << Kinds(verdict);
    }
  }
}

TEST_F(SqlCheckTest, ColumnsThatNameThePartAreRefused) {
  for (const std::string sql :
       {"INSERT INTO dst.e SELECT id, d, s FROM src.e WHERE _part = 'all_2_2_0'",
        "INSERT INTO dst.e SELECT id, d, _part FROM src.e",
        "INSERT INTO dst.e SELECT _block_number, d, s FROM src.e",
        "INSERT INTO dst.e SELECT * FROM (SELECT id, d, toString(_part_data_version) FROM src.e)",
        "INSERT INTO dst.e SELECT x._part_index, x.d, x.s FROM src.e AS x"}) {
    const SqlVerdict verdict = Check(sql);
    EXPECT_TRUE(Has(verdict, "virtual_column")) << sql << Kinds(verdict);
    EXPECT_EQ(RefusalOf(verdict, "x", Chunking::kOff).explanation().pf_number, 2105) << sql;
  }
  for (const std::string sql :
       {"INSERT INTO dst.e SELECT id, d, _partition_id FROM src.e WHERE _part_offset > 3",
        "INSERT INTO dst.e SELECT id, d, '_part' FROM src.e",
        "INSERT INTO dst.e SELECT id, d, s AS _part FROM src.e"}) {
    EXPECT_FALSE(Has(Check(sql), "virtual_column")) << sql;
  }
  // A table may have such a column of its own.
  const auto made = engine_->Query(
      ctx(), "CREATE TABLE src.parts (id UInt64, _part String) ENGINE = MergeTree ORDER BY id", {});
  ASSERT_TRUE(made.ok()) << made.status().ToString();
  InsertSelectRules rules = Rules();
  rules.source.table = "parts";
  EXPECT_FALSE(Has(Check("INSERT INTO dst.e SELECT id, today(), _part FROM src.parts", rules),
                   "virtual_column"));
}

TEST_F(SqlCheckTest, SettingsThatEndAStatementEarlyAreRefusedAtEveryLevel) {
  for (const std::string setting :
       {"max_execution_time = 1, timeout_overflow_mode = 'break'",
        "`timeout_overflow_mode` = 'break'", "timeout_overflow_mode_leaf = 'break'",
        "read_overflow_mode = 'break'", "read_overflow_mode_leaf = 'break'",
        "result_overflow_mode = 'break'", "group_by_overflow_mode = 'any'",
        "sort_overflow_mode = 'break'", "set_overflow_mode = 'break'",
        "join_overflow_mode = 'break'", "distinct_overflow_mode = 'break'",
        "transfer_overflow_mode = 'break'", "parallel_replica_offset = 1",
        "partial_result_on_first_cancel = 1"}) {
    for (const std::string& sql :
         {"INSERT INTO dst.e SETTINGS " + setting + " SELECT id, d, s FROM src.e",
          "INSERT INTO dst.e SELECT id, d, s FROM src.e SETTINGS " + setting,
          "INSERT INTO dst.e SELECT * FROM (SELECT id, d, s FROM src.e SETTINGS " + setting +
              ")"}) {
      const SqlVerdict verdict = Check(sql);
      EXPECT_EQ(RefusalOf(verdict, "x", Chunking::kOff).explanation().pf_number, 2113)
          << sql << Kinds(verdict);
    }
  }
}

TEST_F(SqlCheckTest, TheSettingsOfAViewAreJudgedToo) {
  const auto made = engine_->Query(ctx(),
                                   "CREATE VIEW src.early AS SELECT id, d, s FROM src.e SETTINGS "
                                   "max_rows_to_read = 1, read_overflow_mode = 'break'",
                                   {});
  ASSERT_TRUE(made.ok()) << made.status().ToString();
  const SqlVerdict verdict = Check("INSERT INTO dst.e SELECT id, d, s FROM src.early");
  EXPECT_EQ(RefusalOf(verdict, "x", Chunking::kOff).explanation().pf_number, 2113)
      << Kinds(verdict);
  EXPECT_TRUE(Has(verdict, "inner_settings")) << Kinds(verdict);
}

TEST_F(SqlCheckTest, TablesReadAreResolved) {
  InsertSelectRules rules = Rules();
  rules.database = "src";
  const SqlVerdict verdict =
      Check("INSERT INTO dst.e SELECT id, d, s FROM e UNION ALL SELECT * FROM vv", rules);
  EXPECT_TRUE(verdict.is_chunkable()) << Kinds(verdict);
  EXPECT_EQ(verdict.tables_read, (std::vector<std::string>{"src.e", "src.v", "src.vv"}));
}

// check: PF-20
TEST_F(SqlCheckTest, AcceptedChunksGiveTheSameRowsAsTheWhole) {
  ASSERT_TRUE(engine_
                  ->Query(ctx(),
                          "INSERT INTO src.e SELECT number, toDate(number), toString(number % 7), "
                          "range(number % 4) FROM numbers(10000)",
                          {})
                  .ok());
  for (const std::string select :
       {"SELECT id, d, s FROM src.e UNION ALL SELECT id + 1, d, s FROM src.e",
        "SELECT t.id, t.d, t.s FROM src.e AS t WHERE t.id % 3 = 0", "SELECT id, d, s FROM src.vv",
        "WITH c AS (SELECT id, d, s FROM src.e WHERE id % 2 = 0) SELECT * FROM c",
        "SELECT id, d, toString(a) FROM src.e ARRAY JOIN arr AS a"}) {
    const std::string sql = "INSERT INTO dst.e " + select;
    ASSERT_TRUE(Check(sql).is_chunkable()) << sql;
    std::vector<std::string> sums;
    for (const std::vector<std::string>& filters :
         {std::vector<std::string>{"1"},
          {"_part_offset >= 0 AND _part_offset < 3333",
           "_part_offset >= 3333 AND _part_offset < 6667",
           "_part_offset >= 6667 AND _part_offset < 10000"}}) {
      ASSERT_TRUE(engine_->Query(ctx(), "TRUNCATE TABLE dst.e SYNC", {}).ok());
      for (const std::string& filter : filters) {
        QueryOptions options;
        options.settings = {{"additional_table_filters", "{'src.e': " + QuoteString(filter) + "}"},
                            {"optimize_use_projections", "0"}};
        const auto inserted = engine_->Query(ctx(), sql, options);
        ASSERT_TRUE(inserted.ok()) << inserted.status().ToString();
      }
      sums.push_back(
          engine_->Query(ctx(), "SELECT count(), sum(cityHash64(*)) FROM dst.e", {})->text);
    }
    EXPECT_EQ(sums[0], sums[1]) << select;
    EXPECT_FALSE(sums[0].starts_with("0\t"));
  }
  ASSERT_TRUE(engine_->Query(ctx(), "TRUNCATE TABLE dst.e SYNC", {}).ok());
  ASSERT_TRUE(engine_->Query(ctx(), "TRUNCATE TABLE src.e SYNC", {}).ok());
}

TEST_F(SqlCheckTest, KindsOfStatements) {
  const std::map<std::string, SqlKind> cases = {
      {"SELECT 1", SqlKind::kRead},
      {"WITH 1 AS x SELECT x", SqlKind::kRead},
      {"SHOW TABLES", SqlKind::kRead},
      {"EXPLAIN SELECT 1", SqlKind::kRead},
      {"DESCRIBE TABLE src.e", SqlKind::kRead},
      {"EXISTS TABLE src.e", SqlKind::kRead},
      {"SELECT 1 EXCEPT SELECT 2", SqlKind::kRead},
      {"INSERT INTO src.e SELECT 1", SqlKind::kInsert},
      {"DELETE FROM src.e WHERE 1", SqlKind::kMutation},
      {"ALTER TABLE src.e FREEZE", SqlKind::kMutation},
      {"OPTIMIZE TABLE src.e FINAL", SqlKind::kMutation},
      {"TRUNCATE TABLE src.e", SqlKind::kMutation},
      {"CREATE TABLE x (a Int8) ENGINE = Memory", SqlKind::kDefinition},
      {"DROP TABLE src.e", SqlKind::kDefinition},
      {"RENAME TABLE src.e TO src.f", SqlKind::kDefinition},
      {"SYSTEM FLUSH LOGS", SqlKind::kControl},
      {"SET max_threads = 1", SqlKind::kControl},
      {"KILL QUERY WHERE 1", SqlKind::kControl},
      {"USE src", SqlKind::kControl}};
  for (const auto& [sql, kind] : cases) {
    const auto found = ClassifySql(ctx(), *engine_, sql);
    ASSERT_TRUE(found.ok()) << sql << found.status().ToString();
    EXPECT_EQ(found->kind, kind) << sql << " " << found->node;
  }
  EXPECT_EQ(ClassifySql(ctx(), *engine_, "SELECT 1; SELECT 2").status().explanation().pf_number,
            2106);
  EXPECT_EQ(ClassifySql(ctx(), *engine_, "not sql at all").status().explanation().pf_number, 2106);
}

TEST_F(SqlCheckTest, ExternalFunctionsOfADefinitionAreFound) {
  const auto found = FindExternalFunctions(
      ctx(), *engine_,
      "CREATE TABLE x (a String DEFAULT file('/etc/hostname'), b Int8 MATERIALIZED length(a) "
      "CODEC(ZSTD(1))) "
      "ENGINE = MergeTree PARTITION BY length(a) ORDER BY a SETTINGS index_granularity = 1");
  ASSERT_TRUE(found.ok()) << found.status().ToString();
  EXPECT_EQ(*found, std::vector<std::string>{"file"});
}

}  // namespace
}  // namespace partforge
