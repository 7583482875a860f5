#include <fmt/format.h>

#include <charconv>
#include <nlohmann/json.hpp>

#include "app/commands.h"
#include "base/error_ids.h"

namespace partforge::app {
namespace {

JsonDoc ToJson(const ErrorId& id) {
  return JsonDoc{{"code", ErrorIdText(id.number)},
                 {"title", std::string(id.title)},
                 {"text", std::string(id.paragraph)}};
}

std::string Wrapped(std::string_view text, size_t width) {
  std::string out;
  size_t column = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    if (column != 0 && column + 1 + end > width) {
      out += '\n';
      column = 0;
    } else if (column != 0) {
      out += ' ';
      ++column;
    }
    out += text.substr(0, end);
    column += end;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

Status Run(const CommandInput& input) {
  if (input.options.arguments().empty()) {
    Table table{{{.title = "CODE"}, {.title = "MEANING"}}, {}};
    JsonDoc codes = JsonDoc::array();
    for (const ErrorId& id : ErrorIds()) {
      table.rows.push_back({ErrorIdText(id.number), std::string(id.title)});
      codes.push_back(ToJson(id));
    }
    input.out.Text(RenderTable(table, input.out.style()));
    input.out.Document("explain", JsonDoc{{"codes", codes}});
    return {};
  }
  std::string_view text = input.options.arguments().front();
  if (text.starts_with("PF") || text.starts_with("pf")) text.remove_prefix(2);
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const ErrorId* id =
      error == std::errc() && end == text.data() + text.size() ? FindErrorId(number) : nullptr;
  if (id == nullptr) {
    return Status(Code::kInvalidArgument,
                  fmt::format("no such code: {}", input.options.arguments().front()))
        .Explain(1005, "CODE", "partforge explain   lists all codes");
  }
  const std::string paragraph =
      Wrapped(id->paragraph, static_cast<size_t>(std::min(input.out.style().width, 100)));
  input.out.Line(fmt::format("{}: {}\n\n{}", ErrorIdText(id->number), id->title, paragraph));
  input.out.Answer(paragraph);
  input.out.Document("explain", ToJson(*id));
  return {};
}

}  // namespace

Command ExplainCommand() {
  return {{.name = "explain",
           .purpose = "Says what an error code means and what to do; lists all codes without one.",
           .arguments = "[CODE]",
           .arguments_min = 0,
           .arguments_max = 1,
           .examples = {"partforge explain PF2107", "partforge explain --json"},
           .options = {},
           .related = {}},
          Run};
}

}  // namespace partforge::app
