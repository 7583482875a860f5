// What only ClickHouse itself can tell: needs libchdb; starts the program engine_child.

#include <gtest/gtest.h>

#include "clickhouse/fingerprint.h"
#include "clickhouse/freeze_scan.h"
#include "clickhouse/part_files.h"
#include "clickhouse/part_verifier.h"
#include "testing/engine_child_fixture.h"

namespace partforge::clickhouse {
namespace {

namespace fs = std::filesystem;

class SchemaEngine : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    world = std::make_unique<testing::TestWorld>();
    directory = std::make_unique<testing::TempDir>();
    auto started =
        ChildEngine::Start(world->context(), testing::EngineChildOptions(*directory / "data"));
    ASSERT_TRUE(started.ok()) << started.status().ToString();
    engine = std::move(started).value();
    Run("CREATE DATABASE shop ENGINE = Atomic");
  }
  static void TearDownTestSuite() {
    engine.reset();
    directory.reset();
    world.reset();
  }
  static std::string Run(const std::string& sql) {
    const auto outcome = engine->Query(world->context(), sql, {});
    EXPECT_TRUE(outcome.ok()) << sql << "\n" << outcome.status().ToString();
    return outcome.ok() ? outcome->text : "";
  }
  // The live SHOW CREATE of a table made from `sql`, which is dropped again.
  static std::string ShowAfterCreate(const std::string& sql) {
    Run(sql);
    const TableName name = ParseCreateTable(sql)->name;
    const std::string shown = Run("SHOW CREATE TABLE " + name.ToSql() + " FORMAT TSVRaw");
    Run("DROP TABLE " + name.ToSql() + " SYNC");
    return shown;
  }
  static std::string IdOf(const std::string& sql) {
    const auto fingerprint = ComputeFingerprint(world->context(), *engine, sql);
    EXPECT_TRUE(fingerprint.ok()) << sql << "\n" << fingerprint.status().ToString();
    return fingerprint.ok() ? fingerprint->canonical_json : "";
  }
  static std::string IdOfTable(const std::string& sql) {
    const auto fingerprint = FingerprintOfTable(world->context(), *engine, sql);
    EXPECT_TRUE(fingerprint.ok()) << sql << "\n" << fingerprint.status().ToString();
    return fingerprint.ok() ? fingerprint->canonical_json : "";
  }

  static std::unique_ptr<testing::TestWorld> world;
  static std::unique_ptr<testing::TempDir> directory;
  static std::unique_ptr<ChildEngine> engine;
};
std::unique_ptr<testing::TestWorld> SchemaEngine::world;
std::unique_ptr<testing::TempDir> SchemaEngine::directory;
std::unique_ptr<ChildEngine> SchemaEngine::engine;

// As users write them; the server shows each of them otherwise.
const char* const kAsWritten[] = {
    "CREATE TABLE shop.t (id INT, v VARCHAR(20) NULL, d Decimal(10,2)) ENGINE=MergeTree() ORDER BY "
    "(id)",
    "create table shop.t (`id` UInt64, ts DateTime64(3,'UTC'), e Enum('a','b')) engine "
    "MergeTree partition by (toYYYYMM(ts)) order by (id,ts) primary key (id) sample by id "
    "SETTINGS allow_suspicious_indices = 1",
    "CREATE TABLE shop.t (id UInt64, n Nested(a INT, b Array(String)), x Int8 DEFAULT 1+ 1, y "
    "DEFAULT now(), m String MATERIALIZED concat('a' ,'b'), al String ALIAS m, ep Int8 EPHEMERAL) "
    "ENGINE = ReplacingMergeTree(id) ORDER BY (id,)",
    "CREATE TABLE shop.t (a LowCardinality(String), s SimpleAggregateFunction(sum,UInt64), g "
    "AggregateFunction(uniq,UInt64), t Tuple(x INT, y String)) ENGINE = "
    "AggregatingMergeTree ORDER BY (a, t)",
    "CREATE TABLE shop.t (j JSON(a.b UInt32,SKIP c), v Variant(UInt8,String), d Dynamic, id UInt8, "
    "mp Map(String,INT), t Tuple(x INT,y String)) ENGINE = MergeTree ORDER BY tuple(id)",
    "CREATE TABLE shop.t (id UInt64 PRIMARY KEY, b String COMMENT 'x' CODEC(ZSTD(3))) ENGINE = "
    "MergeTree",
    "CREATE TABLE shop.t (id UInt64, b Int64, PRIMARY KEY (id)) ENGINE = SummingMergeTree((b)) "
    "ORDER BY (id, intHash32(id))",
    "CREATE TABLE shop.t (id UInt64, sign Int8, d Date DEFAULT today(), v String TTL d + INTERVAL "
    "1 DAY) "
    "ENGINE = CollapsingMergeTree(sign) PARTITION BY (d, sign) ORDER BY id TTL d + INTERVAL 1 YEAR",
};

