#pragma once

#include <cstddef>

namespace partforge::testing {

// Bytes held through operator new, and the most that were since Start. Counts only what C++
// allocates.
struct AllocationPeak {
  static void Start();
  static size_t PeakBytes();  // above what was held at Start
};

}  // namespace partforge::testing
