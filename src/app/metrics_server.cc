#include "app/metrics_server.h"

#include <fmt/format.h>

#include <charconv>

#include "app/version.h"

namespace partforge::app {

Result<std::unique_ptr<MetricsServer>> MetricsServer::Start(const CommandInput& input) {
  auto server = std::make_unique<MetricsServer>();
  const std::string address = input.options.String("metrics-addr");
  if (address.empty() || address == "none") return server;
  const size_t colon = address.rfind(':');
  HttpServerOptions options;
  options.threads = 4;
  options.body_bytes_max = 1 << 20;
  const auto bad = [&] {
    return Status(Code::kInvalidArgument, fmt::format("host:port or :port expected: {}", address))
        .Explain(1005, "--metrics-addr", "--metrics-addr=127.0.0.1:2112, or none");
  };
  if (colon == std::string::npos) return bad();
  options.host = colon == 0 ? std::string("0.0.0.0") : address.substr(0, colon);
  const auto [end, error] =
      std::from_chars(address.data() + colon + 1, address.data() + address.size(), options.port);
  if (error != std::errc() || end != address.data() + address.size() || options.port < 0 ||
      options.port > 65535)
    return bad();

  const std::string path = input.options.String("metrics-path");
  TellBuild(input.ctx, "");
  Metrics& metrics = input.ctx.metrics;
  const std::stop_token stop = input.ctx.stop;
  Result<std::unique_ptr<HttpServer>> started =
      HttpServer::Start(options, [&metrics, path, stop](const HttpServerRequest& request) {
        HttpServerReply reply;
        if (request.path == path) {
          reply.content_type = "text/plain; version=0.0.4; charset=utf-8";
          reply.body = metrics.Expose();
        } else if (request.path == "/livez" || request.path == "/startupz") {
          reply.body = "ok\n";
        } else if (request.path == "/readyz") {
          reply.status = stop.stop_requested() ? 503 : 200;
          reply.body = stop.stop_requested() ? "stopping\n" : "ok\n";
        } else if (request.path == "/version") {
          reply.content_type = "application/json";
          reply.body =
              fmt::format("{{\"version\":\"{}\",\"revision\":\"{}\"}}\n", kVersion, Revision());
        } else {
          reply.status = 404;
          reply.body = "not found\n";
        }
        return reply;
      });
  if (!started.ok()) {
    if (input.options.IsSet("metrics-addr"))
      return std::move(started)
          .status()
          .As(Code::kInvalidArgument)
          .Explain(1005, "--metrics-addr", "choose a free address, or none");
    Ignore(input.ctx, started.status(),
           "the default metrics address is taken, probably by another worker");
    return server;
  }
  server->server_ = std::move(started).value();
  return server;
}

}  // namespace partforge::app
