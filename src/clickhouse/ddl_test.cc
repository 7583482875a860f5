#include "clickhouse/ddl.h"

#include <gtest/gtest.h>

#include "testing/test_world.h"

namespace partforge::clickhouse {
namespace {

constexpr std::string_view kFull =
    R"(ATTACH TABLE IF NOT EXISTS shop.`my orders` UUID '1f2e3d4c-0000-4000-8000-00000000beef' ON CLUSTER '{cluster}'
(
    -- a comment with ENGINE = Log
    `id` UInt64 CODEC(Delta, ZSTD(1)),
    engine String DEFAULT 'ENGINE = x, (' COMMENT 'ENGINE = Memory',
    `day` Date MATERIALIZED toDate(ts) /* , */ TTL day + INTERVAL 1 MONTH,
    ts DateTime64(3, 'UTC') NOT NULL,
    e Enum8('a, b' = 1, ')' = 2),
    n.a Array(UInt8),
    n.b Array(String),
    al String ALIAS concat(engine, ' AND ', e),
    ep UInt8 EPHEMERAL,
    comment Nullable(String) DEFAULT NULL COMMENT 'c',
    ttl DateTime DEFAULT now() TTL ttl + toIntervalDay(3),
    d Decimal(10, 2) STATISTICS(tdigest),
    INDEX ix (id, day) TYPE minmax GRANULARITY 4,
    index UInt8,
    PROJECTION p (SELECT engine, sum(id) GROUP BY engine),
    projection FixedString(3),
    CONSTRAINT c CHECK id > 0 AND (day > '2000-01-01')
)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/{uuid}/{shard}', '{replica}', ts)
PARTITION BY (toYYYYMM(day), comment)
PRIMARY KEY id
ORDER BY (id, day)
SAMPLE BY id
TTL day + INTERVAL 1 YEAR DELETE WHERE engine = 'SETTINGS x = 1', day + INTERVAL 2 YEAR TO DISK 'cold'
SETTINGS index_granularity = 8192, storage_policy = 'tiered', disk = disk(type = s3, path = 'x'), ttl_only_drop_parts = 1
COMMENT 'the orders')";

TEST(ParseCreateTable, CutsEveryClause) {
  const auto parsed = ParseCreateTable(kFull);
  ASSERT_TRUE(parsed.ok()) << parsed.status().ToString();
  const CreateTable& t = *parsed;
  EXPECT_TRUE(t.is_attach);
  EXPECT_TRUE(t.if_not_exists);
  EXPECT_EQ(t.name, (TableName{"shop", "my orders"}));
  EXPECT_EQ(t.uuid, "'1f2e3d4c-0000-4000-8000-00000000beef'");
  EXPECT_EQ(t.cluster, "'{cluster}'");
  ASSERT_EQ(t.columns.size(), 14u);
  EXPECT_EQ(t.columns[0].codec, "Delta, ZSTD(1)");
  EXPECT_EQ(t.columns[1].name, "engine");
  EXPECT_EQ(t.columns[1].default_expression, "'ENGINE = x, ('");
  EXPECT_EQ(t.columns[1].comment, "'ENGINE = Memory'");
  EXPECT_EQ(t.columns[2].default_kind, "MATERIALIZED");
  EXPECT_EQ(t.columns[2].default_expression, "toDate(ts)");
  EXPECT_EQ(t.columns[2].ttl, "day + INTERVAL 1 MONTH");
  EXPECT_EQ(t.columns[3].type, "DateTime64(3, 'UTC')");
  EXPECT_EQ(t.columns[3].null_modifier, "NOT NULL");
  EXPECT_EQ(t.columns[4].type, "Enum8('a, b' = 1, ')' = 2)");
  EXPECT_EQ(t.columns[5].name, "n.a");
  EXPECT_EQ(t.columns[7].default_kind, "ALIAS");
  EXPECT_EQ(t.columns[8].default_kind, "EPHEMERAL");
  EXPECT_EQ(t.columns[9].name, "comment");
  EXPECT_EQ(t.columns[9].default_expression, "NULL");
  EXPECT_EQ(t.columns[9].comment, "'c'");
  EXPECT_EQ(t.columns[10].ttl, "ttl + toIntervalDay(3)");
  EXPECT_EQ(t.columns[11].statistics, "tdigest");
  EXPECT_EQ(t.columns[12].name, "index");
  EXPECT_EQ(t.columns[13].type, "FixedString(3)");
  ASSERT_EQ(t.elements.size(), 3u);
  EXPECT_EQ(t.elements[0].name, "ix");
  EXPECT_EQ(t.elements[0].body, "(id, day) TYPE minmax GRANULARITY 4");
  EXPECT_EQ(t.elements[1].kind, "PROJECTION");
  EXPECT_EQ(t.elements[2].body, "CHECK id > 0 AND (day > '2000-01-01')");
  EXPECT_EQ(t.engine, "ReplicatedReplacingMergeTree");
  EXPECT_EQ(t.engine_args,
            (std::vector<std::string>{"'/clickhouse/{uuid}/{shard}'", "'{replica}'", "ts"}));
  EXPECT_EQ(t.partition_by, "(toYYYYMM(day), comment)");
  EXPECT_EQ(t.primary_key, "id");
  EXPECT_EQ(t.order_by, "(id, day)");
  EXPECT_EQ(t.sample_by, "id");
  EXPECT_EQ(t.ttl,
            "day + INTERVAL 1 YEAR DELETE WHERE engine = 'SETTINGS x = 1', day + INTERVAL 2 YEAR "
            "TO DISK 'cold'");
  ASSERT_EQ(t.settings.size(), 4u);
  EXPECT_EQ(t.settings[2].value, "disk(type = s3, path = 'x')");
  EXPECT_EQ(t.comment, "'the orders'");
}

TEST(ParseCreateTable, PrintsWhatParsesToTheSame) {
  const std::string once = ParseCreateTable(kFull)->ToSql();
  const auto again = ParseCreateTable(once);
  ASSERT_TRUE(again.ok()) << again.status().ToString() << "\n" << once;
  EXPECT_EQ(again->ToSql(), once);
  EXPECT_EQ(again->columns.size(), 14u);
}

TEST(ParseCreateTable, ColumnsNamedLikeKeywordsInKeys) {
  const auto t = ParseCreateTable(
      "create table d.t (comment String, ttl Date, settings UInt8) engine MergeTree partition by "
      "ttl order by comment settings index_granularity=1 comment 'x';");
  ASSERT_TRUE(t.ok()) << t.status().ToString();
  EXPECT_EQ(t->partition_by, "ttl");
  EXPECT_EQ(t->order_by, "comment");
  EXPECT_EQ(t->settings.size(), 1u);
  EXPECT_EQ(t->comment, "'x'");
}

TEST(ParseCreateTable, DefaultsEndWhereTheNextClauseBegins) {
  const auto t = ParseCreateTable(
      "CREATE TABLE d.t (a UInt8 DEFAULT b AND comment COMMENT 'x', b UInt8 DEFAULT if(a, 1, 2) "
      "NOT "
      "NULL, c UInt8 DEFAULT a IS NOT NULL, comment UInt8, e DEFAULT 1 CODEC(NONE), f UInt8 "
      "EPHEMERAL COMMENT 'y', g UInt8 NULL DEFAULT 1) ENGINE = MergeTree ORDER BY ()");
  ASSERT_TRUE(t.ok()) << t.status().ToString();
  EXPECT_EQ(t->columns[0].default_expression, "b AND comment");
  EXPECT_EQ(t->columns[0].comment, "'x'");
  EXPECT_EQ(t->columns[1].default_expression, "if(a, 1, 2)");
  EXPECT_EQ(t->columns[1].null_modifier, "NOT NULL");
  EXPECT_EQ(t->columns[2].default_expression, "a IS NOT NULL");
  EXPECT_EQ(t->columns[2].null_modifier, "");
  EXPECT_EQ(t->columns[4].type, "");
  EXPECT_EQ(t->columns[4].codec, "NONE");
  EXPECT_EQ(t->columns[5].comment, "'y'");
  EXPECT_EQ(t->columns[6].null_modifier, "NULL");
  EXPECT_EQ(t->order_by, "()");
}

TEST(ParseCreateTable, RefusesWhatIsNoTableOfItsOwnWithThePlace) {
  for (const char* sql :
       {"", "SELECT 1", "CREATE VIEW d.v AS SELECT 1",
        "CREATE MATERIALIZED VIEW d.v ENGINE = MergeTree ORDER BY x AS SELECT 1 AS x",
        "CREATE TABLE d.t AS d.s", "CREATE TABLE d.t (a Int8)",
        "CREATE TABLE d.t (a Int8) ENGINE = MergeTree ORDER BY a AS SELECT 1",
        "CREATE TABLE d.t (a Int8) ENGINE = MergeTree ORDER BY a; DROP TABLE x",
        "CREATE TABLE d.t () ENGINE = MergeTree", "CREATE TABLE d.t (a Int8, a Int8) ENGINE = X",
        "CREATE TABLE d.t (a Int8,, b Int8) ENGINE = X", "CREATE TABLE d.t (a) ENGINE = X",
        "CREATE TABLE d.t (a Int8 ENGINE = MergeTree", "CREATE TABLE d.t (a Int8) ENGINE = ",
        "CREATE TABLE d.t (a Int8) ENGINE = MergeTree ORDER BY a ORDER BY a",
        "CREATE TABLE d.t (a Int8) ENGINE = MergeTree SETTINGS a"}) {
    const auto t = ParseCreateTable(sql);
    EXPECT_FALSE(t.ok()) << sql;
    EXPECT_EQ(t.status().code(), Code::kInvalidArgument) << sql;
  }
  EXPECT_NE(ParseCreateTable("CREATE TABLE d.t (a Int8)\n  ENGINE = MergeTree\n  FOO x")
                .status()
                .message()
                .find("3:3"),
            std::string::npos);
}

TEST(ParseCreateTable, MutatedTextNeverCrashes) {
  const uint64_t seed = testing::TestSeed();
  SCOPED_TRACE(seed);
  testing::SeededRandom random(seed);
  const std::string_view pieces[] = {"(",  ")",  ",",  "'",         "`",     "[",
                                     "]",  "{",  "}",  " COMMENT ", " TTL ", " ENGINE ",
                                     "--", "/*", "\\", ".",         ";",     " NULL "};
  for (int round = 0; round < 2000; ++round) {
    std::string sql(kFull);
    for (uint64_t i = 1 + RandomBelow(random, 4); i > 0; --i) {
      const size_t at = RandomBelow(random, sql.size());
      if (RandomBelow(random, 2) == 0) {
        sql.erase(at, 1 + RandomBelow(random, 30));
      } else {
        sql.insert(at, pieces[RandomBelow(random, std::size(pieces))]);
      }
    }
    const auto t = ParseCreateTable(sql);
    if (!t.ok()) continue;
    const std::string printed = t->ToSql();
    const auto again = ParseCreateTable(printed);
    ASSERT_TRUE(again.ok()) << sql << "\n->\n" << printed << "\n" << again.status().ToString();
    EXPECT_EQ(again->ToSql(), printed);
  }
}

TEST(NormalizeSource, TakesOutWhatBindsATableToItsServerAndListsIt) {
  const auto ddl = NormalizeSource(kFull, {});
  ASSERT_TRUE(ddl.ok()) << ddl.status().ToString();
  EXPECT_EQ(ddl->removals, (std::vector<std::string>{
                               "ATTACH", "IF NOT EXISTS", "UUID", "ON CLUSTER '{cluster}'",
                               "ReplicatedReplacingMergeTree", "SETTINGS storage_policy",
                               "SETTINGS disk", "TTL of the table", "TTL of column day",
                               "TTL of column ttl", "STATISTICS of column d",
                               "SETTINGS ttl_only_drop_parts", "PROJECTION p", "CONSTRAINT c"}));
  EXPECT_TRUE(ddl->sql.starts_with("CREATE TABLE `shop`.`my orders`\n(")) << ddl->sql;
  EXPECT_EQ(ddl->table.engine, "ReplacingMergeTree");
  EXPECT_EQ(ddl->table.engine_args, std::vector<std::string>{"ts"});
  EXPECT_EQ(ddl->table.settings.size(), 1u);
  EXPECT_EQ(ddl->table.elements.size(), 1u);
  EXPECT_EQ(ddl->table.columns[0].codec, "Delta, ZSTD(1)");
  EXPECT_EQ(ddl->table.comment, "'the orders'");
}

TEST(NormalizeDestination, KeepsWhatProducedPartsMustCarry) {
  const auto ddl = NormalizeDestination(kFull, {});
  ASSERT_TRUE(ddl.ok());
  EXPECT_FALSE(ddl->table.ttl.empty());
  EXPECT_EQ(ddl->table.elements.size(), 3u);
  EXPECT_EQ(ddl->table.columns[2].ttl, "day + INTERVAL 1 MONTH");
  EXPECT_EQ(ddl->table.engine, "ReplacingMergeTree");
  EXPECT_EQ(ddl->table.uuid, "");
  EXPECT_EQ(ddl->table.settings.size(), 2u);  // index_granularity, ttl_only_drop_parts
}

TEST(NormalizeSource, ReplicatedArgumentsGoOnlyWhenTheyArePaths) {
  const auto engine = [](const std::string& text) {
    const auto ddl =
        NormalizeSource("CREATE TABLE d.t (a Int8, s Int8) ENGINE = " + text + " ORDER BY a", {});
    EXPECT_TRUE(ddl.ok()) << text << ddl.status().ToString();
    std::string out = ddl->table.engine;
    for (const std::string& arg : ddl->table.engine_args) out += "|" + arg;
    return out;
  };
  EXPECT_EQ(engine("ReplicatedMergeTree"), "MergeTree");
  EXPECT_EQ(engine("ReplicatedMergeTree()"), "MergeTree");
  EXPECT_EQ(engine("ReplicatedMergeTree('/p', '{replica}')"), "MergeTree");
  EXPECT_EQ(engine("ReplicatedCollapsingMergeTree(s)"), "CollapsingMergeTree|s");
  EXPECT_EQ(engine("ReplicatedCollapsingMergeTree('/p', 'r', s)"), "CollapsingMergeTree|s");
  EXPECT_EQ(engine("SharedSummingMergeTree('/p', 'r', (a, s))"), "SummingMergeTree|(a, s)");
  EXPECT_EQ(engine("ReplicatedGraphiteMergeTree('rollup')"), "GraphiteMergeTree|'rollup'");
  EXPECT_EQ(engine("SummingMergeTree((a, s))"), "SummingMergeTree|(a, s)");
}

TEST(NormalizeSource, WhatTheEngineDoesNotKnowGoesOrIsRefused) {
  DdlOptions options;
  options.engine.merge_tree_settings = {"index_granularity"};
  options.engine.codecs = {"Delta", "LZ4", "NONE", "ZSTD"};
  options.engine.functions = {"concat", "now", "plus", "todate"};
  options.engine.index_types = {"minmax"};
  const auto ddl = NormalizeSource(
      "CREATE TABLE d.t (a Int8 CODEC(Delta, ZSTD(1)), b Int8 DEFAULT my_udf(a), c String DEFAULT "
      "concat('my_udf(', 'x'), INDEX i1 a TYPE minmax, INDEX i2 a TYPE annoy(100)) ENGINE = "
      "MergeTree ORDER BY a SETTINGS index_granularity = 1, from_the_future = 2",
      options);
  ASSERT_TRUE(ddl.ok()) << ddl.status().ToString();
  EXPECT_EQ(ddl->removals,
            (std::vector<std::string>{"SETTINGS from_the_future", "INDEX i2",
                                      "DEFAULT of column b (unknown function my_udf)"}));
  EXPECT_EQ(ddl->columns_without_default, std::vector<std::string>{"b"});
  EXPECT_TRUE(ddl->additions.empty());
  EXPECT_EQ(ddl->table.columns[2].default_kind, "DEFAULT");

  const auto refusal = [&](const std::string& column) {
    return NormalizeSource(
               "CREATE TABLE d.t (a Int8, " + column + ") ENGINE = MergeTree ORDER BY a", options)
        .status();
  };
  EXPECT_EQ(refusal("b Int8 MATERIALIZED my_udf(a)").explanation().pf_number, 2101);
  EXPECT_EQ(refusal("b Int8 CODEC(Deflate)").explanation().pf_number, 2116);
  const Status encrypted = refusal("b Int8 CODEC(LZ4, AES_128_GCM_SIV)");
  EXPECT_EQ(encrypted.explanation().pf_number, 2116);
  EXPECT_NE(encrypted.message().find("column b"), std::string::npos);
  options.has_encryption_keys = true;
  EXPECT_TRUE(NormalizeSource("CREATE TABLE d.t (a Int8 CODEC(LZ4, AES_128_GCM_SIV)) ENGINE = "
                              "MergeTree ORDER BY a",
                              options)
                  .ok());
}

TEST(Normalize, RefusesOtherEngines) {
  for (const char* engine : {"Log", "Distributed(c, d, t)", "Memory", "MergeTree(d, (a), 8192)"}) {
    const std::string sql = std::string("CREATE TABLE d.t (a Int8) ENGINE = ") + engine;
    EXPECT_EQ(NormalizeSource(sql, {}).status().explanation().pf_number, 2101) << engine;
    EXPECT_EQ(NormalizeDestination(sql, {}).status().explanation().pf_number, 2104) << engine;
    EXPECT_EQ(NormalizeSource(sql, {}).status().code(), Code::kRefused) << engine;
  }
}

constexpr std::string_view kSource =
    "CREATE TABLE shop.orders (id UInt64, day Date) ENGINE = MergeTree ORDER BY id";
constexpr std::string_view kDestination =
    "CREATE TABLE shop.orders_v2 (id UInt64, d Date) ENGINE = MergeTree PARTITION BY "
    "toStartOfInterval(d, INTERVAL 1 DAY) ORDER BY id";

TEST(ParseInsertSelect, ReadsTargetColumnsAndSelect) {
  const auto insert = ParseInsertSelect(
      "INSERT INTO TABLE shop.`orders v2` (id, `we ird`) SELECT id, day FROM shop.orders;");
  ASSERT_TRUE(insert.ok()) << insert.status().ToString();
  EXPECT_EQ(insert->table, (TableName{"shop", "orders v2"}));
  EXPECT_EQ(insert->columns, (std::vector<std::string>{"id", "we ird"}));
  EXPECT_EQ(insert->select, "SELECT id, day FROM shop.orders");
  EXPECT_EQ(ParseInsertSelect("INSERT INTO t (SELECT 1) UNION ALL SELECT 2")->select,
            "(SELECT 1) UNION ALL SELECT 2");
  EXPECT_EQ(ParseInsertSelect("WITH x AS (SELECT 1) INSERT INTO t SELECT * FROM x")->select,
            "WITH x AS (SELECT 1) SELECT * FROM x");
  EXPECT_EQ(ParseInsertSelect("insert into d.t SETTINGS a = 1 SELECT 1")->select,
            "SETTINGS a = 1 SELECT 1");
  for (const char* sql :
       {"", "SELECT 1", "INSERT INTO t VALUES (1)", "INSERT INTO FUNCTION file('x') SELECT 1",
        "INSERT INTO t FORMAT TSV", "INSERT INTO t SELECT 1; DROP TABLE t", "INSERT INTO t (a"}) {
    EXPECT_FALSE(ParseInsertSelect(sql).ok()) << sql;
  }
}

TEST(NamesTable, LooksAtNamesOnly) {
  const TableName orders{"shop", "orders"};
  EXPECT_TRUE(NamesTable("SELECT 1 FROM shop.orders", orders, "default"));
  EXPECT_TRUE(NamesTable("SELECT 1 FROM `shop` . \"orders\" AS o", orders, "default"));
  EXPECT_TRUE(NamesTable("SELECT 1 FROM orders", orders, "shop"));
  EXPECT_FALSE(NamesTable("SELECT 1 FROM orders", orders, "default"));
  EXPECT_FALSE(NamesTable("SELECT 'shop.orders' FROM x /* shop.orders */", orders, "default"));
  EXPECT_FALSE(NamesTable("SELECT 1 FROM shop.orders_v2", orders, "default"));
}

// The times of moves belong into ttl.txt; where they go is for the destination's server to know.
TEST(NormalizeDestination, MovesOfTheTtlStayAndGoNowhere) {
  const auto ddl = NormalizeDestination(
      "CREATE TABLE shop.t (d Date, v String) ENGINE = MergeTree ORDER BY d TTL d + INTERVAL 1 DAY "
      "TO VOLUME 'cold', d + INTERVAL 1 MONTH TO DISK IF EXISTS 'far''off', d + INTERVAL 1 YEAR "
      "DELETE WHERE v = 'TO DISK \'x\'' SETTINGS storage_policy = 'tiered'",
      {});
  ASSERT_TRUE(ddl.ok()) << ddl.status().ToString();
  EXPECT_EQ(ddl->table.ttl,
            "d + INTERVAL 1 DAY TO VOLUME 'default', d + INTERVAL 1 MONTH TO DISK IF EXISTS "
            "'default', d + INTERVAL 1 YEAR DELETE WHERE v = 'TO DISK \'x\''");
  EXPECT_EQ(ddl->removals,
            (std::vector<std::string>{"SETTINGS storage_policy", "TTL TO VOLUME 'cold'",
                                      "TTL TO DISK 'far''off'"}));
}

TEST(CheckRewriteStatements, EachRefusalHasItsNumber) {
  const auto number = [](std::string_view source, std::string_view destination,
                         std::string_view insert) {
    const Status status = CheckRewriteStatements(source, destination, insert);
    EXPECT_TRUE(status.ok() || status.code() == Code::kRefused);
    return status.ok() ? 0 : status.explanation().pf_number;
  };
  const std::string_view good = "INSERT INTO shop.orders_v2 SELECT id, day FROM shop.orders";
  EXPECT_EQ(number(kSource, kDestination, good), 0);
  EXPECT_EQ(number("CREATE VIEW a.b AS SELECT 1", kDestination, good), 2101);
  EXPECT_EQ(number(kSource, "CREATE TABLE", good), 2104);
  EXPECT_EQ(number(kSource, "CREATE TABLE orders_v2 (a Int8) ENGINE = MergeTree ORDER BY a", good),
            2104);
  EXPECT_EQ(number(kSource, kSource, "INSERT INTO shop.orders SELECT * FROM shop.orders"), 2104);
  EXPECT_EQ(number(kSource,
                   "CREATE TABLE shop.orders_v2 (id UInt64) ENGINE = MergeTree PARTITION BY "
                   "toYYYYMM(day) ORDER BY id",
                   good),
            2104);
  EXPECT_EQ(number(kSource, kDestination, "INSERT INTO shop.other SELECT 1 FROM shop.orders"),
            2105);
  EXPECT_EQ(number(kSource, kDestination, "INSERT INTO shop.orders_v2 SELECT 1 FROM shop.x"), 2105);
  EXPECT_EQ(number(kSource, kDestination, "DELETE FROM shop.orders"), 2105);
}

// The source's database is the current one, as in the SQL check and in the workers.
TEST(CheckRewriteStatements, UnqualifiedNamesAreOfTheSourcesDatabase) {
  for (const char* insert : {"INSERT INTO shop.orders_v2 SELECT id, day FROM orders",
                             "INSERT INTO orders_v2 SELECT id, day FROM shop.orders",
                             "INSERT INTO orders_v2 SELECT id, day FROM orders"}) {
    const Status status = CheckRewriteStatements(kSource, kDestination, insert);
    EXPECT_TRUE(status.ok()) << insert << ": " << status.ToString();
  }
  EXPECT_FALSE(CheckRewriteStatements(kSource, kDestination,
                                      "INSERT INTO default.orders_v2 SELECT id, day FROM orders")
                   .ok());
}

}  // namespace
}  // namespace partforge::clickhouse
