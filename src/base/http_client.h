#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/context.h"

namespace partforge {

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

// How the other side of an https connection is believed, and what it is shown.
struct TlsOptions {
  std::string ca_file = {};  // PEM; "" = the system's
  // PEM; what this side shows where it is asked to. The key may stand in the certificate's file.
  std::string certificate_file = {}, key_file = {};
  bool skips_verification = false;
};

struct HttpRequest {
  std::string method = "GET";
  std::string url = {};
  HttpHeaders headers = {};
  std::span<const std::byte> body = {};  // sent with Content-Length; must outlive the call
  // Instead of `body`: fills the buffer and returns the count, 0 at the end. With body_size_bytes <
  // 0 the transfer is chunked.
  std::function<Result<size_t>(std::span<std::byte>)> read_body = {};
  int64_t body_size_bytes = -1;
  int64_t connect_timeout_ms = 10'000;
  int64_t idle_timeout_ms = 60'000;  // no byte in either direction for so long; 0 = no limit
  int64_t body_bytes_max = int64_t{1} << 30;  // of a reply kept in memory
  TlsOptions tls = {};
};

struct HttpReply {
  int status = 0;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
};

// A reply whose body is pulled. One thread at a time. Dropping it closes the connection.
class HttpBody {
 public:
  virtual ~HttpBody() = default;
  virtual int status() const = 0;
  virtual const std::map<std::string, std::string>& headers() const = 0;  // names in lower case
  // Next piece (at most 1 MiB), empty optional at the proper end. kUnavailable when the connection
  // broke before it.
  virtual Result<std::optional<std::string>> Next(const Context& ctx) = 0;
};

// HTTP/1.1 over libcurl; connections are kept and reused. Thread-safe.
// Failures: kUnavailable when nothing of the request can have taken effect (no connection, DNS);
// kUnknownOutcome when it broke after the first byte was sent and the method is not GET or HEAD,
// else kUnavailable; kCancelled on stop. An HTTP error status is a reply, not a failure.
class HttpClient {
 public:
  HttpClient();
  ~HttpClient();
  Result<HttpReply> Send(const Context& ctx, const HttpRequest& request);
  // Sends, waits for the reply's headers, and leaves the body to be pulled.
  Result<std::unique_ptr<HttpBody>> Open(const Context& ctx, const HttpRequest& request);

 private:
  struct Pool;
  std::shared_ptr<Pool> pool_;
};

std::string UrlEncode(std::string_view text);  // RFC 3986 unreserved kept, all else %XX
Result<std::string> UrlDecode(std::string_view text);

}  // namespace partforge
