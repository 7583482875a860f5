// CityHash 1.0.2 (Geoff Pike and Jyrki Alakuijala, 2011), the version that ClickHouse froze into
// its formats. Later versions of CityHash give other values. Words are read in little-endian order,
// sums wrap.

#include <bit>
#include <cstring>
#include <utility>

#include "base/hash.h"

namespace partforge {
namespace {

constexpr uint64_t kPrime0 = 0xc3a5c85c97cb3127u;
constexpr uint64_t kPrime1 = 0xb492b66fbe98f273u;
constexpr uint64_t kPrime2 = 0x9ae16a3b2f90404fu;
constexpr uint64_t kPrime3 = 0xc949d7c7509e6557u;
constexpr uint64_t kMurmur = 0x9ddfea08eb382d69u;

static_assert(std::endian::native == std::endian::little, "words are loaded as they lie in memory");

uint64_t Load64(const std::byte* at) {
  uint64_t word = 0;
  std::memcpy(&word, at, sizeof(word));
  return word;
}

uint32_t Load32(const std::byte* at) {
  uint32_t word = 0;
  std::memcpy(&word, at, sizeof(word));
  return word;
}

uint64_t Rotate(uint64_t word, int bits) {
  return std::rotr(word, bits);
}
uint64_t Fold(uint64_t word) {
  return word ^ (word >> 47);
}

// Mixes two words into one.
uint64_t Mix(uint64_t low, uint64_t high) {
  const uint64_t a = Fold((low ^ high) * kMurmur);
  return Fold((high ^ a) * kMurmur) * kMurmur;
}

uint64_t HashUpTo16(const std::byte* at, size_t size) {
  if (size > 8) {
    const uint64_t last = Load64(at + size - 8);
    return Mix(Load64(at), Rotate(last + size, static_cast<int>(size))) ^ last;
  }
  if (size >= 4) return Mix(size + (uint64_t{Load32(at)} << 3), Load32(at + size - 4));
  if (size == 0) return kPrime2;
  const auto first = static_cast<uint32_t>(at[0]);
  const auto middle = static_cast<uint32_t>(at[size >> 1]);
  const auto last = static_cast<uint32_t>(at[size - 1]);
  const uint32_t low = first + (middle << 8);
  const uint32_t high = static_cast<uint32_t>(size) + (last << 2);
  return Fold(low * kPrime2 ^ high * kPrime3) * kPrime2;
}

uint64_t Hash17To32(const std::byte* at, size_t size) {
  const uint64_t a = Load64(at) * kPrime1;
  const uint64_t b = Load64(at + 8);
  const uint64_t c = Load64(at + size - 8) * kPrime2;
  const uint64_t d = Load64(at + size - 16) * kPrime0;
  return Mix(Rotate(a - b, 43) + Rotate(c, 30) + d, a + Rotate(b ^ kPrime3, 20) - c + size);
}

struct Pair {
  uint64_t first = 0, second = 0;
};

// Half of HashOf33To64: four words and a start value into two.
Pair FoldFour(uint64_t start, uint64_t last, uint64_t w1, uint64_t w2) {
  uint64_t a = start;
  uint64_t b = Rotate(a + last, 52);
  uint64_t c = Rotate(a, 37);
  a += w1;
  c += Rotate(a, 7);
  a += w2;
  return {a + last, b + Rotate(a, 31) + c};
}

uint64_t Hash33To64(const std::byte* at, size_t size) {
  const std::byte* const end = at + size;
  const Pair v = FoldFour(Load64(at) + (size + Load64(end - 16)) * kPrime0, Load64(at + 24),
                          Load64(at + 8), Load64(at + 16));
  const Pair w = FoldFour(Load64(at + 16) + Load64(end - 32), Load64(end - 8), Load64(end - 24),
                          Load64(end - 16));
  const uint64_t r = Fold((v.first + w.second) * kPrime2 + (w.first + v.second) * kPrime0);
  return Fold(r * kPrime0 + v.second) * kPrime2;
}

// Four words and two seeds into two words.
Pair FoldSeeded(const std::byte* at, uint64_t a, uint64_t b) {
  const uint64_t last = Load64(at + 24);
  a += Load64(at);
  b = Rotate(b + a + last, 21);
  const uint64_t c = a;
  a += Load64(at + 8);
  a += Load64(at + 16);
  b += Rotate(a, 44);
  return {a + last, b + c};
}

// The state of the loops over 64 bytes.
struct Lanes {
  uint64_t x = 0, y = 0, z = 0;
  Pair v, w;

