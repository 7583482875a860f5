#pragma once

#include <span>
#include <string_view>

namespace partforge::app {

// A command of the whole product (user-experience §2) that this version does not have, and what
// serves meanwhile (docs/limits.md).
struct LaterCommand {
  std::string_view name;
  std::string_view meanwhile;  // for the `do` of an error
};

std::span<const LaterCommand> LaterCommands();
// Null when the product has no such command, or this version has it.
const LaterCommand* FindLaterCommand(std::string_view name);

}  // namespace partforge::app
