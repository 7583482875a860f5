#include "engine/query_handler.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/json.h"
#include "engine/clickhouse_codes.h"
#include "engine/engine_sessions.h"
#include "engine/insert_head.h"
#include "engine/query_request.h"
#include "engine/sql_text.h"

namespace partforge {
namespace {

constexpr size_t kInsertHeadBytesMax =
    size_t{1} << 20;  // a body is looked at so far for the head of an INSERT
constexpr size_t kStatementBytesMax = size_t{64} << 20;  // of any other statement
constexpr size_t kDrainedBytesMax =
    size_t{1} << 20;  // of a body nobody wants, so that the connection can go on
constexpr size_t kWholeReplyBytesMax = size_t{512} << 20;  // wait_end_of_query

// The proof's mapping (dependencies.md §3.4).
int HttpStatusOf(int number) {
  switch (number) {
    case 27:
    case 47:
    case 53:
    case 62:
      return 400;
    case 60:
    case 81:
      return 404;
    case 516:
      return 403;
    default:
      return 500;
  }
}

std::string_view ContentTypeOf(std::string_view format) {
  if (format.starts_with("JSON")) return "application/json; charset=UTF-8";
  if (format.starts_with("CSV")) return "text/csv; charset=UTF-8; header=absent";
  if (format.starts_with("TabSeparated") || format.starts_with("TSV")) {
    return "text/tab-separated-values; charset=UTF-8";
  }
  if (format == "Native" || format.starts_with("RowBinary") || format.starts_with("Arrow") ||
      format == "Parquet") {
    return "application/octet-stream";
  }
  return "text/plain; charset=UTF-8";
}

HttpServerReply NewReply(const QueryRequest& ask, std::string_view format) {
  HttpServerReply reply;
  reply.headers = {{"X-ClickHouse-Query-Id", ask.query_id},
                   {"X-ClickHouse-Server-Display-Name", "partforge-engine"},
                   {"X-ClickHouse-Format", std::string(format)}};
  reply.content_type = ContentTypeOf(format);
  return reply;
}

HttpServerReply Failed(const QueryRequest& ask, const Status& status) {
  HttpServerReply reply = NewReply(ask, "TabSeparated");
  int number = ClickHouseNumber(status);
  if (number == 0) number = 1002;  // UNKNOWN_EXCEPTION
  reply.status = HttpStatusOf(number);
  reply.headers["X-ClickHouse-Exception-Code"] = std::to_string(number);
  reply.content_type = "text/plain; charset=UTF-8";
  const bool has_code = ClickHouseNumber(status) != 0;
  reply.body = has_code ? status.message() + "\n"
                        : fmt::format("Code: {}. DB::Exception: {}\n", number, status.message());
  return reply;
}

std::string SummaryOf(const QueryRequest& ask, const ChdbAnswer& answer) {
  JsonDoc summary;
  summary["read_rows"] = std::to_string(answer.read_rows);
  summary["read_bytes"] = std::to_string(answer.read_bytes);
  summary["written_rows"] = std::to_string(answer.written_rows);
  summary["written_bytes"] = std::to_string(answer.written_bytes);
  summary["total_rows_to_read"] = "0";
  summary["result_rows"] = std::to_string(answer.result_rows);
  summary["result_bytes"] = std::to_string(answer.text.size());
  summary["elapsed_ns"] = std::to_string((MonotonicMs() - ask.begin_ms) * 1'000'000);
  return DumpJson(summary);
}

// The format a statement names itself, else the one asked for, else the interface's default.
std::string FormatOf(const std::vector<SqlToken>& tokens, const std::string& asked) {
  for (size_t i = tokens.size(); i >= 2; --i) {
    if (tokens[i - 2].IsWord("FORMAT") && tokens[i - 1].kind == SqlTokenKind::kWord) {
      const bool is_last =
          i == tokens.size() || tokens[i].IsSymbol(";") || tokens[i].IsWord("SETTINGS");
      if (is_last) return std::string(tokens[i - 1].text);
    }
  }
  return asked.empty() ? "TabSeparated" : asked;
}

// Files of this machine have no grant of their own in these two clauses.
Status CheckFileClauses(const std::vector<SqlToken>& tokens) {
  for (size_t i = 0; i + 1 < tokens.size(); ++i) {
    const bool writes = tokens[i].IsWord("INTO") && tokens[i + 1].IsWord("OUTFILE");
    const bool reads = tokens[i].IsWord("FROM") && tokens[i + 1].IsWord("INFILE");
    if (writes || reads)
      return DoorStatus(344, "INTO OUTFILE and FROM INFILE are not allowed", "SUPPORT_IS_DISABLED");
  }
  return {};
}

// The body of a request, which can be read once.
class RequestBody {
 public:
  explicit RequestBody(const HttpServerRequest& request) : request_(request) {}
  bool Read(const std::function<bool(std::string_view)>& take) {
    has_begun_ = true;
    is_whole_ = request_.read_body(take);
    return is_whole_;
  }
  // Reads away what is left of a small body. False when the connection cannot take another request.
  bool Drain() {
    if (has_begun_) return is_whole_;
    size_t size_bytes = 0;
    return Read([&size_bytes](std::string_view piece) {
      return (size_bytes += piece.size()) <= kDrainedBytesMax;
    });
  }

