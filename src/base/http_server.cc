#include "base/http_server.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <httplib.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <future>
#include <mutex>
#include <semaphore>
#include <thread>

#include "base/clock.h"
#include "base/demand_threads.h"
#include "base/http_text.h"

namespace partforge {
namespace {

constexpr size_t kConnectionsMax = 1000;
constexpr int kBacklog = 512;
constexpr int kKeepAliveMs = 60'000;
constexpr int kLingerMs = 2'000;
constexpr int64_t kLingerBytesMax = int64_t{64} << 20;
constexpr size_t kReadBufferBytes = 64 << 10;
// Headers that httplib would act upon by itself (decompress, cut ranges, parse forms) travel to our
// handler under this prefix, which no header on the wire can have.
constexpr std::string_view kHeldPrefix = "\x01";
constexpr std::string_view kHeldHeaders[] = {"Content-Type", "Content-Encoding", "Accept-Encoding",
                                             "Range"};
constexpr std::string_view kAddedHeaders[] = {"REMOTE_ADDR", "REMOTE_PORT", "LOCAL_ADDR",
                                              "LOCAL_PORT"};

enum class Ready { kYes, kTimeout, kBroken };

Ready WaitFor(int fd, short events, int64_t timeout_ms) {
  const int64_t end_ms = MonotonicMs() + timeout_ms;
  while (true) {
    pollfd wait{.fd = fd, .events = events, .revents = 0};
    const int64_t left_ms = std::clamp<int64_t>(end_ms - MonotonicMs(), 0, 1'000'000'000);
    const int count = poll(&wait, 1, static_cast<int>(left_ms));
    if (count > 0) return Ready::kYes;
    if (count == 0) return Ready::kTimeout;
    if (errno != EINTR) return Ready::kBroken;
  }
}

// How the body of a request is framed, judged before httplib looks at it.
struct Framing {
  enum class Kind { kNone, kLength, kChunked, kInvalid };
  Kind kind = Kind::kNone;
  int64_t size_bytes = 0;
};

Framing FramingOf(const httplib::Headers& headers) {
  const auto lengths = headers.equal_range("Content-Length");
  const auto encodings = headers.equal_range("Transfer-Encoding");
  const auto length_count = std::distance(lengths.first, lengths.second);
  const auto encoding_count = std::distance(encodings.first, encodings.second);
  if (length_count + encoding_count == 0) return {};
  // Both at once, or one twice, is how requests are smuggled (RFC 9112 §6.3).
  if (length_count + encoding_count > 1) return {.kind = Framing::Kind::kInvalid};
  if (encoding_count == 1) {
    const bool is_chunked = LowerCase(encodings.first->second) == "chunked";
    return {.kind = is_chunked ? Framing::Kind::kChunked : Framing::Kind::kInvalid};
  }
  Framing framing{.kind = Framing::Kind::kLength};
  const std::string& text = lengths.first->second;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), framing.size_bytes);
  if (error != std::errc() || end != text.data() + text.size() || framing.size_bytes < 0) {
    framing.kind = Framing::Kind::kInvalid;
  }
  return framing;
}

// One accepted connection: the byte stream httplib reads and writes, and what we know about the
// request on it. One thread at a time, but for Interrupt.
class Connection final : public httplib::Stream {
 public:
  Connection(int fd, int64_t idle_timeout_ms)
      : fd_(fd), idle_timeout_ms_(idle_timeout_ms), buffer_(kReadBufferBytes, '\0') {}

  // What the exchange in progress has come to; reset before each request.
  Framing framing;
  bool has_read_body = false;
  std::string path;  // decoded, without the query

  // Whether the client may have sent bytes that nobody read and the next request must not be.
  bool has_unread_body() const {
    const bool is_empty = framing.kind == Framing::Kind::kNone ||
                          (framing.kind == Framing::Kind::kLength && framing.size_bytes == 0);
    return !is_empty && !has_read_body;
  }
  bool is_cut() const { return is_cut_; }
  // From now on nothing reaches the client: what is half sent stays half sent.
  void Cut() { is_cut_ = true; }
  bool has_buffered() const { return begin_ < end_; }
  // Wakes a thread that waits on this connection. Replies in progress still go out unless the
  // client takes nothing.
  void Interrupt() {
    is_interrupted_ = true;
    shutdown(fd_, is_write_blocked_ ? SHUT_RDWR : SHUT_RD);
  }

