#include "app/file_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace partforge::app {
namespace {

using data::Scalar;
using ::testing::HasSubstr;
using ::testing::Not;

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

}  // namespace
}  // namespace partforge::app
