// One measured run of the data room's sort or merge, as one JSON line; bench/data_room.py compares.
//
//   bench_sort_merge sort IN.parquet OUT.parquet KEY[,KEY…]   reads, sorts (spilling beyond 64
//   MiB),
//                                                             writes
//   bench_sort_merge merge ROWS [SOURCES]   merges sorted runs of 100-byte rows that are in memory,
//                                           their keys interleaved at random

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
    const double cpu = CpuSeconds() - cpu_;
    fmt::print(R"({{"way":"{}","rows":{},"cpu_s":{:.3f},"wall_s":{:.3f},"rows_per_cpu_s":{:.0f},)"
               R"("peak_rss_bytes":{}}})"
               "\n",
               way, rows, cpu, WallSeconds() - wall_, static_cast<double>(rows) / cpu, PeakBytes());
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

std::vector<std::shared_ptr<arrow::RecordBatch>> SortedRun(Random& random, int64_t rows,
                                                           int64_t key_max) {
  std::vector<int64_t> keys(static_cast<size_t>(rows));
  for (int64_t& key : keys)
    key = static_cast<int64_t>(random.Next() % static_cast<uint64_t>(key_max));
  std::sort(keys.begin(), keys.end());
  std::vector<std::shared_ptr<arrow::RecordBatch>> batches;
  const std::string text(76, 'x');
  for (int64_t begin = 0; begin < rows; begin += kBatchRows) {
    const int64_t count = std::min(kBatchRows, rows - begin);
    arrow::Int64Builder key, a, b;
    arrow::StringBuilder texts;
    Must(texts.ReserveData(count * 76));
    for (int64_t i = 0; i < count; ++i) {
      Must(key.Append(keys[static_cast<size_t>(begin + i)]));
      Must(a.Append(begin + i));
      Must(b.Append(-begin - i));
      Must(texts.Append(text));
    }
    batches.push_back(
        arrow::RecordBatch::Make(MergeSchema(), count,
                                 {key.Finish().ValueOrDie(), a.Finish().ValueOrDie(),
                                  b.Finish().ValueOrDie(), texts.Finish().ValueOrDie()}));
  }
  return batches;
}

// Hands out a run again and again, so that many rows need little memory.
class RunSource final : public BatchSource {
 public:
  explicit RunSource(std::vector<std::shared_ptr<arrow::RecordBatch>> batches)
      : schema_(MergeSchema()), batches_(std::move(batches)) {}
  const std::shared_ptr<arrow::Schema>& schema() const override { return schema_; }
  Result<std::shared_ptr<arrow::RecordBatch>> Next(const Context&) override {
    return next_ < batches_.size() ? batches_[next_++] : nullptr;
  }

 private:
  const std::shared_ptr<arrow::Schema> schema_;
  const std::vector<std::shared_ptr<arrow::RecordBatch>> batches_;
  size_t next_ = 0;
};

void Merge(int64_t rows, int64_t source_count) {
  // The runs themselves are outside the budget: they stand for files.
  testing::TestWorld world(kBudgetBytes);
  const Context ctx = world.context();
  ArrowMemory memory(ctx.memory);
  testing::SeededRandom random(5);
  std::vector<std::unique_ptr<BatchSource>> sources;
  for (int64_t i = 0; i < source_count; ++i) {
    sources.push_back(
        std::make_unique<RunSource>(SortedRun(random, rows / source_count, int64_t{1} << 40)));
  }
  const auto encoder = Must(MakeKeyEncoder(MergeSchema(), {{.name = "key"}}));
  const Watch watch;
  const auto merged = Must(MergeSorted(ctx, std::move(sources), *encoder, nullptr, {}, memory));
  int64_t seen = 0;
  while (const auto batch = Must(merged->Next(ctx))) seen += batch->num_rows();
  watch.Print("merge", seen);
}

}  // namespace
}  // namespace partforge::bench

int main(int argc, char** argv) {
  using namespace partforge::bench;  // NOLINT
  const std::string verb = argc > 1 ? argv[1] : "";
  if (verb == "sort" && argc == 5) {
    SortFile(argv[2], argv[3], argv[4]);
  } else if (verb == "merge" && argc > 2) {
    Merge(std::atoll(argv[2]), argc > 3 ? std::atoll(argv[3]) : 8);
  } else {
    fmt::print(stderr, "bench_sort_merge sort IN OUT KEYS | merge ROWS [SOURCES]\n");
    return 2;
  }
  return 0;
}