  // Sends what is left, then reads away what the client still sends, so that closing does not
  // destroy the reply.
  void Linger() {
    shutdown(fd_, SHUT_WR);
    const int64_t end_ms = MonotonicMs() + kLingerMs;
    for (int64_t total = 0; total < kLingerBytesMax && !is_interrupted_;) {
      if (WaitFor(fd_, POLLIN, end_ms - MonotonicMs()) != Ready::kYes) return;
      const ssize_t count = recv(fd_, buffer_.data(), buffer_.size(), 0);
      if (count <= 0) return;
      total += count;
    }
  }

  bool is_readable() const override {
    return has_buffered() || WaitFor(fd_, POLLIN, idle_timeout_ms_) == Ready::kYes;
  }
  bool is_writable() const override { return !is_cut_; }

  ssize_t read(char* data, size_t size) override {
    if (is_cut_) return -1;
    if (!has_buffered()) {
      if (WaitFor(fd_, POLLIN, idle_timeout_ms_) != Ready::kYes) return -1;
      ssize_t count = 0;
      do {
        count = recv(fd_, buffer_.data(), buffer_.size(), 0);
      } while (count < 0 && errno == EINTR);
      if (count <= 0) return count;
      begin_ = 0;
      end_ = static_cast<size_t>(count);
    }
    const size_t count = std::min(size, end_ - begin_);
    std::copy_n(buffer_.data() + begin_, count, data);
    begin_ += count;
    return static_cast<ssize_t>(count);
  }

  ssize_t write(const char* data, size_t size) override {
    size_t sent = 0;
    while (sent < size) {
      if (is_cut_) return -1;
      const ssize_t count = send(fd_, data + sent, size - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (count >= 0) {
        sent += static_cast<size_t>(count);
      } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
        is_write_blocked_ = true;
        const bool goes_on =
            !is_interrupted_ && WaitFor(fd_, POLLOUT, idle_timeout_ms_) == Ready::kYes;
        is_write_blocked_ = false;
        if (!goes_on) Cut();
      } else if (errno != EINTR) {
        Cut();
      }
    }
    return static_cast<ssize_t>(size);
  }

  void get_remote_ip_and_port(std::string& ip, int& port) const override {
    ip = "client";  // nobody asks
    port = 0;
  }
  void get_local_ip_and_port(std::string& ip, int& port) const override {
    get_remote_ip_and_port(ip, port);
  }
  // httplib answers 500 when this is beyond what select can watch, though nobody selects on it.
  socket_t socket() const override { return 0; }
  int fd() const { return fd_; }

 private:
  const int fd_;
  const int64_t idle_timeout_ms_;
  std::string buffer_;
  size_t begin_ = 0, end_ = 0;  // the unread part of buffer_
  bool is_cut_ = false;
  std::atomic<bool> is_interrupted_ = false;  // set once by Interrupt
  std::atomic<bool> is_write_blocked_ =
      false;  // read by Interrupt; a stale value only delays the stop by one wait
};

}  // namespace

std::string HttpServerRequest::Query(std::string_view name) const {
  const auto found = std::find_if(query.begin(), query.end(),
                                  [&](const auto& pair) { return pair.first == name; });
  return found == query.end() ? std::string() : found->second;
}

Result<std::string> HttpServerRequest::ReadBody(size_t size_bytes_max) const {
  std::string body;
  bool is_too_long = false;
  const bool is_whole = read_body([&](std::string_view piece) {
    is_too_long = body.size() + piece.size() > size_bytes_max;
    if (!is_too_long) body.append(piece);
    return !is_too_long;
  });
  if (is_too_long) {
    return Status(Code::kInvalidArgument,
                  fmt::format("{} {}: body exceeds {} bytes", method, path, size_bytes_max));
  }
  if (!is_whole)
    return Status(Code::kUnavailable,
                  fmt::format("{} {}: body broke off after {} bytes", method, path, body.size()));
  return body;
}

std::string HttpServerRequest::ReadWholeBody(size_t size_bytes_max) const {
  Result<std::string> body = ReadBody(size_bytes_max);
  return body.ok() ? std::move(body).value() : std::string();
}

