#include <arrow/api.h>
#include <gtest/gtest.h>

#include <set>

#include "data/parquet_sink.h"
#include "data/parquet_source.h"
#include "data/random_batches.h"
#include "testing/memory_store.h"
#include "testing/test_world.h"

namespace partforge::testing {
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ObjectStoreContract);  // linked in with the fakes
}

namespace partforge::data {
namespace {

using data::testing::ExpectSameRows;
using data::testing::RandomBatch;
using data::testing::RandomSchema;
using data::testing::ReadAll;
using data::testing::TakeRows;
using data::testing::ToTable;

class ParquetRoundtrip : public ::testing::Test {
 protected:
  WrittenFile Write(const std::string& key,
                    const std::vector<std::shared_ptr<arrow::RecordBatch>>& batches,
                    ParquetSinkOptions options = {}) {
    auto bytes = store_.Create(ctx_, key, -1);
    EXPECT_TRUE(bytes.ok());
    auto sink = ParquetSink::Open(ctx_, std::move(*bytes), key, batches.at(0)->schema(),
                                  std::move(options), memory_);
    EXPECT_TRUE(sink.ok()) << sink.status().ToString();
    for (const auto& batch : batches) {
      const Status status = (*sink)->Write(ctx_, *batch);
      EXPECT_TRUE(status.ok()) << status.ToString();
    }
    auto written = (*sink)->Close(ctx_);
    EXPECT_TRUE(written.ok()) << written.status().ToString();
    return *written;
  }

  std::unique_ptr<ParquetSource> Open(const std::string& key, ScanSpec spec = {}) {
    auto object = store_.Open(ctx_, key);
    EXPECT_TRUE(object.ok());
    auto source = ParquetSource::Open(ctx_, std::move(*object), key, std::move(spec), memory_);
    EXPECT_TRUE(source.ok()) << source.status().ToString();
    return std::move(*source);
  }

  const uint64_t seed_ = partforge::testing::TestSeed();
  ::testing::ScopedTrace trace_{__FILE__, __LINE__, "seed " + std::to_string(seed_)};
  partforge::testing::SeededRandom random_{seed_};
  partforge::testing::TestWorld world_;
  Context ctx_ = world_.context();
  ArrowMemory memory_{ctx_.memory};
  partforge::testing::MemoryStore store_;
};

TEST_F(ParquetRoundtrip, RandomSchemasComeBackEqual) {
  for (int round = 0; round < 12; ++round) {
    SCOPED_TRACE(round);
    const auto schema = RandomSchema(random_, 6, /*with_nested=*/true);
    std::vector<std::shared_ptr<arrow::RecordBatch>> batches;
    for (int i = 0; i < 4; ++i) batches.push_back(RandomBatch(random_, schema, 1 + i * 333));
    ParquetSinkOptions options;
    options.row_group_rows = 700;
    options.page_rows = 100;
    options.codec = static_cast<ParquetCodec>(round % 6);
    const WrittenFile file = Write("f", batches, options);
    EXPECT_EQ(file.size_bytes, store_.Stat(ctx_, "f")->size_bytes);
    ScanSpec spec;
    spec.wanted = schema;
    auto source = Open("f", spec);
    const auto wanted = ToTable(batches);
    EXPECT_EQ(file.row_count, wanted->num_rows());
    const auto got = ReadAll(ctx_, *source);
    ASSERT_NE(got, nullptr);
    ExpectSameRows(*got, *wanted);
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace partforge::data