 private:
  const HttpServerRequest& request_;
  bool has_begun_ = false, is_whole_ = false;
};

// True when something stands behind a semicolon.
bool IsSeveral(const std::vector<SqlToken>& tokens) {
  bool has_ended = false;
  for (const SqlToken& token : tokens) {
    if (has_ended && !token.IsSymbol(";")) return true;
    has_ended = has_ended || token.IsSymbol(";");
  }
  return false;
}

}  // namespace

struct QueryHandler::Impl {
  Impl(Options handler_options)
      : options(std::move(handler_options)),
        sessions(options.library, options.connection_arguments) {}

  HttpServerReply Answer(const HttpServerRequest& request, RequestBody& body);
  Status ApplySettings(const QueryRequest& ask, ChdbConnection& connection) const;
  HttpServerReply Execute(const QueryRequest& ask, RequestBody& body);
  Result<HttpServerReply> Statement(const QueryRequest& ask,
                                    const std::shared_ptr<ConnectionLease>& lease,
                                    const std::string& sql) const;
  Result<HttpServerReply> Stream(const QueryRequest& ask,
                                 const std::shared_ptr<ConnectionLease>& lease,
                                 std::unique_ptr<ChdbStream> stream, std::string_view format) const;

  const Options options;
  EngineSessions sessions;
  std::atomic<uint64_t> drawn_ids = 0;  // a counter
};

namespace {

// The text of a request as it arrives: SQL, or the head of an INSERT and its rows, which go on to
// the engine at once.
class StatementIntake {
 public:
  StatementIntake(const QueryRequest& ask, ChdbConnection& connection, bool is_post)
      : ask_(ask), connection_(connection), is_post_(is_post), text_(ask.sql) {
    if (!text_.empty() && is_post_) LookForInsert();
    if (!insert_ && !text_.empty()) separator_ = "\n";
  }

  // False to stop reading: `failure` says why.
  bool Take(std::string_view piece) {
    if (!failure_.ok()) return false;
    if (insert_) {
      failure_ = insert_->Append(piece);
      return failure_.ok();
    }
    text_ += std::exchange(separator_, "");
    text_ += piece;
    if (!has_looked_ && text_.size() >= kInsertHeadBytesMax) LookForInsert();
    if (failure_.ok() && !insert_ && text_.size() > kStatementBytesMax) {
      failure_ = DoorStatus(229, fmt::format("Query is longer than {} bytes", kStatementBytesMax),
                            "QUERY_IS_TOO_LARGE");
    }
    return failure_.ok();
  }

  // After the whole body.
  Status End() {
    if (failure_.ok() && !insert_ && is_post_) LookForInsert();
    return failure_;
  }

  ChdbInsert* insert() { return insert_.get(); }
  const std::string& text() const { return text_; }