// httplib parses requests and writes replies; connections are ours, because httplib polls idle ones
// a hundred times a second, keeps Stop waiting for them, and lets idle ones take every thread
// (dependencies §4).
struct HttpServer::Impl final : public httplib::Server {
  Impl(HttpServerOptions server_options, HttpServer::Handler server_handler);
  ~Impl() override { StopAll(); }

  Status Listen();
  void StopAll();

  const HttpServerOptions options;
  const HttpServer::Handler handler;
  int bound_port = 0;

 private:
  class Queue;
  struct Open {
    bool is_idle = false;
    int64_t idle_since_ms = 0;
  };

  bool process_and_close_socket(socket_t fd) override;
  void Serve(Connection& connection);
  bool AwaitRequest(Connection& connection, bool is_first);
  // Of these two the caller holds mutex_.
  bool IsCrowded() const { return open_.size() + waiting_count_ > kConnectionsMax; }
  void RetireIdle();
  void PrepareRequest(Connection& connection, httplib::Request& request);
  void Answer(const httplib::Request& request, httplib::Response& response,
              const httplib::ContentReader* reader);
  HttpServerReply Call(Connection& connection, const httplib::Request& request,
                       const httplib::ContentReader* reader);
  void TakeReply(Connection& connection, HttpServerReply reply, httplib::Response& response,
                 bool is_head);

  std::thread listener_;
  std::counting_semaphore<> turns_;
  std::mutex mutex_;
  bool is_stopping_ = false;          // guarded by mutex_
  size_t waiting_count_ = 0;          // accepted, no thread yet; guarded by mutex_
  std::map<Connection*, Open> open_;  // guarded by mutex_
  std::map<const httplib::Request*, Connection*>
      exchanges_;  // whose request is it; guarded by mutex_
};

// The pool of httplib has a fixed size: as many idle connections as threads would leave every
// further client waiting.
class HttpServer::Impl::Queue final : public httplib::TaskQueue {
 public:
  Queue(Impl& server, const sigset_t& signals)
      : server_(server), threads_(kConnectionsMax, signals) {}

  void enqueue(std::function<void()> task) override {
    {
      const std::lock_guard lock(server_.mutex_);
      ++server_.waiting_count_;
      if (server_.IsCrowded()) server_.RetireIdle();
    }
    threads_.Add(std::move(task));
  }
  void shutdown() override { threads_.Finish(); }

 private:
  Impl& server_;
  DemandThreads threads_;
};

HttpServer::Impl::Impl(HttpServerOptions server_options, HttpServer::Handler server_handler)
    : options(std::move(server_options)),
      handler(std::move(server_handler)),
      turns_(options.threads) {
  // PrepareRequest sets every path to "/", so a pattern never meets foreign text (std::regex
  // recurses a level a byte).
  const auto with_body = [this](const httplib::Request& request, httplib::Response& response,
                                const httplib::ContentReader& reader) {
    Answer(request, response, &reader);
  };
  const auto without_body = [this](const httplib::Request& request, httplib::Response& response) {
    Answer(request, response, nullptr);
  };
  Get("/", without_body);  // and HEAD
  Options("/", without_body);
  Post("/", with_body);
  Put("/", with_body);
  Patch("/", with_body);
  Delete("/", with_body);
  set_socket_options([](socket_t fd) {
    // Not SO_REUSEPORT, the library's default: two servers would share a port, each with half of
    // the requests.
    const int on = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  });
  set_tcp_nodelay(true);
  set_keep_alive_max_count(1'000'000);
  set_keep_alive_timeout(kKeepAliveMs / 1000);
  set_payload_max_length(static_cast<size_t>(options.body_bytes_max));
}

Status HttpServer::Impl::Listen() {
  const std::string address = fmt::format("{}:{}", options.host, options.port);
  if (options.port == 0) {
    bound_port = bind_to_any_port(options.host);
  } else {
    bound_port = bind_to_port(options.host, options.port) ? options.port : -1;
  }
  if (bound_port <= 0)
    return Status(Code::kUnavailable, fmt::format("address cannot be bound: {}", address));
  // The library's backlog of 5 lets a burst of clients wait a second each, or be reset.
  ::listen(svr_sock_, kBacklog);
  // httplib forgets a stop that comes before its loop runs; it makes the queue at the start of that
  // loop.
  const auto running = std::make_shared<std::promise<void>>();
  listener_ = std::thread([this, running] {
    // An interrupted accept would end httplib's loop for good.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    new_task_queue = [this, running, before] {
      running->set_value();
      return std::make_unique<Queue>(*this, before).release();  // httplib owns it
    };
    listen_after_bind();
  });
  running->get_future().wait();
  return {};
}

