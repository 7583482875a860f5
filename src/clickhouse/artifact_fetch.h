#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/context.h"
#include "clickhouse/artifact.h"
#include "clickhouse/part_verifier.h"
#include "clickhouse/tar_reader.h"
#include "store/object_store.h"

namespace partforge::clickhouse {

// Reads a meta object and compares its digest with the one recorded in the row ("" = not recorded):
// kCorruption (PF2133) shows both.
Result<ArtifactMeta> FetchMeta(const Context& ctx, ObjectStore& store, std::string_view meta_key,
                               std::string_view meta_sha256);

// What a finished prefix without meta holds (written by the reference): lists it. kRefused on
// anything but `<part>.tar` objects directly below, or when there is none. Sizes are known, hashes
// are not: such parts are "unverified".
Result<std::vector<ArtifactPart>> ListFinishedPrefix(const Context& ctx, ObjectStore& store,
                                                     std::string_view finished_prefix);

struct FetchPartOptions {
  VerifyLevel verify = VerifyLevel::kContent;
  bool is_synced =
      false;  // fsync every file and directory: when the directory is about to be published
};
// Streams one tar of a finished artifact into `target`, which must not exist, while hashing: size
// and sha256 against `part`, every file against checksums.txt (PF2133). Never writes the tar to
// disk. On failure the partial directory stays for the caller to remove.
Result<ExtractedPart> FetchPart(const Context& ctx, ObjectStore& store,
                                std::string_view finished_prefix, const ArtifactPart& part,
                                const std::filesystem::path& target,
                                const FetchPartOptions& options);
// The same without writing anything: for `verify`.
Result<ExtractedPart> VerifyPartTar(const Context& ctx, ObjectStore& store,
                                    std::string_view finished_prefix, const ArtifactPart& part,
                                    VerifyLevel level);

}  // namespace partforge::clickhouse