 private:
  void LookForInsert() {
    const auto head = FindInsertHead(text_);
    // A head without a format that came in the URL: the body is the rows. In a body it is the
    // engine's to judge.
    const bool has_rows =
        head && (!head->format.empty() || (!has_looked_ && !ask_.sql.empty() && text_ == ask_.sql));
    has_looked_ = has_looked_ || text_.size() >= kInsertHeadBytesMax;
    if (!has_rows) return;
    const std::string_view asked =
        ask_.format.empty() ? std::string_view("Values") : std::string_view(ask_.format);
    auto opened = connection_.OpenInsert(
        head->head, head->format.empty() ? asked : std::string_view(head->format));
    if (!opened.ok()) {
      failure_ = std::move(opened).status();
      return;
    }
    insert_ = std::move(opened).value();
    failure_ = insert_->Append(std::string_view(text_).substr(head->data_offset));
    text_.clear();
  }

  const QueryRequest& ask_;
  ChdbConnection& connection_;
  const bool is_post_;
  std::string text_;
  std::string separator_;
  bool has_looked_ = false;
  std::unique_ptr<ChdbInsert> insert_;
  Status failure_;
};

// A reply under way; the stream goes before the connection.
struct LiveReply {
  std::shared_ptr<ConnectionLease> lease;
  std::unique_ptr<ChdbStream> stream;
  std::optional<std::string> first;
  bool has_failed = false;

