#include "base/http_server.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <atomic>
#include <future>
#include <mutex>
#include <thread>

#include "base/files.h"
#include "base/http_client.h"
#include "testing/test_world.h"

namespace partforge {
namespace {

// A client that says exactly what it is told, also what no proper client says.
class RawClient {
 public:
  explicit RawClient(int port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    is_open_ = connect(fd_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
    const timeval limit{.tv_sec = 20, .tv_usec = 0};  // a hang becomes a failure
    setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  }
  bool is_open() const { return is_open_; }

  RawClient& Say(std::string_view text) {
    send(fd_.get(), text.data(), text.size(), MSG_NOSIGNAL);
    return *this;
  }
  // Everything until `end` has been seen, or the connection ends.
  std::string HearUntil(std::string_view end) {
    std::string heard;
    char byte = 0;
    while (heard.find(end) == std::string::npos && recv(fd_.get(), &byte, 1, 0) == 1) heard += byte;
    return heard;
  }
  std::string HearAll() {
    std::string heard;
    char buffer[4096];
    for (ssize_t count = 1; count > 0;) {
      count = recv(fd_.get(), buffer, sizeof(buffer), 0);
      if (count > 0) heard.append(buffer, static_cast<size_t>(count));
    }
    return heard;
  }
  void EndSending() { shutdown(fd_.get(), SHUT_WR); }

 private:
  UniqueFd fd_;
  bool is_open_ = false;
};

std::unique_ptr<HttpServer> Serve(HttpServer::Handler handler, HttpServerOptions options = {}) {
  auto server = HttpServer::Start(std::move(options), std::move(handler));
  PF_CHECK(server.ok(), server.status().ToString());
  return std::move(server).value();
}

HttpServerReply Describe(const HttpServerRequest& request) {
  std::string text = request.path;
  for (const auto& [name, value] : request.query) text += "|" + name + "=" + value;
  const Result<std::string> body = request.ReadBody(1000);
  return {.body = text + "#" + (body.ok() ? *body : body.status().ToString()) + "\n"};
}

TEST(HttpServer, ParametersComeFromTheUrlAloneAndInOrder) {
  const auto server = Serve(Describe);
  testing::TestWorld world;
  HttpClient client;
  const std::string body = "query=DROP+TABLE&max_threads=1";
  const auto reply = client.Send(
      world.context(), {.method = "POST",
                        .url = "http://127.0.0.1:" + std::to_string(server->port()) +
                               "/a%20b+c?b=2&a=x+y%2Bz&b=3&flag&=v&%e4%b8%ad=%E6%96%87",
                        .headers = {{"Content-Type", "application/x-www-form-urlencoded"}},
                        .body = std::as_bytes(std::span(body))});
  ASSERT_TRUE(reply.ok()) << reply.status().ToString();
  EXPECT_EQ(reply->body, "/a b+c|b=2|a=x y+z|b=3|flag=|=v|中=文#query=DROP+TABLE&max_threads=1\n");
}

TEST(HttpServer, PathThatIsNotWellEncodedIsKeptAsItCame) {
  const auto server = Serve(Describe);
  RawClient client(server->port());
  client.Say("GET /%41/%zz?a=%4 HTTP/1.1\r\nConnection: close\r\n\r\n");
  EXPECT_NE(client.HearAll().find("/%41/%zz|a=%4#\n"), std::string::npos);
}

TEST(HttpServer, FirstValueOfAParameterCounts) {
  HttpServerRequest request;
  request.query = {{"a", "1"}, {"a", "2"}};
  EXPECT_EQ(request.Query("a"), "1");
  EXPECT_EQ(request.Query("b"), "");
}

TEST(HttpServer, HeadersThatTheLibraryWouldActUponReachTheHandlerOnly) {
  const auto server = Serve([](const HttpServerRequest& request) {
    HttpServerReply reply{.status = 206, .body = "0123456789"};
    for (const auto& [name, value] : request.headers) reply.body += "|" + name + "=" + value;
    return reply;
  });
  RawClient client(server->port());
  client.Say(
      "GET / HTTP/1.1\r\nRange: bytes=0-3\r\nAccept-Encoding: gzip, br\r\nContent-Type: "
      "multipart/form-data\r\nX-A: 1\r\nx-a: 2\r\nConnection: close\r\n\r\n");
  const std::string heard = client.HearAll();
  EXPECT_NE(
      heard.find(
          "0123456789|accept-encoding=gzip, br|connection=close|content-type=multipart/form-data"
          "|range=bytes=0-3|x-a=1, 2"),
      std::string::npos)
      << heard;
}

TEST(HttpServer, MultipartAndCompressedBodiesArriveAsSent) {
  const auto server = Serve(Describe);
  for (const std::string header :
       {"Content-Type: multipart/form-data; boundary=x", "Content-Type: multipart/form-data",
        "Content-Encoding: gzip", "Content-Encoding: br"}) {
    RawClient client(server->port());
    client.Say("PUT /k HTTP/1.1\r\nConnection: close\r\n" + header +
               "\r\nContent-Length: 5\r\n\r\nab--x");
    EXPECT_NE(client.HearAll().find("/k#ab--x\n"), std::string::npos) << header;
  }
}

TEST(HttpServer, BodyThatBreaksOffIsNotAShortBody) {
  std::mutex mutex;
  std::vector<std::string> seen;  // guarded by mutex
  const auto server = Serve([&](const HttpServerRequest& request) {
    const Result<std::string> body = request.ReadBody(1000);
    const std::lock_guard lock(mutex);
    seen.push_back(body.ok() ? *body : std::string(CodeName(body.status().code())));
    return HttpServerReply{};
  });
  for (const std::string_view request :
       {"PUT / HTTP/1.1\r\nContent-Length: 10\r\n\r\nabc",
        "PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"}) {
    RawClient client(server->port());
    client.Say(request);
    client.EndSending();
    client.HearAll();
  }
  server->Stop();
  EXPECT_EQ(seen, (std::vector<std::string>{"unavailable", "unavailable"}));
}

TEST(HttpServer, UnreadBodyIsNeverTakenForTheNextRequest) {
  std::atomic<int> count = 0;
  const auto server = Serve([&](const HttpServerRequest&) {
    ++count;
    return HttpServerReply{.status = 403};
  });
  const std::string smuggled = "GET /admin HTTP/1.1\r\n\r\n";
  for (const std::string method : {"GET", "POST"}) {
    count = 0;
    RawClient client(server->port());
    client.Say(method + " / HTTP/1.1\r\nContent-Length: " + std::to_string(smuggled.size()) +
               "\r\n\r\n" + smuggled);
    const std::string heard = client.HearAll();
    EXPECT_TRUE(heard.starts_with("HTTP/1.1 403 ")) << method;
    EXPECT_NE(heard.find("Connection: close\r\n"), std::string::npos) << heard;
    EXPECT_EQ(count.load(), 1) << method;
  }
}

TEST(HttpServer, EmptyBodyThatNobodyReadKeepsTheConnection) {
  const auto server = Serve([&](const HttpServerRequest& request) {
    return HttpServerReply{.status = 500, .body = request.path + "\n"};
  });
  RawClient client(server->port());
  client.Say("PUT /1 HTTP/1.1\r\nContent-Length: 0\r\n\r\n");
  const std::string first = client.HearUntil("/1\n");
  EXPECT_EQ(first.find("Connection: close"), std::string::npos) << first;
  client.Say("PUT /2 HTTP/1.1\r\nContent-Length: 0\r\n\r\n");
  EXPECT_TRUE(client.HearUntil("/2\n").ends_with("/2\n"));
}

TEST(HttpServer, UnclearLengthIsRefusedBeforeTheHandler) {
  std::atomic<int> count = 0;
  const auto server = Serve([&](const HttpServerRequest&) {
    ++count;
    return HttpServerReply{};
  });
  for (const std::string_view headers :
       {"Content-Length: 3\r\nContent-Length: 4\r\n",
        "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n", "Content-Length: -1\r\n",
        "Content-Length: 3x\r\n", "Content-Length: 99999999999999999999\r\n",
        "Transfer-Encoding: gzip, chunked\r\n"}) {
    RawClient client(server->port());
    client.Say("POST / HTTP/1.1\r\n" + std::string(headers) + "\r\nabc");
    EXPECT_TRUE(client.HearAll().starts_with("HTTP/1.1 400 ")) << headers;
  }
  EXPECT_EQ(count.load(), 0);
}

TEST(HttpServer, GarbageIsAnsweredAndTheServerLives) {
  const auto server = Serve(Describe);
  const std::string long_text(200'000, 'x');
  for (const std::string& text :
       {std::string("\r\n\r\n"), std::string("nonsense\r\n\r\n"),
        std::string("\0\1\2\3\r\n\r\n", 8), "GET /" + long_text + " HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nX: " + long_text + "\r\n\r\n",
        std::string("GET / HTTP/1.1\r\nnocolon\r\n\r\n"),
        std::string("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
        std::string("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n")}) {
    RawClient client(server->port());
    client.Say(text);
    client.EndSending();
    client.HearAll();
  }
  RawClient client(server->port());
  client.Say("GET /alive HTTP/1.1\r\nConnection: close\r\n\r\n");
  EXPECT_NE(client.HearAll().find("/alive#\n"), std::string::npos);
}

TEST(HttpServer, BodyAboveTheLimitIsRefused) {
  const auto server = Serve(Describe, {.body_bytes_max = 4});
  RawClient sized(server->port());
  sized.Say("POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nabcde");
  EXPECT_TRUE(sized.HearAll().starts_with("HTTP/1.1 413 "));
  RawClient chunked(server->port());
  chunked.Say("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n0\r\n\r\n");
  EXPECT_EQ(chunked.HearAll().find("abcde"), std::string::npos);
  RawClient fitting(server->port());
  fitting.Say("POST / HTTP/1.1\r\nConnection: close\r\nContent-Length: 4\r\n\r\nabcd");
  EXPECT_NE(fitting.HearAll().find("/#abcd\n"), std::string::npos);
}

TEST(HttpServer, ContinueIsGivenToWhoAsks) {
  const auto server = Serve(Describe);
  RawClient client(server->port());
  client.Say(
      "PUT /k HTTP/1.1\r\nConnection: close\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  EXPECT_TRUE(client.HearUntil("\r\n\r\n").starts_with("HTTP/1.1 100 "));
  client.Say("ab");
  EXPECT_NE(client.HearAll().find("/k#ab\n"), std::string::npos);
}

TEST(HttpServer, RequestsOfOneConnectionAreServedInTurn) {
  const auto server = Serve(Describe);
  RawClient client(server->port());
  client.Say(
      "GET /1 HTTP/1.1\r\n\r\nPUT /2 HTTP/1.1\r\nContent-Length: 1\r\n\r\naGET /3 "
      "HTTP/1.1\r\nConnection: close\r\n\r\n");
  const std::string heard = client.HearAll();
  const size_t first = heard.find("/1#\n"), second = heard.find("/2#a\n"),
               third = heard.find("/3#\n");
  ASSERT_NE(third, std::string::npos) << heard;
  EXPECT_LT(first, second);
  EXPECT_LT(second, third);
}

TEST(HttpServer, IdleConnectionsKeepNobodyOut) {
  const auto server = Serve(Describe, {.threads = 1});
  std::vector<std::unique_ptr<RawClient>> idle;
  for (int i = 0; i < 40; ++i) {
    idle.push_back(std::make_unique<RawClient>(server->port()));
    idle.back()->Say("GET /x HTTP/1.1\r\n\r\n");
    EXPECT_NE(idle.back()->HearUntil("#\n").find("/x#"), std::string::npos) << i;
  }
}

TEST(HttpServer, AtMostSoManyHandlersRunAtOnce) {
  std::atomic<int> running = 0, running_max = 0;
  const auto server = Serve(
      [&](const HttpServerRequest&) {
        const int now = ++running;
        int seen = running_max.load();
        while (now > seen && !running_max.compare_exchange_weak(seen, now)) {
        }
        std::this_thread::yield();
        --running;
        return HttpServerReply{};
      },
      {.threads = 3});
  {
    std::vector<std::jthread> callers;
    for (int i = 0; i < 12; ++i) {
      callers.emplace_back([&] {
        RawClient client(server->port());
        for (int request = 0; request < 20; ++request) {
          client.Say("GET / HTTP/1.1\r\n\r\n").HearUntil("\r\n\r\n");
        }
      });
    }
  }
  EXPECT_LE(running_max.load(), 3);
}

TEST(HttpServer, StopEndsIdleAndHalfSentConnections) {
  std::promise<void> started;
  const auto server = Serve([&](const HttpServerRequest& request) {
    if (request.path == "/slow") started.set_value();
    return HttpServerReply{.status = request.ReadBody(100).ok() ? 200 : 400};
  });
  RawClient idle(server->port()), half(server->port()), head(server->port());
  idle.Say("GET / HTTP/1.1\r\n\r\n").HearUntil("\r\n\r\n");
  half.Say("PUT /slow HTTP/1.1\r\nContent-Length: 10\r\n\r\nabc");
  head.Say("PUT /slow HTT");
  started.get_future().wait();
  server->Stop();  // hangs if one of them is waited for
  EXPECT_EQ(idle.HearAll(), "");
  EXPECT_FALSE(RawClient(server->port()).is_open());
}

TEST(HttpServer, StopEndsAStreamThatNobodyReads) {
  const auto server = Serve([](const HttpServerRequest&) {
    HttpServerReply reply;
    reply.next_chunk = []() -> Result<std::optional<std::string>> {
      return std::optional(std::string(1 << 20, 'x'));
    };
    return reply;
  });
  RawClient client(server->port());
  client.Say("GET / HTTP/1.1\r\n\r\n").HearUntil("xxxx");
  server->Stop();
  EXPECT_FALSE(client.HearAll().ends_with("0\r\n\r\n"));
}

TEST(HttpServer, StreamOfAGoneClientIsDropped) {
  std::promise<void> dropped;
  struct Tell {
    std::promise<void>& promise;
    explicit Tell(std::promise<void>& target) : promise(target) {}
    ~Tell() { promise.set_value(); }
  };
  const auto server = Serve([&](const HttpServerRequest&) {
    HttpServerReply reply;
    reply.next_chunk =
        [tell = std::make_shared<Tell>(dropped)]() -> Result<std::optional<std::string>> {
      return std::optional(std::string(1 << 16, 'x'));
    };
    return reply;
  });
  {
    RawClient client(server->port());
    client.Say("GET / HTTP/1.1\r\n\r\n").HearUntil("xxxx");
  }
  dropped.get_future().wait();
}

TEST(HttpServer, TakenAddressIsUnavailable) {
  const auto server = Serve(Describe);
  const auto second = HttpServer::Start({.port = server->port()}, Describe);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.status().code(), Code::kUnavailable);
  EXPECT_EQ(HttpServer::Start({.host = "192.0.2.1"}, Describe).status().code(), Code::kUnavailable);
}

}  // namespace
}  // namespace partforge
