#include "data/avro_file.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>

#include "base/hash.h"
#include "data/memory_bytes.h"
#include "testing/test_world.h"

namespace partforge::data {
namespace {

struct Stats {
  std::string lower;
  std::optional<int64_t> nulls;
  bool operator==(const Stats&) const = default;
};
struct Entry {
  int32_t status = 0;
  std::optional<int64_t> snapshot_id;
  std::string path;
  std::vector<std::pair<int32_t, int64_t>> sizes;
  std::vector<std::pair<int32_t, std::string>> bounds;
  std::optional<std::vector<int64_t>> offsets;
  std::vector<Stats> stats;
  std::optional<Stats> key_stats;
  std::vector<std::pair<std::string, double>> ratios;
  AvroValue partition;
  bool is_live = false;
  float weight = 0;
  bool operator==(const Entry&) const = default;
};

AvroBinding<Entry> EntryBinding() {
  const auto stats = AvroBinding<Stats>()
                         .Require<&Stats::lower>({-1, "lower"})
                         .Field<&Stats::nulls>({-1, "nulls"});
  return AvroBinding<Entry>()
      .Require<&Entry::status>({0, "status"})
      .Field<&Entry::snapshot_id>({1, "snapshot_id"})
      .Require<&Entry::path>({100, "file_path"})
      .Field<&Entry::sizes>({108, "column_sizes"})
      .Field<&Entry::bounds>({125, "lower_bounds"})
      .Field<&Entry::offsets>({132, "split_offsets"})
      .Nest<&Entry::stats>({-1, "stats"}, stats)
      .Nest<&Entry::key_stats>({-1, "key_stats"}, stats)
      .Field<&Entry::ratios>({-1, "ratios"})
      .Field<&Entry::partition>({102, "partition"})
      .Field<&Entry::is_live>({-1, "is_live"})
      .Field<&Entry::weight>({-1, "weight"});
}

constexpr std::string_view kEntrySchema = R"({"type":"record","name":"entry","fields":[
  {"name":"status","type":"int","field-id":0},
  {"name":"snapshot_id","type":["null","long"],"default":null,"field-id":1},
  {"name":"file_path","type":"string","field-id":100},
  {"name":"unknown","type":["null","string"],"default":null},
  {"name":"column_sizes","type":["null",{"type":"array","logicalType":"map","items":{"type":"record","name":"k117_v118",
     "fields":[{"name":"key","type":"int","field-id":117},{"name":"value","type":"long","field-id":118}]}}],"field-id":108},
  {"name":"lower_bounds","type":["null",{"type":"array","logicalType":"map","items":{"type":"record","name":"k126_v127",
     "fields":[{"name":"key","type":"int","field-id":126},{"name":"value","type":"bytes","field-id":127}]}}],"field-id":125},
  {"name":"split_offsets","type":["null",{"type":"array","items":"long","element-id":133}],"field-id":132},
  {"name":"stats","type":{"type":"array","items":{"type":"record","name":"stats","fields":[
     {"name":"lower","type":"bytes"},{"name":"nulls","type":["null","long"]}]}}},
  {"name":"key_stats","type":["null","stats"]},
  {"name":"ratios","type":{"type":"map","values":"double"}},
  {"name":"partition","type":{"type":"record","name":"r102","fields":[
     {"name":"day","type":["null",{"type":"int","logicalType":"date"}],"field-id":1000},
     {"name":"kind","type":{"type":"enum","name":"kinds","symbols":["A","B"]}},
     {"name":"id","type":{"type":"fixed","name":"uuid_fixed","size":4,"logicalType":"uuid"}}]},"field-id":102},
  {"name":"is_live","type":"boolean"},
  {"name":"weight","type":"float"}]})";

