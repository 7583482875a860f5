#pragma once

#include <memory>

#include "app/command.h"
#include "base/http_server.h"

namespace partforge::app {

// /metrics, /livez, /readyz, /startupz and /version of a worker (user-experience §8). Answered by
// this process, so the page stays up while an engine child is down.
class MetricsServer {
 public:
  // Listens at --metrics-addr ("host:port", ":port", empty = none). When the address was not asked
  // for explicitly, one that is taken is only a warning.
  static Result<std::unique_ptr<MetricsServer>> Start(const CommandInput& input);

 private:
  std::unique_ptr<HttpServer> server_;  // null when not listening
};

}  // namespace partforge::app
