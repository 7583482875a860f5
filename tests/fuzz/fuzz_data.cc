#include "fuzz/fuzz_data.h"

#include <arrow/api.h>
#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "base/hash.h"
#include "data/avro_batches.h"
#include "data/avro_file.h"
#include "data/binary_row.h"
#include "data/bitmap.h"
#include "data/block_codec.h"
#include "data/memory_bytes.h"
#include "data/orc_tail.h"
#include "data/parquet_footer.h"
#include "data/puffin.h"
#include "data/schema_mapping.h"
#include "data/thrift_compact.h"
#include "testing/test_world.h"

namespace partforge::fuzz {

using namespace partforge::data;  // NOLINT: this file is about nothing else

namespace {

struct Part {
  std::string lower;
  std::optional<int64_t> count;
};
struct Record {
  int32_t id = 0;
  std::optional<int64_t> big;
  double real = 0;
  std::optional<std::string> text;
  std::vector<std::pair<int32_t, std::string>> bounds;
  std::vector<std::pair<std::string, AvroValue>> map;
  std::vector<int64_t> list;
  std::optional<Part> part;
  std::vector<Part> parts;
  AvroValue any;
};

// Names and ids of the golden file and of kSchemas, so that mutated files still meet members.
AvroBinding<Record> RecordBinding() {
  const auto part =
      AvroBinding<Part>().Field<&Part::lower>({25, "y"}).Field<&Part::count>({24, "x"});
  return AvroBinding<Record>()
      .Field<&Record::id>({1, "id"})
      .Field<&Record::big>({2, "big"})
      .Field<&Record::real>({5, "d"})
      .Field<&Record::text>({6, "s"})
      .Field<&Record::bounds>({20, "kv"})
      .Field<&Record::map>({17, "mp"})
      .Field<&Record::list>({132, "list"})
      .Nest<&Record::part>({23, "st"}, part)
      .Nest<&Record::parts>({508, "parts"}, part)
      .Field<&Record::any>({102, "any"});
}

constexpr std::array<std::string_view, 5> kSchemas = {
    R"({"type":"record","name":"r","fields":[{"name":"id","type":"long"},{"name":"big","type":["long","null"]},
       {"name":"s","type":["null","bytes","string"]},{"name":"list","type":{"type":"array","items":"int"}}]})",
    R"({"type":"record","name":"r","fields":[{"name":"kv","type":{"type":"array","logicalType":"map","items":
       {"type":"record","name":"k","fields":[{"name":"key","type":"int"},{"name":"value","type":"bytes"}]}}},
       {"name":"mp","type":{"type":"map","values":{"type":"array","items":{"type":"array","items":"null"}}}}]})",
    R"({"type":"record","name":"r","fields":[{"name":"parts","type":{"type":"array","items":{"type":"record","name":"p",
       "fields":[{"name":"y","type":["null","string"]},{"name":"x","type":["null","long"]}]}}},
       {"name":"st","type":["null","p"]},{"name":"any","type":{"type":"array","items":["null","p",{"type":"enum","name":"e","symbols":["A","B"]}]}}]})",
    R"({"type":"record","name":"r","fields":[{"name":"any","type":{"type":"map","values":{"type":"map","values":"boolean"}}},
       {"name":"d","type":["null","float"]},{"name":"f","type":{"type":"fixed","name":"f16","size":16}}]})",
    R"({"type":"record","name":"r","fields":[]})",
};

