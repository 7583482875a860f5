#pragma once

#include <string_view>

#include "base/context.h"

namespace partforge::app {

// Set by CMake from the project's version.
inline constexpr std::string_view kVersion = PARTFORGE_VERSION;

// Of the sources: a short commit id, with "-changed" when files differed from it; "unknown" when
// they were no repository.
std::string_view Revision();

// Sets the metric that says what runs (user-experience §8). The engine's version is empty until one
// has been started.
void TellBuild(const Context& ctx, std::string_view engine_version);

}  // namespace partforge::app
