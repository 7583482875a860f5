#include "clickhouse/tar_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "base/files.h"

namespace partforge::clickhouse {
namespace {

// Offsets and lengths of the ustar header.
struct Field {
  size_t at, size;
};
constexpr Field kName{0, 100}, kMode{100, 8}, kUid{108, 8}, kGid{116, 8}, kSize{124, 12},
    kMtime{136, 12}, kChecksum{148, 8}, kMagic{257, 8}, kDevMajor{329, 8}, kDevMinor{337, 8},
    kPrefix{345, 155};
constexpr size_t kTypeAt = 156;
constexpr std::string_view kPosixMagic{"ustar\0", 6};

std::string_view Raw(const TarBlock& block, Field field) {
  return {block.data() + field.at, field.size};
}

std::string_view Text(const TarBlock& block, Field field) {
  const std::string_view raw = Raw(block, field);
  return raw.substr(0, raw.find('\0'));
}

Status Corrupt(std::string message) {
  return Status(Code::kCorruption, std::move(message));
}

// Base-256 (GNU): the first bit set, the rest a big-endian number.
Result<int64_t> Base256(std::string_view raw) {
  if ((static_cast<uint8_t>(raw[0]) & 0x40) != 0) return Corrupt("tar header: negative number");
  uint64_t value = static_cast<uint8_t>(raw[0]) & 0x3f;
  for (const char c : raw.substr(1)) {
    if (value > (uint64_t{INT64_MAX} >> 8)) return Corrupt("tar header: number out of range");
    value = (value << 8) | static_cast<uint8_t>(c);
  }
  return static_cast<int64_t>(value);
}

Result<int64_t> Number(const TarBlock& block, Field field, std::string_view what) {
  std::string_view raw = Raw(block, field);
  if ((static_cast<uint8_t>(raw[0]) & 0x80) != 0) return Base256(raw);
  const auto is_blank = [](char c) { return c == ' ' || c == '\0'; };
  while (!raw.empty() && is_blank(raw.front())) raw.remove_prefix(1);
  while (!raw.empty() && is_blank(raw.back())) raw.remove_suffix(1);
  if (raw.empty()) return 0;
  int64_t value = 0;
  const auto [end, error] = std::from_chars(raw.data(), raw.data() + raw.size(), value, 8);
  if (error != std::errc() || end != raw.data() + raw.size() || value < 0) {
    return Corrupt(fmt::format("tar header: field {} is no octal number", what));
  }
  return value;
}

int64_t Sum(const TarBlock& block) {
  int64_t sum = 0;
  for (size_t i = 0; i < block.size(); ++i) {
    const bool is_checksum = i >= kChecksum.at && i < kChecksum.at + kChecksum.size;
    sum += is_checksum ? ' ' : static_cast<uint8_t>(block[i]);
  }
  return sum;
}

void PutText(TarBlock& block, Field field, std::string_view text) {
  std::memcpy(block.data() + field.at, text.data(), std::min(text.size(), field.size));
}

void PutOctal(TarBlock& block, Field field, int64_t value) {
  PutText(block, field, fmt::format("{:0{}o}", value, field.size - 1));
}

// Where a long name is cut into prefix and name; npos when it cannot be.
size_t CutOf(std::string_view name) {
  if (name.size() <= kName.size) return 0;
  // The latest slash that leaves a prefix short enough; the name after it must not be empty.
  const size_t slash = name.rfind('/', std::min(kPrefix.size, name.size() - 2));
  if (slash == std::string_view::npos || slash == 0) return std::string_view::npos;
  return name.size() - slash - 1 <= kName.size ? slash : std::string_view::npos;
}

std::string Shown(std::string_view path) {
  std::string shown(path.substr(0, 300));
  std::replace_if(
      shown.begin(), shown.end(), [](char c) { return static_cast<uint8_t>(c) < 0x20; }, '?');
  return shown;
}

Status Hostile(std::string message, std::string_view path, int pf_number) {
  return Status(Code::kRefused, std::move(message))
      .Explain(pf_number, Shown(path),
               "the archive is not one of ours or was tampered with; nothing of it is used");
}

}  // namespace

int64_t TarPadding(int64_t size_bytes) {
  return (kTarBlockBytes - size_bytes % kTarBlockBytes) % kTarBlockBytes;
}

Result<std::optional<TarHeader>> ParseTarHeader(const TarBlock& block) {
  if (std::all_of(block.begin(), block.end(), [](char c) { return c == '\0'; })) {
    return std::optional<TarHeader>();
  }
  PF_ASSIGN(const int64_t stated, Number(block, kChecksum, "checksum"));
  const int64_t found = Sum(block);
  if (stated != found) {
    return Corrupt(fmt::format("tar header: checksum is {}, its bytes give {}", stated, found));
  }
  TarHeader header;
  header.type = block[kTypeAt];
  PF_ASSIGN(header.size_bytes, Number(block, kSize, "size"));
  PF_ASSIGN(const int64_t mode, Number(block, kMode, "mode"));
  header.mode = static_cast<uint32_t>(mode & 07777);
  header.name = Text(block, kName);
  // Only POSIX archives have a prefix; GNU keeps times in that place.
  const std::string_view prefix = Text(block, kPrefix);
  if (Raw(block, kMagic).starts_with(kPosixMagic) && !prefix.empty()) {
    header.name = fmt::format("{}/{}", prefix, header.name);
  }
  return std::optional<TarHeader>(std::move(header));
}

bool FitsUstarName(std::string_view name) {
  const bool is_ascii = std::all_of(name.begin(), name.end(), [](char c) {
    return static_cast<uint8_t>(c) >= 0x20 && static_cast<uint8_t>(c) < 0x7f;
  });
  return is_ascii && CutOf(name) != std::string_view::npos;
}

TarBlock FormatTarHeader(const TarHeader& header) {
  PF_CHECK(header.size_bytes >= 0 && header.size_bytes <= kTarSizeOctalMax, "size does not fit");
  TarBlock block{};
  const size_t cut = CutOf(header.name);
  PF_CHECK(cut != std::string_view::npos, "name does not fit");
  const std::string_view name = header.name;
  PutText(block, kName, cut == 0 ? name : name.substr(cut + 1));
  if (cut != 0) PutText(block, kPrefix, name.substr(0, cut));
  PutOctal(block, kMode, header.mode);
  PutOctal(block, kUid, 0);
  PutOctal(block, kGid, 0);
  PutOctal(block, kSize, header.size_bytes);
  PutOctal(block, kMtime, 0);
  block[kTypeAt] = header.type;
  PutText(block, kMagic,
          std::string_view("ustar\0"
                           "00",
                           8));
  PutOctal(block, kDevMajor, 0);
  PutOctal(block, kDevMinor, 0);
  PutText(block, kChecksum, fmt::format("{:06o}", Sum(block)));
  block[kChecksum.at + 7] = ' ';
  return block;
}

Result<std::map<std::string, std::string>> ParsePaxRecords(std::string_view text) {
  std::map<std::string, std::string> records;
  while (!text.empty()) {
    size_t length = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), length);
    const auto digits = static_cast<size_t>(end - text.data());
    // The length counts itself, the space, "key=value" and the line end.
    if (error != std::errc() || length < digits + 4 || length > text.size() ||
        text[digits] != ' ' || text[length - 1] != '\n') {
      return Corrupt(fmt::format("tar: malformed extended header: {}", Shown(text.substr(0, 40))));
    }
    const std::string_view pair = text.substr(digits + 1, length - digits - 2);
    const size_t equals = pair.find('=');
    if (equals == std::string_view::npos || equals == 0) {
      return Corrupt(fmt::format("tar: extended header without key: {}", Shown(pair)));
    }
    records[std::string(pair.substr(0, equals))] = pair.substr(equals + 1);
    text.remove_prefix(length);
  }
  return records;
}

