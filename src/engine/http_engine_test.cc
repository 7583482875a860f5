#include "engine/http_engine.h"

#include <gtest/gtest.h>

#include <future>
#include <mutex>

#include "base/http_server.h"
#include "engine/clickhouse_codes.h"
#include "testing/engine_child_fixture.h"

namespace partforge {
namespace {

using testing::StringRows;
using testing::TestWorld;

// A server that answers from a function, for answers a real engine gives too rarely.
struct Recorded {
  explicit Recorded(HttpServer::Handler handler) {
    auto started = HttpServer::Start({.port = 0}, std::move(handler));
    EXPECT_TRUE(started.ok());
    server = std::move(started).value();
    auto opened = HttpEngine::Open({.url = "http://127.0.0.1:" + std::to_string(server->port()),
                                    .user = "bob",
                                    .password = Secret("sesame"),
                                    .database = "db",
                                    .settings = {{"max_threads", "2"}, {"x", "1"}}});
    EXPECT_TRUE(opened.ok());
    engine = std::move(opened).value();
  }
  std::unique_ptr<HttpServer> server;
  std::unique_ptr<HttpEngine> engine;
};

TEST(HttpEngine, OnlyPlainAddressesAreTaken) {
  for (const char* url : {"", "localhost:8123", "ftp://x", "http://", "http://u:p@h:1",
                          "http://h:1/?a=b", "http://h 1"}) {
    EXPECT_EQ(HttpEngine::Open({.url = url}).status().code(), Code::kInvalidArgument) << url;
  }
  EXPECT_TRUE(HttpEngine::Open({.url = "https://ch.example:8443/"}).ok());
}

TEST(HttpEngine, ARequestCarriesIdSettingsParametersAndCredentials) {
  std::mutex mutex;
  HttpServerRequest seen;
  std::string body;
  Recorded recorded([&](const HttpServerRequest& request) {
    const std::lock_guard lock(mutex);
    seen = request;
    body = request.ReadWholeBody(1 << 20);
    HttpServerReply reply;
    reply.headers["X-ClickHouse-Summary"] =
        R"({"read_rows":"7","written_rows":"0","written_bytes":"0"})";
    reply.body = "ok\n";
    return reply;
  });
  TestWorld world;
  const auto outcome = recorded.engine->Query(
      world.context(), "SELECT 'ä & ?'",
      {.query_id = "q 1", .settings = {{"x", "a=b&c"}}, .parameters = {{"p", "'"}}});
  ASSERT_TRUE(outcome.ok()) << outcome.status().ToString();
  EXPECT_EQ(outcome->text, "ok\n");
  EXPECT_EQ(outcome->read_rows, 7);
  EXPECT_EQ(body, "SELECT 'ä & ?'");
  EXPECT_EQ(seen.method, "POST");
  EXPECT_EQ(seen.Query("query_id"), "q 1");
  EXPECT_EQ(seen.Query("log_comment"), "q 1");
  EXPECT_EQ(seen.Query("x"), "a=b&c");
  EXPECT_EQ(seen.Query("max_threads"), "2");
  EXPECT_EQ(seen.Query("param_p"), "'");
  EXPECT_EQ(seen.Query("database"), "db");
  EXPECT_EQ(seen.headers.at("x-clickhouse-user"), "bob");
  EXPECT_EQ(seen.headers.at("x-clickhouse-key"), "sesame");
  EXPECT_EQ(seen.target.find("sesame"), std::string::npos) << "never in a URL, which servers log";
}

TEST(HttpEngine, ALostAnswerIsDoubtForWritesOnly) {
  Recorded recorded([](const HttpServerRequest& request) {
    (void)request.ReadWholeBody(1 << 20);
    HttpServerReply reply;
    reply.drops_connection = true;
    return reply;
  });
  TestWorld world;
  EXPECT_EQ(
      recorded.engine->Query(world.context(), "ALTER TABLE t ATTACH PART 'x'", {}).status().code(),
      Code::kUnknownOutcome);
  EXPECT_EQ(FailureClassOf(recorded.engine->Query(world.context(), "DROP TABLE t", {}).status()),
            FailureClass::kDoubt);
  EXPECT_EQ(recorded.engine->Query(world.context(), "SELECT 1", {}).status().code(),
            Code::kUnavailable);
  StringRows rows({"1\n"});
  EXPECT_EQ(recorded.engine->Insert(world.context(), "INSERT INTO t FORMAT TSV", rows, {})
                .status()
                .code(),
            Code::kUnknownOutcome);
}

TEST(HttpEngine, ASilentServerIsDoubtAfterTheIdleTime) {
  std::promise<void> given_up;
  const std::shared_future<void> until = given_up.get_future().share();
  Recorded recorded([until](const HttpServerRequest& request) {
    (void)request.ReadWholeBody(1 << 20);
    until.wait();
    return HttpServerReply();
  });
  TestWorld world;
  const auto outcome =
      recorded.engine->Query(world.context(), "DROP TABLE t", {.idle_timeout_ms = 200});
  given_up.set_value();
  EXPECT_EQ(outcome.status().code(), Code::kUnknownOutcome) << outcome.status().ToString();
}

TEST(HttpEngine, NobodyThereIsUnavailable) {
  TestWorld world;
  const auto engine = HttpEngine::Open({.url = "http://127.0.0.1:1"});
  const auto outcome = (*engine)->Query(world.context(), "DROP TABLE t", {});
  EXPECT_EQ(outcome.status().code(), Code::kUnavailable) << outcome.status().ToString();
  EXPECT_EQ(outcome.status().explanation().pf_number, 7008);
}

TEST(HttpEngine, AStreamThatBreaksOffIsAnErrorAndNeverAShortAnswer) {
  Recorded recorded([](const HttpServerRequest&) {
    HttpServerReply reply;
    auto calls = std::make_shared<int>(0);
    reply.next_chunk = [calls]() -> Result<std::optional<std::string>> {
      if (++*calls == 1) return std::optional<std::string>("1\n2\n");
      return Status(Code::kUnavailable, "cut");
    };
    return reply;
  });
  TestWorld world;
  auto stream = recorded.engine->Select(world.context(), "SELECT 1", "TSV", {});
  ASSERT_TRUE(stream.ok());
  EXPECT_EQ(testing::ReadAll(world.context(), **stream).status().code(), Code::kUnavailable);
}

TEST(HttpEngine, KillIsAsynchronousAndWaitsUntilTheQueryIsGone) {
  std::mutex mutex;
  std::vector<std::string> asked;
  Recorded recorded([&](const HttpServerRequest& request) {
    const std::lock_guard lock(mutex);
    asked.push_back(request.ReadWholeBody(1 << 20));
    HttpServerReply reply;
    if (asked.back().starts_with("SELECT count()")) reply.body = asked.size() < 6 ? "1\n" : "0\n";
    return reply;
  });
  TestWorld world;
  EXPECT_TRUE(recorded.engine->Kill(world.context(), "it's").ok());
  ASSERT_EQ(asked.size(), 6U);
  for (const std::string& sql : asked) EXPECT_EQ(sql.find(" SYNC"), std::string::npos) << sql;
  EXPECT_NE(asked[0].find(" ASYNC"), std::string::npos) << asked[0];
  EXPECT_NE(asked[0].find("query_id = 'it\\'s' OR Settings['log_comment'] = 'it\\'s'"),
            std::string::npos);
}

}  // namespace
}  // namespace partforge
