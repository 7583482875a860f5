#include "clickhouse/checksums.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "base/files.h"
#include "clickhouse/frame.h"
#include "clickhouse/sip_hash.h"

namespace partforge::clickhouse {
namespace {

constexpr std::string_view kHeader = "checksums format version: ";
constexpr size_t kNameBytesMax = 1024;

// Reads checksums.txt from front to back; every failure says at which byte.
class Cursor {
 public:
  explicit Cursor(std::string_view bytes) : bytes_(bytes) {}

  bool at_end() const { return position_ == bytes_.size(); }
  std::string_view rest() const { return bytes_.substr(position_); }
  Status Wrong(std::string_view what) const {
    return Status(Code::kCorruption, fmt::format("checksums.txt: {} at byte {}", what, position_));
  }

  Status Skip(std::string_view expected) {
    if (!rest().starts_with(expected)) return Wrong(fmt::format("no \"{}\"", Shown(expected)));
    position_ += expected.size();
    return {};
  }
  Result<std::string_view> Take(size_t size) {
    if (size > bytes_.size() - position_) return Wrong("cut short");
    const std::string_view taken = bytes_.substr(position_, size);
    position_ += size;
    return taken;
  }
  Result<std::string_view> TakeLine() {
    const size_t end = rest().find('\n');
    if (end == std::string_view::npos) return Wrong("line without end");
    const std::string_view line = rest().substr(0, end);
    position_ += end + 1;
    return line;
  }
  Result<uint64_t> Decimal() {
    uint64_t value = 0;
    const std::string_view text = rest();
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc()) return Wrong("no number");
    position_ += static_cast<size_t>(end - text.data());
    return value;
  }
  Result<uint64_t> VarUint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 63; shift += 7) {
      PF_ASSIGN(const std::string_view byte, Take(1));
      const auto bits = static_cast<uint8_t>(byte[0]);
      value |= uint64_t{bits & 0x7fu} << shift;
      if ((bits & 0x80) == 0) return value;
    }
    return Wrong("number longer than nine bytes");
  }
  Result<Hash128> Hash() {
    PF_ASSIGN(const std::string_view raw, Take(16));
    Hash128 hash;
    std::memcpy(&hash.low, raw.data(), 8);
    std::memcpy(&hash.high, raw.data() + 8, 8);
    return hash;
  }
  Result<int64_t> Size(uint64_t value) const {
    if (value > uint64_t{INT64_MAX}) return Wrong(fmt::format("size out of range {}", value));
    return static_cast<int64_t>(value);
  }

 private:
  static std::string Shown(std::string_view text) {
    std::string out;
    for (const char c : text) {
      if (c == '\n') {
        out += "\\n";
      } else if (c == '\t') {
        out += "\\t";
      } else {
        out += c;
      }
    }
    return out;
  }

  std::string_view bytes_;
  size_t position_ = 0;
};

