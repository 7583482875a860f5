#include "data/block_codec.h"

#include <fmt/format.h>
#include <lz4frame.h>
#include <snappy.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

namespace partforge::data {

namespace {

struct CodecName {
  BlockCodec codec;
  std::string_view name;
};
constexpr std::array kAvroNames = {
    CodecName{BlockCodec::kNone, "null"}, CodecName{BlockCodec::kDeflate, "deflate"},
    CodecName{BlockCodec::kSnappy, "snappy"}, CodecName{BlockCodec::kZstd, "zstandard"}};

constexpr size_t kCrcBytes = 4;
constexpr size_t kGrowBytes = 64 << 10;

Status Corrupt(std::string_view what, std::string_view found) {
  return Status(Code::kCorruption, fmt::format("decompress {}: {}", what, found));
}

// Grows the output as a streaming decompressor asks for room, never beyond the limits.
class RawOutput {
 public:
  RawOutput(std::string& raw, size_t stored_bytes, const BlockLimits& limits)
      : raw_(raw), begin_(raw.size()), used_(raw.size()) {
    limit_ = static_cast<size_t>(limits.RawBytesMax(static_cast<int64_t>(stored_bytes)));
  }
  ~RawOutput() { raw_.resize(used_); }

  // Room for more output; empty when the limit is reached.
  std::span<char> Room() {
    if (used_ == raw_.size()) {
      const size_t have = used_ - begin_;
      const size_t more = std::min(std::max(have, kGrowBytes), limit_ - have);
      raw_.resize(used_ + more);
    }
    return {raw_.data() + used_, raw_.size() - used_};
  }
  void Took(size_t bytes) { used_ += bytes; }
  // Makes room at once when the size is known and allowed; a lie only wastes what the limit allows.
  void Expect(uint64_t size_bytes) {
    if (used_ == begin_ && size_bytes <= limit_) raw_.resize(begin_ + size_bytes);
  }
  size_t limit_bytes() const { return limit_; }

