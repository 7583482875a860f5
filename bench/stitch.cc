// CPU seconds of joining small Parquet files: as bytes, page by page, and through rows.
//
//   bench_stitch [FILES [ROWS_PER_FILE [REPETITIONS]]]      default 10 100000 3
//
// Two data sets from one seed: "plain" has dictionaries only for columns that repeat (what our own
// sink and parquet-java write), "dictionary" for all of them (pyarrow's default). Ways are
// interleaved; one JSON line a way and data set with the median.

#include <arrow/api.h>
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <map>

#include "data/file_verify.h"
#include "data/parquet_sink.h"
#include "data/parquet_source.h"
#include "data/rewrite_plan.h"
#include "testing/memory_store.h"
#include "testing/test_world.h"

namespace partforge::bench {
namespace {

using namespace partforge::data;  // NOLINT: this file is about nothing else

double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

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

std::shared_ptr<arrow::Schema> Schema() {
  const auto us = arrow::timestamp(arrow::TimeUnit::MICRO);
  return arrow::schema({arrow::field("id", arrow::int64()), arrow::field("ts", us),
                        arrow::field("user", arrow::int32()), arrow::field("city", arrow::utf8()),
                        arrow::field("qty", arrow::int32()),
                        arrow::field("amount", arrow::float64()),
                        arrow::field("note", arrow::utf8())});
}

std::shared_ptr<arrow::RecordBatch> Rows(Random& random, int64_t first, int64_t count) {
  arrow::Int64Builder id;
  arrow::TimestampBuilder ts(Schema()->field(1)->type(), arrow::default_memory_pool());
  arrow::Int32Builder user, qty;
  arrow::StringBuilder city, note;
  arrow::DoubleBuilder amount;
  for (int64_t i = 0; i < count; ++i) {
    Must(id.Append(static_cast<int64_t>(random.Next() >> 1)));
    Must(ts.Append(1'700'000'000'000'000 + (first + i) * 1'000 +
                   static_cast<int64_t>(random.Next() % 1000)));
    Must(user.Append(static_cast<int32_t>(random.Next() % 5000)));
    Must(city.Append(fmt::format("city-{}", random.Next() % 300)));
    Must(qty.Append(static_cast<int32_t>(random.Next() % 20)));
    Must(amount.Append(static_cast<double>(random.Next() % 100'000'000) / 100));
    Must(note.Append(fmt::format("n{:x}", random.Next() % 1'000'000'000'000)));
  }
  return arrow::RecordBatch::Make(
      Schema(), count,
      {id.Finish().ValueOrDie(), ts.Finish().ValueOrDie(), user.Finish().ValueOrDie(),
       city.Finish().ValueOrDie(), qty.Finish().ValueOrDie(), amount.Finish().ValueOrDie(),
       note.Finish().ValueOrDie()});
}

struct Way {
  const char* name;
  int64_t row_group_bytes;
  bool copies_small = false;
  bool decodes = false;
  double deleted_share = 0;
  bool is_clustered = false;
  VerifyMode verify = VerifyMode::kNone;
};

constexpr Way kWays[] = {
    {.name = "copy", .row_group_bytes = 128 << 20, .copies_small = true},
    {.name = "decode", .row_group_bytes = 128 << 20, .decodes = true},
    {.name = "stitch", .row_group_bytes = 128 << 20},
    {.name = "delete 1 % clustered",
     .row_group_bytes = 128 << 20,
     .deleted_share = 0.01,
     .is_clustered = true},
    {.name = "delete 1 % clustered, not joined",
     .row_group_bytes = 128 << 20,
     .copies_small = true,
     .deleted_share = 0.01,
     .is_clustered = true},
    {.name = "delete 0.1 % scattered", .row_group_bytes = 128 << 20, .deleted_share = 0.001},
    {.name = "delete 0.1 %, decode",
     .row_group_bytes = 128 << 20,
     .decodes = true,
     .deleted_share = 0.001},
    {.name = "copy, sampled",
     .row_group_bytes = 128 << 20,
     .copies_small = true,
     .verify = VerifyMode::kSample},
    {.name = "stitch, sampled", .row_group_bytes = 128 << 20, .verify = VerifyMode::kSample},
    {.name = "stitch, verified in full", .row_group_bytes = 128 << 20, .verify = VerifyMode::kFull},
};

class Bench {
 public:
  Bench(int files, int64_t rows, bool all_dictionaries) : rows_(rows) {
    ParquetSinkOptions options;
    const auto schema = Schema();
    if (all_dictionaries) {
      for (const auto& field : schema->fields()) {
        options.columns.push_back({.path = field->name(), .dictionary = DictionaryChoice::kAlways});
      }
    }
    options.dictionary_bytes = all_dictionaries ? 16 << 20 : 1 << 20;
    testing::SeededRandom random(7);
    for (int i = 0; i < files; ++i) {
      const std::string key = fmt::format("in/{}", i);
      auto sink = Must(ParquetSink::Open(ctx_, Must(store_.Create(ctx_, key, -1)), key, Schema(),
                                         options, memory_));
      Must(sink->Write(ctx_, *Rows(random, i * rows, rows)));
      bytes_in_ += Must(sink->Close(ctx_)).size_bytes;
      keys_.push_back(key);
    }
  }

