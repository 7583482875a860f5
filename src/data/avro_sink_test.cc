#include "data/avro_sink.h"

#include <arrow/api.h>
#include <arrow/json/from_string.h>
#include <gtest/gtest.h>

#include "data/avro_source.h"
#include "data/schema_mapping.h"
#include "testing/memory_store.h"
#include "testing/object_store_contract.h"
#include "testing/test_world.h"

namespace partforge::testing {
// The contract is linked in with the store in memory.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ObjectStoreContract);
}  // namespace partforge::testing

namespace partforge::data {
namespace {

std::shared_ptr<arrow::Schema> TableSchema() {
  return arrow::schema({WithFieldId(arrow::field("id", arrow::int64(), false), 1),
                        WithFieldId(arrow::field("city", arrow::utf8()), 2),
                        WithFieldId(arrow::field("score", arrow::float64()), 3)});
}

std::shared_ptr<arrow::RecordBatch> Rows(const std::shared_ptr<arrow::Schema>& schema,
                                         const std::string& rows) {
  auto array = arrow::json::ArrayFromJSONString(arrow::struct_(schema->fields()), rows);
  EXPECT_TRUE(array.ok()) << array.status().ToString();
  const auto batch = arrow::RecordBatch::FromStructArray(*array).ValueOrDie();
  return arrow::RecordBatch::Make(schema, batch->num_rows(), batch->columns());
}

struct Stage {
  testing::TestWorld world;
  testing::MemoryStore store;
  ArrowMemory memory{world.context().memory};

  Result<WrittenFile> Write(const arrow::RecordBatch& batch, int times = 1) {
    const Context ctx = world.context();
    PF_ASSIGN(auto bytes, store.Create(ctx, "d.avro", -1));
    PF_ASSIGN(auto sink, OpenAvroSink(ctx, std::move(bytes), "d.avro", batch.schema(),
                                      {.codec = BlockCodec::kZstd, .block_raw_bytes = 500}));
    for (int i = 0; i < times; ++i) PF_TRY(sink->Write(ctx, batch));
    return sink->Close(ctx);
  }

  Result<std::shared_ptr<arrow::Table>> Read(ScanSpec spec) {
    const Context ctx = world.context();
    PF_ASSIGN(auto object, store.Open(ctx, "d.avro"));
    PF_ASSIGN(auto source, OpenAvroSource(ctx, std::move(object), "d.avro", std::move(spec),
                                          AvroTimestamps::kAvro, memory));
    std::vector<std::shared_ptr<arrow::RecordBatch>> batches;
    while (true) {
      PF_ASSIGN(auto batch, source->Next(ctx));
      if (batch == nullptr) break;
      batches.push_back(std::move(batch));
    }
    PF_ARROW_ASSIGN(auto table, arrow::Table::FromRecordBatches(source->schema(), batches));
    return table;
  }
};

constexpr const char* kRows =
    R"([[1, "Oslo", 1.5], [2, null, null], [3, "Bonn", -0.5], [4, "Lima", 9.0]])";

TEST(AvroSink, FileIsReadBackWithMetricsOfItsRows) {
  Stage stage;
  const auto batch = Rows(TableSchema(), kRows);
  const auto file = stage.Write(*batch, 30);
  ASSERT_TRUE(file.ok()) << file.status().ToString();
  EXPECT_EQ(file->row_count, 120);
  EXPECT_EQ(file->size_bytes, stage.store.Stat(stage.world.context(), "d.avro")->size_bytes);
  EXPECT_EQ(file->metrics.columns.at(1).field_id, 2);
  EXPECT_EQ(file->metrics.columns.at(1).null_count, 30);
  EXPECT_EQ(file->metrics.columns.at(1).lower->value.AsBytes(), "Bonn");
  EXPECT_EQ(file->metrics.columns.at(2).upper->value.AsDouble(), 9.0);
  const auto table = stage.Read({});
  ASSERT_TRUE(table.ok()) << table.status().ToString();
  EXPECT_EQ((*table)->num_rows(), 120);
  const auto first = (*table)->Slice(0, 4)->CombineChunksToBatch().ValueOrDie();
  EXPECT_TRUE(first->Equals(*batch)) << first->ToString();
}

TEST(AvroSource, ColumnsAreFoundByIdDeletedRowsAreLeftOutAndPositionsCount) {
  Stage stage;
  ASSERT_TRUE(stage.Write(*Rows(TableSchema(), kRows), 2).ok());
  Positions deleted;
  deleted.Add(1);
  deleted.AddRun({.begin = 3, .end = 6});
  const RowFilter filter(std::move(deleted));
  ScanSpec spec;
  // Renamed, promoted to nullable, reordered; one column the file does not have.
  spec.wanted = arrow::schema({WithFieldId(arrow::field("town", arrow::utf8()), 2),
                               WithFieldId(arrow::field("id", arrow::int64(), false), 1),
                               WithFieldId(arrow::field("later", arrow::int32()), 9)});
  spec.deleted = &filter;
  spec.position_column = "pos";
  const auto table = stage.Read(std::move(spec));
  ASSERT_TRUE(table.ok()) << table.status().ToString();
  const auto schema = (*table)->schema();
  const auto expected =
      Rows(schema, R"([["Oslo", 1, null, 0], ["Bonn", 3, null, 2], ["Bonn", 3, null, 6],
                                         ["Lima", 4, null, 7]])");
  EXPECT_TRUE((*table)->CombineChunksToBatch().ValueOrDie()->Equals(*expected))
      << (*table)->ToString();
}

TEST(AvroSource, RowsAreCountedWithoutAnyColumn) {
  Stage stage;
  ASSERT_TRUE(stage.Write(*Rows(TableSchema(), kRows), 3).ok());
  ScanSpec spec;
  spec.wanted = arrow::schema({});
  spec.position_column = "pos";
  const auto table = stage.Read(std::move(spec));
  ASSERT_TRUE(table.ok()) << table.status().ToString();
  EXPECT_EQ((*table)->num_rows(), 12);
  ScanSpec groups;
  groups.row_groups = {0};
  EXPECT_EQ(stage.Read(std::move(groups)).status().code(), Code::kInvalidArgument);
}

TEST(AvroSink, NothingIsVisibleBeforeCloseAndNothingIsCopied) {
  Stage stage;
  const Context ctx = stage.world.context();
  {
    auto sink = OpenAvroSink(ctx, stage.store.Create(ctx, "d.avro", -1).value(), "d.avro",
                             TableSchema(), {})
                    .value();
    ASSERT_TRUE(sink->Write(ctx, *Rows(TableSchema(), kRows)).ok());
    EXPECT_GT(sink->bytes_estimated(), 0);
  }
  EXPECT_EQ(stage.store.Stat(ctx, "d.avro").status().code(), Code::kNotFound);
}

TEST(AvroSink, AFailureAfterCloseIsReported) {
  Stage stage;
  testing::FailNth faults(1, "data.closed_avro");
  stage.world.UseFaults(faults);
  EXPECT_FALSE(stage.Write(*Rows(TableSchema(), kRows)).ok());
  EXPECT_TRUE(faults.has_fired());
}

}  // namespace
}  // namespace partforge::data
