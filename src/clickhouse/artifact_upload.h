#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/context.h"
#include "clickhouse/artifact.h"
#include "store/object_store.h"

namespace partforge::clickhouse {

struct PartDirectory {
  std::string name;  // of the part; names the tar
  std::filesystem::path directory;
};

// Streams each part as a tar to TarKey(finished_prefix, name), then asks the store for every size
// again. Answers one entry a part, in the order of partitions and blocks, which is the order of the
// import. kUnavailable (PF6006), with nothing written, when the prefix is in use: attempts never
// overwrite. Fault point: clickhouse.tar_uploaded after each tar.
Result<std::vector<ArtifactPart>> PackParts(const Context& ctx, ObjectStore& store,
                                            std::string_view finished_prefix,
                                            const std::vector<PartDirectory>& parts, int threads);

struct MetaReference {
  std::string key;
  std::string sha256;  // 64 hex digits
};
// Writes the meta object, after all tars (clickhouse-parts §5.4). kUnavailable (PF6006) when
// another meta object has the key. Fault point: clickhouse.meta_uploaded.
Result<MetaReference> UploadMeta(const Context& ctx, ObjectStore& store, std::string_view meta_key,
                                 const ArtifactMeta& meta);

}  // namespace partforge::clickhouse
