#include "base/http_client.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <mutex>
#include <thread>

#include "base/files.h"
#include "base/http_server.h"
#include "base/process.h"
#include "testing/test_world.h"

namespace partforge {
namespace {

std::span<const std::byte> Bytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}

// A byte that tells where it stands, so that lost or doubled pieces show.
char ByteAt(int64_t position) {
  return static_cast<char>((position * 2654435761) >> 13);
}

class HttpPair : public ::testing::Test {
 protected:
  void Serve(HttpServer::Handler handler, HttpServerOptions options = {}) {
    auto started = HttpServer::Start(std::move(options), std::move(handler));
    ASSERT_TRUE(started.ok()) << started.status().ToString();
    server_ = std::move(started).value();
  }
  std::string Url(std::string_view path) const {
    return "http://127.0.0.1:" + std::to_string(server_->port()) + std::string(path);
  }

  testing::TestWorld world_;
  Context ctx_ = world_.context();
  HttpClient client_;
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpPair, RequestAndReplyArriveAsSent) {
  Serve([](const HttpServerRequest& request) {
    HttpServerReply reply{.status = 207, .headers = {{"X-Echo", request.headers.at("x-ask")}}};
    reply.body = request.method + " " + request.target + " " + request.ReadWholeBody(100);
    return reply;
  });
  for (const std::string method : {"POST", "PUT", "PATCH", "DELETE"}) {
    const auto reply = client_.Send(ctx_, {.method = method,
                                           .url = Url("/a/../b%2Fc?q=1"),
                                           .headers = {{"X-Ask", "why"}},
                                           .body = Bytes("hello")});
    ASSERT_TRUE(reply.ok()) << reply.status().ToString();
    EXPECT_EQ(reply->status, 207);
    EXPECT_EQ(reply->headers.at("x-echo"), "why");
    EXPECT_EQ(reply->body, method + " /a/../b%2Fc?q=1 hello");
  }
}

TEST_F(HttpPair, RequestsWithoutBodyAreAnswered) {
  Serve([](const HttpServerRequest& request) {
    return HttpServerReply{.body = request.method + ":" + request.ReadWholeBody(100)};
  });
  for (const std::string method : {"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}) {
    const auto reply = client_.Send(ctx_, {.method = method, .url = Url("/")});
    ASSERT_TRUE(reply.ok()) << reply.status().ToString();
    EXPECT_EQ(reply->body, method + ":");
  }
}

TEST_F(HttpPair, HeadTellsTheLengthWithoutABody) {
  Serve([](const HttpServerRequest&) {
    return HttpServerReply{.headers = {{"Content-Length", "12345"}, {"ETag", "\"x\""}}};
  });
  for (int i = 0; i < 2; ++i) {  // twice: the first must leave the connection usable
    const auto reply = client_.Send(ctx_, {.method = "HEAD", .url = Url("/")});
    ASSERT_TRUE(reply.ok()) << reply.status().ToString();
    EXPECT_EQ(reply->headers.at("content-length"), "12345");
    EXPECT_EQ(reply->headers.at("etag"), "\"x\"");
    EXPECT_EQ(reply->body, "");
  }
}

TEST_F(HttpPair, RedirectsAndErrorsAreReplies) {
  Serve([](const HttpServerRequest& request) {
    return HttpServerReply{.status = request.path == "/moved" ? 307 : 503,
                           .headers = {{"Location", "/other"}}};
  });
  EXPECT_EQ(client_.Send(ctx_, {.url = Url("/moved")}).value().status, 307);
  EXPECT_EQ(client_.Send(ctx_, {.url = Url("/broken")}).value().status, 503);
}

TEST_F(HttpPair, EncodedBodiesStayEncoded) {
  Serve([](const HttpServerRequest& request) {
    HttpServerReply reply{.headers = {{"Content-Encoding", "gzip"}}};
    reply.body = request.headers.at("content-encoding") + "|" + request.ReadWholeBody(100);
    return reply;
  });
  const auto reply =
      client_.Send(ctx_, {.method = "PUT",
                          .url = Url("/"),
                          .headers = {{"Content-Encoding", "gzip"}, {"Accept-Encoding", "gzip"}},
                          .body = Bytes("not really gzip")});
  ASSERT_TRUE(reply.ok()) << reply.status().ToString();
  EXPECT_EQ(reply->body, "gzip|not really gzip");
}

TEST_F(HttpPair, LargeBodyStreamsUpInBothFramings) {
  constexpr int64_t kSizeBytes = (int64_t{40} << 20) + 17;
  std::atomic<int64_t> piece_bytes_max = 0;
  Serve([&](const HttpServerRequest& request) {
    int64_t position = 0;
    bool is_equal = true;
    const bool is_whole = request.read_body([&](std::string_view piece) {
      piece_bytes_max = std::max<int64_t>(piece_bytes_max, static_cast<int64_t>(piece.size()));
      for (const char c : piece) is_equal = is_equal && c == ByteAt(position++);
      return true;
    });
    const bool is_chunked = request.headers.contains("transfer-encoding");
    return HttpServerReply{.body = std::to_string(position) +
                                   (is_equal && is_whole ? " equal" : " broken") +
                                   (is_chunked ? " chunked" : " sized")};
  });
  for (const bool is_sized : {true, false}) {
    int64_t position = 0;
    const auto reply = client_.Send(
        ctx_, {.method = "PUT",
               .url = Url("/"),
               .read_body = [&](std::span<std::byte> room) -> Result<size_t> {
                 const auto count =
                     std::min<int64_t>(static_cast<int64_t>(room.size()), kSizeBytes - position);
                 for (int64_t i = 0; i < count; ++i) {
                   room[static_cast<size_t>(i)] = static_cast<std::byte>(ByteAt(position++));
                 }
                 return static_cast<size_t>(count);
               },
               .body_size_bytes = is_sized ? kSizeBytes : -1});
    ASSERT_TRUE(reply.ok()) << reply.status().ToString();
    EXPECT_EQ(reply->body,
              std::to_string(kSizeBytes) + " equal" + (is_sized ? " sized" : " chunked"));
  }
  EXPECT_LE(piece_bytes_max.load(), 1 << 20);
}

TEST_F(HttpPair, LargeBodyIsPulledInBoundedPieces) {
  constexpr int64_t kSizeBytes = int64_t{12} << 20;
  Serve([&](const HttpServerRequest&) {
    HttpServerReply reply;
    reply.next_chunk = [position = int64_t{0}]() mutable -> Result<std::optional<std::string>> {
      if (position == kSizeBytes) return std::optional<std::string>();
      std::string chunk;  // an empty one now and then: it must not end the body
      const int64_t size_bytes =
          position % 3 == 0 ? 1 : std::min<int64_t>(3'000'001, kSizeBytes - position);
      for (int64_t i = 0; i < size_bytes; ++i) chunk += ByteAt(position++);
      return std::optional(std::move(chunk));
    };
    return reply;
  });
  auto body = client_.Open(ctx_, {.url = Url("/")});
  ASSERT_TRUE(body.ok()) << body.status().ToString();
  EXPECT_EQ((*body)->status(), 200);
  EXPECT_EQ((*body)->headers().at("transfer-encoding"), "chunked");
  int64_t position = 0;
  while (true) {
    const auto piece = (*body)->Next(ctx_);
    ASSERT_TRUE(piece.ok()) << piece.status().ToString();
    if (!piece->has_value()) break;
    ASSERT_LE((*piece)->size(), size_t{1} << 20);
    for (const char c : **piece) ASSERT_EQ(c, ByteAt(position++));
  }
  EXPECT_EQ(position, kSizeBytes);
  EXPECT_FALSE((*body)->Next(ctx_).value().has_value());
}

TEST_F(HttpPair, ChunksMayBeEmpty) {
  Serve([](const HttpServerRequest&) {
    HttpServerReply reply;
    reply.next_chunk = [count = 0]() mutable -> Result<std::optional<std::string>> {
      ++count;
      if (count == 5) return std::optional<std::string>();
      return std::optional<std::string>(count % 2 == 0 ? "" : "x");
    };
    return reply;
  });
  EXPECT_EQ(client_.Send(ctx_, {.url = Url("/")}).value().body, "xx");
}

TEST_F(HttpPair, ReplyCutInTheMiddleIsNotAnEnd) {
  Serve([](const HttpServerRequest&) {
    HttpServerReply reply;
    reply.next_chunk = [count = 0]() mutable -> Result<std::optional<std::string>> {
      if (++count > 3) return Status(Code::kInternal, "engine died");
      return std::optional<std::string>("piece");
    };
    return reply;
  });
  auto body = client_.Open(ctx_, {.method = "POST", .url = Url("/"), .body = Bytes("SELECT 1")});
  ASSERT_TRUE(body.ok()) << body.status().ToString();
  std::string received;
  Result<std::optional<std::string>> piece = std::optional<std::string>();
  for (piece = (*body)->Next(ctx_); piece.ok() && piece->has_value(); piece = (*body)->Next(ctx_))
    received += **piece;
  ASSERT_FALSE(piece.ok());
  EXPECT_EQ(piece.status().code(), Code::kUnavailable);
  EXPECT_EQ(received, "piecepiecepiece");
  EXPECT_EQ((*body)->Next(ctx_).status().code(), Code::kUnavailable);

  EXPECT_EQ(client_.Send(ctx_, {.url = Url("/")}).status().code(), Code::kUnavailable);
  EXPECT_EQ(client_.Send(ctx_, {.method = "POST", .url = Url("/")}).status().code(),
            Code::kUnknownOutcome);
}

TEST_F(HttpPair, LostReplyOfAChangeIsAnUnknownOutcomeAndNeverRepeated) {
  std::atomic<int> change_count = 0;
  Serve([&](const HttpServerRequest& request) {
    const std::string body = request.ReadWholeBody(100);
    if (request.method == "GET") return HttpServerReply{};
    ++change_count;
    return HttpServerReply{.drops_connection = true};
  });
  for (const std::string method : {"PUT", "POST", "DELETE", "PATCH"}) {
    for (const std::string_view body : {"", "x"}) {
      change_count = 0;
      // A kept connection: there libcurl would send again when no byte of a reply came.
      ASSERT_TRUE(client_.Send(ctx_, {.url = Url("/")}).ok());
      const auto reply =
          client_.Send(ctx_, {.method = method, .url = Url("/k?secret=1"), .body = Bytes(body)});
      ASSERT_FALSE(reply.ok());
      EXPECT_EQ(reply.status().code(), Code::kUnknownOutcome) << reply.status().ToString();
      EXPECT_EQ(change_count.load(), 1) << method;
      EXPECT_EQ(reply.status().message().find("secret"), std::string::npos)
          << reply.status().ToString();
    }
  }
}

TEST_F(HttpPair, LostReplyOfAReadIsUnavailable) {
  Serve([&](const HttpServerRequest&) { return HttpServerReply{.drops_connection = true}; });
  EXPECT_EQ(client_.Send(ctx_, {.url = Url("/")}).status().code(), Code::kUnavailable);
  EXPECT_EQ(client_.Send(ctx_, {.method = "HEAD", .url = Url("/")}).status().code(),
            Code::kUnavailable);
}

TEST_F(HttpPair, NobodyListeningIsUnavailableForChangesToo) {
  Serve([](const HttpServerRequest&) { return HttpServerReply{}; });
  const std::string url = Url("/");
  server_.reset();
  const auto reply = client_.Send(ctx_, {.method = "PUT", .url = url, .body = Bytes("x")});
  EXPECT_EQ(reply.status().code(), Code::kUnavailable) << reply.status().ToString();
  const auto unknown_host = client_.Send(ctx_, {.method = "PUT", .url = "http://name.invalid/"});
  EXPECT_EQ(unknown_host.status().code(), Code::kUnavailable) << unknown_host.status().ToString();
}

TEST_F(HttpPair, ConnectionsAreReused) {
  std::mutex mutex;
  std::vector<std::thread::id> threads;  // guarded by mutex
  Serve([&](const HttpServerRequest& request) {
    const std::string body = request.ReadWholeBody(1 << 20);
    const std::lock_guard lock(mutex);
    threads.push_back(std::this_thread::get_id());
    return HttpServerReply{.body = "ok"};
  });
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(client_.Send(ctx_, {.method = i % 2 == 0 ? "GET" : "PUT", .url = Url("/")}).ok());
    auto body = client_.Open(ctx_, {.url = Url("/")}).value();
    while (body->Next(ctx_).value().has_value()) {
    }
  }
  // A thread of the server serves one connection from its start to its end.
  EXPECT_EQ(threads.size(), 100U);
  EXPECT_TRUE(
      std::all_of(threads.begin(), threads.end(), [&](auto id) { return id == threads[0]; }));
}

TEST_F(HttpPair, ConcurrentRequestsDoNotMix) {
  Serve([](const HttpServerRequest& request) {
    return HttpServerReply{.body = request.ReadWholeBody(1 << 20)};
  });
  std::atomic<int> wrong_count = 0;
  {
    std::vector<std::jthread> callers;
    for (int caller = 0; caller < 24; ++caller) {  // more than the server's threads
      callers.emplace_back([&, caller] {
        for (int i = 0; i < 20; ++i) {
          const std::string text(static_cast<size_t>(1000 + caller * 100),
                                 static_cast<char>('a' + caller));
          const auto reply =
              client_.Send(ctx_, {.method = "POST", .url = Url("/"), .body = Bytes(text)});
          if (!reply.ok() || reply->body != text) ++wrong_count;
        }
      });
    }
  }
  EXPECT_EQ(wrong_count.load(), 0);
}

TEST_F(HttpPair, SlowServerHitsTheIdleLimit) {
  std::promise<void> released;
  const std::shared_future<void> release = released.get_future().share();
  Serve([release](const HttpServerRequest&) {
    release.wait();
    return HttpServerReply{};
  });
  const auto put = client_.Send(
      ctx_, {.method = "PUT", .url = Url("/"), .body = Bytes("x"), .idle_timeout_ms = 50});
  EXPECT_EQ(put.status().code(), Code::kUnknownOutcome) << put.status().ToString();
  const auto get = client_.Send(ctx_, {.url = Url("/"), .idle_timeout_ms = 50});
  EXPECT_EQ(get.status().code(), Code::kUnavailable) << get.status().ToString();
  released.set_value();
}

TEST_F(HttpPair, StopEndsAWaitingRequest) {
  std::promise<void> arrived, released;
  const std::shared_future<void> release = released.get_future().share();
  Serve([&arrived, release](const HttpServerRequest&) {
    arrived.set_value();
    release.wait();
    return HttpServerReply{};
  });
  const std::jthread stopper([&] {
    arrived.get_future().wait();
    world_.RequestStop();
  });
  const auto reply = client_.Send(ctx_, {.method = "PUT", .url = Url("/"), .idle_timeout_ms = 0});
  EXPECT_EQ(reply.status().code(), Code::kCancelled);
  released.set_value();
}

TEST_F(HttpPair, StopEndsAPull) {
  std::promise<void> released;
  const std::shared_future<void> release = released.get_future().share();
  Serve([release](const HttpServerRequest&) {
    HttpServerReply reply;
    reply.next_chunk = [release, count = 0]() mutable -> Result<std::optional<std::string>> {
      if (++count > 1) release.wait();
      return std::optional<std::string>("first");
    };
    return reply;
  });
  auto body = client_.Open(ctx_, {.url = Url("/"), .idle_timeout_ms = 0}).value();
  EXPECT_EQ(body->Next(ctx_).value(), "first");
  world_.RequestStop();
  EXPECT_EQ(body->Next(ctx_).status().code(), Code::kCancelled);
  body.reset();
  released.set_value();
}

TEST_F(HttpPair, FailingSourceCutsTheRequestAndItsFailureIsPassedOn) {
  std::promise<bool> was_whole;
  Serve([&](const HttpServerRequest& request) {
    was_whole.set_value(request.ReadBody(100).ok());
    return HttpServerReply{};
  });
  const auto reply = client_.Send(
      ctx_, {.method = "PUT",
             .url = Url("/"),
             .read_body = [count = 0](std::span<std::byte> room) mutable -> Result<size_t> {
               if (++count > 1) return Status(Code::kCorruption, "bad block");
               room[0] = std::byte{'x'};
               return size_t{1};
             }});
  EXPECT_EQ(reply.status().code(), Code::kCorruption);
  EXPECT_EQ(reply.status().message(), "bad block");
  EXPECT_FALSE(was_whole.get_future().get());
}

TEST_F(HttpPair, SourceShorterThanAnnouncedIsNeverAWholeRequest) {
  Serve([&](const HttpServerRequest& request) {
    return HttpServerReply{.status = request.ReadBody(100).ok() ? 200 : 400};
  });
  const auto reply = client_.Send(
      ctx_, {.method = "PUT",
             .url = Url("/"),
             .read_body = [](std::span<std::byte>) -> Result<size_t> { return size_t{0}; },
             .body_size_bytes = 10});
  ASSERT_FALSE(reply.ok());
  EXPECT_EQ(reply.status().code(), Code::kInternal) << reply.status().ToString();
}

TEST_F(HttpPair, TooLongAReplyIsRefusedButAChangeStaysUnknown) {
  Serve([](const HttpServerRequest&) { return HttpServerReply{.body = std::string(1000, 'x')}; });
  EXPECT_EQ(client_.Send(ctx_, {.url = Url("/"), .body_bytes_max = 999}).status().code(),
            Code::kExhausted);
  EXPECT_TRUE(client_.Send(ctx_, {.url = Url("/"), .body_bytes_max = 1000}).ok());
  EXPECT_EQ(
      client_.Send(ctx_, {.method = "PUT", .url = Url("/"), .body_bytes_max = 999}).status().code(),
      Code::kUnknownOutcome);
}

TEST_F(HttpPair, EarlyErrorReplyIsSeenThoughTheBodyWasNotRead) {
  Serve([](const HttpServerRequest&) { return HttpServerReply{.status = 403, .body = "no"}; });
  int64_t sent = 0;
  const auto reply =
      client_.Send(ctx_, {.method = "PUT",
                          .url = Url("/"),
                          .read_body = [&](std::span<std::byte> room) -> Result<size_t> {
                            const auto count = std::min<int64_t>(static_cast<int64_t>(room.size()),
                                                                 (int64_t{8} << 20) - sent);
                            sent += count;
                            return static_cast<size_t>(count);
                          },
                          .body_size_bytes = int64_t{8} << 20});
  ASSERT_TRUE(reply.ok()) << reply.status().ToString();
  EXPECT_EQ(reply->status, 403);
  EXPECT_EQ(reply->body, "no");
}

TEST_F(HttpPair, HeadersThatWouldSplitTheRequestAreRefused) {
  Serve([](const HttpServerRequest&) { return HttpServerReply{}; });
  const auto code = [&](HttpHeaders headers) {
    return client_.Send(ctx_, {.url = Url("/"), .headers = std::move(headers)}).status().code();
  };
  EXPECT_EQ(code({{"X", "a\r\nY: b"}}), Code::kInvalidArgument);
  EXPECT_EQ(code({{"X\n", "a"}}), Code::kInvalidArgument);
  EXPECT_EQ(code({{"", "a"}}), Code::kInvalidArgument);
  EXPECT_EQ(client_.Send(ctx_, {.url = "file:///etc/passwd"}).status().code(),
            Code::kInvalidArgument);
}

// A server that answers one connection with exactly the bytes it was given, whatever is asked.
class RawServer {
 public:
  explicit RawServer(std::string answer)
      : listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    PF_CHECK(bind(listener_.get(), generic, size) == 0 && listen(listener_.get(), 1) == 0,
             "listen");
    getsockname(listener_.get(), generic, &size);
    url_ = "http://127.0.0.1:" + std::to_string(ntohs(address.sin_port)) + "/";
    thread_ = std::jthread([this, answer = std::move(answer)] {
      const UniqueFd client(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      char byte = 0;
      while (heard_.find("\r\n\r\n") == std::string::npos && recv(client.get(), &byte, 1, 0) == 1)
        heard_ += byte;
      send(client.get(), answer.data(), answer.size(), MSG_NOSIGNAL);
    });
  }
  const std::string& url() const { return url_; }
  // What the client had said, once it was answered.
  const std::string& Heard() {
    thread_.join();
    return heard_;
  }

