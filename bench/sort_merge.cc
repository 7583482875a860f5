// One measured run of the data room's sort or merge, as one JSON line; bench/data_room.py compares.
//
//   bench_sort_merge sort IN.parquet OUT.parquet KEY[,KEY…]
//       reads, sorts (spilling beyond 64 MiB), writes
//   bench_sort_merge runs FOLDER ROWS SOURCES
//       makes sorted runs of 100-byte rows as Parquet files, their keys interleaved at random
//   bench_sort_merge merge FOLDER SOURCES
//       merges them, decoding and gathering included
//   bench_sort_merge merge-memory ROWS SOURCES
//       merges such runs that are in memory: gathering alone

#include <arrow/api.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "data/file_merge.h"
#include "data/parquet_sink.h"
#include "data/parquet_source.h"
#include "data/sort_merge.h"
#include "store/local_store.h"
#include "testing/test_world.h"

namespace partforge::bench {
namespace {

using namespace partforge::data;  // NOLINT: this file is about nothing else

constexpr int64_t kBudgetBytes = int64_t{512} << 20;
constexpr int64_t kBatchRows = 8'192;

template <class T>
T Must(Result<T> result) {
  PF_CHECK(result.ok(), result.status().ToString());
  return std::move(result).value();
}
void Must(const Status& status) {
  PF_CHECK(status.ok(), status.ToString());
}
void Must(const arrow::Status& status) {
  PF_CHECK(status.ok(), status.ToString());
}

double Seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}
double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return Seconds(usage.ru_utime) + Seconds(usage.ru_stime);
}
double WallSeconds() {
  timeval now{};
  gettimeofday(&now, nullptr);
  return Seconds(now);
}
int64_t PeakBytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss * 1024;
}

class Watch {
 public:
  void Print(std::string_view way, int64_t rows) const {
    const double cpu = CpuSeconds() - cpu_, wall = WallSeconds() - wall_;
    fmt::print(
        R"({{"way":"{}","rows":{},"cpu_s":{:.3f},"wall_s":{:.3f},"rows_per_cpu_s":{:.0f},"rows_per_s":{:.0f},)"
        R"("peak_rss_bytes":{}}})"
        "\n",
        way, rows, cpu, wall, static_cast<double>(rows) / cpu, static_cast<double>(rows) / wall,
        PeakBytes());
  }

 private:
  const double cpu_ = CpuSeconds();
  const double wall_ = WallSeconds();
};

std::vector<SortColumn> Columns(std::string_view names) {
  std::vector<SortColumn> columns;
  while (!names.empty()) {
    const size_t comma = std::min(names.find(','), names.size());
    columns.push_back({.name = std::string(names.substr(0, comma))});
    names.remove_prefix(std::min(comma + 1, names.size()));
  }
  return columns;
}

void SortFile(const std::string& in, const std::string& out, std::string_view keys) {
  namespace fs = std::filesystem;
  testing::TestWorld world(kBudgetBytes);
  const Context ctx = world.context();
  ArrowMemory memory(ctx.memory);
  const fs::path from = fs::absolute(in), to = fs::absolute(out);
  LocalStore inputs(from.parent_path()), outputs(to.parent_path());
  SpillSpace space(to.parent_path(), int64_t{64} << 30);
  const Watch watch;
  auto source = Must(
      ParquetSource::Open(ctx, Must(inputs.Open(ctx, from.filename().string())), in, {}, memory));
  const auto schema = source->schema();
  const auto encoder = Must(MakeKeyEncoder(schema, Columns(keys)));
  auto sink = Must(ParquetSink::Open(ctx, Must(outputs.Create(ctx, to.filename().string(), -1)),
                                     out, schema, {.codec_level = 3}, memory));
  int64_t rows = 0;
  {
    const auto sorted = Must(Sort(ctx, *source, *encoder, {}, space, memory));
    while (const auto batch = Must(sorted->Next(ctx))) {
      rows += batch->num_rows();
      Must(sink->Write(ctx, *batch));
    }
  }
  Must(sink->Close(ctx));
  watch.Print("sort", rows);
}

// Rows of 100 bytes: a key, two numbers, a text of 76 bytes.
std::shared_ptr<arrow::Schema> MergeSchema() {
  return arrow::schema(
      {arrow::field("key", arrow::int64(), false), arrow::field("a", arrow::int64(), false),
       arrow::field("b", arrow::int64(), false), arrow::field("text", arrow::utf8(), false)});
}

// A sorted run, made batch by batch: keys grow by random steps, so that those of several runs
// interleave.
class MadeRun final : public BatchSource {
 public:
  MadeRun(uint64_t seed, int64_t rows) : random_(seed), rows_left_(rows) {}
  const std::shared_ptr<arrow::Schema>& schema() const override { return schema_; }
  Result<std::shared_ptr<arrow::RecordBatch>> Next(const Context&) override {
    const int64_t count = std::min(kBatchRows, rows_left_);
    if (count == 0) return std::shared_ptr<arrow::RecordBatch>();
    rows_left_ -= count;
    arrow::Int64Builder key, a, b;
    arrow::StringBuilder texts;
    Must(texts.ReserveData(count * kTextBytes));
    std::string text(kTextBytes, ' ');
    for (int64_t i = 0; i < count; ++i) {
      key_ += static_cast<int64_t>(random_.Next() % 1'000'000);
      Must(key.Append(key_));
      Must(a.Append(static_cast<int64_t>(random_.Next() % 100'000'000)));
      Must(b.Append(rows_left_ - i));
      for (size_t c = 0; c < text.size(); c += 4) {
        // Syllables: about as much in a byte as words have.
        const uint64_t drawn = random_.Next();
        for (size_t k = 0; k < 4; ++k) text[c + k] = "etaoinshrdlucmfw"[(drawn >> (8 * k)) & 15];
      }
      Must(texts.Append(text));
    }
    return arrow::RecordBatch::Make(MergeSchema(), count,
                                    {key.Finish().ValueOrDie(), a.Finish().ValueOrDie(),
                                     b.Finish().ValueOrDie(), texts.Finish().ValueOrDie()});
  }