Result<PartChecksums> Sealed(std::vector<FileChecksum> files) {
  for (const FileChecksum& file : files) {
    // One path component: the writer puts files and ".proj" directories of one part here.
    const bool is_plain = CheckRelativePath(file.name).ok() &&
                          file.name.find('/') == std::string::npos &&
                          file.name.size() <= kNameBytesMax;
    if (!is_plain) {
      return Status(Code::kCorruption,
                    fmt::format("checksums.txt: not a file name: {}", file.name.substr(0, 300)));
    }
  }
  std::sort(files.begin(), files.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  const auto twice = std::adjacent_find(
      files.begin(), files.end(), [](const auto& a, const auto& b) { return a.name == b.name; });
  if (twice != files.end()) {
    return Status(Code::kCorruption, fmt::format("checksums.txt: listed twice: {}", twice->name));
  }
  return PartChecksums{.files = std::move(files)};
}

// Format version 2: text.
Result<FileChecksum> ReadTextEntry(Cursor& in) {
  FileChecksum file;
  PF_ASSIGN(file.name, in.TakeLine());
  const auto read_size = [&](std::string_view label) -> Result<int64_t> {
    PF_TRY(in.Skip(label));
    PF_ASSIGN(const uint64_t value, in.Decimal());
    return in.Size(value);
  };
  const auto read_hash = [&](std::string_view label) -> Result<Hash128> {
    PF_TRY(in.Skip(label));
    Hash128 hash;
    PF_ASSIGN(hash.low, in.Decimal());
    PF_TRY(in.Skip(" "));
    PF_ASSIGN(hash.high, in.Decimal());
    return hash;
  };
  PF_ASSIGN(file.size_bytes, read_size("\tsize: "));
  PF_ASSIGN(file.hash, read_hash("\n\thash: "));
  PF_TRY(in.Skip("\n\tcompressed: "));
  PF_ASSIGN(const uint64_t is_compressed, in.Decimal());
  if (is_compressed > 1) return in.Wrong("\"compressed\" is neither 0 nor 1");
  file.is_compressed = is_compressed == 1;
  if (file.is_compressed) {
    PF_ASSIGN(file.uncompressed_size_bytes, read_size("\n\tuncompressed size: "));
    PF_ASSIGN(file.uncompressed_hash, read_hash("\n\tuncompressed hash: "));
  }
  PF_TRY(in.Skip("\n"));
  return file;
}

Result<PartChecksums> ReadText(Cursor& in) {
  PF_ASSIGN(const uint64_t count, in.Decimal());
  if (count > uint64_t{kChecksumFilesMax}) return in.Wrong(fmt::format("{} files", count));
  PF_TRY(in.Skip(" files:\n"));
  std::vector<FileChecksum> files;
  for (uint64_t i = 0; i < count; ++i) {
    PF_ASSIGN(FileChecksum file, ReadTextEntry(in));
    files.push_back(std::move(file));
  }
  if (!in.at_end()) return in.Wrong("bytes after the last file");
  return Sealed(std::move(files));
}

// Format versions 3 and 4: binary.
Result<FileChecksum> ReadBinaryEntry(Cursor& in) {
  FileChecksum file;
  PF_ASSIGN(const uint64_t name_size, in.VarUint());
  if (name_size > kNameBytesMax) return in.Wrong(fmt::format("file name of {} bytes", name_size));
  PF_ASSIGN(file.name, in.Take(name_size));
  PF_ASSIGN(const uint64_t size, in.VarUint());
  PF_ASSIGN(file.size_bytes, in.Size(size));
  PF_ASSIGN(file.hash, in.Hash());
  PF_ASSIGN(const std::string_view flag, in.Take(1));
  if (flag[0] != 0 && flag[0] != 1) return in.Wrong("compression flag is neither 0 nor 1");
  file.is_compressed = flag[0] == 1;
  if (file.is_compressed) {
    PF_ASSIGN(const uint64_t uncompressed, in.VarUint());
    PF_ASSIGN(file.uncompressed_size_bytes, in.Size(uncompressed));
    PF_ASSIGN(file.uncompressed_hash, in.Hash());
  }
  return file;
}

Result<PartChecksums> ReadBinary(std::string_view bytes) {
  Cursor in(bytes);
  PF_ASSIGN(const uint64_t count, in.VarUint());
  if (count > uint64_t{kChecksumFilesMax}) return in.Wrong(fmt::format("{} files", count));
  std::vector<FileChecksum> files;
  for (uint64_t i = 0; i < count; ++i) {
    PF_ASSIGN(FileChecksum file, ReadBinaryEntry(in));
    files.push_back(std::move(file));
  }
  if (!in.at_end()) return in.Wrong("bytes after the last file");
  return Sealed(std::move(files));
}

void AppendVarUint(std::string& out, uint64_t value) {
  while (value >= 0x80) {
    out += static_cast<char>((value & 0x7f) | 0x80);
    value >>= 7;
  }
  out += static_cast<char>(value);
}

void AppendHash(std::string& out, Hash128 hash) {
  out.append(reinterpret_cast<const char*>(&hash.low), 8);
  out.append(reinterpret_cast<const char*>(&hash.high), 8);
}

std::string BinaryForm(const PartChecksums& checksums) {
  std::string out;
  AppendVarUint(out, checksums.files.size());
  for (const FileChecksum& file : checksums.files) {
    AppendVarUint(out, file.name.size());
    out += file.name;
    AppendVarUint(out, static_cast<uint64_t>(file.size_bytes));
    AppendHash(out, file.hash);
    out += static_cast<char>(file.is_compressed ? 1 : 0);
    if (file.is_compressed) {
      AppendVarUint(out, static_cast<uint64_t>(file.uncompressed_size_bytes));
      AppendHash(out, file.uncompressed_hash);
    }
  }
  return out;
}

std::string TextForm(const PartChecksums& checksums) {
  std::string out = fmt::format("{} files:\n", checksums.files.size());
  for (const FileChecksum& file : checksums.files) {
    out += fmt::format("{}\n\tsize: {}\n\thash: {} {}\n\tcompressed: {}", file.name,
                       file.size_bytes, file.hash.low, file.hash.high, file.is_compressed ? 1 : 0);
    if (file.is_compressed) {
      out += fmt::format("\n\tuncompressed size: {}\n\tuncompressed hash: {} {}",
                         file.uncompressed_size_bytes, file.uncompressed_hash.low,
                         file.uncompressed_hash.high);
    }
    out += '\n';
  }
  return out;
}

Status Explained(Status status) {
  return std::move(status).Explain(8003, std::string(kChecksumsFile),
                                   "the part is damaged: take it from the server again");
}

Result<PartChecksums> ParseVersion(std::string_view bytes) {
  if (static_cast<int64_t>(bytes.size()) > kChecksumsBytesMax) {
    return Status(Code::kCorruption,
                  fmt::format("checksums.txt is too large: {} bytes", bytes.size()));
  }
  Cursor in(bytes);
  PF_TRY(in.Skip(kHeader));
  PF_ASSIGN(const uint64_t version, in.Decimal());
  PF_TRY(in.Skip("\n"));
  switch (version) {
    case 2:
      return ReadText(in);
    case 3:
      return ReadBinary(in.rest());
    case 4: {
      PF_ASSIGN(const std::string plain, DecodeFrames(AsBytes(in.rest()), kChecksumsBytesMax));
      return ReadBinary(plain);
    }
    default:
      return Status(Code::kRefused,
                    fmt::format("checksums.txt of an unsupported format version: {}", version));
  }
}

}  // namespace

