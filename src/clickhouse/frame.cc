#include "clickhouse/frame.h"

#include <fmt/format.h>
#include <lz4.h>
#include <zstd.h>

#include <bit>
#include <cstring>
#include <memory>

#include "base/hash.h"

namespace partforge::clickhouse {
namespace {

static_assert(std::endian::native == std::endian::little, "frames are read in place");

constexpr int kZstdLevel = 1;

template <class T>
T ReadLittle(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

template <class T>
void AppendLittle(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

Status Corrupt(std::string_view what, int64_t value) {
  return Status(Code::kCorruption, fmt::format("compressed frame: {}: {}", what, value));
}

Result<std::string> Decompress(FrameMethod method, std::span<const std::byte> payload,
                               size_t size_bytes) {
  std::string out(size_bytes, '\0');
  const char* in = reinterpret_cast<const char*>(payload.data());
  switch (method) {
    case FrameMethod::kNone:
      if (payload.size() != size_bytes) {
        return Corrupt("stored payload of another size", static_cast<int64_t>(payload.size()));
      }
      std::memcpy(out.data(), in, size_bytes);
      return out;
    case FrameMethod::kLz4: {
      const int n = LZ4_decompress_safe(in, out.data(), static_cast<int>(payload.size()),
                                        static_cast<int>(size_bytes));
      if (n < 0 || static_cast<size_t>(n) != size_bytes) return Corrupt("lz4 payload gave", n);
      return out;
    }
    case FrameMethod::kZstd: {
      const size_t n = ZSTD_decompress(out.data(), size_bytes, in, payload.size());
      if (ZSTD_isError(n) != 0 || n != size_bytes) {
        return Status(Code::kCorruption,
                      fmt::format("compressed frame: zstd payload: {}",
                                  ZSTD_isError(n) != 0 ? ZSTD_getErrorName(n) : "of another size"));
      }
      return out;
    }
  }
  return Status(Code::kInternal, "frame method out of range");
}

}  // namespace

Result<DecodedFrame> DecodeFrame(std::span<const std::byte> bytes, int64_t uncompressed_bytes_max) {
  constexpr size_t kBefore = kFrameChecksumBytes + kFrameHeaderBytes;
  if (bytes.size() < kBefore) {
    return Corrupt("bytes where 25 are the least", static_cast<int64_t>(bytes.size()));
  }
  const std::byte* header = bytes.data() + kFrameChecksumBytes;
  const auto method_byte = std::to_integer<uint8_t>(header[0]);
  const auto compressed = int64_t{ReadLittle<uint32_t>(header + 1)};
  const auto uncompressed = int64_t{ReadLittle<uint32_t>(header + 5)};
  if (compressed < kFrameHeaderBytes || compressed > kFrameBytesMax) {
    return Corrupt("compressed size", compressed);
  }
  if (static_cast<int64_t>(bytes.size()) < kFrameChecksumBytes + compressed) {
    return Corrupt("cut short, compressed size", compressed);
  }
  // The checksum comes first: after it the sizes are the writer's own and not an accident.
  const Hash128 stated{.low = ReadLittle<uint64_t>(bytes.data()),
                       .high = ReadLittle<uint64_t>(bytes.data() + 8)};
  const Hash128 found =
      CityHash128(bytes.subspan(kFrameChecksumBytes, static_cast<size_t>(compressed)));
  if (stated != found) {
    return Status(Code::kCorruption,
                  fmt::format("compressed frame: checksum is {}, its bytes give {}", stated.ToHex(),
                              found.ToHex()));
  }
  if (uncompressed > kFrameBytesMax) return Corrupt("uncompressed size", uncompressed);
  if (uncompressed > uncompressed_bytes_max) {
    return Status(Code::kExhausted, fmt::format("compressed frame holds more than {} bytes: {}",
                                                uncompressed_bytes_max, uncompressed));
  }
  const auto method = static_cast<FrameMethod>(method_byte);
  if (method != FrameMethod::kNone && method != FrameMethod::kLz4 && method != FrameMethod::kZstd) {
    return Status(Code::kRefused,
                  fmt::format("compressed frame of an unsupported codec: 0x{:02x}", method_byte));
  }
  const auto payload = bytes.subspan(kBefore, static_cast<size_t>(compressed - kFrameHeaderBytes));
  DecodedFrame frame;
  PF_ASSIGN(frame.bytes, Decompress(method, payload, static_cast<size_t>(uncompressed)));
  frame.frame_size_bytes = kFrameChecksumBytes + compressed;
  frame.method = method;
  return frame;
}

Result<std::string> DecodeFrames(std::span<const std::byte> bytes, int64_t uncompressed_bytes_max) {
  std::string out;
  while (!bytes.empty()) {
    PF_ASSIGN(DecodedFrame frame,
              DecodeFrame(bytes, uncompressed_bytes_max - static_cast<int64_t>(out.size())));
    out += frame.bytes;
    bytes = bytes.subspan(static_cast<size_t>(frame.frame_size_bytes));
  }
  return out;
}

Result<std::string> EncodeFrame(std::span<const std::byte> payload, FrameMethod method) {
  if (static_cast<int64_t>(payload.size()) > kFrameBytesMax - kFrameHeaderBytes) {
    return Status(Code::kInvalidArgument,
                  fmt::format("payload of a compressed frame is too large: {}", payload.size()));
  }
  const char* in = reinterpret_cast<const char*>(payload.data());
  std::string body;
  switch (method) {
    case FrameMethod::kNone:
      body.assign(in, payload.size());
      break;
    case FrameMethod::kLz4: {
      const int size = static_cast<int>(payload.size());
      body.resize(static_cast<size_t>(LZ4_compressBound(size)));
      const int n = LZ4_compress_default(in, body.data(), size, static_cast<int>(body.size()));
      if (n <= 0) return Status(Code::kInternal, fmt::format("lz4 could not compress: {}", n));
      body.resize(static_cast<size_t>(n));
      break;
    }
    case FrameMethod::kZstd: {
      body.resize(ZSTD_compressBound(payload.size()));
      const size_t n = ZSTD_compress(body.data(), body.size(), in, payload.size(), kZstdLevel);
      if (ZSTD_isError(n) != 0) {
        return Status(Code::kInternal,
                      fmt::format("zstd could not compress: {}", ZSTD_getErrorName(n)));
      }
      body.resize(n);
      break;
    }
  }
  std::string counted;
  counted += static_cast<char>(method);
  AppendLittle(counted, static_cast<uint32_t>(body.size() + kFrameHeaderBytes));
  AppendLittle(counted, static_cast<uint32_t>(payload.size()));
  counted += body;
  const Hash128 hash = CityHash128(AsBytes(counted));
  std::string frame;
  AppendLittle(frame, hash.low);
  AppendLittle(frame, hash.high);
  return frame + counted;
}

}  // namespace partforge::clickhouse