TEST_F(SchemaEngine, TheUsersTextAndTheLiveTableHaveOneFingerprint) {
  for (const char* sql : kAsWritten) {
    const std::string text = sql;
    SCOPED_TRACE(text);
    const std::string live = ShowAfterCreate(text);
    EXPECT_EQ(IdOf(text), IdOfTable(live));
    EXPECT_EQ(IdOf(text), IdOf(live));
  }
}

TEST_F(SchemaEngine, SpellingDoesNotMatterMeaningDoes) {
  const std::string one =
      IdOf("CREATE TABLE a.b (ts DateTime, x INT) ENGINE=MergeTree ORDER BY (ts)");
  EXPECT_EQ(one, IdOf("CREATE TABLE c.d (`ts` DateTime, x Int32) ENGINE = "
                      "ReplicatedMergeTree('/p', 'r') ORDER BY ts TTL ts SETTINGS "
                      "storage_policy = 'x' COMMENT 'c'"));
  EXPECT_NE(one, IdOf("CREATE TABLE a.b (ts DateTime, x INT) ENGINE=MergeTree ORDER BY (ts, x)"));
  EXPECT_NE(one, IdOf("CREATE TABLE a.b (ts DateTime, x UInt32) ENGINE=MergeTree ORDER BY ts"));
  EXPECT_NE(one, IdOf("CREATE TABLE a.b (ts DateTime, y INT) ENGINE=MergeTree ORDER BY ts"));
  EXPECT_NE(one, IdOf("CREATE TABLE a.b (ts DateTime, x INT) ENGINE=MergeTree ORDER BY ts SETTINGS "
                      "index_granularity_bytes = 0"));
  EXPECT_NE(one, IdOf("CREATE TABLE a.b (ts DateTime, x INT) ENGINE=MergeTree ORDER BY ts SETTINGS "
                      "allow_nullable_key = 1"));
  EXPECT_EQ(one, IdOf("CREATE TABLE a.b (ts DateTime, x INT) ENGINE=MergeTree ORDER BY ts SETTINGS "
                      "index_granularity_bytes = 1048576, allow_nullable_key = 0"));
}

TEST_F(SchemaEngine, ANestedColumnTheServerKeepsWholeIsAnotherShape) {
  const std::string sql =
      "CREATE TABLE a.b (id UInt8, n Nested(a UInt8)) ENGINE=MergeTree ORDER BY id";
  EXPECT_NE(IdOf(sql), IdOfTable(sql));
}

TEST_F(SchemaEngine, TheParserAgreesWithTheEngineOnEveryStatement) {
  for (const char* sql : kAsWritten) {
    const std::string text = sql;
    // Parsed, printed, made: the same table as without us.
    const std::string printed = ParseCreateTable(text)->ToSql();
    EXPECT_EQ(ShowAfterCreate(printed), ShowAfterCreate(text)) << printed;
  }
}

