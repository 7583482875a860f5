#include "data/metrics_collector.h"

#include <arrow/api.h>
#include <arrow/json/from_string.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "testing/test_world.h"

namespace partforge::data {
namespace {

std::shared_ptr<arrow::RecordBatch> Batch(const arrow::FieldVector& fields, std::string_view rows) {
  auto array = arrow::json::ArrayFromJSONString(arrow::struct_(fields), std::string(rows));
  EXPECT_TRUE(array.ok()) << array.status().ToString();
  return arrow::RecordBatch::FromStructArray(*array).ValueOrDie();
}

FileMetrics Collect(const std::vector<std::shared_ptr<arrow::RecordBatch>>& batches) {
  MetricsCollector collector(*batches.at(0)->schema());
  for (const auto& batch : batches) {
    const Status status = collector.Add(*batch);
    EXPECT_TRUE(status.ok()) << status.ToString();
  }
  return collector.Metrics();
}

TEST(MetricsCollector, CountsAndBoundsOfFlatColumns) {
  const arrow::FieldVector fields = {arrow::field("i", arrow::int32()),
                                     arrow::field("s", arrow::utf8()),
                                     arrow::field("ok", arrow::boolean()),
                                     arrow::field("d", arrow::decimal128(20, 2)),
                                     arrow::field("t", arrow::timestamp(arrow::TimeUnit::MICRO)),
                                     arrow::field("fx", arrow::fixed_size_binary(2)),
                                     arrow::field("none", arrow::int64())};
  const auto metrics = Collect(
      {Batch(fields, R"([[5,"b",true,"1.00",7,"zz",null],[null,null,null,null,null,null,null]])"),
       Batch(fields, R"([[-3,"é",true,"-2.50",9,"aa",null]])")});
  EXPECT_EQ(metrics.row_count, 3);
  const auto& c = metrics.columns;
  ASSERT_EQ(c.size(), 7u);
  EXPECT_EQ(c[0].path, "i");
  EXPECT_EQ(c[0].value_count, 3);
  EXPECT_EQ(c[0].null_count, 1);
  EXPECT_EQ(c[0].nan_count, std::nullopt);
  EXPECT_EQ(c[0].lower->value.AsInt(), -3);
  EXPECT_EQ(c[0].upper->value.AsInt(), 5);
  EXPECT_TRUE(c[0].upper->is_exact);
  EXPECT_EQ(c[1].lower->value.AsBytes(), "b");
  EXPECT_EQ(c[1].upper->value.AsBytes(), "\xc3\xa9");  // unsigned bytes
  EXPECT_TRUE(c[2].lower->value.AsBoolean());
  EXPECT_EQ(c[3].lower->value.AsDecimal(), Int128::Of(-250));
  EXPECT_EQ(c[4].upper->value.type(), ScalarType::kInt64);
  EXPECT_EQ(c[5].lower->value.AsBytes(), "aa");
  EXPECT_FALSE(c[6].lower.has_value());
  EXPECT_TRUE(c[6].HasNoBoundedValue());
}

TEST(MetricsCollector, NaNIsCountedAndIsNoBoundAndZeroesAreWidened) {
  arrow::DoubleBuilder builder;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  ASSERT_TRUE(builder.AppendValues({nan, 0.0, nan}).ok() && builder.AppendNull().ok());
  const auto batch = arrow::RecordBatch::Make(arrow::schema({arrow::field("d", arrow::float64())}),
                                              4, {builder.Finish().ValueOrDie()});
  const ColumnMetrics column = Collect({batch}).columns.at(0);
  EXPECT_EQ(column.nan_count, 2);
  EXPECT_EQ(column.null_count, 1);
  EXPECT_TRUE(std::signbit(column.lower->value.AsDouble()));
  EXPECT_FALSE(std::signbit(column.upper->value.AsDouble()));
  const ColumnMetrics only_nan = Collect({batch->Slice(0, 1)}).columns.at(0);
  EXPECT_FALSE(only_nan.lower.has_value());
  EXPECT_TRUE(only_nan.HasNoBoundedValue());
}

TEST(MetricsCollector, NestedLeavesCountWhatIsThereAndOnlyStructsHaveBounds) {
  const arrow::FieldVector fields = {
      arrow::field("st", arrow::struct_({arrow::field("x", arrow::int32())})),
      arrow::field("l", arrow::list(arrow::field("element", arrow::float32()))),
      arrow::field("m", arrow::map(arrow::utf8(), arrow::int64()))};
  const auto batch = Batch(fields, R"([
      [[1], [1.5, null], [["a", 1]]], [null, null, null], [[null], [], [["b", null], ["c", 3]]], [[9], [2.5], []]])");
  for (const auto& [slice, rows] : {std::pair(batch, 4), std::pair(batch->Slice(1, 3), 3)}) {
    const auto metrics = Collect({slice});
    ASSERT_EQ(metrics.columns.size(), 4u);
    const ColumnMetrics& x = metrics.columns[0];
    EXPECT_EQ(x.path, "st.x");
    EXPECT_EQ(x.value_count, rows);
    EXPECT_EQ(x.null_count, 2);
    EXPECT_EQ(x.upper->value.AsInt(), 9);
    EXPECT_EQ(x.lower->value.AsInt(), rows == 4 ? 1 : 9);
    const ColumnMetrics& element = metrics.columns[1];
    EXPECT_EQ(element.path, "l.element");
    EXPECT_TRUE(element.is_repeated);
    EXPECT_EQ(element.value_count, rows == 4 ? 3 : 1);
    EXPECT_EQ(element.null_count, rows == 4 ? 1 : 0);
    EXPECT_EQ(element.nan_count, 0);
    EXPECT_FALSE(element.lower.has_value());
    EXPECT_EQ(metrics.columns[2].value_count, rows == 4 ? 3 : 2);
    EXPECT_EQ(metrics.columns[3].null_count, 1);
  }
}

TEST(MetricsCollector, AgreesWithACountOfEachRow) {
  const uint64_t seed = testing::TestSeed();
  SCOPED_TRACE(fmt::format("PARTFORGE_TEST_SEED={}", seed));
  testing::SeededRandom random(seed);
  std::set<int64_t> oracle;
  int64_t null_count = 0;
  std::vector<std::shared_ptr<arrow::RecordBatch>> batches;
  for (int b = 0; b < 10; ++b) {
    arrow::Int64Builder builder;
    for (int i = 0; i < 100; ++i) {
      if (RandomBelow(random, 5) == 0) {
        ASSERT_TRUE(builder.AppendNull().ok());
        ++null_count;
        continue;
      }
      const auto value = static_cast<int64_t>(random.Next());
      oracle.insert(value);
      ASSERT_TRUE(builder.Append(value).ok());
    }
    batches.push_back(arrow::RecordBatch::Make(arrow::schema({arrow::field("v", arrow::int64())}),
                                               100, {builder.Finish().ValueOrDie()}));
  }
  const ColumnMetrics column = Collect(batches).columns.at(0);
  EXPECT_EQ(column.null_count, null_count);
  EXPECT_EQ(column.lower->value.AsInt(), *oracle.begin());
  EXPECT_EQ(column.upper->value.AsInt(), *oracle.rbegin());
}

// Absent means unknown: NaNs of half floats are not looked for.
TEST(MetricsCollector, NansOfHalfFloatsAreUnknown) {
  const auto metrics = Collect({Batch({arrow::field("h", arrow::float16())}, "[[1.5]]")});
  EXPECT_FALSE(metrics.columns[0].nan_count);
  EXPECT_EQ(metrics.columns[0].value_count, 1);
}

TEST(MetricsCollector, OtherColumnsAreRefused) {
  const auto batch = Batch({arrow::field("i", arrow::int32())}, "[[1]]");
  MetricsCollector collector(*arrow::schema({arrow::field("i", arrow::utf8())}));
  EXPECT_EQ(collector.Add(*batch).code(), Code::kInvalidArgument);
  MetricsCollector none(*arrow::schema({}));
  EXPECT_EQ(none.Add(*batch).code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace partforge::data
