#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/context.h"
#include "store/object_store.h"

namespace partforge::data {

// Puffin files (Apache Iceberg, puffin-spec version 1): blobs between a magic and a JSON footer.

using PuffinProperties = std::vector<std::pair<std::string, std::string>>;  // in file order

struct PuffinBlob {
  std::string type = {};
  std::vector<int32_t> fields = {};
  int64_t snapshot_id = -1;
  int64_t sequence_number = -1;
  int64_t offset = 0;
  int64_t length = 0;                  // stored bytes
  std::string compression_codec = {};  // empty: stored plain
  PuffinProperties properties = {};

  const std::string* Property(std::string_view name) const;  // or null
};

struct PuffinFooter {
  std::vector<PuffinBlob> blobs;
  PuffinProperties properties;
  int64_t footer_size_bytes =
      0;  // the whole footer, both magics included: `file-footer-size-in-bytes`
};

inline constexpr int64_t kPuffinFooterBytesMax = int64_t{64} << 20;
inline constexpr int64_t kPuffinBlobBytesMax = int64_t{256} << 20;

// Reads the footer at the end of a file. Every blob lies inside [4, footer). kCorruption with the
// file's name; kRefused for a flag or footer codec we do not know.
Result<PuffinFooter> ReadPuffinFooter(const Context& ctx, ByteSource& source,
                                      std::string_view file_name);
// A blob's plain bytes: lz4 and zstd frames are unpacked. kRefused for another codec.
Result<std::string> ReadPuffinBlob(const Context& ctx, ByteSource& source, const PuffinBlob& blob,
                                   std::string_view file_name);
// Bytes [offset, offset + length) as they are stored, for readers that know the place without a
// footer (manifest entries of deletion vectors). kCorruption outside the file or above
// kPuffinBlobBytesMax.
Result<std::string> ReadBlobBytes(const Context& ctx, ByteSource& source, int64_t offset,
                                  int64_t length, std::string_view file_name);

// Writes blobs in the order given, then the footer, uncompressed. Nothing is visible before the
// caller closes the sink. One thread at a time.
class PuffinWriter {
  struct Key {};  // only Open may construct

 public:
  PuffinWriter(Key, ByteSink& sink) : sink_(sink) {}
  static Result<std::unique_ptr<PuffinWriter>> Open(const Context& ctx, ByteSink& sink);

  struct Place {
    int64_t offset = 0;
    int64_t length = 0;
  };
  // `blob` says type, fields, ids, properties and, when `bytes` are compressed already, the codec;
  // its place is set here and returned.
  Result<Place> Append(const Context& ctx, PuffinBlob blob, std::span<const std::byte> bytes);
  // Writes the footer; returns its size. Nothing may be appended afterwards.
  Result<int64_t> Finish(const Context& ctx, const PuffinProperties& properties);

  int64_t bytes_written() const { return offset_; }
  size_t blob_count() const { return blobs_.size(); }

 private:
  Status Put(const Context& ctx, std::span<const std::byte> bytes);

  ByteSink& sink_;
  int64_t offset_ = 0;
  std::vector<PuffinBlob> blobs_;
  bool is_finished_ = false;
};

}  // namespace partforge::data
