#pragma once

#include <map>
#include <string>

namespace partforge {

// Libraries of others by name, and the version that is loaded now. Each room tells of its own.
using LibraryVersions = std::map<std::string, std::string>;
LibraryVersions BaseLibraries();

}  // namespace partforge