Entry SampleEntry(int i) {
  Entry entry;
  entry.status = i % 3;
  if (i % 2 == 0) entry.snapshot_id = int64_t{1} << (i % 62);
  entry.path = fmt::format("s3://bucket/data/{:05}.parquet", i);
  for (int c = 1; c <= i % 5; ++c) {
    entry.sizes.emplace_back(c, i * 1000 + c);
    entry.bounds.emplace_back(c, std::string(static_cast<size_t>(c * 3), 'b'));
  }
  if (i % 3 == 0) entry.offsets = {4, 1000, 100'000};
  if (i % 4 == 0) entry.stats = {{"low", 3}, {"", std::nullopt}};
  if (i % 5 == 0) entry.key_stats = Stats{.lower = "k", .nulls = i};
  entry.ratios = {{"r", 0.5 * i}};
  const AvroValue day = i % 2 == 0 ? AvroValue{int64_t{i}} : AvroValue{};
  entry.partition = {AvroValue::List{day, {std::string("B")}, {std::string("\0\1\2\3", 4)}}};
  entry.is_live = i % 2 == 1;
  entry.weight = static_cast<float>(i) / 4;
  return entry;
}

std::string WriteEntries(int count,
                         AvroWriteOptions options = {.schema = std::string(kEntrySchema)}) {
  testing::TestWorld world;
  std::string bytes;
  MemorySink sink(bytes);
  auto writer =
      AvroRecordWriter<Entry>::Open(world.context(), std::move(options), sink, EntryBinding());
  EXPECT_TRUE(writer.ok()) << writer.status().ToString();
  for (int i = 0; i < count; ++i) {
    const Status status = writer->Append(world.context(), SampleEntry(i));
    EXPECT_TRUE(status.ok()) << status.ToString();
  }
  EXPECT_TRUE(writer->Flush(world.context()).ok());
  return bytes;
}

template <class T>
Result<std::vector<T>> ReadAll(const std::string& bytes, const AvroBinding<T>& binding) {
  testing::TestWorld world;
  MemorySource source(AsBytes(bytes));
  PF_ASSIGN(auto reader, AvroRecordReader<T>::Open(world.context(), source, "m.avro", binding));
  std::vector<T> records;
  T record;
  while (true) {
    PF_ASSIGN(const bool has_more, reader.Next(world.context(), record));
    if (!has_more) return records;
    records.push_back(record);
  }
}

// check: DATA-19
TEST(AvroFile, RecordsOfEveryCodecComeBack) {
  for (const BlockCodec codec :
       {BlockCodec::kNone, BlockCodec::kDeflate, BlockCodec::kSnappy, BlockCodec::kZstd}) {
    const std::string bytes = WriteEntries(
        3000,
        {.schema = std::string(kEntrySchema), .codec = codec, .level = 3, .block_raw_bytes = 9000});
    const auto entries = ReadAll(bytes, EntryBinding());
    ASSERT_TRUE(entries.ok()) << entries.status().ToString();
    ASSERT_EQ(entries->size(), 3000u);
    for (int i = 0; i < 3000; ++i)
      ASSERT_EQ((*entries)[static_cast<size_t>(i)], SampleEntry(i)) << i;
  }
}

TEST(AvroFile, HeaderKeepsMetadataAndUnknownAttributes) {
  const std::string schema =
      R"({"type":"record","name":"r","fields":[{"name":"x","type":"int","x-tool":{"a":[1]}}],"doc":"d"})";
  struct Row {
    int32_t x = 0;
  };
  testing::TestWorld world;
  std::string bytes;
  MemorySink sink(bytes);
  auto writer = AvroRecordWriter<Row>::Open(
      world.context(),
      {.schema = schema, .metadata = {{"format-version", "2"}, {"content", "data"}}}, sink,
      AvroBinding<Row>().Field<&Row::x>({-1, "x"}));
  ASSERT_TRUE(writer.ok());
  ASSERT_TRUE(writer->Flush(world.context()).ok());
  MemorySource source(AsBytes(bytes));
  const auto reader = AvroFileReader::Open(world.context(), source, "m.avro").value();
  EXPECT_EQ(reader->header().schema.text(), schema);
  EXPECT_EQ(*reader->header().Find("format-version"), "2");
  EXPECT_EQ(reader->header().Find("none"), nullptr);
  EXPECT_FALSE(reader->NextBlock(world.context())->has_value());
}

struct Wide {
  std::optional<int64_t> id;
  double real = -1;
  std::string text = "unset";
  int32_t missing = 42;
};
AvroBinding<Wide> WideBinding() {
  return AvroBinding<Wide>()
      .Field<&Wide::id>({1, "id"})
      .Field<&Wide::real>({2, "real"})
      .Field<&Wide::text>({3, "text"})
      .Field<&Wide::missing>({4, "missing"});
}
// Writes one record from raw bytes under any schema.
std::string RawFile(std::string_view schema, std::string_view datum, int64_t records = 1) {
  testing::TestWorld world;
  std::string bytes;
  MemorySink sink(bytes);
  auto writer = AvroFileWriter::Open(
      world.context(), {.schema = std::string(schema), .codec = BlockCodec::kNone}, sink);
  EXPECT_TRUE(writer.ok()) << writer.status().ToString();
  (*writer)->buffer() += datum;
  for (int64_t i = 0; i < records; ++i) EXPECT_TRUE((*writer)->CommitRecord(world.context()).ok());
  EXPECT_TRUE((*writer)->Flush(world.context()).ok());
  return bytes;
}

TEST(AvroFile, PromotionsAreMadeAndMissingFieldsKeepTheirDefault) {
  const std::string bytes = RawFile(
      R"({"type":"record","name":"r","fields":[{"name":"extra","type":{"type":"map","values":"string"}},
      {"name":"renamed","type":"int","field-id":1},{"name":"real","type":"float"},{"name":"text","type":"bytes"}]})",
      std::string("\x02\x02"
                  "k\x04"
                  "vv\x00"
                  "\x0e"
                  "\x00\x00\x20\x40"
                  "\x06"
                  "abc",
                  16));
  const auto rows = ReadAll(bytes, WideBinding());
  ASSERT_TRUE(rows.ok()) << rows.status().ToString();
  EXPECT_EQ(rows->at(0).id, 7);
  EXPECT_EQ(rows->at(0).real, 2.5);
  EXPECT_EQ(rows->at(0).text, "abc");
  EXPECT_EQ(rows->at(0).missing, 42);
}

