#include "data/parquet_footer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "base/hash.h"

namespace partforge::data {

namespace {

using namespace parquet_field;  // NOLINT: names of parquet.thrift, used in every line of this file

constexpr std::string_view kMagic = "PAR1";
constexpr std::string_view kEncryptedMagic = "PARE";
constexpr int64_t kTrailerBytes = 8;  // footer length and magic
constexpr int64_t kCodecMax = 7;      // LZ4_RAW
constexpr int64_t kRepeated = 2, kOptional = 1;
// The first read takes this much of the file's end, which holds most footers whole.
constexpr int64_t kTailGuessBytes = 64 << 10;

Status Corrupt(std::string_view file_name, std::string found) {
  return Status(Code::kCorruption, fmt::format("check footer of {}: {}", file_name, found));
}

Status Encrypted(std::string_view file_name) {
  return Status(Code::kRefused, fmt::format("read footer: file is encrypted: {}", file_name));
}

// Length of the footer out of the last 8 bytes of the file.
Result<int64_t> FooterLength(std::span<const std::byte> tail, int64_t file_size_bytes,
                             std::string_view file_name) {
  if (static_cast<int64_t>(tail.size()) < kTrailerBytes ||
      file_size_bytes < kTrailerBytes + static_cast<int64_t>(kMagic.size())) {
    return Corrupt(file_name, fmt::format("file is too short: {}", file_size_bytes));
  }
  const std::byte* trailer = tail.data() + tail.size() - kTrailerBytes;
  const std::string_view magic(reinterpret_cast<const char*>(trailer) + 4, 4);
  if (magic == kEncryptedMagic) return Encrypted(file_name);
  if (magic != kMagic) return Corrupt(file_name, "no PAR1 at the end");
  uint32_t length = 0;
  std::memcpy(&length, trailer, sizeof length);
  if (int64_t{length} > file_size_bytes - kTrailerBytes - static_cast<int64_t>(kMagic.size())) {
    return Corrupt(file_name, fmt::format("footer is longer than the file: {}", length));
  }
  if (int64_t{length} > kParquetFooterBytesMax) {
    return Corrupt(file_name,
                   fmt::format("footer is above {} bytes: {}", kParquetFooterBytesMax, length));
  }
  return int64_t{length};
}

// Reads an offset and a length field into a range; both absent gives the empty range.
Result<FileRange> RangeOf(const ThriftValue& record, int16_t offset_id, int16_t length_id,
                          std::string_view file_name) {
  PF_ASSIGN(const int64_t offset, IntOr(record, offset_id, 0, file_name));
  PF_ASSIGN(const int64_t length, IntOr(record, length_id, 0, file_name));
  if (offset < 0 || length < 0) {
    return Corrupt(file_name, fmt::format("negative offset or length: {}, {}", offset, length));
  }
  if (offset > std::numeric_limits<int64_t>::max() - length) {
    return Corrupt(file_name, fmt::format("range beyond 64 bits: {}", offset));
  }
  return FileRange{.offset = offset, .length = length};
}

Result<int64_t> Count(const ThriftValue& record, int16_t id, std::string_view file_name) {
  PF_ASSIGN(const int64_t count, RequireInt(record, id, file_name));
  if (count < 0)
    return Corrupt(file_name, fmt::format("negative count in field {}: {}", id, count));
  return count;
}

// Collects every range of bytes the footer names; each must lie before the footer and none may
// overlap.
class Ranges {
 public:
  Ranges(int64_t footer_start, std::string_view file_name)
      : footer_start_(footer_start), file_name_(file_name) {}

  Status Add(FileRange range, std::string_view kind) {
    if (range.offset < static_cast<int64_t>(kMagic.size()) || range.end() > footer_start_) {
      return Corrupt(file_name_, fmt::format("{} lies outside the file's data: [{}, {})", kind,
                                             range.offset, range.end()));
    }
    if (range.length > 0) ranges_.push_back(range);
    return {};
  }

  Status CheckDisjoint() {
    std::sort(ranges_.begin(), ranges_.end(),
              [](const FileRange& a, const FileRange& b) { return a.offset < b.offset; });
    for (size_t i = 1; i < ranges_.size(); ++i) {
      if (ranges_[i].offset < ranges_[i - 1].end()) {
        return Corrupt(file_name_,
                       fmt::format("column chunks or indexes overlap at {}", ranges_[i].offset));
      }
    }
    return {};
  }

