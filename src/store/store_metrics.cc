#include "store/store_metrics.h"

namespace partforge {
namespace {

constexpr std::string_view kRequests = "partforge_object_requests_total";
constexpr std::string_view kBytes = "partforge_object_bytes_total";

}  // namespace

void CountObjectRequest(const Context& ctx, std::string_view op, const Status& status) {
  const std::string_view result = status.ok() ? "ok" : CodeName(status.code());
  ctx.metrics.Add(kRequests, {{"op", std::string(op)}, {"result", std::string(result)}});
}

void CountObjectBytesRead(const Context& ctx, int64_t bytes) {
  ctx.metrics.Add(kBytes, {{"direction", "read"}}, static_cast<double>(bytes));
}

void CountObjectBytesWritten(const Context& ctx, int64_t bytes) {
  ctx.metrics.Add(kBytes, {{"direction", "written"}}, static_cast<double>(bytes));
}

}  // namespace partforge
