#include "base/random.h"

#include <sys/random.h>

#include "base/error.h"

namespace partforge {

uint64_t SystemRandom::Next() {
  uint64_t value = 0;
  const ssize_t got = getrandom(&value, sizeof(value), 0);  // up to 256 bytes are never cut short
  PF_CHECK(got == static_cast<ssize_t>(sizeof(value)), "getrandom gave too few bytes");
  return value;
}

std::string RandomHex(Random& random, size_t bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(bytes * 2);
  uint64_t pool = 0;
  for (size_t i = 0; i < bytes; ++i) {
    if (i % 8 == 0) pool = random.Next();
    text += kDigits[(pool >> 4) & 15];
    text += kDigits[pool & 15];
    pool >>= 8;
  }
  return text;
}

uint64_t RandomBelow(Random& random, uint64_t bound) {
  return bound == 0 ? 0 : random.Next() % bound;
}

}  // namespace partforge
