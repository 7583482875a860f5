#include "app/confirm.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <string>

namespace partforge::app {

Status Confirm(const CommandInput& input, std::string_view question) {
  if (input.options.Bool("yes")) return {};
  const auto refuse = [&](std::string_view why) {
    return Status(Code::kRefused, fmt::format("{}? {}", question, why))
        .Explain(1017, "confirmation", "the same command with --yes");
  };
  if (isatty(STDIN_FILENO) != 1 || !input.out.style().is_stderr_tty)
    return refuse("There is no terminal to ask on");
  fmt::print(stderr, "{}? [y/N] ", question);
  std::fflush(stderr);
  std::string answer;
  std::getline(std::cin, answer);
  return answer == "y" || answer == "yes" ? Status() : refuse("The answer was no");
}

}  // namespace partforge::app
