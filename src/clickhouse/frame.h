#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/error.h"

namespace partforge::clickhouse {

// ClickHouse's compressed frame: CityHash128 of all that follows (16 bytes, low half first), method
// byte, compressed size with the 9 bytes of this header (u32), uncompressed size (u32), payload.
// All little-endian.
enum class FrameMethod : uint8_t { kNone = 0x02, kLz4 = 0x82, kZstd = 0x90 };

inline constexpr int64_t kFrameChecksumBytes = 16;
inline constexpr int64_t kFrameHeaderBytes = 9;
inline constexpr int64_t kFrameBytesMax = int64_t{1} << 30;  // 1 GiB: DBMS_MAX_COMPRESSED_SIZE

struct DecodedFrame {
  std::string bytes;
  int64_t frame_size_bytes = 0;  // with checksum and header: where the next frame begins
  FrameMethod method = FrameMethod::kNone;
};

// Decodes the frame at the start of `bytes`. kCorruption on a short frame, a wrong checksum or a
// payload that does not decompress to exactly the stated size; kRefused on another codec;
// kExhausted when the uncompressed size is above the limit.
Result<DecodedFrame> DecodeFrame(std::span<const std::byte> bytes, int64_t uncompressed_bytes_max);
// All frames up to the end of `bytes`, concatenated.
Result<std::string> DecodeFrames(std::span<const std::byte> bytes, int64_t uncompressed_bytes_max);
// One frame around `payload` (at most 1 GiB, kInvalidArgument above). ZSTD at level 1.
Result<std::string> EncodeFrame(std::span<const std::byte> payload, FrameMethod method);

}  // namespace partforge::clickhouse
