#include "data/avro_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace partforge::data {

namespace {

constexpr std::string_view kMagic("Obj\x01", 4);
constexpr std::string_view kSchemaKey = "avro.schema";
constexpr std::string_view kCodecKey = "avro.codec";
constexpr int64_t kHeaderGuessBytes = 64 << 10;  // first read of a header
constexpr int64_t kWindowBytes = 1 << 20;        // how much is read at once from then on
constexpr int64_t kBlockHeadBytesMax = 20;       // two varints
constexpr int64_t kMetadataEntriesMax = 1 << 16;

// The part of a header behind the magic. Uses the cursor of data, whose failures are those of a
// header too.
struct MetadataPart {
  AvroMetadata entries;
  size_t size_bytes = 0;
};

std::optional<MetadataPart> ReadMetadata(AvroCursor& cursor) {
  // A map of bytes: runs of entries with a count, or a negative count and a size in bytes.
  AvroType bytes_type;
  bytes_type.kind = AvroKind::kBytes;
  bytes_type.size_bytes_min = 1;
  MetadataPart part;
  cursor.ForItems(bytes_type, 2, [&] {
    std::string key(cursor.Bytes());
    part.entries.emplace_back(std::move(key), std::string(cursor.Bytes()));
    if (part.entries.size() > kMetadataEntriesMax) cursor.Fail("too many metadata entries");
  });
  if (!cursor.ok()) return std::nullopt;
  part.size_bytes = cursor.position();
  return part;
}

}  // namespace

const std::string* AvroHeader::Find(std::string_view key) const {
  const auto found = std::ranges::find(metadata, key, &AvroMetadata::value_type::first);
  return found == metadata.end() ? nullptr : &found->second;
}

Status AvroFileReader::Corrupt(std::string_view found, int64_t offset) const {
  return Status(Code::kCorruption,
                fmt::format("read Avro file {}: {} at offset {}", file_name_, found, offset));
}

Result<std::unique_ptr<AvroFileReader>> AvroFileReader::Open(const Context& ctx, ByteSource& source,
                                                             std::string file_name) {
  auto reader = std::make_unique<AvroFileReader>(Key{}, source, std::move(file_name), ctx.memory);
  PF_TRY(reader->ReadHeader(ctx));
  return reader;
}

Status AvroFileReader::ReadHeader(const Context& ctx) {
  const int64_t file_size = source_.size_bytes();
  const auto magic_bytes = static_cast<int64_t>(kMagic.size());
  if (file_size < magic_bytes) return Corrupt("the file is too short", file_size);
  // The header's length is in no place: read more until it is whole.
  for (int64_t length = std::min(kHeaderGuessBytes, file_size);;
       length = std::min(length * 4, file_size)) {
    PF_ASSIGN(const auto bytes, Window(ctx, 0, length));
    if (std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) != 0) {
      return Corrupt("no Avro magic", 0);
    }
    int64_t no_empty_items = 0;
    AvroCursor cursor(bytes.subspan(kMagic.size()), no_empty_items);
    std::optional<MetadataPart> part = ReadMetadata(cursor);
    const auto sync = cursor.Fixed(header_.sync.size());
    if (part && cursor.ok()) {
      std::ranges::copy(sync, header_.sync.begin());
      header_.metadata = std::move(part->entries);
      header_.size_bytes = magic_bytes + static_cast<int64_t>(cursor.position());
      break;
    }
    if (length == file_size || length >= kAvroMetadataBytesMax) {
      return cursor.Failure(fmt::format("header of Avro file {}", file_name_));
    }
  }
  if (header_.size_bytes > kAvroMetadataBytesMax) return Corrupt("metadata too long", 0);
  const std::string* schema = header_.Find(kSchemaKey);
  if (schema == nullptr) return Corrupt("no avro.schema in the header", 0);
  auto parsed = AvroSchema::Parse(*schema);
  if (!parsed.ok()) return std::move(parsed).status().With(fmt::format("read {}", file_name_));
  header_.schema = std::move(parsed).value();
  if (const std::string* name = header_.Find(kCodecKey)) {
    const std::optional<BlockCodec> codec = AvroCodecOf(*name);
    if (!codec) {
      return Status(Code::kRefused, fmt::format("read Avro file {}: codec is not supported: {}",
                                                file_name_, *name));
    }
    header_.codec = *codec;
  }
  offset_ = header_.size_bytes;
  return {};
}

