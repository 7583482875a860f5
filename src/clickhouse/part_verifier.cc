#include "clickhouse/part_verifier.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "base/files.h"

namespace partforge::clickhouse {
namespace {

constexpr size_t kReadBytes = size_t{1} << 20;

// What was seen of one file.
struct SeenFile {
  int64_t size_bytes = 0;
  std::optional<Hash128> hash;  // absent when only sizes are compared
};
using SeenFiles = std::map<std::string, SeenFile, std::less<>>;

// Small files that ClickHouse writes beside checksums.txt without listing them (columns.txt,
// metadata_version.txt, …; new ones appear with new versions). They hold no rows.
bool MayBeUnlisted(std::string_view name) {
  return name.ends_with(".txt") || name.ends_with(".json");
}

Status Differs(std::string_view what, std::string_view file, std::string message) {
  return Status(Code::kCorruption, std::move(message))
      .Explain(2133, fmt::format("{}: {}", what, file),
               "the bytes changed after they were written; take the part from its source again");
}

Status Missing(std::string_view what, std::string_view file) {
  return Status(Code::kCorruption, fmt::format("listed in checksums.txt but not there: {}", file))
      .Explain(2140, std::string(what), "the copy is incomplete; make it again");
}

Status Empty(std::string_view what, std::string_view file) {
  return Status(Code::kCorruption, fmt::format("file of the part is empty: {}", file))
      .Explain(2140, std::string(what), "the copy is incomplete; make it again");
}

// Compares the files directly below `prefix` ("" or "p.proj/") with what its checksums.txt lists.
Status CompareLevel(std::string_view what, const std::string& prefix, const SeenFiles& seen,
                    const PartChecksums& listed) {
  for (const FileChecksum& file : listed.files) {
    if (file.name.ends_with(".proj")) continue;  // a directory; CompareProjection
    const std::string path = prefix + file.name;
    const auto found = seen.find(path);
    if (found == seen.end()) return Missing(what, path);
    if (found->second.size_bytes == 0 && file.size_bytes > 0) return Empty(what, path);
    if (found->second.size_bytes != file.size_bytes) {
      return Differs(what, path,
                     fmt::format("{} has {} bytes by checksums.txt, found {}", path,
                                 file.size_bytes, found->second.size_bytes));
    }
    if (found->second.hash && *found->second.hash != file.hash) {
      return Differs(what, path,
                     fmt::format("{} has hash {} by checksums.txt, found {}", path,
                                 file.hash.ToHex(), found->second.hash->ToHex()));
    }
  }
  for (auto at = seen.lower_bound(prefix); at != seen.end() && at->first.starts_with(prefix);
       ++at) {
    const std::string_view name = std::string_view(at->first).substr(prefix.size());
    if (name.find('/') != std::string_view::npos) continue;
    if (listed.Find(name) == nullptr && !MayBeUnlisted(name)) {
      return Differs(what, at->first,
                     fmt::format("file that checksums.txt does not list: {}", at->first));
    }
  }
  return {};
}

}  // namespace

struct PartStreamVerifier::State {
  std::string what;
  VerifyLevel level = VerifyLevel::kContent;
  SeenFiles seen;
  std::map<std::string, std::string, std::less<>> lists;  // prefix → bytes of its checksums.txt
  PartChecksums checksums;
  std::string checksums_txt_sha256;

  // The file under way.
  std::string path;
  int64_t expected_bytes = 0;
  int64_t found_bytes = 0;
  CityHash128Stream hash;
  std::string* list_text = nullptr;

