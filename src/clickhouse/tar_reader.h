#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/context.h"
#include "clickhouse/part_verifier.h"
#include "store/object_store.h"

namespace partforge::clickhouse {

inline constexpr int64_t kTarEntriesMax = 1'000'000;

// Receives what a TarParser finds, in the order of the archive. Paths are checked (relative, no
// "..", unique).
class TarVisitor {
 public:
  virtual ~TarVisitor() = default;
  virtual Status OnDirectory(const Context& ctx, std::string_view path, uint32_t mode) = 0;
  virtual Status OnFileBegin(const Context& ctx, std::string_view path, int64_t size_bytes,
                             uint32_t mode) = 0;
  virtual Status OnFileBytes(const Context& ctx, std::span<const std::byte> bytes) = 0;
  virtual Status OnFileEnd(const Context& ctx) = 0;
};

// Parses an archive fed in pieces of any size (clickhouse-parts §5.2): ustar with prefix, base-256
// numbers, PAX local and global path and size, GNU long names. kCorruption on broken bytes;
// kRefused (PF8005) on an entry that leaves its directory, a link or device, the same name twice, a
// name both file and directory. Memory is bounded by the number of entries. One thread at a time.
class TarParser {
 public:
  explicit TarParser(TarVisitor& visitor);
  ~TarParser();
  Status Feed(const Context& ctx, std::span<const std::byte> bytes);
  // After the last byte: kCorruption when the archive ends inside an entry or lacks its end mark.
  Status Finish(const Context& ctx);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

struct ExtractedPart {
  int64_t tar_size_bytes = 0;
  std::string tar_sha256;  // 64 hex digits
  int64_t file_count = 0;
  int64_t size_bytes = 0;  // Σ file sizes
  std::string checksums_txt_sha256;
  std::string hash_of_all_files;  // as system.parts
};

struct ExtractOptions {
  std::string part_name = {};  // every entry must lie below this directory, which is stripped
  VerifyLevel verify = VerifyLevel::kContent;
  bool is_synced = false;  // fsync every file and directory
};

// Reads `source` once from start to end and writes each entry below `target`, which must not exist
// yet; hashes while streaming and checks every file against the part's checksums.txt. On failure
// what was written stays, for the caller to remove.
Result<ExtractedPart> ExtractPartTar(const Context& ctx, ByteSource& source,
                                     const std::filesystem::path& target,
                                     const ExtractOptions& options);
// The same without writing anything.
Result<ExtractedPart> CheckPartTar(const Context& ctx, ByteSource& source,
                                   const ExtractOptions& options);
}  // namespace partforge::clickhouse
