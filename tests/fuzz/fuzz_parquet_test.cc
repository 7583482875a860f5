// Drives what reads Parquet pages with mutations of good files (fuzz_data_test.cc).

#include <arrow/api.h>
#include <arrow/io/api.h>
#include <arrow/ipc/options.h>
#include <arrow/ipc/writer.h>
#include <arrow/util/compression.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <parquet/arrow/writer.h>
#include <sys/resource.h>

#include "base/files.h"
#include "base/hash.h"
#include "data/lookup_file.h"
#include "data/memory_bytes.h"
#include "data/page_index.h"
#include "data/parquet_footer.h"
#include "fuzz/fuzz_length.h"
#include "fuzz/fuzz_local.h"
#include "fuzz/fuzz_parquet.h"
#include "fuzz/mutation.h"
#include "testing/allocation_peak.h"
#include "testing/test_world.h"

namespace partforge::fuzz {
namespace {

using namespace partforge::data;  // NOLINT: this file is about nothing else

constexpr int kInputs = PARTFORGE_FUZZ_INPUTS;
constexpr size_t kAllocationFactor = 64;
constexpr size_t kAllocationFree = 16 << 20;

using testing::AllocationPeak;
using Target = int (*)(std::span<const std::byte>);

// `allocation_free` is what the target takes whatever its input is.
void Fuzz(Target target, const std::vector<std::string>& seeds, int inputs,
          size_t allocation_free = kAllocationFree) {
  const uint64_t seed = FuzzSeed();
  SCOPED_TRACE(fmt::format("PARTFORGE_TEST_SEED={}", seed));
  testing::SeededRandom random(seed);
  const FuzzLength length(inputs);
  for (int64_t i = 0; length.Wants(i) && !::testing::Test::HasFailure(); ++i) {
    const auto at = static_cast<size_t>(i);
    const std::string input = at < seeds.size()
                                  ? seeds[at]
                                  : Mutate(seeds[RandomBelow(random, seeds.size())], seeds, random);
    AllocationPeak::Start();
    EXPECT_EQ(target(AsBytes(input)), 0);
    EXPECT_LE(AllocationPeak::PeakBytes(), kAllocationFactor * input.size() + allocation_free)
        << ToHex(AsBytes(input));
  }
}

// Small files of three columns, with what differs between writers.
std::string File(bool by_dictionary, parquet::ParquetDataPageVersion version,
                 parquet::Compression::type codec) {
  arrow::Int64Builder ids;
  arrow::StringBuilder texts;
  auto items = std::make_shared<arrow::Int32Builder>();
  arrow::ListBuilder lists(arrow::default_memory_pool(), items);
  for (int64_t i = 0; i < 40; ++i) {
    EXPECT_TRUE(ids.Append(i).ok());
    EXPECT_TRUE((i % 5 == 0 ? texts.AppendNull() : texts.Append(fmt::format("t{}", i % 7))).ok());
    EXPECT_TRUE(lists.Append().ok() && items->Append(static_cast<int32_t>(i)).ok());
  }
  const auto table = arrow::Table::Make(
      arrow::schema({arrow::field("id", arrow::int64(), false), arrow::field("t", arrow::utf8()),
                     arrow::field("l", arrow::list(arrow::int32()))}),
      {ids.Finish().ValueOrDie(), texts.Finish().ValueOrDie(), lists.Finish().ValueOrDie()});
  const auto out = arrow::io::BufferOutputStream::Create().ValueOrDie();
  parquet::WriterProperties::Builder builder;
  builder.enable_write_page_index()->data_page_version(version)->compression(codec);
  builder.max_rows_per_page(8)->write_batch_size(4);
  builder.enable_bloom_filter("t", {.ndv = 10, .fpp = 0.1});
  if (!by_dictionary) builder.disable_dictionary();
  EXPECT_TRUE(
      parquet::arrow::WriteTable(*table, arrow::default_memory_pool(), out, 20, builder.build())
          .ok());
  return out->Finish().ValueOrDie()->ToString();
}

std::vector<std::string> Files() {
  using parquet::Compression;
  using parquet::ParquetDataPageVersion;
  return {File(true, ParquetDataPageVersion::V1, Compression::ZSTD),
          File(true, ParquetDataPageVersion::V2, Compression::SNAPPY),
          File(false, ParquetDataPageVersion::V1, Compression::UNCOMPRESSED),
          File(true, ParquetDataPageVersion::V1, Compression::UNCOMPRESSED)};
}

ParquetFooter FooterOf(const std::string& file) {
  return ParseParquetFooter(AsBytes(file), static_cast<int64_t>(file.size()), "seed").value();
}

TEST(FuzzParquet, Hybrid) {
  Fuzz(&FuzzHybrid,
       {std::string("\x04\x00\x10\x03\x21\x43\x65\x07\x20\x05", 10),
        std::string("\x13\x00\x64\xc8\x01\x05\x00\x00", 8)},
       kInputs);
}

// check: DATA-23
TEST(FuzzParquet, Pages) {
  std::vector<std::string> seeds;
  for (const std::string& file : Files()) {
    const ParquetFooter footer = FooterOf(file);
    for (int c = 0; c < 3; ++c) {
      const ChunkView view = ViewChunk(footer.chunk(0, c), "seed").value();
      // Type, levels and codec are chosen by the two bytes in front (fuzz_parquet.cc).
      const int type = c == 0 ? 2 : c == 1 ? 6 : 1;
      const int levels = c == 0 ? 0 : c == 1 ? 8 : 8 * 3 + 32;
      const int codec = view.codec == 0 ? 0 : view.codec == 1 ? 1 : 5;
      std::string seed = {static_cast<char>(type + levels), static_cast<char>(codec)};
      seed += file.substr(static_cast<size_t>(view.bytes.offset),
                          static_cast<size_t>(view.bytes.length));
      seeds.push_back(std::move(seed));
    }
  }
  Fuzz(&FuzzPageCodec, seeds, kInputs);
}

TEST(FuzzParquet, PageIndex) {
  std::vector<std::string> seeds;
  for (const std::string& file : Files()) {
    const FileRange place = ViewChunk(FooterOf(file).chunk(0, 1), "seed").value().column_index;
    seeds.push_back(
        file.substr(static_cast<size_t>(place.offset), static_cast<size_t>(place.length)));
  }
  Fuzz(&FuzzPageIndex, seeds, kInputs);
}

// A row each for the keys 0, 1, 2 …
std::shared_ptr<arrow::RecordBatch> LocalRows(int32_t count) {
  arrow::Int32Builder keys;
  arrow::StringBuilder texts;
  auto items = std::make_shared<arrow::Int16Builder>();
  arrow::ListBuilder lists(arrow::default_memory_pool(), items);
  for (int32_t i = 0; i < count; ++i) {
    EXPECT_TRUE(keys.Append(i).ok() && lists.Append().ok());
    EXPECT_TRUE(items->Append(static_cast<int16_t>(i)).ok());
    EXPECT_TRUE((i % 5 == 0 ? texts.AppendNull() : texts.Append(std::string(600, 'x'))).ok());
  }
  return arrow::RecordBatch::Make(
      LocalRowSchema(), count,
      {keys.Finish().ValueOrDie(), texts.Finish().ValueOrDie(), lists.Finish().ValueOrDie()});
}

// check: DATA-23
TEST(FuzzLocal, LookupFile) {
  partforge::testing::TestWorld world;
  ArrowMemory memory(world.context().memory);
  const auto keys = MakeKeyEncoder(LocalRowSchema(), {{.name = "k"}});
  std::vector<std::string> seeds;
  for (const BlockCodec codec : {BlockCodec::kNone, BlockCodec::kLz4}) {
    for (const int32_t rows : {0, 20, 240}) {
      MemoryBatches source(LocalRowSchema(), {LocalRows(rows)});
      std::string bytes;
      MemorySink sink(bytes);
      EXPECT_TRUE(WriteLookupFile(world.context(), source, **keys,
                                  {.data_file = "f", .codec = codec}, {}, sink, memory)
                      .ok());
      if (bytes.size() < 60'000) seeds.push_back(std::move(bytes));
    }
  }
  ASSERT_GT(seeds.size(), 3U);
  Fuzz(&FuzzLookupFile, seeds, kInputs, size_t{64} << 20);
}

// check: DATA-23
TEST(FuzzLocal, Spill) {
  std::vector<std::string> seeds;
  for (const auto compression : {arrow::Compression::UNCOMPRESSED, arrow::Compression::LZ4_FRAME}) {
    auto options = arrow::ipc::IpcWriteOptions::Defaults();
    options.codec = arrow::util::Codec::Create(compression).ValueOr(nullptr);
    seeds.push_back(
        arrow::ipc::SerializeRecordBatch(*LocalRows(30), options).ValueOrDie()->ToString());
  }
  Fuzz(&FuzzSpill, seeds, kInputs, size_t{64} << 20);
}

TEST(FuzzParquet, Copy) {
  // A few bytes of levels may stand for as many values as a page has at most.
  Fuzz(&FuzzParquetCopy, Files(), kInputs / 3, size_t{160} << 20);
}

// check: DATA-23
TEST(FuzzParquet, Source) {
  Fuzz(&FuzzParquetSource, Files(), kInputs / 3);
}

// check: DATA-23
TEST(FuzzParquet, Inspect) {
  std::vector<std::string> seeds = Files();
  for (const std::string_view name : {"fastavro_deflate.avro", "pyiceberg_manifest.avro"}) {
    seeds.push_back(ReadFile(fmt::format("{}/{}", PARTFORGE_DATA_TESTDATA, name)).value());
  }
  Fuzz(&FuzzInspect, seeds, kInputs / 3);
}

TEST(FuzzParquet, Verify) {
  Fuzz(&FuzzParquetVerify, Files(), kInputs / 3, size_t{320} << 20);
}

}  // namespace
}  // namespace partforge::fuzz
