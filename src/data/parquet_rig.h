#pragma once

#include <arrow/api.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "data/parquet_sink.h"
#include "data/parquet_source.h"
#include "data/random_batches.h"
#include "testing/memory_store.h"
#include "testing/test_world.h"

namespace partforge::data::testing {

// A store in memory and the ways to write and read Parquet files in it.
class ParquetFixture : public ::testing::Test {
 protected:
  WrittenFile Write(const std::string& key,
                    const std::vector<std::shared_ptr<arrow::RecordBatch>>& batches,
                    ParquetSinkOptions options = {}) {
    auto sink = ParquetSink::Open(ctx_, Create(key), key, batches.at(0)->schema(),
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

  std::unique_ptr<ByteSink> Create(const std::string& key) {
    auto bytes = store_.Create(ctx_, key, -1);
    EXPECT_TRUE(bytes.ok());
    return std::move(*bytes);
  }

  std::unique_ptr<ByteSource> Object(const std::string& key) {
    auto object = store_.Open(ctx_, key);
    EXPECT_TRUE(object.ok());
    return std::move(*object);
  }

  std::unique_ptr<ParquetSource> Open(const std::string& key, ScanSpec spec = {}) {
    auto source = ParquetSource::Open(ctx_, Object(key), key, std::move(spec), memory_);
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

}  // namespace partforge::data::testing