std::string FormatPaxRecord(std::string_view key, std::string_view value) {
  const size_t rest = key.size() + value.size() + 3;  // space, '=', line end
  size_t length = rest + 1;
  // The length counts its own digits: at most one more round changes it.
  while (std::to_string(length).size() + rest != length) {
    length = std::to_string(length).size() + rest;
  }
  return fmt::format("{} {}={}\n", length, key, value);
}

Status TarNames::Add(std::string_view path, Kind kind, int64_t entries_max) {
  if (++entries_ > entries_max) {
    return Hostile(fmt::format("archive has more than {} entries", entries_max), path, 8002);
  }
  if (const Status status = CheckRelativePath(path); !status.ok()) {
    return Hostile(fmt::format("archive entry leaves its directory: {}", Shown(path)), path, 8005);
  }
  if (std::count(path.begin(), path.end(), '/') >= kTarDepthMax) {
    return Hostile(fmt::format("archive entry lies too deep: {}", Shown(path)), path, 8005);
  }
  // Every parent is a directory, whether the archive says so or not.
  for (size_t slash = path.find('/'); slash != std::string_view::npos;
       slash = path.find('/', slash + 1)) {
    const auto [at, is_new] = seen_.emplace(std::string(path.substr(0, slash)), Kind::kDirectory);
    if (is_new) path_bytes_ += static_cast<int64_t>(slash);
    if (at->second == Kind::kFile) {
      return Hostile(fmt::format("archive entry lies below a file: {}", Shown(path)), path, 8002);
    }
  }
  const auto [at, is_new] = seen_.emplace(std::string(path), kind);
  if (is_new) path_bytes_ += static_cast<int64_t>(path.size());
  if (!is_new && (kind == Kind::kFile || at->second == Kind::kFile)) {
    return Hostile(fmt::format("archive holds the same name twice: {}", Shown(path)), path, 8002);
  }
  if (path_bytes_ > kTarPathBytesInAllMax) {
    return Hostile(fmt::format("archive has more than {} bytes of names", kTarPathBytesInAllMax),
                   path, 8002);
  }
  return {};
}

}  // namespace partforge::clickhouse
