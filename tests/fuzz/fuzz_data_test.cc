// Drives the parsers of foreign bytes with mutations of good files. One seed, one sequence of
// inputs.

#include <arrow/api.h>
#include <arrow/io/api.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <parquet/arrow/writer.h>
#include <sys/resource.h>

#include <functional>

#include "base/files.h"
#include "base/hash.h"
#include "data/avro_file.h"
#include "data/binary_row.h"
#include "data/bitmap.h"
#include "data/block_codec.h"
#include "data/memory_bytes.h"
#include "data/orc_sink.h"
#include "data/parquet_footer.h"
#include "data/puffin.h"
#include "fuzz/fuzz_data.h"
#include "fuzz/fuzz_length.h"
#include "fuzz/mutation.h"
#include "testing/allocation_peak.h"
#include "testing/test_world.h"

namespace partforge::fuzz {
namespace {

using namespace partforge::data;  // NOLINT: this file is about nothing else

constexpr int kInputs = PARTFORGE_FUZZ_INPUTS;
constexpr double kSecondsPerMebibyte = 2;
constexpr double kSecondsFree = 0.5;  // sanitizers
constexpr size_t kAllocationFactor = 64;
constexpr size_t kAllocationFree = 16 << 20;

std::string Golden(std::string_view name) {
  return ReadFile(fmt::format("{}/{}", PARTFORGE_DATA_TESTDATA, name)).value();
}

using testing::AllocationPeak;
using Target = int (*)(std::span<const std::byte>);

// Of this process: the machine may be busy with other things.
double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

void RunOne(Target target, const std::string& input) {
  AllocationPeak::Start();
  const double begin = CpuSeconds();
  EXPECT_EQ(target(AsBytes(input)), 0);
  const double seconds = CpuSeconds() - begin;
  const double mebibytes = static_cast<double>(input.size()) / (1 << 20);
  EXPECT_LE(seconds, kSecondsFree + kSecondsPerMebibyte * mebibytes) << ToHex(AsBytes(input));
  EXPECT_LE(AllocationPeak::PeakBytes(), kAllocationFactor * input.size() + kAllocationFree)
      << ToHex(AsBytes(input));
}

void Fuzz(Target target, const std::vector<std::string>& seeds) {
  const uint64_t seed = FuzzSeed();
  SCOPED_TRACE(fmt::format("PARTFORGE_TEST_SEED={}", seed));
  testing::SeededRandom random(seed);
  for (const std::string& input : seeds) RunOne(target, input);
  const FuzzLength length(kInputs);
  for (int64_t i = 0; length.Wants(i) && !::testing::Test::HasFailure(); ++i) {
    RunOne(target, Mutate(seeds[RandomBelow(random, seeds.size())], seeds, random));
  }
}

std::vector<std::string> AvroSeeds() {
  std::vector<std::string> seeds = {Golden("fastavro_null.avro"), Golden("fastavro_deflate.avro"),
                                    Golden("pyiceberg_manifest_list.avro")};
  // A choice of schema, then a block's bytes (fuzz_data.cc, kSchemas).
  seeds.push_back(
      std::string("\0\x02\x00\x06\x02\x04"
                  "ab\x04\x02\x04\x00",
                  12));
  seeds.push_back(
      std::string("\x01\x02\x02\x06"
                  "abc\x00\x02\x02"
                  "k\x02\x02\x00\x00\x00",
                  16));
  seeds.push_back(
      std::string("\x02\x02\x02\x02"
                  "y\x02\x08\x00\x02\x00\x00\x04\x00\x04\x02\x00",
                  16));
  seeds.push_back(
      std::string("\x03\x02\x02"
                  "k\x02\x02"
                  "j\x01\x00\x00\x00"
                  "0123456789abcdef",
                  27));
  seeds.push_back(std::string("\x04", 1));
  return seeds;
}

TEST(FuzzData, Avro) {
  Fuzz(&FuzzAvro, AvroSeeds());
}

// Two fields of one name, of which one is chosen: names come from a free attribute.
std::string AvroOfEqualNames() {
  testing::TestWorld world;
  std::string bytes;
  MemorySink sink(bytes);
  struct Row {
    int32_t x = 0;
    std::string y;
  };
  auto writer = AvroRecordWriter<Row>::Open(
      world.context(),
      {.schema = R"({"type":"record","name":"r","fields":[{"name":"x","type":"int","field-id":1},
         {"name":"y","type":"string","field-id":2,"iceberg-field-name":"x"}]})"},
      sink, AvroBinding<Row>().Require<&Row::x>({1, "x"}).Require<&Row::y>({2, "y"}));
  EXPECT_TRUE(writer.ok());
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE((*writer).Append(world.context(), Row{.x = i, .y = fmt::format("y{}", i)}).ok());
  }
  EXPECT_TRUE((*writer).Flush(world.context()).ok());
  return bytes;
}

