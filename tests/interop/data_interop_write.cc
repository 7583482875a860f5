// Writes Avro, Puffin and bitmap files for data_interop.py to read with other implementations.
//   data_interop_write GOLDEN_DIR OUT_DIR

#include <arrow/api.h>
#include <fmt/format.h>

#include <cstdio>

#include "base/files.h"
#include "base/hash.h"
#include "data/avro_batches.h"
#include "data/avro_file.h"
#include "data/bitmap.h"
#include "data/memory_bytes.h"
#include "data/puffin.h"
#include "testing/test_world.h"

namespace partforge::data {
namespace {

constexpr BlockCodec kCodecs[] = {BlockCodec::kNone, BlockCodec::kDeflate, BlockCodec::kSnappy,
                                  BlockCodec::kZstd};

// Reads every record as a tree and writes it again under the file's own schema and metadata.
Result<std::string> RewriteAsTrees(const Context& ctx, const std::string& bytes, BlockCodec codec) {
  MemorySource source(AsBytes(bytes));
  PF_ASSIGN(auto reader, AvroFileReader::Open(ctx, source, "golden"));
  AvroMetadata metadata = reader->header().metadata;
  std::erase_if(metadata, [](const auto& entry) { return entry.first.starts_with("avro."); });
  std::string out;
  MemorySink sink(out);
  const AvroSchema& schema = reader->header().schema;
  PF_ASSIGN(auto writer, AvroFileWriter::Open(ctx,
                                              {.schema = schema.text(),
                                               .metadata = std::move(metadata),
                                               .codec = codec,
                                               .block_raw_bytes = 2000},
                                              sink));
  while (true) {
    PF_ASSIGN(const auto block, reader->NextBlock(ctx));
    if (!block) break;
    AvroCursor cursor = reader->CursorOf(*block);
    for (int64_t i = 0; i < block->record_count; ++i) {
      const AvroValue value = DecodeAvroValue(schema.root(), cursor);
      PF_TRY(EncodeAvroValue(schema.root(), value, writer->buffer()));
      PF_TRY(writer->CommitRecord(ctx));
    }
    PF_TRY(reader->CheckBlockEnd(*block, cursor));
  }
  PF_TRY(writer->Flush(ctx));
  return out;
}

// Reads batches and writes them under a schema of our own making.
Result<std::string> RewriteAsBatches(const Context& ctx, const std::string& bytes) {
  MemorySource source(AsBytes(bytes));
  PF_ASSIGN(auto reader, AvroBatchReader::Open(ctx, source, "golden", AvroTimestamps::kAvro,
                                               *arrow::default_memory_pool()));
  PF_ASSIGN(std::string schema, AvroSchemaOf(*reader->schema(), {}));
  std::string out;
  MemorySink sink(out);
  PF_ASSIGN(auto writer,
            AvroBatchWriter::Open(ctx, reader->schema(), {.schema = std::move(schema)}, sink));
  while (true) {
    PF_ASSIGN(const auto batch, reader->Next(ctx, 16, 1 << 20));
    if (batch == nullptr) break;
    PF_TRY(writer->Append(ctx, *batch));
  }
  PF_TRY(writer->Flush(ctx));
  return out;
}

Positions SomePositions(uint64_t shift) {
  Positions positions;
  for (const uint64_t p : {0, 1, 2, 99}) positions.Add(p + shift);
  for (uint64_t p = 70'000; p < 90'000; p += 3) positions.Add(p);
  positions.AddRun({.begin = 200'000, .end = 300'000});
  return positions;
}

Result<std::string> VectorsInPuffin(const Context& ctx) {
  std::string out;
  MemorySink sink(out);
  PF_ASSIGN(auto writer, PuffinWriter::Open(ctx, sink));
  for (uint64_t i = 0; i < 2; ++i) {
    const Positions positions = SomePositions(i);
    PF_ASSIGN(const std::string vector, EncodeVector(positions, VectorLayout::kBits64));
    PuffinBlob blob{.type = "deletion-vector-v1",
                    .fields = {2147483645},
                    .properties = {{"referenced-data-file", fmt::format("f{}.parquet", i)},
                                   {"cardinality", std::to_string(positions.cardinality())}}};
    PF_TRY(writer->Append(ctx, std::move(blob), AsBytes(vector)));
  }
  PF_TRY(writer->Finish(ctx, {{"created-by", "partforge"}}));
  return out;
}

Status WriteAll(const std::filesystem::path& golden, const std::filesystem::path& out) {
  testing::TestWorld world;
  const Context ctx = world.context();
  const auto put = [&out](const std::string& name, Result<std::string> bytes) -> Status {
    if (!bytes.ok()) return std::move(bytes).status().With(name);
    return WriteFileDurably(out / name, *bytes);
  };
  PF_ASSIGN(const std::string rows, ReadFile(golden / "fastavro_null.avro"));
  PF_ASSIGN(const std::string manifest, ReadFile(golden / "pyiceberg_manifest.avro"));
  PF_ASSIGN(const std::string list, ReadFile(golden / "pyiceberg_manifest_list.avro"));
  for (const BlockCodec codec : kCodecs) {
    PF_TRY(
        put(fmt::format("trees_{}.avro", AvroCodecName(codec)), RewriteAsTrees(ctx, rows, codec)));
  }
  PF_TRY(put("batches.avro", RewriteAsBatches(ctx, rows)));
  PF_TRY(put("manifest.avro", RewriteAsTrees(ctx, manifest, BlockCodec::kDeflate)));
  PF_TRY(put("manifest_list.avro", RewriteAsTrees(ctx, list, BlockCodec::kZstd)));
  PF_TRY(put("vectors.puffin", VectorsInPuffin(ctx)));
  PF_TRY(put("bitmap32.bin", EncodeRoaring32(SomePositions(0))));
  Positions wide = SomePositions(0);
  wide.Add((uint64_t{3} << 32) + 7);
  return put("bitmap64.bin", EncodeRoaring64(wide));
}

}  // namespace
}  // namespace partforge::data

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: data_interop_write GOLDEN_DIR OUT_DIR\n");
    return 2;
  }
  const partforge::Status status = partforge::data::WriteAll(argv[1], argv[2]);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
