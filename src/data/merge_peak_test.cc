// Memory of large sorts and merges, as the kernel counts it, in processes of their own.

#include <arrow/api.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <fstream>

#include "base/process.h"
#include "data/file_merge.h"
#include "data/parquet_sink.h"
#include "data/parquet_source.h"
#include "data/sort_merge.h"
#include "store/local_store.h"
#include "testing/test_world.h"

namespace partforge::data {
namespace {

constexpr int64_t kMebibyte = int64_t{1} << 20;
constexpr int64_t kLongMs = 1'800'000;
constexpr int64_t kTextBytes = 84;
constexpr int64_t kRowBytes = kTextBytes + 4 + 8 + 4;
constexpr int64_t kSources = 256;

// PARTFORGE_PEAK_MIB: how much is merged; small where nobody asks for more.
int64_t TotalMebibytes() {
  const char* const text = std::getenv("PARTFORGE_PEAK_MIB");
  return text == nullptr || *text == '\0' ? 96 : std::strtoll(text, nullptr, 10);
}

std::shared_ptr<arrow::Schema> Schema() {
  return arrow::schema({arrow::field("k", arrow::int64(), false),
                        arrow::field("text", arrow::utf8(), false),
                        arrow::field("n", arrow::int32(), false)});
}

enum class Texts : uint8_t { kMostlyAlike, kNoise };

// Rows made as they are asked for, sorted or not; their buffers are charged like those of a reader.
class MadeRows final : public BatchSource {
 public:
  MadeRows(uint64_t seed, int64_t rows, int64_t batch_rows, bool is_sorted, ArrowMemory& memory,
           Texts text_kind = Texts::kMostlyAlike)
      : random_(seed),
        rows_left_(rows),
        batch_rows_(batch_rows),
        is_sorted_(is_sorted),
        text_kind_(text_kind),
        memory_(memory) {}
  const std::shared_ptr<arrow::Schema>& schema() const override { return schema_; }

  Result<std::shared_ptr<arrow::RecordBatch>> Next(const Context&) override {
    const int64_t count = std::min(batch_rows_, rows_left_);
    if (count == 0) return std::shared_ptr<arrow::RecordBatch>();
    rows_left_ -= count;
    PF_ARROW_ASSIGN(std::shared_ptr<arrow::Buffer> keys,
                    arrow::AllocateBuffer(count * 8, memory_.pool()));
    PF_ARROW_ASSIGN(std::shared_ptr<arrow::Buffer> ends,
                    arrow::AllocateBuffer((count + 1) * 4, memory_.pool()));
    PF_ARROW_ASSIGN(std::shared_ptr<arrow::Buffer> texts,
                    arrow::AllocateBuffer(count * kTextBytes, memory_.pool()));
    PF_ARROW_ASSIGN(std::shared_ptr<arrow::Buffer> numbers,
                    arrow::AllocateBuffer(count * 4, memory_.pool()));
    auto* key = reinterpret_cast<int64_t*>(keys->mutable_data());
    auto* end = reinterpret_cast<int32_t*>(ends->mutable_data());
    auto* number = reinterpret_cast<int32_t*>(numbers->mutable_data());
    // A part of a text is noise, so that spilled rows are not nothing.
    std::memset(texts->mutable_data(), 'x', static_cast<size_t>(texts->size()));
    for (int64_t i = 0; i < count; ++i) {
      const uint64_t word = random_.Next();
      key_ =
          is_sorted_ ? key_ + static_cast<int64_t>(word % 1000) : static_cast<int64_t>(word >> 1);
      key[i] = key_;
      number[i] = static_cast<int32_t>(i);
      end[i] = static_cast<int32_t>(i * kTextBytes);
      const int64_t noise = text_kind_ == Texts::kNoise ? kTextBytes : int64_t{sizeof word};
      for (int64_t at = 0; at + int64_t{sizeof word} <= noise; at += int64_t{sizeof word}) {
        const uint64_t drawn = at == 0 ? word : random_.Next();
        std::memcpy(texts->mutable_data() + i * kTextBytes + at, &drawn, sizeof drawn);
      }
    }
    end[count] = static_cast<int32_t>(count * kTextBytes);
    return arrow::RecordBatch::Make(
        schema_, count,
        arrow::ArrayVector{std::make_shared<arrow::Int64Array>(count, keys),
                           std::make_shared<arrow::StringArray>(count, ends, texts),
                           std::make_shared<arrow::Int32Array>(count, numbers)});
  }

 private:
  const std::shared_ptr<arrow::Schema> schema_ = Schema();
  partforge::testing::SeededRandom random_;
  int64_t rows_left_;
  const int64_t batch_rows_;
  const bool is_sorted_;
  const Texts text_kind_;
  ArrowMemory& memory_;
  int64_t key_ = 0;
};

int64_t StatusKibibytes(std::string_view name) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(name)) return std::strtoll(line.c_str() + name.size() + 1, nullptr, 10);
  }
  return -1;
}