TEST_F(SchemaEngine, KnowsItsOwnNames) {
  const auto names = ReadEngineNames(world->context(), *engine);
  ASSERT_TRUE(names.ok()) << names.status().ToString();
  const auto has = [](const std::vector<std::string>& list, const char* name) {
    return std::binary_search(list.begin(), list.end(), name);
  };
  EXPECT_TRUE(has(names->merge_tree_settings, "index_granularity"));
  EXPECT_TRUE(has(names->codecs, "ZSTD"));
  EXPECT_TRUE(has(names->functions, "toYYYYMM"));
  EXPECT_TRUE(has(names->index_types, "minmax"));
  const auto ddl = NormalizeSource(
      "CREATE TABLE d.t (a Int8 CODEC(Delta, ZSTD(1)), b UInt64 DEFAULT CAST(a AS "
      "Nullable(Decimal(10, 2))), c AggregateFunction(sum, Int64) DEFAULT "
      "initializeAggregation('sumState', toInt64(a)), g Array(Int8) DEFAULT arrayMap(x -> x + 1, "
      "[a]), t String DEFAULT trim(BOTH ' ' FROM toString(a)), u Int8 DEFAULT my_udf(a), INDEX i a "
      "TYPE annoy, INDEX k a TYPE set(3)) ENGINE = MergeTree ORDER BY a SETTINGS from_2030 = 1",
      {.engine = *names});
  ASSERT_TRUE(ddl.ok()) << ddl.status().ToString();
  EXPECT_EQ(ddl->removals,
            (std::vector<std::string>{"SETTINGS from_2030", "INDEX i",
                                      "DEFAULT of column u (unknown function my_udf)"}));
}

// A guard of a newer engine must not stop a table that its own server took.
TEST_F(SchemaEngine, OddButLivingSchemasAreMadeAllTheSame) {
  const auto names = ReadEngineNames(world->context(), *engine);
  for (const char* sql :
       {"CREATE TABLE shop.odd (a Nullable(Int8), f Float64, x String) ENGINE = "
        "AggregatingMergeTree PARTITION BY f ORDER BY a",
        "CREATE TABLE shop.odd (a Int8, s Int64, l LowCardinality(UInt8)) ENGINE = "
        "SummingMergeTree(s) ORDER BY (a, s)",
        "CREATE TABLE shop.odd (a Int8, b Int8, i1 FixedString(400), INDEX x a TYPE minmax, INDEX "
        "y "
        "a TYPE minmax) ENGINE = MergeTree ORDER BY (a DESC, b)"}) {
    EXPECT_FALSE(engine->Query(world->context(), sql, {}).ok()) << sql;
    const auto ddl = NormalizeSource(sql, {.engine = *names});
    ASSERT_TRUE(ddl.ok()) << ddl.status().ToString();
    const auto made =
        engine->Query(world->context(), ddl->sql, {.settings = LenientCreateSettings()});
    EXPECT_TRUE(made.ok()) << ddl->sql << made.status().ToString();
    Run("DROP TABLE IF EXISTS shop.odd SYNC");
  }
}

