#include "data/avro_source.h"

#include "data/avro_sink.h"
#include "data/counting_source.h"
#include "data/parquet_rig.h"

namespace partforge::data {
namespace {

using data::testing::CountingSource;
using data::testing::ExpectSameRows;
using data::testing::ParquetFixture;
using data::testing::RandomBatch;
using data::testing::ReadAll;
using data::testing::ToTable;

class AvroReadAhead : public ParquetFixture {
 protected:
  void SetUp() override {
    const auto schema = arrow::schema({WithFieldId(arrow::field("a", arrow::utf8()), 1),
                                       WithFieldId(arrow::field("b", arrow::int64()), 2)});
    auto sink = OpenAvroSink(ctx_, Create("f"), "f", schema, {.codec = BlockCodec::kNone});
    for (int i = 0; i < 20; ++i) {
      batches_.push_back(RandomBatch(random_, schema, 4000));
      ASSERT_TRUE((*sink)->Write(ctx_, *batches_.back()).ok());
    }
    ASSERT_TRUE((*sink)->Close(ctx_).ok());
    size_ = store_.Stat(ctx_, "f")->size_bytes;
  }

  // All rows with their positions, which must be those of the file.
  void Read(const Context& ctx, ScanSpec spec, CountingSource::Counts& counts) {
    spec.wanted = batches_[0]->schema();
    spec.position_column = "_pos";
    auto object = std::make_unique<CountingSource>(Object("f"), counts);
    auto source = OpenAvroSource(ctx, std::move(object), "f", spec, {}, memory_);
    ASSERT_TRUE(source.ok()) << source.status().ToString();
    const auto got = ReadAll(ctx, **source);
    ASSERT_EQ(got->num_rows(), 80'000);
    const auto& positions =
        static_cast<const arrow::Int64Array&>(*got->GetColumnByName("_pos")->chunk(0));
    for (int64_t i = 0; i < positions.length(); ++i) ASSERT_EQ(positions.Value(i), i);
    ExpectSameRows(*got->RemoveColumn(got->num_columns() - 1).ValueOrDie(), *ToTable(batches_));
  }

  std::vector<std::shared_ptr<arrow::RecordBatch>> batches_;
  int64_t size_ = 0;
};

TEST_F(AvroReadAhead, BytesAreFetchedOnceInPiecesOfTheSizeOfARequest) {
  ASSERT_GT(size_, 1'200'000);
  CountingSource::Counts counts;
  Read(ctx_, {.read_ahead = {.request_bytes_max = 500'000}}, counts);
  EXPECT_EQ(counts.bytes, size_);
  EXPECT_LE(counts.requests, size_ / 500'000 + 4);
}

TEST_F(AvroReadAhead, WithoutRoomEverythingIsReadWhenItIsAskedFor) {
  CountingSource::Counts counts;
  Read(ctx_, {.read_ahead = {.held_bytes_max = 1000}}, counts);
  EXPECT_GE(counts.bytes, size_);
}

// There is nothing to prune by: the rows outside of a range come, too.
TEST_F(AvroReadAhead, RangesLeaveNothingOut) {
  CountingSource::Counts counts;
  Read(ctx_, {.ranges = {{.column = {.id = 2}, .upper = Scalar::Int64(0)}}}, counts);
}

}  // namespace
}  // namespace partforge::data
