#pragma once

#include "base/library_versions.h"

namespace partforge::data {

// Of the formats and their codecs.
LibraryVersions DataLibraries();

}  // namespace partforge::data
