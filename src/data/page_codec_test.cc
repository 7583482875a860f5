#include "data/page_codec.h"

#include <gtest/gtest.h>

#include "base/hash.h"
#include "data/parquet_sink.h"
#include "testing/test_world.h"

namespace partforge::data {
namespace {

std::vector<uint32_t> RandomLevels(Random& random, int bit_width, int64_t count) {
  std::vector<uint32_t> values;
  const uint64_t mask = (uint64_t{1} << bit_width) - 1;
  while (static_cast<int64_t>(values.size()) < count) {
    const auto value = static_cast<uint32_t>(random.Next() & mask);
    const uint64_t run = random.Next() % 3 == 0 ? 1 + random.Next() % 40 : 1;
    for (uint64_t i = 0; i < run; ++i) values.push_back(value);
  }
  values.resize(static_cast<size_t>(count));
  return values;
}

TEST(PageCodec, HybridComesBackEqual) {
  const uint64_t seed = partforge::testing::TestSeed();
  SCOPED_TRACE(seed);
  partforge::testing::SeededRandom random(seed);
  for (int round = 0; round < 600; ++round) {
    const int width = static_cast<int>(random.Next() % 33);
    const auto count = static_cast<int64_t>(random.Next() % 300);
    const auto values = RandomLevels(random, width, count);
    std::string bytes;
    EncodeHybrid(values, width, bytes);
    std::vector<uint32_t> decoded;
    const Status status =
        DecodeHybrid(std::as_bytes(std::span(bytes)), width, count, UINT32_MAX, "test", decoded);
    ASSERT_TRUE(status.ok()) << status.ToString() << " width " << width;
    ASSERT_EQ(decoded, values);
    const uint32_t wanted = values.empty() ? 0 : values[values.size() / 2];
    ASSERT_EQ(*CountInHybrid(std::as_bytes(std::span(bytes)), width, count, wanted, "test"),
              std::count(values.begin(), values.end(), wanted));
  }
}

TEST(PageCodec, HeadersHoldNoLongLists) {
  ThriftValue header = ThriftValue::Struct();
  header.Set(parquet_field::page_header::kType, ThriftValue::I32(1));  // an index page
  header.Set(parquet_field::page_header::kUncompressedSize, ThriftValue::I32(0));
  header.Set(parquet_field::page_header::kCompressedSize, ThriftValue::I32(0));
  EXPECT_TRUE(ParsePageHeader(AsBytes(EncodeThriftStruct(header)), "test").ok());
  header.Set(
      99, ThriftValue::List(ThriftType::kI32, std::vector<ThriftValue>(5000, ThriftValue::I32(0))));
  EXPECT_EQ(ParsePageHeader(AsBytes(EncodeThriftStruct(header)), "test").status().code(),
            Code::kCorruption);
}

TEST(PageCodec, HybridOfRandomBytesNeverReadsBeyondThem) {
  const uint64_t seed = partforge::testing::TestSeed();
  SCOPED_TRACE(seed);
  partforge::testing::SeededRandom random(seed);
  std::vector<uint32_t> decoded;
  for (int round = 0; round < 3000; ++round) {
    std::vector<std::byte> bytes(random.Next() % 40);
    for (auto& byte : bytes) byte = static_cast<std::byte>(random.Next());
    const int width = static_cast<int>(random.Next() % 36) - 1;
    const auto count = static_cast<int64_t>(random.Next() % 10'000);
    const Status status = DecodeHybrid(bytes, width, count, 1000, "test", decoded);
    if (!status.ok()) continue;
    ASSERT_EQ(static_cast<int64_t>(decoded.size()), count);
    for (const uint32_t value : decoded) ASSERT_LE(value, 1000U);
  }
}

TEST(PageCodec, PagesOfBothVersionsComeBackEqual) {
  for (const int32_t codec : {0, 1, 2, 4, 6, 7}) {
    for (const PageType type : {PageType::kData, PageType::kDataV2}) {
      auto compressor = PageCompressor::Make(codec, std::nullopt);
      ASSERT_TRUE(compressor.ok());
      LeafColumn column;
      column.max_definition_level = 2;
      column.max_repetition_level = 1;
      const PageParts parts{.type = type,
                            .num_values = 9,
                            .num_nulls = 2,
                            .num_rows = 4,
                            .encoding = 0,
                            .repetition_levels = "rrr",
                            .definition_levels = "dddd",
                            .values = "valuesvaluesvalues"};
      std::string bytes;
      ASSERT_TRUE(WriteDictionaryPage("entries", 1, *compressor, bytes).ok());
      ASSERT_TRUE(WriteDataPage(parts, column, *compressor, bytes).ok());
      const auto pages = ListPages(std::as_bytes(std::span(bytes)), 9, "test");
      ASSERT_TRUE(pages.ok()) << pages.status().ToString();
      ASSERT_EQ(pages->size(), 2U);
      OpenedPage opened;
      ASSERT_TRUE(OpenPage((*pages)[1], column, *compressor, "test", opened).ok());
      const auto text = [](std::span<const std::byte> span) {
        return std::string(reinterpret_cast<const char*>(span.data()), span.size());
      };
      EXPECT_EQ(text(opened.repetition_levels), "rrr");
      EXPECT_EQ(text(opened.definition_levels), "dddd");
      EXPECT_EQ(text(opened.values), "valuesvaluesvalues");
      bytes[bytes.size() - 1] ^= 1;
      const auto damaged = ListPages(std::as_bytes(std::span(bytes)), 9, "test");
      ASSERT_FALSE(damaged.ok());
      EXPECT_EQ(damaged.status().code(), Code::kCorruption);
    }
  }
}

// A page of one value again and again is small; one that only says to be large is an error, before
// there is room for it.
TEST(PageCodec, LargePagesAreBelievedAsTheirBytesCome) {
  const std::string plain(9'000'000, 'v');
  for (const int codec : {1, 2, 4, 5, 6, 7}) {
    SCOPED_TRACE(codec);
    auto compressor = PageCompressor::Make(codec, std::nullopt);
    ASSERT_TRUE(compressor.ok());
    const std::string stored(*compressor->Compress(plain));
    const auto bytes = std::as_bytes(std::span(stored));
    std::string got;
    const Status status =
        compressor->Decompress(bytes, static_cast<int64_t>(plain.size()), "test", got);
    ASSERT_TRUE(status.ok()) << status.ToString();
    EXPECT_TRUE(got == plain);
    for (const int64_t claimed : {int64_t{8'999'999}, int64_t{9'000'001}, int64_t{60'000'000}}) {
      EXPECT_EQ(compressor->Decompress(bytes, claimed, "test", got).code(), Code::kCorruption)
          << claimed;
    }
    EXPECT_EQ(compressor->Decompress(bytes.first(bytes.size() / 2), 9'000'000, "test", got).code(),
              Code::kCorruption);
    // No format begins so: damage, and not what another reader might take.
    const std::string noise(100, '\xff');
    EXPECT_EQ(
        compressor->Decompress(std::as_bytes(std::span(noise)), 9'000'000, "test", got).code(),
        Code::kCorruption);
  }
}

// A level that a codec has makes a difference; LevelsOf says which have them.
TEST(PageCodec, LevelsAreThoseThatTheCodecsHave) {
  const uint64_t seed = partforge::testing::TestSeed();
  SCOPED_TRACE(seed);
  partforge::testing::SeededRandom random(seed);
  std::string plain;
  for (int i = 0; i < 40'000; ++i) {
    plain +=
        "word" + std::to_string(random.Next() % 700) + " of " + std::to_string(random.Next() % 13);
  }
  for (const ParquetCodec codec :
       {ParquetCodec::kNone, ParquetCodec::kSnappy, ParquetCodec::kGzip, ParquetCodec::kBrotli,
        ParquetCodec::kLz4Raw, ParquetCodec::kZstd}) {
    const auto levels = LevelsOf(codec);
    if (!levels) continue;
    std::vector<size_t> sizes;
    for (const int level : {levels->first, levels->second}) {
      auto compressor = PageCompressor::Make(ParquetCodecNumber(codec), level);
      ASSERT_TRUE(compressor.ok()) << compressor.status().ToString();
      const auto stored = compressor->Compress(plain);
      ASSERT_TRUE(stored.ok()) << stored.status().ToString();
      sizes.push_back(stored->size());
    }
    EXPECT_LT(sizes[1], sizes[0]) << ParquetCodecNumber(codec);
  }
}

}  // namespace
}  // namespace partforge::data
