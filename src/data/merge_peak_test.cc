// Memory of large sorts and merges, as the kernel counts it, in a process of their own.

#include <arrow/api.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <fstream>

#include "base/process.h"
#include "data/scan_spec.h"
#include "data/sort_merge.h"
#include "testing/test_world.h"

namespace partforge::data {
namespace {

constexpr int64_t kMebibyte = int64_t{1} << 20;
constexpr int64_t kLongMs = 1'800'000;
constexpr int64_t kTextBytes = 84;
constexpr int64_t kRowBytes = kTextBytes + 4 + 8 + 4;

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

// Rows made as they are asked for, sorted or not; their buffers are charged like those of a reader.
class MadeRows final : public BatchSource {
 public:
  MadeRows(uint64_t seed, int64_t rows, int64_t batch_rows, bool is_sorted, ArrowMemory& memory)
      : random_(seed),
        rows_left_(rows),
        batch_rows_(batch_rows),
        is_sorted_(is_sorted),
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
    // Half of a text is noise, so that spilled rows are not nothing.
    std::memset(texts->mutable_data(), 'x', static_cast<size_t>(texts->size()));
    for (int64_t i = 0; i < count; ++i) {
      const uint64_t word = random_.Next();
      key_ =
          is_sorted_ ? key_ + static_cast<int64_t>(word % 1000) : static_cast<int64_t>(word >> 1);
      key[i] = key_;
      number[i] = static_cast<int32_t>(i);
      end[i] = static_cast<int32_t>(i * kTextBytes);
      std::memcpy(texts->mutable_data() + i * kTextBytes, &word, sizeof word);
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

// Reads to the end and checks the order. Rows read.
int64_t Drain(const Context& ctx, BatchSource& source) {
  int64_t rows = 0, last = INT64_MIN;
  while (true) {
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
}

// In a process of its own: merges or sorts within a budget, prints by how much it grew.
TEST(MergePeak, DISABLED_Role) {
  const char* const role = std::getenv("PARTFORGE_PEAK_ROLE");
  ASSERT_NE(role, nullptr);
  const bool sorts = std::string_view(role) == "sort";
  const int64_t grant_bytes = (sorts ? 48 : 128) * kMebibyte;
  const int64_t rows = TotalMebibytes() * kMebibyte / kRowBytes;
  partforge::testing::TestWorld world(grant_bytes);
  const Context ctx = world.context();
  ArrowMemory memory(ctx.memory);
  partforge::testing::TempDir dir;
  SpillSpace space(dir.path(), int64_t{64} << 30);
  const auto keys = MakeKeyEncoder(Schema(), {{.name = "k"}}).value();
  // What libraries take once is not the merge's.
  {
    MadeRows few(1, 5000, 1000, false, memory);
    SpillSpace own(dir.path(), kMebibyte * 64);
    Drain(ctx, *Sort(ctx, few, *keys, {.run_bytes = 100'000}, own, memory).value());
  }
  std::ofstream("/proc/self/clear_refs") << "5";  // VmHWM begins anew
  const int64_t before = StatusKibibytes("VmRSS:");
  int64_t read = 0;
  std::unique_ptr<MadeRows> input;
  if (sorts) {
    input = std::make_unique<MadeRows>(7, rows, 4096, false, memory);
    read = Drain(ctx,
                 *Sort(ctx, *input, *keys, {.run_bytes = grant_bytes / 3}, space, memory).value());
    PF_CHECK(space.total_bytes() > 0, "nothing was spilled");
  } else {
    // Of each source a batch in use, the one being made, and keys: 75 MiB of the grant.
    constexpr int64_t kSources = 256, kBatchRows = 1024;
    std::vector<std::unique_ptr<BatchSource>> sources;
    for (int64_t i = 0; i < kSources; ++i) {
      sources.push_back(std::make_unique<MadeRows>(static_cast<uint64_t>(i), rows / kSources,
                                                   kBatchRows, true, memory));
    }
    read = Drain(ctx, *MergeSorted(ctx, std::move(sources), *keys, nullptr, {}, memory).value());
  }
  fmt::print("grew {} KiB of {} rows {} budget {}\n", StatusKibibytes("VmHWM:") - before,
             grant_bytes / 1024, read, ctx.memory.peak_bytes() / 1024);
  std::fflush(stdout);
}

// check: DATA-22
TEST(MergePeak, LargeMergesAndSortsStayWithinTheirGrantAndATenth) {
  partforge::testing::TestWorld world;
  for (const char* role : {"merge", "sort"}) {
    SCOPED_TRACE(role);
    const auto child =
        ChildProcess::Start({.argv = {SelfPath().string(), "--gtest_also_run_disabled_tests",
                                      "--gtest_filter=MergePeak.DISABLED_Role"},
                             .environment = {{"PARTFORGE_PEAK_ROLE", role}},
                             .captures_stdout = true});
    ASSERT_TRUE(child.ok());
    int64_t grown = -1, grant = 0, rows = 0;
    while (true) {
      const auto line = (*child)->ReadLine(world.context(), kLongMs);
      ASSERT_TRUE(line.ok());
      if (!*line) break;
      if ((*line)->starts_with("grew ")) {
        ASSERT_EQ(
            std::sscanf((*line)->c_str(), "grew %ld KiB of %ld rows %ld", &grown, &grant, &rows),
            3);
        RecordProperty(role, **line);
      }
    }
    const auto ended = (*child)->Wait(world.context(), kLongMs);
    ASSERT_TRUE(ended.ok());
    EXPECT_EQ(ended->exit_code, 0);
    EXPECT_GT(rows, TotalMebibytes() * kMebibyte / kRowBytes - 256);
    EXPECT_GT(grown, 0);
    EXPECT_LE(grown, grant + grant / 10);
  }
}

}  // namespace
}  // namespace partforge::data
