#include "clickhouse/rewrite_check.h"

#include <gtest/gtest.h>

#include "clickhouse/job_sql.h"
#include "clickhouse/piece_evidence.h"
#include "clickhouse/rewrite_job.h"

namespace partforge::clickhouse {
namespace {

RowCounts Counts(int64_t written, int64_t before_merge, int64_t produced,
                 const std::string& engine = "MergeTree") {
  return RowCounts{.written = written,
                   .before_merge = before_merge,
                   .produced = produced,
                   .engine = engine,
                   .is_ttl_applied = false};
}

TEST(CheckConservation, APlainTableHoldsEveryWrittenRow) {
  EXPECT_TRUE(CheckConservation(Counts(10, 10, 10), "p").ok());
  for (const RowCounts& wrong :
       {Counts(10, 9, 9), Counts(10, 11, 11), Counts(10, 10, 9), Counts(10, 10, 11)}) {
    const Status status = CheckConservation(wrong, "p");
    EXPECT_EQ(status.code(), Code::kCorruption);
    EXPECT_EQ(status.explanation().pf_number, 2137);
  }
}

TEST(CheckConservation, CollapsingEnginesHoldAtMostThatMany) {
  for (const char* engine : {"ReplacingMergeTree", "SummingMergeTree", "CollapsingMergeTree"}) {
    EXPECT_TRUE(CheckConservation(Counts(1000, 10, 10, engine), "p").ok());
    EXPECT_TRUE(CheckConservation(Counts(1000, 20, 10, engine), "p").ok());
    EXPECT_FALSE(CheckConservation(Counts(10, 11, 10, engine), "p").ok());
    EXPECT_FALSE(CheckConservation(Counts(10, 9, 10, engine), "p").ok());
  }
}

TEST(CheckConservation, AppliedTtlMayTakeRowsInMergesOnly) {
  RowCounts counts = Counts(10, 10, 2);
  counts.is_ttl_applied = true;
  EXPECT_TRUE(CheckConservation(counts, "p").ok());
  counts.before_merge = 9;
  EXPECT_FALSE(CheckConservation(counts, "p").ok());
}

TEST(PieceToken, CarriesSerialAndNumberInItsBlock) {
  EXPECT_EQ(PieceToken("202401", 0, 7),
            "202401_4611686018427387911_4611686018427387911_0");  // 2^62 + 7
  EXPECT_EQ(PieceToken("all", 1, 0), "all_4611686018428436480_4611686018428436480_0");
  const uint64_t last = (uint64_t{1} << 42) - 1;
  EXPECT_EQ(PieceToken("all", last, (1 << 20) - 1),
            "all_9223372036854775807_9223372036854775807_0");
  for (const uint64_t serial : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 41, last}) {
    EXPECT_EQ(SerialOfStagedName("pftmp_" + PieceToken("202401-5", serial, 3)), serial);
    EXPECT_EQ(SerialOfStagedName("pftrash_" + PieceToken("a", serial, 0)), serial);
  }
  for (const char* other : {"pftmp_probe_12", "pftmp_202401_1_1_0", "202401_1_1_0", "pftmp_",
                            "attaching_all_4611686018428436480_4611686018428436480_0",
                            "pftmp_all_4611686018428436480_4611686018428436481_0",
                            "pftmp_all_4611686018428436480_4611686018428436480_1"}) {
    EXPECT_EQ(SerialOfStagedName(other), std::nullopt) << other;
  }
}

TEST(IsOrderSensitive, KnowsTheEnginesWhoseResultDependsOnOrder) {
  const auto is_sensitive = [](const std::string& engine, const std::string& column = "UInt64") {
    const auto table = ParseCreateTable("CREATE TABLE d.t (id UInt64, v " + column +
                                        ") ENGINE = " + engine + " ORDER BY id");
    EXPECT_TRUE(table.ok()) << table.status().ToString();
    return table.ok() && IsOrderSensitive(*table);
  };
  EXPECT_FALSE(is_sensitive("MergeTree"));
  EXPECT_TRUE(is_sensitive("ReplacingMergeTree"));
  EXPECT_TRUE(is_sensitive("ReplacingMergeTree(v)"));  // versions may be equal
  EXPECT_TRUE(is_sensitive("CollapsingMergeTree(v)", "Int8"));
  EXPECT_TRUE(is_sensitive("VersionedCollapsingMergeTree(v, id)", "Int8"));
  EXPECT_TRUE(is_sensitive("CoalescingMergeTree"));
  EXPECT_TRUE(is_sensitive("SummingMergeTree"));
  EXPECT_TRUE(is_sensitive("AggregatingMergeTree", "AggregateFunction(any, UInt64)"));
  EXPECT_TRUE(is_sensitive("AggregatingMergeTree", "SimpleAggregateFunction(anyLast, UInt64)"));
  EXPECT_TRUE(is_sensitive("AggregatingMergeTree", "SimpleAggregateFunction( anyLast , UInt64)"));
  EXPECT_TRUE(is_sensitive("AggregatingMergeTree", "Nullable(UInt64)"));  // the first one stays
  EXPECT_FALSE(is_sensitive("AggregatingMergeTree", "AggregateFunction(sum, UInt64)"));
  EXPECT_FALSE(is_sensitive("AggregatingMergeTree", "SimpleAggregateFunction(sum, UInt64)"));
  EXPECT_FALSE(is_sensitive("AggregatingMergeTree", "UInt64 ALIAS id + 1"));  // not stored
  EXPECT_TRUE(
      is_sensitive("MergeTree ORDER BY id TTL toDateTime(v) GROUP BY id SET v = any(v) --"));
  EXPECT_FALSE(is_sensitive("MergeTree ORDER BY id TTL toDateTime(v) --"));
}

TEST(IsOrderSensitive, KnowsTheAggregatesWhoseResultDependsOnOrder) {
  const auto is_sensitive = [](const std::string& type) {
    const auto table = ParseCreateTable("CREATE TABLE d.t (id UInt64, v " + type +
                                        ") ENGINE = AggregatingMergeTree ORDER BY id");
    EXPECT_TRUE(table.ok()) << table.status().ToString();
    return table.ok() && IsOrderSensitive(*table);
  };
  for (const char* type :
       {"AggregateFunction(groupArray, String)", "AggregateFunction(argMax, String, UInt8)",
        "SimpleAggregateFunction(groupArrayArray, Array(String))",
        "SimpleAggregateFunction(groupUniqArrayArray, Array(String))",
        "AggregateFunction(quantiles(0.5, 0.9), UInt64)", "AggregateFunction(anyIf, UInt8, UInt8)",
        "AggregateFunction(sum, Float64)", "SimpleAggregateFunction(sum, Float32)",
        "AggregateFunction(avg, BFloat16)",
        "AggregateFunction(sumMap, Array(String), Array(Float64))",
        "AggregateFunction(unknownOfTomorrow, UInt64)",
        "Map(String, AggregateFunction(sum, UInt64))"})
    EXPECT_TRUE(is_sensitive(type)) << type;
  for (const char* type :
       {"AggregateFunction(count)", "AggregateFunction(countIf, UInt8)",
        "AggregateFunction(uniq, Float64)", "AggregateFunction(uniqCombined(12), String)",
        "AggregateFunction(avg, Decimal(18, 2))",
        "AggregateFunction(sumIfArray, Array(UInt64), Array(UInt8))",
        "AggregateFunction(sumOrNull, Nullable(UInt8))",
        "AggregateFunction(1, sumMap, Array(String), Array(UInt64))",
        "SimpleAggregateFunction(max, Float64)", "SimpleAggregateFunction(groupBitOr, UInt64)",
        "AggregateFunction(uniqExactDistinctIf, UUID, UInt8)"})
    EXPECT_FALSE(is_sensitive(type)) << type;
}

TEST(RewriteOutput, ReadsBackWhatItWrote) {
  RewriteOutput output;
  output.finished_key = "p/jobs/j/finished/x.1";
  output.partition_parts = {{"202401", 1}, {"202402", 2}};
  output.stage_ms = {{"insert_select", 12}};
  output.rows_expired = 5;
  const auto back = RewriteOutput::FromJson(output.ToJson());
  ASSERT_TRUE(back.ok()) << back.status().ToString();
  EXPECT_EQ(back->ToJson(), output.ToJson());
  EXPECT_EQ(back->rows_expired, 5);
  EXPECT_EQ(RewriteOutput::FromJson("{\"version\":2}").status().code(), Code::kCorruption);
  EXPECT_EQ(RewriteOutput::FromJson("[]").status().code(), Code::kCorruption);
}

}  // namespace
}  // namespace partforge::clickhouse
