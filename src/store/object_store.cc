#include "store/object_store.h"

#include <fmt/format.h>

namespace partforge {
namespace {

constexpr size_t kKeyBytesMax = 1024;  // S3: "object key names", 1024 bytes of UTF-8

// Length of the well-formed UTF-8 sequence at the start of `text`, 0 when there is none (RFC 3629:
// no surrogates, no overlong forms, nothing above U+10FFFF).
size_t Utf8SequenceLength(std::string_view text) {
  const auto at = [text](size_t i) { return static_cast<unsigned char>(text[i]); };
  const auto is_tail = [&](size_t i) { return i < text.size() && (at(i) & 0xC0u) == 0x80u; };
  const unsigned char first = at(0);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return is_tail(1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    if (!is_tail(1) || !is_tail(2)) return 0;
    if (first == 0xE0 && at(1) < 0xA0) return 0;
    if (first == 0xED && at(1) > 0x9F) return 0;
    return 3;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    if (!is_tail(1) || !is_tail(2) || !is_tail(3)) return 0;
    if (first == 0xF0 && at(1) < 0x90) return 0;
    if (first == 0xF4 && at(1) > 0x8F) return 0;
    return 4;
  }
  return 0;
}

Status CheckKeyCharacters(std::string_view key) {
  if (key.size() > kKeyBytesMax) {
    return Status(Code::kInvalidArgument, fmt::format("object key is longer than {} bytes: {}…",
                                                      kKeyBytesMax, key.substr(0, 64)));
  }
  for (size_t i = 0; i < key.size();) {
    const auto byte = static_cast<unsigned char>(key[i]);
    if (byte < 0x20 || byte == 0x7F || byte == '\\') {
      return Status(Code::kInvalidArgument,
                    fmt::format("object key has a control character or backslash at byte {}", i));
    }
    const size_t length = Utf8SequenceLength(key.substr(i));
    if (length == 0) {
      return Status(Code::kInvalidArgument, fmt::format("object key is not UTF-8 at byte {}", i));
    }
    i += length;
  }
  return {};
}

Status CheckSegment(std::string_view segment, std::string_view key) {
  if (segment.empty() || segment == "." || segment == "..") {
    return Status(Code::kInvalidArgument,
                  fmt::format("object key has an empty, '.' or '..' segment: {}", key));
  }
  return {};
}

}  // namespace

Status CheckObjectKey(std::string_view key) {
  PF_TRY(CheckKeyCharacters(key));
  std::string_view rest = key;
  while (true) {
    const size_t slash = rest.find('/');
    PF_TRY(CheckSegment(rest.substr(0, slash), key));
    if (slash == std::string_view::npos) break;
    rest.remove_prefix(slash + 1);
  }
  if (key.starts_with(kReservedPrefix) ||
      key == kReservedPrefix.substr(0, kReservedPrefix.size() - 1)) {
    return Status(Code::kInvalidArgument,
                  fmt::format("object key is reserved for the store: {}", key));
  }
  return {};
}

Status CheckKeyPrefix(std::string_view prefix) {
  PF_TRY(CheckKeyCharacters(prefix));
  std::string_view rest = prefix;
  for (size_t slash = rest.find('/'); slash != std::string_view::npos; slash = rest.find('/')) {
    PF_TRY(CheckSegment(rest.substr(0, slash), prefix));
    rest.remove_prefix(slash + 1);
  }
  return {};
}

Result<int64_t> ObjectStore::SweepLeftovers(const Context&, std::string_view, int64_t) {
  return 0;
}

Result<std::string> ReadObject(const Context& ctx, ObjectStore& store, std::string_view key,
                               int64_t size_bytes_max) {
  PF_ASSIGN(const std::unique_ptr<ByteSource> source, store.Open(ctx, key));
  if (source->size_bytes() > size_bytes_max) {
    return Status(Code::kInvalidArgument,
                  fmt::format("object {} is too large to be read whole: {} bytes, at most {}", key,
                              source->size_bytes(), size_bytes_max));
  }
  std::string bytes(static_cast<size_t>(source->size_bytes()), '\0');
  if (!bytes.empty()) {
    PF_TRY(source->ReadAt(ctx, 0, std::as_writable_bytes(std::span(bytes.data(), bytes.size()))));
  }
  return bytes;
}

Result<ObjectInfo> WriteObject(const Context& ctx, ObjectStore& store, std::string_view key,
                               std::string_view bytes) {
  PF_ASSIGN(const std::unique_ptr<ByteSink> sink,
            store.Create(ctx, key, static_cast<int64_t>(bytes.size())));
  PF_TRY(sink->Append(ctx, std::as_bytes(std::span(bytes.data(), bytes.size()))));
  return sink->Close(ctx);
}

Result<std::vector<ObjectInfo>> ListAll(const Context& ctx, ObjectStore& store,
                                        std::string_view prefix, int64_t objects_max) {
  std::vector<ObjectInfo> objects;
  std::optional<std::string> after;
  do {
    PF_TRY(ctx.CheckStop("listing objects"));
    PF_ASSIGN(ListPage page, store.List(ctx, prefix, std::move(after)));
    if (static_cast<int64_t>(objects.size() + page.objects.size()) > objects_max) {
      return Status(Code::kExhausted, fmt::format("more than {} objects below {}/{}", objects_max,
                                                  store.url(), prefix));
    }
    std::move(page.objects.begin(), page.objects.end(), std::back_inserter(objects));
    after = std::move(page.next);
  } while (after.has_value());
  return objects;
}

}  // namespace partforge
