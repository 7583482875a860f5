#pragma once

#include "base/library_versions.h"

namespace partforge {

// Of the two databases.
LibraryVersions StateLibraries();

}  // namespace partforge
