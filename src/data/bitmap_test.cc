#include "data/bitmap.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <set>

#include "base/hash.h"
#include "testing/test_world.h"

namespace partforge::data {
namespace {

std::string Bytes(std::string_view spaced_hex) {
  std::string hex;
  std::ranges::copy_if(spaced_hex, std::back_inserter(hex), [](char c) { return c != ' '; });
  return FromHex(hex).value();
}

Positions Of(std::initializer_list<uint64_t> members) {
  Positions positions;
  for (const uint64_t member : members) positions.Add(member);
  return positions;
}

// iceberg-format.md §11 and paimon-format.md §6.2.
constexpr std::string_view kIcebergVector =
    "00000028 d1d33964 0100000000000000 00000000 3a300000 01000000 0000 0300 10000000 0000 0100 "
    "0200 "
    "6300 95eda8ac";
constexpr std::string_view kRuns = "3b300100 03 0000ffff 01009f86 0100 0000ffff 0100 00009f86";
constexpr std::string_view kTwoBuckets =
    "0200000000000000 00000000 3a300000 01000000 00000300 10000000 0000010002006300 01000000 "
    "3a300000 "
    "01000000 00000000 10000000 0500";
constexpr std::string_view kPaimon32 =
    "00000018 5e43f2d0 3a300000 01000000 0000 0100 10000000 0500 0700 31230b80";
constexpr std::string_view kPaimon64 =
    "00000024 d1d33964 0100000000000000 00000000 3a300000 01000000 00000100 10000000 05000700 "
    "833ac5fa";

// check: DATA-20
TEST(Bitmap, VectorsOfTheFormatDocumentsAreReadAndWrittenByteForByte) {
  const Positions four = Of({0, 1, 2, 99});
  const auto iceberg = ParseVector(AsBytes(Bytes(kIcebergVector)), "v");
  ASSERT_TRUE(iceberg.ok()) << iceberg.status().ToString();
  EXPECT_EQ(iceberg->positions, four);
  EXPECT_EQ(iceberg->layout, VectorLayout::kBits64);
  EXPECT_EQ(EncodeVector(four, VectorLayout::kBits64).value(), Bytes(kIcebergVector));

  Positions run;
  run.AddRun({.begin = 0, .end = 100'000});
  EXPECT_EQ(ParseRoaring32(AsBytes(Bytes(kRuns)), "v").value(), run);
  EXPECT_EQ(EncodeRoaring32(run).value(), Bytes(kRuns));

  const Positions two = Of({0, 1, 2, 99, (uint64_t{1} << 32) + 5});
  EXPECT_EQ(ParseRoaring64(AsBytes(Bytes(kTwoBuckets)), "v").value(), two);
  EXPECT_EQ(EncodeRoaring64(two).value(), Bytes(kTwoBuckets));

  const Positions paimon = Of({5, 7});
  const auto small = ParseVector(AsBytes(Bytes(kPaimon32)), "v").value();
  EXPECT_EQ(small.positions, paimon);
  EXPECT_EQ(small.layout, VectorLayout::kBits32);
  EXPECT_EQ(EncodeVector(paimon, VectorLayout::kBits32).value(), Bytes(kPaimon32));
  EXPECT_EQ(ParseVector(AsBytes(Bytes(kPaimon64)), "v")->positions, paimon);
  EXPECT_EQ(EncodeVector(paimon, VectorLayout::kBits64, EmptyBuckets::kWrite).value(),
            Bytes(kPaimon64));
}

// check: DATA-20
TEST(Bitmap, TruncatedAtEachByteIsCorruption) {
  for (const std::string_view hex : {kRuns, kTwoBuckets, kIcebergVector, kPaimon32, kPaimon64}) {
    const std::string bytes = Bytes(hex);
    for (size_t length = 0; length < bytes.size(); ++length) {
      const auto part = AsBytes(std::string_view(bytes).substr(0, length));
      const auto status_of = [](const auto& result) {
        return result.ok() ? Status() : result.status();
      };
      const Status found = hex == kRuns         ? status_of(ParseRoaring32(part, "v"))
                           : hex == kTwoBuckets ? status_of(ParseRoaring64(part, "v"))
                                                : status_of(ParseVector(part, "v"));
      ASSERT_FALSE(found.ok()) << hex << " at " << length;
      EXPECT_EQ(found.code(), Code::kCorruption);
    }
  }
}

TEST(Bitmap, BytesLeftOverAndWrongChecksumsAreCorruption) {
  EXPECT_FALSE(ParseRoaring32(AsBytes(Bytes(kRuns) + "x"), "v").ok());
  EXPECT_FALSE(ParseRoaring64(AsBytes(Bytes(kTwoBuckets) + "x"), "v").ok());
  EXPECT_FALSE(ParseVector(AsBytes(Bytes(kPaimon32) + "x"), "v").ok());
  std::string bytes = Bytes(kIcebergVector);
  for (char& byte : bytes) {
    byte = static_cast<char>(byte ^ 1);
    EXPECT_FALSE(ParseVector(AsBytes(bytes), "v").ok());
    byte = static_cast<char>(byte ^ 1);
  }
}

TEST(Bitmap, LiesInsideTheContainersAreCorruption) {
  const auto refused = [](std::string_view hex) {
    const auto parsed = ParseRoaring32(AsBytes(Bytes(hex)), "v");
    return !parsed.ok() && parsed.status().code() == Code::kCorruption;
  };
  EXPECT_TRUE(refused("3a300000 01000000 0000 0100 10000000 0700 0500"));  // descending values
  EXPECT_TRUE(refused("3a300000 01000000 0000 0100 10000000 0500 0500"));  // twice the same
  EXPECT_TRUE(refused("3a300000 01000000 0000 0100 11000000 0500 0700"));  // wrong offset
  EXPECT_TRUE(refused("3a300000 ffffffff"));                               // 2^32 containers
  EXPECT_TRUE(
      refused("3a300000 02000000 0100 0000 0000 0000 18000000 1a000000 0500 0500"));  // keys
  EXPECT_TRUE(refused("3c300000 01000000"));                                          // cookie
  EXPECT_TRUE(refused("3b300000 01 0000 0400 0200 0000 0200 0200 0100"));  // runs overlap
  EXPECT_TRUE(refused("3b300000 01 0000 0500 0100 ffff 0500"));            // run past 65,535
  EXPECT_TRUE(refused("3b300000 01 0000 0500 0100 0000 0300"));            // cardinality
  std::string bitset = Bytes("3a300000 01000000 0000 0010 10000000");
  bitset += std::string(8192, '\0');
  EXPECT_FALSE(ParseRoaring32(AsBytes(bitset), "v").ok());  // 4,097 declared, none there
}

TEST(Bitmap, RunsThatTouchAreReadAsOne) {
  // [0, 2] and [3, 5], which a writer should have joined.
  const auto parsed =
      ParseRoaring32(AsBytes(Bytes("3b300000 01 0000 0500 0200 0000 0200 0300 0200")), "v");
  ASSERT_TRUE(parsed.ok()) << parsed.status().ToString();
  Positions run;
  run.AddRun({.begin = 0, .end = 6});
  EXPECT_EQ(*parsed, run);
  EXPECT_EQ(EncodeRoaring32(*parsed).value(), EncodeRoaring32(run).value());
}

// Beside containers of other kinds, and many of them: what they become takes no more than they do.
TEST(Bitmap, ManyRunsThatTouchStayRuns) {
  constexpr int kContainers = 4096;
  std::string flags(kContainers / 8, '\xff'), descriptors, containers;
  Positions wanted;
  const auto put = [](int value, std::string& out) {
    out.push_back(static_cast<char>(value));
    out.push_back(static_cast<char>(value >> 8));
  };
  std::vector<size_t> places;
  for (int key = 0; key < kContainers; ++key) {
    const uint64_t base = static_cast<uint64_t>(key) << 16;
    places.push_back(containers.size());
    put(key, descriptors);
    if (key % 100 == 7) {  // an array of two
      flags[static_cast<size_t>(key / 8)] &= static_cast<char>(~(1 << (key % 8)));
      put(1, descriptors);
      put(3, containers);
      put(9, containers);
      wanted.Add(base + 3);
      wanted.Add(base + 9);
      continue;
    }
    // [0, 20000), [20000, 50001), and one that touches neither.
    put(50'001 + 5 - 1, descriptors);
    for (const int number : {3, 0, 19'999, 20'000, 30'000, 60'000, 4}) put(number, containers);
    wanted.AddRun({.begin = base, .end = base + 50'001});
    wanted.AddRun({.begin = base + 60'000, .end = base + 60'005});
  }
  std::string bytes = Bytes("3b30");
  put(kContainers - 1, bytes);
  bytes += flags + descriptors;
  const size_t begin = bytes.size() + kContainers * 4;
  for (const size_t place : places) {
    const auto offset = static_cast<uint32_t>(begin + place);
    bytes.append(reinterpret_cast<const char*>(&offset), sizeof offset);
  }
  bytes += containers;
  const size_t before = mallinfo2().uordblks;
  const auto parsed = ParseRoaring32(AsBytes(bytes), "v");
  const size_t after = mallinfo2().uordblks;
  ASSERT_TRUE(parsed.ok()) << parsed.status().ToString();
  EXPECT_EQ(*parsed, wanted);
  EXPECT_EQ(EncodeRoaring32(*parsed).value(), EncodeRoaring32(wanted).value());
  // As bitsets they would take 32 MiB.
  EXPECT_LE(after, before + (size_t{2} << 20));
}

TEST(Bitmap, BucketsOutOfOrderAreCorruption) {
  const std::string bucket = "3a300000 01000000 00000000 10000000 0500";
  EXPECT_TRUE(ParseRoaring64(
                  AsBytes(Bytes("0200000000000000 00000000" + bucket + "01000000" + bucket)), "v")
                  .ok());
  EXPECT_FALSE(ParseRoaring64(
                   AsBytes(Bytes("0200000000000000 01000000" + bucket + "00000000" + bucket)), "v")
                   .ok());
  EXPECT_FALSE(ParseRoaring64(AsBytes(Bytes("ffffffffffffff7f 00000000" + bucket)), "v").ok());
}

TEST(Bitmap, PositionsAboveTheLayoutAreRefused) {
  EXPECT_EQ(EncodeRoaring32(Of({uint64_t{1} << 32})).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(EncodeVector(Of({uint64_t{1} << 63}), VectorLayout::kBits64).status().code(),
            Code::kInvalidArgument);
  EXPECT_EQ(EncodeRoaring64(Of({uint64_t{1} << 60}), EmptyBuckets::kWrite).status().code(),
            Code::kInvalidArgument);
}

TEST(Bitmap, EmptyBucketsAreWrittenWhenAsked) {
  const Positions positions = Of({3, (uint64_t{2} << 32) + 1});
  const std::string bytes = EncodeRoaring64(positions, EmptyBuckets::kWrite).value();
  EXPECT_EQ(bytes[0], 3);
  EXPECT_EQ(ParseRoaring64(AsBytes(bytes), "v").value(), positions);
}

TEST(Bitmap, FrameLengthIsFoundBeforeTheFrameIsRead) {
  EXPECT_EQ(VectorFrameLength(AsBytes(Bytes(kIcebergVector)), "v").value(), 48);
  EXPECT_FALSE(VectorFrameLength(AsBytes(Bytes("ffffffff")), "v").ok());
  EXPECT_FALSE(VectorFrameLength(AsBytes(Bytes("0000")), "v").ok());
}

TEST(Bitmap, AgreesWithAnOrderedSet) {
  const uint64_t seed = testing::TestSeed();
  SCOPED_TRACE(fmt::format("PARTFORGE_TEST_SEED={}", seed));
  testing::SeededRandom random(seed);
  for (int round = 0; round < 20; ++round) {
    std::set<uint64_t> oracle;
    Positions positions;
    const uint64_t base = (uint64_t{1} << 32) - 5'000;  // across a bucket's edge
    for (int i = 0; i < 60; ++i) {
      const uint64_t begin = base + RandomBelow(random, 10'000);
      const uint64_t length = RandomBelow(random, 4) == 0 ? RandomBelow(random, 1'500) : 1;
      for (uint64_t p = begin; p < begin + length; ++p) oracle.insert(p);
      length == 1 ? positions.Add(begin) : positions.AddRun({begin, begin + length});
    }
    Positions removed;
    for (int i = 0; i < 20; ++i) {
      const uint64_t begin = base + RandomBelow(random, 10'000);
      const uint64_t end = begin + RandomBelow(random, 300);
      removed.AddRun({begin, end});
      oracle.erase(oracle.lower_bound(begin), oracle.lower_bound(end));
    }
    positions.Subtract(removed);
    EXPECT_EQ(positions.ToVector(), std::vector<uint64_t>(oracle.begin(), oracle.end()));
    EXPECT_EQ(positions.cardinality(), oracle.size());
    const uint64_t end = base + 12'000;
    uint64_t live = 0;
    const RowFilter filter(positions);
    for (auto run = filter.NextRun(base, end); run; run = filter.NextRun(run->end, end)) {
      ASSERT_LT(run->begin, run->end);
      EXPECT_FALSE(oracle.contains(run->begin) || oracle.contains(run->end - 1));
      EXPECT_TRUE(run->begin == base || oracle.contains(run->begin - 1));
      EXPECT_TRUE(run->end == end || oracle.contains(run->end));
      live += run->size();
    }
    EXPECT_EQ(live, filter.LiveRows({base, end}));
    for (int i = 0; i < 100; ++i) {
      const uint64_t p = base + RandomBelow(random, 12'000);
      EXPECT_EQ(positions.Rank(p),
                static_cast<uint64_t>(std::distance(oracle.begin(), oracle.lower_bound(p))));
      EXPECT_EQ(positions.Contains(p), oracle.contains(p));
    }
    const std::string bytes = EncodeVector(positions, VectorLayout::kBits64).value();
    EXPECT_EQ(ParseVector(AsBytes(bytes), "v")->positions, positions);
  }
}

TEST(Bitmap, MemberRunsCrossBuckets) {
  Positions positions;
  const uint64_t edge = uint64_t{1} << 32;
  positions.AddRun({.begin = edge - 3, .end = edge + 4});
  EXPECT_EQ(positions.NextMemberRun(0, edge * 2), (RowRun{edge - 3, edge + 4}));
  EXPECT_EQ(positions.NextMemberRun(edge - 1, edge + 1), (RowRun{edge - 1, edge + 1}));
  EXPECT_EQ(positions.NextGap(edge, edge + 10), (RowRun{edge + 4, edge + 10}));
  EXPECT_EQ(positions.NextGap(edge - 3, edge + 4), std::nullopt);
  EXPECT_EQ(positions.max(), edge + 3);
}

TEST(Bitmap, UnionAndCopiesAreIndependent) {
  Positions a = Of({1, 2});
  const Positions b = a;
  a.Union(Of({uint64_t{5} << 32}));
  EXPECT_EQ(a.cardinality(), 3u);
  EXPECT_EQ(b.cardinality(), 2u);
  Positions c = std::move(a);
  EXPECT_TRUE(
      a.empty());  // NOLINT(bugprone-use-after-move): the moved-from set is empty and usable
  EXPECT_EQ(c.cardinality(), 3u);
}

}  // namespace
}  // namespace partforge::data
