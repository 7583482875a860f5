#include "app/row_flow.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace partforge::app {
namespace {

clickhouse::RewriteOutput OutputOf(int64_t rows, const std::string& tier,
                                   const std::string& reason) {
  clickhouse::RewriteOutput output;
  output.tier = tier;
  output.tier_reason = reason;
  output.source_rows_visible = rows;
  output.rows_written = rows;
  output.rows_out = rows;
  output.bytes_out = rows;
  output.peak_memory_bytes = 10 * rows;
  return output;
}

TEST(RowFlow, ThatDoesNotAddUpIsDamage) {
  RowFlow flow;
  flow.rows_in = 10;
  flow.rows_out = 9;
  const Status status = NotConserved(flow, "job-1");
  EXPECT_EQ(status.code(), Code::kCorruption);
  EXPECT_EQ(status.explanation().pf_number, 2137);
  EXPECT_NE(status.message().find("10 in = 9 out"), std::string::npos) << status.message();
}

TEST(RowFlow, CountsWhereTheRowsOfEachPartWent) {
  RowFlow flow;
  clickhouse::RewriteOutput output = OutputOf(10, "T5", "fits");
  output.rows_written = 7;
  output.rows_expired = 2;
  output.rows_out = 5;
  flow.Add(100, output, Collapsing::kNo);
  EXPECT_EQ(flow.Text(), "10 in = 5 out + 3 filtered + 2 expired ✓");
  output.rows_out = 4;
  flow.Add(100, output, Collapsing::kYes);
  EXPECT_EQ(flow.Text(), "20 in = 9 out + 6 filtered + 4 expired + 1 merged ✓");
  EXPECT_EQ(flow.parts, 2);
  EXPECT_EQ(flow.bytes_in, 200);
  EXPECT_EQ(flow.peak_memory_bytes, 100);
}

TEST(RowFlow, OfOnePartThatLostRowsIsNotMadeGoodByAnother) {
  RowFlow flow;
  clickhouse::RewriteOutput lost = OutputOf(10, "T5", ""), gained = OutputOf(10, "T5", "");
  lost.rows_out = 9;
  gained.rows_out = 11;
  flow.Add(1, lost, Collapsing::kNo);
  flow.Add(1, gained, Collapsing::kNo);
  EXPECT_EQ(flow.merged, 0);
  EXPECT_FALSE(flow.is_conserved);
}

TEST(RowFlow, AddsStagesAndRetriesOfAllParts) {
  RowFlow flow;
  clickhouse::RewriteOutput output = OutputOf(10, "T6", "");
  output.chunks = 2;
  output.insert_attempts = 5;
  output.stage_ms = {{"insert_select", 1500}, {"wait_merges", 20}};
  output.bytes_decoded = 2048;
  flow.Add(1024, output, Collapsing::kNo);
  output.insert_attempts = 2;
  output.stage_ms = {{"insert_select", 500}};
  flow.Add(1024, output, Collapsing::kNo);
  JsonDoc document;
  flow.AppendTo(document);
  EXPECT_EQ(document["insert_retries"], 3);
  EXPECT_EQ(document["stage_seconds"], (JsonDoc{{"insert_select", 2.0}, {"wait_merges", 0.02}}));
  EXPECT_EQ(flow.BytesText(), "2.00 KiB → 20 B   4.00 KiB decoded");
}

// T5b: one output of several source parts.
TEST(RowFlow, CountsSourceParts) {
  RowFlow flow;
  clickhouse::RewriteOutput output = OutputOf(10, "T5b", "3 parts fit");
  output.source_parts = 3;
  flow.Add(100, output, Collapsing::kNo);
  EXPECT_EQ(flow.parts, 3);
  EXPECT_EQ(TextOf(flow.tiers), "T5b ×3 (3 parts fit)");
}

TEST(Tiers, AreToldOnceEachWithTheReasonOfTheLargestPart) {
  TierUses uses;
  AddTier(uses, "T5", "20 rows of 7 bytes fit", 1, 20);
  AddTier(uses, "T5", "300 rows of 8 bytes fit", 1, 300);
  AddTier(uses, "T6", "9 rows exceed", 1, 9);
  EXPECT_EQ(TextOf(uses), "T5 ×2 (300 rows of 8 bytes fit), T6 ×1 (9 rows exceed)");
  const JsonDoc list = DocumentOf(uses);
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[0]["parts"], 2);
}

// The tier that was fallen from and why are a kind of their own, whatever its name.
TEST(Tiers, ThatWereFallenFromAreToldApart) {
  TierUses uses;
  AddTier(uses, "T6", "20 rows; fell from T5 to T6 after code 241", 1, 20);
  AddTier(uses, "T6", "30 rows; fell from T5b to T6 after code 241", 1, 30);
  AddTier(uses, "T6", "40 rows; fell from T5 to T6 after code 173", 1, 40);
  AddTier(uses, "T6", "50 rows; fell from T5 to T6 after code 241", 1, 50);
  EXPECT_EQ(uses.size(), 3u);
  EXPECT_NE(TextOf(uses).find("T6 ×2 (50 rows; fell from T5 to T6 after code 241)"),
            std::string::npos);
}

}  // namespace
}  // namespace partforge::app