// Runs a cursor through a block three ways: skipped, as trees, into a struct. All must agree on the
// length.
void ReadBlock(const AvroType& record, std::span<const std::byte> bytes, int64_t records) {
  int64_t allowance[3] = {kAvroEmptyItemsMax, kAvroEmptyItemsMax, kAvroEmptyItemsMax};
  AvroCursor skipping(bytes, allowance[0]);
  AvroCursor growing(bytes, allowance[1]);
  AvroCursor filling(bytes, allowance[2]);
  const auto binding = RecordBinding();
  const auto decoder = AvroDecoder::Compile(record, binding.slots(), "fuzz");
  Record filled;
  for (int64_t i = 0; i < records; ++i) {
    skipping.Skip(record);
    const AvroValue value = DecodeAvroValue(record, growing);
    if (decoder.ok()) decoder->Decode(filling, &filled);
    if (!skipping.ok() || !growing.ok()) break;
    if (decoder.ok() && filling.ok() && filling.position() == growing.position()) {
      std::string again;
      PF_CHECK(EncodeAvroValue(record, value, again).ok(), "a decoded value is not of its type");
    }
  }
}

}  // namespace

int FuzzAvro(std::span<const std::byte> bytes) {
  testing::TestWorld world;
  if (bytes.empty()) return 0;
  if (bytes[0] != std::byte{'O'}) {
    const auto choice = std::to_integer<size_t>(bytes[0]) % kSchemas.size();
    const auto schema = AvroSchema::Parse(kSchemas[choice]);
    PF_CHECK(schema.ok(), "a schema of the fuzzer's own");
    ReadBlock(schema->root(), bytes.subspan(1), schema->root().size_bytes_min == 0 ? 10 : 1000);
    return 0;
  }
  MemorySource source(bytes);
  auto typed =
      AvroRecordReader<Record>::Open(world.context(), source, "fuzz.avro", RecordBinding());
  Record record;
  while (typed.ok()) {
    const auto has_more = typed->Next(world.context(), record);
    if (!has_more.ok() || !*has_more) break;
  }
  auto columns = AvroBatchReader::Open(world.context(), source, "fuzz.avro", AvroTimestamps::kAvro,
                                       *arrow::default_memory_pool());
  while (columns.ok()) {
    const auto batch = (*columns)->Next(world.context(), 100, 1 << 16);
    if (!batch.ok() || *batch == nullptr) break;
    // Not ValidateFull: text that is no UTF-8 is passed on as it is, like that of Parquet files.
    PF_CHECK((*batch)->Validate().ok(), "a batch that Arrow does not believe");
  }
  auto file = AvroFileReader::Open(world.context(), source, "fuzz.avro");
  if (!file.ok()) return 0;
  while (true) {
    const auto block = (*file)->NextBlock(world.context());
    if (!block.ok() || !*block) break;
    if (const AvroType* root = (*file)->header().schema.RootRecord()) {
      ReadBlock(*root, (*block)->bytes, (*block)->record_count);
    }
  }
  return 0;
}

int FuzzAvroSelect(std::span<const std::byte> bytes) {
  if (bytes.empty()) return 0;
  const auto choice = std::to_integer<unsigned>(bytes[0]);
  testing::TestWorld world;
  MemorySource source(bytes.subspan(1));
  auto reader =
      AvroBatchReader::Open(world.context(), source, "fuzz.avro",
                            choice % 2 == 0 ? AvroTimestamps::kAvro : AvroTimestamps::kSwapped,
                            *arrow::default_memory_pool());
  if (!reader.ok()) return 0;
  // Leaves by the bits of the byte, again and again; a file may have none.
  int leaf_count = 0;
  for (const auto& field : (*reader)->file_schema()->fields()) leaf_count += LeafCount(*field);
  std::vector<int> leaves;
  for (int leaf = 0; leaf < leaf_count; ++leaf) {
    if ((choice >> (leaf % 8) & 1) != 0) leaves.push_back(leaf);
  }
  if (!(*reader)->Select(leaves).ok()) return 0;
  int selected = 0;
  for (const auto& field : (*reader)->schema()->fields()) selected += LeafCount(*field);
  PF_CHECK(selected >= static_cast<int>(leaves.size()), "a leaf that was chosen is not there");
  while (true) {
    const auto batch = (*reader)->Next(world.context(), 100, 1 << 16);
    if (!batch.ok() || *batch == nullptr) break;
    PF_CHECK((*batch)->Validate().ok(), "a batch that Arrow does not believe");
    PF_CHECK((*batch)->schema()->Equals(*(*reader)->schema()), "a batch of other columns");
  }
  return 0;
}

