#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "data/parquet_footer.h"
#include "data/parquet_schema.h"
#include "data/thrift_compact.h"

namespace partforge::data {

// Pages of a Parquet column chunk (parquet.thrift, Encodings.md): headers, levels, the
// RLE/bit-packed hybrid, compression. Nothing here allocates more than the bytes given or the
// header allows.

// Encodings of parquet.thrift.
enum class PageEncoding : int8_t {
  kPlain = 0,
  kPlainDictionary = 2,  // of old writers; the same bytes as kRleDictionary
  kRle = 3,
  kBitPacked = 4,
  kDeltaBinaryPacked = 5,
  kDeltaLengthByteArray = 6,
  kDeltaByteArray = 7,
  kRleDictionary = 8,
  kByteStreamSplit = 9,
};
bool IsDictionaryEncoding(int encoding);

enum class PageType : int8_t { kData = 0, kIndex = 1, kDictionary = 2, kDataV2 = 3 };

struct PageHeader {
  PageType type = PageType::kData;
  int64_t header_bytes = 0;
  int64_t uncompressed_bytes = 0;  // of the body, levels included
  int64_t compressed_bytes = 0;    // of the body as stored
  std::optional<uint32_t> crc = std::nullopt;
  int64_t num_values = 0;  // levels counted; entries of a dictionary
  int encoding = 0;
  int definition_encoding = 3, repetition_encoding = 3;  // v1
  // v2: the levels are stored uncompressed before the values.
  int64_t definition_bytes = 0, repetition_bytes = 0, num_rows = 0, num_nulls = 0;
  bool is_compressed = true;

  bool is_data() const { return type == PageType::kData || type == PageType::kDataV2; }
};

// Largest body of a page, stored or plain; larger ones are kRefused, which leaves them to the
// library.
inline constexpr int64_t kPageBytesMax = int64_t{1} << 30;

// Most levels or indices of one page that are decoded; pages of more are left to the library.
inline constexpr int64_t kPageValuesMax = int64_t{1} << 24;
// A page above the first size that is more than that many times its stored bytes is kRefused too.
inline constexpr int64_t kPageRatioFromBytes = int64_t{64} << 20;
inline constexpr int64_t kPageRatioMax = 1000;

// The header that `bytes` begin with. kCorruption for what is none, and for counts and sizes that
// are negative; kRefused for those above kPageBytesMax.
Result<PageHeader> ParsePageHeader(std::span<const std::byte> bytes, std::string_view what);

// A page of a chunk held in memory.
struct Page {
  PageHeader header;
  int64_t offset = 0;                    // of the header in the chunk's bytes
  std::span<const std::byte> body = {};  // as stored
  int64_t stored_bytes() const { return header.header_bytes + header.compressed_bytes; }
};
// Walks over all pages of a chunk. kCorruption unless they fill it exactly and their values add up
// to `num_values`, a dictionary page stands first and only once. Checksums are verified where there
// are any. kExhausted when there are more than `pages_max`.
Result<std::vector<Page>> ListPages(std::span<const std::byte> chunk, int64_t num_values,
                                    std::string_view what, int64_t pages_max = INT64_MAX);

// Compression of one column chunk (CompressionCodec of parquet.thrift). One thread at a time.
class PageCompressor {
 public:
  // kRefused for a codec the build lacks (LZO).
  static Result<PageCompressor> Make(int32_t codec, std::optional<int> level);
  ~PageCompressor();
  PageCompressor(PageCompressor&&) noexcept;
  PageCompressor& operator=(PageCompressor&&) noexcept;
  // Replaces `plain` by the plain bytes, exactly `plain_bytes` of them; kCorruption otherwise.
  Status Decompress(std::span<const std::byte> stored, int64_t plain_bytes, std::string_view what,
                    std::string& plain);
  // The view holds until the next call.
  Result<std::string_view> Compress(std::string_view plain);
  // A buffer whose memory serves all pages, for what is to be compressed.
  std::string& scratch();

 private:
  struct State;
  explicit PageCompressor(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// A data page taken apart; spans lie in `plain` or in the page's body.
struct OpenedPage {
  std::string plain;                             // the decompressed part
  std::span<const std::byte> repetition_levels;  // hybrid bytes, without the length of v1
  std::span<const std::byte> definition_levels;
  std::span<const std::byte> values;
};
// kRefused for levels in the deprecated BIT_PACKED encoding, which only decoding by the library
// can read.
Status OpenPage(const Page& page, const LeafColumn& column, PageCompressor& compressor,
                std::string_view what, OpenedPage& opened);

// Bits that hold values up to `max`; 0 for 0.
int BitWidth(uint64_t max);

// Decodes `count` values of the hybrid, each at most `max`. kCorruption when the bytes end before
// or a value is larger; kRefused above kPageValuesMax. `values` is replaced.
Status DecodeHybrid(std::span<const std::byte> bytes, int bit_width, int64_t count, uint32_t max,
                    std::string_view what, std::vector<uint32_t>& values);
// Appends the encoding of values that all fit the width (0 to 32 bits).
void EncodeHybrid(std::span<const uint32_t> values, int bit_width, std::string& out);

// How many of the hybrid's values equal `value`; for counting nulls without decoding all.
Result<int64_t> CountInHybrid(std::span<const std::byte> bytes, int bit_width, int64_t count,
                              uint32_t value, std::string_view what);

// CRC-32 of a page's stored body (Parquet, "Checksumming").
uint32_t PageCrc(std::span<const std::byte> body);

// Header and body of a page of version 1 or 2 whose levels and values are given plain; `nulls` and
// `rows` matter for version 2. The compressed body goes to `out` behind its header. Returns the
// number of bytes it would take uncompressed, with header.
struct PageParts {
  PageType type = PageType::kData;
  int64_t num_values = 0, num_nulls = 0, num_rows = 0;
  int encoding = 0;
  std::string_view repetition_levels = {};  // hybrid bytes; empty when the maximum level is 0
  std::string_view definition_levels = {};
  std::string_view values = {};
};
Result<int64_t> WriteDataPage(const PageParts& parts, const LeafColumn& column,
                              PageCompressor& compressor, std::string& out);
// `values` in PLAIN encoding.
Result<int64_t> WriteDictionaryPage(std::string_view values, int64_t entry_count,
                                    PageCompressor& compressor, std::string& out);

}  // namespace partforge::data
