#include "clickhouse/tar_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "clickhouse/tar_format.h"

namespace partforge::clickhouse {
namespace {

constexpr int64_t kEntryBytesMax = int64_t{1} << 50;

Status Malformed(std::string message) {
  return Status(Code::kCorruption, std::move(message))
      .Explain(8002, "tar archive", "the object is damaged; partforge retry-failed for the part");
}

Status Foreign(char type, std::string_view name) {
  return Status(Code::kRefused,
                fmt::format("archive holds a link, device or the like (type {}): {}",
                            type >= ' ' ? type : '?', name.substr(0, 300)))
      .Explain(8002, "tar archive",
               "the archive is not one of ours or was tampered with; nothing of it is used");
}

}  // namespace

struct TarParser::State {
  enum class Step : uint8_t {
    kHeader,     // collecting a header block
    kContent,    // of a file: to the visitor
    kExtension,  // of a PAX or GNU header: collected
    kPadding,
    kSecondZero,  // one block of zeros seen
    kEnd,         // both seen: only zeros may follow
  };

  explicit State(TarVisitor& v) : visitor(v) {}

  TarVisitor& visitor;
  Step step = Step::kHeader;
  TarBlock block{};
  size_t block_filled = 0;
  int64_t left = 0;     // of content, extension or padding
  int64_t padding = 0;  // after the content or extension under way
  int64_t position = 0;
  char extension_type = 0;
  std::string extension;
  std::map<std::string, std::string> global_pax, local_pax;
  std::string long_name;  // GNU
  TarNames names;

