#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "base/context.h"
#include "clickhouse/manifest.h"
#include "clickhouse/part_files.h"
#include "clickhouse/part_verifier.h"
#include "store/object_store.h"

namespace partforge::clickhouse {

// The store of another bucket, for zero-copy backups. May be empty: such manifests are then
// refused.
using BucketResolver = std::function<Result<ObjectStore*>(const Context&, std::string_view bucket)>;

struct FetchSourceRequest {
  std::string source_key = {};
  ManifestOwner owner = {};              // checked against the manifest
  std::string manifest_sha256 = {};      // as recorded at the upload; empty = not known
  std::filesystem::path directory = {};  // made by the fetch; must not exist
  VerifyLevel verify =
      VerifyLevel::kSizes;  // against checksums.txt; sizes and sha256 of the manifest always
  int threads = 1;
  BucketResolver buckets = {};
};

struct FetchedSource {
  Manifest manifest;
  std::string manifest_sha256;
  PartInfo part;  // of the directory, which holds no manifest.json
};

// Downloads a source artifact in parallel and checks it. kCorruption (PF2133) naming the file on
// any disagreement.
Result<FetchedSource> FetchSource(const Context& ctx, ObjectStore& store,
                                  const FetchSourceRequest& request);

}  // namespace partforge::clickhouse