  void Take64(const std::byte* at) {
    x = Rotate(x + y + v.first + Load64(at + 16), 37) * kPrime1;
    y = Rotate(y + v.second + Load64(at + 48), 42) * kPrime1;
    x ^= w.second;
    y ^= v.first;
    z = Rotate(z ^ w.first, 33);
    v = FoldSeeded(at, v.second * kPrime1, x + w.first);
    w = FoldSeeded(at + 32, z + w.second, y);
    std::swap(z, x);
  }
};

// For fewer than 128 bytes after the seed.
Hash128 HashShortSeeded(const std::byte* at, size_t size, Hash128 seed) {
  uint64_t a = seed.low;
  uint64_t b = seed.high;
  uint64_t c = 0;
  uint64_t d = 0;
  if (size <= 16) {
    a = Fold(a * kPrime1) * kPrime1;
    c = b * kPrime1 + HashUpTo16(at, size);
    d = Fold(a + (size >= 8 ? Load64(at) : c));
  } else {
    c = Mix(Load64(at + size - 8) + kPrime1, a);
    d = Mix(b + size, c + Load64(at + size - 16));
    a += d;
    // All but the last 16 bytes, rounded up to 16.
    for (size_t taken = 0; taken + 16 < size; taken += 16) {
      a = (a ^ Fold(Load64(at + taken) * kPrime1) * kPrime1) * kPrime1;
      b ^= a;
      c = (c ^ Fold(Load64(at + taken + 8) * kPrime1) * kPrime1) * kPrime1;
      d ^= c;
    }
  }
  a = Mix(a, c);
  b = Mix(d, b);
  return {.low = a ^ b, .high = Mix(b, a)};
}

Hash128 HashSeeded(const std::byte* at, size_t size, Hash128 seed) {
  if (size < 128) return HashShortSeeded(at, size, seed);
  Lanes s;
  s.x = seed.low;
  s.y = seed.high;
  s.z = size * kPrime1;
  s.v.first = Rotate(s.y ^ kPrime1, 49) * kPrime1 + Load64(at);
  s.v.second = Rotate(s.v.first, 42) * kPrime1 + Load64(at + 8);
  s.w.first = Rotate(s.y + s.z, 35) * kPrime1 + s.x;
  s.w.second = Rotate(s.x + Load64(at + 88), 53) * kPrime1;
  const std::byte* const end = at + size;
  size_t left = size;
  for (; left >= 128; left -= 128, at += 128) {
    s.Take64(at);
    s.Take64(at + 64);
  }
  s.y += Rotate(s.w.first, 37) * kPrime0 + s.z;
  s.x += Rotate(s.v.first + s.z, 49) * kPrime0;
  // The rest in steps of 32 from the end; the last step may reach back into bytes already seen.
  for (size_t done = 0; done < left;) {
    done += 32;
    s.y = Rotate(s.y - s.x, 42) * kPrime0 + s.v.second;
    s.w.first += Load64(end - done + 16);
    s.x = Rotate(s.x, 49) * kPrime0 + s.w.first;
    s.w.first += s.v.first;
    s.v = FoldSeeded(end - done, s.v.first, s.v.second);
  }
  const uint64_t x = Mix(s.x, s.v.first);
  const uint64_t y = Mix(s.y, s.w.first);
  return {.low = Mix(x + s.v.second, s.w.second) + y, .high = Mix(x + s.w.second, y + s.v.second)};
}

}  // namespace

uint64_t CityHash64(std::span<const std::byte> bytes) {
  const std::byte* at = bytes.data();
  const size_t size = bytes.size();
  if (size <= 16) return HashUpTo16(at, size);
  if (size <= 32) return Hash17To32(at, size);
  if (size <= 64) return Hash33To64(at, size);
  const std::byte* const end = at + size;
  Lanes s;
  s.x = Load64(at);
  s.y = Load64(end - 16) ^ kPrime1;
  s.z = Load64(end - 56) ^ kPrime0;
  s.v = FoldSeeded(end - 64, size, s.y);
  s.w = FoldSeeded(end - 32, size * kPrime1, kPrime0);
  s.z += Fold(s.v.second) * kPrime1;
  s.x = Rotate(s.z + s.x, 39) * kPrime1;
  s.y = Rotate(s.y, 33) * kPrime1;
  // All whole blocks of 64 but the last, which the words from the end stand for.
  for (size_t left = (size - 1) & ~size_t{63}; left > 0; left -= 64, at += 64) s.Take64(at);
  return Mix(Mix(s.v.first, s.w.first) + Fold(s.y) * kPrime1 + s.z,
             Mix(s.v.second, s.w.second) + s.x);
}

Hash128 CityHash128(std::span<const std::byte> bytes) {
  const std::byte* at = bytes.data();
  const size_t size = bytes.size();
  if (size >= 16) {
    return HashSeeded(at + 16, size - 16, {.low = Load64(at) ^ kPrime3, .high = Load64(at + 8)});
  }
  if (size >= 8) {
    return HashSeeded(
        nullptr, 0,
        {.low = Load64(at) ^ (size * kPrime0), .high = Load64(at + size - 8) ^ kPrime1});
  }
  return HashSeeded(at, size, {.low = kPrime0, .high = kPrime1});
}

void CityHash128Stream::Update(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    if (filled_ == 0 && bytes.size() >= block_.size()) {
      state_ = HashSeeded(bytes.data(), block_.size(), state_);
      bytes = bytes.subspan(block_.size());
      continue;
    }
    const size_t taken = std::min(bytes.size(), block_.size() - filled_);
    std::memcpy(block_.data() + filled_, bytes.data(), taken);
    filled_ += taken;
    bytes = bytes.subspan(taken);
    if (filled_ == block_.size()) {
      state_ = HashSeeded(block_.data(), block_.size(), state_);
      filled_ = 0;
    }
  }
}

Hash128 CityHash128Stream::Finish() {
  if (filled_ > 0) state_ = HashSeeded(block_.data(), filled_, state_);
  filled_ = 0;
  return state_;
}

}  // namespace partforge