TEST(AvroFile, RootUnionsAndUnionOrdersOfOtherWritersAreRead) {
  // Root ["null", record]; union with null last.
  const std::string bytes = RawFile(
      R"(["null",{"type":"record","name":"r","fields":[{"name":"id","type":["long","null"]}]}])",
      std::string("\x02\x00\x0a\x00\x02\x02", 6), 3);
  const auto rows = ReadAll(bytes, WideBinding());
  ASSERT_TRUE(rows.ok()) << rows.status().ToString();
  ASSERT_EQ(rows->size(), 2u);  // the null datum is passed over
  EXPECT_EQ(rows->at(0).id, 5);
  EXPECT_EQ(rows->at(1).id, std::nullopt);
}

// check: DATA-19
TEST(AvroFile, NegativeBlockCountsAreReadAndSkipped) {
  struct Row {
    std::vector<int64_t> values;
    int32_t last = 0;
  };
  // Count -2, 2 bytes, items 1 2; count 1, item 3; end. Then last = 4.
  const std::string datum("\x03\x04\x02\x04\x02\x06\x00\x08", 8);
  const std::string bytes = RawFile(
      R"({"type":"record","name":"r","fields":[{"name":"values","type":{"type":"array","items":"long"}},{"name":"last","type":"int"}]})",
      datum);
  const auto all = ReadAll(
      bytes,
      AvroBinding<Row>().Require<&Row::values>({-1, "values"}).Require<&Row::last>({-1, "last"}));
  ASSERT_TRUE(all.ok()) << all.status().ToString();
  EXPECT_EQ(all->at(0).values, (std::vector<int64_t>{1, 2, 3}));
  const auto skipped = ReadAll(bytes, AvroBinding<Row>().Require<&Row::last>({-1, "last"}));
  EXPECT_EQ(skipped->at(0).last, 4);
}

TEST(AvroFile, RequiredFieldsMustBeThereAndNotNull) {
  const auto binding = AvroBinding<Wide>().Require<&Wide::text>({3, "text"});
  const auto missing = ReadAll(
      RawFile(R"({"type":"record","name":"r","fields":[{"name":"id","type":"int"}]})", "\x02"),
      binding);
  EXPECT_EQ(missing.status().code(), Code::kCorruption);
  EXPECT_EQ(missing.status().message(), "read m.avro: field is missing: text (id 3)");
  const auto null = ReadAll(
      RawFile(R"({"type":"record","name":"r","fields":[{"name":"text","type":["null","string"]}]})",
              std::string(1, '\0')),
      binding);
  EXPECT_EQ(null.status().code(), Code::kCorruption);
  EXPECT_NE(null.status().message().find("null in field text"), std::string::npos);
  const auto wrong = ReadAll(
      RawFile(R"({"type":"record","name":"r","fields":[{"name":"text","type":"int"}]})", "\x02"),
      binding);
  EXPECT_EQ(wrong.status().code(), Code::kCorruption);
}