 private:
  const int64_t footer_start_;
  const std::string_view file_name_;
  std::vector<FileRange> ranges_;
};

Status CheckChunk(const ThriftValue& chunk, const SchemaLeaf& leaf, const ThriftValue& element,
                  int64_t row_count, Ranges& ranges, std::string_view file_name) {
  if (chunk.Find(column_chunk::kCryptoMetadata) != nullptr ||
      chunk.Find(column_chunk::kEncryptedMetadata) != nullptr) {
    return Encrypted(file_name);
  }
  if (const ThriftValue* path = chunk.Find(column_chunk::kFilePath);
      path != nullptr && path->type() == ThriftType::kBinary && !path->AsBinary().empty()) {
    return Status(Code::kRefused, fmt::format("read footer of {}: column lies in another file: {}",
                                              file_name, path->AsBinary()));
  }
  PF_ASSIGN(const ChunkView view, ViewChunk(chunk, file_name));
  PF_ASSIGN(const ThriftValue* metadata,
            RequireField(chunk, column_chunk::kMetaData, ThriftType::kStruct, file_name));
  PF_ASSIGN(const auto* path,
            RequireList(*metadata, column_metadata::kPathInSchema, ThriftType::kBinary, file_name));
  const bool same_path = std::equal(
      path->begin(), path->end(), leaf.path.begin(), leaf.path.end(),
      [](const ThriftValue& part, const std::string& name) { return part.AsBinary() == name; });
  if (!same_path) {
    return Corrupt(file_name, fmt::format("chunk is not of the schema's column: {}",
                                          fmt::join(leaf.path, ".")));
  }
  PF_ASSIGN(const int64_t chunk_type, RequireInt(*metadata, column_metadata::kType, file_name));
  PF_ASSIGN(const int64_t leaf_type, RequireInt(element, schema_element::kType, file_name));
  if (chunk_type != leaf_type) {
    return Corrupt(file_name, fmt::format("chunk has another type than the schema's column: {}",
                                          fmt::join(leaf.path, ".")));
  }
  if (leaf.max_repetition_level == 0 && view.num_values != row_count) {
    return Corrupt(file_name, fmt::format("column {} has {} values in a row group of {} rows",
                                          fmt::join(leaf.path, "."), view.num_values, row_count));
  }
  // Arrow's chunks without rows may have no page and no place.
  const bool has_no_place = view.num_values == 0 && view.bytes == FileRange();
  if (!has_no_place) PF_TRY(ranges.Add(view.bytes, "column chunk"));
  if (view.offset_index.length > 0) PF_TRY(ranges.Add(view.offset_index, "offset index"));
  if (view.column_index.length > 0) PF_TRY(ranges.Add(view.column_index, "column index"));
  if (view.bloom_filter.offset > 0) PF_TRY(ranges.Add(view.bloom_filter, "bloom filter"));
  return {};
}

Result<ThriftValue*> MetadataOf(ThriftValue& chunk, std::string_view file_name) {
  ThriftValue* metadata = chunk.Find(column_chunk::kMetaData);
  if (metadata == nullptr || metadata->type() != ThriftType::kStruct) {
    return Corrupt(file_name, "column chunk without metadata");
  }
  return metadata;
}

Status Place(ThriftValue& record, int16_t offset_id, int16_t length_id, FileRange range) {
  if (range.length == 0) {
    record.Remove(offset_id);
    record.Remove(length_id);
    return {};
  }
  if (range.length > std::numeric_limits<int32_t>::max()) {
    return Status(Code::kInvalidArgument,
                  fmt::format("place an index: length above 32 bits: {}", range.length));
  }
  record.Set(offset_id, ThriftValue::I64(range.offset));
  record.Set(length_id, ThriftValue::I32(static_cast<int32_t>(range.length)));
  return {};
}

}  // namespace

int64_t ParquetFooter::num_rows() const {
  return tree.Find(file_metadata::kNumRows)->AsInt();
}

int ParquetFooter::row_group_count() const {
  return static_cast<int>(tree.Find(file_metadata::kRowGroups)->items().size());
}

int ParquetFooter::leaf_count() const {
  if (row_group_count() == 0) return 0;
  return static_cast<int>(row_group(0).Find(row_group::kColumns)->items().size());
}

const ThriftValue& ParquetFooter::row_group(int index) const {
  return tree.Find(file_metadata::kRowGroups)->items()[static_cast<size_t>(index)];
}

const ThriftValue& ParquetFooter::chunk(int row_group_index, int column) const {
  return row_group(row_group_index).Find(row_group::kColumns)->items()[static_cast<size_t>(column)];
}

std::string ParquetFooter::column_path(int column) const {
  if (row_group_count() == 0) return "";
  std::vector<std::string_view> parts;
  const ThriftValue* path =
      chunk(0, column).Find(column_chunk::kMetaData)->Find(column_metadata::kPathInSchema);
  for (const ThriftValue& part : path->items()) parts.push_back(part.AsBinary());
  return fmt::format("{}", fmt::join(parts, "."));
}

namespace {

std::string FooterName(int64_t footer_start, std::string_view file_name) {
  return fmt::format("footer of {}, which begins at {}", file_name, footer_start);
}

// The bytes of the footer alone, out of the last ones of a file.
std::span<const std::byte> FooterBytes(std::string_view tail, int64_t length) {
  return AsBytes(tail).subspan(tail.size() - static_cast<size_t>(length + kTrailerBytes),
                               static_cast<size_t>(length));
}

Result<ParquetFooter> Checked(ThriftValue tree, int64_t file_size_bytes, int64_t length,
                              std::string_view file_name) {
  ParquetFooter footer{.tree = std::move(tree),
                       .file_size_bytes = file_size_bytes,
                       .footer_start = file_size_bytes - kTrailerBytes - length};
  PF_TRY(CheckFooter(footer, file_name));
  return footer;
}

}  // namespace

Result<ParquetFooter> ReadParquetFooter(const Context& ctx, ByteSource& source,
                                        std::string_view file_name) {
  const int64_t file_size = source.size_bytes();
  std::string tail(static_cast<size_t>(std::clamp<int64_t>(file_size, 0, kTailGuessBytes)), '\0');
  const auto read_tail = [&]() {
    return source.ReadAt(ctx, file_size - static_cast<int64_t>(tail.size()),
                         std::as_writable_bytes(std::span(tail)));
  };
  PF_TRY(read_tail());
  PF_ASSIGN(const int64_t length, FooterLength(AsBytes(tail), file_size, file_name));
  MemoryGrant stored;
  if (length + kTrailerBytes > static_cast<int64_t>(tail.size())) {
    auto grant = ctx.memory.TryReserve(length);
    if (!grant.ok()) {
      return Status(Code::kExhausted,
                    fmt::format("read footer of {}: {} bytes, which the memory budget of {} has no "
                                "room for (more memory: --memory)",
                                file_name, length, ctx.memory.limit_bytes()));
    }
    stored = std::move(grant).value();
    tail.assign(static_cast<size_t>(length + kTrailerBytes), '\0');
    PF_TRY(read_tail());
  }
  PF_ASSIGN(ChargedThrift tree,
            ParseThriftWithin(ctx.memory, FooterBytes(tail, length),
                              FooterName(file_size - kTrailerBytes - length, file_name)));
  PF_ASSIGN(ParquetFooter footer, Checked(std::move(tree.value), file_size, length, file_name));
  footer.charge = std::make_shared<const MemoryGrant>(std::move(tree.grant));
  return footer;
}

Result<ParquetFooter> ParseParquetFooter(std::span<const std::byte> tail, int64_t file_size_bytes,
                                         std::string_view file_name) {
  PF_ASSIGN(const int64_t length, FooterLength(tail, file_size_bytes, file_name));
  if (length + kTrailerBytes > static_cast<int64_t>(tail.size())) {
    return Corrupt(file_name, fmt::format("footer is not whole in the last {} bytes", tail.size()));
  }
  const std::string_view text(reinterpret_cast<const char*>(tail.data()), tail.size());
  PF_ASSIGN(ThriftParsed parsed,
            ParseThriftStruct(FooterBytes(text, length),
                              FooterName(file_size_bytes - kTrailerBytes - length, file_name)));
  return Checked(std::move(parsed.value), file_size_bytes, length, file_name);
}

Status CheckFooter(const ParquetFooter& footer, std::string_view file_name) {
  const ThriftValue& tree = footer.tree;
  if (tree.Find(file_metadata::kEncryptionAlgorithm) != nullptr) return Encrypted(file_name);
  PF_ASSIGN(const int64_t file_rows, Count(tree, file_metadata::kNumRows, file_name));
  PF_ASSIGN(const auto* schema,
            RequireList(tree, file_metadata::kSchema, ThriftType::kStruct, file_name));
  PF_ASSIGN(const std::vector<SchemaLeaf> leaves, SchemaLeaves(*schema, file_name));
  PF_ASSIGN(const auto* groups,
            RequireList(tree, file_metadata::kRowGroups, ThriftType::kStruct, file_name));

  Ranges ranges(footer.footer_start, file_name);
  int64_t rows_left = file_rows;
  for (const ThriftValue& group : *groups) {
    PF_ASSIGN(const int64_t row_count, Count(group, row_group::kNumRows, file_name));
    PF_ASSIGN([[maybe_unused]] const int64_t size,
              Count(group, row_group::kTotalByteSize, file_name));
    if (row_count > rows_left) return Corrupt(file_name, "row groups hold more rows than the file");
    rows_left -= row_count;
    PF_ASSIGN(const auto* chunks,
              RequireList(group, row_group::kColumns, ThriftType::kStruct, file_name));
    if (chunks->size() != leaves.size()) {
      return Corrupt(file_name, fmt::format("row group has {} columns, the schema {}",
                                            chunks->size(), leaves.size()));
    }
    for (size_t i = 0; i < leaves.size(); ++i) {
      PF_TRY(CheckChunk((*chunks)[i], leaves[i], (*schema)[leaves[i].element], row_count, ranges,
                        file_name));
    }
  }
  if (rows_left != 0) {
    return Corrupt(file_name, fmt::format("row groups lack rows of the file: {}", rows_left));
  }
  return ranges.CheckDisjoint();
}

Result<ChunkView> ViewChunk(const ThriftValue& chunk, std::string_view file_name) {
  PF_ASSIGN(const ThriftValue* metadata,
            RequireField(chunk, column_chunk::kMetaData, ThriftType::kStruct, file_name));
  ChunkView view;
  PF_ASSIGN(view.data_page_offset, Count(*metadata, column_metadata::kDataPageOffset, file_name));
  PF_ASSIGN(view.num_values, Count(*metadata, column_metadata::kNumValues, file_name));
  PF_ASSIGN(view.uncompressed_bytes,
            Count(*metadata, column_metadata::kTotalUncompressedSize, file_name));
  PF_ASSIGN(const int64_t compressed,
            Count(*metadata, column_metadata::kTotalCompressedSize, file_name));
  PF_ASSIGN(const int64_t codec, RequireInt(*metadata, column_metadata::kCodec, file_name));
  if (codec < 0 || codec > kCodecMax) {
    return Corrupt(file_name, fmt::format("unknown codec: {}", codec));
  }
  view.codec = static_cast<int32_t>(codec);
  PF_ASSIGN(const int64_t dictionary,
            IntOr(*metadata, column_metadata::kDictionaryPageOffset, 0, file_name));
  if (dictionary < 0) {
    return Corrupt(file_name, fmt::format("negative dictionary offset: {}", dictionary));
  }
  // Arrow writes a dictionary page and no data page for a row group without rows.
  if (view.data_page_offset == 0 && view.num_values == 0 && dictionary > 0 &&
      dictionary <= std::numeric_limits<int64_t>::max() - compressed) {
    view.data_page_offset = dictionary + compressed;
  }
  view.bytes = {.offset = view.data_page_offset, .length = compressed};
  // Some writers store 0, or the offset of the first data page, for "no dictionary".
  if (dictionary > 0 && dictionary < view.data_page_offset) {
    view.dictionary_page_offset = dictionary;
    view.bytes.offset = dictionary;
  }
  if (view.bytes.offset > std::numeric_limits<int64_t>::max() - compressed) {
    return Corrupt(file_name, fmt::format("column chunk beyond 64 bits: {}", view.bytes.offset));
  }
  if (view.data_page_offset > view.bytes.end()) {
    return Corrupt(file_name, fmt::format("data page behind its chunk: {}", view.data_page_offset));
  }
  PF_ASSIGN(view.offset_index, RangeOf(chunk, column_chunk::kOffsetIndexOffset,
                                       column_chunk::kOffsetIndexLength, file_name));
  PF_ASSIGN(view.column_index, RangeOf(chunk, column_chunk::kColumnIndexOffset,
                                       column_chunk::kColumnIndexLength, file_name));
  PF_ASSIGN(view.bloom_filter, RangeOf(*metadata, column_metadata::kBloomFilterOffset,
                                       column_metadata::kBloomFilterLength, file_name));
  return view;
}

Status ShiftChunk(ThriftValue& chunk, int64_t delta, std::string_view file_name) {
  PF_ASSIGN(ThriftValue * metadata, MetadataOf(chunk, file_name));
  constexpr std::array kOffsets = {column_metadata::kDataPageOffset,
                                   column_metadata::kIndexPageOffset,
                                   column_metadata::kDictionaryPageOffset};
  for (const int16_t id : kOffsets) {
    PF_ASSIGN(const int64_t offset, IntOr(*metadata, id, 0, file_name));
    if (offset > 0) metadata->Set(id, ThriftValue::I64(offset + delta));
  }
  // Deprecated, of no meaning to readers; newer writers store 0.
  PF_ASSIGN(const int64_t file_offset, IntOr(chunk, column_chunk::kFileOffset, 0, file_name));
  chunk.Set(column_chunk::kFileOffset, ThriftValue::I64(file_offset > 0 ? file_offset + delta : 0));
  return {};
}

Status PlaceOffsetIndex(ThriftValue& chunk, FileRange range) {
  return Place(chunk, column_chunk::kOffsetIndexOffset, column_chunk::kOffsetIndexLength, range);
}

Status PlaceColumnIndex(ThriftValue& chunk, FileRange range) {
  return Place(chunk, column_chunk::kColumnIndexOffset, column_chunk::kColumnIndexLength, range);
}

Status PlaceBloomFilter(ThriftValue& chunk, FileRange range) {
  PF_ASSIGN(ThriftValue * metadata, MetadataOf(chunk, "a chunk"));
  return Place(*metadata, column_metadata::kBloomFilterOffset, column_metadata::kBloomFilterLength,
               range);
}

Result<std::string> EncodeParquetFooter(const ThriftValue& tree) {
  std::string out = EncodeThriftStruct(tree);
  if (static_cast<int64_t>(out.size()) > kParquetFooterBytesMax) {
    return Status(Code::kExhausted, fmt::format("encode footer: above {} bytes: {}",
                                                kParquetFooterBytesMax, out.size()));
  }
  const auto length = static_cast<uint32_t>(out.size());
  out.append(reinterpret_cast<const char*>(&length), sizeof length);
  out += kMagic;
  return out;
}

namespace {

// Bytes of all leaves' paths together: long group names above many leaves would multiply otherwise.
constexpr size_t kSchemaPathBytesMax = 32 << 20;

// Walks the flattened schema list depth first.
class SchemaWalk {
 public:
  SchemaWalk(const std::vector<ThriftValue>& schema, std::string_view file_name)
      : schema_(schema), file_name_(file_name) {}

