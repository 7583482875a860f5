#include "testing/allocation_peak.h"

#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

namespace partforge::testing {
namespace {

// Counters of the process: operator new has no object they could belong to.
constinit std::atomic<size_t> held_bytes{0};
constinit std::atomic<size_t> peak_bytes{0};
constinit std::atomic<size_t> start_bytes{0};

void* Take(size_t size) {
  void* memory = std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) throw std::bad_alloc();
  const size_t held = held_bytes += malloc_usable_size(memory);
  if (held > peak_bytes) peak_bytes = held;
  return memory;
}

void Give(void* memory) {
  if (memory == nullptr) return;
  held_bytes -= malloc_usable_size(memory);
  std::free(memory);
}

}  // namespace

void AllocationPeak::Start() {
  start_bytes = held_bytes.load();
  peak_bytes = held_bytes.load();
}

size_t AllocationPeak::PeakBytes() {
  return peak_bytes - start_bytes;
}

}  // namespace partforge::testing

void* operator new(size_t size) {
  return partforge::testing::Take(size);
}
void* operator new[](size_t size) {
  return partforge::testing::Take(size);
}
void operator delete(void* memory) noexcept {
  partforge::testing::Give(memory);
}
void operator delete[](void* memory) noexcept {
  partforge::testing::Give(memory);
}
void operator delete(void* memory, size_t) noexcept {
  partforge::testing::Give(memory);
}
void operator delete[](void* memory, size_t) noexcept {
  partforge::testing::Give(memory);
}