void HttpServer::Impl::StopAll() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
    for (const auto& [connection, state] : open_) connection->Interrupt();
  }
  stop();
  if (listener_.joinable()) listener_.join();  // joins the threads of the pool too
}

bool HttpServer::Impl::process_and_close_socket(socket_t fd) {
  fcntl(fd, F_SETFD, FD_CLOEXEC);
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  Connection connection(fd, options.idle_timeout_ms);
  {
    const std::lock_guard lock(mutex_);
    --waiting_count_;
    open_[&connection] = {};
    if (is_stopping_) connection.Interrupt();
  }
  Serve(connection);
  {
    const std::lock_guard lock(mutex_);
    open_.erase(&connection);
  }
  close(fd);
  return true;
}

void HttpServer::Impl::Serve(Connection& connection) {
  for (bool is_first = true; AwaitRequest(connection, is_first); is_first = false) {
    connection.framing = {};
    connection.has_read_body = false;
    bool must_close = false;
    {
      const std::lock_guard lock(mutex_);
      must_close = is_stopping_ || IsCrowded();
    }
    const httplib::Request* key = nullptr;
    bool is_closed_by_client = false;
    const bool is_answered = process_request(connection, must_close, is_closed_by_client,
                                             [&](httplib::Request& request) {
                                               key = &request;
                                               {
                                                 const std::lock_guard lock(mutex_);
                                                 exchanges_[key] = &connection;
                                               }
                                               PrepareRequest(connection, request);
                                             });
    {
      const std::lock_guard lock(mutex_);
      exchanges_.erase(key);
    }
    if (connection.is_cut()) return;
    if (!is_answered || connection.has_unread_body() || is_closed_by_client || must_close) {
      return connection.Linger();
    }
  }
}

// Waits for the first byte of the next request; false when the connection has served its time.
bool HttpServer::Impl::AwaitRequest(Connection& connection, bool is_first) {
  {
    const std::lock_guard lock(mutex_);
    if (is_stopping_ || (!is_first && IsCrowded())) return false;
    open_[&connection] = {.is_idle = true, .idle_since_ms = MonotonicMs()};
  }
  const bool is_ready =
      connection.has_buffered() ||
      WaitFor(connection.fd(), POLLIN, std::min<int64_t>(kKeepAliveMs, options.idle_timeout_ms)) ==
          Ready::kYes;
  const std::lock_guard lock(mutex_);
  open_[&connection].is_idle = false;
  return is_ready;
}

void HttpServer::Impl::RetireIdle() {
  const auto longest =
      std::min_element(open_.begin(), open_.end(), [](const auto& a, const auto& b) {
        return std::pair(!a.second.is_idle, a.second.idle_since_ms) <
               std::pair(!b.second.is_idle, b.second.idle_since_ms);
      });
  if (longest == open_.end() || !longest->second.is_idle) return;
  longest->second.is_idle = false;
  longest->first->Interrupt();
}

// Takes from httplib what it would do by itself, and tells it how the body is framed in terms it
// gets right.
void HttpServer::Impl::PrepareRequest(Connection& connection, httplib::Request& request) {
  connection.framing = FramingOf(request.headers);
  connection.path =
      DecodePath(std::string_view(request.target).substr(0, request.target.find('?')));
  request.path = "/";
  request.ranges.clear();
  for (const std::string_view name : kAddedHeaders) request.headers.erase(std::string(name));
  for (const std::string_view name : kHeldHeaders) {
    const auto found = request.headers.find(std::string(name));
    if (found == request.headers.end()) continue;
    request.headers.emplace(std::string(kHeldPrefix) + std::string(name), found->second);
    request.headers.erase(std::string(name));
  }
  if (connection.framing.kind == Framing::Kind::kNone ||
      connection.framing.kind == Framing::Kind::kInvalid) {
    // Without a length httplib reads until the connection ends.
    request.headers.erase("Content-Length");
    request.headers.erase("Transfer-Encoding");
    request.headers.emplace("Content-Length", "0");
  }
}