  Result<std::optional<std::string>> Next() {
    if (first) return std::exchange(first, std::nullopt);
    if (has_failed) return Status(Code::kUnavailable, "statement failed after its first rows");
    auto chunk = stream->Next();
    if (chunk.ok()) return chunk;
    has_failed = true;
    return std::optional<std::string>("\r\n__exception__\r\n" + chunk.status().message() + "\n");
  }
};

}  // namespace

Status QueryHandler::Impl::ApplySettings(const QueryRequest& ask,
                                         ChdbConnection& connection) const {
  std::string set = "SET log_comment = " + QuoteString(ask.query_id);
  for (const auto& [name, value] : ask.settings)
    set += fmt::format(", {} = {}", name, QuoteString(value));
  PF_TRY(connection.Run(set, "TabSeparated", {}));
  if (!ask.database.empty())
    PF_TRY(connection.Run("USE " + QuoteIdentifier(ask.database), "TabSeparated", {}));
  return {};
}

Result<HttpServerReply> QueryHandler::Impl::Stream(const QueryRequest& ask,
                                                   const std::shared_ptr<ConnectionLease>& lease,
                                                   std::unique_ptr<ChdbStream> stream,
                                                   std::string_view format) const {
  auto live = std::make_shared<LiveReply>();
  live->lease = lease;
  live->stream = std::move(stream);
  PF_ASSIGN(live->first,
            live->stream->Next());  // before the status line, so that most errors have theirs
  HttpServerReply reply = NewReply(ask, format);
  if (ask.waits_for_end || !live->first) {
    while (live->first && reply.body.size() < kWholeReplyBytesMax) {
      reply.body += *live->first;
      PF_ASSIGN(live->first, live->stream->Next());
    }
    if (live->first)
      return DoorStatus(396, "The result is too large to be waited for", "TOO_MANY_ROWS_OR_BYTES");
    reply.headers["X-ClickHouse-Summary"] = SummaryOf(ask, live->stream->totals());
    return reply;
  }
  reply.headers["X-ClickHouse-Summary"] = SummaryOf(ask, live->stream->totals());
  reply.next_chunk = [live] { return live->Next(); };
  return reply;
}

Result<HttpServerReply> QueryHandler::Impl::Statement(const QueryRequest& ask,
                                                      const std::shared_ptr<ConnectionLease>& lease,
                                                      const std::string& sql) const {
  ChdbConnection& connection = *lease->connection;
  std::vector<SqlToken> tokens;
  if (auto cut = TokenizeSql(sql); cut.ok())
    tokens = std::move(cut).value();  // else the engine says what is wrong
  if (!options.allows_external_reads) PF_TRY(CheckFileClauses(tokens));
  const ChdbClassification kind = connection.Classify(sql);
  if (kind.statements > 1 || IsSeveral(tokens)) {
    return DoorStatus(62, "Syntax error (Multi-statements are not allowed)", "SYNTAX_ERROR");
  }
  if (!ask.may_write && kind.query_class != ChdbQueryClass::kRead) {
    return DoorStatus(
        164,
        "Cannot execute query in readonly mode. For queries over HTTP, method GET implies readonly",
        "READONLY");
  }
  const std::string format = FormatOf(tokens, ask.format);
  if (kind.query_class == ChdbQueryClass::kRead) {
    auto stream = connection.OpenStream(sql, format, ask.parameters);
    if (stream.ok()) return Stream(ask, lease, std::move(stream).value(), format);
    if (!IsNotStreamable(stream.status())) return std::move(stream).status();
  }
  PF_ASSIGN(ChdbAnswer answer, connection.Run(sql, format, ask.parameters));
  HttpServerReply reply = NewReply(ask, format);
  reply.headers["X-ClickHouse-Summary"] = SummaryOf(ask, answer);
  reply.body = std::move(answer.text);
  return reply;
}

HttpServerReply QueryHandler::Impl::Execute(const QueryRequest& ask, RequestBody& body) {
  auto lease = sessions.Take({.query_id = ask.query_id,
                              .session_id = ask.session_id,
                              .session_idle_ms = ask.session_idle_ms,
                              .must_exist = ask.session_must_exist});
  if (!lease.ok()) return Failed(ask, lease.status());
  ChdbConnection& connection = *(*lease)->connection;
  if (const Status applied = ApplySettings(ask, connection); !applied.ok())
    return Failed(ask, applied);

  StatementIntake intake(ask, connection, ask.may_write);
  const bool is_whole =
      !ask.may_write || body.Read([&intake](std::string_view piece) { return intake.Take(piece); });
  if (const Status ended = intake.End(); !ended.ok()) return Failed(ask, ended);
  // The client is gone half-way: dropping the intake cancels the insert.
  if (!is_whole) return Failed(ask, DoorStatus(210, "The body broke off", "NETWORK_ERROR"));
  if (ChdbInsert* insert = intake.insert(); insert != nullptr) {
    const auto answer = insert->Finish();
    if (!answer.ok()) return Failed(ask, answer.status());
    HttpServerReply reply = NewReply(ask, "TabSeparated");
    reply.headers["X-ClickHouse-Summary"] = SummaryOf(ask, *answer);
    return reply;
  }
  auto reply = Statement(ask, *lease, intake.text());
  return reply.ok() ? std::move(reply).value() : Failed(ask, reply.status());
}

HttpServerReply QueryHandler::Impl::Answer(const HttpServerRequest& request, RequestBody& body) {
  const auto plain = [](int status, std::string text) {
    HttpServerReply reply;
    reply.status = status;
    reply.body = std::move(text);
    return reply;
  };
  const bool is_read = request.method == "GET" || request.method == "HEAD";
  if (is_read && (request.path == "/ping" || (request.path == "/" && request.query.empty()))) {
    return plain(200, "Ok.\n");
  }
  if (request.path != "/" && request.path != "/query") {
    return plain(404, fmt::format("There is no handle {}\n", request.path));
  }
  if (request.method != "GET" && request.method != "POST") return plain(405, "Only GET and POST\n");
  if (const Status allowed = options.credentials.Check(request); !allowed.ok())
    return Failed({}, allowed);
  const auto ask = ReadQueryRequest(request, fmt::format("engine-{}-{}", getpid(), ++drawn_ids));
  return ask.ok() ? Execute(*ask, body) : Failed({}, ask.status());
}

QueryHandler::QueryHandler(Options options) : impl_(std::make_unique<Impl>(std::move(options))) {}
QueryHandler::~QueryHandler() = default;

HttpServerReply QueryHandler::Handle(const HttpServerRequest& request) {
  RequestBody body(request);
  const bool has_body = request.method != "GET" && request.method != "HEAD";
  HttpServerReply reply = impl_->Answer(request, body);
  reply.headers["X-ClickHouse-Timezone"] = impl_->options.timezone;
  // A client that reuses a connection with a rest of the last body on it would lose its next
  // request.
  if (has_body && !body.Drain()) reply.headers["Connection"] = "close";
  return reply;
}

Status QueryHandler::KillAll() {
  PF_ASSIGN(const auto connection, impl_->sessions.OpenConnection());
  PF_TRY(connection->Run("KILL QUERY WHERE query NOT LIKE 'KILL%' ASYNC", "TabSeparated", {}));
  return {};
}

void QueryHandler::CloseSessions() {
  impl_->sessions.CloseAll();
}

}  // namespace partforge