const FileChecksum* PartChecksums::Find(std::string_view name) const {
  const auto found = std::lower_bound(
      files.begin(), files.end(), name,
      [](const FileChecksum& file, std::string_view wanted) { return file.name < wanted; });
  return found != files.end() && found->name == name ? &*found : nullptr;
}

int64_t PartChecksums::total_size_bytes() const {
  int64_t total = 0;
  // Entries are foreign numbers: the sum stops at the top instead of wrapping.
  for (const FileChecksum& file : files) {
    total = file.size_bytes > INT64_MAX - total ? INT64_MAX : total + file.size_bytes;
  }
  return total;
}

Hash128 PartChecksums::TotalChecksum() const {
  SipHash128 hash;  // MergeTreeDataPartChecksums::getTotalChecksumUInt128
  for (const FileChecksum& file : files) {
    hash.Update(static_cast<uint64_t>(file.name.size()));
    hash.Update(file.name);
    hash.Update(file.hash);
  }
  return hash.Finish();
}

std::string PartChecksums::HashOfAllFiles() const {
  return TotalChecksum().ToHex();
}

Result<PartChecksums> ParseChecksums(std::string_view bytes) {
  Result<PartChecksums> checksums = ParseVersion(bytes);
  if (!checksums.ok()) return Explained(std::move(checksums).status());
  return checksums;
}

Result<std::string> FormatChecksums(const PartChecksums& checksums, int version) {
  std::string out = fmt::format("{}{}\n", kHeader, version);
  switch (version) {
    case 2:
      return out + TextForm(checksums);
    case 3:
      return out + BinaryForm(checksums);
    case 4: {
      PF_ASSIGN(const std::string frame,
                EncodeFrame(AsBytes(BinaryForm(checksums)), FrameMethod::kLz4));
      return out + frame;
    }
    default:
      return Status(Code::kInvalidArgument,
                    fmt::format("no such format version of checksums.txt: {}", version));
  }
}

}  // namespace partforge::clickhouse
