#include <fmt/format.h>

#include "app/commands.h"
#include "app/help_text.h"

namespace partforge::app {
namespace {

Status Run(const CommandInput& input) {
  const std::string& shell = input.options.arguments().front();
  const std::string script = CompletionScript(shell, CommandSpecs());
  if (script.empty()) {
    return Status(Code::kInvalidArgument, fmt::format("bash, zsh or fish expected: {}", shell))
        .Explain(1005, "SHELL", "partforge completions bash");
  }
  input.out.Raw(script);
  return {};
}

}  // namespace

Command CompletionsCommand() {
  return {{.name = "completions",
           .purpose = "Prints a completion script for a shell.",
           .arguments = "bash|zsh|fish",
           .arguments_min = 1,
           .arguments_max = 1,
           .examples = {"source <(partforge completions bash)",
                        "partforge completions fish > ~/.config/fish/completions/partforge.fish"},
           .options = {},
           .related = {}},
          Run};
}

}  // namespace partforge::app
