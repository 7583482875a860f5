#include "data/page_codec.h"

#include <arrow/result.h>
#include <arrow/status.h>
#include <arrow/util/compression.h>
#include <fmt/format.h>
#include <snappy.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "data/arrow_edge.h"

namespace partforge::data {
namespace {

using namespace parquet_field;  // NOLINT: names of parquet.thrift

Status Corrupt(std::string_view what, std::string found) {
  return Status(Code::kCorruption, fmt::format("read pages of {}: {}", what, found));
}

Result<int64_t> Size(const ThriftValue& record, int16_t id, std::string_view what) {
  PF_ASSIGN(const int64_t size, RequireInt(record, id, what));
  if (size < 0) return Corrupt(what, fmt::format("a size of {}", size));
  if (size > kPageBytesMax) {
    return Status(Code::kRefused, fmt::format("read pages of {}: a size or count above {}: {}",
                                              what, kPageBytesMax, size));
  }
  return size;
}

std::string_view AsText(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

bool IsDictionaryEncoding(int encoding) {
  return encoding == static_cast<int>(PageEncoding::kRleDictionary) ||
         encoding == static_cast<int>(PageEncoding::kPlainDictionary);
}

Result<PageHeader> ParsePageHeader(std::span<const std::byte> bytes, std::string_view what) {
  // A header holds a page's statistics at most: sixteen megabytes is what others read, and no list
  // is in it.
  constexpr size_t kHeaderBytesMax = size_t{16} << 20;
  constexpr int64_t kHeaderValuesMax = 1000;
  PF_ASSIGN(const ThriftParsed parsed,
            ParseThriftStruct(bytes.first(std::min(bytes.size(), kHeaderBytesMax)), what,
                              {.values_max = kHeaderValuesMax}));
  PageHeader header;
  header.header_bytes = static_cast<int64_t>(parsed.size_bytes);
  const ThriftValue& tree = parsed.value;
  PF_ASSIGN(const int64_t type, RequireInt(tree, page_header::kType, what));
  PF_ASSIGN(header.uncompressed_bytes, Size(tree, page_header::kUncompressedSize, what));
  PF_ASSIGN(header.compressed_bytes, Size(tree, page_header::kCompressedSize, what));
  if (tree.Find(page_header::kCrc) != nullptr) {
    PF_ASSIGN(const int64_t value, RequireInt(tree, page_header::kCrc, what));
    header.crc = static_cast<uint32_t>(value);
  }
  switch (type) {
    case static_cast<int64_t>(PageType::kData): {
      header.type = PageType::kData;
      PF_ASSIGN(const ThriftValue* data,
                RequireField(tree, page_header::kDataPage, ThriftType::kStruct, what));
      PF_ASSIGN(header.num_values, Size(*data, data_page_header::kNumValues, what));
      PF_ASSIGN(const int64_t encoding, Size(*data, data_page_header::kEncoding, what));
      PF_ASSIGN(const int64_t def, Size(*data, data_page_header::kDefinitionEncoding, what));
      PF_ASSIGN(const int64_t rep, Size(*data, data_page_header::kRepetitionEncoding, what));
      header.encoding = static_cast<int>(encoding);
      header.definition_encoding = static_cast<int>(def);
      header.repetition_encoding = static_cast<int>(rep);
      return header;
    }
    case static_cast<int64_t>(PageType::kDataV2): {
      header.type = PageType::kDataV2;
      PF_ASSIGN(const ThriftValue* data,
                RequireField(tree, page_header::kDataPageV2, ThriftType::kStruct, what));
      PF_ASSIGN(header.num_values, Size(*data, data_page_header_v2::kNumValues, what));
      PF_ASSIGN(header.num_nulls, Size(*data, data_page_header_v2::kNumNulls, what));
      PF_ASSIGN(header.num_rows, Size(*data, data_page_header_v2::kNumRows, what));
      PF_ASSIGN(const int64_t encoding, Size(*data, data_page_header_v2::kEncoding, what));
      PF_ASSIGN(header.definition_bytes, Size(*data, data_page_header_v2::kDefinitionLength, what));
      PF_ASSIGN(header.repetition_bytes, Size(*data, data_page_header_v2::kRepetitionLength, what));
      header.encoding = static_cast<int>(encoding);
      const ThriftValue* compressed = data->Find(data_page_header_v2::kIsCompressed);
      header.is_compressed =
          compressed == nullptr || compressed->type() != ThriftType::kBool || compressed->AsBool();
      const int64_t levels = header.definition_bytes + header.repetition_bytes;
      if (levels > header.compressed_bytes || levels > header.uncompressed_bytes) {
        return Corrupt(what, "levels are longer than their page");
      }
      return header;
    }
    case static_cast<int64_t>(PageType::kDictionary): {
      header.type = PageType::kDictionary;
      PF_ASSIGN(const ThriftValue* data,
                RequireField(tree, page_header::kDictionaryPage, ThriftType::kStruct, what));
      PF_ASSIGN(header.num_values, Size(*data, dictionary_page_header::kNumValues, what));
      PF_ASSIGN(const int64_t encoding, Size(*data, dictionary_page_header::kEncoding, what));
      header.encoding = static_cast<int>(encoding);
      return header;
    }
    case static_cast<int64_t>(PageType::kIndex):
      header.type = PageType::kIndex;
      return header;
    default:
      return Corrupt(what, fmt::format("a page of type {}", type));
  }
}

uint32_t PageCrc(std::span<const std::byte> body) {
  return static_cast<uint32_t>(
      crc32_z(0, reinterpret_cast<const Bytef*>(body.data()), body.size()));
}

Result<std::vector<Page>> ListPages(std::span<const std::byte> chunk, int64_t num_values,
                                    std::string_view what, int64_t pages_max) {
  std::vector<Page> pages;
  int64_t values = 0;
  for (size_t at = 0; at < chunk.size();) {
    auto parsed = ParsePageHeader(chunk.subspan(at), what);
    if (!parsed.ok()) {
      return std::move(parsed).status().With(fmt::format("page header at {} of its chunk", at));
    }
    const PageHeader header = *parsed;
    const size_t body_at = at + static_cast<size_t>(header.header_bytes);
    if (static_cast<size_t>(header.compressed_bytes) > chunk.size() - body_at) {
      return Corrupt(what, fmt::format("a page passes the end of its chunk at {}", at));
    }
    Page page{.header = header, .offset = static_cast<int64_t>(at)};
    page.body = chunk.subspan(body_at, static_cast<size_t>(page.header.compressed_bytes));
    if (page.header.crc && PageCrc(page.body) != *page.header.crc) {
      return Corrupt(what, fmt::format("checksum of the page at {} is wrong", at));
    }
    if (page.header.type == PageType::kDictionary && !pages.empty()) {
      return Corrupt(what, "a dictionary page behind other pages");
    }
    if (page.header.is_data()) values += page.header.num_values;
    at = body_at + page.body.size();
    if (static_cast<int64_t>(pages.size()) == pages_max) {
      return Status(Code::kExhausted,
                    fmt::format("read pages of {}: above {} pages", what, pages_max));
    }
    pages.push_back(page);
  }
  if (values != num_values) {
    return Corrupt(what,
                   fmt::format("pages hold {} values, the footer says {}", values, num_values));
  }
  return pages;
}

struct PageCompressor::State {
  // Pages that claim more than this, and more than so many times their stored bytes, are given room
  // as they turn out to be true.
  static constexpr size_t kBelievedBytes = size_t{1} << 20;
  static constexpr size_t kBelievedRatio = 32;

  bool is_plain = false;
  arrow::Compression::type type = arrow::Compression::UNCOMPRESSED;
  std::string stored, scratch;
  std::unique_ptr<arrow::util::Codec> codec;
  // zstd is called directly: the library's codec makes new contexts, and so clears a megabyte of
  // tables, for each page. Made when they are first needed.
  bool is_zstd = false;
  int zstd_level = 0;
  std::unique_ptr<ZSTD_CCtx, size_t (*)(ZSTD_CCtx*)> zstd_out{nullptr, ZSTD_freeCCtx};
  std::unique_ptr<ZSTD_DCtx, size_t (*)(ZSTD_DCtx*)> zstd_in{nullptr, ZSTD_freeDCtx};

  // Fills `plain`, whose size is what the header says.
  Status UnpackZstd(std::span<const std::byte> packed, std::string_view what, std::string& plain) {
    if (zstd_in == nullptr) zstd_in.reset(ZSTD_createDCtx());
    if (zstd_in == nullptr) return Status(Code::kExhausted, "open zstd: no memory");
    const size_t got = ZSTD_decompressDCtx(zstd_in.get(), plain.data(), plain.size(), packed.data(),
                                           packed.size());
    if (ZSTD_isError(got) != 0) return Corrupt(what, ZSTD_getErrorName(got));
    if (got != plain.size()) {
      return Corrupt(what,
                     fmt::format("a page of {} bytes, its header says {}", got, plain.size()));
    }
    return {};
  }

  // The most that the bytes can become, where their format tells.
  std::optional<size_t> PlainBytesMax(std::span<const std::byte> packed) const {
    constexpr size_t kLz4RatioMax = 255;  // a byte of a length adds so many
    if (type == arrow::Compression::LZ4 || type == arrow::Compression::LZ4_HADOOP) {
      return packed.size() * kLz4RatioMax;
    }
    if (type != arrow::Compression::SNAPPY) return std::nullopt;
    size_t length = 0;  // nothing comes of bytes that do not say how many
    snappy::GetUncompressedLength(reinterpret_cast<const char*>(packed.data()), packed.size(),
                                  &length);
    return length;
  }

  // What a header claims is believed only as far as bytes come: `plain` doubles until it has them.
  Status UnpackGrowing(std::span<const std::byte> packed, size_t plain_bytes, std::string_view what,
                       std::string& plain) const {
    PF_ARROW_ASSIGN(const auto streaming, arrow::util::Codec::Create(type));
    PF_ARROW_ASSIGN(const auto decompressor, streaming->MakeDecompressor());
    size_t written = 0, size = kBelievedBytes;
    while (true) {
      // One byte more than claimed, for streams that have more.
      plain.resize(std::min(size, plain_bytes + 1));
      const auto got = decompressor->Decompress(static_cast<int64_t>(packed.size()),
                                                reinterpret_cast<const uint8_t*>(packed.data()),
                                                static_cast<int64_t>(plain.size() - written),
                                                reinterpret_cast<uint8_t*>(plain.data()) + written);
      if (!got.ok()) return Corrupt(what, got.status().message());
      packed = packed.subspan(static_cast<size_t>(got->bytes_read));
      written += static_cast<size_t>(got->bytes_written);
      const bool is_stuck = got->bytes_read == 0 && got->bytes_written == 0;
      if (written > plain_bytes || is_stuck || (decompressor->IsFinished() && packed.empty())) {
        break;
      }
      if (written == plain.size()) {
        size *= 2;
      } else if (decompressor->IsFinished()) {
        PF_ARROW_TRY(decompressor->Reset());  // a frame behind another
      }
    }
    if (written != plain_bytes || !decompressor->IsFinished()) {
      return Corrupt(what,
                     fmt::format("a page of {} bytes, its header says {}", written, plain_bytes));
    }
    plain.resize(plain_bytes);
    return {};
  }

  // Room for that many bytes in `stored`, which never shrinks: growing clears.
  void MakeRoom(size_t bytes) {
    if (stored.size() < bytes) stored.resize(bytes);
  }

  Result<std::string_view> PackZstd(std::string_view plain) {
    if (zstd_out == nullptr) zstd_out.reset(ZSTD_createCCtx());
    if (zstd_out == nullptr) return Status(Code::kExhausted, "open zstd: no memory");
    MakeRoom(ZSTD_compressBound(plain.size()));
    const size_t got = ZSTD_compressCCtx(zstd_out.get(), stored.data(), stored.size(), plain.data(),
                                         plain.size(), zstd_level);
    if (ZSTD_isError(got) != 0) {
      return Status(Code::kInternal, fmt::format("compress a page: {}", ZSTD_getErrorName(got)));
    }
    return std::string_view(stored).substr(0, got);
  }
};
PageCompressor::PageCompressor(std::unique_ptr<State> state) : state_(std::move(state)) {}
PageCompressor::~PageCompressor() = default;
PageCompressor::PageCompressor(PageCompressor&&) noexcept = default;
PageCompressor& PageCompressor::operator=(PageCompressor&&) noexcept = default;

Result<PageCompressor> PageCompressor::Make(int32_t codec, std::optional<int> level) {
  using arrow::Compression;
  auto state = std::make_unique<State>();
  Compression::type& type = state->type;
  switch (codec) {  // CompressionCodec of parquet.thrift
    case 0:
      state->is_plain = true;
      return PageCompressor(std::move(state));
    case 1:
      type = Compression::SNAPPY;
      break;
    case 2:
      type = Compression::GZIP;
      break;
    case 4:
      type = Compression::BROTLI;
      break;
    case 5:
      type = Compression::LZ4_HADOOP;
      break;
    case 6: {
      PF_ARROW_ASSIGN(const int level_of_arrow,
                      arrow::util::Codec::DefaultCompressionLevel(Compression::ZSTD));
      type = Compression::ZSTD;
      state->is_zstd = true;
      state->zstd_level = level.value_or(level_of_arrow);
      return PageCompressor(std::move(state));
    }
    case 7:
      type = Compression::LZ4;
      break;
    default:
      return Status(Code::kRefused, fmt::format("open pages: no such codec here: {}", codec));
  }
  const bool has_level = arrow::util::Codec::SupportsCompressionLevel(type) && level;
  PF_ARROW_ASSIGN(state->codec, has_level ? arrow::util::Codec::Create(type, *level)
                                          : arrow::util::Codec::Create(type));
  return PageCompressor(std::move(state));
}

Status PageCompressor::Decompress(std::span<const std::byte> stored, int64_t plain_bytes,
                                  std::string_view what, std::string& plain) {
  if (state_->is_plain) {
    if (static_cast<int64_t>(stored.size()) != plain_bytes) {
      return Corrupt(what, "an uncompressed page whose sizes differ");
    }
    plain.assign(AsText(stored));
    return {};
  }
  if (plain_bytes > kPageRatioFromBytes &&
      plain_bytes / kPageRatioMax > static_cast<int64_t>(stored.size())) {
    return Status(Code::kRefused, fmt::format("read pages of {}: a page of {} bytes out of {}",
                                              what, plain_bytes, stored.size()));
  }
  const auto claimed = static_cast<size_t>(plain_bytes);
  if (claimed > State::kBelievedBytes && claimed / State::kBelievedRatio > stored.size()) {
    const auto most = state_->PlainBytesMax(stored);
    if (!most) return state_->UnpackGrowing(stored, claimed, what, plain);
    if (claimed > *most) {
      return Corrupt(what,
                     fmt::format("a page of {} bytes cannot come of {}", claimed, stored.size()));
    }
  }
  plain.resize(claimed);
  if (state_->is_zstd) return state_->UnpackZstd(stored, what, plain);
  const auto got = state_->codec->Decompress(static_cast<int64_t>(stored.size()),
                                             reinterpret_cast<const uint8_t*>(stored.data()),
                                             plain_bytes, reinterpret_cast<uint8_t*>(plain.data()));
  if (!got.ok()) return Corrupt(what, got.status().message());
  if (*got != plain_bytes) {
    return Corrupt(what, fmt::format("a page of {} bytes, its header says {}", *got, plain_bytes));
  }
  return {};
}

Result<std::string_view> PageCompressor::Compress(std::string_view plain) {
  if (state_->is_plain) return plain;
  if (state_->is_zstd) return state_->PackZstd(plain);
  const auto* data = reinterpret_cast<const uint8_t*>(plain.data());
  const auto size = static_cast<int64_t>(plain.size());
  state_->MakeRoom(static_cast<size_t>(state_->codec->MaxCompressedLen(size, data)));
  std::string& stored = state_->stored;
  PF_ARROW_ASSIGN(const int64_t written,
                  state_->codec->Compress(size, data, static_cast<int64_t>(stored.size()),
                                          reinterpret_cast<uint8_t*>(stored.data())));
  return std::string_view(stored).substr(0, static_cast<size_t>(written));
}

std::string& PageCompressor::scratch() {
  return state_->scratch;
}

namespace {

// Takes "int32 length, bytes" off the front.
Result<std::span<const std::byte>> TakeLevels(std::span<const std::byte>& bytes,
                                              std::string_view what) {
  uint32_t length = 0;
  if (bytes.size() < sizeof length) return Corrupt(what, "a page ends in its levels");
  std::memcpy(&length, bytes.data(), sizeof length);
  bytes = bytes.subspan(sizeof length);
  if (length > bytes.size()) return Corrupt(what, "levels are longer than their page");
  const auto levels = bytes.first(length);
  bytes = bytes.subspan(length);
  return levels;
}

}  // namespace

Status OpenPage(const Page& page, const LeafColumn& column, PageCompressor& compressor,
                std::string_view what, OpenedPage& opened) {
  const PageHeader& header = page.header;
  opened.repetition_levels = opened.definition_levels = {};
  if (header.type == PageType::kDataV2) {
    const auto rep = static_cast<size_t>(header.repetition_bytes);
    const auto def = static_cast<size_t>(header.definition_bytes);
    opened.repetition_levels = page.body.first(rep);
    opened.definition_levels = page.body.subspan(rep, def);
    const auto stored = page.body.subspan(rep + def);
    const auto plain_bytes = header.uncompressed_bytes - static_cast<int64_t>(rep + def);
    if (header.is_compressed && !stored.empty()) {
      PF_TRY(compressor.Decompress(stored, plain_bytes, what, opened.plain));
    } else {
      opened.plain.assign(AsText(stored));
    }
    opened.values = std::as_bytes(std::span(opened.plain));
    return {};
  }
  const bool has_old_levels =
      (column.max_definition_level > 0 &&
       header.definition_encoding != static_cast<int>(PageEncoding::kRle)) ||
      (column.max_repetition_level > 0 &&
       header.repetition_encoding != static_cast<int>(PageEncoding::kRle));
  if (has_old_levels) {
    return Status(Code::kRefused,
                  fmt::format("open pages of {}: levels in the deprecated encoding {}", what,
                              header.definition_encoding));
  }
  PF_TRY(compressor.Decompress(page.body, header.uncompressed_bytes, what, opened.plain));
  auto rest = std::as_bytes(std::span(opened.plain));
  if (column.max_repetition_level > 0) {
    PF_ASSIGN(opened.repetition_levels, TakeLevels(rest, what));
  }
  if (column.max_definition_level > 0) {
    PF_ASSIGN(opened.definition_levels, TakeLevels(rest, what));
  }
  opened.values = rest;
  return {};
}

int BitWidth(uint64_t max) {
  int width = 0;
  for (; max > 0; max >>= 1) ++width;
  return width;
}

namespace {

// Walks over the runs of the hybrid (Encodings.md, "RLE / Bit-Packing Hybrid").
class HybridReader {
 public:
  HybridReader(std::span<const std::byte> bytes, int bit_width)
      : at_(reinterpret_cast<const uint8_t*>(bytes.data())),
        end_(at_ + bytes.size()),
        bit_width_(bit_width) {}

  struct Run {
    bool is_repeated = false;
    uint32_t value = 0;               // repeated
    const uint8_t* packed = nullptr;  // else: bytes of the packed values
    int64_t packed_bytes = 0;         // that are there; the last group may be cut
    int64_t count = 0;                // never 0
  };

  // False at the end or when the bytes make no sense.
  bool Next(Run& run) {
    while (true) {
      uint32_t head = 0;
      if (!Varint(head)) return false;
      run.count = head >> 1;
      run.is_repeated = (head & 1) == 0;
      if (run.is_repeated) {
        const int bytes = (bit_width_ + 7) / 8;
        if (end_ - at_ < bytes) return false;
        run.value = 0;
        for (int i = 0; i < bytes; ++i) run.value |= uint32_t{*at_++} << (8 * i);
      } else {
        run.packed_bytes = std::min<int64_t>(run.count * bit_width_, end_ - at_);
        run.packed = at_;
        at_ += run.packed_bytes;
        run.count *= 8;
      }
      if (run.count > 0) return true;
    }
  }

 private:
  bool Varint(uint32_t& value) {
    value = 0;
    for (int shift = 0; shift < 35 && at_ < end_; shift += 7) {
      const uint8_t byte = *at_++;
      value |= uint32_t{static_cast<uint8_t>(byte & 0x7F)} << shift;
      if ((byte & 0x80) == 0) return true;
    }
    return false;
  }

  const uint8_t* at_;
  const uint8_t* const end_;
  const int bit_width_;
};

// Unpacks `count` values, least significant bit first. False when the bytes do not hold them.
bool Unpack(const HybridReader::Run& run, int bit_width, int64_t count, uint32_t* out) {
  if ((count * bit_width + 7) / 8 > run.packed_bytes) return false;
  const uint64_t mask = (uint64_t{1} << bit_width) - 1;
  int64_t i = 0;
  if constexpr (std::endian::native == std::endian::little) {
    // A value of 32 bits and the 7 bits before it lie within the eight bytes from its first on.
    const int64_t whole = (run.packed_bytes - 8) * 8 / bit_width;
    for (const int64_t end = std::min(count, whole); i < end; ++i) {
      const int64_t bit = i * bit_width;
      uint64_t word = 0;
      std::memcpy(&word, run.packed + bit / 8, sizeof word);
      out[i] = static_cast<uint32_t>(word >> (bit % 8) & mask);
    }
  }
  for (; i < count; ++i) {
    uint64_t value = 0;
    const int64_t bit = i * bit_width;
    for (int64_t at = bit / 8; at * 8 < bit + bit_width; ++at) {
      const int64_t shift = at * 8 - bit;
      const uint64_t byte = run.packed[at];
      value |= shift < 0 ? byte >> -shift : byte << shift;
    }
    out[i] = static_cast<uint32_t>(value & mask);
  }
  return true;
}

}  // namespace

Status DecodeHybrid(std::span<const std::byte> bytes, int bit_width, int64_t count, uint32_t max,
                    std::string_view what, std::vector<uint32_t>& values) {
  if (bit_width < 0 || bit_width > 32) {
    return Corrupt(what, fmt::format("a bit width of {}", bit_width));
  }
  values.clear();
  if (count == 0) return {};
  if (count > kPageValuesMax) {
    return Status(Code::kRefused,
                  fmt::format("read pages of {}: a page of {} values", what, count));
  }
  if (bit_width == 0) {
    // One possible value needs no bits; writers store a run header or nothing at all.
    values.assign(static_cast<size_t>(count), 0);
    return {};
  }
  // A run may repeat a value any number of times: the count is the header's, checked against the
  // limit of a page before.
  values.resize(static_cast<size_t>(count));
  HybridReader reader(bytes, bit_width);
  HybridReader::Run run;
  uint32_t largest = 0;
  for (int64_t done = 0; done < count;) {
    if (!reader.Next(run)) {
      return Corrupt(what, fmt::format("levels or indices end at {} of {}", done, count));
    }
    const int64_t take = std::min(run.count, count - done);
    uint32_t* out = values.data() + done;
    if (run.is_repeated) {
      std::fill(out, out + take, run.value);
      largest = std::max(largest, run.value);
    } else {
      if (!Unpack(run, bit_width, take, out)) {
        return Corrupt(what, fmt::format("levels or indices end at {} of {}", done, count));
      }
      for (int64_t i = 0; i < take; ++i) largest = std::max(largest, out[i]);
    }
    done += take;
  }
  if (largest > max)
    return Corrupt(what, fmt::format("a level or index above {}: {}", max, largest));
  return {};
}

Result<int64_t> CountInHybrid(std::span<const std::byte> bytes, int bit_width, int64_t count,
                              uint32_t value, std::string_view what) {
  if (bit_width == 0) return value == 0 ? count : 0;
  HybridReader reader(bytes, bit_width);
  HybridReader::Run run;
  std::vector<uint32_t> unpacked;
  int64_t found = 0;
  for (int64_t done = 0; done < count;) {
    if (!reader.Next(run)) return Corrupt(what, fmt::format("levels end at {} of {}", done, count));
    const int64_t take = std::min(run.count, count - done);
    if (run.is_repeated) {
      if (run.value == value) found += take;
    } else {
      if ((take * bit_width + 7) / 8 > run.packed_bytes) {
        return Corrupt(what, fmt::format("levels end at {} of {}", done, count));
      }
      unpacked.resize(static_cast<size_t>(take));
      Unpack(run, bit_width, take, unpacked.data());
      found += std::count(unpacked.begin(), unpacked.end(), value);
    }
    done += take;
  }
  return found;
}

namespace {

void PutVarint(uint32_t value, std::string& out) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}

// Bit-packed groups of eight; the last is filled up with zeros, which readers cut by the count.
void PutPacked(std::span<const uint32_t> values, int bit_width, std::string& out) {
  if (values.empty()) return;
  const size_t groups = (values.size() + 7) / 8;
  PutVarint(static_cast<uint32_t>(groups << 1 | 1), out);
  const size_t begin = out.size(), size = groups * static_cast<size_t>(bit_width);
  out.resize(begin + size);
  char* at = out.data() + begin;
  uint64_t bits = 0;
  int have = 0;  // below 32 before each value
  for (const uint32_t value : values) {
    bits |= uint64_t{value} << have;
    have += bit_width;
    if (have >= 32) {
      for (int i = 0; i < 4; ++i) *at++ = static_cast<char>(bits >> (8 * i));
      bits >>= 32;
      have -= 32;
    }
  }
  for (; have > 0; have -= 8, bits >>= 8) *at++ = static_cast<char>(bits);
}

}  // namespace

void EncodeHybrid(std::span<const uint32_t> values, int bit_width, std::string& out) {
  // A repeated run pays from eight values on; wide groups of packed values must be whole.
  constexpr size_t kRunMin = 8;
  const auto value_bytes = static_cast<size_t>((bit_width + 7) / 8);
  size_t packed_from = 0;
  for (size_t i = 0; i < values.size();) {
    size_t run = 1;
    while (i + run < values.size() && values[i + run] == values[i]) ++run;
    // A literal group of eight that has begun must be filled before a run may end it.
    const size_t open = (i - packed_from) % 8;
    const size_t fill = open == 0 ? 0 : 8 - open;
    if (run >= kRunMin + fill) {
      i += fill;
      run -= fill;
      PutPacked(values.subspan(packed_from, i - packed_from), bit_width, out);
      PutVarint(static_cast<uint32_t>(run << 1), out);
      for (size_t b = 0; b < value_bytes; ++b) {
        out.push_back(static_cast<char>(values[i] >> (8 * b)));
      }
      i += run;
      packed_from = i;
    } else {
      i += run;
    }
  }
  PutPacked(values.subspan(packed_from), bit_width, out);
}

namespace {

Status CheckPageSize(size_t bytes) {
  if (static_cast<int64_t>(bytes) <= kPageBytesMax) return {};
  return Status(Code::kExhausted,
                fmt::format("write a page: above {} bytes: {}", kPageBytesMax, bytes));
}

// Header with its sizes and checksum, then the body.
int64_t PutPage(ThriftValue& header, int64_t plain_bytes, std::string_view body, std::string& out) {
  header.Set(page_header::kUncompressedSize, ThriftValue::I32(static_cast<int32_t>(plain_bytes)));
  header.Set(page_header::kCompressedSize, ThriftValue::I32(static_cast<int32_t>(body.size())));
  const auto crc =
      static_cast<int32_t>(PageCrc(std::as_bytes(std::span(body.data(), body.size()))));
  header.Set(page_header::kCrc, ThriftValue::I32(crc));
  const size_t before = out.size();
  AppendThriftStruct(header, out);
  const auto header_bytes = static_cast<int64_t>(out.size() - before);
  out.append(body);
  return header_bytes + plain_bytes;
}

void PutLevels(std::string_view levels, std::string& out) {
  const auto length = static_cast<uint32_t>(levels.size());
  out.append(reinterpret_cast<const char*>(&length), sizeof length);
  out.append(levels);
}

}  // namespace

Result<int64_t> WriteDataPage(const PageParts& parts, const LeafColumn& column,
                              PageCompressor& compressor, std::string& out) {
  ThriftValue header = ThriftValue::Struct();
  header.Set(page_header::kType, ThriftValue::I32(static_cast<int32_t>(parts.type)));
  ThriftValue data = ThriftValue::Struct();
  if (parts.type == PageType::kDataV2) {
    PF_TRY(CheckPageSize(parts.values.size() + parts.definition_levels.size() +
                         parts.repetition_levels.size()));
    PF_ASSIGN(const std::string_view stored, compressor.Compress(parts.values));
    const auto set = [&](int16_t id, int64_t value) {
      data.Set(id, ThriftValue::I32(static_cast<int32_t>(value)));
    };
    set(data_page_header_v2::kNumValues, parts.num_values);
    set(data_page_header_v2::kNumNulls, parts.num_nulls);
    set(data_page_header_v2::kNumRows, parts.num_rows);
    set(data_page_header_v2::kEncoding, parts.encoding);
    set(data_page_header_v2::kDefinitionLength,
        static_cast<int64_t>(parts.definition_levels.size()));
    set(data_page_header_v2::kRepetitionLength,
        static_cast<int64_t>(parts.repetition_levels.size()));
    data.Set(data_page_header_v2::kIsCompressed, ThriftValue::Bool(true));
    header.Set(page_header::kDataPageV2, std::move(data));
    std::string& body = compressor.scratch();
    body = parts.repetition_levels;
    body += parts.definition_levels;
    const auto plain_bytes = static_cast<int64_t>(body.size() + parts.values.size());
    body += stored;
    return PutPage(header, plain_bytes, body, out);
  }
  std::string_view plain = parts.values;
  if (column.max_definition_level > 0) {
    std::string& whole = compressor.scratch();
    whole.clear();
    if (column.max_repetition_level > 0) PutLevels(parts.repetition_levels, whole);
    PutLevels(parts.definition_levels, whole);
    whole += parts.values;
    plain = whole;
  }
  PF_TRY(CheckPageSize(plain.size()));
  PF_ASSIGN(const std::string_view stored, compressor.Compress(plain));
  const auto set = [&](int16_t id, int64_t value) {
    data.Set(id, ThriftValue::I32(static_cast<int32_t>(value)));
  };
  set(data_page_header::kNumValues, parts.num_values);
  set(data_page_header::kEncoding, parts.encoding);
  set(data_page_header::kDefinitionEncoding, static_cast<int64_t>(PageEncoding::kRle));
  set(data_page_header::kRepetitionEncoding, static_cast<int64_t>(PageEncoding::kRle));
  header.Set(page_header::kDataPage, std::move(data));
  return PutPage(header, static_cast<int64_t>(plain.size()), stored, out);
}

Result<int64_t> WriteDictionaryPage(std::string_view values, int64_t entry_count,
                                    PageCompressor& compressor, std::string& out) {
  PF_TRY(CheckPageSize(values.size()));
  PF_ASSIGN(const std::string_view stored, compressor.Compress(values));
  ThriftValue data = ThriftValue::Struct();
  data.Set(dictionary_page_header::kNumValues, ThriftValue::I32(static_cast<int32_t>(entry_count)));
  data.Set(dictionary_page_header::kEncoding,
           ThriftValue::I32(static_cast<int32_t>(PageEncoding::kPlain)));
  ThriftValue header = ThriftValue::Struct();
  header.Set(page_header::kType, ThriftValue::I32(static_cast<int32_t>(PageType::kDictionary)));
  header.Set(page_header::kDictionaryPage, std::move(data));
  return PutPage(header, static_cast<int64_t>(values.size()), stored, out);
}

}  // namespace partforge::data
