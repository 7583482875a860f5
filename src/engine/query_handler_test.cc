#include "engine/query_handler.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "base/hash.h"
#include "base/http_client.h"
#include "base/json.h"
#include "base/process.h"
#include "engine/child_engine.h"
#include "testing/engine_child_fixture.h"

namespace partforge {
namespace {

using testing::TempDir;
using testing::TestWorld;

// The HTTP interface as it is on the wire, of an engine that asks for no key.
class QueryHandlerTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    world_ = std::make_unique<TestWorld>();
    dir_ = std::make_unique<TempDir>();
    client_ = std::make_unique<HttpClient>();
    ProcessOptions process;
    process.argv = testing::EngineChildOptions("").program;
    process.argv.push_back("--path=" + (*dir_ / "data").string());
    process.captures_stdout = true;
    auto started = ChildProcess::Start(process);
    ASSERT_TRUE(started.ok());
    child_ = std::move(started).value();
    const auto line = child_->ReadLine(world_->context(), 60'000);
    ASSERT_TRUE(line.ok() && line->has_value());
    const auto ready = ParseJson(**line);
    ASSERT_TRUE(ready.ok()) << **line;
    url_ = "http://127.0.0.1:" + std::to_string((*ready)["port"].get<int>());
  }
  static void TearDownTestSuite() {
    child_.reset();
    client_.reset();
    dir_.reset();
    world_.reset();
  }

  HttpReply Send(const std::string& method, const std::string& target, const std::string& body = "",
                 HttpHeaders headers = {}) {
    HttpRequest request;
    request.method = method;
    request.url = url_ + target;
    request.headers = std::move(headers);
    request.body = AsBytes(body);
    auto reply = client_->Send(world_->context(), request);
    EXPECT_TRUE(reply.ok()) << target << reply.status().ToString();
    return reply.ok() ? std::move(reply).value() : HttpReply{};
  }
  HttpReply Post(const std::string& sql, const std::string& parameters = "") {
    return Send("POST", "/?" + parameters, sql);
  }

