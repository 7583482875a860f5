#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/context.h"
#include "store/object_store.h"

namespace partforge::clickhouse {

struct TarEntry {
  std::string path = {};  // '/'-separated; a directory's without its final '/'
  int64_t size_bytes = 0;
  bool is_directory = false;
  bool operator==(const TarEntry&) const = default;
};

struct TarDigest {
  int64_t size_bytes = 0;
  std::string sha256;  // 64 hex digits, of the whole archive
};

// Bytes of the archive WriteTar makes of `entries`: headers, PAX records, contents, padding and the
// two zero blocks.
int64_t TarSizeBytes(std::span<const TarEntry> entries);

// Hands an entry's bytes to `emit`, in order; exactly entry.size_bytes of them.
using TarEmit = std::function<Status(std::span<const std::byte>)>;
using TarContent = std::function<Status(const Context&, const TarEntry&, const TarEmit& emit)>;

// Writes a ustar archive, with PAX records where a path or size does not fit. Equal input gives
// equal bytes: mtime 0, uid and gid 0, empty names, modes 0644 and 0755 (clickhouse-parts §5.1).
// Does not close the sink. kCorruption when the content is not of the stated size.
Result<TarDigest> WriteTar(const Context& ctx, std::span<const TarEntry> entries,
                           const TarContent& content, const TarEmit& write);

// Hands a file's bytes to `emit`, in order. kCorruption when it has become shorter than
// `size_bytes`.
Status EmitFile(const Context& ctx, const std::filesystem::path& path, int64_t size_bytes,
                const TarEmit& emit);

// The entries of a part's archive: "<part_name>" and everything below `directory`, in lexical walk
// order. kRefused on anything that is neither a regular file nor a directory.
Result<std::vector<TarEntry>> ListPartEntries(const std::filesystem::path& directory,
                                              std::string_view part_name);
// Streams a part directory into `sink` as `<part_name>.tar` without touching the disk. Does not
// close the sink.
Result<TarDigest> WritePartTar(const Context& ctx, const std::filesystem::path& directory,
                               std::string_view part_name, ByteSink& sink);

}  // namespace partforge::clickhouse
