#include "data/puffin.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/hash.h"
#include "base/json.h"
#include "data/block_codec.h"
#include "data/raw_bytes.h"

namespace partforge::data {

namespace {

constexpr std::string_view kMagic = "PFA1";
constexpr int64_t kMagicBytes = 4;
constexpr int64_t kTrailerBytes = 12;  // payload length, flags, magic
constexpr uint32_t kFlagPayloadIsLz4 = 1;

Status Corrupt(std::string_view file_name, std::string_view found) {
  return Status(Code::kCorruption, fmt::format("read Puffin file {}: {}", file_name, found));
}

Result<PuffinProperties> ParseProperties(const JsonDoc& object, std::string_view file_name) {
  PuffinProperties properties;
  const auto found = object.find("properties");
  if (found == object.end() || found->is_null()) return properties;
  if (!found->is_object()) return Corrupt(file_name, "properties are no object");
  for (const auto& [key, value] : found->items()) {
    if (!value.is_string()) return Corrupt(file_name, "a property is no text: " + key);
    properties.emplace_back(key, value.get<std::string>());
  }
  return properties;
}

Result<PuffinBlob> ParseBlob(const JsonDoc& json, int64_t data_end, std::string_view file_name) {
  if (!json.is_object()) return Corrupt(file_name, "a blob's entry is no object");
  JsonReader reader(json, "Puffin blob");
  PuffinBlob blob;
  PF_ASSIGN(blob.type, reader.String("type"));
  PF_ASSIGN(const JsonDoc* fields, reader.Array("fields"));
  for (const JsonDoc& field : *fields) {
    if (!field.is_number_integer() ||
        field.get<int64_t>() != static_cast<int32_t>(field.get<int64_t>())) {
      return Corrupt(file_name, "a blob's field id is no 32-bit number");
    }
    blob.fields.push_back(field.get<int32_t>());
  }
  PF_ASSIGN(blob.snapshot_id, reader.Int("snapshot-id"));
  PF_ASSIGN(blob.sequence_number, reader.Int("sequence-number"));
  PF_ASSIGN(blob.offset, reader.Int("offset"));
  PF_ASSIGN(blob.length, reader.Int("length"));
  PF_ASSIGN(blob.compression_codec, reader.StringOr("compression-codec", ""));
  PF_ASSIGN(blob.properties, ParseProperties(json, file_name));
  if (blob.offset < kMagicBytes || blob.length < 0 || blob.offset > data_end ||
      blob.length > data_end - blob.offset) {
    return Corrupt(file_name, fmt::format("blob lies outside the file's data: {} bytes at {}",
                                          blob.length, blob.offset));
  }
  return blob;
}

Result<PuffinFooter> ParsePayload(const Context& ctx, std::string_view payload, int64_t data_end,
                                  std::string_view file_name) {
  // What is made of the smallest values takes so much for each byte.
  constexpr int64_t kTreeBytesPerByte = 32;
  auto grant = ctx.memory.TryReserve(static_cast<int64_t>(payload.size()) * kTreeBytesPerByte);
  if (!grant.ok()) {
    return std::move(grant).status().With(fmt::format("read footer of Puffin file {}", file_name));
  }
  auto doc = ParseJson(payload);
  if (!doc.ok()) {
    return std::move(doc).status().With(fmt::format("read footer of Puffin file {}", file_name));
  }
  if (!doc->is_object()) return Corrupt(file_name, "the footer is no object");
  const auto blobs = doc->find("blobs");
  if (blobs == doc->end() || !blobs->is_array())
    return Corrupt(file_name, "the footer has no blobs");
  PuffinFooter footer;
  for (const JsonDoc& json : *blobs) {
    PF_ASSIGN(PuffinBlob blob, ParseBlob(json, data_end, file_name));
    footer.blobs.push_back(std::move(blob));
  }
  PF_ASSIGN(footer.properties, ParseProperties(*doc, file_name));
  return footer;
}

template <class Int>
Int FromLittle(const char* bytes) {
  Int value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

}  // namespace

const std::string* PuffinBlob::Property(std::string_view name) const {
  const auto found = std::ranges::find(properties, name, &PuffinProperties::value_type::first);
  return found == properties.end() ? nullptr : &found->second;
}

Result<PuffinFooter> ReadPuffinFooter(const Context& ctx, ByteSource& source,
                                      std::string_view file_name) {
  const int64_t file_size = source.size_bytes();
  if (file_size < kMagicBytes * 2 + kTrailerBytes) {
    return Corrupt(file_name, fmt::format("the file is too short: {}", file_size));
  }
  std::array<char, kTrailerBytes> trailer{};
  PF_TRY(source.ReadAt(ctx, file_size - kTrailerBytes, std::as_writable_bytes(std::span(trailer))));
  if (std::string_view(trailer.data() + 8, kMagicBytes) != kMagic) {
    return Corrupt(file_name, "no magic at the end");
  }
  const int64_t payload_bytes = FromLittle<int32_t>(trailer.data());
  const auto flags = FromLittle<uint32_t>(trailer.data() + 4);
  const int64_t footer_bytes = kMagicBytes + payload_bytes + kTrailerBytes;
  if (payload_bytes < 0 || payload_bytes > kPuffinFooterBytesMax ||
      footer_bytes > file_size - kMagicBytes) {
    return Corrupt(file_name, fmt::format("footer of {} bytes", payload_bytes));
  }
  // The footer's magic, its payload, and the file's own magic at offset 0.
  std::string bytes(static_cast<size_t>(kMagicBytes + payload_bytes), '\0');
  PF_TRY(source.ReadAt(ctx, file_size - footer_bytes, std::as_writable_bytes(std::span(bytes))));
  std::array<char, kMagicBytes> head{};
  PF_TRY(source.ReadAt(ctx, 0, std::as_writable_bytes(std::span(head))));
  if (!bytes.starts_with(kMagic) || std::string_view(head.data(), head.size()) != kMagic) {
    return Corrupt(file_name, "no magic before the footer or at the beginning");
  }
  if ((flags & ~kFlagPayloadIsLz4) != 0) {
    return Status(Code::kRefused,
                  fmt::format("read Puffin file {}: unknown flags: {:#x}", file_name, flags));
  }
  std::string payload = bytes.substr(kMagicBytes);
  if ((flags & kFlagPayloadIsLz4) != 0) {
    std::string plain;
    PF_TRY(DecompressBlock(
        BlockCodec::kLz4, AsBytes(payload),
        {.stored_bytes_max = kPuffinFooterBytesMax, .raw_bytes_max = kPuffinFooterBytesMax},
        fmt::format("footer of {}", file_name), plain));
    payload = std::move(plain);
  }
  PF_ASSIGN(PuffinFooter footer, ParsePayload(ctx, payload, file_size - footer_bytes, file_name));
  footer.footer_size_bytes = footer_bytes;
  return footer;
}

Result<std::string> ReadBlobBytes(const Context& ctx, ByteSource& source, int64_t offset,
                                  int64_t length, std::string_view file_name) {
  const int64_t file_size = source.size_bytes();
  if (offset < 0 || length < 0 || offset > file_size || length > file_size - offset) {
    return Corrupt(file_name, fmt::format("{} bytes at {} lie outside the file", length, offset));
  }
  if (length > kPuffinBlobBytesMax) {
    return Corrupt(file_name, fmt::format("blob above {} bytes: {}", kPuffinBlobBytesMax, length));
  }
  std::string bytes(static_cast<size_t>(length), '\0');
  PF_TRY(source.ReadAt(ctx, offset, std::as_writable_bytes(std::span(bytes))));
  return bytes;
}

Result<std::string> ReadPuffinBlob(const Context& ctx, ByteSource& source, const PuffinBlob& blob,
                                   std::string_view file_name) {
  PF_ASSIGN(std::string stored, ReadBlobBytes(ctx, source, blob.offset, blob.length, file_name));
  if (blob.compression_codec.empty()) return stored;
  const bool is_lz4 = blob.compression_codec == "lz4";
  if (!is_lz4 && blob.compression_codec != "zstd") {
    return Status(Code::kRefused, fmt::format("read Puffin file {}: codec is not supported: {}",
                                              file_name, blob.compression_codec));
  }
  std::string plain;
  PF_TRY(DecompressBlock(
      is_lz4 ? BlockCodec::kLz4 : BlockCodec::kZstd, AsBytes(stored),
      {.stored_bytes_max = kPuffinBlobBytesMax, .raw_bytes_max = kPuffinBlobBytesMax},
      fmt::format("blob at {} of {}", blob.offset, file_name), plain));
  return plain;
}

Result<std::unique_ptr<PuffinWriter>> PuffinWriter::Open(const Context& ctx, ByteSink& sink) {
  auto writer = std::make_unique<PuffinWriter>(Key{}, sink);
  PF_TRY(writer->Put(ctx, AsBytes(kMagic)));
  return writer;
}

Status PuffinWriter::Put(const Context& ctx, std::span<const std::byte> bytes) {
  PF_TRY(sink_.Append(ctx, bytes));
  offset_ += static_cast<int64_t>(bytes.size());
  return {};
}

Result<PuffinWriter::Place> PuffinWriter::Append(const Context& ctx, PuffinBlob blob,
                                                 std::span<const std::byte> bytes) {
  PF_CHECK(!is_finished_, "a blob after the footer");
  blob.offset = offset_;
  blob.length = static_cast<int64_t>(bytes.size());
  PF_TRY(Put(ctx, bytes));
  const Place place{.offset = blob.offset, .length = blob.length};
  blobs_.push_back(std::move(blob));
  return place;
}

namespace {

JsonDoc PropertiesJson(const PuffinProperties& properties) {
  JsonDoc object = JsonDoc::object();
  for (const auto& [key, value] : properties) object[key] = value;
  return object;
}

JsonDoc BlobJson(const PuffinBlob& blob) {
  JsonDoc json = {{"type", blob.type},
                  {"fields", blob.fields},
                  {"snapshot-id", blob.snapshot_id},
                  {"sequence-number", blob.sequence_number},
                  {"offset", blob.offset},
                  {"length", blob.length}};
  if (!blob.compression_codec.empty()) json["compression-codec"] = blob.compression_codec;
  if (!blob.properties.empty()) json["properties"] = PropertiesJson(blob.properties);
  return json;
}

}  // namespace

Result<int64_t> PuffinWriter::Finish(const Context& ctx, const PuffinProperties& properties) {
  PF_CHECK(!is_finished_, "a second footer");
  is_finished_ = true;
  JsonDoc doc = {{"blobs", JsonDoc::array()}};
  for (const PuffinBlob& blob : blobs_) doc["blobs"].push_back(BlobJson(blob));
  if (!properties.empty()) doc["properties"] = PropertiesJson(properties);
  const std::string payload = DumpJson(doc);
  if (static_cast<int64_t>(payload.size()) > kPuffinFooterBytesMax) {
    return Status(Code::kExhausted, fmt::format("write Puffin footer: above {} bytes: {}",
                                                kPuffinFooterBytesMax, payload.size()));
  }
  std::string footer(kMagic);
  footer += payload;
  AppendRaw(static_cast<int32_t>(payload.size()), footer);
  AppendRaw(uint32_t{0}, footer);
  footer += kMagic;
  PF_TRY(Put(ctx, AsBytes(footer)));
  return static_cast<int64_t>(footer.size());
}

}  // namespace partforge::data
