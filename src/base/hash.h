#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"

namespace partforge {

// SHA-256 of bytes fed piece by piece. One thread at a time.
class Sha256 {
 public:
  using Digest = std::array<std::byte, 32>;
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;
  void Update(std::span<const std::byte> bytes);
  void Update(std::string_view text);
  // Ends the computation; the object takes no more bytes.
  Digest Finish();
  std::string FinishHex();  // 64 lower-case hex digits

 private:
  struct State;
  std::unique_ptr<State> state_;
};
std::string Sha256Hex(std::string_view text);
Sha256::Digest Sha256Of(std::string_view text);
Sha256::Digest HmacSha256(std::span<const std::byte> key, std::string_view text);

struct Hash128 {
  uint64_t low = 0, high = 0;
  bool operator==(const Hash128&) const = default;
  std::string ToHex() const;  // 32 digits, high half first, as ClickHouse prints checksums
};
// CityHash 1.0.2, 128 bits: the checksum of one compressed frame of ClickHouse (over method, sizes
// and data).
Hash128 CityHash128(std::span<const std::byte> bytes);
uint64_t CityHash64(std::span<const std::byte> bytes);
// The hashes of MergeTree's checksums.txt, small files too: the bytes are cut into blocks of 2048
// (DBMS_DEFAULT_HASHING_BLOCK_SIZE), each hashed with the hash so far as its seed, the first with
// {0, 0}; a shorter rest likewise, no bytes leave {0, 0}. Measured on parts of the pinned engine:
//   file hash            over the file's bytes, of every file
//   uncompressed hash    over the bytes of all its frames put together, of .bin, .cmrk*, .cidx
//                        but for data.bin of a compact part: one such hash a codec, and over these
//                        (16 bytes each, low half first) the same once more, also when there is
//                        only one codec
// Feed in pieces of any size. One thread at a time.
class CityHash128Stream {
 public:
  void Update(std::span<const std::byte> bytes);
  Hash128 Finish();

 private:
  std::array<std::byte, 2048> block_{};
  size_t filled_ = 0;
  Hash128 state_{};
};

uint64_t XxHash64(std::span<const std::byte> bytes, uint64_t seed = 0);
// By the processor's instruction where it has one.
uint32_t Crc32c(std::span<const std::byte> bytes);
namespace internal {
uint32_t Crc32cByTable(std::span<const std::byte> bytes);
}  // namespace internal

std::string ToHex(std::span<const std::byte> bytes);
Result<std::string> FromHex(std::string_view hex);  // raw bytes in a string
std::string Base64(std::span<const std::byte> bytes);

inline std::span<const std::byte> AsBytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

}  // namespace partforge
