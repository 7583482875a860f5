#pragma once

#include <cstdint>

namespace partforge::fuzz {

// How long one target is driven: a fixed number of inputs, or, when PARTFORGE_FUZZ_SECONDS is set,
// so many seconds.
class FuzzLength {
 public:
  explicit FuzzLength(int64_t inputs);
  // Whether input number `done` (from 0) is still wanted.
  bool Wants(int64_t done) const;

 private:
  int64_t inputs_;
  int64_t end_ms_ = 0;  // 0: the number counts
};

// PARTFORGE_TEST_SEED when set, else always the same.
uint64_t FuzzSeed();

}  // namespace partforge::fuzz
