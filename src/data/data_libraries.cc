#include "data/data_libraries.h"

#include <arrow/config.h>
#include <lz4.h>
#include <zlib.h>
#include <zstd.h>

namespace partforge::data {

LibraryVersions DataLibraries() {
  return {{"arrow", arrow::GetBuildInfo().version_string},
          {"lz4", LZ4_versionString()},
          {"zlib", zlibVersion()},
          {"zstd", ZSTD_versionString()}};
}

}  // namespace partforge::data
