#include "clickhouse/frame.h"

#include <gtest/gtest.h>

#include "base/hash.h"
#include "clickhouse/testdata.h"
#include "testing/test_world.h"

namespace partforge::clickhouse {
namespace {

constexpr int64_t kPlenty = int64_t{1} << 24;

std::string Repeating(size_t size) {
  std::string text;
  while (text.size() < size) text += "part of a column ";
  text.resize(size);
  return text;
}

TEST(Frame, DecodesWhatItEncodesInEveryMethod) {
  for (const FrameMethod method : {FrameMethod::kNone, FrameMethod::kLz4, FrameMethod::kZstd}) {
    for (const size_t size : {size_t{0}, size_t{1}, size_t{65'536}, size_t{300'001}}) {
      const std::string payload = Repeating(size);
      const std::string frame = EncodeFrame(AsBytes(payload), method).value();
      const DecodedFrame decoded = DecodeFrame(AsBytes(frame), kPlenty).value();
      EXPECT_EQ(decoded.bytes, payload);
      EXPECT_EQ(decoded.method, method);
      EXPECT_EQ(decoded.frame_size_bytes, static_cast<int64_t>(frame.size()));
    }
  }
}

TEST(Frame, ReadsColumnsAndMarksOfTheServer) {
  const GoldenPart wide = Golden("wide");
  const std::string ids = DecodeFrames(AsBytes(wide.Read("id.bin")), kPlenty).value();
  ASSERT_EQ(ids.size(), 50 * 8u);
  const std::string amounts = DecodeFrames(AsBytes(wide.Read("amount.bin")), kPlenty).value();
  EXPECT_EQ(amounts.size(), 50 * 8u);  // Decimal(10, 2), CODEC(ZSTD(3))
  EXPECT_EQ(DecodeFrame(AsBytes(wide.Read("amount.bin")), kPlenty)->method, FrameMethod::kZstd);
  EXPECT_TRUE(DecodeFrames(AsBytes(wide.Read("id.cmrk2")), kPlenty).ok());
}

TEST(Frame, ConcatenatedFramesGiveConcatenatedBytes) {
  const std::string two = EncodeFrame(AsBytes("abc"), FrameMethod::kNone).value() +
                          EncodeFrame(AsBytes("def"), FrameMethod::kLz4).value();
  EXPECT_EQ(DecodeFrames(AsBytes(two), kPlenty).value(), "abcdef");
  EXPECT_EQ(DecodeFrames(AsBytes(two), 5).status().code(), Code::kExhausted);
}

TEST(Frame, EveryFlippedBitIsSeen) {
  const std::string frame = EncodeFrame(AsBytes(Repeating(200)), FrameMethod::kLz4).value();
  for (size_t bit = 0; bit < frame.size() * 8; ++bit) {
    std::string broken = frame;
    broken[bit / 8] = static_cast<char>(broken[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_FALSE(DecodeFrame(AsBytes(broken), kPlenty).ok()) << bit;
  }
  for (size_t size = 0; size < frame.size(); ++size) {
    EXPECT_EQ(DecodeFrame(AsBytes(frame.substr(0, size)), kPlenty).status().code(),
              Code::kCorruption);
  }
}

// A frame whose checksum is right over bytes of our choice.
std::string Signed(std::string counted) {
  const Hash128 hash = CityHash128(AsBytes(counted));
  std::string out(reinterpret_cast<const char*>(&hash.low), 8);
  out.append(reinterpret_cast<const char*>(&hash.high), 8);
  return out + counted;
}

TEST(Frame, HostilePayloadWithARightChecksumIsBounded) {
  const uint64_t seed = testing::TestSeed();
  SCOPED_TRACE(seed);
  testing::SeededRandom random(seed);
  const char methods[] = {'\x02', '\x82', '\x90', '\x91'};
  for (int round = 0; round < 3000; ++round) {
    std::string payload(RandomBelow(random, 64), '\0');
    for (char& c : payload) c = static_cast<char>(random.Next());
    std::string counted(1, methods[RandomBelow(random, 4)]);
    const auto compressed = static_cast<uint32_t>(payload.size() + 9);
    const auto uncompressed = static_cast<uint32_t>(
        RandomBelow(random, 4) == 0 ? random.Next() : RandomBelow(random, 4096));
    counted.append(reinterpret_cast<const char*>(&compressed), 4);
    counted.append(reinterpret_cast<const char*>(&uncompressed), 4);
    const auto decoded = DecodeFrame(AsBytes(Signed(counted + payload)), 1 << 20);
    if (decoded.ok()) {
      EXPECT_EQ(decoded->bytes.size(), uncompressed);
    }
  }
}

TEST(Frame, AnotherCodecIsRefusedByName) {
  std::string counted = "\x92";
  const uint32_t sizes[] = {10, 1};
  counted.append(reinterpret_cast<const char*>(sizes), 8);
  counted += 'x';
  const auto decoded = DecodeFrame(AsBytes(Signed(counted)), kPlenty);
  EXPECT_EQ(decoded.status().code(), Code::kRefused);
  EXPECT_NE(decoded.status().message().find("0x92"), std::string::npos);
}

}  // namespace
}  // namespace partforge::clickhouse
