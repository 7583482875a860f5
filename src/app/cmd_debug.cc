#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "app/commands.h"

namespace partforge::app {
namespace {

// Made by the build from the sources (cmake/fault_points.cmake).
constexpr const char* kFaultPoints[] = {
#include "fault_points.inc"
};

Status Run(const CommandInput& input) {
  if (input.options.arguments().front() != "fault-points") {
    return Status(Code::kInvalidArgument,
                  fmt::format("fault-points expected: {}", input.options.arguments().front()))
        .Explain(1005, "debug", "partforge debug fault-points");
  }
  JsonDoc list = JsonDoc::array();
  for (const char* point : kFaultPoints) {
    input.out.Line(point);
    list.push_back(point);
  }
  input.out.Document("debug", JsonDoc{{"fault_points", list}});
  return {};
}

}  // namespace

Command DebugCommand() {
  return {{.name = "debug",
           .purpose = "For tests: lists the fault points that PARTFORGE_FAULT can name.",
           .arguments = "fault-points",
           .arguments_min = 1,
           .arguments_max = 1,
           .examples = {"partforge debug fault-points", "partforge debug fault-points --json"},
           .options = {},
           .related = {}},
          Run};
}

}  // namespace partforge::app
