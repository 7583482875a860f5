#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/hash.h"

namespace partforge::clickhouse {

// SipHash-2-4 with 128 bits of output as ClickHouse computes it (key zero, no extra rounds for the
// second half): used over checksums.txt and for file names that are too long. One thread at a time.
class SipHash128 {
 public:
  void Update(std::span<const std::byte> bytes);
  void Update(std::string_view text) { Update(AsBytes(text)); }
  void Update(uint64_t value);  // little-endian
  void Update(Hash128 value) {
    Update(value.low);
    Update(value.high);
  }
  Hash128 Finish();

 private:
  void Absorb(uint64_t word);
  void Round();

  uint64_t v0_ = 0x736f6d6570736575, v1_ = 0x646f72616e646f6d, v2_ = 0x6c7967656e657261,
           v3_ = 0x7465646279746573;
  uint64_t pending_ = 0;  // bytes not yet absorbed, the first in the lowest
  uint64_t count_ = 0;    // of bytes in all
};

// The stem ClickHouse gives a file whose name would be too long: 32 hex digits.
std::string HashedFileStem(std::string_view stem);

}  // namespace partforge::clickhouse
