#pragma once

#include <filesystem>
#include <vector>

#include "base/error.h"

namespace partforge {

// The *.xml files of a folder like config.d that a server merges, in the order it merges them.
// Empty when the folder is absent; an error when it cannot be read.
Result<std::vector<std::filesystem::path>> ListConfigFiles(const std::filesystem::path& folder);

}  // namespace partforge
