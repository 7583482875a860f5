// Statistics of columns where they are easily wrong, copied and stitched.

#include <fmt/format.h>
#include <parquet/statistics.h>

#include <limits>

#include "data/metrics_collector.h"
#include "data/parquet_rewrite_rig.h"
#include "data/rewrite_plan.h"

namespace partforge::data {
namespace {

using data::testing::ExpectSameRows;
using data::testing::ParquetRewriteFixture;
using data::testing::RandomArray;
using data::testing::ToTable;
using Batches = std::vector<std::shared_ptr<arrow::RecordBatch>>;

using ParquetStatistics = ParquetRewriteFixture;

// Columns whose statistics are easily wrong, one batch a file.
std::shared_ptr<arrow::Schema> HardSchema() {
  return arrow::schema({WithFieldId(arrow::field("nulls", arrow::int64()), 1),
                        WithFieldId(arrow::field("nan", arrow::float64()), 2),
                        WithFieldId(arrow::field("zero", arrow::float32()), 3),
                        WithFieldId(arrow::field("text", arrow::utf8()), 4),
                        WithFieldId(arrow::field("high", arrow::binary()), 5),
                        WithFieldId(arrow::field("i", arrow::int32()), 6),
                        WithFieldId(arrow::field("x", arrow::decimal128(30, 3)), 7),
                        WithFieldId(arrow::field("b", arrow::boolean()), 8),
                        WithFieldId(arrow::field("t", arrow::utf8()), 9)});
}

std::shared_ptr<arrow::RecordBatch> HardBatch(Random& random, int file) {
  constexpr int kRows = 120;
  arrow::Int64Builder nulls;
  arrow::DoubleBuilder nan;
  arrow::FloatBuilder zero;
  arrow::StringBuilder text, t;
  arrow::BinaryBuilder high;
  arrow::Int32Builder i;
  arrow::BooleanBuilder b;
  const auto must = [](const arrow::Status& status) { ASSERT_TRUE(status.ok()); };
  for (int row = 0; row < kRows; ++row) {
    must(file == 2 && row == 5 ? nulls.Append(-7) : nulls.AppendNull());
    must(row % 3 == file % 3 ? nan.Append(std::numeric_limits<double>::quiet_NaN())
                             : nan.Append(static_cast<double>(random.Next() % 1000) - 500));
    must(zero.Append(file == 0 ? 0.0F : -0.0F));
    // Long texts whose beginnings do not tell them apart, and some of 64 KiB.
    must(text.Append(std::string(row == 60 ? 64 << 10 : 300, 'm') + std::to_string(random.Next())));
    must(high.Append(std::string(400, '\xff') + static_cast<char>(random.Next() % 256)));
    must(i.Append(static_cast<int32_t>(random.Next())));
    must(b.Append(file == 1 && row % 2 == 0));
    // Short ones: their bounds are exact, and die first where a library keeps pointers to them.
    must(t.Append(fmt::format("k{:05}", random.Next() % 100'000)));
  }
  return arrow::RecordBatch::Make(
      HardSchema(), kRows,
      {nulls.Finish().ValueOrDie(), nan.Finish().ValueOrDie(), zero.Finish().ValueOrDie(),
       text.Finish().ValueOrDie(), high.Finish().ValueOrDie(), i.Finish().ValueOrDie(),
       RandomArray(random, arrow::decimal128(30, 3), kRows, true), b.Finish().ValueOrDie(),
       t.Finish().ValueOrDie()});
}

constexpr int64_t kLongBytes = (64 << 10) + 20;  // the longest of HardBatch

// What the metrics say must hold for the rows counted one by one, and be as sharp where it is
// marked exact.
void ExpectMetricsHold(const FileMetrics& got, const FileMetrics& counted, int64_t bound_bytes,
                       bool cuts) {
  ASSERT_EQ(got.columns.size(), counted.columns.size());
  EXPECT_EQ(got.row_count, counted.row_count);
  for (size_t c = 0; c < got.columns.size(); ++c) {
    const ColumnMetrics& column = got.columns[c];
    const ColumnMetrics& wanted = counted.columns[c];
    SCOPED_TRACE(column.path);
    EXPECT_EQ(column.value_count, wanted.value_count);
    EXPECT_EQ(column.null_count, wanted.null_count);
    if (column.nan_count) {
      EXPECT_EQ(column.nan_count, wanted.nan_count);
    }
    if (!wanted.lower) {
      EXPECT_FALSE(column.lower.has_value());
      EXPECT_FALSE(column.upper.has_value());
      continue;
    }
    // Bounds that are longer than their writer keeps are left out, or cut by one that cuts; but
    // what is cut from bytes that are all 0xff cannot be raised, and the lower one may go with it.
    const bool is_long = column.path == "high" || column.path == "text";
    const bool has_bounds = !is_long || bound_bytes > kLongBytes || (cuts && column.path == "text");
    if (has_bounds || !cuts) {
      EXPECT_EQ(column.lower.has_value(), has_bounds);
    }
    EXPECT_EQ(column.upper.has_value(), has_bounds);
    if (column.lower) {
      EXPECT_LE(column.lower->value, wanted.lower->value);
      if (column.lower->is_exact) {
        EXPECT_EQ(column.lower->value, wanted.lower->value);
      }
    }
    if (column.upper) {
      EXPECT_GE(column.upper->value, wanted.upper->value);
      if (column.upper->is_exact) {
        EXPECT_EQ(column.upper->value, wanted.upper->value);
      }
    }
  }
}

// check: DATA-10
TEST_F(ParquetStatistics, StatisticsOfCopiesAndStitchesEqualARecountInHardCases) {
  const auto schema = HardSchema();
  for (const int64_t bound_bytes : {int64_t{16}, int64_t{256}, int64_t{1} << 20}) {
    for (const bool by_library : {false, true}) {
      SCOPED_TRACE(fmt::format("bounds of {} bytes, by the library: {}", bound_bytes, by_library));
      MetricsCollector collector(*schema);
      Batches batches;
      std::vector<StitchPart> parts;
      std::vector<std::unique_ptr<CopiedRowGroup>> copies;
      std::vector<const EncodedRows*> rows;
      for (int f = 0; f < 3; ++f) {
        batches.push_back(HardBatch(random_, f));
        ASSERT_TRUE(collector.Add(*batches.back()).ok());
        const std::string key = fmt::format("in{}", f);
        std::vector<std::optional<int64_t>> nan_counts;
        if (by_library) {
          parquet::WriterProperties::Builder builder;
          builder.max_rows_per_page(25)->write_batch_size(5)->enable_write_page_index();
          builder.max_statistics_size(static_cast<size_t>(bound_bytes));
          WriteByLibrary(key, *ToTable({batches.back()}), 50, builder);
        } else {
          const WrittenFile file =
              Write(key, {batches.back()},
                    {.row_group_rows = 1000, .page_rows = 25, .bound_bytes_max = bound_bytes});
          for (const ColumnMetrics& column : file.metrics.columns) {
            nan_counts.push_back(column.nan_count);
          }
        }
        const auto input = Input(key);
        for (int g = 0; g < input->footer.row_group_count(); ++g) {
          parts.push_back({.input = input, .row_group = g, .nan_counts = nan_counts});
          copies.push_back(std::make_unique<CopiedRowGroup>(
              input, g, CopyOptions{.nan_counts = nan_counts, .bound_bytes_max = bound_bytes}));
          rows.push_back(copies.back().get());
        }
      }
      const FileMetrics counted = collector.Metrics();
      const auto copied = WriteEncoded("copied", schema, *parts[0].input, rows);
      ExpectMetricsHold(copied.metrics, counted, bound_bytes, !by_library);
      StitchCounts counts;
      const StitchedRun run(parts, {}, memory_, counts);
      const auto stitched = WriteEncoded("stitched", schema, *parts[0].input, {&run});
      ExpectMetricsHold(stitched.metrics, counted, bound_bytes, !by_library);
      if (!by_library) {
        EXPECT_TRUE(copied.metrics.columns[1].nan_count.has_value());
        EXPECT_TRUE(stitched.metrics.columns[1].nan_count.has_value());
      }
      // The footers themselves, row group by row group, as another reader sees them.
      for (const std::string key : {"copied", "stitched"}) {
        const auto table = Read(key, schema);
        ExpectSameRows(*table, *ToTable(batches));
        const auto& texts =
            static_cast<const arrow::StringArray&>(*table->GetColumnByName("t")->chunk(0));
        const auto& numbers =
            static_cast<const arrow::Int32Array&>(*table->GetColumnByName("i")->chunk(0));
        const auto library = Library(key);
        int64_t row = 0;
        for (int g = 0; g < library->metadata()->num_row_groups(); ++g) {
          const auto group = library->metadata()->RowGroup(g);
          std::string low = std::string(texts.GetView(row)), high = low;
          int32_t least = numbers.Value(row), most = least;
          for (int64_t end = row + group->num_rows(); row < end; ++row) {
            low = std::min(low, std::string(texts.GetView(row)));
            high = std::max(high, std::string(texts.GetView(row)));
            least = std::min(least, numbers.Value(row));
            most = std::max(most, numbers.Value(row));
          }
          const auto text = group->ColumnChunk(8)->statistics();
          ASSERT_TRUE(text != nullptr && text->HasMinMax()) << key;
          EXPECT_EQ(text->EncodeMin(), low) << key;
          EXPECT_EQ(text->EncodeMax(), high) << key;
          const auto number = group->ColumnChunk(5)->statistics();
          ASSERT_TRUE(number != nullptr && number->HasMinMax()) << key;
          EXPECT_EQ(static_cast<const parquet::Int32Statistics&>(*number).min(), least) << key;
          EXPECT_EQ(static_cast<const parquet::Int32Statistics&>(*number).max(), most) << key;
        }
      }
      if (HasFailure()) return;
    }
  }
}

}  // namespace
}  // namespace partforge::data
