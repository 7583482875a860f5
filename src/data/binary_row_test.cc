#include "data/binary_row.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/hash.h"

namespace partforge::data {
namespace {

using Kind = BinaryRowType::Kind;

std::string Hex(std::string_view bytes) {
  return ToHex(AsBytes(bytes));
}
std::string Packed(std::string_view spaced) {
  std::string hex;
  std::ranges::copy_if(spaced, std::back_inserter(hex), [](char c) { return c != ' '; });
  return hex;
}

template <class Fill>
std::string Row(std::vector<BinaryRowType> types, Fill fill) {
  BinaryRowWriter writer(types);
  fill(writer);
  return writer.Finish();
}

struct Example {
  std::vector<BinaryRowType> types;
  void (*fill)(BinaryRowWriter&);
  std::string_view bytes;
  int32_t hash;
};

// paimon-format.md §5.3, measured from the Java implementation.
const std::vector<Example>& Examples() {
  static const std::vector<Example> examples = {
      {{{Kind::kInt32}},
       [](auto& w) { w.SetInt(7); },
       "0000000000000000 0700000000000000",
       -348168691},
      {{{Kind::kInt32}},
       [](auto& w) { w.SetInt(-1); },
       "0000000000000000 ffffffff00000000",
       1133687267},
      {{{Kind::kInt32}},
       [](auto& w) { w.SetNull(); },
       "0001000000000000 0000000000000000",
       -1748325344},
      {{{Kind::kBoolean}, {Kind::kInt8}, {Kind::kInt16}},
       [](auto& w) { w.SetBoolean(true), w.SetInt(-2), w.SetInt(-300); },
       "0000000000000000 0100000000000000 fe00000000000000 d4fe000000000000",
       1196349511},
      {{{Kind::kBytes}},
       [](auto& w) { w.SetBytes("1234567"); },
       "0000000000000000 3132333435363787",
       199144172},
      {{{Kind::kBytes}},
       [](auto& w) { w.SetBytes("12345678"); },
       "0000000000000000 0800000010000000 3132333435363738",
       -391021801},
      {{{Kind::kBytes}, {Kind::kInt32}},
       [](auto& w) { w.SetBytes("123456789"), w.SetInt(5); },
       "0000000000000000 0900000018000000 0500000000000000 3132333435363738 3900000000000000",
       1249843301},
      {{{Kind::kDecimal, 10}},
       [](auto& w) { w.SetDecimal(Int128::Of(123)); },
       "0000000000000000 7b00000000000000",
       681710603},
      {{{Kind::kDecimal, 30}},
       [](auto& w) { w.SetDecimal(Int128::Of(-100000)); },
       "0000000000000000 0300000010000000 fe79600000000000 0000000000000000",
       -1936344773},
      {{{Kind::kDecimal, 30}},
       [](auto& w) { w.SetNull(); },
       "0001000000000000 0000000010000000 0000000000000000 0000000000000000",
       -1380280760},
      {{{Kind::kTimestamp, 3}},
       [](auto& w) {
         w.SetTimestamp({1704067200123, 456000});
       },
       "0000000000000000 7bf451c28c010000",
       985649424},
      {{{Kind::kTimestamp, 6}},
       [](auto& w) {
         w.SetTimestamp({1704067200123, 456000});
       },
       "0000000000000000 40f5060010000000 7bf451c28c010000",
       941252157},
      {{{Kind::kTimestamp, 6}},
       [](auto& w) { w.SetNull(); },
       "0001000000000000 0000000010000000 0000000000000000",
       -340882661},
      {{{Kind::kFloat}, {Kind::kDouble}},
       [](auto& w) { w.SetFloat(1.5F), w.SetDouble(-2.5); },
       "0000000000000000 0000c03f00000000 00000000000004c0",
       -2086168575},
      {{{Kind::kInt32}},
       [](auto& w) { w.SetInt(19723); },
       "0000000000000000 0b4d000000000000",
       -1439008885},
      {{{Kind::kBytes}},
       [](auto& w) { w.SetBytes("\x01\x02\xff"); },
       "0000000000000000 0102ff0000000083",
       2036400951},
      {{{Kind::kOpaque}},
       [](auto& w) {
         w.SetBytes(FromHex("030000000200000001000000000000000300000000000000").value());
       },
       "0000000000000000 1800000010000000 0300000002000000 0100000000000000 0300000000000000",
       1830759751},
  };
  return examples;
}

TEST(BinaryRow, BytesAndHashesOfTheFormatDocument) {
  for (const Example& example : Examples()) {
    const std::string row = Row(example.types, example.fill);
    EXPECT_EQ(Hex(row), Packed(example.bytes));
    EXPECT_EQ(BinaryRowHash(row), example.hash) << example.bytes;
  }
}

TEST(BinaryRow, SerializedRowsOfTheFormatDocument) {
  const std::string partition = Row({{Kind::kBytes}, {Kind::kInt32}}, [](auto& w) {
    w.SetBytes("2024-01-01");
    w.SetInt(1);
  });
  EXPECT_EQ(Hex(SerializeRow(2, partition)),
            Packed("00000002 0000000000000000 0a00000018000000 0100000000000000 323032342d30312d "
                   "3031000000000000"));
  EXPECT_EQ(Hex(SerializeRow(2, Row({{Kind::kBytes}, {Kind::kInt32}},
                                    [](auto& w) {
                                      w.SetBytes("a b/c:%");
                                      w.SetNull();
                                    }))),
            Packed("00000002 0002000000000000 6120622f633a2587 0000000000000000"));
  EXPECT_EQ(Hex(SerializeRow(3, Row({{Kind::kInt32}, {Kind::kBytes}, {Kind::kInt64}},
                                    [](auto& w) {
                                      w.SetInt(1);
                                      w.SetBytes("a");
                                      w.SetInt(10);
                                    }))),
            Packed("00000003 0000000000000000 0100000000000000 6100000000000081 0a00000000000000"));
  EXPECT_EQ(Hex(SerializeRow(0, Row({}, [](auto&) {}))), "000000000000000000000000");
  const std::string bytes = SerializeRow(2, partition);
  const auto parsed = ParseSerializedRow(AsBytes(bytes), "p").value();
  EXPECT_EQ(parsed.arity, 2u);
  EXPECT_EQ(ToHex(parsed.row), Hex(partition));
}

TEST(BinaryRow, NullBitsGrowWithFiftySevenFields) {
  const auto size_of = [](size_t arity) {
    BinaryRowWriter writer(std::vector<BinaryRowType>(arity, {Kind::kInt32}));
    for (size_t i = 0; i < arity; ++i) writer.SetNull();
    return writer.Finish().size();
  };
  EXPECT_EQ(size_of(56), 8u + 56 * 8);
  EXPECT_EQ(size_of(57), 16u + 57 * 8);
}

TEST(BinaryRow, NullCountsOfTheFormatDocument) {
  const std::vector<std::optional<int64_t>> counts = {0, std::nullopt, 5};
  EXPECT_EQ(Hex(EncodeBinaryLongs(counts)),
            Packed("0300000002000000 0000000000000000 0000000000000000 0500000000000000"));
}

// paimon-format.md §5.5.
TEST(BinaryRow, HashesOfIntKeys) {
  const int32_t expected[] = {1465514398, 1340390384, -771300025, 1447522506,
                              260196596,  842153448,  -348168691, 965062536};
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(BinaryRowHash(Row({{Kind::kInt32}}, [i](auto& w) { w.SetInt(i + 1); })), expected[i]);
  }
}

TEST(BinaryRow, EveryKindIsReadBack) {
  const std::vector<BinaryRowType> types = {
      {Kind::kBoolean},     {Kind::kInt8},         {Kind::kInt16},        {Kind::kInt32},
      {Kind::kInt64},       {Kind::kFloat},        {Kind::kDouble},       {Kind::kDecimal, 9},
      {Kind::kDecimal, 38}, {Kind::kTimestamp, 0}, {Kind::kTimestamp, 9}, {Kind::kBytes},
      {Kind::kBytes},       {Kind::kOpaque},       {Kind::kInt64}};
  const Int128 wide{.high = -7, .low = 12345};
  const std::string bytes = Row(types, [&](auto& w) {
    w.SetBoolean(true);
    w.SetInt(-128);
    w.SetInt(-32768);
    w.SetInt(INT32_MIN);
    w.SetInt(INT64_MIN);
    w.SetFloat(-1.25F);
    w.SetDouble(1e300);
    w.SetDecimal(Int128::Of(-42));
    w.SetDecimal(wide);
    w.SetTimestamp({-5, 0});
    w.SetTimestamp({-5, 999'999});
    w.SetBytes("");
    w.SetBytes("longer than seven");
    w.SetBytes("opq");
    w.SetNull();
  });
  const auto row = BinaryRow::Parse(AsBytes(bytes), types, "r");
  ASSERT_TRUE(row.ok()) << row.status().ToString();
  EXPECT_EQ(row->Int(0), 1);
  EXPECT_EQ(row->Int(1), -128);
  EXPECT_EQ(row->Int(2), -32768);
  EXPECT_EQ(row->Int(3), INT32_MIN);
  EXPECT_EQ(row->Int(4), INT64_MIN);
  EXPECT_EQ(row->Float(5), -1.25F);
  EXPECT_EQ(row->Double(6), 1e300);
  EXPECT_EQ(row->Decimal(7), Int128::Of(-42));
  EXPECT_EQ(row->Decimal(8), wide);
  EXPECT_EQ(row->Timestamp(9).millis, -5);
  EXPECT_EQ(row->Timestamp(10), (RowTimestamp{-5, 999'999}));
  EXPECT_EQ(row->Bytes(11), "");
  EXPECT_EQ(row->Bytes(12), "longer than seven");
  EXPECT_EQ(row->Bytes(13), "opq");
  EXPECT_TRUE(row->IsNull(14));
  EXPECT_FALSE(row->IsNull(13));
}

TEST(BinaryRow, BrokenRowsAreCorruption) {
  const std::vector<BinaryRowType> types = {
      {Kind::kBytes}, {Kind::kDecimal, 30}, {Kind::kTimestamp, 6}};
  const std::string good = Row(types, [](auto& w) {
    w.SetBytes("longer than seven");
    w.SetDecimal(Int128::Of(1));
    w.SetTimestamp({1, 2});
  });
  ASSERT_TRUE(BinaryRow::Parse(AsBytes(good), types, "r").ok());
  for (size_t length = 0; length < good.size(); ++length) {
    const auto part = std::string_view(good).substr(0, length);
    EXPECT_EQ(BinaryRow::Parse(AsBytes(part), types, "r").status().code(), Code::kCorruption)
        << length;
  }
  const auto with = [&](size_t at, char byte) {
    std::string bytes = good;
    bytes[at] = byte;
    return BinaryRow::Parse(AsBytes(bytes), types, "r").ok();
  };
  EXPECT_FALSE(with(8 + 4, '\x7f'));   // offset of the text
  EXPECT_FALSE(with(8 + 3, '\x7f'));   // its length
  EXPECT_FALSE(with(8 + 7, '\x88'));   // inline length 8
  EXPECT_FALSE(with(16, 17));          // decimal of 17 bytes
  EXPECT_FALSE(with(16, 0));           // decimal of none
  EXPECT_FALSE(with(24 + 3, '\x7f'));  // nanoseconds
  EXPECT_FALSE(ParseSerializedRow(AsBytes("abc"), "r").ok());
  EXPECT_FALSE(ParseSerializedRow(AsBytes(FromHex("ffffffff0000000000000000").value()), "r").ok());
}

}  // namespace
}  // namespace partforge::data