Result<std::span<const std::byte>> AvroFileReader::Window(const Context& ctx, int64_t offset,
                                                          int64_t length) {
  const int64_t file_size = source_.size_bytes();
  if (length > file_size - offset) return Corrupt("the file ends too early", file_size);
  const int64_t window_end = window_offset_ + static_cast<int64_t>(window_.size());
  if (offset < window_offset_ || offset + length > window_end) {
    const int64_t wanted = std::min(std::max(length, kWindowBytes), file_size - offset);
    // Headers are read as far as asked only: most files are one header and one block.
    PF_TRY(ChargeBuffers(ctx, std::max(wanted, static_cast<int64_t>(window_.capacity())) +
                                  static_cast<int64_t>(raw_.capacity())));
    window_.resize(static_cast<size_t>(wanted));
    window_offset_ = offset;
    PF_TRY(source_.ReadAt(ctx, offset, std::as_writable_bytes(std::span(window_))));
  }
  return std::as_bytes(std::span(window_))
      .subspan(static_cast<size_t>(offset - window_offset_), static_cast<size_t>(length));
}

Status AvroFileReader::ChargeBuffers(const Context& ctx, int64_t held_bytes) {
  if (held_bytes <= grant_.size_bytes()) return {};
  grant_.Release();
  PF_ASSIGN(grant_, ctx.memory.TryReserve(held_bytes));
  return {};
}

// How long the plain bytes are shows at their end only. What blocks usually become is taken from
// the budget first; a block that becomes more is tried again with all it may, or all there is. So
// is a damaged one that may become more: codecs do not tell the two apart.
Status AvroFileReader::Decompress(const Context& ctx, std::span<const std::byte> stored) {
  BlockLimits limits;
  const auto stored_bytes = static_cast<int64_t>(stored.size());
  const int64_t most = limits.RawBytesMax(stored_bytes);
  const std::string what = fmt::format("block at {} of {}", offset_, file_name_);
  constexpr int64_t kUsualRatio = 16;
  int64_t room = std::min(most, limits.ratio_from_bytes + stored_bytes * kUsualRatio);
  while (true) {
    PF_ASSIGN(MemoryGrant expected, ctx.memory.TryReserve(room));
    limits.raw_bytes_max = room;
    raw_.clear();
    Status status = decompressor_.Decompress(header_.codec, stored, limits, what, raw_);
    expected.Release();
    if (!status.ok() && room < most) {
      room = most;  // kExhausted when the budget has not so much
      continue;
    }
    PF_TRY(std::move(status));
    return ChargeBuffers(ctx, static_cast<int64_t>(window_.capacity() + raw_.capacity()));
  }
}

Result<std::optional<AvroBlock>> AvroFileReader::NextBlock(const Context& ctx) {
  PF_TRY(ctx.CheckStop("read an Avro file"));
  const int64_t left = source_.size_bytes() - offset_;
  if (left == 0) return std::optional<AvroBlock>();
  PF_ASSIGN(const auto head, Window(ctx, offset_, std::min(left, kBlockHeadBytesMax)));
  int64_t no_empty_items = 0;
  AvroCursor cursor(head, no_empty_items);
  AvroBlock block;
  block.offset = offset_;
  block.record_count = cursor.Long();
  const int64_t stored_bytes = cursor.Long();
  if (!cursor.ok()) return Corrupt("a block's head is broken", offset_);
  const auto head_bytes = static_cast<int64_t>(cursor.position());
  const auto sync_bytes = static_cast<int64_t>(header_.sync.size());
  const BlockLimits limits;
  if (block.record_count < 0) return Corrupt("a negative record count", offset_);
  if (stored_bytes < 0 || stored_bytes > limits.stored_bytes_max) {
    return Corrupt(fmt::format("a block of {} bytes", stored_bytes), offset_);
  }
  PF_ASSIGN(const auto body, Window(ctx, offset_ + head_bytes, stored_bytes + sync_bytes));
  const auto stored = body.first(static_cast<size_t>(stored_bytes));
  if (std::memcmp(body.data() + stored_bytes, header_.sync.data(), header_.sync.size()) != 0) {
    return Corrupt("a block does not end with the sync marker", offset_);
  }
  if (header_.codec == BlockCodec::kNone) {
    block.bytes = stored;
  } else {
    PF_TRY(Decompress(ctx, stored));
    block.bytes = std::as_bytes(std::span(raw_));
  }
  const AvroType& root = header_.schema.root();
  if (root.size_bytes_min == 0) {
    AvroCursor allowance(block.bytes, empty_items_left_);
    if (!allowance.SpendEmpty(block.record_count, root)) {
      return Corrupt("more records without bytes than allowed", offset_);
    }
  } else if (block.record_count > static_cast<int64_t>(block.bytes.size()) / root.size_bytes_min) {
    return Corrupt("a block has more records than bytes for them", offset_);
  }
  offset_ += head_bytes + stored_bytes + sync_bytes;
  return std::optional<AvroBlock>(block);
}

