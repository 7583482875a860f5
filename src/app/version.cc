#include "app/version.h"

#include <string>

namespace partforge::app {

std::string_view Revision() {
  return
#include "revision.inc"
      ;
}

void TellBuild(const Context& ctx, std::string_view engine_version) {
  const auto labels = [](std::string_view engine) {
    return MetricLabels{{"version", std::string(kVersion)},
                        {"revision", std::string(Revision())},
                        {"engine_version", std::string(engine)}};
  };
  if (!engine_version.empty()) ctx.metrics.Remove("partforge_build_info", labels(""));
  ctx.metrics.Set("partforge_build_info", labels(engine_version), 1);
}

}  // namespace partforge::app
