#include "fuzz/mutation.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace partforge::fuzz {
namespace {

constexpr std::array<unsigned char, 12> kTellingBytes = {0x00, 0x01, 0x02, 0x7f, 0x80, 0x81,
                                                         0xfe, 0xff, 0x0f, 0xf0, 0x19, 0x1c};
constexpr std::array<uint64_t, 8> kTellingNumbers = {
    0, 1, 0x7f, 0x7fffffff, 0x80000000, 0xffffffff, 0x7fffffffffffffff, 0xffffffffffffffff};
constexpr size_t kSizeMax = 64 << 10;

size_t Below(Random& random, size_t bound) {
  return static_cast<size_t>(RandomBelow(random, bound));
}

void MutateOnce(std::string& bytes, std::span<const std::string> seeds, Random& random) {
  const size_t at = Below(random, bytes.size() + 1);
  switch (Below(random, 9)) {
    case 0:
      if (at < bytes.size()) bytes[at] = static_cast<char>(bytes[at] ^ (1 << Below(random, 8)));
      return;
    case 1:
      if (at < bytes.size()) {
        bytes[at] = static_cast<char>(kTellingBytes[Below(random, kTellingBytes.size())]);
      }
      return;
    case 2:
      if (at < bytes.size()) bytes[at] = static_cast<char>(random.Next());
      return;
    case 3:  // a number in another place's width
      if (at + 4 <= bytes.size()) {
        const uint64_t number = kTellingNumbers[Below(random, kTellingNumbers.size())];
        const size_t width = at + 8 <= bytes.size() && Below(random, 2) == 0 ? 8 : 4;
        std::memcpy(bytes.data() + at, &number, width);
      }
      return;
    case 4:
      bytes.erase(at, Below(random, 16));
      return;
    case 5:
      bytes.insert(at, std::string(Below(random, 8), static_cast<char>(random.Next())));
      return;
    case 6:
      bytes.insert(at, bytes.substr(at, Below(random, 64)));
      return;
    case 7: {
      const std::string& other = seeds[Below(random, seeds.size())];
      const size_t from = Below(random, other.size() + 1);
      bytes.replace(at, Below(random, 64), other.substr(from, Below(random, 64)));
      return;
    }
    default:
      if (Below(random, 4) == 0) bytes.resize(at);
      return;
  }
}

}  // namespace

std::string Mutate(const std::string& input, std::span<const std::string> seeds, Random& random) {
  std::string bytes = input;
  const size_t changes = 1 + Below(random, 6);
  for (size_t i = 0; i < changes; ++i) MutateOnce(bytes, seeds, random);
  if (bytes.size() > kSizeMax) bytes.resize(kSizeMax);
  return bytes;
}

}  // namespace partforge::fuzz
