#include "job/state_libraries.h"

#include <fmt/format.h>
#include <libpq-fe.h>
#include <sqlite3.h>

namespace partforge {

LibraryVersions StateLibraries() {
  const int libpq = PQlibVersion();  // major · 10000 + minor since 10
  return {{"libpq", fmt::format("{}.{}", libpq / 10000, libpq % 10000)},
          {"sqlite", sqlite3_libversion()}};
}

}  // namespace partforge
