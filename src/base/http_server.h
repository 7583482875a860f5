#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace partforge {

struct HttpServerRequest {
  std::string method = {}, path = {};  // path decoded, without the query
  std::string target = {};             // as on the wire
  // Decoded, in order; only from the URL, never from the body.
  std::vector<std::pair<std::string, std::string>> query = {};
  std::map<std::string, std::string> headers = {};  // names in lower case
  // Pieces of the body as they arrive: returns false from the callback to stop. Called at most
  // once. The result is true only when the whole body was read: a client that goes away in the
  // middle is told apart from a short body.
  std::function<bool(const std::function<bool(std::string_view)>&)> read_body = {};

  std::string Query(std::string_view name) const;  // first value or ""
  // kInvalidArgument when it is longer than `size_bytes_max`, kUnavailable when the client broke
  // off.
  Result<std::string> ReadBody(size_t size_bytes_max) const;
  // ReadBody for handlers that need not tell a failure from an empty body: "" on failure.
  std::string ReadWholeBody(size_t size_bytes_max) const;
};

struct HttpServerReply {
  int status = 200;
  std::map<std::string, std::string> headers = {};
  std::string content_type = "text/plain; charset=utf-8";
  std::string body = {};
  // Instead of `body`: called until it returns an empty optional (proper end of a chunked body); a
  // failure cuts the connection without the final chunk, so that the client can tell.
  std::function<Result<std::optional<std::string>>()> next_chunk = {};
  // For tests of clients: close the connection without sending a reply.
  bool drops_connection = false;
};

struct HttpServerOptions {
  std::string host = "127.0.0.1";
  int port = 0;  // 0 = any free one
  // Handlers running at once; more requests wait for their turn. Connections are not counted, up to
  // a thousand: beyond, the one that has been idle longest makes room.
  int threads = 16;
  int64_t body_bytes_max = int64_t{1} << 40;
  int64_t idle_timeout_ms = 300'000;
};

// A small HTTP/1.1 server over cpp-httplib; handlers run on its threads. The destructor stops it.
class HttpServer {
 public:
  using Handler = std::function<HttpServerReply(const HttpServerRequest&)>;
  // Every request of every method and path goes to `handler`. kUnavailable when the address cannot
  // be bound.
  static Result<std::unique_ptr<HttpServer>> Start(HttpServerOptions options, Handler handler);
  ~HttpServer();
  int port() const;
  void Stop();  // waits for running handlers

 private:
  struct Impl;
  explicit HttpServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace partforge
