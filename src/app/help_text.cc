#include "app/help_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>

namespace partforge::app {
namespace {

std::string_view TypeWord(OptionType type) {
  switch (type) {
    case OptionType::kString:
      return "TEXT";
    case OptionType::kBool:
      return "";
    case OptionType::kInt:
    case OptionType::kDouble:
      return "N";
    case OptionType::kSize:
      return "SIZE";
    case OptionType::kDuration:
      return "TIME";
    case OptionType::kTime:
      return "WHEN";
  }
  return "TEXT";
}

// Breaks `text` at spaces so that no line is longer than `width` columns, where words allow it. The
// first line begins at column `start` (what stands before it is the caller's); later lines are
// indented.
std::string Wrap(std::string_view text, size_t start, size_t indent, size_t width) {
  const auto columns_of = [](std::string_view word) {
    return static_cast<size_t>(std::count_if(word.begin(), word.end(), [](char c) {
      return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
    }));
  };
  std::string out;
  size_t column = start;
  bool is_line_empty = true;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    if (!is_line_empty && column + 1 + columns_of(word) > width) {
      out += "\n" + std::string(indent, ' ');
      column = indent;
      is_line_empty = true;
    }
    if (!is_line_empty) {
      out += ' ';
      ++column;
    }
    out += word;
    column += columns_of(word);
    is_line_empty = false;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

std::string OptionLine(const OptionSpec& option, size_t width) {
  std::string head = "  ";
  if (option.letter != '\0') head += fmt::format("-{}, ", option.letter);
  head += fmt::format("--{}", option.name);
  if (const std::string_view word = TypeWord(option.type); !word.empty())
    head += fmt::format("={}", word);
  std::string text(option.help);
  if (option.is_required) text += " (required)";
  if (!option.default_text.empty() && option.type != OptionType::kBool)
    text += fmt::format(" (default {})", option.default_text);
  if (option.type == OptionType::kBool && option.default_text == "true") text += " (default true)";
  if (option.is_repeatable) text += " (repeatable)";
  if (option.is_secret || option.may_hold_password)
    text += fmt::format(" (or --{}-file)", option.name);
  constexpr size_t kIndent = 34;
  head += head.size() + 2 <= kIndent ? std::string(kIndent - head.size(), ' ')
                                     : "\n" + std::string(kIndent, ' ');
  return head + Wrap(text, kIndent, kIndent, width) + "\n";
}

}  // namespace

std::string OverviewText() {
  return R"(PartForge rewrites, compacts and publishes table data off the serving cluster, exactly once.

See it work, on real data, in a minute, leaving nothing behind:
  partforge demo

Give a ClickHouse table another sort key, partitioning or codec:
  partforge rewrite --database=db --table=events --destination-schema-file=new.sql \
      --insert-select-file=insert.sql --s3-endpoint=file:///forge --bucket=parts
  or, step by step and on many machines:  freeze, upload-freeze, worker, import-finished

Look at what is going on:
  partforge list-jobs          partforge job-status --job-id=JOB       partforge events --job-id=JOB

Check before you start:
  partforge check --job-sql=insert.sql --dest-schema=new.sql

  partforge help               all commands
  partforge COMMAND --help     one command, with examples
  partforge explain PF2107     what an error code means
  docs/tutorial.md             a first job, step by step (beside README.md)
)";
}

std::string CommandUsage(const CommandSpec& command) {
  std::string usage = fmt::format("partforge {}", command.name);
  for (const OptionSpec& option : command.options) {
    if (option.is_required) usage += fmt::format(" --{}=…", option.name);
  }
  usage += " [flags]";
  if (!command.arguments.empty()) usage += fmt::format(" {}", command.arguments);
  return usage;
}

std::string CommandHelp(const CommandSpec& command, int width) {
  const auto columns = static_cast<size_t>(std::clamp(width, 40, 100));
  std::string text = fmt::format("{}\n\nusage: {}\n", Wrap(command.purpose, 0, 0, columns),
                                 Wrap(CommandUsage(command), 7, 9, columns));
  if (!command.examples.empty()) {
    text += "\nexamples:\n";
    for (const std::string_view example : command.examples) text += fmt::format("  {}\n", example);
  }
  const std::vector<OptionSpec> options = AllOptions(command);
  constexpr std::array<std::string_view, 4> kGroups = {"What", "Where", "Limits", "Output"};
  for (const std::string_view group : kGroups) {
    std::string lines;
    for (const OptionSpec& option : options) {
      if (option.group == group) lines += OptionLine(option, columns);
    }
    if (!lines.empty()) text += fmt::format("\n{}:\n{}", group, lines);
  }
  constexpr std::string_view kExits =
      "0 done · 1 failed · 2 usage · 3 refused · 4 partly done · 5 conflict · 6 in doubt, run "
      "again · "
      "7 unreachable · 8 data damaged · 9 nothing to do (--fail-if-empty) · 130, 143 stopped by "
      "INT, "
      "TERM (a worker: 0) · 141 nobody reads the output";
  text += fmt::format("\nexits: {}\n", Wrap(kExits, 7, 7, columns));
  if (!command.related.empty())
    text += fmt::format("\nrelated: {}\n", fmt::join(command.related, ", "));
  return text;
}

std::string CommandList(std::span<const CommandSpec> commands) {
  std::string text = "usage: partforge COMMAND [flags]\n\n";
  for (const CommandSpec& command : commands)
    text += fmt::format("  {:<18} {}\n", command.name, Wrap(command.purpose, 21, 21, 100));
  text +=
      "\npartforge COMMAND --help shows the flags of one command.\n"
      "partforge engine --help: the embedded engine as a ClickHouse server.\n";
  return text;
}

std::string GroupList(std::string_view group, std::span<const CommandSpec> commands) {
  std::string lines;
  for (const CommandSpec& command : commands) {
    if (command.name.size() <= group.size() + 1 || !command.name.starts_with(group) ||
        command.name[group.size()] != ' ') {
      continue;
    }
    lines += fmt::format("  {:<18} {}\n", command.name, Wrap(command.purpose, 21, 21, 100));
  }
  if (lines.empty()) return {};
  return fmt::format(
      "usage: partforge {} COMMAND [flags]\n\n{}\npartforge {} COMMAND --help shows "
      "the flags of one command.\n",
      group, lines, group);
}

std::string CompletionScript(std::string_view shell, std::span<const CommandSpec> commands) {
  // First words, and the second words of groups.
  std::vector<std::string> names;
  std::map<std::string, std::vector<std::string>> groups;
  for (const CommandSpec& command : commands) {
    const size_t space = command.name.find(' ');
    std::string first(command.name.substr(0, space));
    if (std::find(names.begin(), names.end(), first) == names.end()) names.push_back(first);
    if (space != std::string_view::npos) groups[first].emplace_back(command.name.substr(space + 1));
  }
  const auto flags = [](const CommandSpec& command) {
    std::vector<std::string> words;
    for (const OptionSpec& option : AllOptions(command))
      words.push_back(fmt::format("--{}", option.name));
    return words;
  };
  if (shell == "bash" || shell == "zsh") {
    std::string cases;
    for (const CommandSpec& command : commands) {
      if (command.name.find(' ') != std::string_view::npos) continue;
      cases +=
          fmt::format("    {}) words=\"{}\" ;;\n", command.name, fmt::join(flags(command), " "));
    }
    for (const auto& [group, seconds] : groups) {
      std::string inner;
      for (const CommandSpec& command : commands) {
        if (command.name.size() > group.size() && command.name.starts_with(group) &&
            command.name[group.size()] == ' ') {
          inner += fmt::format(" {}) words=\"{}\" ;;", command.name.substr(group.size() + 1),
                               fmt::join(flags(command), " "));
        }
      }
      cases += fmt::format(
          "    {}) if [ \"$COMP_CWORD\" -le 2 ]; then words=\"{}\"; else case ${{COMP_WORDS[2]}} "
          "in{} esac; fi ;;\n",
          group, fmt::join(seconds, " "), inner);
    }
    std::string script = shell == "zsh" ? "autoload -U +X bashcompinit && bashcompinit\n" : "";
    script += fmt::format(
        "_partforge() {{\n  local words current=${{COMP_WORDS[COMP_CWORD]}}\n  if [ "
        "\"$COMP_CWORD\" -le 1 ]; then words=\"{}\"; else\n"
        "  case ${{COMP_WORDS[1]}} in\n{}  esac; fi\n  COMPREPLY=($(compgen -W \"$words\" -- "
        "\"$current\"))\n}}\n"
        "complete -o default -F _partforge partforge\n",
        fmt::join(names, " "), cases);
    return script;
  }
  if (shell == "fish") {
    std::string script = "complete -c partforge -f\n";
    for (const CommandSpec& command : commands) {
      std::string purpose(command.purpose);
      std::replace(purpose.begin(), purpose.end(), '\'', ' ');
      const size_t space = command.name.find(' ');
      const std::string_view first = command.name.substr(0, space);
      std::string seen = fmt::format("__fish_seen_subcommand_from {}", first);
      if (space == std::string_view::npos) {
        script += fmt::format("complete -c partforge -n __fish_use_subcommand -a {} -d '{}'\n",
                              command.name, purpose);
      } else {
        const std::string_view second = command.name.substr(space + 1);
        script += fmt::format("complete -c partforge -n __fish_use_subcommand -a {}\n", first);
        script +=
            fmt::format("complete -c partforge -n '{}' -a {} -d '{}'\n", seen, second, purpose);
        seen += fmt::format("; and __fish_seen_subcommand_from {}", second);
      }
      for (const OptionSpec& option : AllOptions(command))
        script += fmt::format("complete -c partforge -n '{}' -l {}\n", seen, option.name);
    }
    return script;
  }
  return {};
}

}  // namespace partforge::app