// The whole way of a source table: what the server shows becomes a local table that takes the part.
// check: PF-45
TEST_F(SchemaEngine, APartOfAReplicatedTableAttachesToTheNormalizedOne) {
  Run("CREATE TABLE shop.made (id UInt64, day Date, v String CODEC(ZSTD(1)) TTL day + INTERVAL 500 "
      "YEAR, "
      "INDEX ix id TYPE minmax, PROJECTION p (SELECT day, count() GROUP BY day), CONSTRAINT c "
      "CHECK "
      "id >= 0) ENGINE = ReplacingMergeTree(id) PARTITION BY toYYYYMM(day) ORDER BY (day, id) TTL "
      "day + INTERVAL 400 YEAR SETTINGS min_bytes_for_wide_part = 0, index_granularity = 128, "
      "deduplicate_merge_projection_mode = 'drop'");
  Run("INSERT INTO shop.made SELECT number, toDate('2024-01-01') + number % 20, 'x' FROM "
      "numbers(500)");
  Run("ALTER TABLE shop.made FREEZE WITH NAME 'f45'");
  const auto location = ReadTableLocation(world->context(), *engine, {"shop", "made"});
  ASSERT_TRUE(location.ok()) << location.status().ToString();
  const auto scan =
      ScanFreeze(world->context(), *location, {"shop", "made"}, {"f45"}, CoveredParts::kRefuse);
  ASSERT_TRUE(scan.ok()) << scan.status().ToString();
  ASSERT_EQ(scan->parts.size(), 1u);
  EXPECT_EQ(scan->parts[0].rows, 500);
  EXPECT_TRUE(
      VerifyPartDirectory(world->context(), scan->parts[0].directory, VerifyLevel::kContent).ok());

  // The statement as a replicated server would show it.
  std::string shown = Run("SHOW CREATE TABLE shop.made FORMAT TSVRaw");
  const auto replace = [&](std::string_view from, std::string_view to) {
    ASSERT_NE(shown.find(from), std::string::npos) << from;
    shown.replace(shown.find(from), from.size(), to);
  };
  replace("CREATE TABLE shop.made",
          "CREATE TABLE shop.orders UUID '1f2e3d4c-0000-4000-8000-00000000beef' ON CLUSTER "
          "'{cluster}'");
  replace("ReplacingMergeTree(id)",
          "ReplicatedReplacingMergeTree('/clickhouse/tables/{uuid}/{shard}', '{replica}', id)");
  replace("SETTINGS ", "SETTINGS storage_policy = 'tiered', replicated_deduplication_window = 7, ");
  const auto names = ReadEngineNames(world->context(), *engine);
  const auto ddl = NormalizeSource(shown, {.engine = *names});
  ASSERT_TRUE(ddl.ok()) << ddl.status().ToString();
  Run("DROP TABLE shop.made SYNC");
  Run(ddl->sql);
  const auto local = ReadTableLocation(world->context(), *engine, {"shop", "orders"});
  ASSERT_TRUE(local.ok()) << local.status().ToString();
  const std::string name = scan->parts[0].name.ToString();
  fs::copy(scan->parts[0].directory, fs::path(local->data_paths.at(0)) / "detached" / name,
           fs::copy_options::recursive);
  Run("ALTER TABLE shop.orders ATTACH PART '" + name + "'");
  EXPECT_EQ(Run("SELECT count(), sum(id), countIf(v = 'x') FROM shop.orders"),
            "500\t124750\t500\n");
  // The destination made of the same text keeps what produced parts must carry.
  const auto destination = NormalizeDestination(shown, {.engine = *names});
  ASSERT_TRUE(destination.ok());
  Run("DROP TABLE shop.orders SYNC");
  Run(destination->sql);
  Run("INSERT INTO shop.orders SELECT number, toDate('2024-01-01'), 'x' FROM numbers(5)");
  EXPECT_EQ(
      Run("SELECT arraySort(groupArray(name)) FROM system.projections WHERE table = 'orders'"),
      "['p']\n");
  const std::string path =
      Run("SELECT path FROM system.parts WHERE table = 'orders' AND active FORMAT TSVRaw");
  const auto produced = ReadPart(world->context(), fs::path(path.substr(0, path.size() - 2)));
  ASSERT_TRUE(produced.ok()) << produced.status().ToString();
  EXPECT_TRUE(produced->has_ttl_file);
  EXPECT_EQ(produced->projections, std::vector<std::string>{"p"});
  Run("DROP TABLE shop.orders SYNC");
}

TEST_F(SchemaEngine, TtlTextsAreComparedAsTheEngineFormatsThem) {
  const auto ttl = [&](const char* sql) {
    return FormattedTtl(world->context(), *engine, ParseCreateTable(sql).value()).value();
  };
  EXPECT_EQ(
      ttl("CREATE TABLE a.b (d Date, v Int8 TTL d+INTERVAL 1 DAY) ENGINE=MergeTree ORDER BY d "
          "TTL d + INTERVAL 1 YEAR"),
      ttl("CREATE TABLE c.d (d Date, v String DEFAULT 'x' TTL d + toIntervalDay(1)) ENGINE = "
          "MergeTree ORDER BY tuple() TTL d + toIntervalYear(1)"));
  EXPECT_NE(ttl("CREATE TABLE a.b (d Date) ENGINE=MergeTree ORDER BY d TTL d + INTERVAL 1 YEAR"),
            ttl("CREATE TABLE a.b (d Date) ENGINE=MergeTree ORDER BY d TTL d + INTERVAL 2 YEAR"));
  EXPECT_EQ(ttl("CREATE TABLE a.b (d Date) ENGINE=MergeTree ORDER BY d"),
            std::vector<std::string>{""});
}

}  // namespace
}  // namespace partforge::clickhouse