  Status EndBlock(const Context& ctx);
  Status BeginEntry(const Context& ctx, TarHeader header);
  Status BeginExtension(const TarHeader& header);
  Status EndExtension();
  Status EndContent(const Context& ctx);
  Status ApplyOverrides(TarHeader& header);
  void BeginPadding() {
    left = padding;
    step = left > 0 ? Step::kPadding : Step::kHeader;
  }
};

TarParser::TarParser(TarVisitor& visitor) : state_(std::make_unique<State>(visitor)) {}
TarParser::~TarParser() = default;

Status TarParser::Feed(const Context& ctx, std::span<const std::byte> bytes) {
  State& s = *state_;
  using Step = State::Step;
  while (!bytes.empty()) {
    size_t n = 0;
    switch (s.step) {
      case Step::kHeader:
      case Step::kSecondZero:
        n = std::min(bytes.size(), s.block.size() - s.block_filled);
        std::memcpy(s.block.data() + s.block_filled, bytes.data(), n);
        s.block_filled += n;
        break;
      case Step::kContent:
      case Step::kExtension:
      case Step::kPadding:
        n = static_cast<size_t>(std::min(static_cast<int64_t>(bytes.size()), s.left));
        break;
      case Step::kEnd:
        n = bytes.size();
        break;
    }
    const auto piece = bytes.first(n);
    bytes = bytes.subspan(n);
    s.position += static_cast<int64_t>(n);
    switch (s.step) {
      case Step::kHeader:
      case Step::kSecondZero:
        if (s.block_filled == s.block.size()) PF_TRY(s.EndBlock(ctx));
        break;
      case Step::kContent:
        s.left -= static_cast<int64_t>(n);
        PF_TRY(s.visitor.OnFileBytes(ctx, piece));
        if (s.left == 0) PF_TRY(s.EndContent(ctx));
        break;
      case Step::kExtension:
        s.left -= static_cast<int64_t>(n);
        s.extension.append(reinterpret_cast<const char*>(piece.data()), n);
        if (s.left == 0) PF_TRY(s.EndExtension());
        break;
      case Step::kPadding:
        s.left -= static_cast<int64_t>(n);
        if (s.left == 0) s.step = Step::kHeader;
        break;
      case Step::kEnd:
        if (std::any_of(piece.begin(), piece.end(), [](std::byte b) { return b != std::byte{}; })) {
          return Malformed(fmt::format("tar: bytes after the end mark at {}", s.position));
        }
        break;
    }
  }
  return {};
}

Status TarParser::Finish(const Context&) {
  const State& s = *state_;
  if (s.step != State::Step::kEnd) {
    return Malformed(fmt::format("tar: ends at byte {} without its end mark", s.position));
  }
  return {};
}

Status TarParser::State::EndBlock(const Context& ctx) {
  block_filled = 0;
  Result<std::optional<TarHeader>> header = ParseTarHeader(block);
  if (!header.ok()) {
    return Malformed(fmt::format("{} before byte {}", header.status().message(), position));
  }
  if (!header->has_value()) {
    if (!local_pax.empty() || !long_name.empty()) {
      return Malformed("tar: extended header without an entry after it");
    }
    step = step == Step::kSecondZero ? Step::kEnd : Step::kSecondZero;
    return {};
  }
  if (step == Step::kSecondZero) {
    return Malformed(fmt::format("tar: a single block of zeros before byte {}", position));
  }
  return BeginEntry(ctx, std::move(**header));
}

Status TarParser::State::BeginExtension(const TarHeader& header) {
  if (header.size_bytes > kTarExtensionBytesMax) {
    return Malformed(fmt::format("tar: extended header of {} bytes", header.size_bytes));
  }
  extension.clear();
  extension_type = header.type;
  left = header.size_bytes;
  padding = TarPadding(header.size_bytes);
  step = Step::kExtension;
  return left == 0 ? EndExtension() : Status();
}

Status TarParser::State::EndExtension() {
  switch (extension_type) {
    case 'L':
      long_name = extension.substr(0, extension.find('\0'));
      if (long_name.empty()) return Malformed("tar: empty long name");
      break;
    case 'K':  // the target of a link, which is refused when it comes
      break;
    default: {
      Result<std::map<std::string, std::string>> records = ParsePaxRecords(extension);
      if (!records.ok()) return Malformed(records.status().message());
      (extension_type == 'x' ? local_pax : global_pax) = std::move(*records);
    }
  }
  BeginPadding();
  return {};
}

Status TarParser::State::ApplyOverrides(TarHeader& header) {
  if (!long_name.empty()) header.name = std::move(long_name);
  long_name.clear();
  for (const auto* records : {&global_pax, &local_pax}) {
    for (const auto& [key, value] : *records) {
      if (key.starts_with("GNU.sparse")) return Foreign('S', header.name);
      if (key == "path" && !value.empty()) header.name = value;
      if (key == "size" && !value.empty()) {
        const auto [end, error] =
            std::from_chars(value.data(), value.data() + value.size(), header.size_bytes);
        if (error != std::errc() || end != value.data() + value.size()) {
          return Malformed(fmt::format("tar: size is no number: {}", value.substr(0, 40)));
        }
      }
    }
  }
  local_pax.clear();
  if (header.name.find('\0') != std::string::npos) {
    return Malformed("tar: a name with a zero byte");
  }
  if (header.size_bytes < 0 || header.size_bytes > kEntryBytesMax) {
    return Malformed(fmt::format("tar: entry of {} bytes", header.size_bytes));
  }
  return {};
}

Status TarParser::State::BeginEntry(const Context& ctx, TarHeader header) {
  if (header.type == 'x' || header.type == 'g' || header.type == 'L' || header.type == 'K') {
    return BeginExtension(header);
  }
  PF_TRY(ApplyOverrides(header));
  const bool is_old_directory = header.type == '\0' && header.name.ends_with('/');
  if (header.type == '5' || is_old_directory) {
    if (header.size_bytes != 0) {
      return Malformed(fmt::format("tar: directory with content: {}", header.name));
    }
    if (header.name.ends_with('/')) header.name.pop_back();
    PF_TRY(names.Add(header.name, TarNames::Kind::kDirectory, kTarEntriesMax));
    step = Step::kHeader;
    return visitor.OnDirectory(ctx, header.name, header.mode & 0777);
  }
  if (header.type != '0' && header.type != '\0') return Foreign(header.type, header.name);
  PF_TRY(names.Add(header.name, TarNames::Kind::kFile, kTarEntriesMax));
  left = header.size_bytes;
  padding = TarPadding(header.size_bytes);
  step = Step::kContent;
  PF_TRY(visitor.OnFileBegin(ctx, header.name, header.size_bytes, header.mode & 0777));
  return left == 0 ? EndContent(ctx) : Status();
}

Status TarParser::State::EndContent(const Context& ctx) {
  PF_TRY(visitor.OnFileEnd(ctx));
  BeginPadding();
  return {};
}

}  // namespace partforge::clickhouse
