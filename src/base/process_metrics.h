#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace partforge {

// One value of the process_* family that Prometheus' client libraries share.
struct ProcessMetric {
  std::string_view name;
  std::string_view help;
  bool is_counter = false;
  double value = 0;
};

// What the kernel says of this process now. A value that cannot be read is left out.
std::vector<ProcessMetric> ReadProcessMetrics();

// The most memory this process has had resident, without its children; 0 when it cannot be read.
int64_t PeakMemoryBytes();

}  // namespace partforge