Status AvroFileReader::CheckBlockEnd(const AvroBlock& block, const AvroCursor& cursor) const {
  if (!cursor.ok()) {
    return cursor.Failure(fmt::format("{}, block at offset {}", file_name_, block.offset));
  }
  if (cursor.remaining() > 0) {
    return Corrupt(fmt::format("{} bytes are left over in the block", cursor.remaining()),
                   block.offset);
  }
  return {};
}

Result<std::unique_ptr<AvroFileWriter>> AvroFileWriter::Open(const Context& ctx,
                                                             AvroWriteOptions options,
                                                             ByteSink& sink) {
  auto schema = AvroSchema::Parse(options.schema);
  if (!schema.ok()) return std::move(schema).status().As(Code::kInvalidArgument);
  auto writer =
      std::make_unique<AvroFileWriter>(Key{}, std::move(schema).value(), std::move(options), sink);
  PF_TRY(writer->WriteHeader(ctx));
  return writer;
}

Status AvroFileWriter::WriteHeader(const Context& ctx) {
  for (size_t i = 0; i < sync_.size(); i += sizeof(uint64_t)) {
    const uint64_t word = ctx.random.Next();
    std::memcpy(sync_.data() + i, &word, sizeof word);
  }
  std::string header(kMagic);
  PutAvroLong(static_cast<int64_t>(options_.metadata.size()) + 2, header);
  PutAvroBytes(kSchemaKey, header);
  PutAvroBytes(options_.schema, header);
  PutAvroBytes(kCodecKey, header);
  PutAvroBytes(AvroCodecName(options_.codec), header);
  for (const auto& [key, value] : options_.metadata) {
    PutAvroBytes(key, header);
    PutAvroBytes(value, header);
  }
  PutAvroLong(0, header);
  header.append(sync_.data(), sync_.size());
  return Put(ctx, header);
}

Status AvroFileWriter::Put(const Context& ctx, std::string_view bytes) {
  PF_TRY(sink_.Append(ctx, std::as_bytes(std::span(bytes))));
  bytes_written_ += static_cast<int64_t>(bytes.size());
  return {};
}

Status AvroFileWriter::Append(const Context& ctx, std::string_view datum) {
  raw_ += datum;
  return CommitRecord(ctx);
}

Status AvroFileWriter::CommitRecord(const Context& ctx) {
  ++buffered_records_;
  ++record_count_;
  if (static_cast<int64_t>(raw_.size()) < options_.block_raw_bytes) return {};
  return Flush(ctx);
}

Status AvroFileWriter::Flush(const Context& ctx) {
  if (buffered_records_ == 0) return {};
  stored_.clear();
  PF_TRY(CompressBlock(options_.codec, std::as_bytes(std::span(raw_)), options_.level, stored_));
  std::string head;
  PutAvroLong(buffered_records_, head);
  PutAvroLong(static_cast<int64_t>(stored_.size()), head);
  PF_TRY(Put(ctx, head));
  PF_TRY(Put(ctx, stored_));
  PF_TRY(Put(ctx, std::string_view(sync_.data(), sync_.size())));
  raw_.clear();
  buffered_records_ = 0;
  return {};
}

}  // namespace partforge::data
