#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/http_server.h"
#include "base/log.h"
#include "engine/chdb.h"

namespace partforge {

// One request of the ClickHouse HTTP interface, taken out of URL and headers; the body is read
// later.
struct QueryRequest {
  std::string sql, query_id, database, session_id;
  std::string format;  // empty = not said
  std::vector<std::pair<std::string, std::string>> settings;
  ChdbParameters parameters;
  int64_t session_idle_ms = 60'000;
  bool session_must_exist = false, waits_for_end = false, may_write = false;
  int64_t begin_ms = 0;
};

// `drawn_id` is the query id of a request that brings none. Code 115 for a parameter that cannot be
// a setting, 374 for a session timeout above an hour, 48 for compressed bodies.
Result<QueryRequest> ReadQueryRequest(const HttpServerRequest& request, std::string drawn_id);

// What requests must bring as password: in the header X-ClickHouse-Key, by basic authorization or
// in the URL.
struct EngineCredentials {
  Secret password = {};
  std::string password_sha256 = {};  // or its digest in lower-case hex; both empty = anybody
  // Code 516 otherwise.
  Status Check(const HttpServerRequest& request) const;
};

// An error of the interface itself, in the engine's own form.
Status DoorStatus(int number, std::string_view text, std::string_view name);

}  // namespace partforge