TEST(AvroFile, EncoderRefusesWhatTheSchemaCannotHold) {
  struct Row {
    std::optional<int64_t> id;
    std::string code;
  };
  const auto binding =
      AvroBinding<Row>().Field<&Row::id>({-1, "id"}).Field<&Row::code>({-1, "code"});
  const auto encode = [&](std::string_view schema_text, const Row& row) -> Status {
    const auto schema = AvroSchema::Parse(schema_text).value();
    PF_ASSIGN(const auto encoder, AvroEncoder::Compile(schema.root(), binding.slots()));
    std::string out = "before";
    Status status = encoder.Encode(&row, out);
    if (!status.ok()) {
      EXPECT_EQ(out, "before");
    }
    return status;
  };
  constexpr std::string_view kInt =
      R"({"type":"record","name":"r","fields":[{"name":"id","type":"int"}]})";
  EXPECT_TRUE(encode(kInt, {.id = 5, .code = ""}).ok());
  EXPECT_EQ(encode(kInt, {.id = int64_t{1} << 40, .code = ""}).code(), Code::kInvalidArgument);
  EXPECT_EQ(encode(kInt, {.id = std::nullopt, .code = ""}).code(), Code::kInvalidArgument);
  EXPECT_FALSE(
      encode(R"({"type":"record","name":"r","fields":[{"name":"other","type":"int"}]})", {}).ok());
  constexpr std::string_view kFixed =
      R"({"type":"record","name":"r","fields":[{"name":"code","type":{"type":"fixed","name":"f","size":2}}]})";
  EXPECT_TRUE(encode(kFixed, {.id = {}, .code = "ab"}).ok());
  EXPECT_FALSE(encode(kFixed, {.id = {}, .code = "abc"}).ok());
  constexpr std::string_view kEnum =
      R"({"type":"record","name":"r","fields":[{"name":"code","type":{"type":"enum","name":"e","symbols":["A"]}}]})";
  EXPECT_TRUE(encode(kEnum, {.id = {}, .code = "A"}).ok());
  EXPECT_FALSE(encode(kEnum, {.id = {}, .code = "B"}).ok());
}

// Changes a good file and says how reading it ends.
Status ReadAfter(const std::function<void(std::string&)>& change) {
  std::string bytes =
      WriteEntries(50, {.schema = std::string(kEntrySchema), .codec = BlockCodec::kNone});
  change(bytes);
  const auto entries = ReadAll(bytes, EntryBinding());
  return entries.ok() ? Status() : entries.status();
}

// check: DATA-19
TEST(AvroFile, TruncationAtEachByteIsCorruption) {
  const std::string bytes = WriteEntries(20);
  testing::TestWorld world;
  MemorySource whole(AsBytes(bytes));
  const int64_t header =
      AvroFileReader::Open(world.context(), whole, "m.avro").value()->header().size_bytes;
  for (size_t length = 0; length < bytes.size(); ++length) {
    if (static_cast<int64_t>(length) == header) continue;  // a file without blocks is a good one
    const auto entries = ReadAll(bytes.substr(0, length), EntryBinding());
    ASSERT_FALSE(entries.ok()) << length;
    ASSERT_EQ(entries.status().code(), Code::kCorruption) << length;
  }
}

// check: DATA-19
TEST(AvroFile, BrokenSyncMarkersAndMagicAreCorruption) {
  EXPECT_TRUE(ReadAfter([](std::string&) {}).ok());
  EXPECT_EQ(ReadAfter([](std::string& b) { b.back() = static_cast<char>(b.back() ^ 1); }).code(),
            Code::kCorruption);
  EXPECT_EQ(ReadAfter([](std::string& b) { b[3] = 2; }).code(), Code::kCorruption);
  EXPECT_EQ(ReadAfter([](std::string& b) { b = "ORC" + b; }).code(), Code::kCorruption);
}

