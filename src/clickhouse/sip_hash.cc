#include "clickhouse/sip_hash.h"

#include <bit>
#include <cstring>

namespace partforge::clickhouse {

void SipHash128::Update(std::span<const std::byte> bytes) {
  for (const std::byte b : bytes) {
    pending_ |= uint64_t{std::to_integer<uint8_t>(b)} << (8 * (count_ % 8));
    ++count_;
    if (count_ % 8 == 0) {
      Absorb(pending_);
      pending_ = 0;
    }
  }
}

void SipHash128::Update(uint64_t value) {
  std::array<std::byte, 8> bytes;
  for (size_t i = 0; i < 8; ++i) bytes[i] = static_cast<std::byte>(value >> (8 * i));
  Update(bytes);
}

Hash128 SipHash128::Finish() {
  Absorb((count_ << 56) | pending_);
  v2_ ^= 0xff;
  for (int i = 0; i < 4; ++i) Round();
  return {.low = v0_ ^ v1_, .high = v2_ ^ v3_};
}

void SipHash128::Absorb(uint64_t word) {
  v3_ ^= word;
  Round();
  Round();
  v0_ ^= word;
}

void SipHash128::Round() {
  v0_ += v1_;
  v1_ = std::rotl(v1_, 13) ^ v0_;
  v0_ = std::rotl(v0_, 32);
  v2_ += v3_;
  v3_ = std::rotl(v3_, 16) ^ v2_;
  v0_ += v3_;
  v3_ = std::rotl(v3_, 21) ^ v0_;
  v2_ += v1_;
  v1_ = std::rotl(v1_, 17) ^ v2_;
  v2_ = std::rotl(v2_, 32);
}

std::string HashedFileStem(std::string_view stem) {
  SipHash128 hash;
  hash.Update(stem);
  return hash.Finish().ToHex();
}

}  // namespace partforge::clickhouse
