#include "base/hash.h"

#include <fmt/format.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <xxhash.h>

#include <cstring>

namespace partforge {
namespace {

constexpr std::string_view kHexDigits = "0123456789abcdef";

int HexValue(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// The tables of "slicing by eight" for CRC-32C: table[k][b] is the checksum of byte b before k zero
// bytes.
using Crc32cTables = std::array<std::array<uint32_t, 256>, 8>;

constexpr Crc32cTables MakeCrc32cTables() {
  constexpr uint32_t kPolynomial = 0x82F63B78u;  // Castagnoli, bits reversed (RFC 3720 §12.1)
  Crc32cTables tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 1) != 0 ? (crc >> 1) ^ kPolynomial : crc >> 1;
    tables[0][byte] = crc;
  }
  for (size_t k = 1; k < tables.size(); ++k) {
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint32_t before = tables[k - 1][byte];
      tables[k][byte] = (before >> 8) ^ tables[0][before & 0xFF];
    }
  }
  return tables;
}

constexpr Crc32cTables kCrc32cTables = MakeCrc32cTables();

#if defined(__x86_64__)
// The processor's own CRC-32C takes eight bytes at a time.
__attribute__((target("sse4.2"))) uint32_t Crc32cByInstruction(std::span<const std::byte> bytes) {
  uint64_t crc = 0xFFFFFFFFu;
  size_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data() + i, sizeof(word));
    crc = __builtin_ia32_crc32di(crc, word);
  }
  auto rest = static_cast<uint32_t>(crc);
  for (; i < bytes.size(); ++i) {
    rest = __builtin_ia32_crc32qi(rest, static_cast<unsigned char>(bytes[i]));
  }
  return ~rest;
}
#endif

}  // namespace

struct Sha256::State {
  struct Free {
    void operator()(EVP_MD_CTX* digest) const { EVP_MD_CTX_free(digest); }
  };
  std::unique_ptr<EVP_MD_CTX, Free> digest{EVP_MD_CTX_new()};
};

Sha256::Sha256() : state_(std::make_unique<State>()) {
  PF_CHECK(EVP_DigestInit_ex(state_->digest.get(), EVP_sha256(), nullptr) == 1,
           "SHA-256 did not start");
}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::Update(std::span<const std::byte> bytes) {
  PF_CHECK(EVP_DigestUpdate(state_->digest.get(), bytes.data(), bytes.size()) == 1,
           "SHA-256 took no bytes");
}

void Sha256::Update(std::string_view text) {
  Update(AsBytes(text));
}

Sha256::Digest Sha256::Finish() {
  Digest digest{};
  unsigned size = 0;
  const int done = EVP_DigestFinal_ex(state_->digest.get(),
                                      reinterpret_cast<unsigned char*>(digest.data()), &size);
  PF_CHECK(done == 1 && size == digest.size(), "SHA-256 did not end");
  return digest;
}

std::string Sha256::FinishHex() {
  return ToHex(Finish());
}

std::string Sha256Hex(std::string_view text) {
  return ToHex(Sha256Of(text));
}

Sha256::Digest Sha256Of(std::string_view text) {
  Sha256 hash;
  hash.Update(text);
  return hash.Finish();
}

Sha256::Digest HmacSha256(std::span<const std::byte> key, std::string_view text) {
  Sha256::Digest digest{};
  unsigned size = 0;
  // OpenSSL reads a null key as "the key of the last call"; an empty key is a real one.
  static constexpr std::byte kNoKey{};
  const unsigned char* done =
      HMAC(EVP_sha256(), key.empty() ? &kNoKey : key.data(), static_cast<int>(key.size()),
           reinterpret_cast<const unsigned char*>(text.data()), text.size(),
           reinterpret_cast<unsigned char*>(digest.data()), &size);
  PF_CHECK(done != nullptr && size == digest.size(), "HMAC-SHA-256 did not end");
  return digest;
}

std::string Hash128::ToHex() const {
  return fmt::format("{:016x}{:016x}", high, low);
}

uint64_t XxHash64(std::span<const std::byte> bytes, uint64_t seed) {
  return XXH64(bytes.data(), bytes.size(), seed);
}

uint32_t Crc32c(std::span<const std::byte> bytes) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("sse4.2")) return Crc32cByInstruction(bytes);
#endif
  return internal::Crc32cByTable(bytes);
}

uint32_t internal::Crc32cByTable(std::span<const std::byte> bytes) {
  const auto& table = kCrc32cTables;
  const auto at = [&](size_t i) { return static_cast<uint32_t>(bytes[i]); };
  uint32_t crc = 0xFFFFFFFFu;
  size_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8) {
    crc ^= at(i) | at(i + 1) << 8 | at(i + 2) << 16 | at(i + 3) << 24;
    crc = table[7][crc & 0xFF] ^ table[6][crc >> 8 & 0xFF] ^ table[5][crc >> 16 & 0xFF] ^
          table[4][crc >> 24] ^ table[3][at(i + 4)] ^ table[2][at(i + 5)] ^ table[1][at(i + 6)] ^
          table[0][at(i + 7)];
  }
  for (; i < bytes.size(); ++i) crc = (crc >> 8) ^ table[0][(crc ^ at(i)) & 0xFF];
  return ~crc;
}

std::string ToHex(std::span<const std::byte> bytes) {
  std::string text;
  text.reserve(bytes.size() * 2);
  for (const std::byte byte : bytes) {
    text += kHexDigits[static_cast<size_t>(byte >> 4)];
    text += kHexDigits[static_cast<size_t>(byte & std::byte{15})];
  }
  return text;
}

Result<std::string> FromHex(std::string_view hex) {
  if (hex.size() % 2 != 0) {
    return Status(Code::kInvalidArgument,
                  fmt::format("hex text has an odd number of digits: {}", hex.size()));
  }
  std::string bytes;
  bytes.reserve(hex.size() / 2);
  for (size_t i = 0; i < hex.size(); i += 2) {
    const int high = HexValue(hex[i]);
    const int low = HexValue(hex[i + 1]);
    if (high < 0 || low < 0) {
      return Status(Code::kInvalidArgument, fmt::format("no hex digits at offset {}", i));
    }
    bytes += static_cast<char>(high * 16 + low);
  }
  return bytes;
}

std::string Base64(std::span<const std::byte> bytes) {
  static constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t left = bytes.size() - i;
    uint32_t group = static_cast<uint32_t>(bytes[i]) << 16;
    if (left > 1) group |= static_cast<uint32_t>(bytes[i + 1]) << 8;
    if (left > 2) group |= static_cast<uint32_t>(bytes[i + 2]);
    text += kDigits[group >> 18];
    text += kDigits[group >> 12 & 63];
    text += left > 1 ? kDigits[group >> 6 & 63] : '=';
    text += left > 2 ? kDigits[group & 63] : '=';
  }
  return text;
}

}  // namespace partforge