// check: DATA-19
TEST(AvroFile, EachLimitOfABlockIsCorruption) {
  constexpr std::string_view kLongs =
      R"({"type":"record","name":"r","fields":[{"name":"v","type":{"type":"array","items":"long"}}]})";
  constexpr std::string_view kText =
      R"({"type":"record","name":"r","fields":[{"name":"v","type":"string"}]})";
  constexpr std::string_view kNulls =
      R"({"type":"record","name":"r","fields":[{"name":"v","type":{"type":"array","items":"null"}}]})";
  constexpr std::string_view kUnion =
      R"({"type":"record","name":"r","fields":[{"name":"v","type":["null","int"]}]})";
  constexpr std::string_view kFlag =
      R"({"type":"record","name":"r","fields":[{"name":"v","type":"boolean"}]})";
  struct Row {
    AvroValue v;
  };
  const auto read = [](std::string_view schema, std::string datum, int64_t records = 1) {
    const auto rows =
        ReadAll(RawFile(schema, datum, records), AvroBinding<Row>().Require<&Row::v>({-1, "v"}));
    return rows.ok() ? std::string("ok") : rows.status().message();
  };
  const auto has = [](const std::string& message, std::string_view part) {
    return message.find(part) != std::string::npos;
  };
  std::string count;
  PutAvroLong(int64_t{1} << 40, count);
  std::string lowest;
  PutAvroLong(std::numeric_limits<int64_t>::min(), lowest);
  EXPECT_TRUE(has(read(kLongs, count), "more items than the block has bytes"));
  EXPECT_TRUE(has(read(kLongs, lowest + "\x02"), "size of items beyond the end"));
  EXPECT_TRUE(has(read(kLongs, "\x01\x06"), "size of items beyond the end"));
  EXPECT_TRUE(has(read(kText, count), "length beyond the end"));
  EXPECT_TRUE(has(read(kText, "\x01"), "negative length"));
  EXPECT_TRUE(has(read(kNulls, count), "more items without bytes"));
  EXPECT_EQ(read(kNulls, std::string("\x0a\x00", 2)), "ok");
  EXPECT_TRUE(has(read(kUnion, "\x04"), "index out of range"));
  EXPECT_TRUE(has(read(kUnion, "\x01"), "index out of range"));
  EXPECT_TRUE(has(read(kFlag, "\x02"), "boolean"));
  EXPECT_TRUE(has(read(kUnion, std::string(11, '\xff')), "64 bits"));
  EXPECT_TRUE(has(read(kUnion, std::string(2, '\0')), "bytes are left over"));
  EXPECT_TRUE(has(read(kUnion, std::string(1, '\0'), 2), "more records than bytes"));
  EXPECT_TRUE(has(
      read(R"({"type":"record","name":"r","fields":[{"name":"v","type":"null"}]})", "", 1'100'000),
      "more records without bytes"));
}

// check: DATA-19
TEST(AvroFile, LyingBlockHeadsAreCorruption) {
  const std::string good =
      RawFile(R"({"type":"record","name":"r","fields":[{"name":"id","type":"int"}]})", "\x02");
  testing::TestWorld world;
  MemorySource source(AsBytes(good));
  const auto header = static_cast<size_t>(
      AvroFileReader::Open(world.context(), source, "m").value()->header().size_bytes);
  const auto with_head = [&](int64_t count, int64_t size) {
    std::string head;
    PutAvroLong(count, head);
    PutAvroLong(size, head);
    return ReadAll(good.substr(0, header) + head + good.substr(header + 2), WideBinding());
  };
  EXPECT_TRUE(with_head(1, 1).ok());
  for (const auto& [count, size] : std::vector<std::pair<int64_t, int64_t>>{
           {-1, 1}, {1, -1}, {1, int64_t{1} << 40}, {1, 2}, {1, 0}, {2, 1}, {0, 1}}) {
    const auto rows = with_head(count, size);
    ASSERT_FALSE(rows.ok()) << count << " " << size;
    EXPECT_EQ(rows.status().code(), Code::kCorruption);
    EXPECT_NE(rows.status().message().find("m.avro"), std::string::npos);
  }
}

