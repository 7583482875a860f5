#pragma once

#include <string>

#include "base/context.h"
#include "engine/engine.h"

namespace partforge::testing {

// What every Engine promises, as gtest expectations: the same laws for the embedded engine and for
// a real server. Works in a database of its own, `database`, which it makes and drops.
void CheckEngineContract(const Context& ctx, Engine& engine, const std::string& database);

}  // namespace partforge::testing
