#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace partforge::clickhouse {

inline constexpr std::string_view kManifestFile = "manifest.json";
inline constexpr int64_t kManifestBytesMax = int64_t{64} << 20;

struct ManifestFile {
  std::string path;  // relative to the part
  int64_t size_bytes = 0;
  std::string sha256;  // 64 hex digits
  bool operator==(const ManifestFile&) const = default;
};

// A piece of a file that lies elsewhere (zero-copy backups); several with one path are concatenated
// in order.
struct SourceObject {
  std::string bucket, key, path;
  bool operator==(const SourceObject&) const = default;
};

// manifest.json of a source artifact, version 1 (clickhouse-parts §4). Names follow the JSON.
struct Manifest {
  std::string job_id, part_id, freeze;
  std::string source_database, source_table;
  std::string dest_database, dest_table;
  std::string part_disk, part_name, part_relative_path;
  std::string source_schema, destination_schema, insert_select;
  std::string bucket, source_key, finished_key;
  std::vector<SourceObject> source_objects;
  int64_t created_at_ns = 0;  // Unix nanoseconds
  std::vector<ManifestFile>
      files;  // ours, optional: every uploaded file but the manifest, sorted by path
  std::optional<int64_t> part_rows, part_bytes;  // ours, optional
  bool operator==(const Manifest&) const = default;
};

// Two-space indent, keys in the order of §4, no final newline.
std::string FormatManifest(const Manifest& manifest);
// Unknown fields are ignored. kCorruption on a missing or ill-typed field, an unsafe or repeated
// file path; kRefused "unsupported manifest version".
Result<Manifest> ParseManifest(std::string_view text);

// Equal in everything a rerun of upload-freeze would write again: all but created_at.
bool SameUpload(const Manifest& a, const Manifest& b);

// What the worker's row says about the artifact it claimed.
struct ManifestOwner {
  std::string job_id,
      part_id;  // of the row that owns the source: source_job_id/source_part_id when set
  std::string bucket, source_key;
};
// kCorruption (PF2133) naming the first field that disagrees.
Status CheckManifest(const Manifest& manifest, const ManifestOwner& owner);

// "2026-11-30T09:52:22.87165128Z": up to nine fraction digits without trailing zeros, as Go's
// RFC3339Nano.
std::string FormatTimeNs(int64_t unix_ns);
Result<int64_t> ParseTimeNs(std::string_view text);

}  // namespace partforge::clickhouse
