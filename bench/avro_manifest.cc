// How fast manifests are read: 100,000 entries with metrics of 20 columns, zstd, decoded into
// structs. Prints one JSON line.

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>

#include "base/hash.h"
#include "data/avro_file.h"
#include "data/memory_bytes.h"
#include "testing/test_world.h"

namespace partforge::data {
namespace {

constexpr int kEntries = 100'000;
constexpr int kColumns = 20;

using Counts = std::vector<std::pair<int32_t, int64_t>>;
using Bounds = std::vector<std::pair<int32_t, std::string>>;
struct File {
  std::string path;
  int64_t record_count = 0, size_bytes = 0;
  Counts column_sizes, value_counts, null_counts;
  Bounds lower, upper;
  std::optional<std::vector<int64_t>> split_offsets;
};
struct Entry {
  int32_t status = 1;
  std::optional<int64_t> snapshot_id;
  File file;
};
// What planning needs when nothing is pruned by bounds.
struct ShortEntry {
  int32_t status = 1;
  File file;
};

AvroBinding<Entry> FullBinding() {
  const auto file = AvroBinding<File>()
                        .Require<&File::path>({100, "file_path"})
                        .Require<&File::record_count>({103, "record_count"})
                        .Require<&File::size_bytes>({104, "file_size_in_bytes"})
                        .Field<&File::column_sizes>({108, "column_sizes"})
                        .Field<&File::value_counts>({109, "value_counts"})
                        .Field<&File::null_counts>({110, "null_value_counts"})
                        .Field<&File::lower>({125, "lower_bounds"})
                        .Field<&File::upper>({128, "upper_bounds"})
                        .Field<&File::split_offsets>({132, "split_offsets"});
  return AvroBinding<Entry>()
      .Require<&Entry::status>({0, "status"})
      .Field<&Entry::snapshot_id>({1, "snapshot_id"})
      .Nest<&Entry::file>({2, "data_file"}, file, AvroPresence::kRequired);
}

AvroBinding<ShortEntry> ShortBinding() {
  const auto file = AvroBinding<File>()
                        .Require<&File::path>({100, "file_path"})
                        .Require<&File::record_count>({103, "record_count"})
                        .Require<&File::size_bytes>({104, "file_size_in_bytes"});
  return AvroBinding<ShortEntry>()
      .Require<&ShortEntry::status>({0, "status"})
      .Nest<&ShortEntry::file>({2, "data_file"}, file, AvroPresence::kRequired);
}

std::string SchemaText() {
  const auto map = [](std::string_view name, int id, int key, std::string_view value) {
    return fmt::format(
        R"({{"name":"{0}","type":["null",{{"type":"array","logicalType":"map","items":{{"type":"record","name":"k{2}_v{3}","fields":[{{"name":"key","type":"int","field-id":{2}}},{{"name":"value","type":"{4}","field-id":{3}}}]}}}}],"default":null,"field-id":{1}}})",
        name, id, key, key + 1, value);
  };
  return fmt::format(
      R"({{"type":"record","name":"manifest_entry","fields":[{{"name":"status","type":"int","field-id":0}},
      {{"name":"snapshot_id","type":["null","long"],"default":null,"field-id":1}},
      {{"name":"data_file","field-id":2,"type":{{"type":"record","name":"r2","fields":[
      {{"name":"file_path","type":"string","field-id":100}},{{"name":"record_count","type":"long","field-id":103}},
      {{"name":"file_size_in_bytes","type":"long","field-id":104}},{},{},{},{},{},
      {{"name":"split_offsets","type":["null",{{"type":"array","items":"long","element-id":133}}],"default":null,"field-id":132}}]}}}}]}})",
      map("column_sizes", 108, 117, "long"), map("value_counts", 109, 119, "long"),
      map("null_value_counts", 110, 121, "long"), map("lower_bounds", 125, 126, "bytes"),
      map("upper_bounds", 128, 129, "bytes"));
}

std::string Manifest(const Context& ctx) {
  std::string bytes;
  MemorySink sink(bytes);
  auto writer = AvroRecordWriter<Entry>::Open(
                    ctx, {.schema = SchemaText(), .codec = BlockCodec::kZstd, .level = 3}, sink,
                    FullBinding())
                    .value();
  uint64_t state = 7;
  const auto draw = [&state](uint64_t bound) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<int64_t>((state >> 33) % bound);
  };
  for (int i = 0; i < kEntries; ++i) {
    Entry entry{.snapshot_id = 8'744'736'658'442'914'487, .file = {}};
    entry.file.path = fmt::format(
        "s3://bucket/warehouse/db/table/data/ts_day=2024-01-{:02}/{:05}.parquet", i % 31, i);
    entry.file.record_count = 1'000'000 + draw(1000);
    entry.file.size_bytes = (int64_t{128} << 20) + draw(1 << 20);
    for (int c = 1; c <= kColumns; ++c) {
      entry.file.column_sizes.emplace_back(c, draw(10 << 20));
      entry.file.value_counts.emplace_back(c, entry.file.record_count);
      entry.file.null_counts.emplace_back(c, draw(1000));
      const int64_t low = draw(uint64_t{1} << 40);
      std::string bound(reinterpret_cast<const char*>(&low), sizeof low);
      entry.file.lower.emplace_back(c, bound);
      entry.file.upper.emplace_back(c, bound);
    }
    entry.file.split_offsets = {4, 64 << 20};
    (void)writer.Append(ctx, entry).ok();
  }
  (void)writer.Flush(ctx).ok();
  return bytes;
}

// CPU time of this process: the machine may be busy with other things.
double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

template <class T>
void Measure(const Context& ctx, const std::string& bytes, std::string_view name,
             const AvroBinding<T>& binding) {
  double best_seconds = 1e9;
  int64_t rows = 0;
  for (int round = 0; round < 5; ++round) {
    const double begin = CpuSeconds();
    MemorySource source(AsBytes(bytes));
    auto reader = AvroRecordReader<T>::Open(ctx, source, "bench.avro", binding).value();
    T record;
    rows = 0;
    while (reader.Next(ctx, record).value()) rows += record.file.record_count > 0 ? 1 : 0;
    const double seconds = CpuSeconds() - begin;
    best_seconds = std::min(best_seconds, seconds);
  }
  fmt::print(
      R"({{"bench":"avro_manifest","fields":"{}","entries":{},"stored_bytes":{},"cpu_seconds":{:.4f},"entries_per_second":{:.0f}}})"
      "\n",
      name, rows, bytes.size(), best_seconds, static_cast<double>(rows) / best_seconds);
}

}  // namespace
}  // namespace partforge::data

int main() {
  partforge::testing::TestWorld world;
  const auto ctx = world.context();
  const std::string bytes = partforge::data::Manifest(ctx);
  partforge::data::Measure(ctx, bytes, "all", partforge::data::FullBinding());
  partforge::data::Measure(ctx, bytes, "path and counts", partforge::data::ShortBinding());
  return 0;
}
