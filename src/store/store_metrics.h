#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/context.h"

namespace partforge {

// Counts one request to a store: partforge_object_requests_total{op, result}, where `result` is
// "ok" or the name of a Code. Operations: head, get, put, put_if_absent, list, copy, delete, part,
// complete.
void CountObjectRequest(const Context& ctx, std::string_view op, const Status& status);
// partforge_object_bytes_total{direction="read"} and {direction="written"}.
void CountObjectBytesRead(const Context& ctx, int64_t bytes);
void CountObjectBytesWritten(const Context& ctx, int64_t bytes);

}  // namespace partforge
