#include "base/context.h"

#include <fmt/format.h>

namespace partforge {

Status Context::CheckStop(std::string_view doing) const {
  if (!stop.stop_requested()) return {};
  return Status(Code::kCancelled, fmt::format("stopped while {}", doing));
}

void Ignore(const Context& ctx, const Status& status, std::string_view why) {
  if (status.ok()) return;
  ctx.log.Warn("failure ignored", {{"why_ignored", why}, {"error", status.ToString()}});
}

}  // namespace partforge
