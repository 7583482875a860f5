#include "fuzz/fuzz_length.h"

#include <cstdlib>

#include "base/clock.h"

namespace partforge::fuzz {
namespace {

// One with which the first few hundred ORC files hold one that ends its decoder.
constexpr uint64_t kSeed = 4;

}  // namespace

FuzzLength::FuzzLength(int64_t inputs) : inputs_(inputs) {
  const char* const seconds = std::getenv("PARTFORGE_FUZZ_SECONDS");
  if (seconds != nullptr && *seconds != '\0') {
    end_ms_ = MonotonicMs() + std::strtoll(seconds, nullptr, 10) * 1000;
  }
}

bool FuzzLength::Wants(int64_t done) const {
  return end_ms_ == 0 ? done < inputs_ : MonotonicMs() < end_ms_;
}

uint64_t FuzzSeed() {
  const char* const text = std::getenv("PARTFORGE_TEST_SEED");
  return text == nullptr ? kSeed : std::strtoull(text, nullptr, 10);
}

}  // namespace partforge::fuzz