 private:
  static constexpr int64_t kTextBytes = 76;
  const std::shared_ptr<arrow::Schema> schema_ = MergeSchema();
  testing::SeededRandom random_;
  int64_t rows_left_;
  int64_t key_ = 0;
};

class HeldRun final : public BatchSource {
 public:
  HeldRun(const Context& ctx, uint64_t seed, int64_t rows) {
    MadeRun run(seed, rows);
    while (auto batch = Must(run.Next(ctx))) batches_.push_back(std::move(batch));
  }
  const std::shared_ptr<arrow::Schema>& schema() const override { return schema_; }
  Result<std::shared_ptr<arrow::RecordBatch>> Next(const Context&) override {
    return next_ < batches_.size() ? batches_[next_++] : nullptr;
  }

 private:
  const std::shared_ptr<arrow::Schema> schema_ = MergeSchema();
  std::vector<std::shared_ptr<arrow::RecordBatch>> batches_;
  size_t next_ = 0;
};

std::string RunName(int64_t i) {
  return fmt::format("run-{}.parquet", i);
}

void MakeRuns(const std::string& folder, int64_t rows, int64_t source_count) {
  testing::TestWorld world(kBudgetBytes);
  const Context ctx = world.context();
  ArrowMemory memory(ctx.memory);
  LocalStore store(folder);
  for (int64_t i = 0; i < source_count; ++i) {
    MadeRun run(static_cast<uint64_t>(i + 1), rows / source_count);
    auto sink = Must(ParquetSink::Open(ctx, Must(store.Create(ctx, RunName(i), -1)), RunName(i),
                                       MergeSchema(), {}, memory));
    while (const auto batch = Must(run.Next(ctx))) Must(sink->Write(ctx, *batch));
    Must(sink->Close(ctx));
  }
}

// Reads a merge to its end. `watch` began before its sources were opened.
void Drain(std::string_view way, BatchSource& merged, const Watch& watch, const Context& ctx) {
  int64_t seen = 0;
  while (const auto batch = Must(merged.Next(ctx))) seen += batch->num_rows();
  watch.Print(way, seen);
}

void MergeRuns(const std::string& folder, int64_t source_count) {
  testing::TestWorld world(kBudgetBytes);
  const Context ctx = world.context();
  ArrowMemory memory(ctx.memory);
  LocalStore store(folder);
  const auto encoder = Must(MakeKeyEncoder(MergeSchema(), {{.name = "key"}}));
  const Watch watch;
  std::vector<MergeFile> files;
  for (int64_t i = 0; i < source_count; ++i) {
    files.push_back(
        {.scan = {},
         .open = [&, i](const Context& c, ScanSpec scan) -> Result<std::unique_ptr<BatchSource>> {
           PF_ASSIGN(auto object, store.Open(c, RunName(i)));
           PF_ASSIGN(auto source, ParquetSource::Open(c, std::move(object), RunName(i),
                                                      std::move(scan), memory));
           return std::unique_ptr<BatchSource>(std::move(source));
         }});
  }
  SpillSpace space(folder, int64_t{64} << 30);
  const auto merged = Must(MergeFiles(ctx, std::move(files), *encoder, nullptr,
                                      {.memory_bytes = kBudgetBytes}, space, memory));
  Drain("merge", *merged, watch, ctx);
}

void MergeMemory(int64_t rows, int64_t source_count) {
  testing::TestWorld world(kBudgetBytes);
  const Context ctx = world.context();
  ArrowMemory memory(ctx.memory);
  const auto encoder = Must(MakeKeyEncoder(MergeSchema(), {{.name = "key"}}));
  std::vector<std::unique_ptr<BatchSource>> sources;
  for (int64_t i = 0; i < source_count; ++i) {
    sources.push_back(
        std::make_unique<HeldRun>(ctx, static_cast<uint64_t>(i + 1), rows / source_count));
  }
  const Watch watch;
  const auto merged = Must(MergeSorted(ctx, std::move(sources), *encoder, nullptr, {}, memory));
  Drain("merge-memory", *merged, watch, ctx);
}

}  // namespace
}  // namespace partforge::bench

int main(int argc, char** argv) {
  using namespace partforge::bench;  // NOLINT
  const std::string verb = argc > 1 ? argv[1] : "";
  if (verb == "sort" && argc == 5) {
    SortFile(argv[2], argv[3], argv[4]);
  } else if (verb == "runs" && argc == 5) {
    MakeRuns(argv[2], std::atoll(argv[3]), std::atoll(argv[4]));
  } else if (verb == "merge" && argc == 4) {
    MergeRuns(argv[2], std::atoll(argv[3]));
  } else if (verb == "merge-memory" && argc == 4) {
    MergeMemory(std::atoll(argv[2]), std::atoll(argv[3]));
  } else {
    fmt::print(stderr,
               "bench_sort_merge sort IN OUT KEYS | runs FOLDER ROWS SOURCES | merge FOLDER SOURCES"
               " | merge-memory ROWS SOURCES\n");
    return 2;
  }
  return 0;
}
