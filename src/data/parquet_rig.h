#pragma once

#include <arrow/api.h>
#include <gtest/gtest.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/page_codec.h"
#include "data/parquet_footer.h"
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

  // Where the bodies of a file's pages stand: the bytes that checksums of pages vouch for.
  std::vector<FileRange> PageBodies(const std::string& key) {
    std::vector<FileRange> bodies;
    const std::string bytes = *ReadObject(ctx_, store_, key);
    const auto footer = ReadParquetFooter(ctx_, *Object(key), key);
    EXPECT_TRUE(footer.ok()) << footer.status().ToString();
    for (int group = 0; group < footer->row_group_count(); ++group) {
      for (int column = 0; column < footer->leaf_count(); ++column) {
        const ChunkView chunk = *ViewChunk(footer->chunk(group, column), key);
        const auto pages = ListPages(std::as_bytes(std::span(bytes))
                                         .subspan(static_cast<size_t>(chunk.bytes.offset),
                                                  static_cast<size_t>(chunk.bytes.length)),
                                     chunk.num_values, key);
        EXPECT_TRUE(pages.ok()) << pages.status().ToString();
        for (const Page& page : *pages) {
          EXPECT_TRUE(page.header.crc.has_value());
          if (page.body.empty()) continue;
          bodies.push_back({chunk.bytes.offset + page.offset + page.header.header_bytes,
                            page.header.compressed_bytes});
        }
      }
    }
    EXPECT_FALSE(bodies.empty());
    return bodies;
  }

  // `bytes` with one to four bits turned over in [from, end); at least one in the end.
  std::string FlipBits(std::string bytes, size_t from, size_t end) {
    const std::string before = bytes;
    while (bytes == before) {
      for (uint64_t n = 1 + random_.Next() % 4; n > 0; --n) {
        bytes[from + random_.Next() % (end - from)] ^= static_cast<char>(1 << (random_.Next() % 8));
      }
    }
    return bytes;
  }
  std::string FlipBitsOfOne(const std::string& bytes, const std::vector<FileRange>& ranges) {
    const FileRange& range = ranges[random_.Next() % ranges.size()];
    return FlipBits(bytes, static_cast<size_t>(range.offset), static_cast<size_t>(range.end()));
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