  // The children of a group, which begin at `next_`.
  Status Children(int64_t count, int definition, int repetition, int depth) {
    if (depth > kThriftDepthMax) return Corrupt(file_name_, "schema nests too deep");
    for (int64_t i = 0; i < count; ++i) {
      if (next_ >= schema_.size()) return Corrupt(file_name_, "schema ends within a group");
      const size_t index = next_++;
      const ThriftValue& element = schema_[index];
      PF_ASSIGN(const ThriftValue* name,
                RequireField(element, schema_element::kName, ThriftType::kBinary, file_name_));
      PF_ASSIGN(const int64_t mode, RequireInt(element, schema_element::kRepetition, file_name_));
      if (mode < 0 || mode > kRepeated) {
        return Corrupt(file_name_, fmt::format("unknown repetition: {}", mode));
      }
      PF_ASSIGN(const int64_t child_count,
                IntOr(element, schema_element::kNumChildren, 0, file_name_));
      if (child_count < 0) return Corrupt(file_name_, "negative child count in the schema");
      path_.push_back(name->AsBinary());
      const int child_definition = definition + (mode == kRepeated || mode == kOptional ? 1 : 0);
      const int child_repetition = repetition + (mode == kRepeated ? 1 : 0);
      // A group without children has no type; writers of empty structs produce it.
      if (element.Find(schema_element::kType) != nullptr && child_count == 0) {
        for (const std::string& part : path_) path_bytes_ += part.size() + sizeof(std::string);
        if (path_bytes_ > kSchemaPathBytesMax) return Corrupt(file_name_, "schema names too long");
        leaves_.push_back({.path = path_,
                           .element = index,
                           .max_definition_level = child_definition,
                           .max_repetition_level = child_repetition});
      } else {
        PF_TRY(Children(child_count, child_definition, child_repetition, depth + 1));
      }
      path_.pop_back();
    }
    return {};
  }

  Result<std::vector<SchemaLeaf>> Run() {
    if (schema_.empty()) return Corrupt(file_name_, "schema has no root");
    PF_ASSIGN(const int64_t count, IntOr(schema_[0], schema_element::kNumChildren, 0, file_name_));
    next_ = 1;
    PF_TRY(Children(count, 0, 0, 1));
    if (next_ != schema_.size()) return Corrupt(file_name_, "schema has elements left over");
    return std::move(leaves_);
  }

 private:
  const std::vector<ThriftValue>& schema_;
  const std::string_view file_name_;
  size_t next_ = 0;
  size_t path_bytes_ = 0;
  std::vector<std::string> path_;
  std::vector<SchemaLeaf> leaves_;
};

}  // namespace

Result<std::vector<SchemaLeaf>> SchemaLeaves(const std::vector<ThriftValue>& schema,
                                             std::string_view file_name) {
  return SchemaWalk(schema, file_name).Run();
}

}  // namespace partforge::data
