#include "data/parquet_footer.h"
#include "data/parquet_rewrite_rig.h"
#include "data/schema_mapping.h"

namespace partforge::data {
namespace {

using data::testing::ExpectSameRows;
using data::testing::ParquetRewriteFixture;
using data::testing::RandomBatch;
using data::testing::ToTable;
using FileConcat = ParquetRewriteFixture;

// Other writers store decimals in bytes of a fixed length, which a column that is decoded keeps.
TEST_F(FileConcat, ListsOfDecimalsLoseTheirDeletedRows) {
  const auto decimals = arrow::list(arrow::field("element", arrow::decimal128(18, 4)));
  const auto schema =
      arrow::schema({arrow::field("id", arrow::int64()), arrow::field("l", decimals),
                     arrow::field("t", arrow::utf8())});
  const auto batch = RandomBatch(random_, schema, 400);
  parquet::WriterProperties::Builder properties;
  WriteByLibrary("a", *ToTable({batch}), 1000, properties);
  Positions deleted;
  deleted.Add(3);
  deleted.Add(399);
  const RowFilter filter(std::move(deleted));
  std::vector<RewriteInput> inputs;
  inputs.push_back({.file = Input("a"), .deleted = &filter, .mapping = {.match = MatchBy::kName}});
  RewriteTarget target;
  target.copy.schema = &inputs[0].file->schema();
  target.copy.match = MatchBy::kName;
  const std::vector<RewriteStep> steps = {{.kind = StepKind::kFilterPages,
                                           .groups = {{.input = 0, .row_group = 0}},
                                           .live_rows = 398,
                                           .bytes = 1,
                                           .reason = "deleted rows"}};
  const auto read_schema = Read("a", nullptr)->schema();
  RewriteCounts counts;
  const auto written =
      RunSteps(inputs, steps, target, read_schema, counts, {.size_bytes = INT64_MAX});
  ASSERT_EQ(written.size(), 1U);
  std::vector<int64_t> live;
  for (int64_t i = 0; i < 399; ++i) {
    if (i != 3) live.push_back(i);
  }
  ExpectSameRows(*Read(written[0].key, nullptr), *data::testing::TakeRows(*ToTable({batch}), live));
}

}  // namespace
}  // namespace partforge::data
