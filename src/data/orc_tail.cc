#include "data/orc_tail.h"

#include <arrow/util/compression.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "data/arrow_edge.h"
#include "data/block_codec.h"
#include "data/proto_wire.h"

namespace partforge::data {
namespace {

constexpr int64_t kFirstReadBytes = int64_t{16} << 10;
constexpr int64_t kBlockBytesMax = int64_t{8} << 20;  // the length of a block has 23 bits
constexpr int64_t kBlockBytesDefault = int64_t{256} << 10;
constexpr size_t kBlockHeadBytes = 3;
constexpr uint32_t kDepthMax = 64;

int64_t Clamped(uint64_t value) {
  return static_cast<int64_t>(std::min<uint64_t>(value, std::numeric_limits<int64_t>::max()));
}

// The last part of the file, which is never compressed.
struct PostScript {
  int64_t footer_bytes = 0, metadata_bytes = 0;
  uint64_t compression = 0, block_bytes = static_cast<uint64_t>(kBlockBytesDefault);
  uint64_t writer_version = 0;
  bool has_magic = false;
};

std::optional<PostScript> ParsePostScript(std::string_view message) {
  PostScript script;
  ProtoReader fields(message);
  while (fields.Next()) {
    switch (fields.number()) {
      case 1:
        script.footer_bytes = Clamped(fields.Unsigned());
        break;
      case 2:
        script.compression = fields.Unsigned();
        break;
      case 3:
        script.block_bytes = fields.Unsigned();
        break;
      case 5:
        script.metadata_bytes = Clamped(fields.Unsigned());
        break;
      case 6:
        script.writer_version = fields.Unsigned();
        break;
      case 8000:
        script.has_magic = fields.Bytes() == "ORC";
        break;
      default:
        break;
    }
  }
  return fields.ok() ? std::optional(script) : std::nullopt;
}

Result<std::unique_ptr<arrow::util::Codec>> CodecOf(OrcCompression compression) {
  auto type = arrow::Compression::UNCOMPRESSED;
  arrow::util::GZipCodecOptions raw_deflate;
  raw_deflate.gzip_format = arrow::util::GZipFormat::DEFLATE;
  arrow::util::CodecOptions plain;
  const arrow::util::CodecOptions* options = &plain;
  switch (compression) {
    case OrcCompression::kNone:
      return std::unique_ptr<arrow::util::Codec>();
    case OrcCompression::kZlib:
      type = arrow::Compression::GZIP;
      options = &raw_deflate;
      break;
    case OrcCompression::kSnappy:
      type = arrow::Compression::SNAPPY;
      break;
    case OrcCompression::kLzo:
      return Status(Code::kRefused, "LZO is not supported");
    case OrcCompression::kLz4:
      type = arrow::Compression::LZ4;
      break;
    case OrcCompression::kZstd:
      type = arrow::Compression::ZSTD;
      break;
    case OrcCompression::kBrotli:
      type = arrow::Compression::BROTLI;
      break;
  }
  PF_ARROW_ASSIGN(auto codec, arrow::util::Codec::Create(type, *options));
  return codec;
}

struct Block {
  bool is_plain = false;
  std::string_view bytes;
};

// Takes the first of the compressed blocks (ORC Specification v1, "Compression").
std::optional<Block> TakeBlock(std::string_view& stored) {
  if (stored.size() < kBlockHeadBytes) return std::nullopt;
  const auto byte = [&](size_t i) { return size_t{static_cast<uint8_t>(stored[i])}; };
  const size_t head = byte(0) | byte(1) << 8 | byte(2) << 16;
  const size_t length = head >> 1;
  if (length > stored.size() - kBlockHeadBytes) return std::nullopt;
  const Block block{.is_plain = (head & 1) != 0, .bytes = stored.substr(kBlockHeadBytes, length)};
  stored.remove_prefix(kBlockHeadBytes + length);
  return block;
}

struct PlainBytes {
  std::string bytes;
  MemoryGrant grant;
};

// Decompresses a message. What it may become is taken from the budget first.
Result<PlainBytes> Decompress(const Context& ctx, OrcCompression compression, int64_t block_bytes,
                              std::string_view stored) {
  PlainBytes plain;
  PF_ASSIGN(const auto codec, CodecOf(compression));
  if (codec == nullptr) {
    PF_ASSIGN(plain.grant, ctx.memory.TryReserve(static_cast<int64_t>(stored.size())));
    plain.bytes = stored;
    return plain;
  }
  const BlockLimits limits;
  const auto room_of = [&](const Block& block) {
    const auto length = static_cast<int64_t>(block.bytes.size());
    return block.is_plain ? length : std::min(block_bytes, limits.RawBytesMax(length));
  };
  const int64_t most = limits.RawBytesMax(static_cast<int64_t>(stored.size()));
  int64_t expected = 0, room = 0;
  for (std::string_view left = stored; !left.empty();) {
    const auto block = TakeBlock(left);
    if (!block) return Status(Code::kCorruption, "a compressed block is cut");
    expected += room_of(*block);
    room = std::max(room, room_of(*block));
    if (expected > most + block_bytes) {
      return Status(Code::kCorruption, fmt::format("a message above {} bytes", most));
    }
  }
  PF_ASSIGN(plain.grant, ctx.memory.TryReserve(expected + room));
  std::vector<uint8_t> buffer(static_cast<size_t>(room));
  while (!stored.empty()) {
    const Block block = *TakeBlock(stored);
    if (block.is_plain) {
      plain.bytes += block.bytes;
      continue;
    }
    if (compression == OrcCompression::kZstd) {
      // Arrow's takes only bytes whose plain length is known before.
      BlockLimits own;
      own.raw_bytes_max = own.ratio_from_bytes = room_of(block);
      PF_TRY(DecompressBlock(BlockCodec::kZstd, std::as_bytes(std::span(block.bytes)), own,
                             "a block of the tail", plain.bytes));
      continue;
    }
    const auto length = codec->Decompress(static_cast<int64_t>(block.bytes.size()),
                                          reinterpret_cast<const uint8_t*>(block.bytes.data()),
                                          room_of(block), buffer.data());
    if (!length.ok()) {
      return FromArrow(length.status()).As(Code::kCorruption).With("decompress");
    }
    plain.bytes.append(reinterpret_cast<const char*>(buffer.data()), static_cast<size_t>(*length));
  }
  plain.grant.Release();
  PF_ASSIGN(plain.grant, ctx.memory.TryReserve(static_cast<int64_t>(plain.bytes.size())));
  return plain;
}

std::pair<std::string, std::string> ParsePair(std::string_view message) {
  std::pair<std::string, std::string> pair;
  ProtoReader fields(message);
  while (fields.Next()) {
    if (fields.number() == 1) pair.first = fields.Bytes();
    if (fields.number() == 2) pair.second = fields.Bytes();
  }
  return pair;
}

Status ParseType(std::string_view message, OrcType& type) {
  uint64_t kind = 0, value = 0;
  ProtoReader fields(message);
  while (fields.Next()) {
    switch (fields.number()) {
      case 1:
        kind = fields.Unsigned();
        break;
      case 2:
        while (fields.NextUnsigned(value)) {
          if (value > std::numeric_limits<uint32_t>::max()) value = 0;  // no child has this number
          type.children.push_back(static_cast<uint32_t>(value));
        }
        break;
      case 3:
        type.names.emplace_back(fields.Bytes());
        break;
      case 4:
        type.length_max = Clamped(fields.Unsigned());
        break;
      case 5:
      case 6:
        value = std::min<uint64_t>(fields.Unsigned(), 1000);
        (fields.number() == 5 ? type.precision : type.scale) = static_cast<int>(value);
        break;
      case 7:
        type.attributes.push_back(ParsePair(fields.Bytes()));
        break;
      default:
        break;
    }
  }
  if (!fields.ok() || kind > kOrcKindLast) {
    return Status(Code::kCorruption, fmt::format("a type of kind {}", kind));
  }
  type.kind = static_cast<OrcKind>(kind);
  return {};
}

// Types stand depth first: the children of each follow it, one subtree behind the other.
Status CheckTypes(std::vector<OrcType>& types) {
  if (types.empty()) return Status(Code::kCorruption, "no type");
  const auto count = static_cast<uint32_t>(types.size());
  for (uint32_t i = count; i-- > 0;) {
    OrcType& type = types[i];
    type.end = i + 1;
    for (const uint32_t child : type.children) {
      if (child != type.end || child >= count) {
        return Status(Code::kCorruption, fmt::format("type {} has the child {}", i, child));
      }
      type.end = types[child].end;
    }
    const size_t children = type.children.size();
    const bool fits = type.kind == OrcKind::kStruct  ? type.names.size() == children
                      : type.kind == OrcKind::kList  ? children == 1
                      : type.kind == OrcKind::kMap   ? children == 2
                      : type.kind == OrcKind::kUnion ? true
                                                     : children == 0;
    if (!fits) {
      return Status(Code::kCorruption, fmt::format("type {} has {} children", i, children));
    }
  }
  if (types[0].end != count) return Status(Code::kCorruption, "types that belong to nothing");
  std::vector<uint32_t> depths(count, 0);
  for (uint32_t i = 0; i < count; ++i) {
    if (depths[i] > kDepthMax) return Status(Code::kCorruption, "types are nested too deep");
    for (const uint32_t child : types[i].children) depths[child] = depths[i] + 1;
  }
  return {};
}

Status ParseStripe(std::string_view message, OrcTail& tail, int64_t data_end) {
  OrcStripePlace stripe;
  ProtoReader fields(message);
  while (fields.Next()) {
    if (fields.number() == 6 || fields.number() == 7) tail.is_encrypted = true;
    if (fields.number() < 1 || fields.number() > 5) continue;
    const int64_t value = Clamped(fields.Unsigned());
    switch (fields.number()) {
      case 1:
        stripe.offset = value;
        break;
      case 2:
        stripe.index_bytes = value;
        break;
      case 3:
        stripe.data_bytes = value;
        break;
      case 4:
        stripe.footer_bytes = value;
        break;
      default:
        stripe.row_count = value;
        break;
    }
  }
  int64_t left = data_end;
  for (const int64_t part :
       {stripe.offset, stripe.index_bytes, stripe.data_bytes, stripe.footer_bytes}) {
    if (part > left) {
      return Status(Code::kCorruption, fmt::format("stripe {} ends behind the data, which end at "
                                                   "{}",
                                                   tail.stripes.size(), data_end));
    }
    left -= part;
  }
  if (!fields.ok()) return Status(Code::kCorruption, "a stripe's place is cut");
  if (!tail.stripes.empty()) {
    const OrcStripePlace& last = tail.stripes.back();
    stripe.first_row = last.first_row + last.row_count;
  }
  if (stripe.row_count > std::numeric_limits<int64_t>::max() - stripe.first_row) {
    return Status(Code::kCorruption, fmt::format("a stripe of {} rows", stripe.row_count));
  }
  tail.stripes.push_back(stripe);
  return {};
}

// What the trees of a footer will take, before they grow.
int64_t TreeBytes(std::string_view footer) {
  int64_t bytes = 16 * static_cast<int64_t>(footer.size());  // names, attributes, properties
  ProtoReader fields(footer);
  while (fields.Next()) {
    if (fields.number() == 3) bytes += static_cast<int64_t>(sizeof(OrcStripePlace));
    if (fields.number() == 4) bytes += static_cast<int64_t>(sizeof(OrcType));
    if (fields.number() == 7) bytes += static_cast<int64_t>(sizeof(std::string_view));
  }
  return bytes;
}

Status ParseFooter(OrcTail& tail, int64_t data_end) {
  ProtoReader fields(tail.footer);
  while (fields.Next()) {
    switch (fields.number()) {
      case 3:
        PF_TRY(ParseStripe(fields.Bytes(), tail, data_end));
        break;
      case 4:
        PF_TRY(ParseType(fields.Bytes(), tail.types.emplace_back()));
        break;
      case 5:
        tail.properties.push_back(ParsePair(fields.Bytes()));
        break;
      case 6:
        tail.row_count = Clamped(fields.Unsigned());
        break;
      case 7:
        tail.column_statistics.push_back(fields.Bytes());
        break;
      case 9:
        tail.writer.id = fields.Unsigned();
        break;
      case 10:
        tail.is_encrypted = true;
        break;
      case 12:
        tail.writer.software = fields.Bytes();
        break;
      default:
        break;
    }
  }
  if (!fields.ok()) return Status(Code::kCorruption, "the footer is no message");
  PF_TRY(CheckTypes(tail.types));
  int64_t rows = 0;
  if (!tail.stripes.empty()) {
    rows = tail.stripes.back().first_row + tail.stripes.back().row_count;
  }
  if (rows != tail.row_count) {
    return Status(Code::kCorruption, fmt::format("the stripes have {} rows, the footer says {}",
                                                 rows, tail.row_count));
  }
  return {};
}

Status ReadTail(const Context& ctx, ByteSource& source, OrcTail& tail) {
  const int64_t size = source.size_bytes();
  const int64_t first = std::min(kFirstReadBytes, size);
  if (first < 2) return Status(Code::kCorruption, fmt::format("a file of {} bytes", size));
  PF_ASSIGN(std::string end,
            ReadRange(ctx, source, {.offset = size - first, .length = first}, "its end"));
  const auto script_bytes = static_cast<int64_t>(static_cast<uint8_t>(end.back()));
  if (script_bytes > first - 1) return Status(Code::kCorruption, "the postscript is cut");
  const auto script = ParsePostScript(std::string_view(end).substr(
      end.size() - 1 - static_cast<size_t>(script_bytes), static_cast<size_t>(script_bytes)));
  if (!script || !script->has_magic) return Status(Code::kCorruption, "no postscript of ORC");
  const BlockLimits limits;
  const int64_t script_begin = size - 1 - script_bytes;
  if (script->footer_bytes > std::min(script_begin, limits.stored_bytes_max) ||
      script->metadata_bytes >
          std::min(script_begin - script->footer_bytes, limits.stored_bytes_max)) {
    return Status(Code::kCorruption,
                  fmt::format("a footer of {} bytes and metadata of {} bytes in a file of {}",
                              script->footer_bytes, script->metadata_bytes, size));
  }
  if (script->compression > static_cast<uint64_t>(OrcCompression::kBrotli) ||
      script->block_bytes > static_cast<uint64_t>(kBlockBytesMax)) {
    return Status(Code::kCorruption, fmt::format("compression {} in blocks of {} bytes",
                                                 script->compression, script->block_bytes));
  }
  tail.compression = static_cast<OrcCompression>(script->compression);
  tail.block_bytes_max = static_cast<int64_t>(script->block_bytes);
  tail.writer.version = script->writer_version;
  const int64_t data_end = script_begin - script->footer_bytes - script->metadata_bytes;
  tail.size_bytes = size - data_end;
  PF_ASSIGN(const MemoryGrant stored, ctx.memory.TryReserve(tail.size_bytes));
  if (size - data_end > first) {
    PF_ASSIGN(end,
              ReadRange(ctx, source, {.offset = data_end, .length = size - data_end}, "its end"));
  } else {
    end.erase(0, static_cast<size_t>(first - (size - data_end)));
  }
  const std::string_view messages(end);
  const auto metadata_bytes = static_cast<size_t>(script->metadata_bytes);
  const auto plain = [&](std::string_view bytes) {
    return Decompress(ctx, tail.compression, tail.block_bytes_max, bytes);
  };
  PF_ASSIGN(PlainBytes footer,
            plain(messages.substr(metadata_bytes, static_cast<size_t>(script->footer_bytes))));
  PF_ASSIGN(PlainBytes metadata, plain(messages.substr(0, metadata_bytes)));
  const int64_t stripe_views =
      static_cast<int64_t>(metadata.bytes.size() / 2 * sizeof(std::string_view));
  const int64_t kept = TreeBytes(footer.bytes) + stripe_views +
                       static_cast<int64_t>(footer.bytes.size() + metadata.bytes.size());
  footer.grant.Release();
  metadata.grant.Release();
  PF_ASSIGN(MemoryGrant grant, ctx.memory.TryReserve(kept));
  tail.charge = std::make_shared<const MemoryGrant>(std::move(grant));
  tail.footer = std::move(footer.bytes);
  tail.metadata = std::move(metadata.bytes);
  PF_TRY(ParseFooter(tail, data_end));
  ProtoReader stripes(tail.metadata);
  while (stripes.Next()) {
    if (stripes.number() == 1) tail.stripe_statistics.push_back(stripes.Bytes());
  }
  if (!stripes.ok()) return Status(Code::kCorruption, "the metadata are no message");
  return {};
}

std::vector<OrcColumnStatistics> ParseAll(const std::vector<std::string_view>& messages,
                                          const OrcTail& tail) {
  std::vector<OrcColumnStatistics> columns;
  if (messages.size() != tail.types.size() || tail.is_encrypted) return columns;
  for (size_t i = 0; i < messages.size(); ++i) {
    auto statistics = ParseOrcStatistics(messages[i], tail.types[i], tail.writer);
    if (!statistics) return {};
    columns.push_back(*std::move(statistics));
  }
  return columns;
}

}  // namespace

std::vector<OrcColumnStatistics> OrcTail::FileStatistics() const {
  return ParseAll(column_statistics, *this);
}

std::vector<OrcColumnStatistics> OrcTail::StripeStatistics(size_t stripe) const {
  if (stripe_statistics.size() != stripes.size() || stripe >= stripes.size()) return {};
  std::vector<std::string_view> messages;
  ProtoReader fields(stripe_statistics[stripe]);
  while (fields.Next()) {
    if (fields.number() == 1) messages.push_back(fields.Bytes());
    if (messages.size() > types.size()) return {};
  }
  return fields.ok() ? ParseAll(messages, *this) : std::vector<OrcColumnStatistics>();
}

Result<std::unique_ptr<OrcTail>> ReadOrcTail(const Context& ctx, ByteSource& source,
                                             std::string_view file_name) {
  auto tail = std::make_unique<OrcTail>();
  Status status = ReadTail(ctx, source, *tail);
  if (!status.ok()) {
    return std::move(status).With(fmt::format("read the tail of ORC {}", file_name));
  }
  return tail;
}

Result<OrcStripeFooter> ReadOrcStripeFooter(const Context& ctx, ByteSource& source,
                                            const OrcTail& tail, size_t stripe,
                                            std::string_view file_name) {
  const OrcStripePlace& place = tail.stripes.at(stripe);
  const auto at = [&](Status status) {
    return std::move(status).With(
        fmt::format("read ORC {}, footer of stripe {}", file_name, stripe));
  };
  if (place.footer_bytes > BlockLimits().stored_bytes_max) {
    return at(Status(Code::kCorruption, fmt::format("{} bytes", place.footer_bytes)));
  }
  PF_ASSIGN(const MemoryGrant stored, ctx.memory.TryReserve(place.footer_bytes));
  PF_ASSIGN(const std::string bytes, ReadRange(ctx, source, place.footer(), file_name));
  auto plain = Decompress(ctx, tail.compression, tail.block_bytes_max, bytes);
  if (!plain.ok()) return at(plain.status());
  OrcStripeFooter footer;
  // Each stream takes some bytes of the message at least.
  constexpr int64_t kBytesAByte = sizeof(OrcStream) / 2;
  PF_ASSIGN(footer.charge,
            ctx.memory.TryReserve(static_cast<int64_t>(plain->bytes.size()) * kBytesAByte));
  const int64_t streams_end = place.footer().offset;
  int64_t offset = place.offset;
  ProtoReader fields(plain->bytes);
  while (fields.Next()) {
    if (fields.number() == 1) {
      OrcStream stream{.bytes = {.offset = offset, .length = 0}};
      uint64_t column = 0;
      ProtoReader own(fields.Bytes());
      while (own.Next()) {
        if (own.number() == 1) stream.kind = own.Unsigned();
        if (own.number() == 2) column = own.Unsigned();
        if (own.number() == 3) stream.bytes.length = Clamped(own.Unsigned());
      }
      if (!own.ok() || column >= tail.types.size() || stream.bytes.length > streams_end - offset) {
        return at(Status(Code::kCorruption, fmt::format("a stream of column {} and {} bytes",
                                                        column, stream.bytes.length)));
      }
      stream.column = static_cast<uint32_t>(column);
      offset += stream.bytes.length;
      footer.streams.push_back(stream);
    } else if (fields.number() == 2) {
      uint64_t kind = 0;
      ProtoReader own(fields.Bytes());
      while (own.Next()) {
        if (own.number() == 1) kind = own.Unsigned();
      }
      footer.encodings.push_back(kind);
    } else if (fields.number() == 3) {
      footer.writer_timezone = fields.Bytes();
    }
  }
  if (!fields.ok()) return at(Status(Code::kCorruption, "it is no message"));
  return footer;
}

std::string OrcEncodingName(uint64_t encoding) {
  constexpr std::array<std::string_view, 4> kNames = {"direct", "dictionary", "direct v2",
                                                      "dictionary v2"};
  return encoding < kNames.size() ? std::string(kNames[encoding]) : fmt::format("{}", encoding);
}

std::string_view OrcCompressionName(OrcCompression compression) {
  constexpr std::array<std::string_view, 7> kNames = {"none", "zlib", "snappy", "lzo",
                                                      "lz4",  "zstd", "brotli"};
  return kNames[static_cast<size_t>(compression)];
}

}  // namespace partforge::data