int FuzzAvroSchema(std::span<const std::byte> bytes) {
  const auto schema =
      AvroSchema::Parse({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  if (!schema.ok()) return 0;
  const std::string zeros(256, '\0');
  int64_t allowance = kAvroEmptyItemsMax;
  AvroCursor cursor(AsBytes(zeros), allowance);
  cursor.Skip(schema->root());
  return 0;
}

int FuzzPuffin(std::span<const std::byte> bytes) {
  testing::TestWorld world;
  MemorySource source(bytes);
  const auto footer = ReadPuffinFooter(world.context(), source, "fuzz.puffin");
  if (!footer.ok()) return 0;
  for (const PuffinBlob& blob : footer->blobs) {
    const auto plain = ReadPuffinBlob(world.context(), source, blob, "fuzz.puffin");
    if (plain.ok()) (void)ParseVector(AsBytes(*plain), "fuzz").ok();
  }
  return 0;
}

namespace {

// What was accepted must behave as a set and come back after a write.
void UsePositions(const Positions& positions) {
  const auto max = positions.max();
  const uint64_t end = max ? (*max == ~uint64_t{0} ? *max : *max + 1) : 10;
  PF_CHECK(positions.Rank(end) <= positions.cardinality(), "a rank above the cardinality");
  uint64_t members = 0;
  uint64_t from = 0;
  for (int i = 0; i < 1000; ++i) {
    const auto run = positions.NextMemberRun(from, end);
    if (!run) break;
    PF_CHECK(run->begin >= from && run->begin < run->end, "a run out of order");
    members += run->size();
    from = run->end;
  }
  PF_CHECK(members <= positions.cardinality(), "runs hold more than the set");
  const std::string bytes = EncodeRoaring64(positions).value();
  PF_CHECK(ParseRoaring64(AsBytes(bytes), "again").value() == positions, "not the same set again");
}

}  // namespace

int FuzzBitmap32(std::span<const std::byte> bytes) {
  const auto positions = ParseRoaring32(bytes, "fuzz");
  if (positions.ok()) UsePositions(*positions);
  return 0;
}

int FuzzBitmap64(std::span<const std::byte> bytes) {
  const auto positions = ParseRoaring64(bytes, "fuzz");
  if (positions.ok()) UsePositions(*positions);
  return 0;
}

int FuzzVector(std::span<const std::byte> bytes) {
  std::string frame(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  (void)ParseVector(AsBytes(frame), "fuzz").ok();
  if (frame.size() < 12) return 0;
  const auto size = static_cast<uint32_t>(frame.size() - 8);
  const auto put_big = [&frame](size_t at, uint32_t value) {
    const uint32_t big = __builtin_bswap32(value);
    std::memcpy(frame.data() + at, &big, sizeof big);
  };
  put_big(0, size);
  put_big(frame.size() - 4, static_cast<uint32_t>(crc32_z(
                                0, reinterpret_cast<const Bytef*>(frame.data()) + 4, size)));
  const auto vector = ParseVector(AsBytes(frame), "fuzz");
  if (vector.ok()) UsePositions(vector->positions);
  return 0;
}

int FuzzThrift(std::span<const std::byte> bytes) {
  const auto parsed = ParseThriftStruct(bytes, "fuzz");
  if (!parsed.ok()) return 0;
  const std::string again = EncodeThriftStruct(parsed->value);
  const auto second = ParseThriftStruct(AsBytes(again), "again");
  // NaN is unlike itself, so bytes are compared.
  PF_CHECK(second.ok() && EncodeThriftStruct(second->value) == again, "another tree after a write");
  return 0;
}

int FuzzFooter(std::span<const std::byte> bytes) {
  // The tail stands at the end of a file ten times as long.
  const auto footer =
      ParseParquetFooter(bytes, static_cast<int64_t>(bytes.size()) * 10 + 4, "fuzz.parquet");
  if (!footer.ok()) return 0;
  for (int group = 0; group < footer->row_group_count(); ++group) {
    for (int column = 0; column < footer->leaf_count(); ++column) {
      const auto view = ViewChunk(footer->chunk(group, column), "fuzz.parquet");
      PF_CHECK(view.ok() && view->bytes.end() <= footer->footer_start, "a chunk outside the file");
      (void)footer->column_path(column);
    }
  }
  PF_CHECK(EncodeParquetFooter(footer->tree).ok(), "an accepted footer that is not written");
  return 0;
}

int FuzzBlockCodec(std::span<const std::byte> bytes) {
  if (bytes.empty()) return 0;
  const auto codec = static_cast<BlockCodec>(std::to_integer<int>(bytes[0]) % 5);
  std::string raw;
  const BlockLimits limits{.raw_bytes_max = 4 << 20};
  (void)DecompressBlock(codec, bytes.subspan(1), limits, "fuzz", raw).ok();
  PF_CHECK(raw.size() <= size_t{4} << 20, "more plain bytes than the limit");
  return 0;
}

int FuzzBinaryRow(std::span<const std::byte> bytes) {
  using Kind = BinaryRowType::Kind;
  const auto serialized = ParseSerializedRow(bytes, "fuzz");
  const std::array types = {BinaryRowType{Kind::kBytes},        BinaryRowType{Kind::kDecimal, 30},
                            BinaryRowType{Kind::kTimestamp, 6}, BinaryRowType{Kind::kOpaque},
                            BinaryRowType{Kind::kInt16},        BinaryRowType{Kind::kDecimal, 9}};
  const auto row = BinaryRow::Parse(serialized.ok() ? serialized->row : bytes, types, "fuzz");
  if (!row.ok()) return 0;
  BinaryRowWriter writer(types);
  for (size_t field = 0; field < types.size(); ++field) {
    if (row->IsNull(field)) {
      writer.SetNull();
      continue;
    }
    switch (types[field].kind) {
      case Kind::kDecimal:
        writer.SetDecimal(row->Decimal(field));
        break;
      case Kind::kTimestamp:
        writer.SetTimestamp(row->Timestamp(field));
        break;
      case Kind::kInt16:
        writer.SetInt(row->Int(field));
        break;
      default:
        writer.SetBytes(row->Bytes(field));
        break;
    }
  }
  const std::string again = writer.Finish();
  PF_CHECK(BinaryRow::Parse(AsBytes(again), types, "again").ok(), "a row that is not read again");
  return 0;
}

int FuzzOrcTail(std::span<const std::byte> bytes) {
  partforge::testing::TestWorld world;
  const Context ctx = world.context();
  MemorySource source(bytes);
  const auto tail = ReadOrcTail(ctx, source, "fuzzed");
  if (!tail.ok()) return 0;
  const size_t columns = (*tail)->types.size();
  const size_t known = (*tail)->FileStatistics().size();
  PF_CHECK(known == 0 || known == columns, "statistics of some columns");
  for (size_t i = 0; i < (*tail)->stripes.size(); ++i) {
    for (const OrcColumnStatistics& one : (*tail)->StripeStatistics(i)) {
      PF_CHECK(!one.lower || !one.upper || one.lower->value <= one.upper->value,
               "bounds that contradict each other");
    }
    const auto footer = ReadOrcStripeFooter(ctx, source, **tail, i, "fuzzed");
    if (!footer.ok()) continue;
    for (const OrcStream& stream : footer->streams) {
      PF_CHECK(stream.column < columns && stream.bytes.length >= 0 &&
                   stream.bytes.end() <= (*tail)->stripes[i].end(),
               "a stream outside of its stripe");
    }
  }
  return 0;
}

}  // namespace partforge::fuzz
