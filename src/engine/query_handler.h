#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/http_server.h"
#include "engine/chdb.h"
#include "engine/query_request.h"

namespace partforge {

// The ClickHouse HTTP interface over libchdb (dependencies.md §3.4): one engine connection a
// request, or a session's.
//   GET /ping; GET and POST / with query, query_id, database, default_format, session_id,
//   session_timeout, session_check, wait_end_of_query, param_NAME; every other URL parameter is a
//   setting. The SQL is the query parameter and then the body; rows of an INSERT are streamed from
//   the body, rows of a SELECT to the reply.
// An error after the first byte of a reply is appended behind a line `__exception__`, and the reply
// ends without its final chunk. Query ids cannot be set in libchdb: they travel as log_comment.
// Thread-safe.
class QueryHandler {
 public:
  struct Options {
    std::shared_ptr<const ChdbLibrary> library = {};
    std::vector<std::string> connection_arguments = {};
    EngineCredentials credentials = {};
    bool allows_external_reads = false;
    std::string timezone = "UTC";  // of the engine, for the header that tells clients
  };
  explicit QueryHandler(Options options);
  ~QueryHandler();

  HttpServerReply Handle(const HttpServerRequest& request);
  // Asks every running statement to stop. Does not wait.
  Status KillAll();
  // Closes the connections of sessions; no request may run.
  void CloseSessions();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace partforge
