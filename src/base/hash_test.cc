#include "base/hash.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "testing/test_world.h"

namespace partforge {
namespace {

// Byte i is (7 i + 3) mod 251: the engine makes the same string with
// arrayStringConcat(arrayMap(i -> char((i * 7 + 3) % 251), range(n))).
std::string Pattern(size_t size) {
  std::string text;
  for (size_t i = 0; i < size; ++i) text += static_cast<char>((i * 7 + 3) % 251);
  return text;
}

struct Golden {
  size_t size = 0;
  uint64_t hash = 0;
};

// What `SELECT hex(cityHash64(...))` answers, around every change of the algorithm's path.
constexpr Golden kCityHash64[] = {
    {0, 0x9AE16A3B2F90404Fu},    {1, 0x5068A5B3D87A0284u},    {3, 0xF6AA543CA4B8BF14u},
    {4, 0x9DD33B80B9FA6393u},    {7, 0x0E1BC1022A1B992Cu},    {8, 0x37FED2DBA3A300E3u},
    {9, 0x29B1FF616F22D6F6u},    {15, 0xF35205FD9DB2C504u},   {16, 0xBDF5BCBC9B4603A4u},
    {17, 0xA75FE55F0D775EDAu},   {24, 0x7353F72904323F52u},   {31, 0xA74E1D551760088Du},
    {32, 0xD7989F47D40C660Du},   {33, 0xEF04FA08E8E5B8FBu},   {48, 0x5115CB7392C8CE84u},
    {63, 0xCEB2A602EADF821Du},   {64, 0x585D4D8B89F08236u},   {65, 0x02470A79D70731DBu},
    {100, 0x45D9F5A77A1BE9BDu},  {127, 0x723B1CCCF0FA1B30u},  {128, 0x081298E229622CA2u},
    {129, 0xE9A67E3FC45DE693u},  {143, 0x42CE0FD541D5FF04u},  {144, 0xD7F1F779A1B913ADu},
    {145, 0x1D2C06C9692921DCu},  {160, 0xE32F12290B7B048Fu},  {191, 0x02AA99FB8CB4EBADu},
    {192, 0x8106FED29E698E06u},  {255, 0xAFB37416B20E9F7Fu},  {256, 0xD5A824C4CDA32049u},
    {257, 0xBAC27C50CB0F43B3u},  {300, 0xD9E797910569DB1Au},  {1000, 0x71A5475D59A9414Fu},
    {2047, 0x423268AE175BFFB2u}, {2048, 0xD6BB75218EE08422u}, {2049, 0xC46F156ED267A33Au},
    {5000, 0xF2E6B0922BAF121Bu},
};

TEST(CityHash, Of64BitsEqualsTheEngines) {
  for (const Golden& golden : kCityHash64) {
    EXPECT_EQ(CityHash64(AsBytes(Pattern(golden.size))), golden.hash) << golden.size;
  }
}

// The file id.bin that the engine writes for `id UInt64 CODEC(NONE)` with the numbers 0 to 999: one
// frame of checksum, method 0x02, both sizes and 8000 plain bytes.
struct WrittenColumn {
  std::string frame_body;  // method, sizes and data: what the frame's checksum covers
  std::string values;
};

WrittenColumn NumbersColumn() {
  WrittenColumn column;
  for (uint64_t number = 0; number < 1000; ++number) {
    for (int byte = 0; byte < 8; ++byte)
      column.values += static_cast<char>(number >> (8 * byte) & 0xFF);
  }
  column.frame_body = std::string("\x02\x49\x1f\0\0\x40\x1f\0\0", 9) + column.values;
  return column;
}

std::string LittleEndian(const Hash128& hash) {
  std::string text;
  for (const uint64_t half : {hash.low, hash.high}) {
    for (int byte = 0; byte < 8; ++byte) text += static_cast<char>(half >> (8 * byte) & 0xFF);
  }
  return text;
}

Hash128 StreamHash(std::string_view text) {
  CityHash128Stream stream;
  stream.Update(AsBytes(text));
  return stream.Finish();
}

TEST(CityHash, Of128BitsEqualsTheChecksumOfAnEnginesFrame) {
  const Hash128 hash = CityHash128(AsBytes(NumbersColumn().frame_body));
  EXPECT_EQ(ToHex(AsBytes(LittleEndian(hash))), "d76dc710b83bcc6da47f19669d1eb734");
}

TEST(CityHash, StreamEqualsTheHashesInAnEnginesChecksums) {
  const WrittenColumn column = NumbersColumn();
  const std::string file =
      LittleEndian(CityHash128(AsBytes(column.frame_body))) + column.frame_body;
  ASSERT_EQ(file.size(), 8025u);
  EXPECT_EQ(StreamHash(file).ToHex(), "8bfc2da8257347796c6b13e56a42bedc");
  EXPECT_EQ(StreamHash(column.values).ToHex(), "11959e27976013f4691854e4037107c4");
  EXPECT_EQ(StreamHash("1000").ToHex(),
            "5543aca87958eb6e928f7fb486ee924f");  // count.txt of that part
  EXPECT_EQ(StreamHash("{\"columns\":[{\"kind\":\"Default\",\"name\":\"id\",\"num_defaults\":1,"
                       "\"num_rows\":1000}],"
                       "\"propagate_types_serialization_versions_to_nested_types\":true,"
                       "\"types_serialization_versions\":{\"string\":1},\"version\":1}")
                .ToHex(),
            "51bf0eee245ebe28681105e492645f83");  // its serialization.json
}

TEST(CityHash, StreamIgnoresHowItIsFed) {
  const uint64_t seed = testing::TestSeed();
  SCOPED_TRACE(seed);
  testing::SeededRandom random(seed);
  for (const size_t size : {0, 1, 2047, 2048, 2049, 4096, 10'000}) {
    const std::string text = Pattern(size);
    CityHash128Stream stream;
    for (size_t at = 0; at < size;) {
      const size_t piece = std::min<size_t>(size - at, 1 + RandomBelow(random, 5000));
      stream.Update(AsBytes(text).subspan(at, piece));
      at += piece;
    }
    EXPECT_EQ(stream.Finish(), StreamHash(text)) << size;
  }
}

TEST(CityHash, StreamWithoutBytesIsZero) {
  EXPECT_EQ(StreamHash(""), Hash128{});
}

TEST(CityHash, EveryByteCounts) {
  for (const size_t size : {1, 8, 16, 17, 40, 127, 128, 143, 144, 145, 272, 300}) {
    const std::string text = Pattern(size);
    const Hash128 before = CityHash128(AsBytes(text));
    const Hash128 stream_before = StreamHash(text);
    for (size_t i = 0; i < size; ++i) {
      std::string changed = text;
      changed[i] = static_cast<char>(changed[i] ^ 1);
      ASSERT_NE(CityHash128(AsBytes(changed)), before) << size << " at " << i;
      ASSERT_NE(StreamHash(changed), stream_before) << size << " at " << i;
    }
  }
}

// The engine's xxHash64 and SHA256 of the same strings.
TEST(Hash, XxHash64EqualsTheEngines) {
  EXPECT_EQ(XxHash64({}), 0xEF46DB3751D8E999u);
  EXPECT_EQ(XxHash64(AsBytes(Pattern(5))), 0xC7608EFDDB7051FEu);
  EXPECT_EQ(XxHash64(AsBytes(Pattern(1000))), 0x021F7A7424085EA4u);
}

TEST(Hash, Sha256EqualsTheEnginesAlsoInPieces) {
  EXPECT_EQ(Sha256Hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  const std::string text = Pattern(1000);
  constexpr std::string_view kDigest =
      "a9425c416f534025a4e2422bd14adba4ec3d4a68d10c3329be8df612964d2b6e";
  EXPECT_EQ(Sha256Hex(text), kDigest);
  EXPECT_EQ(ToHex(Sha256Of(text)), kDigest);
  Sha256 hash;
  for (size_t i = 0; i < text.size(); i += 77) hash.Update(std::string_view(text).substr(i, 77));
  Sha256 moved = std::move(hash);
  EXPECT_EQ(moved.FinishHex(), kDigest);
}

// RFC 4231, test cases 1, 2 and 6.
TEST(Hash, HmacEqualsTheRfcsVectors) {
  const auto hmac = [](const std::string& key, std::string_view text) {
    return ToHex(HmacSha256(AsBytes(key), text));
  };
  EXPECT_EQ(hmac(std::string(20, '\x0b'), "Hi There"),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(hmac("Jefe", "what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(
      hmac(std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First"),
      "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
  EXPECT_EQ(hmac("", ""), "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad");
}

// RFC 3720 §B.4 and the usual check value.
TEST(Hash, Crc32cEqualsTheRfcsVectors) {
  EXPECT_EQ(Crc32c({}), 0u);
  EXPECT_EQ(Crc32c(AsBytes("123456789")), 0xE3069283u);
  EXPECT_EQ(Crc32c(AsBytes(std::string(32, '\0'))), 0x8A9136AAu);
  EXPECT_EQ(Crc32c(AsBytes(std::string(32, '\xff'))), 0x62A8AB43u);
  std::string rising;
  for (char c = 0; c < 32; ++c) rising += c;
  EXPECT_EQ(Crc32c(AsBytes(rising)), 0x46DD794Eu);
}

TEST(Hash, Crc32cByInstructionEqualsThatByTable) {
  const std::string bytes = Pattern(4096);
  for (size_t begin = 0; begin < 16; ++begin) {
    for (const size_t length : {0, 1, 7, 8, 9, 63, 64, 1000, 4000}) {
      const auto part = AsBytes(bytes).subspan(begin, length);
      EXPECT_EQ(Crc32c(part), internal::Crc32cByTable(part)) << begin << ' ' << length;
    }
  }
}

TEST(Hex, IsReadBack) {
  const std::string bytes = Pattern(251);
  EXPECT_EQ(FromHex(ToHex(AsBytes(bytes))).value(), bytes);
  EXPECT_EQ(FromHex("00fFA5").value(), std::string("\x00\xff\xa5", 3));
  EXPECT_EQ(FromHex("").value(), "");
}

TEST(Hex, RefusesOtherText) {
  for (const char* text : {"0", "0g", "g0", "0x00", "00 0", "-1"}) {
    EXPECT_EQ(FromHex(text).status().code(), Code::kInvalidArgument) << text;
  }
}

// RFC 4648 §10.
TEST(Base64, EqualsTheRfcsVectors) {
  EXPECT_EQ(Base64(AsBytes("")), "");
  EXPECT_EQ(Base64(AsBytes("f")), "Zg==");
  EXPECT_EQ(Base64(AsBytes("fo")), "Zm8=");
  EXPECT_EQ(Base64(AsBytes("foo")), "Zm9v");
  EXPECT_EQ(Base64(AsBytes("foob")), "Zm9vYg==");
  EXPECT_EQ(Base64(AsBytes("fooba")), "Zm9vYmE=");
  EXPECT_EQ(Base64(AsBytes("foobar")), "Zm9vYmFy");
  EXPECT_EQ(Base64(AsBytes("\xfb\xff\xfe")), "+//+");
}

TEST(Hash128, PrintsTheHighHalfFirst) {
  EXPECT_EQ((Hash128{.low = 1, .high = 0xABCDEF}).ToHex(), "0000000000abcdef0000000000000001");
}

}  // namespace
}  // namespace partforge
