#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "store/object_store.h"

namespace partforge::clickhouse {

// Keys of a job's objects (clickhouse-parts §3). `prefix` is stripped of empty elements; ids are
// path segments (IsValidId), else kInvalidArgument. No key ends in '/'. Immutable.
class JobKeys {
 public:
  static Result<JobKeys> Make(std::string_view prefix, std::string_view job_id);

  const std::string& root() const { return root_; }               // P/jobs/<job_id>
  Result<std::string> SourceKey(std::string_view part_id) const;  // …/source/<part_id>
  Result<std::string> FinishedKey(
      std::string_view part_id) const;  // …/finished/<part_id>: the reference's
  Result<std::string> FinishedPrefix(std::string_view part_id,
                                     uint64_t epoch) const;  // …/finished/<part_id>.<epoch>
  Result<std::string> MetaKey(std::string_view part_id,
                              uint64_t epoch) const;  // …/meta/<part_id>.<epoch>.json
  Result<std::string> ReceiptKey(std::string_view part_id) const;  // …/imported/<part_id>.json

 private:
  explicit JobKeys(std::string root) : root_(std::move(root)) {}
  std::string root_;
};

// "a//b/" → "a/b". kInvalidArgument on ".", ".." or one of *?[]{} (a prefix is never a pattern).
Result<std::string> NormalizePrefix(std::string_view prefix);
// The key of a tar below a finished or chunk prefix.
std::string TarKey(std::string_view prefix, std::string_view part_name);

// Guards every deletion: the root of the job that `key` (recorded in a row) belongs to,
// "<prefix>/jobs/<job_id>". kRefused (PF8006) when `key` has no segment pair jobs/<job_id>, or the
// job id, bucket or prefix holds one of *?[]{} or a '/' where none may be.
Result<std::string> DeletionRoot(std::string_view bucket, std::string_view key,
                                 std::string_view job_id);

// kRefused (PF2126) when the store has not a single object of the job to which `key` belongs: then
// it is not the store that the job was uploaded to, and says nothing about `key`. `folder` is the
// segment of `key` below the job: "source".
Status CheckStoreHoldsJob(const Context& ctx, ObjectStore& store, std::string_view key,
                          std::string_view folder);

// One produced part of a finished artifact.
struct ArtifactPart {
  std::string name;
  std::string partition_id;
  int64_t rows = 0;
  int64_t bytes_on_disk = 0;
  int64_t tar_size_bytes = 0;
  std::string tar_sha256;            // 64 hex digits; "" = unknown (an artifact of the reference)
  std::string checksums_txt_sha256;  // 64 hex digits; "" = unknown
  std::string hash_of_all_files;     // 32 hex digits, as system.parts; "" = unknown
  bool operator==(const ArtifactPart&) const = default;
};

struct ArtifactChunk {
  int64_t begin = 0, end = 0;  // rows of the source part
  int64_t attempts = 0, selected = 0, written = 0;
  bool operator==(const ArtifactChunk&) const = default;
};

struct ArtifactInput {
  std::string part_id;
  uint64_t epoch = 0;
  std::string meta_sha256;
  bool operator==(const ArtifactInput&) const = default;
};

enum class ArtifactKind : uint8_t { kRewrite, kCompact };

// The typed description of a finished artifact (clickhouse-parts §5.3). No parts = empty output.
struct ArtifactMeta {
  ArtifactKind kind = ArtifactKind::kRewrite;
  std::string job_id, part_id;
  uint64_t epoch = 0;
  int64_t generation = 0;
  std::string engine;              // version that wrote the parts
  std::string schema_fingerprint;  // "sha256:…"
  std::string codec;
  int64_t source_rows = 0, source_rows_visible = 0, source_bytes = 0;
  std::string source_manifest_sha256;
  std::vector<ArtifactChunk> chunks;
  int64_t selected = 0, written = 0;
  std::vector<ArtifactInput> inputs;
  std::vector<ArtifactPart> parts;
  bool operator==(const ArtifactMeta&) const = default;
};

std::string FormatArtifactMeta(const ArtifactMeta& meta);
// Strict: an unknown or missing field is kCorruption; an unknown kind or a newer version is
// kRefused.
Result<ArtifactMeta> ParseArtifactMeta(std::string_view text);

}  // namespace partforge::clickhouse