void HttpServer::Impl::Answer(const httplib::Request& request, httplib::Response& response,
                              const httplib::ContentReader* reader) {
  Connection* connection = nullptr;
  {
    const std::lock_guard lock(mutex_);
    connection = exchanges_.at(&request);
  }
  TakeReply(*connection, Call(*connection, request, reader), response, request.method == "HEAD");
}

HttpServerReply HttpServer::Impl::Call(Connection& connection, const httplib::Request& request,
                                       const httplib::ContentReader* reader) {
  const Framing& framing = connection.framing;
  if (framing.kind == Framing::Kind::kInvalid)
    return {.status = 400, .body = "the length of the body is not clear\n"};
  if (framing.size_bytes > options.body_bytes_max) {
    return {.status = 413,
            .body = fmt::format("the body exceeds {} bytes\n", options.body_bytes_max)};
  }
  const std::string& target = request.target;
  HttpServerRequest ours{.method = request.method, .path = connection.path, .target = target};
  if (const size_t mark = target.find('?'); mark != std::string::npos) {
    ours.query = ParseQuery(std::string_view(target).substr(mark + 1));
  }
  for (const auto& [name, value] : request.headers) {
    if (framing.kind == Framing::Kind::kNone && LowerCase(name) == "content-length")
      continue;  // PrepareRequest's
    const auto [entry, is_new] = ours.headers.emplace(
        LowerCase(name.starts_with(kHeldPrefix) ? name.substr(kHeldPrefix.size()) : name), value);
    if (!is_new) entry->second.append(", ").append(value);
  }
  ours.read_body = [&](const std::function<bool(std::string_view)>& take) {
    if (framing.kind == Framing::Kind::kNone) return true;
    if (reader == nullptr) return false;  // GET, HEAD and OPTIONS with a body
    int64_t size_bytes = 0;
    const bool is_whole = (*reader)([&](const char* data, size_t size) {
      size_bytes += static_cast<int64_t>(size);
      return size_bytes <= options.body_bytes_max && take(std::string_view(data, size));
    });
    connection.has_read_body = is_whole;
    return is_whole;
  };
  turns_.acquire();
  const std::unique_ptr<std::counting_semaphore<>, void (*)(std::counting_semaphore<>*)> turn(
      &turns_, [](std::counting_semaphore<>* turns) { turns->release(); });  // also when it throws
  return handler(ours);
}

void HttpServer::Impl::TakeReply(Connection& connection, HttpServerReply reply,
                                 httplib::Response& response, bool is_head) {
  if (reply.drops_connection) return connection.Cut();
  response.status = reply.status;
  // Serve closes the connection; a client that is not told sends its next request into the closing,
  // and cannot know what became of it.
  if (connection.has_unread_body()) response.set_header("Connection", "close");
  const bool has_content = !reply.body.empty() || reply.next_chunk;
  for (const auto& [name, value] : reply.headers) {
    const std::string lower = LowerCase(name);
    // httplib sets the length itself; only HEAD may tell one of a body that is not there.
    const bool is_framing =
        lower == "transfer-encoding" || (lower == "content-length" && (!is_head || has_content));
    if (!is_framing && lower != "content-type") response.set_header(name, value);
    if (lower == "content-type") reply.content_type = value;
  }
  if (reply.next_chunk) {
    response.set_chunked_content_provider(
        reply.content_type,
        [&connection, next = std::move(reply.next_chunk)](size_t, httplib::DataSink& sink) {
          const Result<std::optional<std::string>> chunk = next();
          if (!chunk.ok()) {
            connection.Cut();
            return false;
          }
          if (!chunk->has_value()) {
            sink.done();
            return true;
          }
          // An empty write would end the body without its final chunk.
          return (*chunk)->empty() || sink.write((*chunk)->data(), (*chunk)->size());
        });
    return;
  }
  if (has_content || is_head) response.set_header("Content-Type", reply.content_type);
  response.body = std::move(reply.body);
}

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpServer::~HttpServer() = default;

Result<std::unique_ptr<HttpServer>> HttpServer::Start(HttpServerOptions options, Handler handler) {
  auto impl = std::make_unique<Impl>(std::move(options), std::move(handler));
  PF_TRY(impl->Listen());
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

int HttpServer::port() const {
  return impl_->bound_port;
}
void HttpServer::Stop() {
  impl_->StopAll();
}

}  // namespace partforge