// Reads to the end, or to so many rows, and checks the order. Rows read.
int64_t Drain(const Context& ctx, BatchSource& source, int64_t rows_max = INT64_MAX) {
  int64_t rows = 0, last = INT64_MIN;
  while (rows < rows_max) {
    const auto batch = source.Next(ctx);
    PF_CHECK(batch.ok(), batch.status().ToString());
    if (*batch == nullptr) return rows;
    const auto& keys = static_cast<const arrow::Int64Array&>(*(*batch)->column(0));
    for (int64_t i = 0; i < keys.length(); ++i) {
      PF_CHECK(keys.Value(i) >= last, "rows out of order");
      last = keys.Value(i);
    }
    rows += keys.length();
  }
  return rows;
}

std::unique_ptr<KeyEncoder> Keys() {
  return MakeKeyEncoder(Schema(), {{.name = "k"}}).value();
}

// What libraries take once is not the merge's: that is taken before memory is looked at.
class Growth {
 public:
  Growth(const Context& ctx, ArrowMemory& memory) {
    partforge::testing::TempDir dir;
    MadeRows few(1, 5000, 1000, false, memory);
    SpillSpace space(dir.path(), kMebibyte * 64);
    Drain(ctx, *Sort(ctx, few, *Keys(), {.run_bytes = 100'000}, space, memory).value());
    std::ofstream("/proc/self/clear_refs") << "5";  // VmHWM begins anew
    before_ = StatusKibibytes("VmRSS:");
  }
  void Print(const Context& ctx, int64_t rows) const {
    fmt::print("grew {} KiB of {} rows {} budget {}\n", StatusKibibytes("VmHWM:") - before_,
               ctx.memory.limit_bytes() / 1024, rows, ctx.memory.peak_bytes() / 1024);
    std::fflush(stdout);
  }

 private:
  int64_t before_ = 0;
};

// Each of these runs in a process of its own.

TEST(MergePeak, DISABLED_Sort) {
  constexpr int64_t kGrantBytes = 48 * kMebibyte;
  partforge::testing::TestWorld world(kGrantBytes);
  const Context ctx = world.context();
  ArrowMemory memory(ctx.memory);
  partforge::testing::TempDir dir;
  SpillSpace space(dir.path(), int64_t{64} << 30);
  const auto keys = Keys();
  const Growth growth(ctx, memory);
  MadeRows input(7, TotalMebibytes() * kMebibyte / kRowBytes, 4096, false, memory);
  const int64_t rows =
      Drain(ctx, *Sort(ctx, input, *keys, {.run_bytes = kGrantBytes / 3}, space, memory).value());
  PF_CHECK(space.total_bytes() > 0, "nothing was spilled");
  growth.Print(ctx, rows);
}

TEST(MergePeak, DISABLED_Merge) {
  // Of each source a batch in use, the one being made, and keys: 75 MiB of the grant.
  constexpr int64_t kBatchRows = 1024;
  partforge::testing::TestWorld world(128 * kMebibyte);
  const Context ctx = world.context();
  ArrowMemory memory(ctx.memory);
  const auto keys = Keys();
  const Growth growth(ctx, memory);
  std::vector<std::unique_ptr<BatchSource>> sources;
  for (int64_t i = 0; i < kSources; ++i) {
    sources.push_back(std::make_unique<MadeRows>(
        static_cast<uint64_t>(i), TotalMebibytes() * kMebibyte / kRowBytes / kSources, kBatchRows,
        true, memory));
  }
  growth.Print(
      ctx, Drain(ctx, *MergeSorted(ctx, std::move(sources), *keys, nullptr, {}, memory).value()));
}

int64_t RowsOfMerge() {
  return TotalMebibytes() * kMebibyte / kRowBytes;
}

std::string FileName(int64_t i) {
  return fmt::format("{}.parquet", i);
}

// Merges of files are proven at full size where much is merged, else at a quarter of it.
int64_t BudgetBytes() {
  return (TotalMebibytes() >= 1024 ? 512 : 128) * kMebibyte;
}
int64_t RowGroupBytes() {
  return BudgetBytes() / 128;
}

// 256 names of eight files, of more than one row group each, as different writers make them.
void MakeFiles(const std::filesystem::path& folder) {
  constexpr int64_t kKinds = 8;
  constexpr ParquetCodec kCodecs[] = {ParquetCodec::kZstd, ParquetCodec::kSnappy,
                                      ParquetCodec::kLz4Raw, ParquetCodec::kNone};
  partforge::testing::TestWorld world(512 * kMebibyte);
  const Context ctx = world.context();
  ArrowMemory memory(ctx.memory);
  LocalStore store(folder);
  const int64_t rows =
      std::max(TotalMebibytes() / kSources * kMebibyte, RowGroupBytes() * 3 / 2) / kRowBytes;
  for (int64_t i = 0; i < kSources; ++i) {
    if (i >= kKinds) {
      PF_CHECK(store.Link(ctx, FileName(i % kKinds), FileName(i)).ok(), "a link");
      continue;
    }
    ParquetSinkOptions options{.codec = kCodecs[i % 4], .row_group_bytes = RowGroupBytes()};
    if (i >= 4) options.columns.push_back({.path = "k", .encoding = ValueEncoding::kDelta});
    auto sink = ParquetSink::Open(ctx, store.Create(ctx, FileName(i), -1).value(), FileName(i),
                                  Schema(), options, memory);
    MadeRows source(static_cast<uint64_t>(i), rows, 1024, true, memory, Texts::kNoise);
    while (const auto batch = source.Next(ctx).value()) {
      PF_CHECK((*sink)->Write(ctx, *batch).ok(), "rows written");
    }
    PF_CHECK((*sink)->Close(ctx).ok(), "a file written");
  }
}

TEST(MergePeak, DISABLED_MergeFiles) {
  partforge::testing::TestWorld world(BudgetBytes());
  const Context ctx = world.context();
  ArrowMemory memory(ctx.memory);
  const auto keys = Keys();
  LocalStore store(std::getenv("PARTFORGE_PEAK_FILES"));
  const Growth growth(ctx, memory);
  std::vector<MergeFile> files;
  for (int64_t i = 0; i < kSources; ++i) {
    files.push_back(
        {.scan = {.wanted = Schema(), .mapping = {.match = MatchBy::kName}},
         .open = [&, i](const Context& c, ScanSpec scan) -> Result<std::unique_ptr<BatchSource>> {
           PF_ASSIGN(auto object, store.Open(c, FileName(i)));
           PF_ASSIGN(auto source, ParquetSource::Open(c, std::move(object), FileName(i),
                                                      std::move(scan), memory));
           return std::unique_ptr<BatchSource>(std::move(source));
         }});
  }
  partforge::testing::TempDir dir;
  SpillSpace space(dir.path(), int64_t{64} << 30);
  auto merged = MergeFiles(ctx, std::move(files), *keys, nullptr, {.memory_bytes = BudgetBytes()},
                           space, memory);
  ASSERT_TRUE(merged.ok()) << merged.status().ToString();
  // All files have the same range of keys, so their row groups are opened side by side: when few
  // rows are wanted, the first of each.
  growth.Print(ctx, Drain(ctx, **merged, RowsOfMerge()));
}

struct Peak {
  int64_t grown_kib = -1, grant_kib = 0, rows = 0;
};

void Measure(const std::string& role, const std::string& folder, Peak& peak) {
  partforge::testing::TestWorld world;
  const auto child =
      ChildProcess::Start({.argv = {SelfPath().string(), "--gtest_also_run_disabled_tests",
                                    "--gtest_filter=MergePeak.DISABLED_" + role},
                           .environment = {{"PARTFORGE_PEAK_FILES", folder}},
                           .captures_stdout = true});
  ASSERT_TRUE(child.ok());
  while (true) {
    const auto line = (*child)->ReadLine(world.context(), kLongMs);
    ASSERT_TRUE(line.ok());
    if (!*line) break;
    if (!(*line)->starts_with("grew ")) continue;
    ASSERT_EQ(std::sscanf((*line)->c_str(), "grew %ld KiB of %ld rows %ld", &peak.grown_kib,
                          &peak.grant_kib, &peak.rows),
              3);
    ::testing::Test::RecordProperty(role, **line);
  }
  const auto ended = (*child)->Wait(world.context(), kLongMs);
  ASSERT_TRUE(ended.ok());
  EXPECT_EQ(ended->exit_code, 0);
  EXPECT_GT(peak.grown_kib, 0);
}

// check: DATA-22
TEST(MergePeak, LargeMergesAndSortsStayWithinTheirGrantAndATenth) {
  for (const char* role : {"Merge", "Sort"}) {
    SCOPED_TRACE(role);
    Peak peak;
    Measure(role, "", peak);
    EXPECT_GT(peak.rows, TotalMebibytes() * kMebibyte / kRowBytes - kSources);
    EXPECT_LE(peak.grown_kib, peak.grant_kib + peak.grant_kib / 10);
  }
}

// check: DATA-22
TEST(MergePeak, RunsIn256FilesAreMergedWithinTheBudget) {
  partforge::testing::TempDir dir;
  MakeFiles(dir.path());
  Peak peak;
  Measure("MergeFiles", dir.path().string(), peak);
  EXPECT_GT(peak.rows, RowsOfMerge() - kSources);
  EXPECT_EQ(peak.grant_kib, BudgetBytes() / 1024);
  EXPECT_LE(peak.grown_kib, peak.grant_kib);
}

}  // namespace
}  // namespace partforge::data
