#pragma once

#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "app/options.h"
#include "app/output.h"
#include "base/context.h"
#include "base/world.h"

namespace partforge::app {

// What a command gets. Lives for one run.
struct CommandInput {
  const Context& ctx;
  const ResolvedOptions& options;
  Output& out;
  const std::map<std::string, std::string>& environment;
};

// A command returns OK when everything asked for is durable; ExitCode(status) is the exit,
// RenderError what a person sees.
using CommandFunction = Status (*)(const CommandInput&);

struct Command {
  CommandSpec spec;
  CommandFunction run = nullptr;
  // Also called when the stop came before it could begin: a worker ends in order then, too.
  bool runs_when_stopped = false;
};

// Every command, in the order of the help text. One file per command defines its spec and its
// function.
std::span<const Command> Commands();
std::vector<CommandSpec> CommandSpecs();

}  // namespace partforge::app