 private:
  UniqueFd listener_;
  std::string url_, heard_;
  std::jthread thread_;
};

TEST_F(HttpPair, RequestOnTheWireHoldsNothingUnasked) {
  RawServer server("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
  const std::string body = "abc";
  ASSERT_TRUE(client_
                  .Send(ctx_, {.method = "PUT",
                               .url = server.url(),
                               .headers = {{"X-Empty", ""}, {"X-A", " b "}},
                               .body = Bytes(body)})
                  .ok());
  const std::string& heard = server.Heard();
  EXPECT_TRUE(heard.starts_with("PUT / HTTP/1.1\r\n")) << heard;
  EXPECT_NE(heard.find("\r\nX-Empty:\r\n"), std::string::npos) << heard;
  EXPECT_NE(heard.find("\r\nContent-Length: 3\r\n"), std::string::npos) << heard;
  for (const std::string_view unasked :
       {"Expect", "Accept-Encoding", "Content-Type", "Transfer-Encoding"}) {
    EXPECT_EQ(heard.find(unasked), std::string::npos) << heard;
  }
}

TEST_F(HttpPair, InterimRepliesRepeatedHeadersAndTrailersAreUnderstood) {
  RawServer server(
      "HTTP/1.1 100 Continue\r\nX-Interim: 1\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
      "HTTP/1.1 201 Created\r\nX-Twice:  a \r\nx-twice: b\r\nTransfer-Encoding: chunked\r\n\r\n"
      "3\r\nabc\r\n0\r\nX-Trailer: t\r\n\r\n");
  const auto reply = client_.Send(ctx_, {.url = server.url()});
  ASSERT_TRUE(reply.ok()) << reply.status().ToString();
  EXPECT_EQ(reply->status, 201);
  EXPECT_EQ(reply->body, "abc");
  EXPECT_EQ(reply->headers, (std::map<std::string, std::string>{{"transfer-encoding", "chunked"},
                                                                {"x-twice", "a, b"}}));
}

TEST_F(HttpPair, BrokenRepliesAreFailuresNotContents) {
  const std::string long_text(2 << 20, 'x');
  for (const std::string& answer :
       {std::string(""), std::string("HTTP/1.1 200 OK\r\n"),
        std::string("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc"),
        std::string("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc"),
        std::string("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n"),
        std::string("SSH-2.0-OpenSSH\r\n\r\n"),
        "HTTP/1.1 200 OK\r\nX: " + long_text + "\r\n\r\n"}) {
    RawServer server(answer);
    const auto reply = client_.Send(ctx_, {.method = "POST", .url = server.url()});
    ASSERT_FALSE(reply.ok()) << answer.substr(0, 100);
    EXPECT_EQ(reply.status().code(), Code::kUnknownOutcome) << reply.status().ToString();
  }
}

TEST_F(HttpPair, CertificateIsCheckedUnlessToldOtherwise) {
  constexpr const char* kOpenssl = "/usr/bin/openssl";
  if (access(kOpenssl, X_OK) != 0) GTEST_SKIP() << "needs the program openssl";
  const testing::TempDir folder;
  const std::string key = folder / "key", certificate = folder / "certificate";
  const auto made = ChildProcess::Start(
      {.argv = {kOpenssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                "-nodes", "-days", "2", "-subj", "/CN=here", "-addext",
                "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate},
       .stderr_path = folder / "log"});
  ASSERT_TRUE(made.ok());
  ASSERT_EQ((*made)->Wait(ctx_, 20'000).value().exit_code, 0);
  const auto server = ChildProcess::Start({.argv = {kOpenssl, "s_server", "-accept", "127.0.0.1:0",
                                                    "-key", key, "-cert", certificate, "-www"},
                                           .stderr_path = folder / "log",
                                           .captures_stdout = true});
  ASSERT_TRUE(server.ok());
  std::string line;
  while (!line.starts_with("ACCEPT ")) line = (*server)->ReadLine(ctx_, 20'000).value().value();
  const std::string url = "https://127.0.0.1:" + line.substr(line.rfind(':') + 1) + "/";

  const auto refused = client_.Send(ctx_, {.method = "PUT", .url = url, .body = Bytes("x")});
  EXPECT_EQ(refused.status().code(), Code::kRefused) << refused.status().ToString();
  for (const HttpRequest& request :
       {HttpRequest{.url = url, .tls = {.ca_file = certificate}},
        HttpRequest{.url = url, .tls = {.skips_verification = true}}}) {
    const auto reply = client_.Send(ctx_, request);
    ASSERT_TRUE(reply.ok()) << reply.status().ToString();
    EXPECT_EQ(reply->status, 200);
  }
  const auto no_file = client_.Send(ctx_, {.url = url, .tls = {.ca_file = folder / "absent"}});
  EXPECT_EQ(no_file.status().code(), Code::kInvalidArgument) << no_file.status().ToString();

  // A server that wants to see a certificate of the client.
  const auto strict = ChildProcess::Start(
      {.argv = {kOpenssl, "s_server", "-accept", "127.0.0.1:0", "-key", key, "-cert", certificate,
                "-www", "-Verify", "1", "-verify_return_error", "-CAfile", certificate},
       .stderr_path = folder / "log",
       .captures_stdout = true});
  ASSERT_TRUE(strict.ok());
  line.clear();
  while (!line.starts_with("ACCEPT ")) line = (*strict)->ReadLine(ctx_, 20'000).value().value();
  const std::string strict_url = "https://127.0.0.1:" + line.substr(line.rfind(':') + 1) + "/";
  const TlsOptions nobody{.ca_file = certificate};
  EXPECT_FALSE(client_.Send(ctx_, {.url = strict_url, .tls = nobody}).ok());
  TlsOptions known{.ca_file = certificate, .certificate_file = certificate, .key_file = key};
  const auto shown = client_.Send(ctx_, {.url = strict_url, .tls = known});
  ASSERT_TRUE(shown.ok()) << shown.status().ToString();
  EXPECT_EQ(shown->status, 200);
  known.key_file = folder / "absent";
  const auto no_key = client_.Send(ctx_, {.url = strict_url, .tls = known});
  EXPECT_EQ(no_key.status().code(), Code::kInvalidArgument) << no_key.status().ToString();
}

TEST_F(HttpPair, ManyOpenDescriptorsDisturbNobody) {
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  if (before.rlim_max < 3000) GTEST_SKIP() << "needs 3000 descriptors";
  const rlimit wide{.rlim_cur = 3000, .rlim_max = before.rlim_max};
  setrlimit(RLIMIT_NOFILE, &wide);
  {
    std::vector<UniqueFd> taken;  // select(2) cannot watch what is opened above 1023
    for (int i = 0; i < 1200; ++i) taken.emplace_back(dup(STDERR_FILENO));
    Serve([](const HttpServerRequest&) { return HttpServerReply{.body = "ok"}; });
    EXPECT_EQ(client_.Send(ctx_, {.url = Url("/")}).value().body, "ok");
    server_.reset();
  }
  setrlimit(RLIMIT_NOFILE, &before);
}

TEST(UrlEncode, KeepsOnlyUnreservedCharacters) {
  EXPECT_EQ(UrlEncode("aZ09-._~"), "aZ09-._~");
  EXPECT_EQ(UrlEncode("a b/c+ü"), "a%20b%2Fc%2B%C3%BC");
}

TEST(UrlDecode, IsTheInverseForEveryByte) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  EXPECT_EQ(UrlDecode(UrlEncode(all)).value(), all);
  EXPECT_EQ(UrlDecode("%2f+").value(), "/+");
}

TEST(UrlDecode, RefusesHalfAnEscape) {
  for (const std::string_view text : {"%", "%2", "a%", "%zz", "%2g"}) {
    EXPECT_EQ(UrlDecode(text).status().code(), Code::kInvalidArgument) << text;
  }
}

}  // namespace
}  // namespace partforge
