#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/hash.h"

namespace partforge::clickhouse {

inline constexpr std::string_view kChecksumsFile = "checksums.txt";

// One entry of checksums.txt. A name that ends in ".proj" is a projection's directory: size = Σ
// sizes of the files its own checksums.txt lists, hash = their TotalChecksum.
struct FileChecksum {
  std::string name = {};
  int64_t size_bytes = 0;
  Hash128 hash = {};  // MergeTree's file hash: CityHash128Stream of the file
  bool is_compressed = false;
  int64_t uncompressed_size_bytes = 0;  // only when is_compressed
  Hash128 uncompressed_hash = {};       // only when is_compressed
  bool operator==(const FileChecksum&) const = default;
};

// What checksums.txt of a part says. Sorted by name, names unique.
struct PartChecksums {
  std::vector<FileChecksum> files;

  const FileChecksum* Find(std::string_view name) const;
  int64_t total_size_bytes() const;
  // Over names and hashes: what the entry of a projection in its parent's checksums.txt carries.
  Hash128 TotalChecksum() const;
  // The same as 32 hex digits: the column `hash_of_all_files` of system.parts.
  std::string HashOfAllFiles() const;
  bool operator==(const PartChecksums&) const = default;
};

// Reads format versions 2 (text), 3 (binary) and 4 (binary in compressed frames). kCorruption with
// the place otherwise; bounded by kChecksumFilesMax entries and kChecksumsBytesMax bytes.
Result<PartChecksums> ParseChecksums(std::string_view bytes);
// Writes format version 2, 3 or 4 (kInvalidArgument otherwise).
Result<std::string> FormatChecksums(const PartChecksums& checksums, int version = 4);

inline constexpr int64_t kChecksumFilesMax = 2'000'000;
inline constexpr int64_t kChecksumsBytesMax = int64_t{1} << 28;

enum class VerifyLevel : uint8_t {
  kSizes,    // every listed file is there with its size, and no file is there that a part may not
             // hold
  kContent,  // and every file's hash agrees
};

}  // namespace partforge::clickhouse