  Status CompareProjection(const FileChecksum& entry);
};

PartStreamVerifier::PartStreamVerifier(std::string what, VerifyLevel level)
    : state_(std::make_unique<State>()) {
  state_->what = std::move(what);
  state_->level = level;
}
PartStreamVerifier::~PartStreamVerifier() = default;
PartStreamVerifier::PartStreamVerifier(PartStreamVerifier&&) noexcept = default;

Status PartStreamVerifier::BeginFile(std::string_view relative_path, int64_t size_bytes) {
  State& s = *state_;
  const size_t slash = relative_path.find('/');
  const bool is_projection = slash != std::string_view::npos;
  if (is_projection && (!relative_path.substr(0, slash).ends_with(".proj") ||
                        relative_path.find('/', slash + 1) != std::string_view::npos)) {
    return Differs(s.what, relative_path,
                   fmt::format("a part holds no such folder: {}", relative_path));
  }
  if (!s.seen.emplace(std::string(relative_path), SeenFile{size_bytes, {}}).second) {
    return Differs(s.what, relative_path, fmt::format("file comes twice: {}", relative_path));
  }
  s.path = relative_path;
  s.expected_bytes = size_bytes;
  s.found_bytes = 0;
  s.hash = CityHash128Stream();
  s.list_text = nullptr;
  const std::string_view name = is_projection ? relative_path.substr(slash + 1) : relative_path;
  if (name == kChecksumsFile) {
    if (size_bytes > kChecksumsBytesMax) {
      return Differs(s.what, relative_path,
                     fmt::format("{} is too large: {}", relative_path, size_bytes));
    }
    s.list_text = &s.lists[std::string(relative_path.substr(0, is_projection ? slash + 1 : 0))];
  }
  return {};
}

Status PartStreamVerifier::Update(std::span<const std::byte> bytes) {
  State& s = *state_;
  s.found_bytes += static_cast<int64_t>(bytes.size());
  if (s.found_bytes > s.expected_bytes) {
    return Differs(s.what, s.path,
                   fmt::format("{} is longer than {} bytes", s.path, s.expected_bytes));
  }
  if (s.level == VerifyLevel::kContent) s.hash.Update(bytes);
  if (s.list_text != nullptr) {
    s.list_text->append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  return {};
}

Status PartStreamVerifier::EndFile() {
  State& s = *state_;
  if (s.found_bytes != s.expected_bytes) {
    return Differs(
        s.what, s.path,
        fmt::format("{} ends after {} of {} bytes", s.path, s.found_bytes, s.expected_bytes));
  }
  if (s.level == VerifyLevel::kContent) s.seen.find(s.path)->second.hash = s.hash.Finish();
  return {};
}

Status PartStreamVerifier::State::CompareProjection(const FileChecksum& entry) {
  const std::string prefix = entry.name + "/";
  const auto list = lists.find(prefix);
  if (list == lists.end()) return Missing(what, prefix + std::string(kChecksumsFile));
  PF_ASSIGN(const PartChecksums inner, ParseChecksums(list->second));
  // The parent lists the projection as one file: the sum of sizes, the hash over its own list.
  if (inner.total_size_bytes() != entry.size_bytes || inner.TotalChecksum() != entry.hash) {
    return Differs(what, entry.name,
                   fmt::format("projection {} does not agree with the part's checksums.txt: {} "
                               "bytes and hash {} expected, {} and {} found",
                               entry.name, entry.size_bytes, entry.hash.ToHex(),
                               inner.total_size_bytes(), inner.TotalChecksum().ToHex()));
  }
  return CompareLevel(what, prefix, seen, inner);
}

Status PartStreamVerifier::Finish() {
  State& s = *state_;
  const auto list = s.lists.find("");
  if (list == s.lists.end()) return Missing(s.what, kChecksumsFile);
  PF_ASSIGN(s.checksums, ParseChecksums(list->second));
  s.checksums_txt_sha256 = Sha256Hex(list->second);
  PF_TRY(CompareLevel(s.what, "", s.seen, s.checksums));
  for (const FileChecksum& file : s.checksums.files) {
    if (file.name.ends_with(".proj")) PF_TRY(s.CompareProjection(file));
  }
  for (const auto& [prefix, bytes] : s.lists) {
    if (prefix.empty()) continue;
    const std::string directory = prefix.substr(0, prefix.size() - 1);
    if (s.checksums.Find(directory) == nullptr) {
      return Differs(s.what, directory,
                     fmt::format("projection that checksums.txt does not list: {}", directory));
    }
  }
  return {};
}

const PartChecksums& PartStreamVerifier::checksums() const {
  return state_->checksums;
}

const std::string& PartStreamVerifier::checksums_txt_sha256() const {
  return state_->checksums_txt_sha256;
}

Status VerifyPartDirectory(const Context& ctx, const std::filesystem::path& directory,
                           VerifyLevel level) {
  PF_ASSIGN(const std::vector<FileEntry> entries, ListTree(directory));
  PartStreamVerifier verifier(directory.string(), level);
  std::vector<std::byte> buffer(kReadBytes);
  for (const FileEntry& entry : entries) {
    if (entry.is_directory) continue;
    PF_TRY(ctx.CheckStop("verify a part"));
    PF_TRY(verifier.BeginFile(entry.relative_path, entry.size_bytes));
    const bool is_list = entry.relative_path == kChecksumsFile ||
                         entry.relative_path.ends_with("/" + std::string(kChecksumsFile));
    if (level == VerifyLevel::kSizes && !is_list) continue;
    PF_ASSIGN(const UniqueFd file, OpenFile(directory / entry.relative_path, O_RDONLY));
    for (int64_t offset = 0; offset < entry.size_bytes;) {
      const auto n = static_cast<size_t>(
          std::min(entry.size_bytes - offset, static_cast<int64_t>(buffer.size())));
      const std::span<std::byte> piece(buffer.data(), n);
      PF_TRY(ReadAt(file.get(), offset, piece));
      PF_TRY(verifier.Update(piece));
      offset += static_cast<int64_t>(n);
    }
    PF_TRY(verifier.EndFile());
  }
  return verifier.Finish();
}

}  // namespace partforge::clickhouse