// check: DATA-23
TEST(FuzzData, AvroSelect) {
  std::vector<std::string> seeds;
  for (const std::string& file : {Golden("fastavro_null.avro"), Golden("fastavro_deflate.avro"),
                                  Golden("pyiceberg_manifest.avro"), AvroOfEqualNames()}) {
    for (const char choice : {'\x00', '\x02', '\x55', '\xff'}) seeds.push_back(choice + file);
  }
  Fuzz(&FuzzAvroSelect, seeds);
}

TEST(FuzzData, AvroSchema) {
  std::vector<std::string> seeds;
  for (const std::string_view name : {"fastavro_null.avro", "pyiceberg_manifest.avro"}) {
    testing::TestWorld world;
    const std::string bytes = Golden(name);
    MemorySource source(AsBytes(bytes));
    seeds.push_back(
        AvroFileReader::Open(world.context(), source, "golden").value()->header().schema.text());
  }
  Fuzz(&FuzzAvroSchema, seeds);
}

std::vector<std::string> BitmapSeeds(const std::function<std::string(const Positions&)>& encode) {
  Positions few, runs, bits;
  for (const uint64_t p : {0, 1, 2, 99}) few.Add(p);
  runs.AddRun({.begin = 5, .end = 100'000});
  for (uint64_t p = 0; p < 20'000; p += 3) bits.Add(p);
  return {encode(Positions()), encode(few), encode(runs), encode(bits)};
}

TEST(FuzzData, Bitmap32) {
  auto seeds = BitmapSeeds([](const Positions& p) { return EncodeRoaring32(p).value(); });
  seeds.push_back(Golden("pyroaring_32.bin"));
  Fuzz(&FuzzBitmap32, seeds);
}

TEST(FuzzData, Bitmap64) {
  auto seeds = BitmapSeeds([](const Positions& p) { return EncodeRoaring64(p).value(); });
  seeds.push_back(Golden("pyroaring_64.bin"));
  Fuzz(&FuzzBitmap64, seeds);
}

TEST(FuzzData, Vector) {
  auto seeds = BitmapSeeds(
      [](const Positions& p) { return EncodeVector(p, VectorLayout::kBits64).value(); });
  for (std::string& seed : BitmapSeeds(
           [](const Positions& p) { return EncodeVector(p, VectorLayout::kBits32).value(); })) {
    seeds.push_back(std::move(seed));
  }
  Fuzz(&FuzzVector, seeds);
}

TEST(FuzzData, Puffin) {
  testing::TestWorld world;
  std::vector<std::string> seeds;
  for (const BlockCodec codec : {BlockCodec::kNone, BlockCodec::kZstd, BlockCodec::kLz4}) {
    std::string bytes;
    MemorySink sink(bytes);
    auto writer = PuffinWriter::Open(world.context(), sink).value();
    for (const std::string& vector : BitmapSeeds(
             [](const Positions& p) { return EncodeVector(p, VectorLayout::kBits64).value(); })) {
      std::string stored;
      ASSERT_TRUE(CompressBlock(codec, AsBytes(vector), 1, stored).ok());
      PuffinBlob blob{.type = "deletion-vector-v1", .properties = {{"cardinality", "4"}}};
      if (codec == BlockCodec::kZstd) blob.compression_codec = "zstd";
      if (codec == BlockCodec::kLz4) blob.compression_codec = "lz4";
      ASSERT_TRUE(writer->Append(world.context(), std::move(blob), AsBytes(stored)).ok());
    }
    ASSERT_TRUE(writer->Finish(world.context(), {{"created-by", "fuzz"}}).ok());
    seeds.push_back(std::move(bytes));
  }
  Fuzz(&FuzzPuffin, seeds);
}

// The end of a small Parquet file with nested columns, page indexes and two row groups.
std::string ParquetTail() {
  arrow::Int64Builder ids;
  auto items = std::make_shared<arrow::StringBuilder>();
  arrow::ListBuilder lists(arrow::default_memory_pool(), items);
  for (int64_t i = 0; i < 40; ++i) {
    EXPECT_TRUE(ids.Append(i).ok() && lists.Append().ok() && items->Append("x").ok());
  }
  const auto table =
      arrow::Table::Make(arrow::schema({arrow::field("id", arrow::int64(), false),
                                        arrow::field("l", arrow::list(arrow::utf8()))}),
                         {ids.Finish().ValueOrDie(), lists.Finish().ValueOrDie()});
  const auto out = arrow::io::BufferOutputStream::Create().ValueOrDie();
  const auto properties = parquet::WriterProperties::Builder().enable_write_page_index()->build();
  EXPECT_TRUE(
      parquet::arrow::WriteTable(*table, arrow::default_memory_pool(), out, 20, properties).ok());
  return out->Finish().ValueOrDie()->ToString();
}

TEST(FuzzData, Thrift) {
  const std::string file = ParquetTail();
  uint32_t length = 0;
  std::memcpy(&length, file.data() + file.size() - 8, sizeof length);
  Fuzz(&FuzzThrift, {file.substr(file.size() - 8 - length, length)});
}

TEST(FuzzData, Footer) {
  Fuzz(&FuzzFooter, {ParquetTail()});
}

// A small ORC file of several stripes with statistics of each kind.
std::string OrcFile(OrcCodec codec) {
  testing::TestWorld world;
  const Context ctx = world.context();
  const auto schema = arrow::schema(
      {arrow::field("i", arrow::int64()), arrow::field("d", arrow::float64()),
       arrow::field("s", arrow::utf8()), arrow::field("b", arrow::boolean()),
       arrow::field("x", arrow::decimal128(12, 2)), arrow::field("day", arrow::date32()),
       arrow::field("t", arrow::timestamp(arrow::TimeUnit::SECOND)),
       arrow::field("l", arrow::list(arrow::utf8()))});
  std::string bytes;
  auto sink =
      OpenOrcSink(
          ctx, std::make_unique<MemorySink>(bytes), "f", schema,
          {.attributes = {.id = "id"}, .codec = codec, .stripe_bytes = 500, .row_index_rows = 20})
          .value();
  for (int64_t batch = 0; batch < 3; ++batch) {
    std::vector<std::unique_ptr<arrow::ArrayBuilder>> builders;
    for (const auto& field : schema->fields()) {
      builders.push_back(arrow::MakeBuilder(field->type()).ValueOrDie());
    }
    for (int64_t i = 0; i < 20; ++i) {
      for (const auto& builder : builders) {
        EXPECT_TRUE((i % 5 == 0 ? builder->AppendNull() : builder->AppendEmptyValue()).ok());
      }
    }
    arrow::ArrayVector columns;
    for (const auto& builder : builders) columns.push_back(builder->Finish().ValueOrDie());
    EXPECT_TRUE(sink->Write(ctx, *arrow::RecordBatch::Make(schema, 20, columns)).ok());
  }
  EXPECT_TRUE(sink->Close(ctx).ok());
  return bytes;
}

TEST(FuzzData, OrcTail) {
  std::vector<std::string> seeds;
  for (int codec = 0; codec < 5; ++codec) seeds.push_back(OrcFile(static_cast<OrcCodec>(codec)));
  Fuzz(&FuzzOrcTail, seeds);
}

TEST(FuzzData, BinaryRow) {
  using Kind = BinaryRowType::Kind;
  const std::vector<BinaryRowType> types = {{Kind::kBytes},        {Kind::kDecimal, 30},
                                            {Kind::kTimestamp, 6}, {Kind::kOpaque},
                                            {Kind::kInt16},        {Kind::kDecimal, 9}};
  BinaryRowWriter writer(types);
  writer.SetBytes("longer than seven");
  writer.SetDecimal(Int128::Of(-5));
  writer.SetTimestamp({.millis = 1, .nano_of_milli = 2});
  writer.SetBytes("opaque");
  writer.SetInt(-3);
  writer.SetNull();
  Fuzz(&FuzzBinaryRow, {SerializeRow(types.size(), writer.Finish())});
}

TEST(FuzzData, BlockCodec) {
  std::vector<std::string> seeds;
  for (int codec = 0; codec < 5; ++codec) {
    for (const std::string& raw : {std::string("abc"), std::string(70'000, 'z')}) {
      std::string stored(1, static_cast<char>(codec));
      ASSERT_TRUE(CompressBlock(static_cast<BlockCodec>(codec), AsBytes(raw), 1, stored).ok());
      seeds.push_back(std::move(stored));
    }
  }
  Fuzz(&FuzzBlockCodec, seeds);
}

}  // namespace
}  // namespace partforge::fuzz