  double Run(const Way& way) {
    std::vector<std::unique_ptr<RowFilter>> filters;
    std::vector<RewriteInput> inputs;
    testing::SeededRandom random(11);
    const double begin = CpuSeconds();
    for (const std::string& key : keys_) {
      Positions deleted;
      const auto count = static_cast<uint64_t>(way.deleted_share * static_cast<double>(rows_));
      if (way.is_clustered) deleted.AddRun({.begin = 1000, .end = 1000 + count});
      for (uint64_t i = 0; i < count && !way.is_clustered; ++i) {
        deleted.Add(random.Next() % static_cast<uint64_t>(rows_));
      }
      filters.push_back(std::make_unique<RowFilter>(std::move(deleted)));
      inputs.push_back({.file = Must(OpenParquetInput(ctx_, Must(store_.Open(ctx_, key)), key)),
                        .deleted = way.deleted_share > 0 ? filters.back().get() : nullptr,
                        .mapping = {.match = MatchBy::kName}});
    }
    RewriteTarget target;
    target.copy.schema = &inputs[0].file->schema();
    target.copy.match = MatchBy::kName;
    target.copy.row_group_bytes = way.row_group_bytes;
    target.copy.small_is_fine = way.copies_small;
    target.decodes_always = way.decodes;
    auto steps = Must(PlanRewrite(inputs, target));
    RollingSink sink(store_,
                     [&](const Context& ctx, int64_t) -> Result<RollingSink::Opened> {
                       RollingSink::Opened opened{.key = "out", .sink = nullptr};
                       ParquetSinkOptions options;
                       options.schema_of = &inputs[0].file->footer;
                       PF_ASSIGN(auto bytes, store_.Create(ctx, "out", -1));
                       PF_ASSIGN(opened.sink, ParquetSink::Open(ctx, std::move(bytes), "out",
                                                                Schema(), options, memory_));
                       return opened;
                     },
                     {.size_bytes = INT64_MAX});
    RewriteCounts counts;
    Must(RunRewrite(ctx_, inputs, steps, target, Schema(), {}, sink, memory_, counts));
    const WrittenFile file = std::move(Must(sink.Close(ctx_))[0]);
    bytes_out_ = file.size_bytes;
    const auto object = Must(store_.Open(ctx_, "out"));
    Must(VerifyRewrite(ctx_, way.verify, {.inputs = inputs, .target = target, .schema = Schema()},
                       {{.bytes = object.get(), .name = "out", .row_count = file.row_count}},
                       memory_));
    kinds_ = fmt::format("{} x {}", steps.size(), StepName(steps[0].kind));
    return CpuSeconds() - begin;
  }

  int64_t bytes_in() const { return bytes_in_; }
  int64_t bytes_out() const { return bytes_out_; }
  const std::string& kinds() const { return kinds_; }

 private:
  const int64_t rows_;
  testing::TestWorld world_{int64_t{4} << 30};
  Context ctx_ = world_.context();
  ArrowMemory memory_{ctx_.memory};
  testing::MemoryStore store_;
  std::vector<std::string> keys_;
  int64_t bytes_in_ = 0, bytes_out_ = 0;
  std::string kinds_;
};

void Main(int files, int64_t rows, int repetitions) {
  for (const bool all_dictionaries : {false, true}) {
    Bench bench(files, rows, all_dictionaries);
    std::map<std::string, std::vector<double>> seconds;
    std::map<std::string, std::string> lines;
    for (int i = 0; i <= repetitions; ++i) {
      for (const Way& way : kWays) {
        const double taken = bench.Run(way);
        if (i > 0) seconds[way.name].push_back(taken);  // the first warms up
        lines[way.name] =
            fmt::format(R"("steps":"{}","bytes_out":{})", bench.kinds(), bench.bytes_out());
      }
    }
    double decode = 0;
    for (auto& [name, taken] : seconds) {
      std::sort(taken.begin(), taken.end());
      if (name == "decode") decode = taken[taken.size() / 2];
    }
    for (const auto& [name, taken] : seconds) {
      const double median = taken[taken.size() / 2];
      fmt::print(R"({{"bench":"stitch","inputs":"{}","way":"{}","rows":{},"bytes_in":{},{},)"
                 R"("cpu_s":{:.3f},"min_s":{:.3f},"max_s":{:.3f},"of_decode":{:.3f}}})"
                 "\n",
                 all_dictionaries ? "dictionary" : "plain", name, files * rows, bench.bytes_in(),
                 lines[name], median, taken.front(), taken.back(), median / decode);
    }
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace partforge::bench

int main(int argc, char** argv) {
  partforge::bench::Main(argc > 1 ? std::atoi(argv[1]) : 10,
                         argc > 2 ? std::atoi(argv[2]) : 100'000,
                         argc > 3 ? std::atoi(argv[3]) : 3);
  return 0;
}
