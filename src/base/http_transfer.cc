#include "base/http_transfer.h"

#include <curl/curl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <ctime>

#include "base/http_text.h"

namespace partforge {
namespace {

constexpr int64_t kHeaderBytesMax = int64_t{1} << 20;
constexpr int64_t kPollMs = 1000;
// A connection idle for longer is likely to be closed by the other side, perhaps just as we write
// to it.
constexpr long kConnectionAgeMaxS = 15;
constexpr long kSocketBufferBytes = 256 << 10;

// Keeps a write to a closed TLS connection from ending the process: libcurl protects plain sockets
// itself, OpenSSL does not. Works for this thread only; changes nothing when the signal is blocked
// or ignored already.
class SigpipeGuard {
 public:
  SigpipeGuard() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~SigpipeGuard() {
    if (!was_pending_) {
      const timespec no_wait{};
      sigtimedwait(&pipe_, nullptr, &no_wait);
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  SigpipeGuard(const SigpipeGuard&) = delete;
  SigpipeGuard& operator=(const SigpipeGuard&) = delete;

 private:
  sigset_t pipe_{}, before_{};
  bool was_pending_ = false;
};

// The query may hold a signature, so it is never shown.
std::string_view WithoutQuery(std::string_view url) {
  return url.substr(0, url.find_first_of("?#"));
}

curl_socket_t OpenSocket(void*, curlsocktype, struct curl_sockaddr* address) {
  return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

// Every option in one place and checked: one that an older libcurl does not know is a bug of the
// build, not of the request.
template <class T>
void SetOption(CURL* easy, CURLoption option, T value) {
  const CURLcode code = curl_easy_setopt(easy, option, value);
  PF_CHECK(code == CURLE_OK, fmt::format("libcurl refuses option {}: {}", static_cast<int>(option),
                                         curl_easy_strerror(code)));
}

}  // namespace

struct HttpTransfer::HeaderList {
  curl_slist* list = nullptr;
  ~HeaderList() { curl_slist_free_all(list); }
  void Append(const std::string& line) {
    curl_slist* const longer = curl_slist_append(list, line.c_str());
    PF_CHECK(longer != nullptr, "out of memory for a header");
    list = longer;
  }
};

struct HttpTransfer::Callbacks {
  static HttpTransfer& Of(void* user) { return *static_cast<HttpTransfer*>(user); }

  static size_t Header(char* data, size_t, size_t size, void* user) {
    HttpTransfer& transfer = Of(user);
    transfer.header_bytes_ += static_cast<int64_t>(size);
    if (transfer.header_bytes_ > kHeaderBytesMax) {
      transfer.failure_ = transfer.Broken(
          Code::kUnavailable, fmt::format("reply headers exceed {} bytes", kHeaderBytesMax));
      return 0;
    }
    transfer.TakeHeaderLine(std::string_view(data, size));
    return size;
  }

  static size_t Write(char* data, size_t, size_t size, void* user) {
    HttpTransfer& transfer = Of(user);
    const auto held_bytes = static_cast<int64_t>(transfer.buffer_.size() + size);
    if (held_bytes > transfer.buffer_bytes_max_) {
      if (transfer.overflow_ == Overflow::kFails) {
        transfer.failure_ = transfer.Broken(
            Code::kExhausted, fmt::format("reply exceeds {} bytes", transfer.buffer_bytes_max_));
        return 0;
      }
      if (!transfer.buffer_.empty()) {
        transfer.is_paused_ = true;
        return CURL_WRITEFUNC_PAUSE;
      }
    }
    transfer.buffer_.append(data, size);
    return size;
  }

  static size_t Read(char* data, size_t, size_t size, void* user) {
    HttpTransfer& transfer = Of(user);
    const HttpRequest& request = transfer.request_;
    if (transfer.has_sent_body_) return 0;
    auto room = std::span(reinterpret_cast<std::byte*>(data), size);
    if (request.body_size_bytes >= 0) {
      room = room.first(static_cast<size_t>(std::min(
          static_cast<int64_t>(size), request.body_size_bytes - transfer.sent_body_bytes_)));
    }
    const Result<size_t> count = room.empty() ? Result<size_t>(size_t{0}) : request.read_body(room);
    if (!count.ok()) {
      transfer.failure_ = count.status();
      return CURL_READFUNC_ABORT;
    }
    PF_CHECK(*count <= room.size(), "read_body gave more than its buffer holds");
    transfer.sent_body_bytes_ += static_cast<int64_t>(*count);
    if (*count == 0 && transfer.sent_body_bytes_ < request.body_size_bytes) {
      transfer.failure_ = transfer.Broken(
          Code::kInternal, fmt::format("body ended after {} of {} bytes", transfer.sent_body_bytes_,
                                       request.body_size_bytes));
      return CURL_READFUNC_ABORT;
    }
    transfer.has_sent_body_ = *count == 0 || transfer.sent_body_bytes_ == request.body_size_bytes;
    return *count;
  }

  static int Progress(void* user, curl_off_t, curl_off_t received, curl_off_t, curl_off_t sent) {
    HttpTransfer& transfer = Of(user);
    const int64_t moved =
        static_cast<int64_t>(received) + static_cast<int64_t>(sent) + transfer.header_bytes_;
    if (moved != transfer.moved_bytes_) transfer.last_activity_ms_ = MonotonicMs();
    transfer.moved_bytes_ = moved;
    return 0;
  }

  // When a kept connection breaks before the first byte of a reply, libcurl silently sends the
  // request again on a new one. The first may have taken effect, so only what changes nothing may
  // be repeated behind the caller's back.
  static int BeforeRequest(void* user, char*, char*, int, int) {
    HttpTransfer& transfer = Of(user);
    transfer.last_activity_ms_ = MonotonicMs();
    const bool may_send =
        transfer.start_count_ == 0 || transfer.IsRepeatable() || !transfer.IsSent();
    ++transfer.start_count_;
    return may_send ? CURL_PREREQFUNC_OK : CURL_PREREQFUNC_ABORT;
  }
};

HttpChannel::HttpChannel(std::string origin_text)
    : origin(std::move(origin_text)), multi(curl_multi_init()), easy(curl_easy_init()) {
  PF_CHECK(multi != nullptr && easy != nullptr, "libcurl gives no handle");
  curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, 1L);
  curl_multi_setopt(multi, CURLMOPT_PIPELINING, CURLPIPE_NOTHING);
}

HttpChannel::~HttpChannel() {
  const SigpipeGuard guard;  // a TLS connection says good-bye
  curl_multi_remove_handle(multi, easy);
  curl_easy_cleanup(easy);
  curl_multi_cleanup(multi);
}

HttpTransfer::HttpTransfer(std::unique_ptr<HttpChannel> channel, HttpRequest request,
                           int64_t buffer_bytes_max, Overflow overflow)
    : channel_(std::move(channel)),
      request_(std::move(request)),
      buffer_bytes_max_(buffer_bytes_max),
      overflow_(overflow),
      request_headers_(std::make_unique<HeaderList>()),
      error_text_(CURL_ERROR_SIZE, '\0') {}

HttpTransfer::~HttpTransfer() {
  channel_.reset();  // first: libcurl holds addresses of the other members
}

Status HttpTransfer::Begin() {
  const auto invalid = [&](std::string_view what) { return Broken(Code::kInvalidArgument, what); };
  if (request_.method.empty() || !IsOneLine(request_.method))
    return invalid("method is not one word");
  if (!IsOneLine(request_.url)) return invalid("URL holds a line break");
  request_headers_->Append("Expect:");  // never wait for "100 Continue"
  for (const auto& [name, value] : request_.headers) {
    if (name.empty() || !IsOneLine(name) || name.find(':') != std::string::npos) {
      return invalid(fmt::format("header name is not valid: {}", name));
    }
    if (!IsOneLine(value)) return invalid(fmt::format("header holds a line break: {}", name));
    // "name;" is how libcurl is told to send a header without a value.
    request_headers_->Append(value.empty() ? name + ";" : fmt::format("{}: {}", name, value));
  }

  CURL* const easy = channel_->easy;
  curl_easy_reset(easy);
  SetOption(easy, CURLOPT_URL, request_.url.c_str());
  SetOption(easy, CURLOPT_PROTOCOLS_STR, "http,https");
  SetOption(easy, CURLOPT_PATH_AS_IS, 1L);
  SetOption(easy, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  SetOption(easy, CURLOPT_HTTP09_ALLOWED, 0L);
  SetOption(easy, CURLOPT_FOLLOWLOCATION, 0L);
  SetOption(easy, CURLOPT_HTTP_CONTENT_DECODING, 0L);
  SetOption(easy, CURLOPT_PROXY, "");  // no proxy out of the environment
  SetOption(easy, CURLOPT_USERAGENT, "partforge");
  SetOption(easy, CURLOPT_HTTPHEADER, request_headers_->list);
  SetOption(easy, CURLOPT_NOSIGNAL, 1L);
  SetOption(easy, CURLOPT_TCP_NODELAY, 1L);
  SetOption(easy, CURLOPT_TCP_KEEPALIVE, 1L);
  SetOption(easy, CURLOPT_MAXAGE_CONN, kConnectionAgeMaxS);
  SetOption(easy, CURLOPT_BUFFERSIZE, kSocketBufferBytes);
  SetOption(easy, CURLOPT_UPLOAD_BUFFERSIZE, kSocketBufferBytes);
  SetOption(easy, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(request_.connect_timeout_ms));
  const TlsOptions& tls = request_.tls;
  SetOption(easy, CURLOPT_SSL_VERIFYPEER, tls.skips_verification ? 0L : 1L);
  SetOption(easy, CURLOPT_SSL_VERIFYHOST, tls.skips_verification ? 0L : 2L);
  if (!tls.ca_file.empty()) SetOption(easy, CURLOPT_CAINFO, tls.ca_file.c_str());
  if (!tls.certificate_file.empty()) {
    const std::string& key = tls.key_file.empty() ? tls.certificate_file : tls.key_file;
    SetOption(easy, CURLOPT_SSLCERT, tls.certificate_file.c_str());
    SetOption(easy, CURLOPT_SSLKEY, key.c_str());
  }
  SetOption(easy, CURLOPT_ERRORBUFFER, error_text_.data());
  SetOption(easy, CURLOPT_OPENSOCKETFUNCTION, &OpenSocket);
  SetOption(easy, CURLOPT_HEADERFUNCTION, &Callbacks::Header);
  SetOption(easy, CURLOPT_HEADERDATA, this);
  SetOption(easy, CURLOPT_WRITEFUNCTION, &Callbacks::Write);
  SetOption(easy, CURLOPT_WRITEDATA, this);
  SetOption(easy, CURLOPT_XFERINFOFUNCTION, &Callbacks::Progress);
  SetOption(easy, CURLOPT_XFERINFODATA, this);
  SetOption(easy, CURLOPT_NOPROGRESS, 0L);
  SetOption(easy, CURLOPT_PREREQFUNCTION, &Callbacks::BeforeRequest);
  SetOption(easy, CURLOPT_PREREQDATA, this);

  if (!request_.read_body) {
    request_.body_size_bytes = static_cast<int64_t>(request_.body.size());
    request_.read_body = [this](std::span<std::byte> room) -> Result<size_t> {
      const size_t count =
          std::min(room.size(), request_.body.size() - static_cast<size_t>(sent_body_bytes_));
      std::memcpy(room.data(), request_.body.data() + sent_body_bytes_, count);
      return count;
    };
  }
  // Without a body, methods that usually carry one must still say "Content-Length: 0".
  const bool has_body = request_.body_size_bytes != 0 || request_.method == "PUT" ||
                        request_.method == "POST" || request_.method == "PATCH";
  has_sent_body_ = request_.body_size_bytes == 0;
  if (has_body) {
    SetOption(easy, CURLOPT_UPLOAD, 1L);
    SetOption(easy, CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(request_.body_size_bytes));
    SetOption(easy, CURLOPT_READFUNCTION, &Callbacks::Read);
    SetOption(easy, CURLOPT_READDATA, this);
  } else if (request_.method == "HEAD") {
    SetOption(easy, CURLOPT_NOBODY, 1L);
  } else {
    SetOption(easy, CURLOPT_HTTPGET, 1L);
  }
  SetOption(easy, CURLOPT_CUSTOMREQUEST, request_.method.c_str());

  const CURLMcode code = curl_multi_add_handle(channel_->multi, easy);
  PF_CHECK(code == CURLM_OK, fmt::format("libcurl takes no handle: {}", curl_multi_strerror(code)));
  return {};
}

Status HttpTransfer::AwaitHeaders(const Context& ctx) {
  // A server that has answered with an error may leave the rest of the body unread.
  PF_TRY(Drive(ctx, [&] { return has_headers_ && (has_sent_body_ || status_ >= 300); }));
  if (!has_headers_) return Failure(is_done_ && result_ != CURLE_OK ? result_ : CURLE_GOT_NOTHING);
  // From here on the caller's body may be gone.
  request_.read_body = [](std::span<std::byte>) -> Result<size_t> {
    return Status(Code::kInternal, "request body read after the reply's headers");
  };
  return {};
}

Result<std::optional<std::string>> HttpTransfer::NextPiece(const Context& ctx) {
  PF_TRY(Drive(ctx, [&] { return !buffer_.empty(); }));
  if (!buffer_.empty()) return std::optional(std::exchange(buffer_, {}));
  if (result_ == CURLE_OK) return std::optional<std::string>();
  // The reply's status is known, so what broke is only our reading of the rest.
  Status failure = Failure(result_);
  return failure.code() == Code::kUnknownOutcome ? std::move(failure).As(Code::kUnavailable)
                                                 : failure;
}

Result<std::string> HttpTransfer::AwaitBody(const Context& ctx) {
  PF_TRY(Drive(ctx, [] { return false; }));
  if (result_ != CURLE_OK) return Failure(result_);
  if (!has_headers_)
    return Failure(CURLE_GOT_NOTHING);  // libcurl takes headers that break off for a reply
  return std::exchange(buffer_, {});
}

std::unique_ptr<HttpChannel> HttpTransfer::TakeChannel() {
  if (channel_ == nullptr || !is_done_ || result_ != CURLE_OK) return nullptr;
  curl_multi_remove_handle(channel_->multi, channel_->easy);
  curl_easy_reset(channel_->easy);  // forgets the addresses of this object
  return std::move(channel_);
}

Status HttpTransfer::Drive(const Context& ctx, const std::function<bool()>& has_enough) {
  CURLM* const multi = channel_->multi;
  const std::stop_callback wake(ctx.stop, [multi] { curl_multi_wakeup(multi); });
  last_activity_ms_ = MonotonicMs();
  while (!has_enough() && !is_done_) {
    if (ctx.IsStopping()) return Broken(Code::kCancelled, "stopped");
    if (is_paused_) {
      is_paused_ = false;
      curl_easy_pause(channel_->easy, CURLPAUSE_CONT);
    }
    Perform();
    if (has_enough() || is_done_) break;
    int64_t wait_ms = kPollMs;
    // Until the request starts, the limit is that of the connection.
    if (request_.idle_timeout_ms > 0 && start_count_ > 0) {
      const int64_t left_ms = last_activity_ms_ + request_.idle_timeout_ms - MonotonicMs();
      if (left_ms <= 0) {
        const Code code = IsSent() && !IsRepeatable() ? Code::kUnknownOutcome : Code::kUnavailable;
        return Broken(code, fmt::format("no byte moved for {} ms", request_.idle_timeout_ms));
      }
      wait_ms = std::min(wait_ms, left_ms);
    }
    curl_multi_poll(multi, nullptr, 0, static_cast<int>(wait_ms), nullptr);
  }
  return {};
}

void HttpTransfer::Perform() {
  const SigpipeGuard guard;
  int running = 0;
  const CURLMcode code = curl_multi_perform(channel_->multi, &running);
  PF_CHECK(code == CURLM_OK, fmt::format("libcurl fails: {}", curl_multi_strerror(code)));
  int left = 0;
  while (const CURLMsg* const message = curl_multi_info_read(channel_->multi, &left)) {
    if (message->msg != CURLMSG_DONE) continue;
    is_done_ = true;
    result_ = message->data.result;
  }
}

Status HttpTransfer::Failure(int curl_code) const {
  if (!failure_.ok()) {
    // Too large a reply to a request that changes something: the caller never sees the status, so
    // it cannot know.
    const bool is_lost =
        failure_.code() == Code::kExhausted || failure_.code() == Code::kUnavailable;
    return is_lost && !IsRepeatable() && has_headers_ ? Status(failure_).As(Code::kUnknownOutcome)
                                                      : failure_;
  }
  const auto code = static_cast<CURLcode>(curl_code);
  const std::string_view text = error_text_.c_str();
  const std::string what(text.empty() ? curl_easy_strerror(code) : text);
  if (IsSent()) return Broken(IsRepeatable() ? Code::kUnavailable : Code::kUnknownOutcome, what);
  switch (code) {
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CERTPROBLEM:  // a certificate or key of this side that cannot be used
      return Broken(Code::kInvalidArgument, what);
    case CURLE_PEER_FAILED_VERIFICATION:
      return Broken(Code::kRefused, what);
    case CURLE_OUT_OF_MEMORY:
      return Broken(Code::kExhausted, what);
    default:
      return Broken(Code::kUnavailable, what);
  }
}

Status HttpTransfer::Broken(Code code, std::string_view what) const {
  return Status(code, fmt::format("{} {}: {}", request_.method, WithoutQuery(request_.url), what));
}

bool HttpTransfer::IsSent() const {
  long request_bytes = 0;
  curl_easy_getinfo(channel_->easy, CURLINFO_REQUEST_SIZE, &request_bytes);
  return request_bytes > 0 || has_headers_;
}

bool HttpTransfer::IsRepeatable() const {
  return request_.method == "GET" || request_.method == "HEAD";
}

void HttpTransfer::TakeHeaderLine(std::string_view line) {
  if (has_headers_) return;  // trailers of a chunked body
  if (line.starts_with("HTTP/")) {
    headers_.clear();
    status_ = 0;
    const size_t blank = line.find(' ');
    for (size_t i = blank + 1; blank != std::string_view::npos && i < line.size() && i < blank + 4;
         ++i) {
      if (line[i] < '0' || line[i] > '9') break;
      status_ = status_ * 10 + (line[i] - '0');
    }
    return;
  }
  if (TrimBlanks(line).empty()) {
    has_headers_ = status_ >= 200;  // 1xx only announces the real one
    return;
  }
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos) return;
  const std::string_view value = TrimBlanks(line.substr(colon + 1));
  const auto [entry, is_new] =
      headers_.emplace(LowerCase(TrimBlanks(line.substr(0, colon))), value);
  if (!is_new) entry->second.append(", ").append(value);  // RFC 9110 §5.3
}

}  // namespace partforge
