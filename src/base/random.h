#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace partforge {

// Source of chance. Thread-safe.
class Random {
 public:
  virtual ~Random() = default;
  virtual uint64_t Next() = 0;
};

// Draws from the kernel: unpredictable, fit for tokens.
class SystemRandom final : public Random {
 public:
  uint64_t Next() override;
};

// Returns 2 × `bytes` lower-case hex digits.
std::string RandomHex(Random& random, size_t bytes);

// Returns a uniform number in [0, bound); 0 when bound is 0.
uint64_t RandomBelow(Random& random, uint64_t bound);

}  // namespace partforge
