#include "data/block_codec.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/hash.h"

namespace partforge::data {
namespace {

constexpr BlockCodec kAll[] = {BlockCodec::kNone, BlockCodec::kDeflate, BlockCodec::kSnappy,
                               BlockCodec::kZstd, BlockCodec::kLz4};

std::string Packed(BlockCodec codec, const std::string& raw) {
  std::string stored;
  EXPECT_TRUE(CompressBlock(codec, AsBytes(raw), 3, stored).ok());
  return stored;
}

Status Unpack(BlockCodec codec, std::string_view stored, std::string& raw,
              BlockLimits limits = {}) {
  return DecompressBlock(codec, AsBytes(stored), limits, "block 1", raw);
}

TEST(BlockCodec, EveryCodecGivesTheBytesBack) {
  std::string mixed;
  for (int i = 0; i < 200'000; ++i) mixed += std::to_string(i * 7919 % 1000);
  for (const BlockCodec codec : kAll) {
    for (const std::string& raw :
         {std::string(), std::string("x"), std::string(5000, 'a'), mixed}) {
      std::string back = "before";
      const Status status = Unpack(codec, Packed(codec, raw), back);
      ASSERT_TRUE(status.ok()) << status.ToString();
      EXPECT_EQ(back, "before" + raw);
    }
  }
}

TEST(BlockCodec, EveryTruncationIsCorruption) {
  const std::string raw(3000, 'q');
  for (const BlockCodec codec : kAll) {
    if (codec == BlockCodec::kNone) continue;
    const std::string stored = Packed(codec, raw + "end");
    for (size_t length = 0; length < stored.size(); ++length) {
      std::string back;
      const Status status = Unpack(codec, std::string_view(stored).substr(0, length), back);
      ASSERT_FALSE(status.ok()) << static_cast<int>(codec) << " at " << length;
      EXPECT_EQ(status.code(), Code::kCorruption);
    }
  }
}

TEST(BlockCodec, BombsStopAtTheRatio) {
  const std::string raw(8 << 20, '\0');
  for (const BlockCodec codec : {BlockCodec::kDeflate, BlockCodec::kZstd}) {
    const std::string stored = Packed(codec, raw);
    std::string back;
    const Status status = Unpack(codec, stored, back, {.ratio_max = 100});
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.code(), Code::kCorruption);
    EXPECT_LE(back.size(), std::max(size_t{1} << 20, stored.size() * 100));
  }
}

TEST(BlockCodec, BytesAboveTheLimitsAreCorruption) {
  const std::string raw(100'000, 'z');
  for (const BlockCodec codec : kAll) {
    std::string back;
    EXPECT_FALSE(Unpack(codec, Packed(codec, raw), back, {.raw_bytes_max = 99'999}).ok());
    back.clear();
    EXPECT_TRUE(Unpack(codec, Packed(codec, raw), back, {.raw_bytes_max = 100'000}).ok());
    EXPECT_FALSE(Unpack(codec, Packed(codec, raw), back, {.stored_bytes_max = 10}).ok());
  }
}

TEST(BlockCodec, ABrokenSnappyChecksumIsCorruption) {
  std::string stored = Packed(BlockCodec::kSnappy, "hello");
  stored.back() = static_cast<char>(stored.back() ^ 1);
  std::string back;
  EXPECT_EQ(Unpack(BlockCodec::kSnappy, stored, back).code(), Code::kCorruption);
}

TEST(BlockCodec, AvroNamesGoBothWays) {
  for (const std::string_view name : {"null", "deflate", "snappy", "zstandard"}) {
    EXPECT_EQ(AvroCodecName(*AvroCodecOf(name)), name);
  }
  EXPECT_EQ(AvroCodecOf("lzma"), std::nullopt);
}

}  // namespace
}  // namespace partforge::data
