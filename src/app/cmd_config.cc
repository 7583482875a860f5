#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "app/commands.h"
#include "app/option_groups.h"
#include "base/files.h"

namespace partforge::app {
namespace {

std::string Shown(const OptionSpec& spec, const OptionValue& value) {
  if (value.texts.empty()) return "";
  if (spec.is_secret) return "***";
  std::string text;
  for (const std::string& one : value.texts)
    text += (text.empty() ? "" : ",") + (spec.may_hold_password ? MaskPasswordInUrl(one) : one);
  return text;
}

// The settings of one command, or of all, with the origin of each value.
Status Print(const CommandInput& input, const std::string& wanted) {
  const std::vector<CommandSpec> specs = CommandSpecs();
  Table table{{{.title = "COMMAND"},
               {.title = "SETTING"},
               {.title = "VALUE", .is_right_aligned = false, .may_be_cut = true},
               {.title = "ORIGIN"}},
              {}};
  JsonDoc rows = JsonDoc::array();
  bool is_found = false;
  for (const CommandSpec& spec : specs) {
    if (!wanted.empty() && spec.name != wanted) continue;
    is_found = true;
    CommandSpec relaxed = spec;
    relaxed.arguments_min = 0;
    for (OptionSpec& option : relaxed.options) option.is_required = false;
    OptionInputs inputs;
    inputs.environment = input.environment;
    inputs.read_file = [](const std::string& path) { return ReadFile(path, int64_t{1} << 24); };
    if (input.options.IsSet("config")) inputs.argv = {"--config=" + input.options.String("config")};
    PF_ASSIGN(const ResolvedOptions resolved, ResolveOptions(relaxed, specs, inputs));
    for (const OptionSpec& option : AllOptions(relaxed)) {
      const OptionValue& value = resolved.values().find(option.name)->second;
      if (wanted.empty() && value.origin == "default") continue;
      table.rows.push_back(
          {std::string(spec.name), std::string(option.name), Shown(option, value), value.origin});
      rows.push_back(JsonDoc{{"command", std::string(spec.name)},
                             {"setting", std::string(option.name)},
                             {"value", Shown(option, value)},
                             {"origin", value.origin}});
    }
  }
  if (!is_found)
    return Status(Code::kInvalidArgument, fmt::format("no such command: {}", wanted))
        .Explain(1002, "COMMAND", "partforge help   lists the commands");
  if (table.rows.empty()) {
    input.out.Line(
        "every setting has its built-in value; partforge config print COMMAND lists them");
  } else {
    input.out.Text(RenderTable(table, input.out.style()));
  }
  input.out.Document("config", JsonDoc{{"settings", rows}});
  return {};
}

void Init(const CommandInput& input) {
  JsonDoc doc{
      {"x-comment",
       "settings of PartForge: keys are flag names; `commands` holds settings of one command"},
      {"x-state-url", "sqlite:/var/lib/partforge/state.db"},
      {"x-s3-endpoint", "https://s3.example.org"}};
  doc["commands"] =
      JsonDoc{{"worker", JsonDoc{{"x-parallel", 2}, {"x-work-dir", "/var/tmp/partforge"}}}};
  input.out.Raw(DumpJsonPretty(doc) + "\n");
}

Status Run(const CommandInput& input) {
  const auto& words = input.options.arguments();
  std::string wanted;
  for (size_t i = 1; i < words.size(); ++i) wanted += (i > 1 ? " " : "") + words[i];
  if (words[0] == "print") return Print(input, wanted);
  if (words[0] == "check") {
    PF_TRY(Print(input, wanted));
    input.out.Line("ok   every setting is understood");
    return {};
  }
  if (words[0] == "init") {
    Init(input);
    return {};
  }
  return Status(Code::kInvalidArgument, fmt::format("print, check or init expected: {}", words[0]))
      .Explain(1005, "config", "partforge config print");
}

}  // namespace

Command ConfigCommand() {
  return {{.name = "config",
           .purpose = "Shows effective settings with the origin of each (print), validates them "
                      "(check), prints a template (init).",
           .arguments = "print|check|init [COMMAND]",
           .arguments_min = 1,
           .arguments_max = 3,
           .examples = {"partforge config print worker", "partforge config init > partforge.json"},
           .options = {},
           .related = {}},
          Run};
}

}  // namespace partforge::app
