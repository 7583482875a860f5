#pragma once

#include <cstdint>

#include "base/error.h"
#include "base/machine.h"

namespace partforge::clickhouse {

inline constexpr int64_t kMergeBytesMax =
    161'061'273'600;  // 150 GiB, max_bytes_to_merge_at_*_space_in_pool
inline constexpr int64_t kMergeBlockBytesMax = 10'485'760;  // merge_max_block_size_bytes
inline constexpr int64_t kMergeSelectingSleepMs = 1000;
inline constexpr int64_t kMergePoolThreshold = 1;  // number_of_free_entries_in_pool_to_*
inline constexpr int64_t kBlockRowsMin = 262'144;  // performance §9
// Of --memory, before blocks are counted: the worker's own process (code, objects on their way in
// and out), and an engine that does nothing. A 10M-row part under 2 GiB went 10 MiB above the cap
// while only 300 MB in all were taken off (performance R4).
inline constexpr int64_t kWorkerBytes = 150'000'000;
inline constexpr int64_t kEngineBaseBytes = 250'000'000;  // of each slot's engine

// Settings of one slot (clickhouse-parts §13).
struct Tuning {
  int64_t cpus = 1;
  int64_t memory_bytes = 0;
  int64_t insert_threads = 1;  // max_threads and max_insert_threads
  int64_t max_memory_usage_bytes = 0;
  int64_t merge_max_block_size_rows = 0;
  int64_t merge_max_block_size_bytes = 0;
};
// `slots` divides CPUs and memory (at least one CPU each). kInvalidArgument on zero or negative
// values.
Result<Tuning> Tune(const MachineLimits& limits, int64_t slots);
// Files of one part that an upload of so many parts at once copies at once: 256 over all parts
// (clickhouse-parts §13).
int64_t FilesPerPart(int64_t parts_in_parallel);
// The default of --parallel: min(CPUs, memory / 2 GiB), at least 1.
int64_t DefaultSlots(const MachineLimits& limits);

// Peak of a one-block insert over the raw bytes of its rows, before anything is measured
// (performance §9).
inline constexpr double kOneBlockFactor = 3.3;

// What one block of an insert may hold (performance §9): tier T5 when the whole part fits, else
// blocks of `block_rows`.
struct BlockEstimate {
  int64_t slot_memory_bytes = 0;
  double raw_bytes_per_row = 0;
  int64_t block_rows = kBlockRowsMin;
  bool is_whole_part = false;  // rows ≤ block_rows
};
struct BlockQuestion {
  int64_t memory_cap_bytes = 0;  // of the process
  int64_t slots = 1;
  int64_t rows = 0;
  int64_t data_uncompressed_bytes = 0;  // of the part's columns
  double factor = kOneBlockFactor;      // peak over raw bytes
};
// What one slot's engine may use of --memory: the worker needs some of it.
int64_t EngineMemoryBytes(int64_t memory_cap_bytes, int64_t slots);
// Of that, what is left for the rows it works on.
int64_t BlockMemoryBytes(int64_t memory_cap_bytes, int64_t slots);
BlockEstimate EstimateBlock(const BlockQuestion& question);
}  // namespace partforge::clickhouse
