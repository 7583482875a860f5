#pragma once

#include <cstdint>
#include <string>

#include "base/context.h"
#include "clickhouse/freeze_scan.h"
#include "clickhouse/manifest.h"
#include "store/object_store.h"

namespace partforge::clickhouse {

struct SourceUploaded {
  Manifest manifest;            // as stored, `files`, rows and bytes filled in
  std::string manifest_sha256;  // 64 hex digits
  int64_t size_bytes = 0;       // Σ file sizes without the manifest
  bool was_complete = false;    // an equal manifest stood there already: nothing was sent
};

// Copies every file of a frozen part below manifest.source_key and then, last, the manifest: its
// presence marks the artifact complete. `manifest` comes without files. A manifest of equal content
// that is already there means the part is done; a different one is kConflict (part id collision).
// Never writes into the frozen directory. Keys are relative to the store's root. Fault points:
// clickhouse.source_file_uploaded, clickhouse.manifest_uploaded.
Result<SourceUploaded> UploadSource(const Context& ctx, ObjectStore& store, const FrozenPart& part,
                                    Manifest manifest, int threads);

}  // namespace partforge::clickhouse
