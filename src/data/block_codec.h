#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"

namespace partforge::data {

// Compression of one block of bytes, as Avro containers and Puffin files use it.
enum class BlockCodec : uint8_t {
  kNone,
  kDeflate,  // raw deflate, without zlib's header
  kSnappy,   // with CRC-32 of the plain bytes behind it, big-endian (Avro)
  kZstd,     // one or more frames
  kLz4,      // LZ4 frame format
};

// Names of Avro's `avro.codec`: null, deflate, snappy, zstandard. None for a name we do not know.
std::optional<BlockCodec> AvroCodecOf(std::string_view name);
std::string_view AvroCodecName(BlockCodec codec);  // requires a codec Avro has

struct BlockLimits {
  int64_t stored_bytes_max = int64_t{64} << 20;
  int64_t raw_bytes_max = int64_t{256} << 20;
  // Raw bytes for each stored one, checked for blocks above `ratio_from_bytes` raw: more is a bomb.
  int64_t ratio_max = 1000;
  int64_t ratio_from_bytes = int64_t{1} << 20;
  // The most that so many stored bytes may become.
  int64_t RawBytesMax(int64_t stored_bytes) const {
    return std::min(raw_bytes_max, std::max(ratio_from_bytes, stored_bytes * ratio_max));
  }
};

// Appends the plain bytes to `raw`. Nothing beyond the limits is allocated. kCorruption with `what`
// when the bytes are not of the codec, break a limit or fail their checksum.
Status DecompressBlock(BlockCodec codec, std::span<const std::byte> stored,
                       const BlockLimits& limits, std::string_view what, std::string& raw);

// The same for many blocks: keeps the codec's tables from one block to the next. One thread at a
// time.
class BlockDecompressor {
 public:
  BlockDecompressor();
  ~BlockDecompressor();
  BlockDecompressor(BlockDecompressor&&) noexcept;
  BlockDecompressor& operator=(BlockDecompressor&&) noexcept;
  Status Decompress(BlockCodec codec, std::span<const std::byte> stored, const BlockLimits& limits,
                    std::string_view what, std::string& raw);

 private:
  struct Tables;
  std::unique_ptr<Tables> tables_;
};

// Appends the compressed bytes to `stored`. `level` means what the codec's library says; snappy has
// none.
Status CompressBlock(BlockCodec codec, std::span<const std::byte> raw, int level,
                     std::string& stored);

}  // namespace partforge::data