  static std::unique_ptr<TestWorld> world_;
  static std::unique_ptr<TempDir> dir_;
  static std::unique_ptr<HttpClient> client_;
  static std::unique_ptr<ChildProcess> child_;
  static std::string url_;
};
std::unique_ptr<TestWorld> QueryHandlerTest::world_;
std::unique_ptr<TempDir> QueryHandlerTest::dir_;
std::unique_ptr<HttpClient> QueryHandlerTest::client_;
std::unique_ptr<ChildProcess> QueryHandlerTest::child_;
std::string QueryHandlerTest::url_;

TEST_F(QueryHandlerTest, PingAndUnknownPaths) {
  EXPECT_EQ(Send("GET", "/ping").body, "Ok.\n");
  EXPECT_EQ(Send("GET", "/").body, "Ok.\n");
  EXPECT_EQ(Send("GET", "/nope").status, 404);
  EXPECT_EQ(Send("PUT", "/?query=SELECT+1", "x").status, 405);
}

TEST_F(QueryHandlerTest, EachErrorHasItsStatusAndCode) {
  const auto expect = [](const HttpReply& reply, int status, const std::string& code) {
    EXPECT_EQ(reply.status, status) << reply.body;
    EXPECT_EQ(reply.headers.at("x-clickhouse-exception-code"), code) << reply.body;
    EXPECT_EQ(reply.body.find("Code: " + code + ". DB::Exception: "), 0U) << reply.body;
  };
  expect(Post("SELEC 1 FROM"), 400, "62");
  expect(Post("SELECT nope"), 400, "47");
  expect(Post("SELECT * FROM default.nope"), 404, "60");
  expect(Post("SELECT * FROM nope.nope"), 404, "81");
  expect(Post("SELECT throwIf(1)"), 500, "395");
  expect(Post("SELECT 1", "compress=1"), 500, "48");
  expect(Post("SELECT 1", "bad-name=1"), 500, "115");
  expect(Post("SELECT 1", "session_id=s&session_timeout=99999"), 500, "374");
  expect(Send("GET", "/?query=CREATE+DATABASE+by_get"), 500, "164");
}

TEST_F(QueryHandlerTest, SqlComesFromUrlThenBody) {
  EXPECT_EQ(Send("GET", "/?query=SELECT+1%2B1").body, "2\n");
  EXPECT_EQ(Send("POST", "/?query=SELECT+1", " + 41").body, "42\n");
  // The default of curl and of browsers: the body is still SQL, never parameters.
  EXPECT_EQ(Send("POST", "/", "SELECT 1 AS max_threads",
                 {{"Content-Type", "application/x-www-form-urlencoded"}})
                .body,
            "1\n");
}

TEST_F(QueryHandlerTest, HeadersSayIdFormatZoneAndCounters) {
  const HttpReply reply = Post("SELECT number FROM numbers(10) FORMAT CSV", "query_id=my-id");
  EXPECT_EQ(reply.headers.at("x-clickhouse-query-id"), "my-id");
  EXPECT_EQ(reply.headers.at("x-clickhouse-format"), "CSV");
  EXPECT_EQ(reply.headers.at("x-clickhouse-timezone") + "\n", Post("SELECT serverTimezone()").body);
  EXPECT_EQ(reply.headers.at("content-type").substr(0, 8), "text/csv");
  const auto whole = Post("SELECT count() FROM numbers(10)", "wait_end_of_query=1");
  EXPECT_NE(whole.headers.at("x-clickhouse-summary").find("\"read_rows\":\"10\""),
            std::string::npos)
      << whole.headers.at("x-clickhouse-summary");
  EXPECT_EQ(Post("SELECT 1 AS x", "default_format=JSONEachRow").body, "{\"x\":1}\n");
  EXPECT_EQ(Send("POST", "/", "SELECT 1 AS x", {{"X-ClickHouse-Format", "JSONEachRow"}}).body,
            "{\"x\":1}\n");
}

// Clients read times of no zone of their own in this one.
TEST_F(QueryHandlerTest, TheZoneIsTheEnginesOwn) {
  ChildEngineOptions options = testing::EngineChildOptions(*dir_ / "zoned");
  options.timezone = "Asia/Tokyo";
  const auto engine = ChildEngine::Start(world_->context(), options);
  ASSERT_TRUE(engine.ok()) << engine.status().ToString();
  HttpRequest request;
  request.method = "GET";
  // Without the key of this engine: the reply is a refusal, and has the header all the same.
  request.url = (*engine)->url() + "/?query=SELECT%201";
  const auto reply = client_->Send(world_->context(), request);
  ASSERT_TRUE(reply.ok()) << reply.status().ToString();
  EXPECT_EQ(reply->headers.at("x-clickhouse-timezone"), "Asia/Tokyo");
}

TEST_F(QueryHandlerTest, RowsOfAnInsertComeFromAnyPlace) {
  Post("CREATE TABLE default.i (a UInt64, s String) ENGINE = MergeTree ORDER BY a");
  EXPECT_EQ(Send("POST", "/?query=INSERT+INTO+default.i+FORMAT+CSV", "1,\"x\"\n").status, 200);
  EXPECT_EQ(Post("INSERT INTO default.i FORMAT TSV\n2\ty\n").status, 200);
  EXPECT_EQ(Post("INSERT INTO default.i (s, a) VALUES ('z', 3), ('FORMAT ; x', 4)").status, 200);
  EXPECT_EQ(Send("POST", "/?query=INSERT+INTO+default.i+VALUES", "(5, 'v')").status, 200);
  EXPECT_EQ(Send("POST", "/?query=INSERT+INTO+default.i&default_format=TSV", "6\tw\n").status, 200);
  EXPECT_EQ(Post("INSERT INTO default.i SELECT a + 10, s FROM default.i WHERE a = 1").status, 200);
  EXPECT_EQ(Post("INSERT INTO default.i SETTINGS input_format_null_as_default = 1 FORMAT "
                 "JSONEachRow {\"a\": 7}")
                .status,
            200);
  EXPECT_EQ(Post("SELECT a, s FROM default.i ORDER BY a FORMAT CSV").body,
            "1,\"x\"\n2,\"y\"\n3,\"z\"\n4,\"FORMAT ; x\"\n5,\"v\"\n6,\"w\"\n7,\"\"\n11,\"x\"\n");
  // Several megabytes in one body, statement and rows.
  std::string body = "INSERT INTO default.i FORMAT TSV\n";
  for (int i = 0; i < 300'000; ++i) body += std::to_string(100 + i) + "\tsome longer text\n";
  EXPECT_EQ(Post(body).status, 200);
  EXPECT_EQ(Post("SELECT count() FROM default.i WHERE a >= 100").body, "300000\n");
}

TEST_F(QueryHandlerTest, SessionsKeepSettingsAndTemporaryTables) {
  EXPECT_EQ(Post("CREATE TEMPORARY TABLE t (a Int8)", "session_id=one").status, 200);
  EXPECT_EQ(Post("INSERT INTO t VALUES (7)", "session_id=one").status, 200);
  EXPECT_EQ(Post("SET max_block_size = 777", "session_id=one").status, 200);
  EXPECT_EQ(Post("SELECT a, getSetting('max_block_size') FROM t", "session_id=one").body,
            "7\t777\n");
  EXPECT_EQ(Post("SELECT a FROM t", "session_id=two").headers.at("x-clickhouse-exception-code"),
            "60");
  EXPECT_EQ(Post("SELECT a FROM t").headers.at("x-clickhouse-exception-code"), "60");
  EXPECT_EQ(Post("SELECT 1", "session_id=never&session_check=1")
                .headers.at("x-clickhouse-exception-code"),
            "372");
  std::jthread busy([this] { Post("SELECT sleep(2)", "session_id=one"); });
  while (Post("SELECT count() FROM system.processes WHERE query LIKE '%sleep(2)%'").body != "2\n") {
  }
  EXPECT_EQ(Post("SELECT 1", "session_id=one").headers.at("x-clickhouse-exception-code"), "373");
}

TEST_F(QueryHandlerTest, ALateErrorCutsTheReply) {
  HttpRequest request;
  request.method = "POST";
  request.url = url_ + "/";
  const std::string sql = "SELECT number, throwIf(number = 1000000) FROM numbers(2000000)";
  request.body = AsBytes(sql);
  const auto body = client_->Open(world_->context(), request);
  ASSERT_TRUE(body.ok());
  EXPECT_EQ((*body)->status(), 200);
  std::string text;
  Status broken;
  while (broken.ok()) {
    const auto piece = (*body)->Next(world_->context());
    if (!piece.ok()) broken = piece.status();
    if (piece.ok() && !*piece) break;
    if (piece.ok()) text += **piece;
  }
  EXPECT_EQ(broken.code(), Code::kUnavailable) << "the reply must not end properly";
  EXPECT_NE(text.find("\r\n__exception__\r\nCode: 395. DB::Exception: "), std::string::npos);
}

TEST_F(QueryHandlerTest, QueriesRunSideBySide) {
  const int64_t begin_ms = MonotonicMs();
  {
    std::vector<std::jthread> queries;
    for (int i = 0; i < 6; ++i)
      queries.emplace_back([this] { EXPECT_EQ(Post("SELECT sleep(1)").body, "0\n"); });
  }
  EXPECT_LT(MonotonicMs() - begin_ms, 4'000);
}

TEST(EngineProcess, ItsEnvironmentSaysZoneAndHugePagesAndNoSecretOfOurs) {
  ASSERT_EQ(setenv("AWS_SECRET_ACCESS_KEY", "pf-test-secret", 0), 0);
  ASSERT_EQ(setenv("PARTFORGE_POSTGRES_URL", "postgres://u:pf-test-secret@h/d", 0), 0);
  TestWorld world;
  const TempDir dir;
  ChildEngineOptions options = testing::EngineChildOptions(dir / "data");
  options.uses_huge_pages = true;
  const auto engine = ChildEngine::Start(world.context(), options);
  ASSERT_TRUE(engine.ok()) << engine.status().ToString();
  const auto environment = ReadFile("/proc/" + std::to_string((*engine)->pid()) + "/environ");
  ASSERT_TRUE(environment.ok());
  const auto has = [&](const std::string& entry) {
    return environment->find(entry + std::string(1, '\0')) != std::string::npos;
  };
  EXPECT_TRUE(has("JE_MALLOC_CONF=thp:always"));
  EXPECT_TRUE(has("TZ=UTC"));
  EXPECT_EQ(environment->find("AWS_SECRET_ACCESS_KEY"), std::string::npos);
  EXPECT_EQ(environment->find("PARTFORGE_POSTGRES_URL"), std::string::npos);
  EXPECT_GT((*engine)->PeakResidentBytes(), int64_t{50} << 20);
}

}  // namespace
}  // namespace partforge
