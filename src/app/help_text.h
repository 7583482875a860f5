#pragma once

#include <span>
#include <string>

#include "app/options.h"

namespace partforge::app {

// Texts drawn from the option tables. Pure. `width` is the terminal's, at most 100 is used.
std::string OverviewText();                                      // `partforge` alone, ≤ 30 lines
std::string CommandHelp(const CommandSpec& command, int width);  // `partforge COMMAND --help`
std::string CommandUsage(const CommandSpec& command);            // one line
// The commands of a group (`file` of `file inspect`); empty when there is no such group.
std::string GroupList(std::string_view group, std::span<const CommandSpec> commands);
std::string CommandList(std::span<const CommandSpec> commands);  // `partforge help`
std::string CompletionScript(
    std::string_view shell,
    std::span<const CommandSpec> commands);  // bash, zsh, fish; "" = unknown

}  // namespace partforge::app