 private:
  std::string& raw_;
  const size_t begin_;
  size_t used_;
  size_t limit_ = 0;
};

Status TooLarge(std::string_view what, const RawOutput& out) {
  return Corrupt(what, fmt::format("plain bytes above the limit: {}", out.limit_bytes()));
}

struct InflateEnd {
  void operator()(z_stream* stream) const { inflateEnd(stream); }
};
struct DeflateEnd {
  void operator()(z_stream* stream) const { deflateEnd(stream); }
};

Bytef* ZlibBytes(const void* bytes) {
  return const_cast<Bytef*>(static_cast<const Bytef*>(bytes));
}

// Python's writers cut two bytes off zlib's header and leave (most of) its checksum at the end
// (measured: fastavro 1.13.1, PyIceberg 0.12.0).
constexpr uInt kZlibTrailerBytes = 4;

Status Inflate(std::span<const std::byte> stored, std::string_view what, RawOutput& out) {
  z_stream stream{};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) {
    return Status(Code::kExhausted, "start inflate: out of memory");
  }
  const std::unique_ptr<z_stream, InflateEnd> end(&stream);
  stream.next_in = ZlibBytes(stored.data());
  stream.avail_in = static_cast<uInt>(stored.size());
  while (true) {
    const std::span<char> room = out.Room();
    stream.next_out = ZlibBytes(room.data());
    stream.avail_out = static_cast<uInt>(room.size());
    const int code = inflate(&stream, Z_NO_FLUSH);
    out.Took(room.size() - stream.avail_out);
    if (code == Z_STREAM_END) break;
    if (room.empty()) return TooLarge(what, out);
    if (code == Z_BUF_ERROR || (code == Z_OK && stream.avail_in == 0 && stream.avail_out > 0)) {
      return Corrupt(what, "deflate data end too early");
    }
    if (code != Z_OK) return Corrupt(what, "not deflate data");
  }
  if (stream.avail_in > kZlibTrailerBytes) {
    return Corrupt(what, "bytes left over after deflate data");
  }
  return {};
}

Status Unsnap(std::span<const std::byte> stored, std::string_view what, RawOutput& out) {
  if (stored.size() < kCrcBytes) return Corrupt(what, "snappy data without a checksum");
  const auto* data = reinterpret_cast<const char*>(stored.data());
  const size_t length = stored.size() - kCrcBytes;
  size_t raw_length = 0;
  if (!snappy::GetUncompressedLength(data, length, &raw_length)) {
    return Corrupt(what, "not snappy data");
  }
  if (raw_length > out.limit_bytes()) return TooLarge(what, out);
  std::string raw(raw_length, '\0');
  if (!snappy::RawUncompress(data, length, raw.data())) return Corrupt(what, "not snappy data");
  uint32_t stored_crc = 0;
  std::memcpy(&stored_crc, data + length, sizeof stored_crc);
  const auto crc = static_cast<uint32_t>(crc32_z(0, ZlibBytes(raw.data()), raw.size()));
  if (crc != __builtin_bswap32(stored_crc))
    return Corrupt(what, "checksum of snappy data is wrong");
  for (size_t at = 0; at < raw.size();) {
    const std::span<char> room = out.Room();
    const size_t count = std::min(room.size(), raw.size() - at);
    std::memcpy(room.data(), raw.data() + at, count);
    out.Took(count);
    at += count;
  }
  return {};
}

// A frame's header may ask for a window of 2^31 bytes, which the library allocates before it has
// seen any data: 8 MiB (what level 19 needs) unless that much output is allowed anyway.
constexpr int kZstdWindowLogMin = 23, kZstdWindowLogMax = 27;

using ZstdContext = std::unique_ptr<ZSTD_DCtx, decltype(&ZSTD_freeDCtx)>;

Status Unzstd(std::span<const std::byte> stored, std::string_view what, ZstdContext& context,
              RawOutput& out) {
  if (context == nullptr) context.reset(ZSTD_createDCtx());
  if (context == nullptr) return Status(Code::kExhausted, "start zstd: out of memory");
  ZSTD_DCtx_reset(context.get(), ZSTD_reset_session_only);
  out.Expect(ZSTD_getFrameContentSize(stored.data(), stored.size()));
  const bool is_wide = out.limit_bytes() > size_t{1} << kZstdWindowLogMin;
  ZSTD_DCtx_setParameter(context.get(), ZSTD_d_windowLogMax,
                         is_wide ? kZstdWindowLogMax : kZstdWindowLogMin);
  ZSTD_inBuffer in{stored.data(), stored.size(), 0};
  size_t hint = 1;
  while (in.pos < in.size || hint != 0) {
    const std::span<char> room = out.Room();
    ZSTD_outBuffer to{room.data(), room.size(), 0};
    const size_t in_before = in.pos;
    hint = ZSTD_decompressStream(context.get(), &to, &in);
    if (ZSTD_isError(hint) != 0) {
      return Corrupt(what, fmt::format("not zstd data: {}", ZSTD_getErrorName(hint)));
    }
    out.Took(to.pos);
    if (hint == 0 && in.pos == in.size) return {};
    const bool has_moved = to.pos > 0 || in.pos > in_before;
    if (!has_moved && room.empty()) return TooLarge(what, out);
    if (!has_moved) return Corrupt(what, "zstd data end too early");
  }
  return {};
}

Status Unlz4(std::span<const std::byte> stored, std::string_view what, RawOutput& out) {
  LZ4F_dctx* raw_context = nullptr;
  if (LZ4F_isError(LZ4F_createDecompressionContext(&raw_context, LZ4F_VERSION)) != 0) {
    return Status(Code::kExhausted, "start lz4: out of memory");
  }
  const std::unique_ptr<LZ4F_dctx, decltype(&LZ4F_freeDecompressionContext)> context(
      raw_context, &LZ4F_freeDecompressionContext);
  const auto* data = reinterpret_cast<const char*>(stored.data());
  size_t at = 0;
  while (true) {
    const std::span<char> room = out.Room();
    size_t produced = room.size();
    size_t consumed = stored.size() - at;
    const size_t hint =
        LZ4F_decompress(context.get(), room.data(), &produced, data + at, &consumed, nullptr);
    if (LZ4F_isError(hint) != 0) {
      return Corrupt(what, fmt::format("not an lz4 frame: {}", LZ4F_getErrorName(hint)));
    }
    at += consumed;
    out.Took(produced);
    if (hint == 0) break;
    if (produced > 0 || consumed > 0) continue;
    if (room.empty()) return TooLarge(what, out);
    return Corrupt(what, "lz4 frame ends too early");
  }
  if (at != stored.size()) return Corrupt(what, "bytes left over after the lz4 frame");
  return {};
}

}  // namespace

std::optional<BlockCodec> AvroCodecOf(std::string_view name) {
  const auto found = std::ranges::find(kAvroNames, name, &CodecName::name);
  if (found == kAvroNames.end()) return std::nullopt;
  return found->codec;
}

std::string_view AvroCodecName(BlockCodec codec) {
  const auto found = std::ranges::find(kAvroNames, codec, &CodecName::codec);
  PF_CHECK(found != kAvroNames.end(), "a codec that Avro does not have");
  return found->name;
}

struct BlockDecompressor::Tables {
  ZstdContext zstd{nullptr, &ZSTD_freeDCtx};
};
BlockDecompressor::BlockDecompressor() : tables_(std::make_unique<Tables>()) {}
BlockDecompressor::~BlockDecompressor() = default;
BlockDecompressor::BlockDecompressor(BlockDecompressor&&) noexcept = default;
BlockDecompressor& BlockDecompressor::operator=(BlockDecompressor&&) noexcept = default;

Status DecompressBlock(BlockCodec codec, std::span<const std::byte> stored,
                       const BlockLimits& limits, std::string_view what, std::string& raw) {
  return BlockDecompressor().Decompress(codec, stored, limits, what, raw);
}

