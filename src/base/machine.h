#pragma once

#include <cstdint>
#include <filesystem>

#include "base/error.h"

namespace partforge {

// What this process may use: the smaller of the host and its control group (clickhouse-parts §13).
struct MachineLimits {
  int64_t cpus = 1;
  int64_t memory_bytes = 0;
};
// `root` is "/" but for tests, which lay a tree of proc and sys files. kCorruption on zero or
// malformed values.
Result<MachineLimits> ReadMachineLimits(const std::filesystem::path& root = "/");

}  // namespace partforge
