// Data files of other writers in every format, value by value (testdata/make_golden.py says how
// they were made).

#include <arrow/record_batch.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/hash.h"
#include "data/avro_source.h"
#include "data/file_inspect.h"
#include "data/memory_bytes.h"
#include "data/orc_source.h"
#include "data/parquet_source.h"
#include "data/row_json.h"
#include "testing/test_world.h"

namespace partforge::data {
namespace {

using Json = nlohmann::ordered_json;

std::string Golden(std::string_view name) {
  auto bytes = ReadFile(fmt::format("{}/{}", PARTFORGE_DATA_TESTDATA, name));
  EXPECT_TRUE(bytes.ok()) << bytes.status().ToString();
  return bytes.ok() ? std::move(bytes).value() : "";
}

std::vector<Json> WrittenRows() {
  std::vector<Json> rows;
  const std::string lines = Golden("java_rows.jsonl");
  for (size_t at = 0; at < lines.size();) {
    const size_t end = std::min(lines.find('\n', at), lines.size());
    rows.push_back(Json::parse(lines.substr(at, end - at)));
    at = end + 1;
  }
  return rows;
}

class GoldenRows : public ::testing::Test {
 protected:
  Result<std::unique_ptr<BatchSource>> Open(std::string_view name) {
    bytes_ = Golden(name);
    auto object = std::make_unique<MemorySource>(AsBytes(bytes_));
    const std::string file(name);
    if (file.ends_with(".orc")) {
      PF_ASSIGN(auto orc,
                OpenOrcSource(ctx_, std::move(object), file, {}, {.id = "iceberg.id"}, memory_));
      return std::unique_ptr<BatchSource>(std::move(orc));
    }
    if (file.ends_with(".avro")) {
      return OpenAvroSource(ctx_, std::move(object), file, {}, AvroTimestamps::kAvro, memory_);
    }
    PF_ASSIGN(auto source, ParquetSource::Open(ctx_, std::move(object), file, {}, memory_));
    return std::unique_ptr<BatchSource>(std::move(source));
  }

  partforge::testing::TestWorld world_;
  Context ctx_ = world_.context();
  ArrowMemory memory_{ctx_.memory};
  std::string bytes_;
};

// check: DATA-19
TEST_F(GoldenRows, FilesOfJavaHoldWhatWasWritten) {
  const std::vector<Json> wanted = WrittenRows();
  ASSERT_EQ(wanted.size(), 60u);
  for (const std::string_view name :
       {"java_v1_snappy.parquet", "java_v2_zstd.parquet", "java_zlib.orc", "java_deflate.avro"}) {
    SCOPED_TRACE(name);
    const auto source = Open(name);
    ASSERT_TRUE(source.ok()) << source.status().ToString();
    size_t row = 0;
    while (true) {
      const auto batch = (*source)->Next(ctx_);
      ASSERT_TRUE(batch.ok()) << batch.status().ToString();
      if (*batch == nullptr) break;
      for (int64_t i = 0; i < (*batch)->num_rows(); ++i, ++row) {
        ASSERT_LT(row, wanted.size());
        // Read once more: the digits of a number are not its value.
        EXPECT_EQ(Json::parse(data::testing::RowJson(**batch, i)).dump(), wanted[row].dump());
      }
    }
    EXPECT_EQ(row, wanted.size());
  }
}

// Null counts, bounds and pages of two columns, as the rows have them: `n` counts the rows, `i` is
// any number or null.
TEST_F(GoldenRows, StatisticsAndPageIndexesOfJavaAreThoseOfTheRows) {
  const std::vector<Json> rows = WrittenRows();
  for (const std::string_view name : {"java_v1_snappy.parquet", "java_v2_zstd.parquet"}) {
    SCOPED_TRACE(name);
    const std::string bytes = Golden(name);
    MemorySource source(AsBytes(bytes));
    const auto report = InspectFile(ctx_, source, std::string(name), Inspection::kPages, memory_);
    ASSERT_TRUE(report.ok()) << report.status().ToString();
    ASSERT_GT(report->groups.size(), 1u);
    int64_t begin = 0;
    for (const GroupReport& group : report->groups) {
      for (const size_t column : {size_t{0}, size_t{1}}) {
        const ChunkReport& chunk = group.chunks[column];
        EXPECT_GE(chunk.pages.size(), 3u);
        for (const PageReport& page : chunk.pages) {
          std::vector<int64_t> values;
          for (int64_t k = 0; k < page.row_count; ++k) {
            const auto row = static_cast<size_t>(begin + page.first_row + k);
            const Json& value = rows[row][report->columns[column].path];
            if (!value.is_null()) values.push_back(value.get<int64_t>());
          }
          EXPECT_EQ(page.null_count, page.row_count - static_cast<int64_t>(values.size()));
          ASSERT_EQ(page.is_null_page, values.empty());
          if (values.empty()) continue;
          EXPECT_EQ(page.lower->AsInt(), *std::min_element(values.begin(), values.end()));
          EXPECT_EQ(page.upper->AsInt(), *std::max_element(values.begin(), values.end()));
        }
      }
      const ColumnMetrics& numbers = *group.chunks[1].metrics;
      EXPECT_EQ(numbers.null_count, 0);
      EXPECT_EQ(numbers.lower->value.AsInt(), begin);
      EXPECT_EQ(numbers.upper->value.AsInt(), begin + group.row_count - 1);
      begin += group.row_count;
    }
    EXPECT_EQ(begin, static_cast<int64_t>(rows.size()));
    EXPECT_EQ(report->columns[0].bloom_filter_chunks, static_cast<int64_t>(report->groups.size()));
  }
}

}  // namespace
}  // namespace partforge::data
