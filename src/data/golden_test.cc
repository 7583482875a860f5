// Files of other writers (testdata/make_golden.py says how they were made).

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "base/hash.h"
#include "data/avro_file.h"
#include "data/bitmap.h"
#include "data/memory_bytes.h"
#include "data/scalar.h"
#include "testing/test_world.h"

namespace partforge::data {
namespace {

std::string Golden(std::string_view name) {
  auto bytes = ReadFile(fmt::format("{}/{}", PARTFORGE_DATA_TESTDATA, name));
  EXPECT_TRUE(bytes.ok()) << bytes.status().ToString();
  return bytes.ok() ? std::move(bytes).value() : "";
}

template <class T>
std::vector<T> ReadAll(const std::string& bytes, const AvroBinding<T>& binding) {
  testing::TestWorld world;
  MemorySource source(AsBytes(bytes));
  auto reader = AvroRecordReader<T>::Open(world.context(), source, "golden", binding);
  EXPECT_TRUE(reader.ok()) << reader.status().ToString();
  std::vector<T> records;
  T record;
  while (reader.ok()) {
    const auto has_more = reader->Next(world.context(), record);
    EXPECT_TRUE(has_more.ok()) << has_more.status().ToString();
    if (!has_more.ok() || !*has_more) break;
    records.push_back(record);
  }
  return records;
}

struct Inner {
  int32_t x = 0;
  std::optional<std::string> y;
  bool operator==(const Inner&) const = default;
};
struct Row {
  int32_t id = 0;
  std::optional<int64_t> big;
  bool ok = false;
  float f = 0;
  std::optional<double> d;
  std::optional<std::string> s;
  std::string b, fx, dec, decb;
  std::optional<int32_t> day;
  int64_t tm = 0, ts = 0;
  std::string u;
  std::vector<std::optional<int64_t>> lst;
  std::optional<std::vector<std::pair<std::string, double>>> mp;
  std::vector<std::pair<int32_t, std::string>> kv;
  std::optional<Inner> st;
  std::string e;
  bool operator==(const Row&) const = default;
};

AvroBinding<Row> RowBinding() {
  const auto inner = AvroBinding<Inner>().Require<&Inner::x>({24, "?"}).Field<&Inner::y>({25, "?"});
  return AvroBinding<Row>()
      .Require<&Row::id>({1, "?"})
      .Field<&Row::big>({2, "?"})
      .Require<&Row::ok>({3, "?"})
      .Require<&Row::f>({4, "?"})
      .Field<&Row::d>({5, "?"})
      .Field<&Row::s>({6, "?"})
      .Require<&Row::b>({7, "?"})
      .Require<&Row::fx>({8, "?"})
      .Require<&Row::dec>({9, "?"})
      .Require<&Row::decb>({10, "?"})
      .Field<&Row::day>({11, "?"})
      .Require<&Row::tm>({12, "?"})
      .Require<&Row::ts>({13, "?"})
      .Require<&Row::u>({14, "?"})
      .Require<&Row::lst>({15, "?"})
      .Field<&Row::mp>({17, "?"})
      .Require<&Row::kv>({20, "?"})
      .Nest<&Row::st>({23, "?"}, inner)
      .Require<&Row::e>({26, "?"});
}

// What make_golden.py puts into row i.
Row Expected(int i) {
  const auto byte = [](int value) { return static_cast<char>(value); };
  Row row;
  row.id = i - 3;
  if (i % 3 != 0) row.big = (int64_t{1} << 40) * (i - 5);
  row.ok = i % 2 == 0;
  row.f = static_cast<float>(i) / 4;
  if (i % 4 != 0) row.d = -i / 8.0;
  if (i % 5 != 0) row.s = fmt::format("na\xc3\xafve {}", i);
  row.b = {byte(i), byte(255 - i)};
  row.fx = std::string(4, byte(i));
  row.dec = ToBigEndian(Int128::Of(int64_t{i} * 1'000'003 - 5));
  row.dec.insert(0, 9 - row.dec.size(), row.dec[0] < 0 ? '\xff' : '\0');  // fixed(9), sign-extended
  row.decb = ToBigEndian(Int128::Of(100 * i - 314));
  if (i % 6 != 0) row.day = 19723 + i;
  row.tm = ((1 * 60 + 2) * 60 + i) * int64_t{1'000'000} + 34'567;
  row.ts = (int64_t{1'704'067'200} + i) * 1'000'000 + 123'456;
  row.u = std::string(16, '\0');
  row.u[3] = byte(i << 4);  // i × 2^100
  row.u[2] = byte(i >> 4);
  row.u[15] = byte(i);
  for (int k = 0; k < i % 5; ++k) {
    row.lst.push_back(k % 3 == 2 ? std::nullopt : std::optional<int64_t>(k * i));
  }
  if (i % 4 != 1) row.mp.emplace();
  for (int k = 0; row.mp && k < i % 3; ++k) row.mp->emplace_back(fmt::format("k{}", k), k / 2.0);
  for (int k = 0; k < i % 4; ++k) row.kv.emplace_back(k, std::string(static_cast<size_t>(k), 'v'));
  if (i % 3 != 1) {
    row.st = Inner{.x = i, .y = i % 2 != 0 ? std::nullopt : std::optional(fmt::format("y{}", i))};
  }
  row.e = i % 2 != 0 ? "GREEN" : "RED";
  return row;
}

// check: DATA-19
TEST(Golden, FastavroFilesOfFourCodecsHoldWhatWasWritten) {
  for (const std::string_view codec : {"null", "deflate", "snappy", "zstandard"}) {
    const auto rows = ReadAll(Golden(fmt::format("fastavro_{}.avro", codec)), RowBinding());
    ASSERT_EQ(rows.size(), 40u) << codec;
    for (int i = 0; i < 40; ++i) {
      EXPECT_EQ(rows[static_cast<size_t>(i)], Expected(i)) << codec << " row " << i;
    }
  }
}

// check: DATA-19
TEST(Golden, UnknownAttributesOfFastavroSurviveARewrite) {
  testing::TestWorld world;
  const std::string bytes = Golden("fastavro_null.avro");
  MemorySource source(AsBytes(bytes));
  const auto reader = AvroFileReader::Open(world.context(), source, "golden").value();
  std::string again;
  MemorySink sink(again);
  auto writer = AvroRecordWriter<Row>::Open(
                    world.context(), {.schema = reader->header().schema.text()}, sink, RowBinding())
                    .value();
  for (const Row& row : ReadAll(bytes, RowBinding())) {
    ASSERT_TRUE(writer.Append(world.context(), row).ok());
  }
  ASSERT_TRUE(writer.Flush(world.context()).ok());
  EXPECT_EQ(ReadAll(again, RowBinding()).back(), Expected(39));
  MemorySource second(AsBytes(again));
  const auto rewritten = AvroFileReader::Open(world.context(), second, "again").value();
  EXPECT_NE(rewritten->header().schema.text().find("x-unknown"), std::string::npos);
}

struct ManifestFile {
  std::string path;
  std::string format;
  int64_t record_count = 0;
  AvroValue partition;
  std::vector<std::pair<int32_t, int64_t>> column_sizes;
  std::vector<std::pair<int32_t, std::string>> upper_bounds;
  std::optional<std::vector<int64_t>> split_offsets;
  std::optional<std::vector<int32_t>> equality_ids;
};
struct ManifestEntry {
  int32_t status = 0;
  std::optional<int64_t> snapshot_id, sequence_number;
  ManifestFile file;
};

TEST(Golden, PyIcebergManifestIsReadByIds) {
  const auto file = AvroBinding<ManifestFile>()
                        .Require<&ManifestFile::path>({100, "?"})
                        .Require<&ManifestFile::format>({101, "?"})
                        .Require<&ManifestFile::record_count>({103, "?"})
                        .Require<&ManifestFile::partition>({102, "?"})
                        .Field<&ManifestFile::column_sizes>({108, "?"})
                        .Field<&ManifestFile::upper_bounds>({128, "?"})
                        .Field<&ManifestFile::split_offsets>({132, "?"})
                        .Field<&ManifestFile::equality_ids>({135, "?"});
  const auto binding = AvroBinding<ManifestEntry>()
                           .Require<&ManifestEntry::status>({0, "?"})
                           .Field<&ManifestEntry::snapshot_id>({1, "?"})
                           .Field<&ManifestEntry::sequence_number>({3, "?"})
                           .Nest<&ManifestEntry::file>({2, "?"}, file, AvroPresence::kRequired);
  const auto entries = ReadAll(Golden("pyiceberg_manifest.avro"), binding);
  ASSERT_EQ(entries.size(), 5u);
  for (size_t i = 0; i < entries.size(); ++i) {
    const ManifestEntry& entry = entries[i];
    EXPECT_EQ(entry.status, 1);
    EXPECT_EQ(entry.snapshot_id, 77);
    EXPECT_EQ(entry.sequence_number, std::nullopt);
    EXPECT_EQ(entry.file.path, fmt::format("s3://b/t/data/{}.parquet", i));
    EXPECT_EQ(entry.file.record_count, static_cast<int64_t>(100 + i));
    ASSERT_EQ(entry.file.column_sizes.size(), 3u);
    EXPECT_EQ(entry.file.column_sizes[2], std::pair(3, static_cast<int64_t>(30 + i)));
    EXPECT_EQ(entry.file.upper_bounds[1], std::pair(3, std::string("z")));
    EXPECT_EQ(entry.file.split_offsets, (std::vector<int64_t>{4, 500}));
    EXPECT_EQ(entry.file.equality_ids, std::nullopt);
    const AvroValue city = i == 3 ? AvroValue{} : AvroValue{fmt::format("city{}", i)};
    EXPECT_EQ(entry.file.partition,
              (AvroValue{AvroValue::List{{static_cast<int64_t>(19'000 + i)}, city}}));
  }
}

struct PartitionSummary {
  bool contains_null = false;
  std::optional<bool> contains_nan;
  std::optional<std::string> lower, upper;
};
struct ListEntry {
  std::string path;
  int32_t added_files = 0;
  std::optional<std::vector<PartitionSummary>> partitions;
};

TEST(Golden, PyIcebergManifestListIsReadByIds) {
  const auto summary = AvroBinding<PartitionSummary>()
                           .Require<&PartitionSummary::contains_null>({509, "?"})
                           .Field<&PartitionSummary::contains_nan>({518, "?"})
                           .Field<&PartitionSummary::lower>({510, "?"})
                           .Field<&PartitionSummary::upper>({511, "?"});
  const auto entries = ReadAll(Golden("pyiceberg_manifest_list.avro"),
                               AvroBinding<ListEntry>()
                                   .Require<&ListEntry::path>({500, "?"})
                                   .Require<&ListEntry::added_files>({504, "?"})
                                   .Nest<&ListEntry::partitions>({507, "?"}, summary));
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_EQ(entries[0].path, "s3://b/t/metadata/m0.avro");
  EXPECT_EQ(entries[0].added_files, 5);
  ASSERT_EQ(entries[0].partitions->size(), 2u);
  EXPECT_EQ(entries[0].partitions->at(0).contains_nan, false);
  EXPECT_EQ(entries[0].partitions->at(1).contains_nan, std::nullopt);
  EXPECT_EQ(entries[0].partitions->at(1).upper, "city4");
}

// check: DATA-20
TEST(Golden, PyroaringBitmapsOfAllContainersAreReadAndWrittenAgain) {
  Positions expected;
  for (uint64_t v = 0; v < 5000; v += 37) expected.Add(v);
  for (uint64_t v = 70'000; v < 79'000; v += 2) expected.Add(v);
  expected.AddRun({.begin = 200'000, .end = 265'000});
  const std::string small = Golden("pyroaring_32.bin");
  EXPECT_EQ(ParseRoaring32(AsBytes(small), "g").value(), expected);
  EXPECT_EQ(EncodeRoaring32(expected).value(), small);
  expected.Add((uint64_t{1} << 32) + 9);
  const std::string large = Golden("pyroaring_64.bin");
  EXPECT_EQ(ParseRoaring64(AsBytes(large), "g").value(), expected);
  for (size_t length = 0; length < large.size(); length += 7) {
    EXPECT_FALSE(ParseRoaring64(AsBytes(large).first(length), "g").ok());
  }
}

}  // namespace
}  // namespace partforge::data
