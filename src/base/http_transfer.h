#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/http_client.h"

namespace partforge {

// One handle of libcurl and the connection it keeps. One thread at a time.
struct HttpChannel {
  explicit HttpChannel(std::string origin_text);
  ~HttpChannel();  // closes the connection
  HttpChannel(const HttpChannel&) = delete;
  HttpChannel& operator=(const HttpChannel&) = delete;

  const std::string origin;  // "https://host:port", to whom the kept connection leads
  void* multi = nullptr;     // CURLM*; curl's header stays in the .cc files
  void* easy = nullptr;      // CURL*
};

// One request on its way over a channel: the state machine behind HttpClient. One thread at a time;
// not movable, since libcurl holds its address. All waiting happens in Drive, so stop and idle
// limits are kept in one place.
class HttpTransfer {
 public:
  // How much of a reply may wait in memory, and what happens beyond it.
  enum class Overflow { kPauses, kFails };

  HttpTransfer(std::unique_ptr<HttpChannel> channel, HttpRequest request, int64_t buffer_bytes_max,
               Overflow overflow);
  ~HttpTransfer();
  HttpTransfer(const HttpTransfer&) = delete;
  HttpTransfer& operator=(const HttpTransfer&) = delete;

  // Checks the request and hands it to libcurl; sends nothing yet. kInvalidArgument names the bad
  // part.
  Status Begin();
  // Moves bytes until the whole request was sent and the reply's headers have come.
  Status AwaitHeaders(const Context& ctx);
  // Moves bytes until some of the reply's body is in memory; an empty optional at its proper end.
  Result<std::optional<std::string>> NextPiece(const Context& ctx);
  // Moves bytes until the reply is complete and returns its body.
  Result<std::string> AwaitBody(const Context& ctx);
  // After a complete transfer the channel can serve again; nullptr otherwise. Ends the transfer's
  // life.
  std::unique_ptr<HttpChannel> TakeChannel();

  int status() const { return status_; }
  const std::map<std::string, std::string>& headers() const { return headers_; }

 private:
  struct Callbacks;  // the C functions that libcurl calls
  struct HeaderList;

  Status Drive(const Context& ctx, const std::function<bool()>& has_enough);
  void Perform();
  Status Failure(int curl_code) const;
  Status Broken(Code code, std::string_view what) const;
  bool IsSent() const;        // whether a byte of the request has left
  bool IsRepeatable() const;  // GET and HEAD: doing it twice changes nothing
  void TakeHeaderLine(std::string_view line);

  std::unique_ptr<HttpChannel> channel_;
  HttpRequest request_;
  const int64_t buffer_bytes_max_;
  const Overflow overflow_;
  std::unique_ptr<HeaderList> request_headers_;
  std::string error_text_;  // CURL_ERROR_SIZE bytes, written by libcurl

  int status_ = 0;
  std::map<std::string, std::string> headers_;
  int64_t header_bytes_ = 0;
  std::string buffer_;
  int64_t sent_body_bytes_ = 0;
  int64_t moved_bytes_ = 0;       // both directions, as libcurl last reported
  int64_t last_activity_ms_ = 0;  // MonotonicMs
  int start_count_ = 0;           // how often libcurl began to send the request
  bool has_headers_ = false;
  bool has_sent_body_ = false;
  bool is_paused_ = false;
  bool is_done_ = false;
  Status failure_;  // what a callback found; explains libcurl's own code
  int result_ = 0;  // CURLcode, once is_done_
};

}  // namespace partforge
