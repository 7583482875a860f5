// Row groups that are copied, and plans of a rewrite; stitching is in parquet_stitch_test.cc.

#include <fmt/format.h>
#include <parquet/file_reader.h>
#include <parquet/page_index.h>
#include <parquet/statistics.h>

#include "data/page_index.h"
#include "data/parquet_rewrite_rig.h"
#include "data/rewrite_plan.h"
#include "testing/faulty_store.h"

namespace partforge::data {
namespace {

using data::testing::ExpectSameRows;
using data::testing::ParquetRewriteFixture;
using data::testing::RandomBatch;
using data::testing::RandomSchema;
using data::testing::ReadAll;
using data::testing::TakeRows;
using data::testing::ToTable;
using Batches = std::vector<std::shared_ptr<arrow::RecordBatch>>;

using ParquetRewrite = ParquetRewriteFixture;

// check: DATA-1
TEST_F(ParquetRewrite, CopiedRowGroupsKeepEverything) {
  const auto schema = RandomSchema(random_, 6, true);
  Batches batches;
  for (int i = 0; i < 3; ++i) batches.push_back(RandomBatch(random_, schema, 400));
  ParquetSinkOptions options{.row_group_rows = 400, .page_rows = 70};
  const auto probe = ParquetSchemaOf(schema, options, memory_);
  ASSERT_TRUE(probe.ok());
  const auto leaves =
      LeafColumns(probe->tree.Find(parquet_field::file_metadata::kSchema)->items(), "probe");
  for (const LeafColumn& leaf : *leaves) {
    options.columns.push_back({.path = leaf.dotted_path, .bloom_distinct_count = 400});
  }
  Write("in", batches, options);
  const auto input = Input("in");
  std::vector<std::unique_ptr<CopiedRowGroup>> groups;
  std::vector<const EncodedRows*> rows;
  for (int i = 0; i < 6; ++i) {
    groups.push_back(std::make_unique<CopiedRowGroup>(input, i % 3, CopyOptions{}));
    rows.push_back(groups.back().get());
  }
  const WrittenFile file = WriteEncoded("out", schema, *input, rows);
  EXPECT_EQ(file.row_count, 2400);
  Batches twice = batches;
  twice.insert(twice.end(), batches.begin(), batches.end());
  ExpectSameRows(*Read("out", schema), *ToTable(twice));

  // Header and bits of a bloom filter; none for types without.
  const auto filter_of = [&](const ParquetInput& of, int g, int c) -> std::string {
    const auto filter =
        *ReadBloomFilter(ctx_, *of.source, *ViewChunk(of.footer.chunk(g, c), "file"), "file");
    return filter ? filter->header + filter->bits : "";
  };
  EXPECT_GT(filter_of(*input, 0, 0).size() + filter_of(*input, 0, 1).size(), 32U);
  const auto in = Library("in"), out = Library("out");
  ASSERT_EQ(out->metadata()->num_row_groups(), 6);
  EXPECT_TRUE(out->metadata()->schema()->Equals(*in->metadata()->schema()));
  for (int g = 0; g < 6; ++g) {
    const auto a = in->metadata()->RowGroup(g % 3), b = out->metadata()->RowGroup(g);
    const auto index_a = in->GetPageIndexReader()->RowGroup(g % 3);
    const auto index_b = out->GetPageIndexReader()->RowGroup(g);
    for (int c = 0; c < a->num_columns(); ++c) {
      const auto chunk_a = a->ColumnChunk(c), chunk_b = b->ColumnChunk(c);
      EXPECT_EQ(chunk_a->num_values(), chunk_b->num_values());
      EXPECT_EQ(chunk_a->encodings(), chunk_b->encodings());
      EXPECT_EQ(chunk_a->is_stats_set(), chunk_b->is_stats_set());
      if (chunk_a->is_stats_set()) {
        EXPECT_TRUE(chunk_a->statistics()->Equals(*chunk_b->statistics()));
      }
      EXPECT_EQ(out->metadata()->schema()->Column(c)->schema_node()->field_id(),
                in->metadata()->schema()->Column(c)->schema_node()->field_id());
      const auto offsets_a = index_a->GetOffsetIndex(c), offsets_b = index_b->GetOffsetIndex(c);
      ASSERT_NE(offsets_b, nullptr);
      ASSERT_EQ(offsets_a->page_locations().size(), offsets_b->page_locations().size());
      for (size_t p = 0; p < offsets_a->page_locations().size(); ++p) {
        const auto &page_a = offsets_a->page_locations()[p],
                   &page_b = offsets_b->page_locations()[p];
        EXPECT_EQ(page_a.first_row_index, page_b.first_row_index);
        EXPECT_EQ(page_a.compressed_page_size, page_b.compressed_page_size);
        // The same place in its chunk.
        EXPECT_EQ(page_a.offset - chunk_a->data_page_offset(),
                  page_b.offset - chunk_b->data_page_offset());
      }
      const auto columns_a = index_a->GetColumnIndex(c), columns_b = index_b->GetColumnIndex(c);
      ASSERT_EQ(columns_a == nullptr, columns_b == nullptr);
      if (columns_a != nullptr) {
        EXPECT_EQ(columns_a->encoded_min_values(), columns_b->encoded_min_values());
        EXPECT_EQ(columns_a->encoded_max_values(), columns_b->encoded_max_values());
        EXPECT_EQ(columns_a->null_pages(), columns_b->null_pages());
        EXPECT_EQ(columns_a->boundary_order(), columns_b->boundary_order());
        EXPECT_EQ(columns_a->null_counts(), columns_b->null_counts());
      }
      EXPECT_EQ(filter_of(*input, g % 3, c), filter_of(*Input("out"), g, c));
    }
  }
}

TEST_F(ParquetRewrite, EachObstacleHasItsReason) {
  const auto id = [](const char* name, std::shared_ptr<arrow::DataType> type, int number) {
    return WithFieldId(arrow::field(name, std::move(type)), number);
  };
  const auto schema = arrow::schema({id("a", arrow::int64(), 1), id("b", arrow::utf8(), 2)});
  Write("in", {RandomBatch(random_, schema, 100)});
  const auto input = Input("in");
  const auto reason = [&](const std::shared_ptr<arrow::Schema>& wanted, CopyTarget target,
                          const RowFilter* deleted) {
    const auto footer = ParquetSchemaOf(wanted, {}, memory_);
    target.schema = &footer->tree.Find(parquet_field::file_metadata::kSchema)->items();
    return JudgeCopy(*input, 0, deleted, target)->Reason();
  };
  const CopyTarget any{.small_is_fine = true};
  EXPECT_EQ(reason(schema, any, nullptr), "");
  // Renamed, reordered or dropped columns do not matter when ids tell them apart.
  EXPECT_EQ(
      reason(arrow::schema({id("bb", arrow::utf8(), 2), id("a", arrow::int64(), 1)}), any, nullptr),
      "");
  EXPECT_EQ(reason(arrow::schema({id("b", arrow::utf8(), 2)}), any, nullptr), "");
  EXPECT_EQ(
      reason(arrow::schema({id("a", arrow::int32(), 1), id("b", arrow::utf8(), 2)}), any, nullptr),
      "schema differs: a");
  EXPECT_EQ(reason(arrow::schema({id("a", arrow::int64(), 1)->WithNullable(false),
                                  id("b", arrow::utf8(), 2)}),
                   any, nullptr),
            "schema differs: a");
  EXPECT_EQ(reason(arrow::schema({id("a", arrow::int64(), 1), id("b", arrow::utf8(), 2),
                                  id("c", arrow::utf8(), 3)}),
                   any, nullptr),
            "needs projection: c");
  EXPECT_EQ(reason(arrow::schema({id("_KEY_a", arrow::int64(), 9), id("a", arrow::int64(), 1),
                                  id("b", arrow::utf8(), 2)}),
                   any, nullptr),
            "key columns differ: _KEY_a");
  EXPECT_EQ(reason(schema, {.order_is_wanted = true}, nullptr), "sort");
  EXPECT_EQ(reason(schema, {}, nullptr), "small row groups");
  Positions one;
  one.Add(50);
  const RowFilter deleted(std::move(one));
  EXPECT_EQ(reason(schema, any, &deleted), "deleted rows");
}

TEST_F(ParquetRewrite, PlanPicksTheCheapestStepAndTheRunKeepsAllRows) {
  for (int round = 0; round < 12; ++round) {
    SCOPED_TRACE(round);
    const auto schema = RandomSchema(random_, 4, round % 3 == 2);
    std::vector<RewriteInput> inputs;
    std::vector<std::unique_ptr<RowFilter>> filters;
    Batches all;
    std::vector<int64_t> kept;
    int64_t row = 0;
    for (int f = 0; f < 4; ++f) {
      const auto batch = RandomBatch(random_, schema, 500);
      const std::string key = fmt::format("in{}", f);
      Write(key, {batch}, {.row_group_rows = f % 2 == 0 ? 500 : 90, .page_rows = 50});
      Positions deleted;
      for (uint64_t i = 0; i < 500; ++i, ++row) {
        const bool is_deleted = f == 1 ? random_.Next() % 20 == 0 : f == 2 && i < 100;
        if (is_deleted) deleted.Add(i);
        if (!is_deleted) kept.push_back(row);
      }
      filters.push_back(std::make_unique<RowFilter>(std::move(deleted)));
      inputs.push_back({.file = Input(key), .deleted = filters.back().get()});
      all.push_back(batch);
    }
    RewriteTarget target;
    target.copy.schema = &inputs[0].file->schema();
    target.copy.row_group_bytes = round % 2 == 0 ? 20'000 : 1 << 20;
    target.decodes_always = round == 11;
    const auto steps = PlanRewrite(inputs, target);
    ASSERT_TRUE(steps.ok()) << steps.status().ToString();
    ASSERT_FALSE(steps->empty());
    EXPECT_NE((*steps)[0].kind == StepKind::kDecode, round != 11);
    RewriteCounts counts;
    const auto files = RunSteps(inputs, *steps, target, schema, counts,
                                {.size_bytes = round % 4 == 0 ? 30'000 : 1 << 30});
    if (HasFailure()) return;
    ExpectSameRows(*ReadFiles(files, schema), *TakeRows(*ToTable(all), kept));
    if (HasFailure()) return;
  }
}

// The quick way is what is counted: requests to the store do not grow with row groups, and no row
// is decoded. check: DATA-8
TEST_F(ParquetRewrite, ManyRowGroupsOfOneRowBecomeFew) {
  constexpr int64_t kRows = 10'000;
  const auto schema = arrow::schema({WithFieldId(arrow::field("a", arrow::int64(), false), 1),
                                     WithFieldId(arrow::field("b", arrow::utf8(), false), 2)});
  arrow::Int64Builder numbers;
  arrow::StringBuilder texts;
  for (int64_t i = 0; i < kRows; ++i) {
    ASSERT_TRUE(numbers.Append(i * 7).ok() && texts.Append(fmt::format("text {:06}", i)).ok());
  }
  const auto batch = arrow::RecordBatch::Make(
      schema, kRows, {numbers.Finish().ValueOrDie(), texts.Finish().ValueOrDie()});
  parquet::WriterProperties::Builder builder;
  builder.disable_write_page_index()->disable_dictionary();
  WriteByLibrary("in", *ToTable({batch}), 1, builder);
  partforge::testing::FaultyStore counting(store_);
  auto object = counting.Open(ctx_, "in");
  ASSERT_TRUE(object.ok());
  auto input = OpenParquetInput(ctx_, std::move(*object), "in");
  ASSERT_TRUE(input.ok());
  const std::vector<RewriteInput> inputs{{.file = *input}};
  // All row groups are of one size: a run takes as many as the target does.
  const int64_t group_bytes = inputs[0].file->CompressedBytes(0);
  constexpr int64_t kGroupsOfARun = 1500;
  RewriteTarget target;
  target.copy.schema = &inputs[0].file->schema();
  target.copy.row_group_bytes = group_bytes * kGroupsOfARun;
  const auto steps = PlanRewrite(inputs, target);
  ASSERT_TRUE(steps.ok());
  ASSERT_EQ(steps->size(), 7U);  // 10,000 by 1,500, rounded up
  std::vector<std::unique_ptr<StitchedRun>> runs;
  std::vector<const EncodedRows*> rows;
  StitchCounts counts;
  for (const RewriteStep& step : *steps) {
    std::vector<StitchPart> parts;
    for (const GroupRef& group : step.groups) {
      parts.push_back({.input = inputs[0].file, .row_group = group.row_group});
    }
    runs.push_back(std::make_unique<StitchedRun>(parts, StitchOptions{}, memory_, counts));
    rows.push_back(runs.back().get());
  }
  const WrittenFile file = WriteEncoded("out", schema, *inputs[0].file, rows);
  EXPECT_EQ(file.split_offsets.size(), steps->size());
  EXPECT_EQ(counts.columns_decoded, 0);
  EXPECT_EQ(counts.pages_copied, 2 * kRows);
  EXPECT_LT(counting.request_count(), 200);
  ExpectSameRows(*Read("out", schema), *ToTable({batch}));
}

TEST_F(ParquetRewrite, DamagedInputsAreErrorsAndNothingElse) {
  const auto schema = RandomSchema(random_, 4, true);
  Write("in", {RandomBatch(random_, schema, 300)}, {.row_group_rows = 100, .page_rows = 30});
  const std::string bytes = *ReadObject(ctx_, store_, "in");
  const auto bodies = PageBodies("in");
  // What is damaged under a checksum is always seen, whether its page is copied or not.
  const auto rewrite = [&](const std::string& damaged) -> Status {
    PF_TRY(WriteObject(ctx_, store_, "d", damaged));
    PF_ASSIGN(const auto input, OpenParquetInput(ctx_, Object("d"), "d"));
    std::vector<StitchPart> parts;
    Positions deleted;
    deleted.Add(5);
    deleted.Add(150);
    const RowFilter filter(std::move(deleted));
    for (int g = 0; g < input->footer.row_group_count(); ++g) {
      parts.push_back({.input = input, .row_group = g, .deleted = &filter});
    }
    ParquetSinkOptions options;
    options.schema_of = &input->footer;
    PF_ASSIGN(auto sink, ParquetSink::Open(ctx_, Create("o"), "o", schema, options, memory_));
    StitchCounts counts;
    PF_TRY(sink->AppendEncoded(ctx_, StitchedRun(parts, {}, memory_, counts)));
    return sink->AppendEncoded(ctx_, CopiedRowGroup(input, 0, {}));
  };
  for (int round = 0; round < 300; ++round) {
    if (round % 3 == 0) {
      EXPECT_FALSE(rewrite(FlipBitsOfOne(bytes, bodies)).ok()) << round;
    } else {
      const Status status =
          rewrite(FlipBits(bytes, round % 3 == 1 ? 0 : bytes.size() / 2, bytes.size()));
      EXPECT_TRUE(status.ok() || status.code() != Code::kInternal) << status.ToString();
    }
  }
}

}  // namespace
}  // namespace partforge::data
