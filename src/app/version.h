#pragma once

#include <string_view>

namespace partforge::app {

// Set by CMake from the project's version.
inline constexpr std::string_view kVersion = PARTFORGE_VERSION;

}  // namespace partforge::app
