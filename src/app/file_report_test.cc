#include "app/file_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

namespace partforge::app {
namespace {

using data::Int128;
using data::Scalar;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(ScalarText, ReadsAsThePersonWroteTheValue) {
  EXPECT_EQ(ScalarText(Scalar::Int32(0), "date"), "1970-01-01");
  EXPECT_EQ(ScalarText(Scalar::Int32(-1), "date"), "1969-12-31");
  EXPECT_EQ(ScalarText(Scalar::Int64(-1), "timestamp(ms, utc)"), "1969-12-31T23:59:59.999Z");
  EXPECT_EQ(ScalarText(Scalar::Int64(1'700'000'000'123'456), "timestamp(us)"),
            "2023-11-14T22:13:20.123456");
  EXPECT_EQ(ScalarText(Scalar::Int64(1), "timestamp(ns)"), "1970-01-01T00:00:00.000000001");
  EXPECT_EQ(ScalarText(Scalar::Int64(-5), "decimal(9,2)"), "-0.05");
  EXPECT_EQ(ScalarText(Scalar::Decimal(Int128::Of(123'456)), "decimal(20,3)"), "123.456");
  EXPECT_EQ(ScalarText(Scalar::Decimal({.high = -1, .low = ~uint64_t{0}}), "decimal(38,0)"), "-1");
  EXPECT_EQ(ScalarText(Scalar::Decimal({.high = 1, .low = 0}), "decimal(38,0)"),
            "18446744073709551616");
  EXPECT_EQ(ScalarText(Scalar::String("a\nb"), "string"), "a\\x0ab");
  EXPECT_EQ(ScalarText(Scalar::Bytes(std::string("\x00\xff", 2)), "byte_array"), "0x00ff");
  EXPECT_EQ(ScalarText(Scalar::Boolean(true), "boolean"), "true");
  EXPECT_EQ(ScalarText(Scalar::Float(0.1F), "float"), "0.1");
}

TEST(ScalarText, ValuesBeyondTheCalendarStayNumbers) {
  EXPECT_EQ(ScalarText(Scalar::Int64(std::numeric_limits<int64_t>::max()), "timestamp(ms)"),
            "9223372036854775807");
  EXPECT_EQ(ScalarText(Scalar::Int64(std::numeric_limits<int64_t>::min()), "timestamp(us)"),
            "-9223372036854775808");
  EXPECT_EQ(ScalarText(Scalar::Int32(std::numeric_limits<int32_t>::max()), "date"), "2147483647");
}

data::FileReport SmallReport() {
  data::FileReport report;
  report.file_name = "a\x1b[31m.parquet";
  report.size_bytes = 4096;
  report.row_count = 3;
  report.written_by = "somebody\xff";
  report.properties = {{"pandas", std::string(500, 'x')}};
  data::ColumnReport column;
  column.path = "id";
  column.type = "int64";
  column.field_id = 7;
  column.codecs = {"zstd"};
  column.encodings = {"plain", "rle"};
  column.metrics.emplace();
  column.metrics->null_count = 0;
  column.metrics->lower = {.value = Scalar::Int64(-3), .is_exact = true};
  column.metrics->upper = {.value = Scalar::Int64(int64_t{1} << 60), .is_exact = false};
  report.columns = {column};
  data::GroupReport group;
  group.row_count = 3;
  data::ChunkReport chunk;
  chunk.codec = "zstd";
  chunk.metrics = column.metrics;
  chunk.pages = {{.offset = 4, .stored_bytes = 30, .first_row = 0, .row_count = 3}};
  group.chunks = {chunk};
  report.groups.assign(20, group);
  return report;
}

TEST(InspectText, ShowsNoControlCharacterAndCutsWhatIsLong) {
  const OutputStyle style;
  const std::string text = InspectText(SmallReport(), InspectView::kSummary, style);
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  EXPECT_THAT(text, HasSubstr("3 rows in 20 row groups"));
  EXPECT_THAT(text, HasSubstr("pandas = 500 B"));
  EXPECT_THAT(text, HasSubstr("and 8 more   (--details shows all)"));
  EXPECT_THAT(text, HasSubstr("1152921504606846976"));
  EXPECT_THAT(InspectText(SmallReport(), InspectView::kDetails, style), Not(HasSubstr("more")));
}

TEST(InspectDocument, KeepsEverythingAndNumbersExact) {
  const JsonDoc doc = InspectDocument(SmallReport());
  ASSERT_TRUE(ParseJson(DumpJson(doc)).ok());  // whatever bytes the file held
  EXPECT_EQ(doc["row_groups"].size(), 20U);
  EXPECT_EQ(doc["properties"][0]["value"].get<std::string>().size(), 500U);
  EXPECT_EQ(doc["columns"][0]["min"], -3);
  EXPECT_EQ(doc["columns"][0]["max"], "1152921504606846976");  // beyond what a double holds
  EXPECT_EQ(doc["columns"][0]["max_is_exact"], false);
  EXPECT_EQ(doc["row_groups"][0]["columns"][0]["pages"][0]["rows"], 3);
}

TEST(InspectDocument, PuffinHasBlobsAndSnapshotIdsAsText) {
  data::FileReport report;
  report.format = data::FileFormat::kPuffin;
  data::GroupReport group;
  group.blob = data::PuffinBlob{.type = "deletion-vector-v1",
                                .fields = {1},
                                .snapshot_id = 9'000'000'000'000'000'001,
                                .sequence_number = 3,
                                .properties = {{"cardinality", "2"}}};
  group.position_count = 2;
  report.groups = {group};
  const JsonDoc doc = InspectDocument(report);
  EXPECT_EQ(doc["blobs"][0]["snapshot_id"], "9000000000000000001");
  EXPECT_EQ(doc["blobs"][0]["positions"], 2);
  EXPECT_THAT(InspectText(report, InspectView::kSummary, OutputStyle()),
              HasSubstr("cardinality=2"));
}

data::ConcatReport SmallConcat() {
  data::ConcatReport report;
  report.inputs = {"a", "b"};
  report.bytes_in = 2048;
  report.rows_in = 30;
  report.steps = {{.kind = data::StepKind::kCopy,
                   .groups = {{.input = 0, .row_group = 0}},
                   .live_rows = 10,
                   .bytes = 1024,
                   .reason = ""},
                  {.kind = data::StepKind::kStitch,
                   .groups = {{.input = 1, .row_group = 0}, {.input = 1, .row_group = 1}},
                   .live_rows = 20,
                   .bytes = 1024,
                   .reason = "small row groups"}};
  report.output.row_count = 30;
  report.output.size_bytes = 2000;
  report.dropped_keys = {"pandas"};
  report.counts.row_groups_copied = 1;
  report.columns = {{.path = "id", .chunks_copied = 1, .pages = {.pages_copied = 4}}};
  return report;
}

TEST(ConcatText, SaysHowEachRowGroupCameAndWhy) {
  const std::string text = ConcatText(SmallConcat(), "out", ConcatRun::kReal, OutputStyle());
  EXPECT_THAT(text, HasSubstr("30 in · 30 out   ✓ conserved"));
  EXPECT_THAT(text, HasSubstr("copied byte by byte"));
  EXPECT_THAT(text, HasSubstr("joined page by page"));
  EXPECT_THAT(text, HasSubstr("small row groups"));
  EXPECT_THAT(text, HasSubstr("differ between the inputs: pandas"));
  const std::string plan = ConcatText(SmallConcat(), "out", ConcatRun::kDry, OutputStyle());
  EXPECT_THAT(plan, HasSubstr("would join into  out"));
  EXPECT_THAT(plan, Not(HasSubstr("conserved")));
}

TEST(ConcatDocument, ADryRunHasTheStepsOfTheRealOne) {
  const JsonDoc real = ConcatDocument(SmallConcat(), "out", ConcatRun::kReal);
  const JsonDoc dry = ConcatDocument(SmallConcat(), "out", ConcatRun::kDry);
  EXPECT_EQ(real["steps"], dry["steps"]);
  EXPECT_EQ(real["steps"][1]["row_groups"][1]["input"], "b");
  EXPECT_EQ(real["columns"][0]["pages_copied"], 4);
  EXPECT_FALSE(dry.contains("rows_out"));
}

}  // namespace
}  // namespace partforge::app