Status BlockDecompressor::Decompress(BlockCodec codec, std::span<const std::byte> stored,
                                     const BlockLimits& limits, std::string_view what,
                                     std::string& raw) {
  if (static_cast<int64_t>(stored.size()) > limits.stored_bytes_max) {
    return Corrupt(
        what, fmt::format("stored bytes above {}: {}", limits.stored_bytes_max, stored.size()));
  }
  RawOutput out(raw, stored.size(), limits);
  switch (codec) {
    case BlockCodec::kNone:
      for (size_t at = 0; at < stored.size();) {
        const std::span<char> room = out.Room();
        if (room.empty()) return TooLarge(what, out);
        const size_t count = std::min(room.size(), stored.size() - at);
        std::memcpy(room.data(), stored.data() + at, count);
        out.Took(count);
        at += count;
      }
      return {};
    case BlockCodec::kDeflate:
      return Inflate(stored, what, out);
    case BlockCodec::kSnappy:
      return Unsnap(stored, what, out);
    case BlockCodec::kZstd:
      return Unzstd(stored, what, tables_->zstd, out);
    case BlockCodec::kLz4:
      return Unlz4(stored, what, out);
  }
  return Status(Code::kInternal, "decompress: a codec without code");
}

namespace {

Status Deflate(std::span<const std::byte> raw, int level, std::string& stored) {
  z_stream stream{};
  if (deflateInit2(&stream, level, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
    return Status(Code::kInvalidArgument, fmt::format("start deflate: level {}", level));
  }
  const std::unique_ptr<z_stream, DeflateEnd> end(&stream);
  const size_t begin = stored.size();
  const size_t bound = deflateBound(&stream, raw.size());
  stored.resize(begin + bound);
  stream.next_in = ZlibBytes(raw.data());
  stream.avail_in = static_cast<uInt>(raw.size());
  stream.next_out = ZlibBytes(stored.data() + begin);
  stream.avail_out = static_cast<uInt>(bound);
  if (deflate(&stream, Z_FINISH) != Z_STREAM_END) {
    return Status(Code::kInternal, "deflate did not end within its bound");
  }
  stored.resize(begin + bound - stream.avail_out);
  return {};
}

Status Snap(std::span<const std::byte> raw, std::string& stored) {
  const size_t begin = stored.size();
  stored.resize(begin + snappy::MaxCompressedLength(raw.size()));
  size_t length = 0;
  snappy::RawCompress(reinterpret_cast<const char*>(raw.data()), raw.size(), stored.data() + begin,
                      &length);
  stored.resize(begin + length);
  const uint32_t crc =
      __builtin_bswap32(static_cast<uint32_t>(crc32_z(0, ZlibBytes(raw.data()), raw.size())));
  stored.append(reinterpret_cast<const char*>(&crc), sizeof crc);
  return {};
}

Status Zstd(std::span<const std::byte> raw, int level, std::string& stored) {
  const size_t begin = stored.size();
  const size_t bound = ZSTD_compressBound(raw.size());
  stored.resize(begin + bound);
  const size_t length = ZSTD_compress(stored.data() + begin, bound, raw.data(), raw.size(), level);
  if (ZSTD_isError(length) != 0) {
    return Status(Code::kInternal, fmt::format("compress by zstd: {}", ZSTD_getErrorName(length)));
  }
  stored.resize(begin + length);
  return {};
}

Status Lz4(std::span<const std::byte> raw, int level, std::string& stored) {
  LZ4F_preferences_t preferences{};
  preferences.frameInfo.contentSize = raw.size();
  preferences.compressionLevel = level;
  const size_t begin = stored.size();
  const size_t bound = LZ4F_compressFrameBound(raw.size(), &preferences);
  stored.resize(begin + bound);
  const size_t length =
      LZ4F_compressFrame(stored.data() + begin, bound, raw.data(), raw.size(), &preferences);
  if (LZ4F_isError(length) != 0) {
    return Status(Code::kInternal, fmt::format("compress by lz4: {}", LZ4F_getErrorName(length)));
  }
  stored.resize(begin + length);
  return {};
}

}  // namespace

Status CompressBlock(BlockCodec codec, std::span<const std::byte> raw, int level,
                     std::string& stored) {
  if (raw.size() > uint64_t{1} << 31) {
    return Status(Code::kInvalidArgument,
                  fmt::format("compress a block: above 2^31 bytes: {}", raw.size()));
  }
  switch (codec) {
    case BlockCodec::kNone:
      stored.append(reinterpret_cast<const char*>(raw.data()), raw.size());
      return {};
    case BlockCodec::kDeflate:
      return Deflate(raw, level, stored);
    case BlockCodec::kSnappy:
      return Snap(raw, stored);
    case BlockCodec::kZstd:
      return Zstd(raw, level, stored);
    case BlockCodec::kLz4:
      return Lz4(raw, level, stored);
  }
  return Status(Code::kInternal, "compress: a codec without code");
}

}  // namespace partforge::data
