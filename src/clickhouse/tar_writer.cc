#include "clickhouse/tar_writer.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>

#include "base/files.h"
#include "base/hash.h"
#include "clickhouse/tar_format.h"

namespace partforge::clickhouse {
namespace {

constexpr uint32_t kFileMode = 0644, kDirectoryMode = 0755;
constexpr int64_t kEndBytes = 2 * kTarBlockBytes;
constexpr size_t kReadBytes = size_t{1} << 20;

std::string NameInArchive(const TarEntry& entry) {
  return entry.is_directory ? entry.path + "/" : entry.path;
}

// Extended header records of an entry whose name or size does not fit a ustar header; "" mostly.
std::string PaxRecords(const TarEntry& entry) {
  std::string records;
  const std::string name = NameInArchive(entry);
  if (!FitsUstarName(name)) records += FormatPaxRecord("path", name);
  if (entry.size_bytes > kTarSizeOctalMax) {
    records += FormatPaxRecord("size", std::to_string(entry.size_bytes));
  }
  return records;
}

// Everything that stands before an entry's content.
std::string HeaderBytes(const TarEntry& entry) {
  const std::string pax = PaxRecords(entry);
  const std::string name = NameInArchive(entry);
  TarHeader header{.name = FitsUstarName(name) ? name : "pax",
                   .size_bytes = entry.size_bytes > kTarSizeOctalMax ? 0 : entry.size_bytes,
                   .mode = entry.is_directory ? kDirectoryMode : kFileMode,
                   .type = entry.is_directory ? '5' : '0'};
  std::string bytes;
  const auto append = [&](const TarBlock& block) { bytes.append(block.data(), block.size()); };
  if (!pax.empty()) {
    append(FormatTarHeader({.name = "PaxHeaders.0/pax",
                            .size_bytes = static_cast<int64_t>(pax.size()),
                            .mode = kFileMode,
                            .type = 'x'}));
    bytes += pax;
    bytes.append(static_cast<size_t>(TarPadding(static_cast<int64_t>(pax.size()))), '\0');
  }
  append(FormatTarHeader(header));
  return bytes;
}

}  // namespace

int64_t TarSizeBytes(std::span<const TarEntry> entries) {
  int64_t total = kEndBytes;
  for (const TarEntry& entry : entries) {
    const auto pax = static_cast<int64_t>(PaxRecords(entry).size());
    if (pax > 0) total += kTarBlockBytes + pax + TarPadding(pax);
    total += kTarBlockBytes + entry.size_bytes + TarPadding(entry.size_bytes);
  }
  return total;
}

Result<TarDigest> WriteTar(const Context& ctx, std::span<const TarEntry> entries,
                           const TarContent& content, const TarEmit& write) {
  TarDigest digest;
  Sha256 hash;
  const auto put = [&](std::span<const std::byte> bytes) {
    hash.Update(bytes);
    digest.size_bytes += static_cast<int64_t>(bytes.size());
    return write(bytes);
  };
  constexpr std::array<std::byte, kEndBytes> kZeros{};
  for (const TarEntry& entry : entries) {
    if (entry.size_bytes < 0 || (entry.is_directory && entry.size_bytes != 0)) {
      return Status(Code::kInvalidArgument,
                    fmt::format("tar entry {} with size {}", entry.path, entry.size_bytes));
    }
    PF_TRY(put(AsBytes(HeaderBytes(entry))));
    if (entry.is_directory) continue;
    int64_t emitted = 0;
    PF_TRY(content(ctx, entry, [&](std::span<const std::byte> bytes) {
      emitted += static_cast<int64_t>(bytes.size());
      // One byte too many would shift everything after it.
      if (emitted > entry.size_bytes) {
        return Status(Code::kCorruption,
                      fmt::format("{} grew beyond {} bytes", entry.path, entry.size_bytes));
      }
      return put(bytes);
    }));
    if (emitted != entry.size_bytes) {
      return Status(Code::kCorruption,
                    fmt::format("{} gave {} of {} bytes", entry.path, emitted, entry.size_bytes));
    }
    const auto padding = static_cast<size_t>(TarPadding(entry.size_bytes));
    if (padding > 0) PF_TRY(put(std::span(kZeros).first(padding)));
  }
  PF_TRY(put(kZeros));
  digest.sha256 = hash.FinishHex();
  return digest;
}

Status EmitFile(const Context& ctx, const std::filesystem::path& path, int64_t size_bytes,
                const TarEmit& emit) {
  PF_ASSIGN(const UniqueFd file, OpenFile(path, O_RDONLY | O_NOFOLLOW));
  std::vector<std::byte> buffer(
      std::min(kReadBytes, static_cast<size_t>(std::max<int64_t>(size_bytes, 1))));
  for (int64_t offset = 0; offset < size_bytes;) {
    PF_TRY(ctx.CheckStop("pack a part"));
    const auto n =
        static_cast<size_t>(std::min(size_bytes - offset, static_cast<int64_t>(buffer.size())));
    const std::span<std::byte> piece(buffer.data(), n);
    PF_TRY(ReadAt(file.get(), offset, piece));
    PF_TRY(emit(piece));
    offset += static_cast<int64_t>(n);
  }
  return {};
}

Result<std::vector<TarEntry>> ListPartEntries(const std::filesystem::path& directory,
                                              std::string_view part_name) {
  PF_ASSIGN(const std::vector<FileEntry> files, ListTree(directory));
  std::vector<TarEntry> entries = {{.path = std::string(part_name), .is_directory = true}};
  for (const FileEntry& file : files) {
    entries.push_back({.path = fmt::format("{}/{}", part_name, file.relative_path),
                       .size_bytes = file.is_directory ? 0 : file.size_bytes,
                       .is_directory = file.is_directory});
  }
  return entries;
}

Result<TarDigest> WritePartTar(const Context& ctx, const std::filesystem::path& directory,
                               std::string_view part_name, ByteSink& sink) {
  PF_ASSIGN(const std::vector<TarEntry> entries, ListPartEntries(directory, part_name));
  const auto content = [&](const Context& inner, const TarEntry& entry, const TarEmit& emit) {
    const std::string relative = entry.path.substr(part_name.size() + 1);
    return EmitFile(inner, directory / relative, entry.size_bytes, emit);
  };
  const auto write = [&](std::span<const std::byte> bytes) { return sink.Append(ctx, bytes); };
  PF_ASSIGN(TarDigest digest, WriteTar(ctx, entries, content, write));
  PF_CHECK(digest.size_bytes == TarSizeBytes(entries), "the size of a tar is known beforehand");
  return digest;
}

}  // namespace partforge::clickhouse
