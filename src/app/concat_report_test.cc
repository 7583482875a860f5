#include "app/concat_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace partforge::app {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

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