// check: DATA-19
TEST(AvroFile, HeadersAndBombsAboveTheirLimitsAreCorruption) {
  struct Row {
    std::string text;
  };
  constexpr std::string_view kText =
      R"({"type":"record","name":"r","fields":[{"name":"text","type":"string"}]})";
  const auto binding = AvroBinding<Row>().Require<&Row::text>({-1, "text"});
  const auto write = [&](AvroMetadata metadata, size_t text_bytes) {
    testing::TestWorld world;
    std::string bytes;
    MemorySink sink(bytes);
    auto writer = AvroRecordWriter<Row>::Open(world.context(),
                                              {.schema = std::string(kText),
                                               .metadata = std::move(metadata),
                                               .codec = BlockCodec::kZstd},
                                              sink, binding)
                      .value();
    EXPECT_TRUE(writer.Append(world.context(), {.text = std::string(text_bytes, 'z')}).ok());
    EXPECT_TRUE(writer.Flush(world.context()).ok());
    return bytes;
  };
  EXPECT_TRUE(ReadAll(write({}, 500'000), binding).ok());
  // Eight mebibytes of one letter take less than a thousandth.
  EXPECT_EQ(ReadAll(write({}, 8 << 20), binding).status().code(), Code::kCorruption);
  EXPECT_TRUE(ReadAll(write({{"k", std::string(15 << 20, 'm')}}, 1), binding).ok());
  EXPECT_EQ(ReadAll(write({{"k", std::string(17 << 20, 'm')}}, 1), binding).status().code(),
            Code::kCorruption);
}

TEST(AvroFile, CodecsWeDoNotHaveAreRefused) {
  const std::string bytes = RawFile(R"({"type":"record","name":"r","fields":[]})", "", 0);
  std::string changed = bytes;
  changed.replace(changed.find("\x08null"), 5, "\x08lzma");
  EXPECT_EQ(ReadAll(changed, WideBinding()).status().code(), Code::kRefused);
}

struct Bounds {
  std::vector<std::pair<int32_t, std::string>> pairs;
};

// A block within its limits whose one record becomes far more: two bytes an item in the file, forty
// and more in memory.
TEST(AvroFile, ItemsOfARecordAreTakenFromTheBudget) {
  constexpr std::string_view kSchema = R"({"type":"record","name":"r","fields":[
    {"name":"pairs","type":{"type":"array","items":{"type":"record","name":"k",
     "fields":[{"name":"key","type":"int"},{"name":"value","type":"bytes"}]}}}]})";
  const auto binding = AvroBinding<Bounds>().Require<&Bounds::pairs>({-1, "pairs"});
  constexpr int64_t kItems = 500'000;
  std::string datum;
  PutAvroLong(kItems, datum);
  datum.append(2 * kItems, '\0');
  PutAvroLong(0, datum);
  for (const BlockCodec codec : {BlockCodec::kNone, BlockCodec::kZstd}) {
    std::string bytes;
    {
      testing::TestWorld world;
      MemorySink sink(bytes);
      const auto writer = AvroFileWriter::Open(
          world.context(), {.schema = std::string(kSchema), .codec = codec, .level = 3}, sink);
      ASSERT_TRUE(writer.ok()) << writer.status().ToString();
      ASSERT_TRUE((*writer)->Append(world.context(), datum).ok());
      ASSERT_TRUE((*writer)->Flush(world.context()).ok());
    }
    const auto read = [&](int64_t memory_bytes) -> Status {
      testing::TestWorld world(memory_bytes);
      MemorySource source(AsBytes(bytes));
      PF_ASSIGN(auto reader, AvroRecordReader<Bounds>::Open(world.context(), source, "f", binding));
      Bounds record;
      PF_ASSIGN([[maybe_unused]] const bool is_there, reader.Next(world.context(), record));
      EXPECT_EQ(record.pairs.size(), static_cast<size_t>(kItems));
      EXPECT_GT(world.context().memory.used_bytes(), kItems * 40);
      return {};
    };
    EXPECT_EQ(read(int64_t{16} << 20).code(), Code::kExhausted);  // the block fits, not the record
    EXPECT_EQ(read(int64_t{256} << 10).code(), Code::kExhausted);
    const Status status = read(int64_t{256} << 20);
    EXPECT_TRUE(status.ok()) << status.ToString();
  }
}

}  // namespace
}  // namespace partforge::data
