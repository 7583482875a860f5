#include "clickhouse/tuning.h"

#include <fmt/format.h>

#include <algorithm>

namespace partforge::clickhouse {
namespace {

constexpr int64_t kMib = int64_t{1} << 20;
constexpr int64_t kGib = int64_t{1} << 30;
constexpr int64_t kMergeBudgetMin = 4 * kMib;
constexpr int64_t kMergeBudgetMax = 256 * kMib;
constexpr int64_t kMergeRowBytes = 1024;  // of budget per row of a merge block
constexpr int64_t kMergeRowsMin = 8192, kMergeRowsMax = 262'144;
constexpr int64_t kUploadFilesInAll = 256;
constexpr int64_t kSlotMemoryMin = 2 * kGib;
constexpr double kFactorMin = 2, kFactorMax = 8;

// ⌊value·percent/100⌋ without overflow.
int64_t Percent(int64_t value, int64_t percent) {
  return value / 100 * percent + value % 100 * percent / 100;
}

int64_t RoundDown(int64_t value, int64_t step) {
  return value / step * step;
}

}  // namespace

Result<Tuning> Tune(const MachineLimits& limits, int64_t slots) {
  if (limits.cpus <= 0 || limits.memory_bytes <= 0 || slots <= 0) {
    return Status(Code::kInvalidArgument,
                  fmt::format("no settings for {} CPUs, {} bytes of memory and {} slots",
                              limits.cpus, limits.memory_bytes, slots));
  }
  Tuning tuning;
  tuning.cpus = std::max<int64_t>(1, limits.cpus / slots);
  tuning.memory_bytes = limits.memory_bytes / slots;
  tuning.insert_threads = std::max<int64_t>(1, tuning.cpus / 2);
  tuning.max_memory_usage_bytes = Percent(tuning.memory_bytes, 70);

  const int64_t block_bytes = Percent(tuning.memory_bytes, 60) / tuning.cpus / 8;
  const int64_t clamped = std::clamp(block_bytes, kMergeBudgetMin, kMergeBudgetMax);
  const int64_t budget = std::max(kMib, RoundDown(clamped, kMib));
  tuning.merge_max_block_size_rows =
      RoundDown(std::clamp(budget / kMergeRowBytes, kMergeRowsMin, kMergeRowsMax), kMergeRowsMin);
  tuning.merge_max_block_size_bytes = std::min(budget, kMergeBlockBytesMax);
  return tuning;
}

int64_t FilesPerPart(int64_t parts_in_parallel) {
  return std::max<int64_t>(1, kUploadFilesInAll / std::max<int64_t>(1, parts_in_parallel));
}

int64_t DefaultSlots(const MachineLimits& limits) {
  return std::max<int64_t>(1, std::min(limits.cpus, limits.memory_bytes / kSlotMemoryMin));
}

int64_t EngineMemoryBytes(int64_t memory_cap_bytes, int64_t slots) {
  // Of a very small cap the worker's share is a share.
  const int64_t worker_bytes = std::min(kWorkerBytes, memory_cap_bytes / 8);
  return (memory_cap_bytes - worker_bytes) / std::max<int64_t>(1, slots);
}

int64_t BlockMemoryBytes(int64_t memory_cap_bytes, int64_t slots) {
  return std::max<int64_t>(0, EngineMemoryBytes(memory_cap_bytes, slots) - kEngineBaseBytes);
}

BlockEstimate EstimateBlock(const BlockQuestion& question) {
  BlockEstimate estimate;
  estimate.slot_memory_bytes = BlockMemoryBytes(question.memory_cap_bytes, question.slots);
  if (question.rows <= 0) {
    estimate.is_whole_part = true;
    return estimate;
  }
  // Without a size the row counts as one byte: the first block then tells.
  const double bytes = static_cast<double>(std::max<int64_t>(1, question.data_uncompressed_bytes));
  estimate.raw_bytes_per_row = bytes / static_cast<double>(question.rows);
  const double factor = std::clamp(question.factor, kFactorMin, kFactorMax);
  const double rows =
      static_cast<double>(estimate.slot_memory_bytes) / (factor * estimate.raw_bytes_per_row);
  constexpr double kRowsTop = 1e15;  // far above any part, exact in a double
  estimate.block_rows = std::max(kBlockRowsMin, static_cast<int64_t>(std::min(rows, kRowsTop)));
  // The floor is no promise: a part of few, huge rows may still not fit.
  estimate.is_whole_part = static_cast<double>(question.rows) <= rows;
  return estimate;
}

}  // namespace partforge::clickhouse
