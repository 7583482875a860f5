#include "data/column_metrics.h"

#include <gtest/gtest.h>

#include <cmath>

namespace partforge::data {
namespace {

ColumnMetrics Column(int64_t values, int64_t nulls, std::optional<Scalar> lower,
                     std::optional<Scalar> upper) {
  ColumnMetrics column;
  column.path = "c";
  column.value_count = values;
  column.null_count = nulls;
  column.nan_count = 0;
  column.compressed_bytes = 100;
  if (lower) column.lower = Bound{.value = *lower};
  if (upper) column.upper = Bound{.value = *upper};
  return column;
}

FileMetrics File(ColumnMetrics column) {
  return {.row_count = *column.value_count, .columns = {std::move(column)}};
}

TEST(MergeMetrics, CountsAddAndBoundsWiden) {
  FileMetrics a = File(Column(10, 1, Scalar::Int32(5), Scalar::Int32(9)));
  ASSERT_TRUE(MergeMetrics(a, File(Column(20, 2, Scalar::Int32(-3), Scalar::Int32(7)))).ok());
  EXPECT_EQ(a.row_count, 30);
  EXPECT_EQ(a.columns[0].value_count, 30);
  EXPECT_EQ(a.columns[0].null_count, 3);
  EXPECT_EQ(a.columns[0].compressed_bytes, 200);
  EXPECT_EQ(a.columns[0].lower->value.AsInt(), -3);
  EXPECT_EQ(a.columns[0].upper->value.AsInt(), 9);
}

TEST(MergeMetrics, WhatOneSideDoesNotKnowTheResultDoesNotKnow) {
  FileMetrics a = File(Column(10, 1, Scalar::Int32(5), Scalar::Int32(9)));
  ColumnMetrics unknown = Column(5, 0, std::nullopt, Scalar::Int32(1));
  unknown.nan_count.reset();
  ASSERT_TRUE(MergeMetrics(a, File(unknown)).ok());
  EXPECT_FALSE(a.columns[0].lower.has_value());
  EXPECT_EQ(a.columns[0].upper->value.AsInt(), 9);
  EXPECT_FALSE(a.columns[0].nan_count.has_value());
}

TEST(MergeMetrics, SidesOfNullsAloneDoNotTakeBoundsAway) {
  FileMetrics nulls = File(Column(4, 4, std::nullopt, std::nullopt));
  const FileMetrics some = File(Column(2, 0, Scalar::Int32(1), Scalar::Int32(2)));
  FileMetrics a = some;
  ASSERT_TRUE(MergeMetrics(a, nulls).ok());
  EXPECT_EQ(a.columns[0].lower->value.AsInt(), 1);
  ASSERT_TRUE(MergeMetrics(nulls, some).ok());
  EXPECT_EQ(nulls.columns[0].upper->value.AsInt(), 2);
}

TEST(MergeMetrics, ZeroBoundsAreWidenedAndNaNIsNone) {
  FileMetrics a = File(Column(1, 0, Scalar::Double(0.0), Scalar::Double(-0.0)));
  ASSERT_TRUE(MergeMetrics(a, File(Column(1, 0, Scalar::Double(0.0), Scalar::Double(-0.0)))).ok());
  EXPECT_TRUE(std::signbit(a.columns[0].lower->value.AsDouble()));
  EXPECT_FALSE(std::signbit(a.columns[0].upper->value.AsDouble()));
  EXPECT_FALSE(CleanUpper(Bound{.value = Scalar::Float(std::nanf(""))}).has_value());
}

TEST(MergeMetrics, ExactnessFollowsTheBoundThatWins) {
  ColumnMetrics loose = Column(1, 0, Scalar::Int32(1), Scalar::Int32(9));
  loose.lower->is_exact = loose.upper->is_exact = false;
  FileMetrics a = File(Column(1, 0, Scalar::Int32(1), Scalar::Int32(5)));
  ASSERT_TRUE(MergeMetrics(a, File(loose)).ok());
  EXPECT_TRUE(a.columns[0].lower->is_exact);
  EXPECT_FALSE(a.columns[0].upper->is_exact);
  MarkBoundsInexact(a);
  EXPECT_FALSE(a.columns[0].lower->is_exact);
}

TEST(MergeMetrics, OtherColumnsAreRefused) {
  FileMetrics a = File(Column(1, 0, std::nullopt, std::nullopt));
  FileMetrics b = a;
  b.columns[0].path = "d";
  EXPECT_EQ(MergeMetrics(a, b).code(), Code::kInvalidArgument);
  b.columns.clear();
  EXPECT_EQ(MergeMetrics(a, b).code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace partforge::data
